"""Rows of kernels/*/activation: pointwise functions with scalars, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from gputensor.core import errors
from gputensor.core.dtype import (
    ALL,
    FLOATING,
    bfloat16,
    complex128,
    complex64,
    float16,
    float32,
    float64,
)

from . import Fails, Row, S, T

FLOATS = tuple(d for d in ALL if d.category == FLOATING)
WHY = "a few functions of some ulp each, and a difference of like numbers"


def few(*scalars: Any, operands: int = 1, values: str = "exact", **kwargs: Any) -> list[S]:
    """Return operands of some sizes; two operands have the same layout."""
    shapes = ((2, 3), (2, 3, 4, 5), (), (0, 3))
    tensors = [[T(*sizes, values=values) for _ in range(operands)] for sizes in shapes]
    return [S(*x, *scalars, **kwargs) for x in tensors]


def _row(name: str, samples: list[S], ref: Any, ulp: float = 64, **more: Any) -> Row:
    wide = dict.fromkeys((float32, float64, complex64, complex128), ulp)
    said = {"ulp": {float16: 1, bfloat16: 1, **wide}, "device_ulp": ulp, "why": WHY}
    return Row(name, samples, ref, like="lerp", **said | more)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        return x * special.ndtr(x)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    return np.where(x < 0, np.expm1(x * input_scale) * alpha * scale, x * scale)


def _softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta)


def _glu(x: Any, dim: int = -1) -> Any:
    first, second = np.split(x, 2, dim)
    return first * _sigmoid(second)


def _prelu(x: Any, weight: Any) -> Any:
    if weight.size > 1:
        weight = weight.reshape([-1 if d == 1 else 1 for d in range(x.ndim)])
    return np.where(x > 0, x, weight * x)


def _clip(x: Any, low: Any = -1, high: Any = 1) -> Any:
    return np.minimum(np.maximum(x, low), high)


def _shrunk(x: Any, lambd: Any = 0.5) -> Any:
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0))


def _gelu_slope(x: Any, approximate: str) -> Any:
    if approximate == "none":
        return special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    inner = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    slope = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)
    return 0.5 * (1 + inner) + 0.5 * x * (1 - inner * inner) * slope


def _mish_backward(grad: Any, x: Any) -> Any:
    inner = np.tanh(np.logaddexp(0, x))
    return grad * (inner + x * _sigmoid(x) * (1 - inner * inner))


ROWS = [
    _row(
        "celu",
        few() + few(2.0)[:1],
        lambda x, alpha=1: _elu(x, alpha, 1, 1 / alpha),
        dtypes=FLOATS,
        out="same",
        errors=(
            Fails(
                S(T(2), 0.0),
                errors.ArgumentError,
                "celu: 'alpha' must be a number other than 0",
                float32,
            ),
        ),
    ),
    _row("elu", few() + few(0.5, 2.0, 0.7)[:1], _elu, out="same"),
    _row(
        "elu_backward",
        [S(T(2, 3), 0.5, 2.0, 0.7, is_result, T(2, 3)) for is_result in (False, True)],
        lambda grad, alpha, scale, by, is_result, x: (
            grad
            * np.where(
                x <= 0,
                by * (x + alpha * scale) if is_result else by * alpha * scale * np.exp(x * by),
                scale,
            )
        ),
    ),
    _row("_gated", few(operands=2), lambda x, gate: x * _sigmoid(gate), dtypes=FLOATS),
    _row(
        "gelu",
        few() + few(approximate="tanh")[:2],
        _gelu,
        out="same",
        ulp=256,
        device_ulp=512,
        why="a unit of tanh is 384 of 1 + tanh at -3; each device is within 256 of the reference",
        errors=(
            Fails(
                S(T(2), approximate="sinh"),
                errors.ArgumentError,
                "gelu: 'approximate' must be 'none' or 'tanh'",
                float32,
            ),
        ),
    ),
    _row(
        "gelu_backward",
        [
            S(T(2, 3, values="positive"), T(2, 3, values="positive"), **k)
            for k in ({}, {"approximate": "tanh"})
        ],
        lambda grad, x, approximate="none": grad * _gelu_slope(x, approximate),
    ),
    _row(
        "glu",
        [S(T(2, 4)), S(T(4, 3), 0)],
        _glu,
        dtypes=FLOATS,
        out="same",
        errors=(
            Fails(S(T(3)), errors.ArgumentError, "glu: 'self' must have an even size", float32),
        ),
    ),
    Row(
        "hardshrink",
        few(values="any") + few(1.5)[:1],
        lambda x, by=0.5: np.where((x >= -by) & (x <= by), 0, x),
        like="lerp",
        out="same",
    ),
    Row(
        "hardshrink_backward",
        few(0.5, operands=2),
        lambda grad, x, by: np.where(np.abs(x) <= by, 0, grad),
        like="lerp",
    ),
    _row("hardsigmoid", few(), lambda x: _clip(x + 3, 0, 6) / 6, 2, out="same"),
    _row(
        "hardsigmoid_backward",
        few(operands=2),
        lambda grad, x: np.where(np.abs(x) < 3, grad / 6, 0),
        2,
    ),
    _row("hardswish", few(), lambda x: x * _clip(x + 3, 0, 6) / 6, 2, out="same"),
    _row(
        "hardswish_backward",
        few(operands=2),
        lambda grad, x: np.where(x <= -3, 0, np.where(x < 3, grad * (x / 3 + 0.5), grad)),
        4,
    ),
    Row(
        "hardtanh",
        few(values="any") + few(0, 2)[:1],
        _clip,
        like="lerp",
        out="same",
        dtypes=FLOATS,
        zeros_equal=True,
    ),
    Row(
        "hardtanh_backward",
        few(-1.0, 1.0, operands=2),
        lambda grad, x, low, high: np.where((x <= low) | (x >= high), 0, grad),
        like="lerp",
    ),
    _row(
        "leaky_relu",
        few(values="any") + few(0.3)[:1],
        lambda x, slope=0.01: np.where(x > 0, x, x * slope),
        1,
        out="same",
    ),
    _row(
        "leaky_relu_backward",
        few(0.3, False, operands=2),
        lambda grad, x, slope, _: np.where(x > 0, grad, grad * slope),
        1,
    ),
    _row("log_sigmoid", few(), lambda x: -np.logaddexp(0, -x), dtypes=FLOATS, out="same"),
    _row(
        "log_sigmoid_backward",
        [
            S(T(*sizes), T(*sizes, values="positive"), T(*sizes, values="positive"))
            for sizes in ((2, 3), (4,))
        ],
        lambda grad, x, buffer: grad * buffer / (1 + buffer),
        checked_by="tests/operators/test_ops_grad.py: log_sigmoid's second; buffer depends on self",
    ),
    _row(
        "log_sigmoid_forward",
        few(),
        lambda x: [-np.logaddexp(0, -x), np.exp(-np.abs(x))],
        dtypes=FLOATS,
    ),
    _row("mish", few(), lambda x: x * np.tanh(np.logaddexp(0, x)), out="same"),
    _row("mish_backward", few(operands=2), _mish_backward),
    Row(
        "prelu",
        [S(T(2, 3), T(3)), S(T(2, 3, 4), T(1)), S(T(), T())],
        _prelu,
        dtypes=FLOATS,
        zeros_equal=True,
        errors=(
            Fails(
                S(T(2, 3), T(2)),
                errors.ArgumentError,
                "prelu: 'weight' must have 1 element",
                float32,
            ),
        ),
    ),
    Row(
        "_prelu_kernel",
        few(operands=2, values="any"),
        lambda x, w: np.where(x > 0, x, w * x),
        like="lerp",
        zeros_equal=True,
    ),
    Row("relu6", few(), lambda x: _clip(x, 0, 6), dtypes=FLOATS, zeros_equal=True),
    _row("rrelu", few(), lambda x: np.where(x > 0, x, x * (11 / 48)), 2, dtypes=FLOATS),
    _row(
        "rrelu_with_noise",
        few(operands=2),
        lambda x, noise: np.where(x > 0, x, x * (11 / 48)),
        2,
        dtypes=FLOATS,
    ),
    _row(
        "rrelu_with_noise_backward",
        [S(T(2, 3), T(2, 3), T(2, 3), 0.125, 0.375, True, False)],
        lambda grad, x, noise, *_: grad * noise,
        1,
        dtypes=FLOATS,
    ),
    _row(
        "selu",
        few(),
        # ml_dtypes rounds a number beside an array of bf16 to bf16.
        lambda x: _elu(x.astype(np.float64), 1.6732632423543772, 1.0507009873554805),
        dtypes=FLOATS,
        out="same",
    ),
    _row("sigmoid_backward", few(operands=2), lambda grad, y: grad * np.conjugate((1 - y) * y)),
    _row("silu", few(), lambda x: x * _sigmoid(x), out="same"),
    _row(
        "silu_backward",
        few(operands=2),
        lambda grad, x: grad * _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
    ),
    _row("softplus", few() + few(2.0, 3.0)[:1], _softplus, out="same"),
    _row(
        "softplus_backward",
        few(2.0, 3.0, operands=2),
        lambda grad, x, beta, at: np.where(x * beta > at, grad, grad * _sigmoid(x * beta)),
    ),
    Row(
        "softshrink",
        few() + few(1.5)[:1],
        _shrunk,
        like="lerp",
        out="same",
        zeros_equal=True,
        errors=(
            Fails(
                S(T(2), -1.0),
                errors.ArgumentError,
                "softshrink: 'lambd' must not be negative",
                float32,
            ),
        ),
    ),
    Row(
        "softshrink_backward",
        few(0.5, operands=2),
        lambda grad, x, by: np.where(np.abs(x) <= by, 0, grad),
        like="lerp",
    ),
    _row("tanh_backward", few(operands=2), lambda grad, y: grad * np.conjugate(1 - y * y)),
    Row(
        "threshold",
        few(1, 9),
        lambda x, at, value: np.where(x <= at, value, x),
        like="lerp",
        out="same",
    ),
]
