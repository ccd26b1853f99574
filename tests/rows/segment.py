"""Rows of native/segment: reductions over segments of a dimension."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, float16, float32, float64, int64

from . import Fails, Row, S, T

_NONE = {"sum": 0.0, "mean": np.nan, "prod": 1.0, "max": -np.inf, "min": np.inf}
_REDUCE = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min}


def _segments(
    data: Any, reduce: str, lengths: Any = None, offsets: Any = None, axis: int = 0, **_: Any
) -> Any:
    """Reduce segments along the first dimension."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]) if offsets is None else offsets
    parts = []
    for first, last in pairwise(offsets):
        run = data[int(first) : int(last)].astype(np.float64)
        empty = np.full(data.shape[1:], _NONE[reduce])
        parts.append(_REDUCE[reduce](run, 0) if len(run) else empty)
    return np.stack(parts)


def _of(*sizes: int, reduce: str) -> S:
    """Return samples of few segments, which need not cover the dimension."""
    return S(T(*sizes), reduce, unsafe=True, lengths=_PLACES)


_PLACES = T(4, values="classes", dtype=int64)

ROWS = [
    Row(
        "segment_reduce",
        [_of(20, 3, reduce=name) for name in _REDUCE]
        + [_of(20, reduce="sum")],
        _segments,
        out="same",
        dtypes=(float16, bfloat16, float32, float64),
        ulp={float16: 4, bfloat16: 4, float32: 16, float64: 16},
        device_ulp=16,
        why="a few roundings of a sum or a product; 16-bit floats are computed in f32",
        errors=(
            Fails(S(T(6), "sum"), errors.ArgumentError, "'lengths' must be given", float32),
            Fails(
                S(T(6), "last", lengths=_PLACES), errors.ArgumentError, "'reduce' must be", float32
            ),
            Fails(S(T(6), "sum", lengths=_PLACES), errors.DtypeError, "'data' must be", int64),
            Fails(
                S(T(6, 2), "sum", lengths=_PLACES, axis=1), errors.ShapeError, "'lengths' must",
                float32,
            ),
        ),
    ),
]  # fmt: skip
