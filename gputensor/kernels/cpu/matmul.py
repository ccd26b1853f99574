"""out = a @ b for matrices, and beta * self + alpha * (a @ b).                       family: matmul

Types    f32, f64 and complex through BLAS; f16 and bf16 in f32, rounded once; integers exactly,
         modulo their width; bool: true if any product is true.
Shapes   a (m, k), b (k, n), out (m, n), any strides; out overlaps neither a nor b. k = 0 gives
         zeros. All three may have one leading batch dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cast import number

_BLAS = frozenset("fdFD")
# `dot` multiplies two matrices of a BLAS type. The result is row-major.
dot = np.ndarray.dot


def uses_threads(m: int, n: int, k: int) -> bool:
    """Return False: without compiled loops, `mm` never divides the product of matrices (m, k) and
    (k, n) among threads."""
    return False


def mm(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write a @ b to `out` and return `out`. All three arrays have one dtype."""
    if a.dtype.char in _BLAS:
        return _product(a, b, out)
    if a.dtype.kind in "biu":
        return _integers(a, b, out)
    wide = _product(a.astype(np.float32), b.astype(np.float32), np.empty(out.shape, np.float32))
    np.copyto(out, wide, casting="unsafe")
    return out


def addmm(
    self: np.ndarray, a: np.ndarray, b: np.ndarray, beta: Any, alpha: Any, out: np.ndarray,
    product: Callable[..., np.ndarray] = mm,
) -> np.ndarray:  # fmt: skip
    """Write beta * self + alpha * (a @ b) to `out` and return `out`, which may be `self`. If beta
    is 0, `self` is not read. f16 and bf16 operands are scaled and added in f32, and the sum is
    rounded once. product: a function with the arguments of `mm`."""
    is_half = out.dtype.itemsize == 2 and out.dtype.kind in "fV"
    if self is out or is_half:
        wide = np.dtype(np.float32) if is_half else out.dtype
        made = product(
            a.astype(wide, copy=False), b.astype(wide, copy=False), np.empty(out.shape, wide)
        )
    else:
        made = product(a, b, out)
    if alpha != 1:
        np.multiply(made, number(alpha, made.dtype), made)
    if beta != 0:
        added = self.astype(made.dtype, copy=False)
        np.add(made, added if beta == 1 else np.multiply(added, number(beta, made.dtype)), made)
    if made is not out:
        np.copyto(out, made, casting="unsafe")
    return out


def added(self: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return self + a @ b as a new array, for BLAS types."""
    made: np.ndarray = dot(a, b)
    np.add(made, self, made)
    return made


# If there are more than this many multiplications per element of the operands, BLAS in f64 is
# faster than NumPy's integer loops, although both operands must be cast.
_MANY = 16


def _integers(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Multiply integer matrices. If no sum can reach 2**53, f64 is exact and BLAS is used.
    Otherwise NumPy's loops are used."""
    if a.dtype.kind == "b" or a.size * b.shape[-1] <= _MANY * (a.size + b.size):
        return np.matmul(a, b, out)
    if _magnitude(a) * _magnitude(b) * a.shape[-1] >= 1 << 53:
        return np.matmul(a, b, out)
    wide = np.matmul(a.astype(np.float64), b.astype(np.float64))
    np.copyto(out, wide.astype(np.int64), casting="unsafe")
    return out


def _magnitude(x: np.ndarray) -> int:
    return max(abs(int(x.min())), abs(int(x.max())))


# Results of at least this many bytes are computed by `matmul` instead of `dot`. `dot` has fewer
# checks but first fills the result with zeros in one thread. For a large, newly allocated result
# this fill takes a sixth of the time.
_LARGE = 1 << 18


# OpenBLAS packs all rows of the first operand, some hundred columns at a time, and does not release
# the memory of the packed rows: 22 MB per thread for 33,278 rows, as in the weight gradient of an
# output layer with one row per word of a vocabulary. A product is therefore divided into blocks of
# at least _ROWS rows, which halves the memory in this example. All threads wait at the end of a
# block, so products with fewer than _WORK multiplications per row are not divided.
_ROWS, _WORK = 1 << 14, 1 << 14


def _in_blocks(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    count = max(len(a) // _ROWS, 1) if b.size >= _WORK else 1
    step = -(-len(a) // count)
    for first in range(0, len(a), step):
        np.matmul(a[first : first + step], b, out[first : first + step])
    return out


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write the product to `out`. BLAS writes row-major results. If `out` is column-major, the
    transposed product is computed. Batches use NumPy's matmul, which copies operands that BLAS
    cannot read."""
    if a.ndim > 2:
        return np.matmul(a, b, out)
    if out.flags.c_contiguous:
        if out.nbytes >= _LARGE and a.shape[1] > 1 and a.flags.forc and b.flags.forc:
            return _in_blocks(a, b, out)
        return dot(a, b, out)
    if out.flags.f_contiguous:
        _product(b.T, a.T, out.T)
    else:
        np.copyto(out, dot(a, b))
    return out
