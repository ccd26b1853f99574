"""Products of batches of matrices by the compiled library, a product a thread.

The contract is that of `kernels/cpu/matmul.py`, which serves all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import blas, cpu
from ..cpu import matmul as numpys
from . import library

_TYPES = {"f": ("s", "f32"), "d": ("d", "f64"), "F": ("c", "c64"), "D": ("z", "c128")}
# Products to a matrix up to which loops of our own are faster than BLAS.
_SMALL = 1 << 15
# Products to a matrix of one row or column from which on NumPy calls BLAS's function for vectors.
_LONG = 1 << 12


def mm(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write the product to `out` and return it; all three have one dtype."""
    char = out.dtype.char
    if out.ndim != 3:
        return numpys.mm(a, b, out)
    if char in _TYPES:
        return out if _product(a, b, out) else numpys.mm(a, b, out)
    if out.dtype.itemsize != 2 or out.dtype.kind not in "fV":
        return numpys.mm(a, b, out)
    wide = mm(a.astype(np.float32), b.astype(np.float32), np.empty(out.shape, np.float32))
    np.copyto(out, wide, casting="unsafe")
    return out


def addmm(
    self: np.ndarray, a: np.ndarray, b: np.ndarray, beta: Any, alpha: Any, out: np.ndarray
) -> np.ndarray:
    """Write beta * self + alpha * (a @ b) to `out`, which may be `self`, and return it."""
    return numpys.addmm(self, a, b, beta, alpha, out, mm)


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Whether the library serves: then `out` is written."""
    if out.strides[2] != out.itemsize and out.shape[2] != 1:
        if out.strides[1] != out.itemsize:
            return False
        a, b, out = b.swapaxes(1, 2), a.swapaxes(1, 2), out.swapaxes(1, 2)
    letter, dtype = _TYPES[out.dtype.char]
    run = library.function("matmul", f"bmm {dtype}")
    count, m, n = out.shape
    products = m * n * a.shape[2]
    if run is None or (min(m, n) == 1 and products > _LONG):
        return False
    if products <= _SMALL and out.dtype.kind == "f":
        return not run(0, 0, a, b, out)
    gemm = blas.gemm(letter)
    if gemm is None or (count < cpu.get_num_threads() and max(m, n, a.shape[2]) > blas.SMALL):
        return False
    with blas.one_thread():
        return not run(*gemm, a, b, out)
