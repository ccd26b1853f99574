"""Rows of operators that put tensors together."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import float64, from_numpy
from gputensor.core.promotion import promote_types

from . import Fails, Row, S, T
from .copy import converted


def _common(args: Any, kwargs: Any, of: Any) -> Any:
    found = None
    for x in args[0]:
        given = x.dtype or of
        found = given if found is None else promote_types(found, given)
    return found


def _cat(tensors: Any, dim: int = 0) -> np.ndarray:
    target = None
    for x in tensors:
        target = (
            from_numpy(x.dtype) if target is None else promote_types(target, from_numpy(x.dtype))
        )
    parts = [converted(x, target.np) for x in tensors if x.shape != (0,)]
    return np.concatenate(parts, dim) if parts else np.empty(0, target.np)


_IMAGE = T(2, 3, 4, 5)

ROWS = [
    Row(
        "cat",
        [
            S([T(2, 3), T(2, 3)]),
            S([T(2, 3), T(1, 3), T(0, 3)], 0),
            S([T(2, 3), T(2, 2)], -1),
            S([T(4)]),
            S([T(0), T(2, 3)], 1),
            S([_IMAGE, _IMAGE], dim=1),
            S([_IMAGE, T(2, 3, 4, 5, layout="contiguous")]),
            S((T(2, 3), T(2, 3, dtype=float64))),
            S([T(0), T(0)]),
            S([T(2, 1, 3), T(2, 2, 3)], 1),
        ],
        _cat,
        result=_common,
        errors=(
            Fails(S([]), errors.ArgumentError, "cat: 'tensors' must not be empty"),
            Fails(
                S([T(2, 3), T(2, 2)]), errors.ShapeError, r"cat: 'tensors\[1\]' must have the sizes"
            ),
            Fails(
                S([T(2, 3), T(3)]), errors.ShapeError, r"cat: 'tensors\[1\]' must have the sizes"
            ),
            Fails(S([T(), T()]), errors.ShapeError, r"cat: 'tensors\[0\]' must have a dimension"),
            Fails(S([T(2, 3), T(2, 3)], 2), errors.IndexRangeError, "cat: 'dim' must be in"),
            Fails(S([T(2), 3.0]), TypeError, "cat: 'tensors"),
            Fails(S(T(2, 3)), TypeError, "cat: 'tensors' must be"),
        ),
    ),
    Row(
        "repeat",
        [
            S(T(2, 3), (2, 2)),
            S(T(3), (2, 1, 2)),
            S(T(), (3,)),
            S(T(2, 3), (0, 1)),
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
        "stack",
        [
            S([T(2, 3), T(2, 3)]),
            S([T(2, 3), T(2, 3)], 1),
            S([T(2, 3)], -1),
            S([T(), T(), T()]),
            S([T(0, 3)], 2),
        ],
        np.stack,
        result=_common,
        errors=(
            Fails(
                S([T(2, 3), T(2, 1)]),
                errors.ShapeError,
                r"stack: 'tensors\[1\]' must have the sizes",
            ),
            Fails(S([T(2, 3)], 3), errors.IndexRangeError, r"stack: 'dim' must be in \[-3, 2\]"),
            Fails(S([]), errors.ArgumentError, "stack: 'tensors' must not be empty"),
        ),
    ),
]
