"""The compiled loops of family unique find the runs that NumPy's functions find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import unique

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

DTYPES = [
    gt.bool, gt.uint8, gt.int8, gt.uint16, gt.int16, gt.uint32, gt.int32, gt.uint64, gt.int64,
    gt.float16, gt.float32, gt.float64,
]  # fmt: skip
_random = np.random.default_rng(0)


def _repeated(n: int, of: Any, most: int) -> np.ndarray:
    """Return runs of random values; with most = 1 nearly all neighbours differ."""
    made = np.repeat(_random.integers(0, 99, n), _random.integers(1, most + 1, n))[:n]
    if of.category >= gt.float32.category:
        special = np.array([-0.0, 0.0, np.nan])
        made = np.where(made < 10, special[made % 3], made * 0.5)
    return made.astype(of.np)


@pytest.mark.parametrize("of", DTYPES, ids=lambda d: d.short)
def test_runs_are_those_of_numpy(of: Any) -> None:
    for n in (0, 1, 2, 7, 4095, 4096, 4097, 20_000):
        for most in (1, 3, 900):
            x = _repeated(n, of, most)
            for numbers, counts in ((False, False), (True, False), (False, True), (True, True)):
                found = stub.cpu("unique").runs(x, numbers, counts)
                wanted = unique.runs(x, numbers, counts)
                assert found[0].tobytes() == wanted[0].tobytes()
                assert (found[1] == wanted[1]).all() and len(found[1]) == len(wanted[1])
                assert (found[2] == wanted[2]).all() and len(found[2]) == len(wanted[2])
    every_second = _repeated(999, of, 3)[::2]
    found = stub.cpu("unique").runs(every_second, False, False)[0]
    assert found.tobytes() == unique.runs(every_second, False, False)[0].tobytes()


def test_results_of_the_operators() -> None:
    x = gt.tensor(_random.integers(0, 3, (40, 1000)))
    before = gt.get_num_threads()
    try:
        for count in (1, 2, 3):
            gt.set_num_threads(count)
            values, inverse, counts = gt.unique_consecutive(
                x, return_inverse=True, return_counts=True
            )
            assert inverse.shape == x.shape and gt.equal(values[inverse], x)
            assert counts.sum() == x.numel() and (values[1:] != values[:-1]).all()
            assert gt.equal(gt.repeat_interleave(values, counts), x.reshape(-1))
            for places in (False, True):
                found = gt.unique(x, return_inverse=places, return_counts=True)
                assert found[0].tolist() == [0, 1, 2] and found[-1].sum() == x.numel()
                assert not places or gt.equal(found[1], x)
    finally:
        gt.set_num_threads(before)
