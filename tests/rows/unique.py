"""Rows of elements and slices without repetitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import ALL, COMPLEX, complex64, dtype, int64

from . import Fails, Row, S, T

_REAL = tuple(of for of in ALL if of.category != COMPLEX)


def _kept(rows: list[Any], consecutive: bool) -> tuple[list[int], list[int], list[int]]:
    """Return (kept rows, the index of each row among them, their counts), computed one by one."""
    order = range(len(rows)) if consecutive else sorted(range(len(rows)), key=rows.__getitem__)
    firsts: list[int] = []
    inverse, counts = [0] * len(rows), []
    for place in order:
        if not firsts or rows[place] != rows[firsts[-1]]:
            firsts.append(place)
            counts.append(0)
        inverse[place] = len(firsts) - 1
        counts[-1] += 1
    return firsts, inverse, counts


def _unique(
    self: np.ndarray, sorted: bool = True, return_inverse: bool = False,
    return_counts: bool = False, dim: Any = None, consecutive: bool = False,
) -> list[np.ndarray]:  # fmt: skip
    moved = self.reshape(-1) if dim is None else np.moveaxis(self, dim, 0)
    rows = [tuple(np.ravel(x).astype(float)) for x in moved]
    firsts, inverse, counts = _kept(rows, consecutive)
    found = moved[np.array(firsts, int)]
    shape = self.shape if dim is None else (-1,)
    empty = np.zeros(0, np.int64)
    return [
        found if dim is None else np.moveaxis(found, 0, dim),
        np.array(inverse, np.int64).reshape(shape) if return_inverse else empty,
        np.array(counts, np.int64) if return_counts else empty,
    ]


def _three(args: Any, kwargs: Any, of: dtype) -> tuple[dtype, ...]:
    return of, int64, int64


def _row(name: str, samples: list[S], reference: Any) -> Row:
    wrong = S(T(2), 0) if name == "unique_dim" else S(T(2))
    return Row(
        name, samples, reference, dtypes=_REAL, result=_three,
        no_meta="how many there are is known by values alone",
        errors=(Fails(wrong, errors.DtypeError, "must not be complex", complex64),),
    )  # fmt: skip


ROWS = [
    _row(
        "_unique2",
        [S(T(7)), S(T(3, 4), True, True, True), S(T(2, 2), False, True), S(T()), S(T(0))],
        _unique,
    ),
    _row(
        "unique_consecutive",
        [S(T(9)), S(T(3, 4), True, True), S(T(9, 1), True, True, 0), S(T(0), True)],
        lambda self, inverse=False, counts=False, dim=None: _unique(
            self, True, inverse or dim is not None, counts or dim is not None, dim, True
        ),
    ),
    _row(
        "unique_dim",
        [S(T(5, 1), 0), S(T(2, 4), 1, True, True, True), S(T(2, 3, 2), -1)],
        lambda self, dim, *flags: _unique(self, True, True, True, dim),
    ),
]
