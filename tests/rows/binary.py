"""Rows of kernels/*/binary: two inputs that promote, with alpha and rounding modes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    COMPLEX,
    INTEGER,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint64,
)

from . import Fails, Row, S, T, pairs


def _scaled(ufunc: np.ufunc, swap: bool = False) -> Any:
    def reference(self: Any, other: Any, alpha: Any = 1) -> Any:
        if swap:
            self, other = other, self
        if alpha == 1 and type(alpha) is int:
            return ufunc(self, other)
        kind = np.asarray(other).dtype
        if kind.kind == "b":
            alpha = bool(alpha)  # the product of bools is `and`
        elif kind == np.uint64:
            alpha %= 2**64
        return ufunc(self, np.multiply(other, alpha))

    return reference


def _divide(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return np.true_divide(self, other)
    if rounding_mode == "floor":
        found = np.floor_divide(self, other)
        if found.dtype.kind != "f":
            return found
        return np.where(np.isinf(self) | np.isinf(other), np.true_divide(self, other), found)
    if np.result_type(self, other).kind in "iu":
        return np.floor_divide(self - np.fmod(self, other), other)
    return np.trunc(np.true_divide(self, other))


def _rounds_complex_or_bool(operands: Any, kwargs: Any, compute: Any) -> bool:
    return kwargs.get("rounding_mode") is not None and (
        compute.category == COMPLEX or compute is bool_
    )


def _scales_by_more_than(operands: Any, kwargs: Any, compute: Any) -> bool:
    """alpha must not have a higher category than the result; a bool alpha is allowed for bools
    only."""
    alpha = kwargs.get("alpha", 1)
    if alpha is True:
        return compute is not bool_
    return {int: 1, float: 2, complex: 3}[type(alpha)] > max(compute.category, 1)


def _refuses_difference(operands: Any, kwargs: Any, compute: Any) -> bool:
    """True if an operand is a bool tensor or True: PyTorch has no `-` for these."""
    return _scales_by_more_than(operands, kwargs, compute) or any(
        x is True or type(x) is tuple and x[1] is bool_ for x in operands
    )


SCALED = [
    S(T(2, 3), T(2, 3), alpha=2),
    S(T(2, 3), T(3), alpha=-3),
    S(T(), T(2, 3), alpha=0),
    S(T(2, 3), T(2, 3), alpha=-0.5),
    S(T(2, 3), 2, alpha=3),
    S(T(0, 3), T(3), alpha=2),
    S(T(2, 3), T(2, 3, dtype=float32), alpha=2),
    S(T(2, 3), T(2, 3), alpha=True),
]
MISMATCH = S(T(2, 3), T(2, 4))


def _refusals(op: str) -> tuple[Fails, ...]:
    """Errors of every operator with two inputs."""
    return (
        Fails(
            MISMATCH,
            errors.ShapeError,
            rf"{op}: 'other' must broadcast with 'self' \(got .*\[2,3\].*\[2,4\]",
        ),
        Fails(S(T(2), "2"), TypeError, f"{op}: 'other' must be a Tensor"),
        Fails(S(T(2), None), TypeError, f"{op}: 'other' must be a Tensor"),
        Fails(S(T(2), T(2, dtype=uint64)), errors.DtypeError, f"{op}: .*uint64", int32),
    )


def few(values: str = "any", second: str = "", numbers: tuple[Any, ...] = ()) -> list[S]:
    """Return pairs of operands for an operator whose loops other rows of the family already
    test."""
    second = second or values
    made = [
        S(T(2, 3, values=values), T(2, 3, values=second)),
        S(T(2, 1, values=values), T(3, values=second)),
        S(T(values=values), T(values=second)),
        S(T(0, 3, values=values), T(3, values=second)),
        S(T(2, 3, values=values), T(2, 3, values=second, layout="transposed")),
    ]
    return made + [S(T(2, 3, values=values), number) for number in numbers]


INTEGERS = [S(T(2, 3, dtype=int32), T(3, dtype=int32))]


def mixed(*dtypes: Any) -> list[S]:
    return [S(T(2, 3), T(2, 3, values="nonzero", dtype=of)) for of in dtypes]


def _power(self: Any, other: Any) -> Any:
    kinds = np.result_type(self, other).kind
    if kinds not in "iu" or np.all(np.asarray(other) >= 0):
        return np.power(self, other)
    signs = np.where(self == -1, 1 - 2 * (other & 1), self == 1)
    return np.where(other < 0, signs, np.power(self, np.where(other < 0, 0, other)))


def _negative_power(operands: Any, kwargs: Any, compute: Any) -> bool:
    """True for a negative exponent of integers, which would need a division."""
    return type(operands[1]) is int and operands[1] < 0 and compute.category <= INTEGER


def _remainder(self: Any, other: Any) -> Any:
    return np.remainder(self, other)


def _ldexp(self: Any, other: Any) -> Any:
    return self * 2.0**other


def _logaddexp(self: Any, other: Any) -> Any:
    if np.iscomplexobj(self):
        self, other = np.broadcast_arrays(self, other)
        low, high = np.where(self.real < other.real, (self, other), (other, self))
        return high + np.log1p(np.exp(low - high))
    return np.logaddexp(self, other)


def _shift(ufunc: np.ufunc) -> Any:
    """A number of bits that uint64 cannot hold is taken modulo 2**64, as C converts it."""

    def reference(self: Any, other: Any) -> Any:
        if type(other) is int and self.dtype == np.uint64:
            other %= 2**64
        return ufunc(self, other)

    return reference


WIDE = "CUDA promises 2 ulp and more for these functions, and NumPy's differ between platforms"
TWO_ROUNDINGS = {float16: 1, bfloat16: 1, float32: 4, float64: 4}


ROWS = [
    Row(
        "add",
        pairs() + SCALED,
        _scaled(np.add),
        operator=operator.add,
        refuses=_scales_by_more_than,
        errors=(
            *_refusals("add"),
            Fails(S(T(2), T(2), alpha=1.5), errors.ArgumentError, "add: 'alpha' must", int64),
        ),
    ),
    Row(
        "atan2",
        few() + mixed(int32, float64),
        np.arctan2,
        ulp=TWO_ROUNDINGS,
        device_ulp=4,
        why=WIDE,
    ),
    Row(
        "bitwise_and",
        few("any", "any", (3, True)) + INTEGERS + mixed(bool_, uint8),
        np.bitwise_and,
        operator=operator.and_,
        errors=(
            Fails(S(T(2), T(2)), errors.DtypeError, "bitwise_and: 'self' must be bool or", float32),
        ),
    ),
    Row(
        "bitwise_left_shift",
        few("any", "any", (1, 70, -1)) + INTEGERS,
        _shift(np.left_shift),
        operator=operator.lshift,
    ),
    Row("bitwise_or", few("any", "any", (3,)) + INTEGERS, np.bitwise_or, operator=operator.or_),
    Row(
        "bitwise_right_shift",
        few("any", "any", (1, 70, -1)) + INTEGERS,
        _shift(np.right_shift),
        operator=operator.rshift,
    ),
    Row("bitwise_xor", few("any", "any", (3,)) + INTEGERS, np.bitwise_xor, operator=operator.xor),
    Row("copysign", few("any", "any", (-2, -0.0)) + mixed(int32), np.copysign),
    Row(
        "div",
        pairs("any", "any")
        + [
            S(T(*a, values="exact"), T(*b, values="nonzero"), rounding_mode=mode)
            for mode in ("trunc", "floor")
            for a, b in (
                ((2, 3), (2, 3)),
                ((), ()),
                ((0, 3), (3,)),
                ((2, 3, 4, 5), (3, 1, 1)),
                ((2, 3), ()),
            )
        ]
        + [S(T(2, 3), 2, rounding_mode=mode) for mode in ("trunc", "floor")]
        + [S(T(2, 3), -1.5, rounding_mode=mode) for mode in ("trunc", "floor")]
        + [S(T(2, 3), T(2, 3, values="nonzero"), rounding_mode=None)],
        _divide,
        operator=operator.truediv,
        rule=lambda _, kwargs: None if kwargs.get("rounding_mode") else "promoted_float",
        refuses=_rounds_complex_or_bool,
        ulp={complex64: 4, complex128: 4},
        device_ulp=4,
        why="a complex quotient is some ten roundings, and its scaling differs between libraries",
        errors=(
            *_refusals("div"),
            Fails(
                S(T(2), T(2), rounding_mode="up"),
                errors.ArgumentError,
                "div: 'rounding_mode' must be None, 'trunc' or 'floor' .got 'up'",
            ),
            Fails(
                S(T(2), T(2), rounding_mode="floor"),
                errors.DtypeError,
                "div: 'self' must be real",
                complex64,
            ),
        ),
    ),
    Row(
        "float_power",
        few("positive", "exact", (2, 0.5)),
        lambda self, other: np.power(self, other, dtype=np.result_type(self, other, np.float64)),
        out="same",
        result=lambda args, kwargs, default: complex128 if default.is_complex else float64,
        ulp=8,
        device_ulp=8,
        why=WIDE,
    ),
    Row(
        "floor_divide",
        few("exact", "nonzero", (2,)),
        np.floor_divide,
        out="same",
        dtypes=(uint8, int32, int64, float32, float64),
    ),
    Row("fmax", few(), np.fmax, zeros_equal=True),
    Row("fmin", few(), np.fmin, zeros_equal=True),
    Row(
        "fmod",
        few("any", "nonzero", (2, -1.5)) + mixed(float64),
        np.fmod,
    ),
    Row("gcd", few() + INTEGERS, np.gcd),
    Row("heaviside", few(), lambda self, other: np.where(self == 0, other, self > 0), out="same"),
    Row("hypot", few(), np.hypot, ulp=TWO_ROUNDINGS, device_ulp=4, why=WIDE),
    Row("lcm", few("exact") + INTEGERS, np.lcm),
    Row(
        "ldexp",
        few("exact"),
        lambda self, other: self * 2.0**other,
        out="same",
        dtypes=(float32, float64),
        ulp=1,
        device_ulp=1,
        why="powers of 2 to a fraction are rounded before the product is",
    ),
    Row("logaddexp", few("exact"), _logaddexp, ulp=8, device_ulp=16, why=WIDE),
    Row("logaddexp2", few("exact"), np.logaddexp2, ulp=8, device_ulp=8, why=WIDE),
    # NumPy and PyTorch do not define which of 0.0 and -0.0 is larger: it depends on the instruction
    Row("maximum", pairs(), np.maximum, zeros_equal=True, errors=_refusals("maximum")),
    Row("minimum", pairs(), np.minimum, zeros_equal=True, errors=_refusals("minimum")),
    Row("mul", pairs("exact"), np.multiply, operator=operator.mul, errors=_refusals("mul")),
    Row(
        "nextafter",
        [
            S(T(2, 3, dtype=float64), T(3, dtype=float64)),
            S(T(dtype=float64), T(0, 3, dtype=float64)),
        ],
        np.nextafter,
    ),
    Row(
        "pow",
        few("exact", "exact", (2, 3, 0.5, -1, -2, -0.5, 2.5)) + mixed(float64, int32),
        _power,
        operator=operator.pow,
        refuses=_negative_power,
        positive=True,
        ulp={float16: 1, bfloat16: 1, float32: 8, float64: 8, complex64: 64, complex128: 64},
        device_ulp=64,
        why="CUDA promises 4 ulp for powf; a complex power is exp of a product with a logarithm",
        errors=(
            Fails(S(T(2), -1), errors.ArgumentError, "pow: 'exponent' must not be negative", int32),
        ),
    ),
    Row(
        "remainder",
        few("any", "nonzero", (2, -1.5)) + mixed(float64),
        _remainder,
        operator=operator.mod,
    ),
    Row(
        "rsub",
        pairs() + SCALED,
        _scaled(np.subtract, swap=True),
        refuses=_refuses_difference,
        errors=(
            Fails(S(T(2, 3), T(2, 4)), errors.ShapeError, "sub: '(self|other)' must broadcast"),
        ),
    ),
    Row(
        "sub",
        pairs() + SCALED,
        _scaled(np.subtract),
        operator=operator.sub,
        refuses=_refuses_difference,
        errors=(
            *_refusals("sub"),
            Fails(S(T(2), T(2)), errors.DtypeError, "sub: 'self' must not be bool", bool_),
        ),
    ),
    Row(
        "threshold_backward",
        [
            S(x.args[0], x.args[1], threshold=t)
            for x, t in zip(pairs(), [0, 1, 0, 2] * 99)
            if type(x.args[1]) is T
        ],
        lambda grad, x, threshold: np.where(x <= threshold, 0, grad),
        errors=(
            Fails(
                S(T(2), T(2), 1j),
                TypeError,
                "threshold_backward: 'threshold' must be a real number",
            ),
        ),
    ),
]
