"""Rows of native/masked: writes and reads by a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bool_, float32, int64

from . import Fails, Row, S, T

_NO_META = "the mask's elements decide the sizes"


def _mask(*sizes: int, layout: str | None = None) -> T:
    return T(*sizes, dtype=bool_, layout=layout)


def _fill(x: np.ndarray, mask: np.ndarray, value: Any) -> np.ndarray:
    return np.where(mask, np.asarray(value).astype(x.dtype), x)


def _select(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask]


def _scatter(x: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray:
    x, mask = np.broadcast_arrays(x, mask)
    made = x.copy()
    made[mask] = source.reshape(-1)[: mask.sum()]
    return made


def _scatter_back(grad: np.ndarray, mask: np.ndarray, sizes: Any) -> np.ndarray:
    made = np.zeros(int(np.prod(sizes)), grad.dtype)
    found = _select(grad, mask)[: made.size]
    made[: found.size] = found
    return made.reshape(sizes)


def _select_back(grad: np.ndarray, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return _scatter(np.zeros(x.shape, grad.dtype), mask, grad)


_NOT_BOOL = S(T(2), T(2, dtype=int64), 1)

ROWS = [
    Row(
        "masked_fill",
        [
            S(T(2, 3), _mask(2, 3), 2),
            S(T(2, 3, 4, 5), _mask(3, 1, 5), True),
            S(T(), _mask(), 1),
            S(T(0, 3), _mask(3), 1),
            S(T(2, 3), _mask(2, 3, layout="transposed"), T(dtype=int64)),
            S(T(2, 3), _mask(2, 1), T(dtype=float32)),
        ],
        _fill,
        out="same",
        errors=(
            Fails(_NOT_BOOL, errors.DtypeError, "masked_fill: 'mask' must be bool"),
            Fails(S(T(2), _mask(3), 1), errors.ShapeError, "masked_fill: 'mask' must broadcast"),
            Fails(
                S(T(2), _mask(2), 1j), errors.ArgumentError, "'value' must be real for f32", float32
            ),
            Fails(
                S(T(2), _mask(2), T(2)),
                errors.ArgumentError,
                "masked_fill: 'value' must be a number or a 0-d tensor",
            ),
        ),
    ),
    Row(
        "masked_scatter",
        [
            S(T(2, 3), _mask(2, 3), T(7)),
            S(T(3, 4), _mask(4), T(3, 4)),
            S(T(), _mask(), T(1)),
            S(T(0, 3), _mask(3), T(0)),
        ],
        _scatter,
        no_meta=_NO_META,
        out="same",
        errors=(
            Fails(
                S(T(90), _mask(90), T(1)),
                errors.ShapeError,
                "masked_scatter: 'source' must have an element for each",
            ),
        ),
    ),
    Row(
        "masked_scatter_backward",
        [S(T(2, 3), _mask(2, 3), (7,)), S(T(2, 3), _mask(2, 3), (3, 3))],
        _scatter_back,
        no_meta=_NO_META,
    ),
    Row(
        "masked_select",
        [S(T(2, 3), _mask(2, 3)), S(T(3), _mask(2, 1)), S(T(), _mask()), S(T(0, 3), _mask(3))],
        _select,
        no_meta=_NO_META,
        out="same",
        errors=(
            Fails(S(T(2), T(2)), errors.DtypeError, "masked_select: 'mask' must be bool", float32),
            Fails(S(T(2), _mask(3)), errors.ShapeError, "masked_select: 'mask' must broadcast"),
        ),
    ),
    Row("masked_select_backward", [S(T(6), T(2, 3), _mask(2, 3))], _select_back, no_meta=_NO_META),
]
