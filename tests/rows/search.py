"""Rows of binary search in sorted sequences, and of membership."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import ALL, BOOL, COMPLEX, bool_, complex64, dtype, float64, int32, int64
from gputensor.core.dtype import uint16, uint32, uint64

from . import Fails, Row, S, T

_REAL = tuple(
    of for of in ALL if of.category not in (BOOL, COMPLEX) and of not in (uint16, uint32, uint64)
)
_EDGES = T(1)  # sorted, whatever its values


def _place(args: Any, kwargs: Any, of: dtype) -> dtype:
    return int32 if kwargs.get("out_int32") else int64


def _searched(
    sorted_sequence: np.ndarray, x: Any, out_int32: bool = False, right: bool = False,
    side: Any = None, sorter: Any = None,
) -> np.ndarray:  # fmt: skip
    rows = sorted_sequence.astype(np.float64)
    counts = np.less_equal if right or side == "right" else np.less
    each = rows[..., None, :] if rows.ndim > 1 else rows
    found = counts(each, np.asarray(x, np.float64)[..., None]).sum(-1)
    return found.astype(np.int32 if out_int32 else np.int64)


ROWS = [
    Row(
        "bucketize",
        [
            S(T(2, 3), _EDGES),
            S(T(4), _EDGES, right=True),
            S(T(2), T(1, dtype=float64), out_int32=True),
            S(2, _EDGES),
            S(T(), T(0)),
        ],
        lambda self, boundaries, **kwargs: _searched(boundaries, self, **kwargs),
        out="same",
        dtypes=_REAL,
        result=_place,
        errors=(Fails(S(T(2), T(1, 1)), errors.ShapeError, "bucketize: 'boundaries' must have 1"),),
    ),
    Row(
        "isin",
        [
            S(T(2, 3), T(2)),
            S(T(4), T(2, 2), invert=True),
            S(T(3), 1),
            S(1, T(3)),
            S(T(), T(0)),
            S(T(3), 1, invert=True),
            S(1, T(3), invert=True),
            S(T(2), T(0), invert=True),
        ],
        lambda x, among, invert=False: np.asarray(np.isin(x, among) ^ invert),
        out="same",
        dtypes=_REAL,
        result=lambda args, kwargs, of: bool_,
        errors=(
            Fails(S(T(2), T(2)), errors.DtypeError, "isin: 'elements' must be a real", complex64),
        ),
    ),
    Row(
        "searchsorted",
        [
            S(_EDGES, T(2, 3)),
            S(T(3, 1), T(3, 4), right=True),
            S(T(2, 0), T(2, 2)),
            S(_EDGES, T(4), side="right", out_int32=True),
            S(T(3, layout="expanded"), T(2), sorter=T(3, dtype=int64, values="classes")),
            S(_EDGES, 2, side="left"),
        ],
        _searched,
        out="same",
        dtypes=_REAL,
        result=_place,
        errors=(
            Fails(S(T(), T(2)), errors.ShapeError, "'sorted_sequence' must have a dimension"),
            Fails(S(T(2, 2), T(2)), errors.ShapeError, "'self' must have leading sizes"),
            Fails(S(T(2), T(2), side="up"), errors.ArgumentError, "'side' must be 'left' or"),
            Fails(
                S(T(2), T(2), side="left", right=True),
                errors.ArgumentError,
                "'side' must not be 'left'",
            ),
            Fails(S(T(2), T(2), sorter=T(2)), errors.DtypeError, "'sorter' must be int64"),
            Fails(S(T(2), T(2)), errors.DtypeError, "must be a real number", complex64),
        ),
    ),
]
