"""Rows of kernels/*/matmul: products of matrices."""

from __future__ import annotations

import operator

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import float32, float64

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


ROWS = [
    Row(
        "matmul", _SAMPLES, np.matmul, operator=operator.matmul, errors=_refusals("matmul", "other")
    ),
    Row("mm", _SAMPLES, np.matmul, out="same", errors=_refusals("mm", "mat2")),
]
