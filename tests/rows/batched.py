"""Rows of native/batched.py: products of batches of matrices."""

from __future__ import annotations

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import ALL, bool_, float32, float64

from . import Fails, Row, S, T
from .matmul import _NUMERIC

# Small values: their products and sums are exact, as for `mm`.
_SAMPLES = [
    S(T(4, 2, 3), T(4, 3, 2)),
    S(T(2, 0, 3), T(2, 3, 4)),
    S(T(2, 3, 0), T(2, 0, 2)),
    S(T(0, 2, 3), T(0, 3, 2)),
    S(T(3, 17, 5), T(3, 5, 66)),
    S(T(3, 5, 2), T(3, 2, 3, layout="transposed")),
]


def _sum(self, batch1, batch2, beta=1, alpha=1):
    return (0 if beta == 0 else beta * self) + alpha * np.matmul(batch1, batch2)


def _sum_of_all(self, batch1, batch2, beta=1, alpha=1):
    return beta * self + alpha * np.matmul(batch1, batch2).sum(0, batch1.dtype)


def _refusals(op, *before):
    return (
        Fails(
            S(*before, T(2, 3, 4), T(2, 3, 4)),
            errors.ShapeError,
            f"{op}: '{'batch2' if before else 'mat2'}' must have 2 matrices of 4 rows",
        ),
        Fails(
            S(*before, T(3, 4), T(2, 3, 4)),
            errors.ShapeError,
            f"{op}: '{'batch1' if before else 'self'}' must be a batch of matrices",
        ),
        Fails(
            S(*before, T(2, 3, 4), T(2, 4, 3, dtype=float64)),
            errors.DtypeError,
            f"{op}: '{'batch2' if before else 'mat2'}' must have",
            float32,
        ),
    )


_ADDED = [
    S(T(4), T(3, 2, 3), T(3, 3, 4)),
    S(T(3, 1, 4), T(3, 2, 3), T(3, 3, 4), beta=2, alpha=3),
    S(T(2, 1), T(3, 2, 3), T(3, 3, 4), beta=0),
    S(T(3, 2, 4), T(3, 2, 0), T(3, 0, 4)),
]

ROWS = [
    Row(
        "addbmm",
        [
            S(T(2, 4), T(3, 2, 3), T(3, 3, 4)),
            S(T(4), T(3, 2, 3), T(3, 3, 4), beta=2, alpha=3),
            S(T(2, 4), T(0, 2, 3), T(0, 3, 4)),
        ],
        _sum_of_all,
        out="same",
        dtypes=_NUMERIC,
        errors=_refusals("addbmm", T(3, 3)),
    ),
    Row(
        "baddbmm",
        _ADDED,
        _sum,
        out="same",
        dtypes=_NUMERIC,
        errors=(
            *_refusals("baddbmm", T(3)),
            Fails(
                S(T(5), T(3, 2, 3), T(3, 3, 4)),
                errors.ShapeError,
                r"baddbmm: 'self' must broadcast to \[3, 2, 4\]",
            ),
            Fails(S(T(4), T(3, 2, 3), T(3, 3, 4)), errors.DtypeError, "not be bool", bool_),
        ),
    ),
    # the sign of a zero in a complex sum of products depends on BLAS's order of additions
    Row(
        "bmm",
        _SAMPLES,
        np.matmul,
        out="same",
        dtypes=ALL,
        zeros_equal=True,
        errors=_refusals("bmm"),
    ),
]
