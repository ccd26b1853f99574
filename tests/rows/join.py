"""Rows of operators that put tensors together."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    float64, from_numpy,
)  # fmt: skip
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


def _stacked(join: Any) -> Any:
    def reference(tensors: Any) -> np.ndarray:
        target = _cat([x.reshape(-1)[:1] for x in tensors]).dtype
        return join([converted(x, target) for x in tensors])

    return reference


def _stack_row(name: str, join: Any) -> Row:
    return Row(
        name,
        [S([T(3), T(3)]), S([T(2, 3), T(2, 3, dtype=float64)]), S([T(), T()]), S([_IMAGE, _IMAGE])],
        _stacked(join),
        result=_common,
        errors=(Fails(S([]), errors.ArgumentError, f"{name}: 'tensors' must not be empty"),),
    )


def _blocks(tensors: Any) -> np.ndarray:
    blocks = [np.atleast_2d(x) for x in tensors]
    made = np.zeros(np.sum([x.shape for x in blocks], 0), blocks[0].dtype)
    at = np.zeros(2, int)
    for x in blocks:
        made[at[0] : at[0] + x.shape[0], at[1] : at[1] + x.shape[1]] = x
        at += x.shape
    return made


def _chunked(tensors: Any, dim: int, num_chunks: int) -> np.ndarray:
    parts = []
    for x in tensors:
        d = dim % x.ndim
        around = [(0, -x.shape[k] % num_chunks if k == d else 0) for k in range(x.ndim)]
        parts.append(np.pad(x, around).reshape(*x.shape[:d], num_chunks, -1))
    return np.concatenate(parts, -1)


def first(args: Any, kwargs: Any, of: Any) -> Any:
    return of


ROWS += [
    Row(
        "block_diag",
        [S([T(2, 3), T(3), T()]), S([T(2, 2)]), S([T(0, 2), T(1, 1)])],
        _blocks,
        result=first,
        out="same",
        errors=(Fails(S([T(1, 1, 1)]), errors.ShapeError, r"'tensors\[0\]' must have at most 2"),),
    ),
    Row(
        "broadcast_tensors",
        [S([T(2, 1), T(3)]), S([T(), T(2, 2)])],
        lambda tensors: list(np.broadcast_arrays(*tensors)),
        result=first,
        errors=(Fails(S([T(2), T(3)]), errors.ShapeError, r"'tensors\[1\]' must broadcast"),),
    ),
    Row(
        "_chunk_cat",
        [S([T(3, 2), T(5)], 0, 2), S([T(2, 4), T(2, 3)], 1, 3), S([T(2, 3)], -1, 1)],
        _chunked,
        result=first,
        out="same",
        errors=(
            Fails(S([T(2, 3)], 0, 0), errors.ArgumentError, "'num_chunks' must be positive"),
            Fails(S([T(2, 3), T(3, 3)], 1, 1), errors.ShapeError, r"'tensors\[1\]' must have"),
        ),
    ),
    _stack_row("column_stack", np.column_stack),
    *[
        Row(name, [S([T(2, 3), T(1, 3)]), S([T(2, 3), T(2, 2)], -1)], _cat, result=_common)
        for name in ("concat", "concatenate")
    ],
    _stack_row("dstack", np.dstack),
    _stack_row("hstack", np.hstack),
    _stack_row("row_stack", np.vstack),
    _stack_row("vstack", np.vstack),
]


ROWS.sort(key=lambda row: row.name.strip("_"))
