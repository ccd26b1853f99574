"""Rows of native/random_factory: new tensors with the numbers of the rows of `random`."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import float32, from_numpy, int8, int64

from . import DTYPE, Fails, Row, S, T
from .random import (
    FILLED, FLOATS, INTEGER, LIBM, REAL, integers, normal, refused, uniform, words,
)  # fmt: skip


def _like(make: Any) -> Any:
    def ref(self: np.ndarray, *args: Any, dtype: Any = None, **_: Any) -> np.ndarray:
        return make(self.shape, dtype or from_numpy(self.dtype), *args)

    return ref


def _of_size(make: Any, default: Any = float32) -> Any:
    """Return the reference of a factory whose last argument is the size."""

    def ref(*args: Any, dtype: Any = None, **_: Any) -> np.ndarray:
        return make(args[-1], dtype or default, *args[:-1])

    return ref


def _randint(size: Any, of: Any, *bounds: int) -> np.ndarray:
    return integers(size, of, *(bounds if len(bounds) == 2 else (0, *bounds)))


def _randperm(n: int, dtype: Any = int64, **_: Any) -> np.ndarray:
    return np.argsort(words(n), kind="stable").astype((dtype or int64).np)


_SIZES = [
    S((5,), dtype=DTYPE),
    S((2, 3), generator=None),
    S(()),
    S((0, 3)),
    S((33, 5), dtype=DTYPE),
]
_ALIKE = [
    S(T(2, 3)),
    S(T(2, 3, 4, 5), generator=None),
    S(T()),
    S(T(0, 3)),
    S(T(2, 3), dtype=gt.float64),
]
_ALIKE += [S(T(2, 3, 4, 5), memory_format=gt.channels_last)]
_HIGH = gt.tensor(2)  # the result is on the CPU, whatever the device

ROWS = [
    Row(
        "rand",
        _SIZES,
        _of_size(uniform),
        out="own",
        dtypes=FLOATS,
        errors=(
            Fails(S((2,), dtype=int64), errors.DtypeError, f"rand: 'dtype' {INTEGER}"),
            Fails(S((-1,)), errors.ArgumentError, "rand: 'size' must hold no negative number"),
        ),
    ),
    Row(
        "rand_like",
        _ALIKE,
        _like(uniform),
        dtypes=FLOATS,
        errors=(refused("rand_like", message=f"'dtype' {INTEGER}", of=int64),),
    ),
    Row(
        "randint",
        [
            S(7, (2, 3), dtype=DTYPE),
            S(2, 9, (4,)),
            S(3, (), generator=None),
            S(1, 3, (0, 2), generator=None),
        ],
        _of_size(_randint, int64),
        out="own",
        dtypes=REAL[1:],
        result=lambda args, kwargs, of: of if "dtype" in kwargs else int64,
        errors=(Fails(S(3, 3, (2,)), errors.ArgumentError, "randint: 'low' must be below high"),),
    ),
    Row(
        "randint_like",
        [S(x, 2) for x in FILLED]
        + [
            S(T(2, 3), 1, 7, dtype=gt.int32),
            S(T(5), 2, generator=None),
            S(T(5), 1, 2, generator=None),
            S(T(2, 3), _HIGH),
            S(T(2, 3), _HIGH, generator=None),
        ],
        _like(_randint),
        dtypes=REAL,
        errors=(refused("randint_like", 0, message="'low' must be below high"),),
    ),
    Row(
        "randn",
        _SIZES,
        _of_size(normal),
        out="own",
        dtypes=FLOATS,
        ulp=16,
        device_ulp=16,
        why=LIBM,
        errors=(
            Fails(S((2,), dtype=int64), errors.DtypeError, f"randn: 'dtype' {INTEGER}"),
            Fails(S((-1,)), errors.ArgumentError, "randn: 'size' must hold no negative number"),
        ),
    ),
    Row(
        "randn_like",
        _ALIKE,
        _like(normal),
        dtypes=FLOATS,
        ulp=16,
        device_ulp=16,
        why=LIBM,
        errors=(refused("randn_like", message=f"'dtype' {INTEGER}", of=int64),),
    ),
    Row(
        "randperm",
        [S(5), S(0, generator=None), S(33, dtype=DTYPE)],
        _randperm,
        out="own",
        dtypes=REAL[1:],
        result=lambda args, kwargs, of: of if "dtype" in kwargs else int64,
        errors=(
            Fails(S(-1), errors.ArgumentError, "randperm: 'n' must not be negative"),
            Fails(S(200, dtype=int8), errors.ArgumentError, "randperm: 'n' must not be above"),
        ),
    ),
]
