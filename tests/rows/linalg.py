"""Rows of native/linalg.py: powers, exponentials and products of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import ALL, bool_, int64

from . import Fails, Row, S, T
from .factor import SOLVED, A, fails, one, row

_NUMBERS = tuple(d for d in ALL if d is not bool_)
FLOATS = tuple(d for d in ALL if d.category > int64.category and d.short != "c32")
_EXACT: dict[str, Any] = {"ulp": 0, "device_ulp": 0, "why": ""}
_POWERS = [S(T(3, 2, 2), n) for n in (0, 1, 2, 3, 5)] + [S(A, -2)]


def _vander(x: Any, N: Any = None) -> Any:
    x = np.atleast_1d(x)
    count = x.shape[-1] if N is None else N
    x = x.astype(np.int64) if x.dtype.kind in "iub" else x
    return np.cumprod(np.stack([np.ones_like(x)] + [x] * (count - 1), -1), -1, dtype=x.dtype)


def _vander_dtype(args: Any, kwargs: Any, of: Any) -> Any:
    return int64 if of.category <= int64.category else of


def _cross(a: Any, b: Any, dim: Any = -1) -> Any:
    a, b = np.broadcast_arrays(a, b)
    dim = next(d for d, n in enumerate(a.shape) if n == 3) if dim is None else dim
    x, y = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
    parts = [x[i] * y[j] - x[j] * y[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.moveaxis(np.stack(parts), 0, dim)


def _exp(x: Any) -> Any:
    """The exponential of matrices of one element; f16 and bf16 are rounded once."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return np.exp(wide).astype(x.dtype)


def _cross_of_first(a: Any, b: Any, dim: Any = None) -> Any:
    return _cross(a, b, dim)


ROWS = [
    row("cross", [S(T(3, 4), T(3, 4)), S(T(2, 3), T(1, 3), 1)], _cross_of_first, **_EXACT,
        dtypes=_NUMBERS,
        errors=(Fails(S(T(2), T(2)), errors.ShapeError, "'self' must have a dimension of size"),)),
    row("linalg_cross", [S(T(2, 3), T(2, 3)), S(T(3, 2), T(3, 1), dim=0), S(T(0, 3), T(1, 3))],
        _cross, **_EXACT, dtypes=_NUMBERS, errors=(
            Fails(S(T(2), T(2)), errors.ShapeError, "cross: 'self' must have size 3"),
            Fails(S(T(3), T(1, 3)), errors.ShapeError, "cross: 'other' must have 1 dimensions"),
        )),
    Row("linalg_diagonal", [S(T(2, 3)), S(T(2, 3), offset=1), S(T(2, 3, 2), dim1=0, dim2=1)],
        lambda x, offset=0, dim1=-2, dim2=-1: np.diagonal(x, offset, dim1, dim2)),
    row("linalg_matrix_exp", one(), _exp, dtypes=FLOATS, errors=fails("matrix_exp", "self")),
    row("linalg_matrix_power", _POWERS, np.linalg.matrix_power, **SOLVED),
    row("linalg_vander", [S(T(3)), S(T(2, 3), N=2), S(T(1), N=5), S(T(), N=3)], _vander, **_EXACT,
        dtypes=_NUMBERS, result=_vander_dtype, errors=(
            Fails(S(T()), errors.ArgumentError, "vander: 'N' must be above 1"),
            Fails(S(T(2), N=0), errors.ArgumentError, "vander: 'N' must be above 1"))),
    row("matrix_exp", one(), _exp, dtypes=FLOATS, errors=fails("matrix_exp", "self")),
    row("matrix_power", _POWERS, np.linalg.matrix_power, **SOLVED,
        errors=(Fails(S(T(2, 3), 2), errors.ShapeError, "'self' must be a square matrix"),
                Fails(S(T(2, 2), 2.0), TypeError, "'n' must be an int"))),
]  # fmt: skip
