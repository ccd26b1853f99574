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
from .select import negative, signed, where, zeroed

_ROOT = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_TANH_SCALE, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Return the loop `(*inputs, *scalars, out)` of `op` for these dtypes."""
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
    below = np.negative(x)
    np.exp(below, below)
    np.add(below, 1, below)
    return np.divide(x, below, below)


def _gated(x: Any, gate: Any) -> Any:
    return np.multiply(x, _sigmoid(gate))


def _leaky_relu(x: Any, slope: Any) -> Any:
    less = x * slope
    # With slope 0 and infinite x, `less` is NaN. np.maximum would return this NaN even for x > 0.
    return np.maximum(x, less, out=less) if 0 < slope <= 1 else where(x > 0, x, less, less)


def _clipped(x: Any, low: Any, high: Any) -> Any:
    made = np.maximum(x, low)
    return np.minimum(made, high, out=made)


def _six(x: Any) -> Any:
    made = np.add(x, 3)
    np.maximum(made, 0, out=made)
    return np.minimum(made, 6, out=made)


def _hardsigmoid(x: Any) -> Any:
    made = _six(x)
    return np.divide(made, 6, made)


def _hardswish(x: Any) -> Any:
    made = _six(x)
    np.multiply(x, made, made)
    return np.divide(made, 6, made)


def _gelu(x: Any) -> Any:
    from scipy.special import erf

    made = np.multiply(x, x.dtype.type(_ROOT))
    erf(made, made)
    np.add(made, 1, made)
    np.multiply(made, 0.5, made)
    return np.multiply(x, made, made)


def _elu(x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    below = np.multiply(x, input_scale) if input_scale != 1 else x
    below = np.expm1(below)
    factor = alpha * scale
    np.multiply(below, factor, below)
    above = x if scale == 1 else x * scale
    if 0 <= factor < math.inf and 0 < input_scale < math.inf:
        return negative(x, below, above, below)
    # Do not test the sign bit: for x = -0.0, `below` may be 0.0 or NaN.
    return where(x < 0, below, above, below)


def _mish(x: Any) -> Any:
    made = np.exp(x)
    np.log1p(made, made)
    np.tanh(made, made)
    return np.multiply(x, made, made)


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
    """Return softshrink of x. A result of zero has the sign of the element."""
    made = _clipped(x, -by, by)
    np.subtract(x, made, made)
    return signed(made, x)


def _softplus(x: Any, beta: Any, threshold: Any) -> Any:
    scaled = x if beta == 1 else x * beta
    made = np.exp(scaled)
    np.log1p(made, made)
    if beta != 1:
        np.divide(made, beta, made)
    return where(scaled > threshold, x, made, made)


def _softplus_backward(grad: Any, x: Any, beta: Any, threshold: Any) -> Any:
    scaled = x * beta
    z = np.exp(scaled)
    return where(scaled > threshold, grad, grad * z / (z + 1))


def _hardswish_backward(grad: Any, x: Any) -> Any:
    made = grad * (x / 3 + 0.5)
    return zeroed(x <= -3, where(x < 3, made, grad, made))


def _log_sigmoid_backward(grad: Any, x: Any, buffer: Any) -> Any:
    is_negative = x < 0
    share = buffer / (1 + buffer)
    return grad * (is_negative - where(is_negative, 1, -1) * share)


def _shrunk_backward(grad: Any, x: Any, by: Any) -> Any:
    return zeroed(np.abs(x) <= by, grad)


LOOPS: dict[str, Callable[..., Any]] = {
    "_gated": _gated,
    "_prelu_kernel": lambda x, weight: where(x > 0, x, weight * x),
    "elu": _elu,
    "elu_backward": _elu_backward,
    "gelu": _gelu,
    "gelu_backward": _gelu_backward,
    "gelu_tanh": lambda x: 0.5 * x * (1 + _gelu_inner(x)),
    "gelu_tanh_backward": _gelu_tanh_backward,
    "hardshrink": lambda x, by: zeroed(np.abs(x) <= by, x),
    "hardshrink_backward": _shrunk_backward,
    "hardsigmoid": _hardsigmoid,
    "hardsigmoid_backward": lambda grad, x: where((x > -3) & (x < 3), grad / 6, 0),
    "hardswish": _hardswish,
    "hardswish_backward": _hardswish_backward,
    "hardtanh": _clipped,
    "hardtanh_backward": lambda grad, x, low, high: zeroed((x <= low) | (x >= high), grad),
    "leaky_relu": _leaky_relu,
    "leaky_relu_backward": lambda grad, x, slope, _: where(x > 0, grad, grad * slope),
    "log_sigmoid_backward": _log_sigmoid_backward,
    "mish": _mish,
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
