"""Matrix products by the compiled library: of large matrices, of batches, and of bf16.

Each thread of the library computes products of a batch, or blocks of a large result, with BLAS in
one thread. BLAS's own threads wait for each other in a loop: beside two busy processes on two CPUs,
a product of two matrices (512, 512) took 18 ms with them and 2.3 ms with the library's threads.
They also end the process if memory is short. For few rows, BLAS computes the transposed product.
Products of bf16 use the CPU's bf16 instructions. The functions have the arguments and results of
`kernels/cpu/matmul.py`, to which they pass all other products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import blas
from ..cpu import matmul as numpys
from . import copy, library

_TYPES = {"f": ("s", "f32"), "d": ("d", "f64"), "F": ("c", "c64"), "D": ("z", "c128")}
# Below this number of multiplications per matrix, the library's own loops are faster than BLAS.
_SMALL = 1 << 15
# Above this number, OpenBLAS would use its own threads. The library divides such a product of two
# matrices among its threads instead.
_LARGE = 1 << 18
# Above this number of multiplications, NumPy computes products with one row or one column, because
# it calls BLAS's matrix-vector function.
_LONG = 1 << 12
# From this number of rows on, packing the bf16 second operand costs less than casting it to f32.
_ROWS_OF_PAIRS = 4


def uses_threads(m: int, n: int, k: int) -> bool:
    """Return True if `mm` may divide the product of matrices (m, k) and (k, n) among threads."""
    return m > 1 and n > 1 and m * n * k > _LARGE


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
    products = m * n * k
    if out.dtype.char not in _TYPES or (out.ndim == 2 and not uses_threads(m, n, k)):
        return False
    if min(m, n) == 1 and products > _LONG:
        return False
    if added is not None and (products <= _SMALL or added.dtype != out.dtype):
        return False
    if out.strides[-1] != out.itemsize and n != 1:
        if out.strides[-2] != out.itemsize or (added is not None and added.ndim != out.ndim):
            return False
        a, b, out = b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2)
        added = None if added is None else added.swapaxes(-1, -2)
    letter, dtype = _TYPES[out.dtype.char]
    run = library.function("matmul", f"mm {dtype}")
    if run is None:
        return False
    if products <= _SMALL and out.dtype.kind == "f":
        return not run(0, 0, a, b, out)
    gemm = blas.gemm(letter)
    if gemm is None:
        return False
    if out.ndim == 2:
        if _is_symmetric(a, b):
            return False
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
