"""Rows of kernels/*/reduce: over some dimensions or over all."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int64,
)

from . import Fails, Row, S, T


def _over_dims(values: str, empty: bool = True) -> list[S]:
    """Return samples over all elements and over some dimensions; `empty`: also over no elements."""
    made = [S(T(*sizes, values=values)) for sizes in ((2, 3), (), (1, 3, 1), (2, 3, 4, 5), (7,))]
    made += [
        S(T(2, 3, values=values), 0),
        S(T(2, 3, values=values), -1, True),
        S(T(values=values), 0),
        S(T(2, 3, 4, 5, values=values), 1),
        S(T(2, 3, 4, 5, values=values), 3, True),
        S(T(3, 1, values=values), 1),
        S(T(0, 3, values=values), 1),
        S(T(70, 3), 0),
        S(T(3, 70), 1),
        S(T(40, 33)),
    ]
    if empty:
        made += [S(T(0, 3)), S(T(0, 3), 0), S(T(3, 0, 2), 1, True), S(T(0))]
    return made


def _over_several(values: str) -> list[S]:
    return [
        S(T(2, 3, 4, 5, values=values), (0, 2)),
        S(T(2, 3, 4, 5, values=values), (-1, 1), True),
        S(T(2, 3, values=values), (0, 1)),
        S(T(2, 3, values=values), (1, 0), keepdim=True),
        S(T(2, 3, 4, 5, values=values), dim=[2, 3]),
        S(T(2, 3, values=values), (0,)),
    ]


def _axes(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, (list, tuple)) else dim


def _reference(function: Any, none_means_all: bool = True) -> Any:
    def reference(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        axes = _axes(dim)
        if x.ndim == 0 or axes == () and none_means_all:
            axes = None
        return function(x, axis=axes, keepdims=keepdim)

    return reference


def _mean(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    total = np.sum(x, axis=axis, keepdims=keepdims)
    return total / (x.size / np.size(total) if np.size(total) else 1.0)


_SUMS = {float16: 1, bfloat16: 1, float32: 20, float64: 20, complex64: 20, complex128: 20}
_WHY = (
    "chains of at most 40 additions of numbers of one sign, half an ulp each, in the samples that "
    "are not exact; 16-bit floats round the f32 sum once"
)
_POSITIVE = [
    S(T(600, values="positive")),
    S(T(40, 33, values="positive"), 0),
    S(T(3, 300, values="positive"), 1),
]
_BAD_DIM = S(T(2, 3), 2)


def _refusals(op: str) -> tuple[Fails, ...]:
    return (
        Fails(_BAD_DIM, errors.IndexRangeError, rf"{op}: 'dim' must be in \[-2, 1\] \(got 2\)"),
        Fails(
            S(T(2, 3), (0, -2)),
            errors.ArgumentError,
            f"{op}: 'dim' must name each dimension at most once",
        ),
        Fails(S(T(2, 3), "0"), TypeError, f"{op}: 'dim' must be"),
    )


def _no_elements(op: str) -> tuple[Fails, ...]:
    return (
        Fails(
            S(T(0, 3), 0),
            errors.IndexRangeError,
            f"{op}: 'dim' must name dimensions of non-zero size",
        ),
        Fails(S(T(0, 3)), errors.ArgumentError, f"{op}: 'dim' must be given for an empty tensor"),
    )


def _logsumexp(x: np.ndarray, dim: Any, keepdim: bool) -> Any:
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return np.log(np.sum(np.exp(wide), dim if x.ndim else None, keepdims=keepdim))


ROWS = [
    Row(
        "all",
        _over_dims("any") + _over_several("any") + [S(T(2, 3), ())],
        _reference(np.all, none_means_all=False),
        out="truth",
        errors=_refusals("all"),
    ),
    Row(
        "amax",
        _over_dims("any", empty=False) + _over_several("any") + [S(T(2, 3), ())],
        _reference(np.max),
        out="same",
        zeros_equal=True,
        errors=_refusals("amax") + _no_elements("amax"),
    ),
    Row(
        "amin",
        _over_dims("any", empty=False) + _over_several("any") + [S(T(2, 3), ())],
        _reference(np.min),
        out="same",
        zeros_equal=True,
        errors=_refusals("amin") + _no_elements("amin"),
    ),
    Row(
        "any",
        _over_dims("any") + _over_several("any") + [S(T(2, 3), ())],
        _reference(np.any, none_means_all=False),
        out="truth",
        errors=_refusals("any"),
    ),
    Row(
        "count_nonzero",
        [
            S(T(2, 3)),
            S(T()),
            S(T(2, 3), 0),
            S(T(2, 3, 4), (0, -1)),
            S(T(0, 3), 0),
            S(T(2, 3), None),
        ],
        lambda x, dim=None: np.count_nonzero(x, dim if x.ndim else None),
        result=lambda args, kwargs, of: int64,
        out="same",
        errors=(Fails(_BAD_DIM, errors.IndexRangeError, r"'dim' must be in \[-2, 1\] \(got 2\)"),),
    ),
    Row(
        "logsumexp",
        [S(T(2, 3), 0), S(T(), 0), S(T(2, 3, 4), (0, -1), True), S(T(0, 3), 0)],
        lambda x, dim, keepdim=False: _logsumexp(x, dim, keepdim),
        ulp={float16: 4, bfloat16: 4, float32: 16, float64: 16, complex64: 16, complex128: 16},
        why="an exponential, a sum of some dozens and a logarithm, each rounded",
        device_ulp=20,
        dtypes=(float16, bfloat16, float32, float64, complex64, complex128),
        out="same",
        errors=(Fails(_BAD_DIM, errors.IndexRangeError, r"'dim' must be in \[-2, 1\] \(got 2\)"),),
    ),
    Row(
        "mean",
        _over_dims("exact")
        + _over_several("exact")
        + _POSITIVE
        + [S(T(2, 3), dtype=float64), S(T(2, 3), (1,), True, dtype=complex64), S(T(2, 3), ())],
        _reference(_mean),
        ulp=_SUMS,
        why=_WHY,
        device_ulp=20,
        out="inexact",
        errors=(
            *_refusals("mean"),
            Fails(S(T(2)), errors.DtypeError, "mean: 'self' must be floating or complex", int64),
        ),
    ),
    Row(
        "nansum",
        [*_over_dims("exact")[:8], S(T(40, 33, values="positive"), 0), S(T(0, 3), 0)]
        + [*_over_several("exact"), S(T(3, 70), 1), S(T(2, 3), dtype=float64)],
        _reference(np.nansum),
        ulp=_SUMS,
        why=_WHY,
        device_ulp=20,
        out="any",
        errors=(
            *_refusals("nansum"),
            Fails(S(T(2)), errors.DtypeError, "nansum: 'self' must be real", complex64),
        ),
    ),
    Row(
        "prod",
        [S(T(*sizes, values="powers")) for sizes in ((2, 3), (), (0, 3), (7,))]
        + [
            S(T(2, 3, values="powers"), 0),
            S(T(2, 3, 4, 5, values="powers"), 1),
            S(T(2, 3, 4, 5, values="powers"), -1, keepdim=True),
            S(T(2, 3, values="powers"), 0, dtype=float64),
            S(T(0, 3), 0),
        ],
        _reference(np.prod),
        ulp=_SUMS,
        why="NaN, inf and zeros apart, the powers of two are exact",
        device_ulp=20,
        out="any",
        errors=(
            Fails(_BAD_DIM, errors.IndexRangeError, r"prod: 'dim' must be in \[-2, 1\] \(got 2\)"),
            Fails(S(T(2), dtype="float"), TypeError, "prod: 'dtype' must be"),
        ),
    ),
    Row(
        "sum",
        _over_dims("exact")
        + _over_several("exact")
        + _POSITIVE
        + [S(T(2, 3), dtype=float64), S(T(2, 3), (1,), True, dtype=complex64), S(T(2, 3), ())],
        _reference(np.sum),
        ulp=_SUMS,
        why=_WHY,
        device_ulp=20,
        out="any",
        errors=(
            *_refusals("sum"),
            Fails(S(T(2), dtype="float"), TypeError, "sum: 'dtype' must be"),
        ),
    ),
]
