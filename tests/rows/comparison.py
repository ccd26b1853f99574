"""Rows of kernels/*/comparison: bool results of two inputs that promote."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bool_, complex64, float32, int8

from . import Fails, Row, S, T, pairs
from .binary import MISMATCH

_REFUSES = {
    name: (
        Fails(MISMATCH, errors.ShapeError, f"{name}: 'other' must broadcast with 'self'"),
        Fails(S(T(2), "2"), TypeError, f"{name}: 'other' must be a Tensor"),
    )
    for name in ("eq", "ge", "gt", "le", "lt", "ne")
}
_ORDERED = {
    name: (
        *refused,
        Fails(S(T(2), T(2)), errors.DtypeError, f"{name}: 'self' must be real", complex64),
    )
    for name, refused in _REFUSES.items()
}


def _isclose(self: Any, other: Any, *bounds: float, **kwargs: Any) -> Any:
    if self.dtype.kind == "b":  # NumPy cannot subtract bools
        self, other = self.astype(np.float64), other.astype(np.float64)
    return np.isclose(self, other, *bounds, **kwargs)


# Functions of whole tensors that return a bool.
CLOSE = [
    S(T(2, 3), T(2, 3)),
    S(T(2, 3, values="any"), T(3, values="any"), rtol=0.5, atol=1.0),
    S(T(), T(), 0.0, 0.0),
    S(T(2, 3, values="any"), T(2, 3, values="any"), equal_nan=True),
]

ROWS = [
    Row(
        "allclose",
        CLOSE,
        lambda *args, **kwargs: np.all(_isclose(*args, **kwargs)),
        no_meta="it looks at elements",
        errors=(Fails(S(T(2), T(3)), errors.ShapeError, "allclose: 'other' must broadcast"),),
    ),
    Row("eq", pairs(), np.equal, operator=operator.eq, out="any", errors=_REFUSES["eq"]),
    Row(
        "equal",
        [S(T(2, 3), T(2, 3)), S(T(), T()), S(T(0, 3), T(0, 3))],
        lambda self, other: np.all(self == other),
        no_meta="it looks at elements",
    ),
    Row("ge", pairs(), np.greater_equal, operator=operator.ge, out="any", errors=_ORDERED["ge"]),
    Row("gt", pairs(), np.greater, operator=operator.gt, out="any", errors=_ORDERED["gt"]),
    Row(
        "isclose",
        CLOSE,
        _isclose,
        result=lambda args, kwargs, default: bool_,
        errors=(
            Fails(
                S(T(2), T(2, dtype=int8)), errors.DtypeError, "isclose: 'other' must be f", float32
            ),
            Fails(
                S(T(2), T(2), -1.0), errors.ArgumentError, "isclose: 'rtol' must not be negative"
            ),
        ),
    ),
    Row("le", pairs(), np.less_equal, operator=operator.le, out="any", errors=_ORDERED["le"]),
    Row("logical_and", pairs()[:8], np.logical_and, out="any"),
    Row("logical_or", pairs()[:8], np.logical_or, out="any"),
    Row("logical_xor", pairs()[:8], np.logical_xor, out="any"),
    Row("lt", pairs(), np.less, operator=operator.lt, out="any", errors=_ORDERED["lt"]),
    Row("ne", pairs(), np.not_equal, operator=operator.ne, out="any", errors=_REFUSES["ne"]),
]
