"""Attention: the softmax of the products of queries and keys, multiplied by the values.

Scores are computed tile by tile, forward and backward, where PyTorch uses its fused kernel, and
also with a mask that needs a gradient. On the CPU the compiled library does this. On CUDA, kernels
do it for f32, f16 and bf16 with rows of up to 128 elements (kernels/cuda/attention.cu). In other
cases operators compute the tiles; a tile has some queries of some heads, and all keys to which
these queries attend. The backward pass computes the scores again, and their softmax from the stored
logarithm of each query's sum. Both passes draw the random numbers of dropout by the position of a
weight, so no mask is stored. f16 and bf16 are computed in f32 and rounded once.

Source: aten/src/ATen/native/transformers/attention.cpp and sdp_utils_cpp.cpp; Dao et al.,
FlashAttention, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import real
from ..core.device import CPU
from ..core.dtype import bool_, float32
from ..dispatch import tls
from ..dispatch.keys import BATCHED, DUAL
from ..iterator.broadcast import broadcast_sizes
from ..structured import arguments
from ..structured.generator import default_generator
from ..structured.layers import attention_kernels, attention_loops
from ..structured.layers.attention_kernels import order_of
from ..structured.layers.attention_tiles import Dropout, Tile, tiles
from ..structured.layers.precision import cast, wide
from ..structured.shortcuts import computed as short
from ..tensor.tensor import Tensor
from .copy import fill_part
from .random import draw

OP = "scaled_dot_product_attention"


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: Any) -> None:
    arguments.check_is_floating(OP, "query", query)
    for arg, x in (("query", query), ("key", key), ("value", value)):
        arguments.check_alike(OP, "query", query, arg, x)
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
    arguments.check_device(OP, "query", query, "attn_mask", mask)
    if mask._geometry.dtype not in (bool_, float32, query._geometry.dtype):
        raise errors.wrong_dtype(OP, "attn_mask", "be bool, f32 or of query's dtype", mask)


def _check_mask(mask: Tensor | None, sizes: tuple[int, ...]) -> None:
    if mask is None:
        return
    of = mask._geometry.sizes
    if len(of) < 2 or broadcast_sizes(sizes, of) != sizes:
        raise errors.wrong_shape(OP, "attn_mask", f"broadcast to {list(sizes)}", mask)


def _served(query: Tensor, x: Tensor, arg: str) -> int:
    """Return the number of query heads per head of x."""
    if x._geometry.ndim < 3 or query._geometry.ndim < 3:
        raise errors.wrong_shape(OP, arg, "have heads, as enable_gqa wants them", x)
    wanted, found = query._geometry.sizes[-3], x._geometry.sizes[-3]
    if found == wanted:
        return 1
    if not found or wanted % found:
        raise errors.wrong_shape(OP, arg, f"have a divisor of {wanted} heads", x)
    return wanted // found


def _repeated(x: Tensor, served: int) -> Tensor:
    return x if served == 1 else calls.repeat_interleave_self_int(x, served, -3, None)


def _of_own_heads(grad: Tensor, heads: int, x: Tensor) -> Tensor:
    """Return the gradient of x, summed over the query heads that share one head of x."""
    own = x._geometry.sizes[1]
    if own == heads:
        return grad
    return calls.sum_dim_IntList(calls.unflatten_int(grad, 1, (own, heads // own)), (2,), False)


def _added(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return the scores with the mask added, and with -inf where a query must not attend to a key.
    With is_causal, a query must not attend to later keys."""
    sizes = scores._geometry.sizes
    _check_mask(mask, sizes)
    if mask is not None:
        if mask._geometry.dtype is bool_:
            scores = calls.where_self(mask, scores, -math.inf)
        else:
            scores = calls.add_Tensor(scores, cast(mask, scores._geometry.dtype), 1)
    if is_causal:
        of_all = calls.new_full(scores, sizes[-2:], -math.inf)
        scores = calls.add_Tensor(scores, calls.triu(of_all, 1), 1)
    return scores


def _is_fused(query: Tensor, key: Tensor, value: Tensor, served: Sequence[int]) -> bool:
    """Return True if PyTorch uses its fused kernel for operands of these sizes. The caller checks
    two further conditions: there is no dropout, and no mask needs a gradient. The result of the
    fused kernel has the layout of query."""
    q, k, v = query._geometry, key._geometry, value._geometry
    return (
        q.ndim == k.ndim == v.ndim == 4
        and q.sizes[0] == k.sizes[0] == v.sizes[0]
        and q.sizes[1] == k.sizes[1] * served[0] == v.sizes[1] * served[1]
        and q.sizes[-1] == v.sizes[-1]
        and q.numel > 0 and k.numel > 0
    )  # fmt: skip


def _is_by_tiles(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float
) -> bool:
    """Return True if computing the scores tile by tile is faster than computing all scores at once.
    It is faster on the CPU. On other devices it is faster if a CUDA kernel computes the tiles, or
    if there are many scores. With dropout, return False on devices that are not in `_TYPES`, and
    under a transform (vmap, jvp). Transforms have rules for operators that draw random numbers, but
    the operator for tiles gets a seed as an argument."""
    is_drawn_here = query._device.type in _TYPES and not tls.state.get()[0] & (BATCHED | DUAL)
    if dropout_p and not is_drawn_here:
        return False
    if query._device is CPU or attention_kernels.launches(query, key, value, mask, False, 0.0):
        return True
    return _numel_of_scores(query, key) > _FEW


def _numel_of_scores(query: Tensor, key: Tensor) -> int:
    return math.prod(query._geometry.sizes[:3]) * key._geometry.sizes[2]


def scaled_dot_product_attention(
    key_set: int, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    _check(query, key, value, attn_mask, dropout_p)
    pair = (("key", key), ("value", value))
    served = [_served(query, x, arg) if enable_gqa else 1 for arg, x in pair]
    is_fused = _is_fused(query, key, value, served)
    is_dense = dropout_p or attn_mask is not None and attn_mask.requires_grad
    if is_fused and _is_by_tiles(query, key, value, attn_mask, dropout_p):
        made = _by_tiles(query, key, value, attn_mask, dropout_p, is_causal, scale)
        if not is_dense:
            args = (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
            table = operators.scaled_dot_product_attention.table
            short.learn_calling(table, scaled_dot_product_attention, args, _again)
        return calls.contiguous(made) if is_dense else made
    key, value = _repeated(key, served[0]), _repeated(value, served[1])
    made = _attend(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if is_fused and not is_dense:
        return _laid_out(made, query)
    return cast(made, query._geometry.dtype)


def _again(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float,
    is_causal: bool, scale: float | None, enable_gqa: bool,
) -> Tensor | None:  # fmt: skip
    """Return the result for operands whose layouts an earlier call has checked, without dropout.
    Return None if the mask needs a gradient."""
    if mask is not None and mask.requires_grad:
        return None
    return _by_tiles(query, key, value, mask, dropout_p, is_causal, scale)


def _by_tiles(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float,
    is_causal: bool, scale: float | None,
) -> Tensor:  # fmt: skip
    if not dropout_p:
        return calls._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, is_causal, mask, scale
        )[0]
    seed, block = 0, 0
    if dropout_p < 1:
        place = query._device
        count = _numel_of_scores(query, key)
        seed, block = default_generator(place).take(count, place.index)
    given = (query, key, value, mask, dropout_p, is_causal, scale, seed, block)
    return calls._attention_with_dropout(*given)[0]


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float,
    is_causal: bool, scale: float | None,
) -> Tensor:  # fmt: skip
    """Compute attention with all scores at once."""
    scaled = calls.mul_Tensor(wide(query), _scale(query, scale))
    scores = calls.matmul(scaled, calls.transpose_int(wide(key), -2, -1))
    scores = _added(scores, mask, is_causal)
    # Without a mask, every query attends to at least one key. So no row of scores is all -inf, and
    # plain softmax suffices.
    weights = calls._softmax(scores, -1, False) if mask is None else calls._safe_softmax(scores, -1)
    if dropout_p:
        weights = calls.dropout(weights, dropout_p, True)
    return calls.matmul(weights, wide(value))


def _scale(query: Tensor, scale: float | None) -> float:
    width = query._geometry.sizes[-1]
    if scale is None:
        return 1 / math.sqrt(width) if width else math.inf
    return real(OP, "scale", scale)


# --- by tiles -------------------------------------------------------------------------------------


# Devices that can draw random numbers from any position of a generator's stream.
_TYPES = ("cpu", "cuda")
# Up to this number of scores, one pass over all of them is faster than one pass per tile.
_FEW = 1 << 15


def _scores(tile: Tile, query: Tensor, key: Tensor) -> Tensor:
    """Return a tile's scores, with -inf where a query must not attend to a key."""
    scores = calls.bmm(tile.of_queries(query), calls.transpose_int(tile.of_keys(key), 1, 2))
    if tile.mask is not None:
        if tile.mask._geometry.dtype is bool_:
            scores = calls.where_self(tile.mask, scores, -math.inf)
        else:
            scores = calls.add__Tensor(scores, tile.mask, 1)
    return scores


def _hide_later(scores: Tensor, tile: Tile) -> None:
    """Mask the keys after each query in place. Keys before the tile's first query need no mask."""
    first, behind = tile.queries[0], scores._geometry.sizes[2]
    if behind > first + 1:
        edge = calls.slice_Tensor(scores, 2, first, behind, 1)
        hidden = calls.triu(calls.new_full(edge, edge._geometry.sizes[1:], -math.inf), 1)
        calls.add__Tensor(edge, hidden, 1)


def _matrices(x: Tensor) -> Tensor:
    """View (samples, heads, length, width) as (samples * heads, length, width), and cast it to the
    dtype of the computation."""
    return calls.flatten_using_ints(calls.contiguous(wide(x)), 0, 1)


def _fit(
    op: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[int, int]:
    """Check the operands. Return the number of query heads per head of key, and per head of
    value."""
    _check(query, key, value, mask, dropout_p)
    for arg, x in (("query", query), ("key", key), ("value", value)):
        if x._geometry.ndim != 4:
            raise errors.wrong_shape(op, arg, "have four dimensions", x)
        if x._geometry.sizes[0] != query._geometry.sizes[0]:
            raise errors.wrong_shape(op, arg, "have as many samples as query", x)
    _check_mask(mask, (*query._geometry.sizes[:3], key._geometry.sizes[2]))
    return _served(query, key, "key"), _served(query, value, "value")


def _weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the softmax of the scores. Without a mask, every query attends to at least one key. So
    no row of scores is all -inf, and plain softmax suffices."""
    return calls._softmax(scores, 2, False) if mask is None else calls._safe_softmax(scores, 2)


def _scaled_dot_product_flash_attention_for_cpu(
    key_set: int, query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0,
    is_causal: bool = False, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    op = "_scaled_dot_product_flash_attention_for_cpu"
    _check_no_dropout(op, dropout_p)
    return _made(op, query, key, value, attn_mask, is_causal, scale, None)


def _check_no_dropout(op: str, dropout_p: float) -> None:
    if dropout_p:
        raise errors.must(op, "dropout_p", "be 0", dropout_p)


def _attention_with_dropout(
    key_set: int, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None,
    dropout_p: float, is_causal: bool, scale: float | None, seed: int, block: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    dropout = Dropout(seed, block, dropout_p)
    given = (query, key, value, attn_mask, is_causal, scale, dropout)
    return _made("_attention_with_dropout", *given)


def _made(
    op: str, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None,
    is_causal: bool, scale: float | None, dropout: Dropout | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    served = _fit(op, query, key, value, attn_mask, dropout.p if dropout else 0.0)
    operands, by = (query, key, value, attn_mask), float(_scale(query, scale))
    if attention_loops.is_taken(query, key, value, served):
        both = attention_loops.forward(*operands, is_causal, by, dropout)
        if both is not None:
            return both
    launches = attention_kernels.launches(*operands, is_causal, by, dropout)
    if launches is not None:
        both = attention_kernels.forward(launches, *operands)
        if dropout is None:
            args = (query, key, value, 0.0, is_causal, attn_mask, scale)
            operator = operators._scaled_dot_product_flash_attention_for_cpu
            kernel = _scaled_dot_product_flash_attention_for_cpu
            attention_kernels.learn(operator, kernel, args, launches, both, attn_mask)
        return both
    key, value = _repeated(key, served[0]), _repeated(value, served[1])
    samples, heads, length, _ = query._geometry.sizes
    q, k, v = map(_matrices, (calls.mul_Tensor(wide(query), by), key, value))
    make = calls.new_empty if key._geometry.numel else calls.new_zeros
    made = make(q, (samples * heads, length, value._geometry.sizes[3]))
    sums = make(q, (samples * heads, length, 1))
    for tile in tiles(query, key, attn_mask, is_causal, q._geometry.dtype):
        scores = _scores(tile, q, k)
        if is_causal:
            _hide_later(scores, tile)
        weights = _weights(scores, attn_mask)
        # The largest weight is 1 / (sum of exponentials), so the sum's logarithm follows from it.
        # This is cheaper than logsumexp.
        most, share = calls.amax(scores, (2,), True), calls.amax(weights, (2,), True)
        weights = _without_dropped(weights, dropout, tile, query, key)
        fill_part(tile.of_queries(made), calls.bmm(weights, tile.of_keys(v)))
        found = calls.sub_Tensor(most, calls.log(share), 1)
        if attn_mask is not None:  # PyTorch returns 0 for a query without keys.
            found = calls.where_self(calls.eq_Tensor(share, 0), 0.0, found)
        fill_part(tile.of_queries(sums), found)
    sums = calls.transpose_int(calls.view(sums, (samples, heads, length)), 1, 2)
    logsumexp = calls.transpose_int(calls.contiguous(sums), 1, 2)
    return _laid_out(calls.unflatten_int(made, 0, (samples, heads)), query), logsumexp


def _without_dropped(
    x: Tensor, dropout: Dropout | None, tile: Tile, query: Tensor, key: Tensor
) -> Tensor:
    """Return a tile of weights x after dropout: dropped weights are zeros, and the kept weights are
    scaled."""
    if dropout is None:
        return x
    kept = draw_kept(dropout, query, key, tile.heads, tile.queries)
    kept = calls.slice_Tensor(kept, 2, *tile.keys, 1)
    return calls.mul_Tensor(calls.mul_Tensor(x, kept), dropout.grown)


def draw_kept(
    dropout: Dropout, query: Tensor, key: Tensor, heads: tuple[int, int], rows: tuple[int, int]
) -> Tensor:
    """Return a bool tensor (heads, rows, keys) that is True where dropout keeps a weight. The heads
    of all samples are numbered consecutively."""
    length, seen = query._geometry.sizes[2], key._geometry.sizes[2]
    count, place = (rows[1] - rows[0]) * seen, query._device
    drawn_on = place if place.type in _TYPES else CPU

    def drawn(head: int, count: int) -> Tensor:
        first = (head * length + rows[0]) * seen
        lead = first % 4  # Random numbers are drawn in blocks of four.
        made = calls.empty_memory_format((lead + count,), bool_, None, drawn_on, None, None)
        draw("bernoulli", made, dropout.seed, dropout.block + first // 4, dropout.limit, 0)
        kept = calls.slice_Tensor(made, 0, lead, lead + count, 1)
        return (
            kept if drawn_on is place else calls.to_device(kept, place, bool_, False, False, None)
        )

    if count == length * seen:
        made = drawn(heads[0], (heads[1] - heads[0]) * count)
    else:
        made = calls.cat([drawn(head, count) for head in range(*heads)], 0)
    return calls.view(made, (heads[1] - heads[0], rows[1] - rows[0], seen))


def _add_product(to: Tensor, left: Tensor, right: Tensor) -> None:
    calls.baddbmm_(to, calls.transpose_int(left, 1, 2), right, 1, 1)


def _laid_out(made: Tensor, query: Tensor) -> Tensor:
    order, back = order_of(query)
    made = cast(made, query._geometry.dtype)
    return calls.permute(calls.contiguous(calls.permute(made, order)), back)


def _scaled_dot_product_flash_attention_for_cpu_backward(
    key_set: int, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor,
    logsumexp: Tensor, dropout_p: float, is_causal: bool, attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    op = "_scaled_dot_product_flash_attention_for_cpu_backward"
    _check_no_dropout(op, dropout_p)
    given = (grad_out, query, key, value, out, logsumexp, attn_mask)
    return _gradients(op, *given, is_causal, scale, None, False)[:3]


def _attention_backward(
    key_set: int, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor,
    logsumexp: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool,
    scale: float | None, seed: int, block: int, of_mask: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    op, given = "_attention_backward", (grad_out, query, key, value, out, logsumexp, attn_mask)
    dropout = Dropout(seed, block, dropout_p) if dropout_p else None
    if not of_mask:
        made = _gradients(op, *given, is_causal, scale, dropout, False)
        return *made[:3], calls.new_empty(query, (0,))
    if attn_mask is None:
        raise errors.not_given(op, "attn_mask")
    arguments.check_is_floating(op, "attn_mask", attn_mask)
    *found, slopes = _gradients(op, *given, is_causal, scale, dropout, True)
    slopes = calls.sum_to_size(slopes, attn_mask._geometry.sizes)
    return *found, cast(slopes, attn_mask._geometry.dtype)


def _gradients(
    op: str, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor,
    logsumexp: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None,
    dropout: Dropout | None, with_scores: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the gradients of query, key and value. With `with_scores`, also return the gradient of
    all scores."""
    served = _fit(op, query, key, value, mask, dropout.p if dropout else 0.0)
    _check_made(op, query, value, grad_out, out, logsumexp)
    of_scores, by = None, float(_scale(query, scale))
    if with_scores:
        sizes = (*query._geometry.sizes[:3], key._geometry.sizes[2])
        of_scores = calls.new_zeros(query, sizes, attention_loops.sum_dtype(query))
    given = (query, key, value, out, logsumexp, mask, is_causal, by, dropout, of_scores)
    found = None
    if attention_loops.is_taken(query, key, value, served):
        found = attention_loops.backward(grad_out, *given)
    elif of_scores is None:
        launches = attention_kernels.launches(query, key, value, mask, is_causal, by, dropout)
        if launches is not None:
            tensors = (grad_out, query, key, value, out, logsumexp, mask)
            found = attention_kernels.backward(launches, *tensors)
    if found is None:
        found = _gradients_by_tiles(grad_out, *given, served)
    return *found, of_scores


def _check_made(
    op: str, query: Tensor, value: Tensor, grad_out: Tensor, out: Tensor, logsumexp: Tensor
) -> None:
    rows = query._geometry.sizes[:3]
    sizes = (*rows, value._geometry.sizes[3])
    made = (("grad_out", grad_out, sizes), ("out", out, sizes), ("logsumexp", logsumexp, rows))
    for arg, x, wanted in made:
        arguments.check_sizes(op, wanted, **{arg: x})
        arguments.check_device(op, "query", query, arg, x)
    for arg, x in (("grad_out", grad_out), ("out", out)):
        arguments.check_dtype(op, "query", query, arg, x)


def _gradients_by_tiles(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    mask: Tensor | None, is_causal: bool, by: float, dropout: Dropout | None,
    of_scores: Tensor | None, served: tuple[int, int],
) -> tuple[Tensor, ...]:  # fmt: skip
    sizes = query._geometry.sizes[:2]
    whole = _repeated(key, served[0]), _repeated(value, served[1])
    q, k, v = map(_matrices, (calls.mul_Tensor(wide(query), by), *whole))
    of_query, of_key, of_value = map(calls.zeros_like, (q, k, v))
    grad, of = _matrices(grad_out), q._geometry.dtype
    sums = calls.unsqueeze(calls.flatten_using_ints(cast(logsumexp, of), 0, 1), 2)
    deltas = calls.sum_dim_IntList(calls.mul_Tensor(grad, _matrices(out)), (2,), True)
    whole_scores = None if of_scores is None else calls.flatten_using_ints(of_scores, 0, 1)
    for tile in tiles(query, whole[0], mask, is_causal, of):
        scores, given = _scores(tile, q, k), tile.of_queries(grad)
        if is_causal:
            _hide_later(scores, tile)
        weights = calls.exp(calls.sub_Tensor(scores, tile.of_queries(sums), 1))
        slopes = calls.bmm(given, calls.transpose_int(tile.of_keys(v), 1, 2))
        slopes = _without_dropped(slopes, dropout, tile, query, key)
        slopes = calls.mul_Tensor(weights, calls.sub_Tensor(slopes, tile.of_queries(deltas), 1))
        if whole_scores is not None:
            part = tile.of_queries(whole_scores)
            fill_part(calls.slice_Tensor(part, 2, *tile.keys, 1), slopes)
        fill_part(tile.of_queries(of_query), calls.bmm(slopes, tile.of_keys(k)))
        weights = _without_dropped(weights, dropout, tile, query, key)
        _add_product(tile.of_keys(of_value), weights, given)
        _add_product(tile.of_keys(of_key), slopes, tile.of_queries(q))
    of_query = calls.mul__Tensor(of_query, by)
    found = [calls.unflatten_int(x, 0, sizes) for x in (of_query, of_key, of_value)]
    found[1:] = [_of_own_heads(x, sizes[1], own) for x, own in zip(found[1:], (key, value))]
    return tuple(_laid_out(x, like) for x, like in zip(found, (query, key, value)))
