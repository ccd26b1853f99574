"""Rows of native/embedding: rows of tables by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, float16, float32, float64, int32, int64

from . import Fails, Row, S, T
from .gather import at

_FLOATS = (float16, bfloat16, float32, float64)
_ROUNDED = "f16 and bf16 are rounded between the operators it is made of"
_ORDER = "rows are added in another order"


def _embedding(weight: np.ndarray, indices: np.ndarray, *rest: Any) -> np.ndarray:
    return weight[indices]


def _backward(grad: np.ndarray, indices: np.ndarray, rows: int, padding: int, by_freq: bool) -> Any:
    flat = indices.reshape(-1)
    given = grad.reshape(flat.size, -1).astype(np.float64)
    if by_freq:
        given = given / np.bincount(flat, minlength=rows)[flat][:, None]
    made = np.zeros((rows, given.shape[1]))
    np.add.at(made, flat[flat != padding], given[flat != padding])
    return made


def _renorm(weight: np.ndarray, indices: np.ndarray, most: float, kind: float) -> np.ndarray:
    made = weight.astype(np.float64)
    for row in np.unique(indices):
        length = np.linalg.norm(made[row], kind)
        made[row] *= most / (length + 1e-7) if length > most else 1
    return made


def _bag(
    weight: np.ndarray, indices: np.ndarray, offsets: np.ndarray, by_freq: bool = False,
    mode: int = 0, sparse: bool = False, weights: Any = None, last: bool = False,
    padding: Any = None, *, forward_only: bool = False,
) -> Any:  # fmt: skip
    """The mode sum needs no counts; in at most 32 bits it also needs no bag number for each
    index."""
    padding = -1 if padding is None else padding
    count = len(offsets) - last
    of = np.searchsorted(offsets[:count], np.arange(len(indices)), side="right") - 1
    made = np.zeros((count, weight.shape[1]))
    places = np.zeros((count, weight.shape[1]) if mode == 2 else count, np.int64)
    sizes = np.zeros(count, np.int64)
    for bag in range(count):
        named = [n for n in np.flatnonzero(of == bag) if indices[n] != padding]
        sizes[bag] = len(named)
        if not named:
            continue
        rows = weight[indices[named]].astype(np.float64)
        if weights is not None:
            rows = rows * weights[named].astype(np.float64)[:, None]
        if mode == 2:
            places[bag] = indices[named][rows.argmax(0)]
        made[bag] = rows.max(0) if mode == 2 else rows.sum(0) / (len(named) if mode else 1)
    if mode == 0 and padding < 0 and weight.dtype.itemsize < 8:
        of = of[:0]
    if mode == 0:
        sizes = np.zeros(len(offsets) if forward_only else count, np.int64)
    return [made, of, sizes, places if mode == 2 else sizes]


# two bags: the first one is empty
_OFFSETS = T(2, values="zeros", dtype=int64)
_BAGS = [
    S(T(3, 4), at(5), _OFFSETS, False, mode, False, weights, last, padding)
    for mode, weights, last, padding in (
        (0, None, False, -1),
        (0, T(5), True, 1),
        (1, None, False, 1),
        (2, None, False, -1),
    )
]


def _results(args: Any, kwargs: Any, of: Any) -> tuple[Any, ...]:
    return of, int64, int64, int64


ROWS = [
    Row(
        "embedding",
        [S(T(3, 4), at(5)), S(T(3, 4), at(2, 2, dtype=int32)), S(T(3, 4), at()), S(T(3, 2), at(0))],
        _embedding,
        out="same",
        errors=(
            Fails(
                S(T(3), at(2)), errors.ShapeError, "embedding: 'weight' must have two dimensions"
            ),
            Fails(
                S(T(3, 4), T(2, dtype=float32)),
                errors.DtypeError,
                "embedding: 'indices' must be int64 or int32",
            ),
        ),
    ),
    Row(
        "embedding_backward",
        [S(T(5, 4), at(5), 3, 1, False, False)],
        lambda grad, at, rows, padding, by_freq, sparse: _backward(
            grad, at, rows, padding, by_freq
        ),
        dtypes=_FLOATS,
        errors=(
            Fails(
                S(T(2, 4), at(2), 3, -1, False, True),
                errors.ArgumentError,
                "embedding: 'sparse' must be False",
            ),
        ),
    ),
    Row(
        "_embedding_bag",
        _BAGS,
        _bag,
        result=_results,
        dtypes=_FLOATS,
        ulp={float32: 4, float64: 4},
        device_ulp=4,
        why=_ORDER,
    ),
    Row(
        "embedding_bag",
        [
            S(T(3, 4), at(5), _OFFSETS),
            S(T(3, 4), at(5), _OFFSETS, False, 2, False, None, False, None),
        ],
        _bag,
        result=_results,
        dtypes=_FLOATS,
        errors=(
            Fails(
                S(T(3, 4), at(5), _OFFSETS, False, 3),
                errors.ArgumentError,
                "embedding_bag: 'mode' must be 0",
            ),
            Fails(
                S(T(3, 4), at(5), _OFFSETS, False, 0, False, T(4)),
                errors.ShapeError,
                "embedding_bag: 'per_sample_weights' must be like indices",
            ),
        ),
    ),
    Row(
        "_embedding_bag_forward_only",
        _BAGS[:3],
        lambda *args: _bag(*args, forward_only=True),
        result=_results,
        dtypes=_FLOATS,
        ulp={float32: 4, float64: 4},
        device_ulp=4,
        why=_ORDER,
    ),
    Row(
        "embedding_dense_backward",
        [S(T(5, 4), at(5), 3, -1, False), S(T(2, 2, 4), at(2, 2, dtype=int32), 3, 1, True)],
        _backward,
        dtypes=_FLOATS,
        out="same",
        ulp={float16: 4, bfloat16: 4, float32: 2, float64: 2},
        device_ulp=4,
        why=_ROUNDED,
    ),
    Row(
        "embedding_renorm_",
        [S(T(3, 4), at(5), 1.0, 2.0), S(T(3, 4), at(2, 2), 1.5, 1.0)],
        _renorm,
        dtypes=_FLOATS,
        refuses_expanded=True,
        ulp={float16: 8, bfloat16: 8, float32: 8, float64: 8},
        device_ulp=8,
        why=_ROUNDED,
    ),
    Row(
        "one_hot",
        [S(at(2, 2), 4), S(at(5)), S(T(0, dtype=int64), 2)],
        lambda x, n=-1: np.eye(n if n > 0 else x.max() + 1, dtype=np.int64)[x],
        dtypes=(int64,),
        result=lambda args, kwargs, of: int64,
        no_meta="the largest index is a value",
        errors=(
            Fails(S(T(2), 3), errors.DtypeError, "one_hot: 'self' must be int64", float32),
            Fails(S(at(5), 0), errors.ArgumentError, "one_hot: 'num_classes' must be positive"),
            Fails(S(T(0, dtype=int64)), errors.ArgumentError, "'num_classes' must be positive"),
        ),
    ),
]
