"""Derivatives of normalisations, convolutions and pooling.

The functions are composed of public operators, so they are differentiable themselves. They compute
f16 and bf16 in f32, and the engine casts the results back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from ..._generated import calls, functions
from ...core import dtype as dtypes
from ...native.attention import draw_kept
from ...structured.layers import recurrent
from ...structured.layers.attention_tiles import Dropout
from ...structured.layers.precision import wide as _wide
from ...tensor.tensor import Tensor
from ..modes import DEFAULT, grad_mode


def _mean(x: Tensor, dims: Any) -> Tensor:
    return calls.mean_dim(x, dims, True, None)


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
    """Return the sum of the gradient for each channel."""
    if grad is None:
        return None
    return calls.sum_dim_IntList(_wide(grad), _but_channels(grad), False)


def zeros_for(stride: Any) -> tuple[int, ...]:
    """Return a tuple with one zero for each number in `stride`."""
    return (0,) * len(stride)


def first_windows(
    x: Tensor, weight: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int,
    sizes: Any,
) -> Tensor | None:  # fmt: skip
    """Return a convolution of x, without the windows beyond `sizes` at the end of each
    dimension."""
    if weight is None:
        return None
    no = zeros_for(stride)
    made = calls.convolution(x, weight, None, stride, padding, dilation, False, no, groups)
    for d in range(2, len(sizes)):
        made = calls.slice_Tensor(made, d, 0, sizes[d], 1)
    return made


# --- normalisations -------------------------------------------------------------------------------


def statistics(x: Tensor, dims: Any, mean: Tensor | None, rstd: Tensor) -> tuple[Tensor, Tensor]:
    """Return x normalised by the saved statistics, and the reciprocal deviation rstd. For second
    derivatives, both are differentiable functions of x. mean: the saved mean, or None if x was not
    centered."""
    rstd, centered, is_varied = _wide(calls.detach(rstd)), x, calls.alias(x).requires_grad
    if mean is not None:
        mean = _wide(calls.detach(mean))
        if is_varied:
            now = _mean(x, dims)
            mean = mean + (now - calls.detach(now))
        centered = x - mean
    if is_varied:
        now = _mean(centered * centered, dims)
        rstd = 1 / calls.sqrt(1 / (rstd * rstd) + (now - calls.detach(now)))
    return centered * rstd, rstd


@dataclass(frozen=True, slots=True, eq=False)
class _Normal:
    """The operands of a normalisation's gradients, from which second derivatives are computed.

    grad: the incoming gradient. normal: x normalised. weight: a tensor or None. dims: dimensions of
    the statistics. rows: dimensions along which a weight is constant. is_fixed: True for given
    statistics, which do not depend on x. is_centered: True if the mean was subtracted from x.
    """

    grad: Tensor
    normal: Tensor
    rstd: Tensor
    weight: Tensor | None
    dims: Any
    rows: Any
    is_fixed: bool = False
    is_centered: bool = True

    def _centered(self, x: Tensor) -> Tensor:
        return x - _mean(x, self.dims) if self.is_centered else x

    def _through(self, x: Tensor) -> Tensor:
        if self.is_fixed:
            return self.rstd * x
        along = _mean(x * self.normal, self.dims)
        return self.rstd * (self._centered(x) - self.normal * along)

    def gradients(
        self, of_x: Tensor | None, of_weight: Tensor | None, of_bias: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return second derivatives: the gradients of grad, x and weight. of_x, of_weight, of_bias:
        the incoming gradients of the first derivatives with respect to x, weight and bias."""
        grad, normal, weight = self.grad, self.normal, self.weight
        to_grad = to_normal = to_x = to_weight = None
        if of_x is not None:
            scaled = grad if weight is None else grad * weight
            through = self._through(of_x)
            to_grad = through if weight is None else through * weight
            to_weight = grad * through
            if self.rows:
                to_weight = calls.sum_dim_IntList(to_weight, self.rows, True)
            if not self.is_fixed:
                along = _mean(scaled * normal, self.dims)
                along_of_x = _mean(of_x * normal, self.dims)
                to_normal = -self.rstd * (of_x * along + scaled * along_of_x)
                rest = of_x * (self._centered(scaled) - normal * along)
                to_x = -self.rstd * self.rstd * normal * _mean(rest, self.dims)
        if of_weight is not None:
            to_grad = _added(to_grad, of_weight * normal)
            to_normal = _added(to_normal, of_weight * grad)
        if of_bias is not None:
            to_grad = _added(to_grad, of_bias + functions.zeros_like(grad))
        if to_normal is not None:
            to_x = _added(to_x, self._through(to_normal))
        return to_grad, to_x, to_weight


def _added(x: Tensor | None, y: Tensor) -> Tensor:
    return y if x is None else x + y


def _reshaped(x: Tensor | None, sizes: tuple[int, ...]) -> Any:
    return None if x is None else calls.reshape(x, sizes)


def _wide_or_none(x: Tensor | None, sizes: tuple[int, ...]) -> Any:
    return None if x is None else calls.reshape(_wide(x), sizes)


def layer_norm_double_backward(
    grads: Any, grad_out: Tensor, input: Tensor, normalized_shape: Any, mean: Tensor, rstd: Tensor,
    weight: Tensor | None, mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    given = (grads, grad_out, input, normalized_shape, mean, rstd, weight, mask[4])
    to_grad, to_x, to_weight = _double_backward_of_rows(*given)
    return to_grad, to_x, None, None, to_weight, None


def fused_rms_norm_backward(
    grads: Any, input: Tensor, normalized_shape: Any, rstd: Tensor, weight: Tensor | None, mask: Any
) -> tuple[Tensor | None, ...]:
    """Return the gradients of input and weight. grads: the incoming gradients of the result and of
    the reciprocal root mean squares."""
    (grad, of_rstd), made, of_weight = grads, None, None
    if grad is not None:
        made, of_weight = calls._fused_rms_norm_backward(
            grad, input, normalized_shape, rstd, weight, mask
        )
    if mask[0] and of_rstd is not None:
        count = math.prod(normalized_shape)
        made = _added(made, -_wide(of_rstd) * _wide(rstd) ** 3 / count * _wide(input))
    return made, of_weight


def rms_norm_double_backward(
    grads: Any, grad_out: Tensor, input: Tensor, normalized_shape: Any, rstd: Tensor,
    weight: Tensor | None, mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    given = ((*grads, None), grad_out, input, normalized_shape, None, rstd, weight, mask[3])
    to_grad, to_x, to_weight = _double_backward_of_rows(*given)
    return to_grad, to_x, None, to_weight


def _double_backward_of_rows(
    grads: Any, grad_out: Tensor, input: Tensor, normalized_shape: Any, mean: Tensor | None,
    rstd: Tensor, weight: Tensor | None, has_weight: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    sizes, own = input._geometry.sizes, tuple(normalized_shape)
    outer = len(sizes) - len(own)
    dims, rows = tuple(range(outer, len(sizes))), tuple(range(outer))
    normal, rstd = statistics(_wide(input), dims, mean, rstd)
    scale, is_centered = None if weight is None else _wide(weight), mean is not None
    made = _Normal(_wide(grad_out), normal, rstd, scale, dims, rows, is_centered=is_centered)
    to_grad, to_x, to_weight = made.gradients(*[None if g is None else _wide(g) for g in grads])
    return to_grad, to_x, _reshaped(to_weight, own) if has_weight else None


def group_norm_backward(
    grads: Any, input: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, N: int, C: int,
    HxW: int, group: int, mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of input, weight and bias. grads: the incoming gradients of the result,
    of the groups' means and of their reciprocal deviations.
    """
    (grad, of_mean, of_rstd), made, of_weight, of_bias = grads, None, None, None
    if grad is not None:
        made, of_weight, of_bias = calls.native_group_norm_backward(
            grad, input, mean, rstd, weight, N, C, HxW, group, mask
        )
    if not mask[0] or of_mean is None and of_rstd is None:
        return made, of_weight, of_bias
    x = _wide(input).reshape(N, group, C // group * HxW)
    if of_mean is not None:
        part = functions.zeros_like(x) + (_wide(of_mean) / x.shape[2]).unsqueeze(2)
        made = _added(made, part.reshape(input.shape))
    if of_rstd is not None:
        slope = -(_wide(rstd) ** 3 / x.shape[2]).unsqueeze(2) * (x - _mean(x, (2,)))
        made = _added(made, (_wide(of_rstd).unsqueeze(2) * slope).reshape(input.shape))
    return made, of_weight, of_bias


def group_norm_double_backward(
    grads: Any, grad_out: Tensor, input: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None,
    N: int, C: int, HxW: int, group: int, mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    whole, along = (N, group, C // group, HxW), (1, group, C // group, 1)
    x = calls.reshape(_wide(input), whole)
    each = (N, group, 1, 1)
    stats = [calls.reshape(y, each) for y in (mean, rstd)]
    normal, rstd = statistics(x, (2, 3), *stats)
    grad = calls.reshape(_wide(grad_out), whole)
    made = _Normal(grad, normal, rstd, _wide_or_none(weight, along), (2, 3), (0, 3))
    given = [_wide_or_none(g, sizes) for g, sizes in zip(grads, (whole, along, along))]
    to_grad, to_x, to_weight = made.gradients(*given)
    sizes = input._geometry.sizes
    return (
        _reshaped(to_grad, sizes), _reshaped(to_x, sizes), None, None,
        _reshaped(to_weight, (C,)) if mask[4] else None,
    )  # fmt: skip


def batch_norm_double_backward(
    grads: Any, grad_out: Tensor, input: Tensor, weight: Tensor | None, running_mean: Any,
    running_var: Any, save_mean: Any, save_invstd: Any, train: bool, eps: float, mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    ndim, dims, x = input._geometry.ndim, _but_channels(input), _wide(input)
    if train:
        normal, rstd = statistics(x, dims, _along(save_mean, ndim), _along(save_invstd, ndim))
    else:
        rstd = 1 / calls.sqrt(_along(_wide(running_var), ndim) + eps)
        normal = (x - _along(_wide(running_mean), ndim)) * rstd
    scale = None if weight is None else _along(_wide(weight), ndim)
    made = _Normal(_wide(grad_out), normal, rstd, scale, dims, dims, not train)
    of_x, of_weight, of_bias = [None if g is None else _wide(g) for g in grads]
    of_weight, of_bias = [None if g is None else _along(g, ndim) for g in (of_weight, of_bias)]
    to_grad, to_x, to_weight = made.gradients(of_x, of_weight, of_bias)
    to_weight = _reshaped(to_weight, (input.shape[1],)) if mask[2] else None
    return to_grad, to_x, to_weight, None, None, None, None


# --- pooling --------------------------------------------------------------------------------------


def max_pool_double_backward(grad: Tensor, indices: Tensor, count: int) -> Tensor:
    """Return the elements of `grad` at the indices of the maxima."""
    sizes = indices._geometry.sizes
    before = sizes[: len(sizes) - count]
    planes = [
        calls.reshape(x, (*before, math.prod(x._geometry.sizes[len(before) :])))
        for x in (grad, indices)
    ]
    return calls.reshape(calls.gather(planes[0], -1, planes[1]), sizes)


# --- grids ----------------------------------------------------------------------------------------


def grid_sampler_gradients(
    grad: Tensor, input: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool,
    wanted: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of grid_sample. One loop computes them if no graph is recorded for them;
    otherwise differentiable operators compute them."""
    given = (grad, input, grid, mode, padding, align_corners, wanted)
    if grad_mode.get() != DEFAULT:
        return calls._grid_sampler_backward(*given)
    if input._geometry.ndim == 4:
        return calls.grid_sampler_2d_backward(*given)
    return calls.grid_sampler_3d_backward(*given)


# --- attention ------------------------------------------------------------------------------------


def attention_gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor, logsumexp: Tensor,
    is_causal: bool, attn_mask: Tensor | None, scale: float | None, wanted: tuple[bool, ...],
    dropout_p: float = 0.0, seed: int = 0, block: int = 0,
) -> list[Tensor | None]:  # fmt: skip
    """Return the gradients of attention. One loop computes them tile by tile if no graph is
    recorded for them; otherwise differentiable operators over all scores compute them."""
    if grad_mode.get() != DEFAULT:
        given = (grad, query, key, value, output, logsumexp)
        found: tuple[Tensor, ...]
        if wanted[3] or dropout_p:
            found = calls._attention_backward(
                *given, attn_mask, dropout_p, is_causal, scale, seed, block, wanted[3]
            )
        else:
            found = calls._scaled_dot_product_flash_attention_for_cpu_backward(
                *given, 0.0, is_causal, attn_mask, scale
            )
        return _asked(found, wanted)
    heads = query._geometry.sizes[1]
    served = [heads // x._geometry.sizes[1] for x in (key, value)]
    by = query._geometry.sizes[-1] ** -0.5 if scale is None else scale
    q, k, v = _wide(query) * by, *map(_of_all_heads, (_wide(key), _wide(value)), served)
    scores = calls.matmul(q, calls.transpose_int(k, 2, 3))
    if is_causal:
        sees = calls.tril(calls.new_ones(scores, scores._geometry.sizes[2:]), 0) > 0
        scores = functions.where(sees, scores, -math.inf)
    if attn_mask is not None:
        is_bool = attn_mask._geometry.dtype is dtypes.bool_
        scores = functions.where(attn_mask, scores, -math.inf) if is_bool else scores + attn_mask
    weights = calls._safe_softmax(scores, -1)
    grad, kept = _wide(grad), weights
    slopes = calls.matmul(grad, calls.transpose_int(v, 2, 3))
    if dropout_p:
        sizes, dropout = query._geometry.sizes, Dropout(seed, block, dropout_p)
        drawn = draw_kept(dropout, query, key, (0, sizes[0] * heads), (0, sizes[2]))
        factors = calls.unflatten_int(drawn, 0, sizes[:2]) * dropout.grown
        kept, slopes = weights * factors, slopes * factors
    of_value = calls.matmul(calls.transpose_int(kept, 2, 3), grad)
    slopes = weights * (slopes - calls.sum_dim_IntList(slopes * weights, (3,), True))
    of_key = calls.matmul(calls.transpose_int(slopes, 2, 3), q)
    of_query = calls.matmul(slopes, k) * by
    made = [of_query, *(_of_own_heads(x, n) for x, n in zip((of_key, of_value), served))]
    if wanted[3]:
        assert attn_mask is not None
        made.append(calls.sum_to_size(slopes, attn_mask._geometry.sizes))
    return _asked(made, wanted)


def _asked(made: Sequence[Tensor], wanted: tuple[bool, ...]) -> list[Tensor | None]:
    """Return one gradient per operand, or None where the mask requests no gradient."""
    return [made[k] if asked else None for k, asked in enumerate(wanted)]


def _of_all_heads(x: Tensor, served: int) -> Tensor:
    return x if served == 1 else calls.repeat_interleave_self_int(x, served, 1, None)


def _of_own_heads(grad: Tensor, served: int) -> Tensor:
    if served == 1:
        return grad
    return calls.sum_dim_IntList(calls.unflatten_int(grad, 1, (-1, served)), (2,), False)


# --- recurrent layers -----------------------------------------------------------------------------


def recurrent_gradients(
    grads: Sequence[Tensor | None], input: Tensor, weight_ih: Tensor, weight_hh: Tensor,
    bias_ih: Tensor | None, bias_hh: Tensor | None, weight_hr: Tensor | None, hx: Tensor | None,
    cx: Tensor | None, output: Tensor, gates: Tensor, cells: Tensor, mode: str, reverse: bool,
    batch_sizes: Sequence[int], wanted: tuple[bool, ...],
) -> Sequence[Tensor | None]:  # fmt: skip
    """Return the gradients of a recurrent layer, from the values that the layer saved. If a graph
    is recorded for these gradients, or if nothing was saved, operators compute all steps again."""
    found = recurrent.Operands(
        input, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, hx, cx
    )  # fmt: skip
    of: Any = [*grads[:2], grads[2] if mode == recurrent.LSTM else None]
    keeps = gates._geometry.numel or mode not in (recurrent.LSTM, recurrent.GRU)
    if grad_mode.get() != DEFAULT and keeps:
        kept = (output, gates, cells, mode, reverse, batch_sizes, wanted)
        given: Any = (*of, *found, *kept)
        return calls._rnn_layer_backward(*given)
    how = recurrent.how_of(input, mode, reverse, batch_sizes)
    made = recurrent.forward(found, how, True)
    return recurrent.backward(found, how, recurrent.Saved(made[0], *made[3:]), of, wanted)
