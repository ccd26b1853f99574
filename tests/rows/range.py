"""Rows of kernels/*/range: values computed from the index."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import (
    ALL,
    COMPLEX,
    INTEGER,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int64,
)

from . import DTYPE, Fails, Row, S, T

_REAL = tuple(d for d in ALL if d.category < COMPLEX and d is not gt.bool)


def _arange(*args: Any, dtype: Any = None) -> np.ndarray:
    start, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if dtype is int64:
        start, end, step = int(start), int(end), int(step)
    count = max(0, int(np.ceil((end - start) / step)))
    return np.array([start + i * step for i in range(count)] or np.empty(0))


def _arange_dtype(args: Any, kwargs: Any, of: Any) -> Any:
    given = kwargs.get("dtype")
    if given is not None:
        return of if given is DTYPE else given
    return int64 if all(isinstance(x, int) for x in args) else float32


def _linspace(start: Any, end: Any, steps: int, dtype: Any = None) -> np.ndarray:
    found = np.linspace(start, end, steps)
    return np.trunc(found) if dtype is not None and dtype.category <= INTEGER else found


def _base_to(base: float, start: Any, end: Any, steps: int, dtype: Any) -> np.ndarray:
    found = np.power(base, np.linspace(start, end, steps))
    return np.trunc(found) if dtype is not None and dtype.category <= INTEGER else found


def _linspace_dtype(args: Any, kwargs: Any, of: Any) -> Any:
    given = kwargs.get("dtype")
    if given is not None:
        return of if given is DTYPE else given
    is_complex = [x.dtype is complex64 if type(x) is T else type(x) is complex for x in args]
    return complex64 if any(is_complex) else float32


_ZERO, _ONE = T(values="zeros", dtype=int64), T(values="ones", dtype=float64)


ROWS = [
    Row(
        "arange",
        [
            S(5),
            S(0),
            S(2.5),
            S(1, 7),
            S(-2, 3),
            S(1, 7, 2),
            S(7, 1, -2),
            S(0.5, 3, 0.25),
            S(3, 3, 1),
            S(5, dtype=DTYPE),
            S(1, 100, dtype=DTYPE),
            S(0, 20, 3, dtype=DTYPE),
            S(1.0, 3.0, 0.5, dtype=gt.float16),
            S(0, 1.0, 0.1, dtype=float64),
            S(300, dtype=gt.float32),
        ],
        _arange,
        result=_arange_dtype,
        dtypes=_REAL,
        out="any",
        errors=(
            Fails(S(1, 5, 0), errors.ArgumentError, "arange: 'step' must not be 0"),
            Fails(
                S(5, 1),
                errors.ArgumentError,
                "arange: 'end' must lie from start in the direction of step",
            ),
            Fails(S(float("inf")), errors.ArgumentError, "arange: 'end' must be finite"),
            Fails(S("5"), TypeError, "arange: 'end' must be a number"),
            Fails(S(5, dtype="int"), TypeError, "'dtype' must be"),
        ),
    ),
    Row(
        "eye",
        [S(3), S(0), S(2, 4), S(4, 2), S(3, 0), S(3, dtype=DTYPE), S(2, 3, dtype=DTYPE)],
        lambda n, m=None, dtype=None: np.eye(n, m),
        out="any",
        errors=(
            Fails(S(-1), errors.ArgumentError, "eye: 'n' must not be negative"),
            Fails(S(2.5), TypeError, "eye: 'n' must be an int"),
        ),
    ),
    Row(
        "linspace",
        [
            S(0, 1, 5),
            S(0, 1, 1),
            S(0, 1, 0),
            S(-3, 3, 7),
            S(3, -3, 4),
            S(0.0, 1.0, 11),
            S(0, 10, 300),
            S(0, 8, 5, dtype=DTYPE),
            S(0, 1j, 3),
            S(0, 10, 4, dtype=float64),
            S(_ZERO, 8, 5, dtype=DTYPE),
            S(0, _ONE, 5),
            S(_ZERO, _ONE, 3),
            S(_ZERO, T(values="ones", dtype=complex64), 3),
        ],
        _linspace,
        result=_linspace_dtype,
        out="any",
        dtypes=tuple(d for d in ALL if d is not gt.bool),
        ulp={float32: 1, float64: 2, float16: 1, bfloat16: 1, complex64: 2, complex128: 2},
        why="step is rounded once, and NumPy counts from the start where we count from both ends",
        errors=(
            Fails(S(0, 1, -1), errors.ArgumentError, "linspace: 'steps' must not be negative"),
            Fails(S(0, 1, 2.5), TypeError, "linspace: 'steps' must be an int"),
            Fails(S("0", 1, 2), TypeError, "linspace: 'start' must be a number"),
            Fails(S(T(1), 1, 2), errors.ShapeError, "linspace: 'start' must"),
        ),
    ),
    Row(
        "logspace",
        [
            S(0, 3, 4),
            S(-1, 4, 0, 2.0),
            S(0, 4, 9, 2.0, dtype=DTYPE),
            S(2, 0, 1, -2.0),
            S(2.5, 0, 1, 2.0, dtype=DTYPE),
            S(_ZERO, 3, 4),
            S(0, _ONE, 3),
            S(_ZERO, _ONE, 2, dtype=float64),
        ],
        lambda start, end, steps, base=10.0, dtype=None: _base_to(base, start, end, steps, dtype),
        result=_linspace_dtype,
        out="any",
        dtypes=tuple(d for d in ALL if d is not gt.bool),
        ulp={float64: 2, complex64: 1, complex128: 4, float32: 1},
        device_ulp=4,
        why="the powers are those of NumPy and of CUDA, of ends in float64",
        errors=(
            Fails(S(0, 1, -1), errors.ArgumentError, "'steps' must not be negative"),
            Fails(S(0, "1", 2), TypeError, "logspace: 'end' must be a number"),
        ),
    ),
]
