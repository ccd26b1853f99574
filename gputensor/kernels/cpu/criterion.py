"""out[i] = op(x[i], target[i], scalars), or op(grad[i], x[i], target[i], share, scalars).
family: criterion

Types    computes in the common dtype; f16 and bf16 in f32, rounded once.
Numbers  share: 1 / (number of elements) for a mean, otherwise 1.
Source   aten/src/ATen/native/cpu/BinaryOpsKernel.cpp, PointwiseOpsKernel.cpp; native/Loss.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core import errors
from ...core.dtype import dtype
from .pointwise import Input, Loop, computed
from .select import where


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Return the loop `(*inputs, *scalars, out)` of `op` for these dtypes."""
    return computed(LOOPS[op], inputs, common, out)


def _binary_cross_entropy(x: Any, target: Any) -> Any:
    if not ((x >= 0) & (x <= 1)).all():
        raise errors.no_probability("binary_cross_entropy")
    rest = np.maximum(np.log1p(-x), -100)
    return (target - 1) * rest - target * np.maximum(np.log(x), -100)


def _with_logits(x: Any, target: Any, weight: Any, pos_weight: Any) -> Any:
    log = np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))  # of the sigmoid
    return ((1 - target) * x - log * ((pos_weight - 1) * target + 1)) * weight


def _with_logits_backward(
    grad: Any, x: Any, target: Any, weight: Any, pos_weight: Any, share: Any
) -> Any:
    sigmoid = 1 / (1 + np.exp(-x))
    slope = sigmoid - target - (pos_weight - 1) * target * (1 - sigmoid)
    return share * grad * weight * slope


def _mse(x: Any, target: Any) -> Any:
    difference = x - target
    return difference * difference


def _smooth_l1(x: Any, target: Any, beta: Any) -> Any:
    apart = np.abs(x - target)
    return where(apart < beta, 0.5 * apart * apart / beta, apart - 0.5 * beta)


def _smooth_l1_backward(grad: Any, x: Any, target: Any, share: Any, beta: Any) -> Any:
    apart, whole = x - target, share * grad
    inner = whole * apart / beta
    return where(apart <= -beta, -whole, where(apart >= beta, whole, inner))


def _huber(x: Any, target: Any, delta: Any) -> Any:
    apart = np.abs(x - target)
    return where(apart <= delta, 0.5 * apart * apart, delta * (apart - 0.5 * delta))


LOOPS: dict[str, Callable[..., Any]] = {
    "binary_cross_entropy": _binary_cross_entropy,
    "binary_cross_entropy_backward": lambda grad, x, target, share: (
        share * grad * (x - target) / np.maximum((1 - x) * x, 1e-12)
    ),
    "binary_cross_entropy_with_logits": _with_logits,
    "binary_cross_entropy_with_logits_backward": _with_logits_backward,
    "huber_loss": _huber,
    "huber_loss_backward": lambda grad, x, target, share, delta: (
        share * grad * np.minimum(np.maximum(x - target, -delta), delta)
    ),
    "mse_loss": _mse,
    "mse_loss_backward": lambda grad, x, target, share: 2 * share * (x - target) * grad,
    "smooth_l1_loss": _smooth_l1,
    "smooth_l1_loss_backward": _smooth_l1_backward,
}
