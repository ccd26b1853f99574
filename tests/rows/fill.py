"""Rows of kernels/*/fill: one value into every element."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import float32, float64, int64

from . import Fails, Row, S, T, grid
from .copy import converted


def _filled(self: np.ndarray, value: Any) -> np.ndarray:
    return np.broadcast_to(converted(np.asarray(value), self.dtype), self.shape)


def _with_diagonal(self: np.ndarray, fill_value: Any, wrap: bool = False) -> np.ndarray:
    made = self.copy()
    np.fill_diagonal(made, converted(np.asarray(fill_value), self.dtype), wrap)
    return made


ROWS = [
    Row(
        "fill",
        [S(*sample.args, value) for sample in grid() for value in (3, 2.5, True)]
        # as in PyTorch, an expanded tensor takes a number, but not a tensor
        + [
            S(T(2, 3, layout="step 2"), T()),
            S(T(2, 3, layout="transposed"), T(dtype=float64)),
            S(T(), T(dtype=int64)),
            S(T(0, 3), T()),
        ],
        _filled,
        out="same",
        takes_expanded=True,
        errors=(
            Fails(S(T(2), "1"), TypeError, "fill_?: 'value' must be a number"),
            Fails(
                S(T(2), T(2)),
                errors.ArgumentError,
                "fill_?: 'value' must be a number or a 0-d tensor",
            ),
            Fails(
                S(T(2), 1j), errors.ArgumentError, "fill_?: 'value' must be real for f32", float32
            ),
        ),
    ),
    Row(
        "fill_diagonal_",
        [
            S(T(3, 4), 2),
            S(T(7, 2), 3, True),
            S(T(2, 2, 2), 1.5),
            S(T(3, 3, layout="transposed"), True),
        ],
        _with_diagonal,
        refuses_expanded=True,
        errors=(
            Fails(S(T(3), 1), errors.ShapeError, "'self' must have at least two dimensions"),
            Fails(S(T(2, 2, 3), 1), errors.ShapeError, "'self' must have dimensions of one size"),
        ),
    ),
    Row("zero_", grid(), np.zeros_like),
]
