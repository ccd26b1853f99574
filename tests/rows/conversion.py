"""Rows of conversions by `to`, and of one element to a Python number."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import STORED

from . import DEVICE, DTYPE, Fails, Row, S, T
from .copy import converted

_IMAGE = T(2, 3, 4, 5)


def _to(self: np.ndarray, *target: Any, dtype: Any = None, **options: Any) -> np.ndarray:
    for x in (*target, dtype):
        if isinstance(x, gt.dtype):
            return converted(self, x.np)
        if isinstance(x, np.ndarray):
            return converted(self, x.dtype)
    return self


def _target(args: tuple[Any, ...], kwargs: dict[str, Any], of: Any) -> Any:
    """Return the dtype that is passed to `to`."""
    for x in (*args[1:], kwargs.get("dtype")):
        if x is DTYPE:
            return of
        if isinstance(x, gt.dtype):
            return x
        if type(x) is T:
            return x.dtype or of
    return args[0].dtype or of


ROWS = [
    Row(
        "item",
        [S(T()), S(T(1)), S(T(1, 1, 1))],
        lambda self: self.reshape(()),
        no_meta="a meta tensor has no element to read",
        errors=(Fails(S(T(2)), errors.ArgumentError, "item: 'self' must hold one element"),),
    ),
    Row(
        "_local_scalar_dense",
        [S(T()), S(T(1))],
        lambda self: self.reshape(()),
        no_meta="a meta tensor has no element to read",
    ),
    Row(
        "to",
        [S(T(4, 6, values="any", dtype=d), DTYPE) for d in STORED]
        + [
            S(T(2, 3)),
            S(T(2, 3), DEVICE),
            S(T(2, 3), DEVICE, gt.float64),
            S(T(2, 3), T(1, dtype=gt.int32)),
            S(T(2, 3), dtype=gt.float16),
            S(T(2, 3), copy=True),
            S(_IMAGE, memory_format=gt.channels_last),
            S(T(), gt.bfloat16),
            S(T(0, 3), gt.int8),
            S(_IMAGE, gt.float64, memory_format=gt.contiguous_format),
        ],
        _to,
        result=_target,
        may_copy=True,
        errors=(
            Fails(S(T(2), dtype="float32"), TypeError, "to: 'dtype' must be"),
            Fails(
                S(T(2), gt.float32, memory_format="channels_last"),
                TypeError,
                "to: 'memory_format' must be",
            ),
        ),
    ),
    Row(
        "_to_copy",
        [
            S(T(2, 3)),
            S(T(2, 3, values="any"), dtype=gt.int32),
            S(_IMAGE, memory_format=gt.channels_last),
        ],
        _to,
        result=_target,
    ),
    Row(
        "type_as",
        [S(T(2, 3), T(1, dtype=gt.int32)), S(T(), T(2, dtype=gt.float64))],
        _to,
        result=_target,
        may_copy=True,
    ),
]
