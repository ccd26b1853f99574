"""Rows of kernels/*/argreduce: indices of extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import ALL, bool_, complex64, int64

from . import Fails, Row, S, T


def _samples() -> list[S]:
    made = [
        S(T(*sizes, values=v))
        for v in ("any", "exact")
        for sizes in ((2, 3), (), (1, 3, 1), (2, 3, 4, 5), (7,))
    ]
    for values in ("any", "exact"):
        made += [
            S(T(2, 3, values=values), 0),
            S(T(2, 3, values=values), -1, True),
            S(T(2, 3, values=values), None, True),
            S(T(values=values), 0),
            S(T(values=values), keepdim=True),
            S(T(2, 3, 4, 5, values=values), 1),
            S(T(2, 3, 4, 5, values=values), 3, True),
            S(T(3, 1, values=values), 1),
            S(T(70, 3, values=values), 0),
            S(T(3, 600, values=values), 1),
        ]
    return [*made, S(T(0, 3), 1), S(T(40, 33)), S(T(40000))]


def _reference(function: Any) -> Any:
    def reference(x: np.ndarray, dim: int | None = None, keepdim: bool = False) -> Any:
        if not x.ndim:
            return np.int64(0)
        return function(x, axis=dim, keepdims=keepdim)

    return reference


def _row(name: str, function: Any) -> Row:
    bad = (
        Fails(
            S(T(2, 3), 2), errors.IndexRangeError, rf"{name}: 'dim' must be in \[-2, 1\] \(got 2\)"
        ),
        Fails(
            S(T(0, 3)), errors.IndexRangeError, f"{name}: 'dim' must be given for an empty tensor"
        ),
        Fails(
            S(T(0, 3), 0),
            errors.IndexRangeError,
            f"{name}: 'dim' must name a dimension of non-zero size",
        ),
        Fails(S(T(2)), errors.DtypeError, f"{name}: 'self' must be real and not bool", bool_),
        Fails(S(T(2)), errors.DtypeError, f"{name}: 'self' must be real and not bool", complex64),
    )
    return Row(name, _samples(), _reference(function), out="same", errors=bad)


def _extremes(take: Any, places: Any) -> Any:
    """The reference of max and min: of all elements, along a dimension with indices, or of two
    operands."""

    def reference(x: Any, other: Any = None, keepdim: bool = False) -> Any:
        if other is None:
            return take(x)
        if type(other) is not int:
            return (np.maximum if take is np.max else np.minimum)(x, other)
        if not x.ndim:
            return [x, np.int64(0)]
        found = places(x, other, keepdims=True)
        values = np.take_along_axis(x, found, other)
        return [y if keepdim else np.squeeze(y, other) for y in (values, found)]

    return reference


def _results(args: Any, kwargs: Any, of: Any) -> Any:
    return (of, int64) if len(args) > 1 and type(args[1]) is int else of


_SELECT = [
    S(T(2, 3)),
    S(T()),
    S(T(2, 3), 0),
    S(T(2, 3, values="exact"), -1, True),
    S(T(2, 3, 4, 5), 1),
    S(T(), 0),
    S(T(0, 3), 1),
    S(T(3, 600, values="exact"), 1),
    S(T(40000), 0),
    S(T(2, 3), T(3)),
]


def _select_row(name: str, take: Any, places: Any) -> Row:
    bad = (
        Fails(
            S(T(2, 3), 2), errors.IndexRangeError, rf"{name}: 'dim' must be in \[-2, 1\] \(got 2\)"
        ),
        Fails(
            S(T(0, 3), 0),
            errors.IndexRangeError,
            f"{name}: 'dim' must name a dimension of non-zero size",
        ),
        Fails(S(T(2), 0), errors.DtypeError, f"{name}: 'self' must be real", complex64),
    )
    return Row(
        name, _SELECT, _extremes(take, places), out="same", errors=bad, result=_results,
        zeros_equal=True, dtypes=_REAL,
    )  # fmt: skip


_REAL = tuple(d for d in ALL if not d.is_complex)


def _both(x: Any, dim: int | None = None, keepdim: bool = False) -> list[Any]:
    axis = dim if x.ndim else None
    return [f(x, axis=axis, keepdims=keepdim and x.ndim > 0) for f in (np.min, np.max)]


ROWS = [
    Row(
        "aminmax",
        [S(T(2, 3)), S(T()), S(T(2, 3), dim=0), S(T(2, 3, 4), dim=-1, keepdim=True)],
        _both,
        zeros_equal=True,
        dtypes=_REAL,
        errors=(
            Fails(S(T(2, 3), dim=2), errors.IndexRangeError, r"'dim' must be in \[-2, 1\]"),
            Fails(S(T(0)), errors.ArgumentError, "'dim' must be given for an empty tensor"),
        ),
    ),
    _row("argmax", np.argmax),
    _row("argmin", np.argmin),
    _select_row("max", np.max, np.argmax),
    _select_row("min", np.min, np.argmin),
]
