"""The attention functions of gt.nn.functional."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._generated import calls, functions
from ...core import errors
from ...core.arguments import flag
from ...core.dtype import bool_
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


@declares()
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Return the sums of values, weighted by softmax(query @ key.mT * scale + attn_mask).

    Args:
        query: (..., heads, L, E). key: (..., heads, S, E). value: (..., heads, S, F).
        attn_mask: added to the scores, or bool, False to exclude a key from a query; (..., L, S).
        dropout_p: probability of dropping a weight. It applies in evaluation too: pass 0 there.
        is_causal: query n attends to keys 0 to n.
        scale: by default 1 / sqrt(E).
        enable_gqa: several query heads share each head of key and value.
    Returns: (..., heads, L, F).

    >>> x = gt.ones(1, 2, 3, 4)
    >>> gt.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
    gputensor.Size([1, 2, 3, 4])
    """
    op = "scaled_dot_product_attention"
    return calls.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, flag(op, "is_causal", is_causal), scale,
        flag(op, "enable_gqa", enable_gqa),
    )  # fmt: skip


@declares()
def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
    bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Compute `gt.nn.MultiheadAttention` for (L, N, E) or (L, E). Return the result and the
    weights.

    static_k, static_v: keys and values for each head, which replace key and value: (N *
    heads, S, E / heads).
    """
    op, is_alone, is_self = _HEADS, query.ndim == 2, query is key and key is value
    _check_heads(query, key, value, embed_dim_to_check, num_heads)
    if is_causal and attn_mask is None:
        raise errors.must(op, "attn_mask", "be given with is_causal, which describes it", None)
    weights = in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight
    if is_alone:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        if key_padding_mask is not None and key_padding_mask.ndim == 1:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch = query.shape[:2]
    given = (query,) if is_self and not use_separate_proj_weight else (query, key, value)
    q, k, v = _projections(given, weights, in_proj_bias, use_separate_proj_weight)
    mask, more = _additive(op, "attn_mask", attn_mask, q), 0
    if bias_k is not None and bias_v is not None:
        k = functions.cat([k, bias_k.expand(1, batch, -1)])
        v = functions.cat([v, bias_v.expand(1, batch, -1)])
        more += 1
    q, k, v = (_by_heads(x, num_heads) for x in (q, k, v))
    k = k if static_k is None else static_k.unflatten(0, (batch, num_heads))
    v = v if static_v is None else static_v.unflatten(0, (batch, num_heads))
    if add_zero_attn:
        k, v = (functions.cat([x, functions.zeros_like(x[:, :, :1])], 2) for x in (k, v))
        more += 1
    is_plain_causal = is_causal and key_padding_mask is None and not more
    mask = _mask_of_heads(mask, key_padding_mask, q, k, more)
    dropped = dropout_p if training else 0.0
    if need_weights:
        made, shares = _with_weights(q, k, v, mask, dropped)
    else:
        mask = None if is_plain_causal else mask
        made = scaled_dot_product_attention(q, k, v, mask, dropped, is_plain_causal)
    made = made.permute(2, 0, 1, 3).reshape(length, batch, embed_dim_to_check)
    made = calls.linear(made, out_proj_weight, out_proj_bias)
    made = made.squeeze(1) if is_alone else made
    if not need_weights:
        return made, None
    shares = shares.mean(1) if average_attn_weights else shares
    return made, shares.squeeze(0) if is_alone else shares


_HEADS = "multi_head_attention_forward"


def _check_heads(query: Tensor, key: Tensor, value: Tensor, columns: int, heads: int) -> None:
    if query.ndim not in (2, 3):
        raise errors.wrong_shape(_HEADS, "query", "have two or three dimensions", query)
    if query.shape[-1] != columns:
        raise errors.wrong_shape(_HEADS, "query", f"have {columns} columns", query)
    for arg, x in (("key", key), ("value", value)):
        if x.ndim != query.ndim:
            rule = f"have {query.ndim} dimensions, as query has"
            raise errors.wrong_shape(_HEADS, arg, rule, x)
    if columns % heads:
        raise errors.must(_HEADS, "num_heads", f"divide the {columns} columns", heads)


def _projections(
    given: tuple[Tensor, ...], weights: tuple[Tensor | None, ...], bias: Tensor | None,
    is_separate: bool,
) -> Sequence[Tensor]:  # fmt: skip
    """Project query, key and value. given: query, key and value, or only the query if all three are
    one tensor. weights: the common weight, then the separate weights of query, key and value."""
    whole, *separate = weights
    if is_separate:
        for arg, weight in zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), separate):
            if weight is None:
                raise errors.not_given(_HEADS, arg)
    elif whole is None:
        raise errors.not_given(_HEADS, "in_proj_weight")
    elif len(given) == 1:
        return _projected(given[0], whole, bias).chunk(3, -1)
    else:
        separate = list(whole.chunk(3))
    shifts = [None] * 3 if bias is None else list(bias.chunk(3))
    return list(map(_projected, given, separate, shifts))


def _mask_of_heads(mask: Any, padding: Tensor | None, q: Tensor, k: Tensor, more: int) -> Any:
    """Return a mask to add to the scores, (N, heads, L, S), or None. more: the number of keys that
    were appended to the given keys; the mask never excludes them.
    """
    batch, heads, length, _ = q.shape
    if mask is not None:
        mask = _with_more(mask, more)
        mask = mask.unflatten(0, (batch, heads)) if mask.ndim == 3 else mask
    if padding is not None:
        if tuple(padding.shape) != (batch, k.shape[2] - more):
            rule = f"have sizes {[batch, k.shape[2] - more]}"
            raise errors.wrong_shape(_HEADS, "key_padding_mask", rule, padding)
        padded = _with_more(_additive(_HEADS, "key_padding_mask", padding, q), more)[:, None, None]
        mask = padded if mask is None else mask + padded
    return None if mask is None else mask.expand(batch, heads, length, k.shape[2])


def _with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, dropped: float
) -> tuple[Tensor, Tensor]:
    """Return the result of attention for each head, and the attention weights."""
    scores = (q * (q.shape[-1] ** -0.5)) @ k.mT
    shares = functions.softmax(scores if mask is None else scores + mask, -1)
    shares = calls.dropout(shares, dropped, True) if dropped else shares
    return shares @ v, shares


def _projected(x: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
    """Apply `linear` to (L, N, E). A tensor whose memory layout is (N, L, E) is not copied."""
    turned = x.transpose(0, 1)
    if turned.is_contiguous() and not x.is_contiguous():
        return calls.linear(turned, weight, bias).transpose(0, 1)
    return calls.linear(x, weight, bias)


def _by_heads(x: Tensor, heads: int) -> Tensor:
    """View (L, N, E) as (N, heads, L, E / heads)."""
    return x.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)


def _additive(op: str, arg: str, mask: Tensor | None, like: Tensor) -> Any:
    """Return a mask that is added to scores. It is -inf where a bool mask is True."""
    if mask is None or mask.dtype is like.dtype:
        return mask
    if mask.dtype is bool_:
        return functions.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -math.inf)
    if not mask.dtype.is_floating_point:
        raise errors.wrong_dtype(op, arg, "be bool or floating", mask)
    return mask.to(like.dtype)


def _with_more(mask: Any, more: int) -> Any:
    """Extend the mask by `more` keys, which all queries may attend to."""
    return calls.constant_pad_nd(mask, (0, more), 0) if more else mask
