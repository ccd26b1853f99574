"""Derivatives of losses. Argument `through`: the product of two incoming gradients, those of the
first and of the second derivative.

A gradient has the broadcast sizes of all operands. For a mean, it is divided by the number of
elements. Source: torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

from typing import Any

from ..._generated import calls, functions
from ...tensor.tensor import Tensor
from ..modes import DEFAULT, grad_mode

_MEAN = 1  # at::Reduction


def _shared(gradient: Tensor, weight: Tensor | None, reduction: int) -> Tensor:
    if weight is not None:
        gradient = gradient * weight
    if reduction != _MEAN or not gradient._geometry.numel:
        return gradient
    return gradient / gradient._geometry.numel


def mse_double_backward(through: Tensor, reduction: int) -> Tensor:
    return _shared(2 * through, None, reduction)


def smooth_l1_double_backward(
    through: Tensor, self: Tensor, target: Tensor, reduction: int, beta: float
) -> Tensor:
    inner = calls.abs(self - target) < beta
    return _shared(functions.where(inner, through / beta, 0), None, reduction)


def huber_double_backward(
    through: Tensor, self: Tensor, target: Tensor, reduction: int, delta: float
) -> Tensor:
    inner = calls.abs(self - target) < delta
    return _shared(functions.where(inner, through, 0), None, reduction)


# --- binary cross entropy -------------------------------------------------------------------------

_LEAST = 1e-12


def bce_target_backward(grad: Tensor, self: Tensor, weight: Any, reduction: int) -> Tensor:
    odds = calls.log1p(-self) - calls.log(self)
    return _shared(grad * odds, weight, reduction)


def bce_double_backward(
    through: Tensor, self: Tensor, target: Tensor, weight: Any, reduction: int
) -> Tensor:
    x, rest = self + _LEAST, 1 - self + _LEAST
    curve = (self * self - 2 * self * target + target) / (x * x * (rest * rest))
    return _shared(through * curve, weight, reduction)


def bce_target_double_backward(
    through: Tensor, self: Tensor, weight: Any, reduction: int
) -> Tensor:
    return _shared(-through / ((self + _LEAST) * (1 - self + _LEAST)), weight, reduction)


def bce_with_logits_double_backward(
    through: Tensor, self: Tensor, target: Tensor, weight: Any, pos_weight: Any, reduction: int
) -> Tensor:
    share = calls.sigmoid(self)
    curve = share * (1 - share)
    if pos_weight is not None:
        curve = curve * ((pos_weight - 1) * target + 1)
    return _shared(through * curve, weight, reduction)


def bce_with_logits_target_double_backward(
    through: Tensor, self: Tensor, weight: Any, pos_weight: Any, reduction: int
) -> Tensor:
    slope = -through
    if pos_weight is not None:
        slope = through * ((pos_weight - 1) * calls.sigmoid(self) - pos_weight)
    return _shared(slope, weight, reduction)


def bce_with_logits_target_backward(
    grad: Tensor, self: Tensor, weight: Any, pos_weight: Any, reduction: int
) -> Tensor:
    slope = -self
    if pos_weight is not None:
        slope = slope + (1 - pos_weight) * calls.log_sigmoid(self)
    return _shared(grad * slope, weight, reduction)


# --- loss -----------------------------------------------------------------------------------------

_MEAN, _SUM = 1, 2  # at::Reduction


def nll_loss_double_backward(
    grad: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int,
    total_weight: Tensor,
) -> Tensor:  # fmt: skip
    """Return the derivative of nll_loss's gradient with respect to the incoming gradient."""
    if reduction != _MEAN:
        return calls.nll_loss_nd(grad, target, weight, reduction, ignore_index)
    return calls.nll_loss_nd(grad, target, weight, _SUM, ignore_index) / total_weight


def cross_entropy_gradient(
    grads: Any, target: Tensor, weight: Any, reduction: int, ignore_index: int, logs: Tensor,
    total_weight: Tensor,
) -> Tensor | None:  # fmt: skip
    """Return the gradient of the scores. grads: the gradients of the loss and of the
    log-probabilities. The latter is None except in second derivatives."""
    to_loss, found = grads[:2]
    of_loss = (logs, target, weight, reduction, ignore_index, total_weight)
    if to_loss is not None and found is None and grad_mode.get() != DEFAULT:
        return calls._cross_entropy_backward(to_loss, *of_loss)
    ndim = logs._geometry.ndim
    if to_loss is not None:
        backward = calls.nll_loss2d_backward if ndim == 4 else calls.nll_loss_backward
        made = backward(to_loss, *of_loss[:-1], calls.detach(total_weight))
        found = made if found is None else found + made
    if found is None:
        return None
    dim = 0 if ndim == 1 else 1
    return calls._log_softmax_backward_data(found, logs, dim, logs._geometry.dtype)
