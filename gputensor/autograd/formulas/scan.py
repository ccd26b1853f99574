"""Derivatives of scans.

Source: torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

from typing import Any

from ..._generated import calls, functions
from ...core import errors
from ...tensor.tensor import Tensor
from ..modes import is_grad_enabled
from .numbers import conj


# --- scans ----------------------------------------------------------------------------------------


def cummaxmin_backward(grad: Tensor, self: Tensor, indices: Tensor, dim: int) -> Tensor:
    """Return the gradient of self: each result's gradient is added at the element that was
    selected."""
    if grad._geometry.numel == 0 or grad._geometry.ndim == 0:
        return grad
    return calls.scatter_add(functions.zeros_like(self), dim, indices, grad)


def cumsum_backward(grad: Tensor, dim: int) -> Tensor:
    if grad._geometry.numel <= 1:
        return grad
    return calls.flip(calls.cumsum(calls.flip(grad, (dim,)), dim, None), (dim,))


def not_implemented(operand: str) -> Any:
    """Raise an error for a derivative that neither gputensor nor PyTorch has."""
    raise errors.derivative_not_implemented(operand)


def cumprod_backward(grad: Tensor, self: Tensor, dim: int, order: int = 2) -> Tensor:
    """Return the gradient of cumprod.

    The gradient at the first zero of a row uses the products without that zero. After the first
    zero, the gradient is 0, but second derivatives need it as a function of that zero. So it is
    computed as the zero times the gradient of the row with 1 in the zero's place. Derivatives up to
    `order` are right for any zeros.
    """
    if grad._geometry.numel <= 1:
        return grad
    x = calls.to_dtype(self, grad._geometry.dtype, False, False, None)
    is_zero = x == 0
    is_first = functions.where(is_zero, calls.cumsum(is_zero, dim, None) == 1, False)
    without = calls.cumprod(functions.where(is_first, 1, x), dim, None)
    at_zero = cumsum_backward(conj(without) * grad, dim)
    usual = cumsum_backward(conj(calls.cumprod(x, dim, None)) * grad, dim)
    made = functions.where(is_first, at_zero, usual / conj(functions.where(is_zero, 1, x)))
    if order == 1 or not is_grad_enabled():
        return made
    first = calls.sum_dim_IntList(functions.where(is_first, x, 0), (dim,), True, None)
    is_behind = functions.where(is_first, False, calls.cumsum(is_first, dim, None) == 1)
    beside = cumprod_backward(grad, functions.where(is_first, 1, x), dim, order - 1)
    return functions.where(is_behind, conj(first) * beside, made)


def logcumsumexp_backward(grad: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """Return the gradient of logcumsumexp. It is computed from logarithms, which do not overflow,
    separately for positive and negative incoming gradients.
    """
    if grad._geometry.numel == 0 or grad._geometry.ndim == 0:
        return grad

    def behind(x: Tensor) -> Tensor:
        return calls.flip(calls.logcumsumexp(calls.flip(x, (dim,)), dim), (dim,))

    if grad._geometry.dtype.is_complex:
        return conj((behind(conj(grad).log() - result) + self).exp())
    # A finite number in place of -inf, because derivatives of this function need finite numbers.
    # -65504 is the lowest f16 number.
    logs, least = grad.abs().log(), -65504.0 if grad._geometry.dtype.short == "f16" else -3e38
    up = (behind(functions.where(grad > 0, logs, least) - result) + self).exp()
    down = (behind(functions.where(grad < 0, logs, least) - result) + self).exp()
    return up - down


def evenly_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """Return the gradient of a maximum or minimum, divided among all elements equal to it."""
    chosen = functions.where(result == result, self == result, self != self)
    return functions.where(chosen, grad / calls.sum(chosen, dtype=None), 0.0)
