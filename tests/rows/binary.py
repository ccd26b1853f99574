"""Rows of kernels/*/binary: two inputs that promote, with alpha and rounding modes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    COMPLEX,
    bool_,
    complex64,
    complex128,
    float32,
    int32,
    int64,
    uint16,
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
            alpha = bool(alpha)  # a product of bools is their conjunction
        elif kind == np.uint64:
            alpha %= 2**64
        return ufunc(self, np.multiply(other, alpha))

    return reference


def _divide(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return np.true_divide(self, other)
    if rounding_mode == "floor":
        return np.floor_divide(self, other)
    if np.result_type(self, other).kind in "iu":
        return np.floor_divide(self - np.fmod(self, other), other)
    return np.trunc(np.true_divide(self, other))


def _rounds_complex_or_bool(operands: Any, kwargs: Any, compute: Any) -> bool:
    return kwargs.get("rounding_mode") is not None and (
        compute.category == COMPLEX or compute is bool_
    )


def _scales_by_more_than(operands: Any, kwargs: Any, compute: Any) -> bool:
    """alpha must not be of a higher category than the result; a bool is for bools alone."""
    alpha = kwargs.get("alpha", 1)
    if alpha is True:
        return compute is not bool_
    return {int: 1, float: 2, complex: 3}[type(alpha)] > max(compute.category, 1)


def _refuses_difference(operands: Any, kwargs: Any, compute: Any) -> bool:
    """PyTorch has no `-` for a bool tensor, or for True, whatever the other operand."""
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
    """What every operator of two inputs refuses."""
    return (
        Fails(
            MISMATCH,
            errors.ShapeError,
            rf"{op}: 'other' must broadcast with 'self' \(got .*\[2,3\].*\[2,4\]",
        ),
        Fails(S(T(2), "2"), TypeError, f"{op}: 'other' must be a Tensor"),
        Fails(S(T(2), None), TypeError, f"{op}: 'other' must be a Tensor"),
        Fails(S(T(2), T(2, dtype=uint16)), errors.DtypeError, f"{op}: .*uint16", int32),
    )


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
        rule=lambda kwargs: None if kwargs.get("rounding_mode") else "promoted_float",
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
    # which of 0.0 and -0.0 is the larger, NumPy and PyTorch leave to the instruction at hand
    Row("maximum", pairs(), np.maximum, zeros_equal=True, errors=_refusals("maximum")),
    Row("minimum", pairs(), np.minimum, zeros_equal=True, errors=_refusals("minimum")),
    Row("mul", pairs("exact"), np.multiply, operator=operator.mul, errors=_refusals("mul")),
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
