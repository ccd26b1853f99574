"""Rows of kernels/*/nonzero: where elements are not zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import int64

from . import Fails, Row, S, T, grid

_NO_META = "the elements decide the sizes"


def _places(x: np.ndarray) -> np.ndarray:
    return np.argwhere(x).astype(np.int64)


def _static(x: np.ndarray, *, size: int, fill_value: int = -1) -> np.ndarray:
    made = np.full((size, x.ndim), fill_value, np.int64)
    found = _places(x)[:size]
    made[: len(found)] = found
    return made


def _by_dimension(x: np.ndarray) -> list[np.ndarray]:
    return [column.astype(np.int64) for column in np.nonzero(np.atleast_1d(x))]


def _int64(*_: Any) -> Any:
    return int64


ROWS = [
    Row("argwhere", grid("exact"), _places, result=_int64, no_meta=_NO_META),
    Row(
        "nonzero",
        [*grid("exact"), S(T(5000))],
        _places,
        result=_int64,
        no_meta=_NO_META,
        out="same",
    ),
    Row("nonzero_numpy", grid("exact"), _by_dimension, result=_int64, no_meta=_NO_META),
    Row(
        "nonzero_static",
        [S(T(2, 3), size=4), S(T(7), size=9, fill_value=5), S(T(), size=2), S(T(0, 3), size=1)],
        _static,
        result=_int64,
        out="same",
        errors=(
            Fails(
                S(T(2), size=-1),
                errors.ArgumentError,
                "nonzero_static: 'size' must not be negative",
            ),
        ),
    ),
]
