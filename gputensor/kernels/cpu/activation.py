"""out[i] = op(x[i], scalars), or op(grad[i], x[i], scalars).                     family: activation

Types    computes in the common dtype; f16 and bf16 in f32, rounded once.
Source   aten/src/ATen/native/cpu/Activation.cpp
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dtype import dtype
from .pointwise import Input, Loop, computed
from .select import where

_ROOT = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_TANH_SCALE, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """The loop `(*inputs, *scalars, out)` of `op` for these dtypes."""
    return computed(LOOPS[op], inputs, common, out)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _normal_share(x: Any) -> Any:
    from scipy.special import erf

    return 0.5 * (1 + erf(x * x.dtype.type(_ROOT)))


def _gelu_backward(grad: Any, x: Any) -> Any:
    return grad * (_normal_share(x) + x * np.exp(-0.5 * x * x) * x.dtype.type(_DENSITY))


def _gelu_inner(x: Any) -> Any:
    return np.tanh(x.dtype.type(_TANH_SCALE) * (x + x.dtype.type(_TANH_CUBE) * x * x * x))


def _gelu_tanh_backward(grad: Any, x: Any) -> Any:
    inner = _gelu_inner(x)
    slope = x.dtype.type(_TANH_SCALE) * (1 + x.dtype.type(3 * _TANH_CUBE) * x * x)
    return grad * (0.5 * (1 + inner) + 0.5 * x * (1 - inner * inner) * slope)


def _silu(x: Any) -> Any:
    below = np.negative(x, np.empty_like(x))
    np.exp(below, below)
    np.add(below, 1, below)
    return np.divide(x, below, below)


def _leaky_relu(x: Any, slope: Any) -> Any:
    less = x * slope
    # of infinity times 0 the larger would be NaN
    return np.maximum(x, less, out=less) if 0 < slope <= 1 and x.ndim else where(x > 0, x, less)


def _silu_backward(grad: Any, x: Any) -> Any:
    share = _sigmoid(x)
    return grad * share * (1 + x * (1 - share))


def _mish_backward(grad: Any, x: Any) -> Any:
    inner, share = np.tanh(np.log1p(np.exp(x))), _sigmoid(x)
    return grad * (inner + x * share * (1 - inner * inner))


def _elu_backward(
    grad: Any, x: Any, alpha: Any, scale: Any, input_scale: Any, is_result: Any
) -> Any:
    if is_result:
        below = input_scale * (x + alpha * scale)
    else:
        below = input_scale * alpha * scale * np.exp(np.minimum(x, 0) * input_scale)
    return where(x <= 0, grad * below, grad * scale)


def _softshrink(x: Any, by: Any) -> Any:
    nearer = where(x > by, x - by, where(x < -by, x + by, x * 0))
    return nearer


def _softplus(x: Any, beta: Any, threshold: Any) -> Any:
    scaled = x * beta
    return where(scaled > threshold, x, np.log1p(np.exp(scaled)) / beta)


def _softplus_backward(grad: Any, x: Any, beta: Any, threshold: Any) -> Any:
    scaled = x * beta
    z = np.exp(scaled)
    return where(scaled > threshold, grad, grad * z / (z + 1))


def _hardswish_backward(grad: Any, x: Any) -> Any:
    return where(x <= -3, 0, where(x < 3, grad * (x / 3 + 0.5), grad))


def _log_sigmoid_backward(grad: Any, x: Any, buffer: Any) -> Any:
    is_negative = x < 0
    share = buffer / (1 + buffer)
    return grad * (is_negative - where(is_negative, 1, -1) * share)


def _shrunk_backward(grad: Any, x: Any, by: Any) -> Any:
    return where((x >= -by) & (x <= by), 0, grad)


LOOPS: dict[str, Callable[..., Any]] = {
    "_prelu_kernel": lambda x, weight: where(x > 0, x, weight * x),
    "elu": lambda x, alpha, scale, input_scale: where(
        x < 0, np.expm1(np.minimum(x, 0) * input_scale) * (alpha * scale), x * scale
    ),
    "elu_backward": _elu_backward,
    "gelu": lambda x: x * _normal_share(x),
    "gelu_backward": _gelu_backward,
    "gelu_tanh": lambda x: 0.5 * x * (1 + _gelu_inner(x)),
    "gelu_tanh_backward": _gelu_tanh_backward,
    "hardshrink": lambda x, by: where((x >= -by) & (x <= by), 0, x),
    "hardshrink_backward": _shrunk_backward,
    "hardsigmoid": lambda x: np.minimum(np.maximum(x + 3, 0), 6) / 6,
    "hardsigmoid_backward": lambda grad, x: where((x > -3) & (x < 3), grad / 6, 0),
    "hardswish": lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6,
    "hardswish_backward": _hardswish_backward,
    "hardtanh": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "hardtanh_backward": lambda grad, x, low, high: where((x <= low) | (x >= high), 0, grad),
    "leaky_relu": _leaky_relu,
    "leaky_relu_backward": lambda grad, x, slope, _: where(x > 0, grad, grad * slope),
    "log_sigmoid_backward": _log_sigmoid_backward,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "mish_backward": _mish_backward,
    "sigmoid_backward": lambda grad, y: grad * np.conjugate((1 - y) * y),
    "silu": _silu,
    "silu_backward": _silu_backward,
    "softplus": _softplus,
    "softplus_backward": _softplus_backward,
    "softshrink": _softshrink,
    "softshrink_backward": _shrunk_backward,
    "tanh_backward": lambda grad, y: grad * np.conjugate(1 - y * y),
    "threshold": lambda x, threshold, value: where(x <= threshold, value, x),
}
