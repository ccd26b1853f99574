"""Rows of native/dropout: the masks come from bernoulli_ with seed 7."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core.dtype import bool_, from_numpy

from . import Row, S, T
from .random import REAL_FLOATS, chosen


def _dropped(input: np.ndarray, p: float, train: bool) -> np.ndarray:
    if p in (0, 1) or not train:
        return input * (1 - p) if train else input
    kept = chosen(input.shape, 1 - p, from_numpy(input.dtype))
    return input * (kept / input.dtype.type(1 - p)).astype(input.dtype)


def _native(input: np.ndarray, p: float, train: Any) -> list[np.ndarray]:
    kept = np.ones(input.shape, bool)
    if train in (True, None):
        kept = chosen(input.shape, 1 - p, bool_)
        input = ((input * kept).astype(input.dtype) * (1 / (1 - p))).astype(input.dtype)
    return [input, kept]


ROWS = [
    Row(
        "alpha_dropout",
        [S(T(2, 3, 2), 0.5, False), S(T(2, 3, 2), 0.5, True)],
        dtypes=REAL_FLOATS,
        may_copy=True,
        refuses_expanded=True,
    ),
    Row(
        "dropout",
        [S(T(2, 3), 0.5, True), S(T(2, 3), 0.25, False), S(T(2, 3), 1.0, True)],
        _dropped,
        dtypes=REAL_FLOATS,
        may_copy=True,
        refuses_expanded=True,
    ),
    Row(
        "feature_alpha_dropout",
        [S(T(2, 3, 2), 0.5, False), S(T(2, 3, 2), 0.5, True)],
        dtypes=REAL_FLOATS,
        may_copy=True,
        refuses_expanded=True,
    ),
    Row(
        "feature_dropout",
        [S(T(2, 3, 2), 0.5, False), S(T(2, 3, 2), 0.5, True)],
        dtypes=REAL_FLOATS,
        may_copy=True,
        refuses_expanded=True,
    ),
    Row(
        "native_dropout",
        [S(T(2, 3), 0.5, True), S(T(2, 3), 0.25, None), S(T(2), 0.5, False)],
        _native,
        result=lambda args, kwargs, of: (of, bool_),
        dtypes=REAL_FLOATS,
    ),
    Row(
        "native_dropout_backward",
        [S(T(2, 3), T(2, 3, dtype=bool_), 2.0)],
        lambda grad, mask, scale: grad * (mask * grad.dtype.type(scale)),
        dtypes=REAL_FLOATS,
    ),
]
