"""Rows of kernels/*/scan: running results along one dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    ALL,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int64,
)

from . import Fails, Row, S, T


def _samples(values: str) -> list[S]:
    return [
        S(T(2, 3, values=values), 0),
        S(T(values=values), -1),
        S(T(0, 3), 0),
        S(T(2, 3, 4, 5, values=values), 1),
        S(T(3, 70, values=values), 1),
        S(T(40, 33, values=values), -2),
    ]


_LONG = [S(T(2, 1100), 1), S(T(33000), 0)]


def _reference(function: Any) -> Any:
    return lambda x, dim: function(np.atleast_1d(x), axis=dim).reshape(x.shape)


def _extremes(ufunc: Any) -> Any:
    def reference(x: np.ndarray, dim: int) -> list[np.ndarray]:
        rows = np.moveaxis(np.atleast_1d(x), dim, -1)
        values, places = np.array(rows), np.zeros(rows.shape, np.int64)
        for c in range(1, rows.shape[-1]):
            new, old = rows[..., c], values[..., c - 1]
            wins = (ufunc(new, old) == new) | np.isnan(new)
            wins = wins & ~(np.isnan(old) & ~np.isnan(new))
            values[..., c] = np.where(wins, new, old)
            places[..., c] = np.where(wins, c, places[..., c - 1])
        return [np.moveaxis(y, -1, dim).reshape(x.shape) for y in (values, places)]

    return reference


def _logcumsumexp(x: np.ndarray, dim: int) -> np.ndarray:
    wide = np.atleast_1d(x).astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)
    top = np.max(wide.real, dim, keepdims=True, initial=-1e3)
    top = np.where(np.isfinite(top), top, 0)
    return (np.log(np.cumsum(np.exp(wide - top), dim)) + top).reshape(x.shape)


_BAD = S(T(2, 3), 2)


def _refusals(op: str) -> tuple[Fails, ...]:
    return (
        Fails(_BAD, errors.IndexRangeError, rf"{op}: 'dim' must be in \[-2, 1\] \(got 2\)"),
        Fails(S(T(2, 3), "0"), TypeError, f"{op}: 'dim' must be"),
    )


_ULP = {float16: 1, bfloat16: 1, float32: 4, float64: 40, complex64: 4, complex128: 80}
_WHY = "f64 and complex128 add or multiply up to 40 in turn; narrower ones in a wider type"
_NO_BOOL = Fails(S(T(2), 0, dtype=bool_), errors.DtypeError, "'dtype' must not be bool")


def _places_row(name: str, ufunc: Any) -> Row:
    return Row(
        name,
        [*_samples("any"), *_samples("exact"), *_LONG[:1]],
        _extremes(ufunc),
        dtypes=tuple(d for d in ALL if not d.is_complex),
        result=lambda args, kwargs, of: (of, int64),
        zeros_equal=True,
        errors=(
            *_refusals(name),
            Fails(S(T(2), 0), errors.DtypeError, f"{name}: 'self' must be real", complex64),
        ),
    )


ROWS = [
    _places_row("cummax", np.maximum),
    _places_row("cummin", np.minimum),
    Row(
        "cumprod",
        [S(T(2, 3, values="powers"), 0), S(T(values="powers"), 0), S(T(0, 3), 1)]
        + [S(T(2, 3, 4, 5, values="powers"), 1), S(T(7, values="powers"), -1, dtype=float64)],
        _reference(np.cumprod),
        ulp=_ULP,
        why=_WHY,
        device_ulp=40,
        out="not_bool",
        errors=(*_refusals("cumprod"), _NO_BOOL),
    ),
    Row(
        "cumsum",
        [*_samples("exact"), S(T(2, 300, values="positive"), 1), S(T(2, 3), 0, dtype=float64)],
        _reference(np.cumsum),
        ulp=_ULP,
        why=_WHY,
        device_ulp=40,
        out="not_bool",
        errors=(*_refusals("cumsum"), _NO_BOOL),
    ),
    Row(
        "logcumsumexp",
        _samples("positive"),
        _logcumsumexp,
        ulp={**_ULP, float64: 400, complex128: 400, complex64: 40, float32: 40},
        why="a rounding of exp, log1p and the addition for each of up to 70 elements in turn",
        device_ulp=400,
        out="same",
        errors=(
            *_refusals("logcumsumexp"),
            Fails(S(T(2), 0), errors.DtypeError, "logcumsumexp: 'self' must be", int64),
        ),
    ),
]
