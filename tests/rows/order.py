"""Rows of native/order: medians, modes and k-th values."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    bfloat16,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    int8,
    int64,
    uint8,
)

from . import Fails, Row, S, T

_TYPES = (float16, bfloat16, float32, float64, int8, uint8, int64)


def _rows(x: np.ndarray, dim: int, keepdim: bool, place: Any) -> list[np.ndarray]:
    """place(row) -> index."""
    rows = np.moveaxis(np.atleast_1d(x), dim, -1)
    found = np.array([place(row) for row in rows.reshape(-1, rows.shape[-1])], np.int64)
    places = found.reshape((*rows.shape[:-1], 1))
    values = np.take_along_axis(rows, places, -1)
    if not x.ndim:
        return [y.reshape(()) for y in (values, places)]
    moved = [np.moveaxis(y, -1, dim) for y in (values, places)]
    return moved if keepdim else [np.squeeze(y, dim) for y in moved]


def _sorted(row: Any) -> list[int]:
    return sorted(range(len(row)), key=lambda i: (np.isnan(row[i]), row[i], i))


def _middle(row: Any, ignores: bool) -> int:
    nans = [i for i in range(len(row)) if np.isnan(row[i])]
    if nans and not ignores:
        return nans[0]
    return _sorted(row)[max(len(row) - len(nans) - 1, 0) // 2]


def _median(ignores: bool) -> Any:
    def reference(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return _rows(x.reshape(-1), 0, False, lambda row: _middle(row, ignores))[0]
        return _rows(x, dim, keepdim, lambda row: _middle(row, ignores))

    return reference


def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    def place(row: Any) -> int:
        def order(i: int) -> Any:
            return -int(np.sum(row == row[i])), row[i], -i

        return min(range(len(row)), key=order)

    return _rows(x, dim, keepdim, place)


def _kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _rows(x, dim, keepdim, lambda row: _sorted(row)[k - 1])


def _results(args: Any, kwargs: Any, of: Any) -> Any:
    return (of, int64) if len(args) > 1 else of


def _both(args: Any, kwargs: Any, of: Any) -> Any:
    return of, int64


def _bad(name: str, *before: int) -> tuple[Fails, ...]:
    return (
        Fails(
            S(T(2, 3), *before, 2), errors.IndexRangeError, r"'dim' must be in \[-2, 1\] \(got 2\)"
        ),
        Fails(
            S(T(0, 3), *before, 0), errors.IndexRangeError, "must name a dimension of non-zero size"
        ),
        Fails(S(T(2), *before), errors.DtypeError, f"{name}: 'self' must be real", complex64),
    )


def _median_row(name: str, ignores: bool) -> Row:
    return Row(
        name,
        [S(T(2, 3)), S(T()), S(T(2, 5), 0), S(T(2, 3, 4), -1, True), S(T(7, values="any"), 0)],
        _median(ignores),
        dtypes=_TYPES,
        result=_results,
        out="same",
        zeros_equal=True,
        errors=(
            *_bad(name)[:2],
            Fails(S(T(2)), errors.DtypeError, f"{name}: 'self' must not be bool", bool_),
        ),
    )


def _quantile(
    x: Any, q: Any, dim: Any = None, keepdim: bool = False, interpolation: str = "linear"
) -> Any:
    rank: Any = np.float32 if np.asarray(q).dtype == np.float32 else np.float64
    return np.quantile(x.astype(np.float64), rank(q), dim, method=interpolation, keepdims=keepdim)


def _quantile_row(name: str) -> Row:
    return Row(
        name,
        [
            S(T(5), 0.3),
            S(T(2, 5), T(2, values="positive"), 0),
            S(T(2, 5), 0.5, -1, True),
            S(T(7), 0.4, interpolation="lower"),
            S(T(7), 0.4, interpolation="midpoint"),
            S(T(7), T(values="positive"), interpolation="higher"),
        ],
        _quantile,
        ulp=16,
        why="a rank is a product, an interpolation two products and a sum",
        device_ulp=16,
        dtypes=(float32, float64),
        out="same",
        errors=(
            Fails(S(T(3), 1.5), errors.ArgumentError, f"{name}: 'q' must be in"),
            Fails(S(T(3), 0.5), errors.DtypeError, "'self' must be float32 or float64", int64),
            Fails(
                S(T(3), 0.5, interpolation="best"),
                errors.ArgumentValueError,
                "'interpolation' must be one of",
            ),
        ),
    )


ROWS = [
    Row(
        "kthvalue",
        [S(T(5), 2), S(T(), 1), S(T(2, 5), 1, 0), S(T(2, 3, 4), 3, -1, True)],
        _kthvalue,
        dtypes=_TYPES,
        result=_both,
        out="same",
        zeros_equal=True,
        errors=(
            *_bad("kthvalue", 1),
            Fails(S(T(3), 4), errors.ArgumentError, r"kthvalue: 'k' must be in \[1, 3\] \(got 4\)"),
        ),
    ),
    _median_row("median", ignores=False),
    Row(
        "mode",
        [S(T(5)), S(T()), S(T(2, 9), 1), S(T(9, 2, 3), 0, True)],
        _mode,
        dtypes=_TYPES,
        result=_both,
        out="same",
        zeros_equal=True,
        errors=_bad("mode"),
    ),
    _median_row("nanmedian", ignores=True),
    _quantile_row("nanquantile"),
    _quantile_row("quantile"),
]
