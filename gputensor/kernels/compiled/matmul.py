"""Matrix products by the compiled library: of large matrices, of batches, and of bf16.

Products of f32 and f64 have the library's own loops. An element's bits depend only on its row and
its column, not on the other rows, the layout or the number of threads. Complex products, and those
with few rows or columns, are computed by BLAS. For complex products each thread of the library
calls BLAS in one thread, because BLAS's own threads wait for each other in a loop: beside two busy
processes on two CPUs, a product of two matrices (512, 512) took 18 ms with them and 2.3 ms with the
library's threads. They also end the process if memory is short. Products of bf16 use the CPU's bf16
instructions. The functions have the arguments and results of `kernels/cpu/matmul.py`, to which they
pass all other products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import blas
from ..cpu import matmul as numpys
from . import copy, library

_REAL = {"f": "f32", "d": "f64"}
_COMPLEX = {"F": ("c", "c64"), "D": ("z", "c128")}
# Up to this number of multiplications per matrix, loops without packed operands are faster.
_SMALL = 1 << 15
# Up to this number, NumPy computes a product of two matrices by one direct call of BLAS, which uses
# one thread.
_LARGE = 1 << 18
# Above this number of multiplications, NumPy computes products with fewer than _FEW rows or
# columns, because BLAS reads the other operand only once.
_LONG, _FEW = 1 << 12, 4
# From this number of rows on, packing the bf16 second operand costs less than casting it to f32.
_ROWS_OF_PAIRS = 4


def uses_threads(m: int, n: int, k: int) -> bool:
    """Return True if `mm` may divide the product of matrices (m, k) and (k, n) among threads."""
    return min(m, n) >= _FEW and m * n * k > _LARGE


def mm(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write a @ b to `out` and return `out`. All three arrays have one dtype."""
    if _is_half(out):
        if not _pairs(a, b, out):
            copy.copy(out, product_of_halves(a, b, np.empty(out.shape, np.float32)))
        return out
    return out if _product(a, b, out) else numpys.mm(a, b, out)


def addmm(
    self: np.ndarray, a: np.ndarray, b: np.ndarray, beta: Any, alpha: Any, out: np.ndarray
) -> np.ndarray:
    """Write beta * self + alpha * (a @ b) to `out` and return `out`, which may be `self`."""
    if not _is_half(out):
        if beta == 1 and alpha == 1 and _product(a, b, out, self):
            return out
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


def _product(
    a: np.ndarray, b: np.ndarray, out: np.ndarray, added: np.ndarray | None = None
) -> bool:
    """Write the product, plus `added` if given, to `out`. Return False if the library declines."""
    m, n = out.shape[-2:]
    k = a.shape[-1]
    products, char = m * n * k, out.dtype.char
    if out.ndim == 2 and not uses_threads(m, n, k):
        return False
    if min(m, n) < _FEW and products > _LONG:
        return False
    if added is not None and (products <= _SMALL or added.dtype != out.dtype):
        return False
    if out.ndim == 2 and _is_symmetric(a, b):
        return False
    operands = (a, b, out) if added is None else (a, b, out, added)
    if char in _COMPLEX:
        return _by_blas(*operands)
    if char not in _REAL:
        return False
    if products > _SMALL:
        run = library.function("matmul", f"gemm {_REAL[char]}")
        return run is not None and not run(*operands)
    run = library.function("matmul", f"small {_REAL[char]}")
    if out.strides[-1] != out.itemsize and n != 1:
        if out.strides[-2] != out.itemsize:
            return False
        a, b, out = b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2)
    return run is not None and not run(a, b, out)


def _by_blas(
    a: np.ndarray, b: np.ndarray, out: np.ndarray, added: np.ndarray | None = None
) -> bool:
    """The same for complex matrices: each thread of the library calls BLAS."""
    if out.strides[-1] != out.itemsize and out.shape[-1] != 1:
        if out.strides[-2] != out.itemsize or (added is not None and added.ndim != out.ndim):
            return False
        a, b, out = b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2)
        added = None if added is None else added.swapaxes(-1, -2)
    letter, dtype = _COMPLEX[out.dtype.char]
    run, gemm = library.function("matmul", f"mm {dtype}"), blas.gemm(letter)
    if run is None or gemm is None:
        return False
    if out.ndim == 2:
        a, b = _lines(a), _lines(b)
    with blas.one_thread():
        return not run(*gemm, a, b, out, *(() if added is None else (added,)))


def _is_symmetric(a: np.ndarray, b: np.ndarray) -> bool:
    """Return True if `b` is a transposed view of `a`. NumPy then computes only half of the
    product."""
    return (
        a.strides == b.strides[::-1] and a.shape == b.shape[::-1]
        and a.__array_interface__["data"] == b.__array_interface__["data"]
    )  # fmt: skip


def _lines(x: np.ndarray) -> np.ndarray:
    """Return x itself if its rows or columns are dense, otherwise a dense copy."""
    if x.flags.forc or (x.itemsize in x.strides and min(x.strides) > 0):
        return x
    return copy.contiguous(x)
