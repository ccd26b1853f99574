"""Rows of sorting along one dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import ALL, BOOL, COMPLEX, complex64, dtype, int64

from . import Fails, Row, S, T

_REAL = tuple(of for of in ALL if of.category != COMPLEX)
_NUMBERS = tuple(of for of in _REAL if of.category != BOOL)
_ANY = T(3, 7, values="any")
_TIES = T(2, 9, 2)


def _order(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    key = x.astype(np.float64) if x.dtype.kind not in "iub" else x
    key = np.flip(key, dim) if descending else key
    found = np.argsort(key, dim, kind="stable")
    return x.shape[dim] - 1 - np.flip(found, dim) if descending else found


def _sorted(
    self: np.ndarray, dim: int = -1, descending: bool = False, stable: Any = None, k: Any = None
) -> list[np.ndarray]:
    if not self.ndim:
        return [self, np.zeros((), np.int64)]
    order = _order(self, dim, descending)
    order = np.take(order, range(self.shape[dim] if k is None else k), dim)
    return [np.take_along_axis(self, order, dim), order]


def _both(args: Any, kwargs: Any, of: dtype) -> tuple[dtype, dtype]:
    return of, int64


_SAMPLES = [S(_ANY), S(_TIES, 1), S(_TIES, 1, True), S(T()), S(T(0, 3), 1), S(T(2, 3, 4, 5), 1)]
_STABLE = [S(_TIES, dim=1, stable=True), S(_ANY, stable=False, descending=True)]


def _fails(name: str) -> tuple[Fails, ...]:
    return (
        Fails(S(T(3)), errors.DtypeError, "sort: 'self' must not be complex", complex64),
        Fails(S(T(3), 1), errors.IndexRangeError, "sort: 'dim' must be in"),
    )


ROWS = [
    Row(
        "argsort",
        _SAMPLES + _STABLE,
        lambda *args, **kwargs: _sorted(*args, **kwargs)[1],
        out="same",
        dtypes=_REAL,
        result=lambda args, kwargs, of: int64,
        errors=_fails("argsort"),
    ),
    Row(
        "msort",
        [S(_ANY), S(T(4)), S(T())],
        lambda self: _sorted(self, 0)[0],
        out="same",
        dtypes=_REAL,
    ),
    Row("sort", _SAMPLES + _STABLE, _sorted, dtypes=_REAL, result=_both, errors=_fails("sort")),
    Row(
        "topk",
        [S(_ANY, 3), S(_TIES, 4, 1), S(_TIES, 2, 1, False), S(T(), 1), S(T(4), 0), S(_ANY, 7, -1)],
        lambda self, k, dim=-1, largest=True: _sorted(self, dim, largest, k=k),
        dtypes=_NUMBERS,
        result=_both,
        errors=(
            Fails(S(T(3), 4), errors.ArgumentError, r"topk: 'k' must be in \[0, 3\]"),
            Fails(S(T(3), 1), errors.DtypeError, "topk: 'self' must not be complex", complex64),
        ),
    ),
]
