"""out = a @ b for matrices.                                                         family: matmul

Types    f32, f64 and complex through BLAS; f16 and bf16 in f32, rounded once; integers exactly,
         modulo their width; bool: any of all pairs.
Shapes   a (m, k), b (k, n), out (m, n), any strides; out overlaps neither. k = 0 gives zeros.
"""

from __future__ import annotations

import numpy as np

_BLAS = frozenset("fdFD")
_dot = np.ndarray.dot


def mm(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write the product to `out` and return it; all three have one dtype."""
    if a.dtype.char in _BLAS:
        return _product(a, b, out)
    if a.dtype.kind in "biu":
        return np.matmul(a, b, out)
    wide = _product(a.astype(np.float32), b.astype(np.float32), np.empty(out.shape, np.float32))
    np.copyto(out, wide, casting="unsafe")
    return out


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """BLAS, whose result is row-major: a column-major `out` takes the transposed product."""
    if out.flags.c_contiguous:
        return _dot(a, b, out)
    if out.flags.f_contiguous:
        _dot(b.T, a.T, out.T)
    else:
        np.copyto(out, _dot(a, b))
    return out
