"""Rows of kernels/*/gather: reads of elements by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bool_, float32, int16, int32, int64

from . import Fails, Row, S, T


def at(*sizes: int, dtype: Any = int64, layout: str | None = None) -> T:
    """Return an operand of indices from 0 to 2."""
    return T(*sizes, values="classes", dtype=dtype, layout=layout)


def key(indices: Any) -> tuple[Any, ...]:
    """Return the index for NumPy; None in `indices` stands for a whole dimension."""
    return tuple([slice(None) if i is None else i for i in indices])


def read(x: np.ndarray, indices: Any) -> np.ndarray:
    return x[key(indices)]


def corner(x: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    """Return the part of x that gather reads: in other dimensions no more than the index has."""
    if not x.ndim:
        return x.reshape(1)
    cut = [slice(n) for n in np.atleast_1d(index).shape]
    cut[dim] = slice(None)
    return x[tuple(cut)]


def _gather(x: np.ndarray, dim: int, index: np.ndarray, *, sparse_grad: bool = False) -> Any:
    if not index.size:
        return np.empty(index.shape, x.dtype)
    found = np.take_along_axis(corner(x, index, dim), np.atleast_1d(index), dim)
    return found.reshape(index.shape)


def _along(x: np.ndarray, indices: np.ndarray, dim: int | None = None) -> np.ndarray:
    if dim is None:
        return np.take(x.reshape(-1), indices.reshape(-1))
    return np.take_along_axis(x, indices, dim)


def _masked(x: np.ndarray, mask: np.ndarray, indices: Any, fill: Any) -> np.ndarray:
    return np.where(mask, x[key(indices)], np.asarray(fill).astype(x.dtype))


INDICES = [
    S(T(3, 4), [at(2)]),
    S(T(3, 4), [None, at(2, 2)]),
    S(T(3, 3, 4), [at(2), at(2, 1)]),
    S(T(3, 4, 3), [at(2), None, at(3, 2, layout="transposed")]),
    S(T(3, 3, 4, 5), [None, at(2, dtype=int32), at(), None]),
    S(T(0, 3), [None, at(2)]),
]
_SLICES = [
    S(T(3, 4), 0, at(2)),
    S(T(2, 3, 4), -1, at(5, dtype=int32)),
    S(T(4, 3, 2, 5), 1, at(2)),
    S(T(3), 0, at()),
    S(T(0, 3), 1, at(2)),
]

ROWS = [
    Row(
        "gather",
        [
            S(T(3, 4), 0, at(2, 4)),
            S(T(2, 3), 1, at(2, 5, dtype=int32)),
            S(T(3, 2, 4, 5), -4, at(4, 1, 3, 5, layout="transposed")),
            S(T(3), 0, at()),
            S(T(2, 3), 1, at(2, 0)),
        ],
        _gather,
        errors=(
            Fails(
                S(T(2, 3), 0, at(2, 4)),
                errors.ShapeError,
                "gather: 'index' must be no longer than self at dimension 1, 3",
            ),
            Fails(
                S(T(2, 3), 0, at(2, dtype=int16)),
                errors.DtypeError,
                "gather: 'index' must be int64 or int32",
            ),
            Fails(
                S(T(2, 3), 0, at(2)),
                errors.ShapeError,
                "gather: 'index' must have as many dimensions as self",
            ),
        ),
        out="same",
    ),
    Row(
        "index",
        INDICES,
        read,
        errors=(
            Fails(
                S(T(2, 3), [T(3, dtype=bool_)]),
                errors.IndexRangeError,
                r"index: 'mask' must have sizes \[2\]",
            ),
            Fails(
                S(T(2, 3), [at(2), at(3)]),
                errors.IndexRangeError,
                "index: 'indices' must broadcast together",
            ),
            Fails(
                S(T(2, 3), [T(2, dtype=float32)]),
                errors.IndexRangeError,
                "index: 'index' must be int64, int32, bool or uint8",
            ),
        ),
        out="same",
    ),
    Row(
        "index_select",
        _SLICES,
        lambda x, dim, index: np.take(x, np.atleast_1d(index), dim),
        errors=(
            Fails(
                S(T(2, 3), 0, at(2, 2)),
                errors.IndexRangeError,
                "index_select: 'index' must have at most one dimension",
            ),
        ),
        out="same",
    ),
    Row(
        "take",
        [S(T(2, 3), at(2, 2)), S(T(2, 3, 4), at(5)), S(T(3), at()), S(T(0), at(0))],
        lambda x, index: np.take(x, index),
        errors=(
            Fails(S(T(2), at(2, dtype=int32)), errors.DtypeError, "take: 'index' must be int64"),
            Fails(S(T(0), at(2)), errors.IndexRangeError, "take: 'index' must be empty"),
        ),
        out="same",
    ),
    Row(
        "take_along_dim",
        [
            S(T(3, 4), at(3, 2), 1),
            S(T(3, 1), at(1, 4), 0),
            S(T(2, 3), at(4)),
            S(T(3, 2, 2, 5), at(2, 2, 2, 1), 0),
        ],
        _along,
        errors=(
            Fails(
                S(T(3), at(3, 2), 0),
                errors.ShapeError,
                "take_along_dim: 'indices' must have 1 dimensions",
            ),
        ),
        out="same",
    ),
    Row("_unsafe_index", INDICES[:3], read),
    Row(
        "_unsafe_masked_index",
        [
            S(T(3, 4), T(2, dtype=bool_), [at(2), at(2)], 1),
            S(T(3, 4), T(2, 1, dtype=bool_), [at(2)], 0),
        ],
        _masked,
    ),
]
