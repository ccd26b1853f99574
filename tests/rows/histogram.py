"""Rows of native/histogram: how often values occur."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, float16, float32, float64, int8, int64, uint8

from . import Fails, Row, S, T

_FLOATS = (float32, float64)
_WHY = "an edge is a product and a sum, a density two quotients"
_VALUES = "they decide how many counts there are"


def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    return np.bincount(x, weights, minlength)


def _counted(args: Any, kwargs: Any, of: Any) -> Any:
    given = args[1:] or (kwargs.get("weights"),)
    return int64 if given[0] is None else given[0].dtype


def _histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    wide = x.astype(np.float64)
    ends = (min, max) if min != max else (wide.min(), wide.max())
    return np.histogram(wide, bins, ends)[0].astype(np.float64)


def _histogram(
    x: Any, bins: Any = 100, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    wide = x.astype(np.float64)
    if type(bins) is not int and np.any(np.diff(bins) < 0):
        return [np.zeros(len(bins) - 1), bins]
    weights = None if weight is None else weight.reshape(-1).astype(np.float64)
    found = np.histogram(wide.reshape(-1), bins, range, density, weights)
    return [found[0].astype(np.float64), found[1].astype(np.float64)]


def _histogramdd(x: Any, bins: Any, range: Any = None) -> Any:
    pairs = None if range is None else np.reshape(range, (-1, 2)).tolist()
    hist, edges = np.histogramdd(x.astype(np.float64), bins, pairs)
    return [hist, *edges]


_FEW = [S(T(5, 2), [3, 2]), S(T(4, 1), [2], range=[-1.0, 2.0])]
_NARROW = Fails(S(T(5, 2), [3]), errors.ShapeError, "'self' must have points of 1 numbers")

ROWS = [
    Row(
        "bincount",
        [
            S(T(7, values="classes")),
            S(T(0)),
            S(T(7, values="classes"), minlength=5),
            S(T(7, values="classes"), T(7, dtype=float64)),
        ],
        _bincount,
        dtypes=(int8, uint8, int64),
        result=_counted,
        out="same",
        no_meta=_VALUES,
        errors=(
            Fails(S(T(2, 2)), errors.ShapeError, "bincount: 'self' must have one dimension", int64),
            Fails(S(T(2)), errors.DtypeError, "bincount: 'self' must be whole numbers", float32),
            Fails(S(T(9, dtype=int8)), errors.ArgumentError, "'self' must hold no negative number"),
        ),
    ),
    Row(
        "histc",
        [S(T(20), 4, -3, 3), S(T(2, 3), 5, 0, 2)],
        _histc,
        dtypes=(float16, bfloat16, *_FLOATS),
        out="same",
        errors=(
            Fails(S(T(3), 0), errors.ArgumentError, "histc: 'bins' must be positive"),
            Fails(S(T(3)), errors.DtypeError, "histc: 'self' must be floating", int64),
        ),
    ),
    Row(
        "histogram",
        [
            S(T(20), 4, range=[-3.0, 3.0]),
            S(T(2, 3), 2, range=[-1.0, 1.0], weight=T(2, 3)),
            S(T(9), 3, range=[-3.5, 3.5], density=True),
            S(T(9), T(2, values="positive")),
        ],
        lambda x, bins=100, **rest: _histogram(x, bins, **rest),
        ulp=16,
        why=_WHY,
        device_ulp=16,
        dtypes=_FLOATS,
        out="same",
        errors=(
            Fails(S(T(3), 2, weight=T(2)), errors.ShapeError, "'weight' must have self's sizes"),
            Fails(S(T(3)), errors.DtypeError, "histogram: 'self' must be floating", int64),
        ),
    ),
    Row(
        "histogramdd",
        [*_FEW, S(T(5, 2), 3), S(T(6, 1), [T(2, values="zeros")])],
        _histogramdd,
        ulp=16,
        why=_WHY,
        device_ulp=16,
        dtypes=_FLOATS,
        errors=(_NARROW,),
    ),
    Row(
        "_histogramdd_bin_edges",
        _FEW,
        lambda *args, **rest: _histogramdd(*args, **rest)[1:],
        ulp=16,
        why=_WHY,
        device_ulp=16,
        dtypes=_FLOATS,
    ),
    Row(
        "_histogramdd_from_bin_cts",
        _FEW,
        lambda *args, **rest: _histogramdd(*args, **rest)[0],
        dtypes=_FLOATS,
        out="same",
    ),
    Row(
        "_histogramdd_from_bin_tensors",
        [S(T(6, 1), [T(2, values="positive")])],
        None,
        dtypes=_FLOATS,
        out="same",
    ),
]
