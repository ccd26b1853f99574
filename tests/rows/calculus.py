"""Rows of native/calculus: differences and integrals along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
)

from . import Fails, Row, S, T

_TYPES = (float16, bfloat16, float32, float64)
_ULP = {float16: 4, bfloat16: 4, float32: 4, float64: 4}
_WHY = "a sum, a product and a quotient, each rounded, and a running sum of a few"


def _areas(y: Any, x: Any, dx: float, dim: int) -> Any:
    wide = np.moveaxis(y.astype(np.float64), dim, -1)
    width: Any = dx
    if x is not None:
        width = np.diff(x.astype(np.float64))
    return (wide[..., 1:] + wide[..., :-1]) * width / 2


def _trapezoid(y: Any, x: Any = None, dx: float = 1, dim: int = -1) -> Any:
    return np.sum(_areas(y, x, dx, dim), -1)


def _running(y: Any, x: Any = None, dx: float = 1, dim: int = -1) -> Any:
    return np.moveaxis(np.cumsum(_areas(y, x, dx, dim), -1), -1, dim)


def _row(name: str, reference: Any) -> Row:
    return Row(
        name,
        [S(T(2, 4)), S(T(2, 4), dx=2.5, dim=0), S(T(2, 4), T(4))],
        reference,
        ulp=_ULP,
        why=_WHY,
        device_ulp=8,
        dtypes=_TYPES,
        errors=(
            Fails(S(T(2, 4), T(3)), errors.ShapeError, "'x' must have 4 points"),
            Fails(S(T(3)), errors.DtypeError, "'y' must not be bool", bool_),
        ),
    )


def _diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    parts = [y for y in (prepend, x, append) if y is not None] if n else [x]
    return np.diff(np.concatenate(parts, dim), n, dim)


_POINTS = T(3, values="positive", dtype=float32, layout="contiguous")


def _slopes(x: Any, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    dims = tuple(range(x.ndim)) if dim is None else tuple(np.atleast_1d(dim))
    steps = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return [np.gradient(wide, h, axis=d, edge_order=edge_order) for h, d in zip(steps, dims)]


ROWS = [
    _row("cumulative_trapezoid", _running),
    Row(
        "diff",
        [
            S(T(5)),
            S(T(3, 4), 2, 0),
            S(T(3, 4), prepend=T(3, 1)),
            S(T(2, 3), 5),
            S(T(2, 3), 0),
            S(T(2, 3), 0, prepend=T(2, 1)),
        ],
        _diff,
        out="same",
        dtypes=(float32, float64, int32, uint8, bool_),
        errors=(
            Fails(S(T()), errors.ShapeError, "diff: 'self' must have at least one dimension"),
            Fails(S(T(3), -1), errors.ArgumentError, "diff: 'n' must not be negative"),
        ),
    ),
    Row(
        "gradient",
        [
            S(T(3, 4)),
            S(T(3, 4), spacing=2.0, dim=1),
            S(T(5), edge_order=2),
            S(T(3, 4), spacing=[2.0, 0.5]),
            S(T(3, 4), dim=[1], spacing=[0.5]),
            S(T(3, 4), dim=[0, 1]),
            S(T(3, 4), spacing=2.0, dim=[0, 1]),
            S(T(3), spacing=[_POINTS]),
            S(T(2, 3), dim=[1], spacing=[_POINTS]),
        ],
        _slopes,
        ulp={float32: 32, float64: 32},
        device_ulp=32,
        dtypes=(float32, float64),
        why="differences, which cancel, quotients and a sum of three",
        errors=(
            Fails(S(T(3)), errors.DtypeError, "gradient: 'self' must not be bool", bool_),
            Fails(S(T(3), edge_order=3), errors.ArgumentError, "'edge_order' must be 1 or 2"),
            Fails(S(T(2), edge_order=2), errors.ShapeError, "'self' must have more than 2"),
            Fails(S(T(3, 3), spacing=[1.0]), errors.ArgumentError, "'spacing' must hold 2"),
        ),
    ),
    Row(
        "trace",
        [S(T(3, 3)), S(T(2, 5)), S(T(0, 3))],
        lambda x: np.sum(np.diagonal(x).astype(x.dtype if x.dtype.kind in "iub" else np.float64)),
        ulp=1,
        why="the sum of a few numbers is rounded once",
        device_ulp=1,
        out="same",
        dtypes=(float16, bfloat16, float32, float64, int64, uint8),
        result=lambda args, kwargs, of: int64 if of is uint8 else of,
        errors=(Fails(S(T(3)), errors.ShapeError, "trace: 'self' must be a matrix"),),
    ),
    _row("trapezoid", _trapezoid),
    _row("trapz", _trapezoid),
]
