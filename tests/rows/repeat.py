"""Rows of operators that repeat elements, and of grids and combinations."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, bool_, complex64, float32, int32, int64

from . import Fails, Row, S, T
from .join import first

_IMAGE = T(2, 3, 4, 5)


def _grid(tensors: Any, indexing: str = "ij") -> list[np.ndarray]:
    return list(np.meshgrid(*tensors, indexing=indexing))


def _choices(self: np.ndarray, r: int, with_replacement: bool) -> np.ndarray:
    from itertools import combinations, combinations_with_replacement

    if r == 0:
        return self[:0]
    choose = combinations_with_replacement if with_replacement else combinations
    return np.array(list(choose(self, r)), self.dtype).reshape(-1, r)


ROWS = [
    Row(
        "repeat",
        [
            S(T(2, 3), (2, 2)),
            S(T(3), (2, 1, 2)),
            S(T(), (3,)),
            S(T(2, 3), (0, 1)),
            S(T(3, 0), (2, 1)),
            S(_IMAGE, (1, 2, 1, 1)),
            S(T(), ()),
        ],
        np.tile,
        errors=(
            Fails(
                S(T(2, 3), (2,)),
                errors.ArgumentError,
                "repeat: 'repeats' must have at least 2 entries",
            ),
            Fails(
                S(T(2), (-1,)),
                errors.ArgumentError,
                "repeat: 'repeats' must hold no negative number",
            ),
        ),
    ),
    Row(
        "cartesian_prod",
        [S([T(2), T(3)]), S([T(2)]), S([T(0), T(2)])],
        lambda tensors: (
            np.stack([x.reshape(-1) for x in _grid(tensors)], 1) if tensors[1:] else tensors[0]
        ),
        may_copy=True,
        result=first,
        errors=(Fails(S([T(2, 2)]), errors.ShapeError, r"'tensors\[0\]' must be 1-d"),),
    ),
    Row(
        "meshgrid",
        [S([T(2), T(3)]), S([T(2), T(), T(3)], indexing="xy"), S([T(2)]), S([T(2)], indexing="ij")],
        _grid,
        result=first,
        errors=(
            Fails(S([T(2)], indexing="x"), errors.ArgumentError, "meshgrid: 'indexing' must be"),
            Fails(S([T(2, 2)]), errors.ShapeError, r"'tensors\[0\]' must be 0-d or 1-d"),
        ),
    ),
    Row(
        "tile",
        [S(T(2, 3), (2,)), S(T(3), (2, 1, 2)), S(T(), (3,)), S(T(2, 3), (0, 1))],
        np.tile,
        errors=(Fails(S(T(2), (-1,)), errors.ArgumentError, "tile: 'dims' must hold no negative"),),
    ),
    Row(
        "combinations",
        [S(T(4)), S(T(3), 3), S(T(3), 2, True), S(T(3), 0), S(T(2), 3)],
        lambda self, r=2, with_replacement=False: _choices(self, r, with_replacement),
        errors=(
            Fails(S(T(2, 2)), errors.ShapeError, "combinations: 'self' must have 1 dimension"),
            Fails(S(T(2), -1), errors.ArgumentError, "combinations: 'r' must be in"),
        ),
    ),
    Row(
        "repeat_interleave",
        [
            S(T(2, 3), 2),
            S(_IMAGE, 3, 1),
            S(T(), 2),
            S(T(2, 3), T(3, dtype=int64, values="classes"), 1),
            S(T(4), T(1, dtype=int32, values="classes")),
            S(T(3, dtype=int64, values="classes")),
        ],
        lambda self, repeats=None, dim=None: (
            np.repeat(np.arange(len(self)), self)
            if repeats is None
            else np.repeat(self, repeats if np.ndim(repeats) else int(repeats), dim)
        ),
        dtypes=(float32, int64, bool_, complex64, bfloat16),
        result=lambda args, kwargs, of: int64 if len(args) == 1 else of,
        no_meta="how many there are is known by values alone",
        errors=(
            Fails(S(T(2), -1), errors.ArgumentError, "'repeats' must not be negative"),
            Fails(S(T(2), T(2)), errors.DtypeError, "'repeats' must be int32 or int64", float32),
            Fails(S(T(2), 1, 1), errors.IndexRangeError, "repeat_interleave: 'dim' must be in"),
        ),
    ),
]

ROWS.sort(key=lambda row: row.name.strip("_"))
