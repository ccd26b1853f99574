"""Attention: softmax of products of queries and keys, times values. Made of other operators.

f16 and bf16 are computed in f32 and rounded once. Source: aten/src/ATen/native/transformers/
attention.cpp and sdp_utils_cpp.cpp.
"""

from __future__ import annotations

import math
from typing import Any

from .._generated import calls
from ..core import errors
from ..core.arguments import real
from ..core.dtype import FLOATING, bool_, float32
from ..iterator.broadcast import broadcast_sizes
from ..tensor.tensor import Tensor
from .norm import cast, wide

OP = "scaled_dot_product_attention"


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: Any) -> None:
    if query._geometry.dtype.category != FLOATING:
        raise errors.wrong_dtype(OP, "query", "be floating", query)
    for arg, x in (("query", query), ("key", key), ("value", value)):
        if x._device is not query._device:
            raise errors.mixed_devices(OP, query, "query", x, arg)
        if x._geometry.dtype is not query._geometry.dtype:
            rule = f"have query's dtype {query._geometry.dtype.short}"
            raise errors.wrong_dtype(OP, arg, rule, x)
        if x._geometry.ndim < 2:
            raise errors.wrong_shape(OP, arg, "have two dimensions or more", x)
    width, length = query._geometry.sizes[-1], key._geometry.sizes[-2]
    if key._geometry.sizes[-1] != width:
        raise errors.wrong_shape(OP, "key", f"have rows of {width}, as query has", key)
    if value._geometry.sizes[-2] != length:
        raise errors.wrong_shape(OP, "value", f"have {length} rows, as key has", value)
    if not 0 <= real(OP, "dropout_p", dropout_p) <= 1:
        raise errors.must(OP, "dropout_p", "be in [0, 1]", dropout_p)
    if mask is None:
        return
    if mask._device is not query._device:
        raise errors.mixed_devices(OP, query, "query", mask, "attn_mask")
    if mask._geometry.dtype not in (bool_, float32, query._geometry.dtype):
        raise errors.wrong_dtype(OP, "attn_mask", "be bool, f32 or of query's dtype", mask)


def _heads(query: Tensor, x: Tensor, arg: str, enable_gqa: bool) -> Tensor:
    """x with a head for each of query's, of which each of its own serves several."""
    if not enable_gqa:
        return x
    if x._geometry.ndim < 3 or query._geometry.ndim < 3:
        raise errors.wrong_shape(OP, arg, "have heads, as enable_gqa wants them", x)
    wanted, found = query._geometry.sizes[-3], x._geometry.sizes[-3]
    if found == wanted:
        return x
    if not found or wanted % found:
        raise errors.wrong_shape(OP, arg, f"have a divisor of {wanted} heads", x)
    return calls.repeat_interleave_self_int(x, wanted // found, -3, None)


def _added(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """Scores, and -inf where a query is not to look; each looks as far as itself if is_causal."""
    sizes = scores._geometry.sizes
    if mask is not None:
        of = mask._geometry.sizes
        if len(of) < 2 or broadcast_sizes(sizes, of) != sizes:
            raise errors.wrong_shape(OP, "attn_mask", f"broadcast to {list(sizes)}", mask)
        if mask._geometry.dtype is bool_:
            scores = calls.where_self(mask, scores, -math.inf)
        else:
            scores = calls.add_Tensor(scores, cast(mask, scores._geometry.dtype), 1)
    if is_causal:
        of_all = calls.new_full(scores, sizes[-2:], -math.inf)
        scores = calls.add_Tensor(scores, calls.triu(of_all, 1), 1)
    return scores


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float,
    is_causal: bool, scale: float | None, enable_gqa: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The result in the dtype that it is computed in, and the scores."""
    _check(query, key, value, mask, dropout_p)
    key, value = _heads(query, key, "key", enable_gqa), _heads(query, value, "value", enable_gqa)
    width = query._geometry.sizes[-1]
    if scale is None:
        scale = 1 / math.sqrt(width) if width else math.inf
    scaled = calls.mul_Tensor(wide(query), real(OP, "scale", scale))
    scores = calls.matmul(scaled, calls.transpose_int(wide(key), -2, -1))
    scores = _added(scores, mask, is_causal)
    # Without a mask every query sees a key, and the plain softmax has no row of -inf.
    weights = calls._softmax(scores, -1, False) if mask is None else calls._safe_softmax(scores, -1)
    if dropout_p:
        weights = calls.dropout(weights, dropout_p, True)
    return calls.matmul(weights, wide(value)), scores


def _is_fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float) -> bool:
    """Whether PyTorch's fused kernel takes these, whose result lies as query does."""
    q, k, v = query._geometry, key._geometry, value._geometry
    return (
        q.ndim == k.ndim == v.ndim == 4
        and q.sizes[0] == k.sizes[0] == v.sizes[0]
        and q.sizes[-1] == v.sizes[-1]
        and q.numel > 0 and k.numel > 0 and not p
        and (mask is None or not mask.requires_grad)
    )  # fmt: skip


def _laid_out(made: Tensor, query: Tensor) -> Tensor:
    made, strides = cast(made, query._geometry.dtype), query._geometry.strides
    order = tuple(sorted(range(4), key=lambda d: -strides[d]))
    back = tuple(order.index(d) for d in range(4))
    return calls.permute(calls.contiguous(calls.permute(made, order)), back)


def scaled_dot_product_attention(
    key_set: int, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    given = (query, key, value, attn_mask, dropout_p)
    made = _attend(*given, is_causal, scale, enable_gqa)[0]
    return _laid_out(made, query) if _is_fused(*given) else cast(made, query._geometry.dtype)


def _scaled_dot_product_flash_attention_for_cpu(
    key_set: int, query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0,
    is_causal: bool = False, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    op = "_scaled_dot_product_flash_attention_for_cpu"
    if query._geometry.ndim != 4:
        raise errors.wrong_shape(op, "query", "have four dimensions", query)
    if dropout_p:
        raise errors.must(op, "dropout_p", "be 0", dropout_p)
    made, scores = _attend(query, key, value, attn_mask, 0.0, is_causal, scale, True)
    rows = calls.detach(scores)
    logsumexp = calls.logsumexp(rows, (-1,))
    if attn_mask is not None:  # PyTorch has 0 for a query that sees nothing
        logsumexp = calls.where_self(calls.eq_Tensor(logsumexp, -math.inf), 0.0, logsumexp)
    logsumexp = calls.transpose_int(calls.contiguous(calls.transpose_int(logsumexp, 1, 2)), 1, 2)
    return _laid_out(made, query), logsumexp
