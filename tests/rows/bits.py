"""Rows of native/bits: functions of the bits of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    bfloat16,
    complex64,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint64,
)

from . import Fails, Row, S, T

_HASHED = (int64, int32, float32, bfloat16)


def _frexp(x: np.ndarray) -> Any:
    mantissa, exponent = np.frexp(x.astype(np.float64))
    return [mantissa.astype(x.dtype), np.where(np.isfinite(mantissa), exponent, 0).astype("i4")]


def _hash(x: np.ndarray, dim: Any = (), keepdim: bool = False, mode: int = 0) -> Any:
    floats = x.dtype.kind in "fV"
    bits = x.astype(np.float64).view(np.uint64) if floats else x.astype("i8").view(np.uint64)
    dims = tuple(np.atleast_1d(dim).astype(int)) or tuple(range(x.ndim)) if x.ndim else ()
    return np.bitwise_xor.reduce(bits, axis=dims, keepdims=keepdim)


ROWS = [
    Row(
        "frexp",
        [S(T(2, 3, values="any")), S(T()), S(T(0, 3))],
        _frexp,
        dtypes=(float16, bfloat16, float32, float64),
        out="same",
        result=lambda args, kwargs, of: (of, int32),
        errors=(Fails(S(T(2)), errors.DtypeError, "frexp: 'self' must be floating", int64),),
    ),
    Row(
        "hash_tensor",
        [
            S(T(2, 3)),
            S(T(3, 5), 1),
            S(T(3, 2, 5), [0, 2], keepdim=True),
            S(T()),
            S(T(), 0),
            S(T(), -1, keepdim=True),
        ],
        _hash,
        dtypes=_HASHED,
        out="same",
        result=lambda args, kwargs, of: uint64,
        errors=(
            Fails(S(T(2)), errors.DtypeError, "hash_tensor: 'self' must be real", complex64),
            Fails(S(T(2), mode=1), errors.ArgumentError, "'mode' must be 0", float32),
            Fails(S(T(2, 0), 1), errors.IndexRangeError, "'dim' must name dimensions", float32),
        ),
    ),
]
