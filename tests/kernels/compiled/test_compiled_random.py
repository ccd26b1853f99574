"""The compiled loops of family random give NumPy's numbers, except for the last bits of elementary
functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import random
from gputensor.kernels.cpu.quiet import run

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

FLOATS = [gt.float16, gt.bfloat16, gt.float32, gt.float64, gt.complex64, gt.complex128]
WHOLE = [
    gt.bool, gt.uint8, gt.int8, gt.uint16, gt.int16, gt.uint32, gt.int32, gt.uint64, gt.int64,
    *FLOATS[:4],
]  # fmt: skip
SIZES = (0, 1, 2, 3, 5, 8, 255, 256, 257, 20_001)
STREAMS = [(0, 0), (2**64 - 1, 5), (-1, 5), (42, 2**40), (1 << 63, 2**63 - 9)]


def _both(op: str, of: Any, n: int, *given: Any) -> tuple[np.ndarray, np.ndarray]:
    made, wanted = np.zeros(n, of.np), np.zeros(n, of.np)
    getattr(stub.cpu("random"), op)(made, *given)
    run(getattr(random, op), wanted, *given)
    return made, wanted


@pytest.mark.parametrize("of", FLOATS, ids=lambda d: d.short)
def test_uniform_numbers_have_the_same_bits(of: Any) -> None:
    for seed, offset in STREAMS:
        for n in SIZES:
            for low, high in ((0.0, 1.0), (-3.5, 17.25), (2.0, 2.0)):
                made, wanted = _both("uniform", of, n, seed, offset, low, high)
                assert made.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("of", WHOLE, ids=lambda d: d.short)
def test_whole_numbers_are_the_same(of: Any) -> None:
    for seed, offset in STREAMS[1:]:
        for n in SIZES:
            for limit in (0, 1, 1 << 51, 1 << 53):
                made, wanted = _both("bernoulli", of, n, seed, offset, limit, 0)
                assert made.tobytes() == wanted.tobytes()
            for first, count in (
                (0, 2), (-3, 7), (0, 1), (5, 1000003), (-(1 << 63), 1 << 64), (0, (1 << 63) + 1),
                (0, (1 << 64) - 1), (0, 1 << 63),
            ):  # fmt: skip
                if of is gt.bool and count != 2:
                    continue
                made, wanted = _both("integers", of, n, seed, offset, first, count)
                assert made.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("of", FLOATS, ids=lambda d: d.short)
@pytest.mark.parametrize(
    "op, first, second",
    [("normal", 1.5, 2.0), ("log_normal", 0.0, 0.5), ("exponential", 2.0, 0.0),
     ("cauchy", 1.0, 0.5)],
)  # fmt: skip
def test_other_numbers_differ_in_last_bits(op: str, first: float, second: float, of: Any) -> None:
    if of.category == gt.complex64.category and op != "normal":
        return
    bound = {2: 1e-2, 4: 2e-6, 8: 4e-15}[of.itemsize // (2 if of.is_complex else 1)]
    for seed, offset in STREAMS:
        for n in SIZES:
            made, wanted = _both(op, of, n, seed, offset, first, second)
            np.testing.assert_allclose(
                made.astype(np.complex128), wanted.astype(np.complex128), bound, bound
            )


@pytest.mark.parametrize("of", WHOLE[1:], ids=lambda d: d.short)
def test_tries_are_the_same_but_beside_whole_numbers(of: Any) -> None:
    made, wanted = _both("geometric", of, 20_001, 7, 9, 0.3, 0.0)
    assert np.count_nonzero(made != wanted) < 3
    assert np.abs(made.astype(float) - wanted.astype(float)).max() <= 1


@pytest.mark.parametrize("n", [0, 1, 2, 100, 4096, 4097, 8192, 8193, 100_003, 1 << 18])
def test_a_permutation_is_that_of_numpys_sort(n: int) -> None:
    for seed, offset in ((0, 0), (-5, 2**40)):
        made, wanted = _both("permutation", gt.int64, n, seed, offset)
        assert (made == wanted).all()


def test_any_layout_and_number_of_threads_has_the_same_bits() -> None:
    before = gt.get_num_threads()
    draws = stub.cpu("random")
    n = 3 * (1 << 14) + 5
    try:
        for op, numbers in (("normal", (0.0, 1.0)), ("uniform", (0.0, 1.0)), ("integers", (0, 9))):
            found = []
            for count in (1, 2, 3):
                gt.set_num_threads(count)
                dense, strided = np.empty(n), np.zeros((2, n)).T[:, 0]
                getattr(draws, op)(dense, 7, 100, *numbers)
                getattr(draws, op)(strided, 7, 100, *numbers)
                later = np.empty(n - 400)
                getattr(draws, op)(later, 7, 200, *numbers)
                assert (strided == dense).all() and (later == dense[400:]).all()
                found.append(dense.tobytes())
            assert found[0] == found[1] == found[2]
        found = []
        for count in (1, 2, 3):
            gt.set_num_threads(count)
            found.append(gt.randperm(70_000, generator=gt.Generator().manual_seed(3)).tolist())
        assert found[0] == found[1] == found[2]
    finally:
        gt.set_num_threads(before)
