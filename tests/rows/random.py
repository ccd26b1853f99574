"""Rows of kernels/*/random: uniform numbers from Philox4x64-10, seeded with 7 by the harness."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import ALL, COMPLEX, FLOATING, from_numpy, int64

from . import DTYPE, Fails, Row, S, T

_FLOATS = tuple(d for d in ALL if d.category >= FLOATING)
# Bits kept of each 64-bit word, all of them exact in the dtype.
_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}


def _uniform(size: Any, of: Any) -> np.ndarray:
    count = math.prod(size)
    words = np.random.Philox(
        key=np.array([7, 0], np.uint64), counter=np.array([2**64 - 1] * 4, np.uint64)
    )
    if of.category == COMPLEX:
        parts = _uniform((count, 2), of.to_real).astype(np.float64)
        return (parts[:, 0] + 1j * parts[:, 1]).astype(of.np).reshape(size)
    bits = _BITS[of.name]
    drawn = words.random_raw(count).astype(np.uint64) >> np.uint64(64 - bits)
    return (drawn.astype(np.float64) * 2.0**-bits).astype(of.np).reshape(size)


def _rand(size: Any, dtype: Any = None) -> np.ndarray:
    return _uniform(size, dtype or gt.float32)


def _rand_like(self: np.ndarray, dtype: Any = None, memory_format: Any = None) -> np.ndarray:
    return _uniform(self.shape, dtype or from_numpy(self.dtype))


def _uniform_(self: np.ndarray, from_: float = 0, to: float = 1) -> np.ndarray:
    drawn = _uniform(self.shape, from_numpy(self.dtype))
    if (from_, to) == (0, 1):
        return drawn
    # scaled and moved in the dtype itself, 16-bit floats rounding each step
    step = (drawn * drawn.dtype.type(to - from_)).astype(drawn.dtype)
    return (step + drawn.dtype.type(from_)).astype(drawn.dtype)


_INTEGER = "rand(_like)?: 'dtype' must be floating or complex"

ROWS = [
    Row(
        "rand",
        [S((5,), dtype=DTYPE), S((2, 3)), S(()), S((0, 3)), S((33, 5), dtype=DTYPE)],
        _rand,
        dtypes=_FLOATS,
        errors=(
            Fails(S((2,), dtype=int64), errors.DtypeError, _INTEGER),
            Fails(S((-1,)), errors.ArgumentError, "'size' must hold no negative number"),
        ),
    ),
    Row(
        "rand_like",
        [S(T(2, 3)), S(T(2, 3, 4, 5)), S(T()), S(T(0, 3)), S(T(2, 3), dtype=gt.float64)]
        + [S(T(2, 3, 4, 5), memory_format=gt.channels_last)],
        _rand_like,
        dtypes=_FLOATS,
        errors=(Fails(S(T(2)), errors.DtypeError, _INTEGER, int64),),
    ),
    Row(
        "uniform_",
        [S(T(2, 3)), S(T()), S(T(0, 3)), S(T(2, 3, 4, 5)), S(T(2, 3), 2.0, 4.0)],
        _uniform_,
        dtypes=_FLOATS,
        refuses_expanded=True,
        errors=(
            Fails(
                S(T(2, 3, layout="expanded")),
                errors.ArgumentError,
                "uniform_: 'self' must not hold one memory",
            ),
            Fails(S(T(2), 2.0, 1.0), errors.ArgumentError, "uniform_: 'from' must not be above to"),
            Fails(S(T(2)), errors.DtypeError, _INTEGER, int64),
        ),
    ),
]
