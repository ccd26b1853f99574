"""Rows of maxima of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core.dtype import int64

from . import Row, S, T
from .pool import FLOATS, KIND, adaptive, full, pool_errors, windows


def _best(x: np.ndarray, inside: list[list[int]], count: int) -> tuple[np.ndarray, np.ndarray]:
    part = x[(..., *np.ix_(*inside))]
    flat = part.reshape(*part.shape[: part.ndim - count], -1)
    places = np.arange(np.prod(x.shape[-count:])).reshape(x.shape[-count:])[np.ix_(*inside)]
    at = flat.astype(np.float64).argmax(-1)
    return np.take_along_axis(flat, at[..., None], -1)[..., 0], places.reshape(-1)[at]


def _max(count: int) -> Any:
    def max(x, *args):
        out, cells, _ = windows(x, count, *args)
        values = np.zeros((*x.shape[: x.ndim - count], *out), x.dtype)
        indices = np.zeros(values.shape, np.int64)
        for cell, inside in cells:
            values[(..., *cell)], indices[(..., *cell)] = _best(x, inside, count)
        return [values, indices]

    return max


def _adaptive_max(count: int) -> Any:
    def max(x, output_size):
        values = np.zeros((*x.shape[: x.ndim - count], *full(output_size, count)), x.dtype)
        indices = np.zeros(values.shape, np.int64)
        for cell, inside in adaptive(x, output_size, count):
            values[(..., *cell)], indices[(..., *cell)] = _best(x, inside, count)
        return [values, indices]

    return max


def _scattered(grad, x, *rest):
    indices = rest[-1]
    made = np.zeros((*grad.shape[:2], int(np.prod(x.shape[2:]))))
    flat = grad.astype(np.float64).reshape(*grad.shape[:2], -1)
    for place in np.ndindex(*flat.shape):
        at = indices.reshape(flat.shape)[place]
        made[(*place[:2], at)] += flat[place]
    return made.reshape(x.shape)


def _indexed(args: Any, kwargs: Any, of: Any) -> Any:
    return of, int64


_WINDOW = ([2, 2], [2, 2], [0, 0])
_AT = T(1, 2, 2, 2, values="classes", dtype=int64)
_AT3 = T(1, 2, 2, 2, 2, values="classes", dtype=int64)
_MAX: Any = {"dtypes": FLOATS, "result": _indexed}


ROWS = [
    Row("adaptive_max_pool1d", [S(T(2, 3, 5), 3)], _adaptive_max(1), **_MAX),
    Row("adaptive_max_pool2d", [S(T(1, 2, 5, 4), [3, 2])], _adaptive_max(2), **_MAX),
    Row(
        "adaptive_max_pool2d_backward",
        [S(T(1, 2, 2, 2), T(1, 2, 3, 4), _AT)], _scattered, **KIND,
    ),
    Row("adaptive_max_pool3d", [S(T(1, 1, 3, 3, 2), [2, 2, 1])], _adaptive_max(3), **_MAX),
    Row(
        "adaptive_max_pool3d_backward",
        [S(T(1, 2, 2, 2, 2), T(1, 2, 3, 2, 2), _AT3)], _scattered, **KIND,
    ),
    Row("max_pool1d", [S(T(2, 3, 6), 3, 2, 1)], lambda *a: _max(1)(*a)[0], dtypes=FLOATS),
    Row("max_pool1d_with_indices", [S(T(2, 3, 6), 3, 2, 1)], _max(1), **_MAX),
    Row("max_pool2d", [S(T(1, 2, 5, 4), 2)], lambda *a: _max(2)(*a)[0], dtypes=FLOATS),
    Row(
        "max_pool2d_with_indices",
        [S(T(1, 2, 5, 4), 2), S(T(1, 2, 5, 5), [3, 2], [2, 1], 1, [1, 2], True), S(T(2, 4, 4), 2)],
        _max(2), errors=pool_errors("max_pool2d"), **_MAX,
    ),
    Row(
        "max_pool2d_with_indices_backward",
        [S(T(1, 2, 2, 2), T(1, 2, 4, 4), *_WINDOW, [1, 1], False, _AT)],
        _scattered, **KIND,
    ),
    Row("max_pool3d", [S(T(1, 1, 3, 4, 4), 2)], lambda *a: _max(3)(*a)[0], dtypes=FLOATS),
    Row("max_pool3d_with_indices", [S(T(1, 1, 3, 4, 4), 2, 1, 1)], _max(3), **_MAX),
    Row(
        "max_pool3d_with_indices_backward",
        [
            S(
                T(1, 1, 2, 2, 2), T(1, 1, 3, 3, 3), [2] * 3, [1] * 3, [0] * 3, [1] * 3, False,
                T(1, 1, 2, 2, 2, values="classes", dtype=int64),
            )
        ],
        _scattered, **KIND,
    ),
]  # fmt: skip
