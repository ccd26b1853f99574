"""Rows of diagonals and triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    BOOL, INTEGER, bfloat16, bool_, complex64, dtype, float32, int32, int64, uint8,
)  # fmt: skip
from gputensor.core.promotion import promote_types

from . import Fails, Row, S, T

_MATRIX = T(2, 3)
_CUBE = T(2, 3, 4)


def _embedded(self: np.ndarray, offset: int = 0, dim1: int = -2, dim2: int = -1) -> np.ndarray:
    n = self.shape[-1] + abs(offset)
    made = np.zeros((*self.shape[:-1], n, n), self.dtype)
    place = np.einsum("...ii->...i", made[..., max(-offset, 0) :, max(offset, 0) :]
                      [..., : self.shape[-1], : self.shape[-1]])  # fmt: skip
    place[...] = self
    return np.moveaxis(made, (-2, -1), (dim1, dim2))


def _powers_dtype(args: Any, kwargs: Any, of: dtype) -> dtype:
    return promote_types(of, int64) if of.category in (BOOL, INTEGER) else of


def _powers(x: np.ndarray, N: int | None = None, increasing: bool = False) -> np.ndarray:
    wide = x.astype(np.int64) if x.dtype.kind in "biu" else x
    columns = [np.ones_like(wide)]
    for _ in range(1, len(x) if N is None else N):
        columns.append(columns[-1] * wide)
    kept = columns[: len(x) if N is None else N]
    stacked = (
        np.stack(kept if increasing else kept[::-1], 1) if kept else wide.reshape(-1, 1)[:, :0]
    )
    return stacked


def _places(find: Any) -> Any:
    def reference(row: int, col: int, offset: int = 0, dtype: Any = int64) -> np.ndarray:
        return np.stack(find(row, offset, col)).astype(dtype.np)

    return reference


def _triangle(name: str, reference: Any) -> Row:
    return Row(
        name,
        [S(_MATRIX), S(_CUBE, 1), S(T(2, 3, 4, 5), -1), S(_MATRIX, 9), S(_MATRIX, -9), S(T(0, 3))],
        reference,
        out="same",
        errors=(
            Fails(S(T(3)), errors.ShapeError, f"{name}: 'self' must have at least 2 dimensions"),
        ),
    )


def _indices(name: str, reference: Any) -> Row:
    return Row(
        name,
        [S(2, 3), S(3, 2, -1), S(3, 3, 1, dtype=int32), S(0, 2)],
        _places(reference),
        result=lambda args, kwargs, of: kwargs.get("dtype", int64),
        errors=(Fails(S(-1, 2), errors.ArgumentError, f"{name}: 'row' must not be negative"),),
    )


ROWS = [
    Row(
        "diag",
        [S(_MATRIX), S(T(3), 1), S(_MATRIX, -1), S(T(0))],
        lambda self, diagonal=0: (
            _embedded(self, diagonal) if self.ndim == 1 else np.diagonal(self, diagonal)
        ),
        out="same",
        errors=(Fails(S(_CUBE), errors.ShapeError, "diag: 'self' must have 1 or 2 dimensions"),),
    ),
    Row(
        "diag_embed",
        [S(T(3)), S(_MATRIX, 1), S(_MATRIX, -1, 0, 2), S(T(2, 0))],
        _embedded,
        out="same",
        errors=(
            Fails(S(T(3), 0, 1, 1), errors.ArgumentError, "diag_embed: 'dim2' must differ"),
            Fails(S(T()), errors.ShapeError, "diag_embed: 'self' must have a dimension"),
        ),
    ),
    Row(
        "diagflat",
        [S(_MATRIX), S(T(2), -1), S(T())],
        lambda self, offset=0: _embedded(self.reshape(-1), offset),
    ),
    _triangle("tril", np.tril),
    _indices("tril_indices", np.tril_indices),
    _triangle("triu", np.triu),
    _indices("triu_indices", np.triu_indices),
    Row(
        "vander",
        [S(T(3)), S(T(3), 2, True), S(T(2), 0)],
        _powers,
        result=_powers_dtype,
        dtypes=(uint8, int64, bool_, float32, bfloat16, complex64),
        errors=(
            Fails(S(_MATRIX), errors.ShapeError, "vander: 'x' must have 1 dimension"),
            Fails(S(T(2), -1), errors.ArgumentError, "vander: 'N' must not be negative"),
        ),
    ),
]  # fmt: skip
