"""Derivatives of reductions, norms and distances.

Source: torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

from typing import Any

from ..._generated import calls, functions
from ...structured import distances
from ...tensor.tensor import Tensor
from ..modes import DEFAULT, grad_mode
from .fitting import Sizes
from .numbers import conj


# --- reductions -----------------------------------------------------------------------------------


def _with_dims(grad: Tensor, ndim: int, dim: Any, keepdim: bool) -> Tensor:
    """Restore reduced dimensions in a reduction's result, with size 1."""
    if keepdim or ndim == 0:
        return grad
    dims = (dim,) if type(dim) is int else dim
    if not dims:
        return calls.view(grad, (1,) * ndim) if grad._geometry.ndim == 0 else grad
    for d in sorted([d % ndim for d in dims]):
        grad = calls.unsqueeze(grad, d)
    return grad


def sum_backward(grad: Tensor, shape: Sizes, dim: Any, keepdim: bool) -> Tensor:
    return _with_dims(grad, len(shape), dim, keepdim).expand(shape)


def mean_backward(grad: Tensor, shape: Sizes, dim: Any, keepdim: bool) -> Tensor:
    return sum_backward(grad, shape, dim, keepdim) / _count(shape, dim)


def extremum_backward(
    grad: Tensor, self: Tensor, result: Tensor, dim: Any, keepdim: bool
) -> Tensor:
    """Return the gradient, divided evenly among equal maxima or minima."""
    ndim = self._geometry.ndim
    is_extreme = _with_dims(result, ndim, dim, keepdim) == self
    count = calls.sum_dim_IntList(is_extreme, None if dim in ((), []) else dim, True)
    return _with_dims(grad, ndim, dim, keepdim) * is_extreme / count


def prod_backward(grad: Tensor, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """Return grad times the product of all other elements. This is also correct if elements are
    zero."""
    x = calls.to_dtype(self, grad._geometry.dtype, False, False, None)
    if x._geometry.ndim == 0:
        return grad
    if dim is None:
        others = _products_of_others(calls.reshape(x, (-1,)), 0)
        return grad * conj(calls.reshape(others, self.shape))
    return _with_dims(grad, x._geometry.ndim, dim, keepdim) * conj(_products_of_others(x, dim))


def _products_of_others(x: Tensor, dim: int) -> Tensor:
    """Return for each element the product of all other elements along dim."""
    n = x._geometry.sizes[dim]
    one = calls.ones_like(calls.slice_Tensor(x, dim, 0, min(n, 1), 1))
    before = calls.cat([one, calls.slice_Tensor(x, dim, 0, max(n - 1, 0), 1)], dim)
    turned = calls.flip(x, (dim,))
    turned = calls.cat([one, calls.slice_Tensor(turned, dim, 0, max(n - 1, 0), 1)], dim)
    behind = calls.flip(calls.cumprod(turned, dim, None), (dim,))
    return calls.cumprod(before, dim, None) * behind


def value_selecting_backward(
    grad: Tensor, dim: int, indices: Tensor, shape: Sizes, keepdim: bool
) -> Tensor:
    """Return the gradient at the selected element of each row, and zeros elsewhere."""
    if not shape:
        return grad
    if not keepdim:
        grad, indices = calls.unsqueeze(grad, dim), calls.unsqueeze(indices, dim)
    return functions.where(_places(indices, shape, dim) == indices, grad, 0)


def aminmax_backward(
    self: Tensor, dim: int | None, keepdim: bool, grad_min: Any, grad_max: Any, min: Tensor,
    max: Tensor,
) -> Tensor:  # fmt: skip
    dims = () if dim is None else (dim,)
    parts = [
        extremum_backward(grad, self, found, dims, keepdim)
        for grad, found in ((grad_min, min), (grad_max, max))
        if grad is not None
    ]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _places(like: Tensor, shape: Sizes, dim: int) -> Tensor:
    """Return the numbers 0, 1, ... along dimension `dim` of `shape`. All other dimensions of the
    result have size 1."""
    sizes = [1] * len(shape)
    sizes[dim] = -1
    return calls.reshape(functions.arange(shape[dim], device=like._device), tuple(sizes))


def _count(shape: Sizes, dim: Any) -> int:
    count = 1
    for d in ((dim,) if type(dim) is int else dim or range(len(shape))) if shape else ():
        count *= shape[d]
    return count


def var_backward(grad: Tensor, self: Tensor, dim: Any, correction: Any, keepdim: bool) -> Tensor:
    shape = self._geometry.sizes
    over = _count(shape, dim) - (1 if correction is None else correction)
    grad = _with_dims(grad, len(shape), dim, keepdim)
    rest = self - calls.mean_dim(self, dim, True)
    if over <= 0 and (dim is None or not shape):
        return grad * functions.where(rest == 0, float("nan"), float("inf"))
    return grad * rest * (2.0 / over if over else float("inf"))


def std_backward(
    grad: Tensor, result: Tensor, self: Tensor, dim: Any, correction: Any, keepdim: bool
) -> Tensor:
    grad = functions.where(result == 0, 0.0, grad / (result * 2))
    return var_backward(grad, self, dim, correction, keepdim)


def var_mean_backward(
    grad_var: Any, grad_mean: Any, self: Tensor, dim: Any, correction: Any, keepdim: bool
) -> Tensor:
    parts = []
    if grad_var is not None:
        parts.append(var_backward(grad_var, self, dim, correction, keepdim))
    if grad_mean is not None:
        parts.append(mean_backward(grad_mean, self._geometry.sizes, dim, keepdim))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def std_mean_backward(
    grad_std: Any, grad_mean: Any, self: Tensor, dim: Any, correction: Any, keepdim: bool
) -> Tensor:
    if grad_std is not None:
        spread = calls.std_correction(self, dim, correction, keepdim)
        grad_std = functions.where(spread == 0, 0.0, grad_std / (spread * 2))
    return var_mean_backward(grad_std, grad_mean, self, dim, correction, keepdim)


def logsumexp_backward(
    grad: Tensor, self: Tensor, result: Tensor, dim: Any, keepdim: bool
) -> Tensor:
    ndim = self._geometry.ndim
    top = _with_dims(result, ndim, dim, keepdim)
    return _with_dims(grad, ndim, dim, keepdim) * conj((self - top).exp())


# --- norms and distances --------------------------------------------------------------------------


def norm_backward(
    grad: Tensor, self: Tensor, p: float, result: Tensor, dim: Any, keepdim: bool
) -> Tensor:
    """Return the gradient of a norm. It is zero where the norm is zero. For the maximum norm, it is
    divided evenly among the largest elements."""
    ndim = self._geometry.ndim
    dims = tuple(range(ndim)) if dim is None or dim in ((), []) else dim
    grad, size = _with_dims(grad, ndim, dims, keepdim), _with_dims(result, ndim, dims, keepdim)
    if p == 0:
        return functions.zeros_like(self)
    if p == 2:
        return grad * distances.share(self, size)
    if p in (float("inf"), -float("inf")):
        chosen = _or_nan(self.abs(), size)
        share = grad / calls.sum_dim_IntList(chosen, dims, True) if ndim else grad
        return functions.sgn(self) * functions.where(chosen, share, 0.0)
    if p == 1:
        return functions.sgn(self) * grad
    return distances.power_slope(self, p) * distances.share(grad, size ** (p - 1))


def _or_nan(x: Tensor, extreme: Tensor) -> Tensor:
    return functions.where(x == x, x == extreme, True)


def renorm_backward(grad: Tensor, self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    ndim = self._geometry.ndim
    others = tuple([d for d in range(ndim) if d != dim % ndim])
    size = calls.linalg_vector_norm(self, p, others, True, dtype=None)
    along = grad * conj(self)
    if along._geometry.dtype.is_complex:
        along = calls.select_int(calls.view_as_real(along), -1, 0)
    along = calls.sum_dim_IntList(along, others, True)
    by_norm = norm_backward(along, self, p, size, others, True)
    inverse = 1 / (size + 1e-7)
    shorter = maxnorm * inverse * (grad - inverse * by_norm)
    return functions.where(size > maxnorm, shorter, grad)


def cdist_backward(
    grad: Tensor, x1: Tensor, x2: Tensor, p: float, result: Tensor, is_second: bool
) -> Tensor:
    """Return the gradient of x1 or of x2, whose batches may be broadcast. One loop computes the
    gradient if no graph is recorded for it; otherwise differentiable operators compute it."""
    if is_second:
        grad, x1, x2, result = grad.mT, x2, x1, result.mT
    if grad_mode.get() != DEFAULT:
        return calls._cdist_backward(grad, x1, x2, p, result)
    return distances.cdist_slope(grad, x1, x2, p, result)


def euclidean_dist_backward(grad: Tensor, x1: Tensor, x2: Tensor, result: Tensor) -> Tensor:
    ratio = distances.share(grad, result)
    return x1 * calls.sum_dim_IntList(ratio, (-1,), True) - calls.matmul(ratio, x2)


def pdist_backward(grad: Tensor, self: Tensor, p: float, result: Tensor) -> Tensor:
    if grad_mode.get() != DEFAULT:
        return calls._pdist_backward(grad, self, p, result)
    return distances.pdist_slope(grad, self, p, result)
