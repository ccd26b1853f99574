"""What derivatives of normalisations, convolutions and pooling call.

Everything is made of public operators of the operands, statistics included, so that derivatives of
derivatives need nothing more. f16 and bf16 are computed in f32; the engine casts back.
"""

from __future__ import annotations

from typing import Any, overload

from ..._generated import calls, functions
from ...core import dtype as dtypes
from ...tensor.tensor import Tensor

_HALVES = (dtypes.float16, dtypes.bfloat16)


def _wide(x: Tensor) -> Tensor:
    if x._geometry.dtype not in _HALVES:
        return x
    return calls.to_dtype(x, dtypes.float32, False, False, None)


def _mean(x: Tensor, dims: Any) -> Tensor:
    return calls.mean_dim(x, dims, True, None)


def _normal(x: Tensor, dims: Any, eps: float) -> tuple[Tensor, Tensor]:
    """x with mean 0 and variance 1, and one by its deviation."""
    centered = x - _mean(x, dims)
    rstd = 1 / calls.sqrt(_mean(centered * centered, dims) + eps)
    return centered * rstd, rstd


def _through_normal(grad: Tensor, x: Tensor, dims: Any, eps: float) -> Tensor:
    """The gradient of what was normalised over dims."""
    normal, rstd = _normal(x, dims, eps)
    return rstd * (grad - _mean(grad, dims) - normal * _mean(grad * normal, dims))


# --- channels -------------------------------------------------------------------------------------


def _along(x: Tensor, ndim: int) -> Tensor:
    return calls.reshape(x, (1, -1 if x._geometry.numel else 0, *[1] * (ndim - 2)))


def _but_channels(x: Tensor) -> tuple[int, ...]:
    return (0, *range(2, x._geometry.ndim))


@overload
def sum_of_channels(grad: Tensor) -> Tensor: ...
@overload
def sum_of_channels(grad: None) -> None: ...
def sum_of_channels(grad: Tensor | None) -> Tensor | None:
    """A number for each channel."""
    if grad is None:
        return None
    return calls.sum_dim_IntList(_wide(grad), _but_channels(grad), False)


def group_norm_backward(
    grads: Any, input: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, N: int, C: int,
    HxW: int, group: int,
) -> Tensor | None:  # fmt: skip
    """Of the result, and of the means and deviations of the groups, which are results too."""
    (grad, of_mean, of_rstd), made = grads, None
    if grad is not None:
        made = calls.native_group_norm_backward(
            grad, input, mean, rstd, weight, N, C, HxW, group, (True, False, False)
        )[0]
    x = _wide(input).reshape(N, group, C // group * HxW)
    if of_mean is not None:
        part = functions.zeros_like(x) + (_wide(of_mean) / x.shape[2]).unsqueeze(2)
        made = _added(made, part.reshape(input.shape))
    if of_rstd is not None:
        slope = -(_wide(rstd) ** 3 / x.shape[2]).unsqueeze(2) * (x - _mean(x, (2,)))
        made = _added(made, (_wide(of_rstd).unsqueeze(2) * slope).reshape(input.shape))
    return made


def _added(x: Tensor | None, y: Tensor) -> Tensor:
    return y if x is None else x + y


def group_norm_weight_backward(
    grad: Tensor | None, input: Tensor, mean: Tensor, rstd: Tensor, N: int, C: int, HxW: int,
    group: int,
) -> Tensor | None:  # fmt: skip
    if grad is None:
        return None
    return calls.native_group_norm_backward(
        grad, input, mean, rstd, None, N, C, HxW, group, (False, True, False)
    )[1]


def _batch_normal(x: Tensor, mean: Any, var: Any, training: bool, eps: float) -> Tensor:
    if training:
        return _normal(x, _but_channels(x), eps)[0]
    ndim = x._geometry.ndim
    return (x - _along(_wide(mean), ndim)) / calls.sqrt(_along(_wide(var), ndim) + eps)


def batch_norm_backward(
    grad: Tensor, input: Tensor, weight: Tensor | None, mean: Any, var: Any, training: bool,
    eps: float,
) -> Tensor:  # fmt: skip
    grad, ndim = _wide(grad), input._geometry.ndim
    if weight is not None:
        grad = grad * _along(_wide(weight), ndim)
    if training:
        return _through_normal(grad, _wide(input), _but_channels(input), eps)
    return grad / calls.sqrt(_along(_wide(var), ndim) + eps)


def batch_norm_weight_backward(
    grad: Tensor, input: Tensor, mean: Any, var: Any, training: bool, eps: float
) -> Tensor | None:
    return sum_of_channels(_wide(grad) * _batch_normal(_wide(input), mean, var, training, eps))


# --- pooling --------------------------------------------------------------------------------------


def max_pool_double_backward(grad: Tensor, indices: Tensor, count: int) -> Tensor:
    """What a second gradient has where the maxima were."""
    sizes = indices._geometry.sizes
    before = sizes[: len(sizes) - count]
    flat = (*before, -1 if indices._geometry.numel else 0)
    found = calls.gather(calls.reshape(grad, (*before, -1)), -1, calls.reshape(indices, flat))
    return calls.reshape(found, sizes)
