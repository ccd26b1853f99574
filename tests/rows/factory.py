"""Rows of operators that make new tensors, also with the properties of another tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import complex64, float32, int64

from . import DTYPE, Fails, Row, S, T
from .copy import converted

_IMAGE = T(2, 3, 4, 5)
_SIZES = [S((2, 3)), S(()), S((0, 3)), S((2, 3), dtype=DTYPE)]
_LIKE = [
    S(T(2, 3)),
    S(_IMAGE),
    S(T()),
    S(T(0, 3)),
    S(T(1, 3, 1)),
    S(T(2, 3), dtype=gt.float64),
    S(T(2, 3), dtype=DTYPE),
    S(_IMAGE, memory_format=gt.channels_last),
    S(_IMAGE, memory_format=gt.contiguous_format),
]
_NEW = [S(T(2, 3), (4,)), S(T(), ()), S(T(2), (0, 2)), S(T(2), (2, 2), dtype=gt.float64)]
_NUMBERS = {bool: gt.bool, int: int64, float: float32, complex: complex64}


def _filled(value: Any) -> Any:
    def reference(size: Any, dtype: Any = None) -> np.ndarray:
        return np.full(size, value)

    return reference


def _filled_like(value: Any) -> Any:
    def reference(self: np.ndarray, dtype: Any = None, memory_format: Any = None) -> np.ndarray:
        return np.full(self.shape, value)

    return reference


def _filled_new(value: Any) -> Any:
    def reference(self: np.ndarray, size: Any, dtype: Any = None) -> np.ndarray:
        return np.full(size, value)

    return reference


def _full(size: Any, fill_value: Any, dtype: Any = None) -> np.ndarray:
    found = np.full(size, fill_value)
    return found if dtype is None else converted(found, dtype.np)


def _full_dtype(args: Any, kwargs: Any, of: Any) -> Any:
    given = kwargs.get("dtype")
    return of if given is DTYPE else given or _NUMBERS[type(args[1])]


def _full_like(
    self: np.ndarray, fill_value: Any, dtype: Any = None, memory_format: Any = None
) -> np.ndarray:
    return converted(np.full(self.shape, fill_value), self.dtype if dtype is None else dtype.np)


def _new_full(self: np.ndarray, size: Any, fill_value: Any, dtype: Any = None) -> np.ndarray:
    return converted(np.full(size, fill_value), self.dtype if dtype is None else dtype.np)


def _refusals(op: str) -> tuple[Fails, ...]:
    return (
        Fails(S((2, -1)), errors.ArgumentError, "'size' must hold no negative number"),
        Fails(S((2.5,)), TypeError, "'size' must be a tuple of ints"),
        Fails(S((2,), dtype="float32"), TypeError, "'dtype' must be"),
    )


ROWS = [
    Row("_efficientzerotensor", _SIZES, _filled(0)),
    Row(
        "empty",
        [*_SIZES, S((2, 3, 4, 5), memory_format=gt.channels_last)],
        errors=(
            *_refusals("empty"),
            Fails(S((2, 3), memory_format=gt.channels_last), errors.GpuTensorError, "4"),
            Fails(
                S((2, 3, 4, 5), memory_format=gt.preserve_format),
                errors.GpuTensorError,
                "memory_format",
            ),
        ),
    ),
    Row("empty_like", _LIKE),
    Row(
        "empty_permuted",
        [S((2, 3, 4, 5), (0, 2, 3, 1)), S((2, 0, 3), (2, 0, 1), dtype=DTYPE), S((), ())],
        errors=(
            Fails(
                S((2, 3), (0,)),
                errors.ArgumentError,
                "empty_permuted: 'physical_layout' must name each",
            ),
            Fails(
                S((2, 3), (0, 2)),
                errors.IndexRangeError,
                "empty_permuted: 'physical_layout' must be in",
            ),
        ),
    ),
    Row(
        "empty_strided",
        [S((2, 3), (1, 2)), S((2, 3), (10, 2), dtype=DTYPE), S((), ()), S((0, 3), (7, 9))],
        errors=(
            Fails(
                S((2, 3), (1,)), errors.ArgumentError, "empty_strided: 'stride' must have 2 entries"
            ),
            Fails(
                S((2,), (-1,)),
                errors.ArgumentError,
                "empty_strided: 'stride' must hold no negative number",
            ),
        ),
    ),
    Row(
        "full",
        [S((2, 3), value) for value in (3, 2.5, True, 1 + 2j)]
        + [S((), 7, dtype=DTYPE), S((2, 3), 2.5, dtype=DTYPE), S((0, 2), 1)],
        _full,
        result=_full_dtype,
        out="own",
        errors=(
            Fails(S((2,), "3"), TypeError, "'(fill_)?value' must be a number"),
            Fails(S((-2,), 3), errors.ArgumentError, "'size' must hold no negative number"),
            Fails(S((2,), 1j, dtype=float32), errors.ArgumentError, "'value' must be real for f32"),
        ),
    ),
    Row(
        "full_like",
        [S(x.args[0], value, **x.kwargs) for x in _LIKE for value in (3, 2.5)],
        _full_like,
        errors=(Fails(S(T(2), None), TypeError, "'(fill_)?value' must be a number"),),
    ),
    Row(
        "new_empty",
        _NEW,
        errors=(Fails(S(T(2), (-1,)), errors.ArgumentError, "'size' must hold no negative"),),
    ),
    Row(
        "new_empty_strided",
        [S(T(2), (2, 3), (1, 2)), S(T(), (), ()), S(T(2), (2,), (3,), dtype=gt.float64)],
    ),
    Row("new_full", [S(*x.args, value, **x.kwargs) for x in _NEW for value in (3, 2.5)], _new_full),
    Row("new_ones", _NEW, _filled_new(1)),
    Row("new_zeros", _NEW, _filled_new(0)),
    Row("ones", _SIZES, _filled(1), out="any", errors=_refusals("ones")),
    Row("ones_like", _LIKE, _filled_like(1)),
    Row(
        "scalar_tensor",
        [S(3), S(2.5), S(True), S(2.5, dtype=gt.float64), S(3, dtype=DTYPE)],
        lambda s, dtype=None: np.asarray(s),
        errors=(Fails(S("3"), TypeError, "'(s|value)' must be a number"),),
    ),
    Row("zeros", _SIZES, _filled(0), out="any", errors=_refusals("zeros")),
    Row("zeros_like", _LIKE, _filled_like(0)),
]
