"""Rows of kernels/*/comparison: bool results of two inputs that promote."""

from __future__ import annotations

import operator

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import complex64

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

ROWS = [
    Row("eq", pairs(), np.equal, operator=operator.eq, out="any", errors=_REFUSES["eq"]),
    Row("ge", pairs(), np.greater_equal, operator=operator.ge, out="any", errors=_ORDERED["ge"]),
    Row("gt", pairs(), np.greater, operator=operator.gt, out="any", errors=_ORDERED["gt"]),
    Row("le", pairs(), np.less_equal, operator=operator.le, out="any", errors=_ORDERED["le"]),
    Row("lt", pairs(), np.less, operator=operator.lt, out="any", errors=_ORDERED["lt"]),
    Row("ne", pairs(), np.not_equal, operator=operator.ne, out="any", errors=_REFUSES["ne"]),
]
