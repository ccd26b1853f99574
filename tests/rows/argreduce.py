"""Rows of kernels/*/argreduce: indices of extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bool_, complex64

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


ROWS = [_row("argmax", np.argmax), _row("argmin", np.argmin)]
