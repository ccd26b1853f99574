"""Operands and results of the CPU's compiled loops for attention.

Operands have four dimensions: samples, heads, rows and elements.
"""

from __future__ import annotations

from typing import Any

from ..._generated import calls
from ...core.device import CPU
from ...core.dtype import dtype, float32, float64
from ...core.number_range import signed_word
from ...kernels import stub
from ...tensor.tensor import Tensor
from .attention_kernels import empty_as
from .attention_tiles import Dropout, cast_mask
from .precision import cast

_forward_loop = stub.compiled("attention", "forward")
_backward_loop = stub.compiled("attention", "backward")


def is_taken(query: Tensor, key: Tensor, value: Tensor, served: tuple[int, int]) -> bool:
    """Return True if the CPU's compiled loops support these operands. The loops themselves may be
    missing."""
    numel = query._geometry.numel * key._geometry.numel * value._geometry.numel
    return query._device is CPU and served[0] == served[1] and numel > 0


def _array(x: Tensor) -> Any:
    return x._get_array()


def _mask_array(mask: Tensor | None, query: Tensor, key: Tensor) -> Any:
    """Return the mask as the loops read it: expanded to the sizes of the scores, as bool or as
    numbers."""
    if mask is None:
        return None
    if query._geometry.dtype is float64:
        mask = cast_mask(mask, float64)
    sizes = (*query._geometry.sizes[:3], key._geometry.sizes[2])
    return _array(calls.expand(mask, sizes, False))


def sum_dtype(query: Tensor) -> dtype:
    return float64 if query._geometry.dtype is float64 else float32


def _numbers(is_causal: bool, scale: float, dropout: Dropout | None) -> tuple[Any, ...]:
    if dropout is None:
        return int(bool(is_causal)), 0, 0, 0, 0, scale, 1.0
    words = [signed_word(n) for n in (dropout.seed, dropout.block)]
    return int(bool(is_causal)), 1, *words, dropout.limit, scale, dropout.grown


def forward(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool,
    scale: float, dropout: Dropout | None,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """Return the result and, for each query, the logarithm of its sum of exponentials. Return None
    if the compiled loop is missing or declines the call."""
    samples, heads, length, _ = query._geometry.sizes
    out = empty_as(query, (samples, heads, length, value._geometry.sizes[3]))
    sums = calls.new_empty(query, (samples, length, heads), sum_dtype(query))
    sums = calls.transpose_int(sums, 1, 2)
    operands = (*map(_array, (query, key, value)), _mask_array(mask, query, key))
    numbers = _numbers(is_causal, scale, dropout)
    if _forward_loop(*operands, _array(out), _array(sums), *numbers):
        return out, sums
    return None


def backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    mask: Tensor | None, is_causal: bool, scale: float, dropout: Dropout | None,
    of_scores: Tensor | None,
) -> tuple[Tensor, ...] | None:  # fmt: skip
    """Return the gradients of query, key and value. Write the gradients of all scores to of_scores.
    Return None if the compiled loop is missing or declines the call."""
    operands = (*map(_array, (grad, query, key, value)), _mask_array(mask, query, key))
    made = [empty_as(x, x._geometry.sizes) for x in (query, key, value)]
    to = (*map(_array, made), None if of_scores is None else _array(of_scores))
    sums = _array(cast(logsumexp, sum_dtype(query)))
    numbers = _numbers(is_causal, scale, dropout)
    if _backward_loop(*operands, _array(out), sums, *to, *numbers):
        return tuple(made)
    return None
