"""The compiled loops that make images of another size, against NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import resample as numpys
from gputensor.kernels.cpu.resample import Taps

from .layouts import LAYOUTS

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

# Planes, sizes of x and of out, and lanes.
CASES: list[tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    (3, (5,), (9,), ()), (40, (300,), (700,), ()), (2, (5,), (9,), (7,)), (1, (4, 6), (4, 13), ()),
    (5, (7, 9), (3, 20), (3,)), (2, (3, 4, 5), (6, 2, 11), ()), (1, (3, 4, 5), (6, 2, 11), (4,)),
    (1, (90, 70), (200, 150), (3,)), (3, (1, 1), (1, 1), ()), (0, (3,), (4,), ()),
]  # fmt: skip
_random = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def _taps(n: int, m: int, each: int, has_weights: bool, of: Any) -> Taps:
    """each: 0 for any number of taps, none included."""
    counts = np.full(m, each) if each else _random.integers(0, 5, m)
    at = _random.integers(0, n, counts.sum()).astype(np.int32)
    by = _random.random(len(at)).astype(of) if has_weights else None
    if each:
        return Taps(each, at, by)
    return Taps(0, np.concatenate([[0], np.cumsum(counts), at]).astype(np.int32), by)


@pytest.mark.parametrize("of", [np.float32, np.float64])
@pytest.mark.parametrize("each", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("has_weights", [True, False])
def test_resample(of: Any, each: int, has_weights: bool) -> None:
    loop = stub.cpu("resample").resample
    assert loop.__module__.endswith("compiled.resample")
    for planes, sizes, out, lanes in CASES:
        x = _random.standard_normal((planes, *sizes, *lanes)).astype(of)
        taps = [_taps(n, m, each, has_weights, of) for n, m in zip(sizes, out)]
        expected = np.empty((planes, *out, *lanes), of)
        numpys.resample(x, expected, taps)
        for layout in LAYOUTS:
            bits = set()
            for threads in (1, 3):
                gt.set_num_threads(threads)
                found = np.full(expected.shape, np.nan, of)
                loop(layout(x), found, taps)
                tolerance = 10 * float(np.finfo(of).eps)
                np.testing.assert_allclose(found, expected, tolerance, tolerance)
                bits.add(found.tobytes())
            assert len(bits) == 1
