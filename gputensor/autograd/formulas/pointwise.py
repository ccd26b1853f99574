"""Derivatives of special functions, dropout, activations and softmax.

Source: torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

import math
from typing import Any

from ..._generated import calls, functions
from ...core.arguments import NUMBERS
from ...tensor.tensor import Tensor
from ..modes import DEFAULT, grad_mode
from .numbers import conj, sigmoid_double_backward


# --- special functions ----------------------------------------------------------------------------


def igamma_slope(a: Tensor, x: Tensor) -> Tensor:
    return calls.exp(calls.xlogy_Tensor(a - 1, x) - x - calls.lgamma(a))


def xlogy_slope(grad: Tensor, self: Any, other: Any) -> Tensor:
    at_edge = (self == 0) * (other <= 0)
    return functions.where(at_edge, 0, calls.xlogy_Tensor(grad, other))


def xlog1py_slope(grad: Tensor, self: Any, other: Any) -> Tensor:
    at_edge = (self == 0) * (other <= -1)
    return functions.where(at_edge, 0, calls.special_xlog1py(grad, other))


def _without_zero(x: Tensor) -> Tensor:
    return functions.where(x == 0, 1.0, x)


def i1_slope(x: Tensor, i1: Tensor) -> Tensor:
    return functions.where(x == 0, 0.5, calls.i0(x) - i1 / _without_zero(x))


def i1e_slope(x: Tensor, i1e: Tensor) -> Tensor:
    slope = calls.special_i0e(x) - i1e * (functions.sgn(x) + 1 / _without_zero(x))
    return functions.where(x == 0, 0.5, slope)


# --- dropout --------------------------------------------------------------------------------------


def native_dropout_input_backward(grad: Tensor, mask: Tensor, p: float, train: Any) -> Tensor:
    is_kept = train is not None and not train
    scale = 1.0 if is_kept else 0.0 if p == 1 else 1 / (1 - p)
    return calls.native_dropout_backward(grad, mask, scale)


# --- maximum and minimum ------------------------------------------------------------------------


def larger_backward(grad: Tensor, self: Any, other: Any) -> Tensor:
    """Return the gradient of maximum. The comparison of the operands is never recorded."""
    if grad_mode.get() == DEFAULT:
        self, other = (x if type(x) in NUMBERS else calls.detach(x) for x in (self, other))
    found: Tensor = calls._larger_backward(grad, self, other)
    return found


# --- activations: second derivatives with respect to the input ----------------------------------


def silu_double_backward(grad: Tensor, self: Tensor) -> Tensor:
    share = self.sigmoid()
    return grad * conj(share * (1 - share) * (2 + self * (1 - 2 * share)))


def mish_double_backward(grad: Tensor, self: Tensor) -> Tensor:
    share = self.sigmoid()
    inner = self.exp().log1p().tanh()
    slope = share * (1 - inner * inner)
    return grad * slope * (2 + self * (1 - share) - 2 * self * inner * share)


def gelu_double_backward(grad: Tensor, self: Tensor, approximate: str) -> Tensor:
    square = self * self
    if approximate == "none":
        return grad * (square * -0.5).exp() * (2 - square) * (1 / math.sqrt(2 * math.pi))
    scale, cube = math.sqrt(2 / math.pi), 0.044715
    inner = (scale * (self + cube * self * square)).tanh()
    first, second = scale * (1 + 3 * cube * square), 6 * scale * cube * self
    left = 1 - inner * inner
    return grad * left * (first + 0.5 * self * (second - 2 * inner * first * first))


def elu_double_backward(
    grad: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self: Tensor
) -> Tensor:
    slope: Any = input_scale
    if not is_result:
        slope = (self * input_scale).exp() * (alpha * scale * input_scale * input_scale)
    return functions.where(self < 0, grad * slope, 0)


def softplus_double_backward(grad: Tensor, self: Tensor, beta: Any, threshold: Any) -> Tensor:
    scaled = self * beta
    found = sigmoid_double_backward(grad * beta, scaled)
    return functions.where(scaled > threshold, 0, found)


# --- softmax --------------------------------------------------------------------------------------


def softmax_double_backward(grad: Tensor, grad_output: Tensor, output: Tensor, dim: int) -> Tensor:
    """Return the derivative of softmax's gradient with respect to the output of softmax."""
    inner = (output * grad_output).sum(dim, True)
    return grad * grad_output - inner * grad - grad_output * (output * grad).sum(dim, True)
