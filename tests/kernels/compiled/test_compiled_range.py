"""The compiled loops of family range have the bits of NumPy's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import range as numpys

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

WHOLE = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64]
FLOATING = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
SIZES = (0, 1, 2, 3, 255, 256, 257, 8192, 8193, 100_003)


def same(loop: str, of: Any, n: int, *scalars: Any) -> None:
    """Compare dense and strided results, with any number of threads."""
    wanted, found = np.zeros(n, of), np.zeros(n, of)
    getattr(numpys, loop)(wanted, *scalars)
    spaced = np.zeros(2 * n, of)[::2]
    for threads in (1, 3):
        gt.set_num_threads(threads)
        for out in (found, spaced):
            out[...] = 0
            getattr(stub.cpu("range"), loop)(out, *scalars)
            assert out.tobytes() == wanted.tobytes(), (loop, of, n, scalars, threads)


@pytest.mark.parametrize("of", [*WHOLE, *FLOATING, np.complex64])
def test_bits_are_numpys(of: Any) -> None:
    before = gt.get_num_threads()
    kind = np.dtype(of).kind
    try:
        with np.errstate(all="ignore"):
            for n in SIZES:
                for start, step in ((0, 1), (7, -3), (2**63 - 5, 2**40 + 1), (-(2**63), 5)):
                    same("arange", of, n, start, step)
                if kind not in "iu":
                    for start, step in ((-0.0, -0.0), (0.1, 0.3), (1e300, 1e290), (3.0, -1e-5)):
                        same("arange", of, n, start, step)
                if n:
                    for start, end in ((0, 1), (-3, 60)):
                        same("linspace", of, n, start, end, n)
                    if kind not in "iu":
                        same("linspace", of, n, -0.1, 1e30, n)
                        same("linspace", of, n, float("inf"), 1.0, n)
    finally:
        gt.set_num_threads(before)


@pytest.mark.parametrize("of", ["uint8", "int64", "float16", "bfloat16", "complex64", "complex32"])
def test_ranges_made_again_are_the_same(of: str) -> None:
    """The second and the third call for the same range use the short cut."""
    dtype = getattr(gt, of)
    for ends in ((5,), (600,), (3, 4000), (-7, 9000), (70_000, 70_900), (40_000,)):
        if of == "uint8" and min(ends) < 0:
            continue
        made = [gt.arange(*ends, dtype=dtype) for _ in range(4)]
        first = made[0]
        for other in made[1:]:
            assert other.shape == first.shape and other.dtype is dtype
            assert gt.equal(other.view(gt.uint8), first.view(gt.uint8))
        made[3].zero_()  # a separate result
        again = gt.arange(*ends, dtype=dtype)
        assert gt.equal(again.view(gt.uint8), first.view(gt.uint8))
