"""Rows of kernels/*/softmax: along one dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, float16, float32, float64, int64

from . import DTYPE, Fails, Row, S, T

FLOATS = (float16, bfloat16, float32, float64)
SIZES = (
    ((2, 3), 1),
    ((2, 3), 0),
    ((), 0),
    ((0, 3), 1),
    ((3, 0), 1),
    ((1, 3, 1), -2),
    ((2, 3, 4, 5), 1),
    ((7,), -1),
)
# Rows as long as a warp, as a block, and longer than a block's registers; strided too.
LONG = (((2, 40), 1), ((3, 700), 1), ((1, 4200), 1), ((600, 2), 0), ((40, 33), 0))

ULP = {float16: 2, bfloat16: 2, float32: 64, float64: 64}
WHY = (
    "exp and log are good to 4 ulp each and sums of n to log2(n); where a logarithm is near 0, or "
    "a "
    "gradient cancels, what is left of that is relative to larger terms"
)


def softmax(x: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
    if x.size == 0:
        return x
    rows = np.atleast_1d(x)
    powers = np.exp(rows - rows.max(dim, keepdims=True))
    return (powers / powers.sum(dim, keepdims=True)).reshape(x.shape)


def log_softmax(x: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
    if x.size == 0:
        return x
    rows = np.atleast_1d(x)
    less = rows - rows.max(dim, keepdims=True)
    return (less - np.log(np.exp(less).sum(dim, keepdims=True))).reshape(x.shape)


def _softmax_backward(grad: np.ndarray, output: np.ndarray, dim: int, of: Any) -> np.ndarray:
    g, y = np.atleast_1d(grad), np.atleast_1d(output)
    return (y * (g - (g * y).sum(dim, keepdims=True))).reshape(grad.shape)


def _log_softmax_backward(grad: np.ndarray, output: np.ndarray, dim: int, of: Any) -> np.ndarray:
    g, y = np.atleast_1d(grad), np.atleast_1d(output)
    return (g - np.exp(y) * g.sum(dim, keepdims=True)).reshape(grad.shape)


def _public(reference: Any) -> Any:
    def with_dtype(x: np.ndarray, dim: int, dtype: Any = None) -> Any:
        given = x.astype(dtype.np) if dtype is not None else x
        return reference(given.astype(np.float64), dim)

    return with_dtype


def _forward(*rest: Any, values: tuple[str, ...] = ("exact",)) -> list[S]:
    """Samples of moderate numbers. Larger numbers have their own test, because log_softmax near 0
    has an error of up to an ulp of 1."""
    made = [S(T(*sizes, values=kind), dim, *rest) for kind in values for sizes, dim in SIZES]
    return made + [S(T(*sizes, values="positive"), dim, *rest) for sizes, dim in LONG]


def _refusals(op: str, *rest: Any) -> tuple[Fails, ...]:
    return (
        Fails(
            S(T(2, 3), 2, *rest),
            errors.IndexRangeError,
            rf"{op}: 'dim' must be in \[-2, 1\] \(got 2\)",
        ),
        Fails(S(T(2, 3), 1, *rest), errors.DtypeError, f"{op}: 'self' must be floating", int64),
    )


_BACKWARD = [
    S(T(*sizes, values="positive"), T(*sizes, values="positive"), dim, DTYPE)
    for sizes, dim in SIZES + LONG
]


def _backward_row(name: str, reference: Any) -> Row:
    op = name.strip("_").removesuffix("_data")
    refusals = (
        Fails(
            S(T(2, 3), T(3), 1, float32),
            errors.ShapeError,
            f"{op}: 'output' must have grad_output's sizes",
            float32,
        ),
        Fails(
            S(T(2, 3), T(2, 3), 1, float64),
            errors.DtypeError,
            f"{op}: 'input_dtype' must be f32",
            float32,
        ),
        Fails(
            S(T(2, 3), T(2, 3), 1, int64),
            errors.DtypeError,
            f"{op}: 'grad_output' must be floating",
            int64,
        ),
    )
    return Row(name, _BACKWARD, reference, ulp=_LOOSE, device_ulp=4096, why=WHY, errors=refusals)


# The sums of the long samples are some 500 times their terms.
_LOOSE = {float16: 64, bfloat16: 16, float32: 4096, float64: 4096}


ROWS = [
    Row(
        "log_softmax",
        [*_forward(), S(T(2, 3), 1, dtype=float64), S(T(2, 3), 0, dtype=float16)],
        _public(log_softmax),
        ulp=ULP,
        device_ulp=64,
        why=WHY,
        dtypes=FLOATS,
        errors=_refusals("log_softmax"),
    ),
    Row(
        "_log_softmax",
        _forward(False),
        log_softmax,
        out="same",
        ulp=ULP,
        device_ulp=64,
        why=WHY,
        errors=(
            *_refusals("log_softmax", False),
            Fails(
                S(T(2, 3), 1, True),
                errors.ArgumentError,
                "log_softmax: 'half_to_float' must be False",
                float16,
            ),
        ),
    ),
    _backward_row("_log_softmax_backward_data", _log_softmax_backward),
    Row(
        "_safe_softmax",
        [S(T(2, 3), -1), S(T(), 0), S(T(2, 0), 1), S(T(2, 3), 0, dtype=float64)],
        _public(softmax),
        ulp=ULP,
        device_ulp=64,
        why=WHY,
        dtypes=FLOATS,
        errors=_refusals("softmax"),
    ),
    Row(
        "softmax",
        [
            *_forward(values=("exact", "any")),
            S(T(2, 3), 1, dtype=float64),
            S(T(2, 3), 0, dtype=float16),
        ],
        _public(softmax),
        ulp=ULP,
        device_ulp=64,
        why=WHY,
        dtypes=FLOATS,
        errors=_refusals("softmax"),
    ),
    Row(
        "_softmax",
        _forward(False, values=("exact", "any")),
        softmax,
        out="same",
        ulp=ULP,
        device_ulp=64,
        why=WHY,
        errors=_refusals("softmax", False),
    ),
    _backward_row("_softmax_backward_data", _softmax_backward),
]
