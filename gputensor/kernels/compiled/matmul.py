"""Matrix products by the compiled library: of batches, of matrices with few rows, and of bf16.

In a batch, each thread computes one product at a time. For few rows, BLAS computes the transposed
product. Products of bf16 use the CPU's bf16 instructions. The functions have the arguments and
results of `kernels/cpu/matmul.py`, to which they pass all other products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import blas, cpu
from ..cpu import matmul as numpys
from . import copy, library

_TYPES = {"f": ("s", "f32"), "d": ("d", "f64"), "F": ("c", "c64"), "D": ("z", "c128")}
# Below this number of multiplications per matrix, the library's own loops are faster than BLAS.
_SMALL = 1 << 15
# From this number of multiplications on, NumPy calls BLAS's matrix-vector function for a matrix
# with one row or column.
_LONG = 1 << 12
# The transposed product is faster under three conditions: there are at most _FEW_ROWS rows, there
# are at least _MANY_PRODUCTS multiplications, and the second operand is column-major, like the
# weights of a linear layer. BLAS then packs the smaller operand. 16 x 256 by 256 x 1024 took 112 us
# instead of 207 us, with OpenBLAS on AVX-512 in one thread.
_FEW_ROWS, _MANY_PRODUCTS = 64, 1 << 18
# From this number of rows on, packing the bf16 second operand costs less than casting it to f32.
_ROWS_OF_PAIRS = 4


def by_columns(m: int, n: int, k: int, is_column_major: bool) -> bool:
    """Return True if `mm` computes the product of f32 matrices (m, k) and (k, n) as a transposed
    product. is_column_major: the layout of the (k, n) matrix."""
    return is_column_major and 1 < m <= _FEW_ROWS and m * n * k >= _MANY_PRODUCTS and n > _FEW_ROWS


def mm(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write a @ b to `out` and return `out`. All three arrays have one dtype."""
    if _is_half(out):
        if not _pairs(a, b, out):
            copy.copy(out, product_of_halves(a, b, np.empty(out.shape, np.float32)))
        return out
    if out.ndim == 3 and out.dtype.char in _TYPES and _product(a, b, out):
        return out
    if out.ndim == 2 and out.dtype.char == "f" and out.flags.c_contiguous:
        k, n = b.shape
        if by_columns(len(a), n, k, b.flags.f_contiguous):
            copy.copy(out, numpys.dot(b.T, a.T).T)
            return out
    return numpys.mm(a, b, out)


def addmm(
    self: np.ndarray, a: np.ndarray, b: np.ndarray, beta: Any, alpha: Any, out: np.ndarray
) -> np.ndarray:
    """Write beta * self + alpha * (a @ b) to `out` and return `out`, which may be `self`."""
    if not _is_half(out):
        return numpys.addmm(self, a, b, beta, alpha, out, mm)
    added = _widened(self) if beta != 0 else self
    wide = np.empty(out.shape, np.float32)
    numpys.addmm(added, a, b, beta, alpha, wide, product_of_halves)
    copy.copy(out, wide)
    return out


def _is_half(x: np.ndarray) -> bool:
    return x.dtype.itemsize == 2 and x.dtype.kind in "fV"


def _widened(x: np.ndarray) -> np.ndarray:
    """Cast f16 or bf16 to f32."""
    made = np.empty(x.shape, np.float32)
    copy.copy(made, x)
    return made


def product_of_halves(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write the product of f16 or bf16 matrices to the f32 array `out` and return `out`."""
    return out if _pairs(a, b, out) else mm(_widened(a), _widened(b), out)


def _pairs(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Write the product of bf16 matrices to `out` (bf16 or f32). Return False if the library
    declines."""
    m, k = a.shape[-2:]
    if a.dtype.kind != "V" or m < _ROWS_OF_PAIRS or m * k * out.shape[-1] < _SMALL:
        return False
    run = library.function("matmul", "product bf16")
    if run is None or not out.flags.c_contiguous or not out.flags.aligned:
        return False
    return bool(run(*[x if x.ndim == 3 else x[None] for x in (a, b, out)]) == 0)


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Write the product to `out`. Return False if the library declines."""
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
