"""Rows of kernels/*/matmul: products of matrices."""

from __future__ import annotations

import operator

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import ALL, BOOL, bool_, float32, float64, int32

from . import Fails, Row, S, T

# Small values: their products and sums are exact in f32, whatever the order, so no ulp is allowed.
_SAMPLES = [
    S(T(2, 3), T(3, 4)),
    S(T(1, 1), T(1, 1)),
    S(T(0, 3), T(3, 2)),
    S(T(2, 0), T(0, 3)),
    S(T(2, 3), T(3, 0)),
    S(T(17, 33), T(33, 18)),
    S(T(5, 2), T(2, 3, layout="transposed")),
]


def _refusals(op: str, second: str) -> tuple[Fails, ...]:
    return (
        Fails(S(T(2, 3), T(2, 3)), errors.ShapeError, "mm: 'mat2' must have 3 rows"),
        Fails(S(T(3), T(3, 2)), errors.ShapeError, f"{op}: 'self' must be a matrix"),
        Fails(S(T(2, 3), T(3)), errors.ShapeError, f"{op}: '{second}' must be a matrix"),
        Fails(
            S(T(2, 3), T(3, 2, dtype=float64)),
            errors.DtypeError,
            "mm: 'mat2' must have self's dtype f32",
            float32,
        ),
    )


def _sum(self, mat1, mat2, beta=1, alpha=1):
    return (0 if beta == 0 else beta * self) + alpha * np.matmul(mat1, mat2)


def _linear(x, weight, bias=None):
    return np.matmul(x, weight.T) + (0 if bias is None else bias)


_ADDED = [
    S(T(4), T(2, 3), T(3, 4)),
    S(T(2, 4), T(2, 3), T(3, 4)),
    S(T(2, 1), T(2, 3), T(3, 4)),
    S(T(), T(2, 3), T(3, 4), beta=2),
    S(T(4), T(2, 3), T(3, 4), beta=2, alpha=3),
    S(T(1, 4), T(2, 3), T(3, 4), beta=0),
    S(T(4), T(2, 0), T(0, 4), alpha=2),
    S(T(2), T(0, 3), T(3, 2)),
    S(T(17, 18), T(17, 33), T(33, 18)),
]
_NUMERIC = tuple(of for of in ALL if of.category != BOOL)

ROWS = [
    Row(
        "addmm",
        _ADDED,
        _sum,
        out="same",
        refuses=lambda meeting, kwargs, compute: compute is bool_,
        errors=(
            Fails(S(T(4), T(2, 3), T(2, 3)), errors.ShapeError, "addmm: 'mat2' must have 3 rows"),
            Fails(S(T(4), T(3), T(3, 2)), errors.ShapeError, "addmm: 'mat1' must be a matrix"),
            Fails(
                S(T(3), T(2, 3), T(3, 4)),
                errors.ShapeError,
                r"addmm: 'self' must broadcast to \[2, 4\]",
            ),
            Fails(
                S(T(4, dtype=float64), T(2, 3), T(3, 4)),
                errors.DtypeError,
                "addmm: 'self' must have mat1's dtype f32",
                float32,
            ),
            Fails(
                S(T(4), T(2, 3), T(3, 4), alpha=float("nan")),
                errors.NumberRangeError,
                "addmm: 'alpha' must be in the range of int32",
                int32,
            ),
        ),
    ),
    Row(
        "linear",
        [
            S(T(2, 3), T(4, 3), T(4)),
            S(T(2, 3), T(4, 3)),
            S(T(2, 5, 3), T(4, 3), T(4)),
            S(T(3), T(4, 3), T(4)),
            S(T(0, 3), T(4, 3), T(4)),
            S(T(2, 5, 0), T(4, 0), T(4)),
            S(T(0), T(4, 0), T(4)),
            S(T(2, 3), T(3)),
            S(T(3), T(3), T()),
        ],
        _linear,
        dtypes=_NUMERIC,
        errors=(
            Fails(
                S(T(2, 3), T(1, 4, 3)),
                errors.ShapeError,
                "linear: 'weight' must be a matrix or a vector",
            ),
            Fails(S(T(), T(3, 3)), errors.ShapeError, "linear: 'input' must have a dimension"),
        ),
    ),
    Row(
        "matmul",
        [
            *_SAMPLES,
            *[S(T(3), T(3, 2)), S(T(2, 3), T(3)), S(T(3), T(3)), S(T(0), T(0))],
            *[S(T(4, 2, 3), T(3, 2)), S(T(4, 2, 3), T(3)), S(T(3), T(4, 3, 2))],
            *[S(T(2, 3), T(4, 3, 2)), S(T(2, 1, 2, 3), T(4, 3, 2)), S(T(1, 2, 3), T(4, 3, 2))],
        ],
        np.matmul,
        out="same",
        dtypes=ALL,
        operator=operator.matmul,
        errors=(
            Fails(S(T(2, 3), T(2, 3)), errors.ShapeError, "mm: 'mat2' must have 3 rows"),
            Fails(S(T(3), T(2)), errors.ShapeError, "matmul: 'other' must have 3 rows"),
            Fails(S(T(2, 2, 3), T(3, 3, 2)), errors.ShapeError, "'other' must have batches"),
            Fails(S(T(2, 2, 3), T(2, 2)), errors.ShapeError, "matmul: 'other' must have 3 rows"),
            Fails(S(T(3), T()), errors.ShapeError, "matmul: 'other' must have a dimension"),
        ),
    ),
    Row("mm", _SAMPLES, np.matmul, out="same", errors=_refusals("mm", "mat2")),
]
