"""Attention: softmax of products of queries and keys, times values. Composed of other operators.

Where PyTorch uses its fused kernel, and with a mask that needs a gradient, scores are computed and
used tile by tile, forward and backward: on the CPU by the compiled library, on CUDA for f32, f16,
bf16 and rows of up to 128 elements by kernels (kernels/cuda/attention.cu), elsewhere by operators,
whose tiles have some queries of some heads and all keys they attend to. The backward pass computes
the scores again, and their softmax from the logarithm of each query's sum. With dropout, all scores
are one tensor. f16 and bf16 are computed in f32 and rounded once.

Source: aten/src/ATen/native/transformers/attention.cpp and sdp_utils_cpp.cpp; Dao et al.,
FlashAttention, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from .._generated import calls
from ..core import errors
from ..core.arguments import real
from ..core.device import CPU
from ..core.dtype import bool_, dtype, float32, float64
from ..iterator.broadcast import broadcast_sizes
from ..kernels import stub
from ..structured import arguments
from ..structured.layers import attention_kernels
from ..structured.layers.attention_kernels import empty_as, order_of
from ..structured.layers.precision import cast, wide
from ..tensor.tensor import Tensor
from .copy import fill_part

OP = "scaled_dot_product_attention"
_forward_loop = stub.compiled("attention", "forward")
_backward_loop = stub.compiled("attention", "backward")


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
    """Return the number of query heads that use each head of x."""
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
    """Sum the gradient of x over the query heads that share a head of x."""
    own = x._geometry.sizes[1]
    if own == heads:
        return grad
    return calls.sum_dim_IntList(calls.unflatten_int(grad, 1, (own, heads // own)), (2,), False)


def _added(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return scores with the mask added, and -inf where a query must not attend to a key: with
    is_causal, to keys after itself."""
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


def _is_fused(query: Tensor, key: Tensor, value: Tensor, served: Sequence[int], p: float) -> bool:
    """True if PyTorch uses its fused kernel for these operands, provided that no mask needs a
    gradient. The result then has the layout of query.
    """
    q, k, v = query._geometry, key._geometry, value._geometry
    return (
        q.ndim == k.ndim == v.ndim == 4
        and q.sizes[0] == k.sizes[0] == v.sizes[0]
        and q.sizes[1] == k.sizes[1] * served[0] == v.sizes[1] * served[1]
        and q.sizes[-1] == v.sizes[-1]
        and q.numel > 0 and k.numel > 0 and not p
    )  # fmt: skip


def _is_by_tiles(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """True if tiles of scores are faster than all scores at once: if a kernel computes them, or if
    there are many scores."""
    if query._device is CPU or attention_kernels.launches(query, key, value, mask, False, 0.0):
        return True
    return math.prod(query._geometry.sizes[:3]) * key._geometry.sizes[2] > _FEW


def scaled_dot_product_attention(
    key_set: int, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    _check(query, key, value, attn_mask, dropout_p)
    pair = (("key", key), ("value", value))
    served = [_served(query, x, arg) if enable_gqa else 1 for arg, x in pair]
    is_fused = _is_fused(query, key, value, served, dropout_p)
    is_learned = attn_mask is not None and attn_mask.requires_grad
    if is_fused and _is_by_tiles(query, key, value, attn_mask):
        made = calls._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, is_causal, attn_mask, scale
        )[0]
        return calls.contiguous(made) if is_learned else made
    key, value = _repeated(key, served[0]), _repeated(value, served[1])
    made = _attend(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if is_fused and not is_learned:
        return _laid_out(made, query)
    return cast(made, query._geometry.dtype)


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float,
    is_causal: bool, scale: float | None,
) -> Tensor:  # fmt: skip
    """Compute attention with all scores at once, in the dtype of the computation."""
    scaled = calls.mul_Tensor(wide(query), _scale(query, scale))
    scores = calls.matmul(scaled, calls.transpose_int(wide(key), -2, -1))
    scores = _added(scores, mask, is_causal)
    # Without a mask every query attends to a key, so plain softmax has no row of -inf.
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


# Bytes of scores in a tile: on the CPU the size of two cores' second-level caches, on a GPU half of
# its cache. With caches of 1 MiB, twice the size took 1.4 times as long for 4 samples of 8 heads of
# 256 x 64.
_TILE = {"cpu": 1 << 21, "cuda": 1 << 25}
# Up to this number of scores, one pass over all of them is faster than operators for tiles.
_FEW = 1 << 15
# Below this number of rows, a product takes more time per row.
_LEAST_ROWS = 64


class _Tile(NamedTuple):
    """The part of the scores that is computed at once. heads, queries, keys: (first, last + 1);
    heads are counted over all samples. mask: added to the scores, or bools that select keys."""

    heads: tuple[int, int]
    queries: tuple[int, int]
    keys: tuple[int, int]
    mask: Tensor | None

    def of_queries(self, x: Tensor) -> Tensor:
        return _cut(x, self.heads, self.queries)

    def of_keys(self, x: Tensor) -> Tensor:
        return _cut(x, self.heads, self.keys)


def _cut(x: Tensor, heads: tuple[int, int], rows: tuple[int, int]) -> Tensor:
    return calls.slice_Tensor(calls.slice_Tensor(x, 0, *heads, 1), 1, *rows, 1)


def _tiles(
    query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, of: dtype
) -> Iterator[_Tile]:
    """Tiles of a query and a key (samples, heads, length, width), with scores of dtype `of`."""
    (samples, heads, length, _), seen = query._geometry.sizes, key._geometry.sizes[2]
    if not samples * heads * length * seen:
        return
    groups: list[tuple[int, int, Tensor | None]] = [(0, samples * heads, None)]
    if mask is not None:
        mask = calls.expand(_cast(mask, of), (samples, heads, length, seen), False)
        by_sample, by_head = mask._geometry.strides[:2]
        if samples == 1 or by_sample == heads * by_head:
            groups = [(0, samples * heads, calls.flatten_using_ints(mask, 0, 1))]
        # heads of one sample only, because tiles over several samples would need a copy of the mask
        else:
            groups = [(n * heads, heads, calls.select_int(mask, 0, n)) for n in range(samples)]
    fit = _TILE.get(query._device.type, _TILE["cuda"]) // (of.itemsize * seen)
    rows = max(1, min(length, fit))
    if is_causal:  # few rows, because keys after a tile's last row are left out
        rows = min(rows, max(_LEAST_ROWS, -(-length // 4)))
    for first, count, of_group in groups:
        step = -(-count // -(-count // max(1, fit // rows)))  # tiles of about equal sizes
        for head, row in product(range(0, count, step), range(0, length, rows)):
            h, r = (head, min(count, head + step)), (row, min(length, row + rows))
            k = (0, min(seen, r[1]) if is_causal else seen)
            part = None if of_group is None else _cut(of_group, h, r)
            part = None if part is None else calls.slice_Tensor(part, 2, *k, 1)
            yield _Tile((first + h[0], first + h[1]), r, k, part)


def _cast(mask: Tensor, of: dtype) -> Tensor:
    return mask if mask._geometry.dtype is bool_ else cast(mask, of)


def _scores(tile: _Tile, query: Tensor, key: Tensor) -> Tensor:
    """Return a tile's scores, with -inf where a query must not attend to a key."""
    scores = calls.bmm(tile.of_queries(query), calls.transpose_int(tile.of_keys(key), 1, 2))
    if tile.mask is not None:
        if tile.mask._geometry.dtype is bool_:
            scores = calls.where_self(tile.mask, scores, -math.inf)
        else:
            scores = calls.add__Tensor(scores, tile.mask, 1)
    return scores


def _hide_later(scores: Tensor, tile: _Tile) -> None:
    """Mask the keys after each query; keys before the tile's first query need no mask."""
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
    """Check the operands. Return the query heads per head of key, and of value."""
    _check(query, key, value, mask, 0.0)
    for arg, x in (("query", query), ("key", key), ("value", value)):
        if x._geometry.ndim != 4:
            raise errors.wrong_shape(op, arg, "have four dimensions", x)
        if x._geometry.sizes[0] != query._geometry.sizes[0]:
            raise errors.wrong_shape(op, arg, "have as many samples as query", x)
    if dropout_p:
        raise errors.must(op, "dropout_p", "be 0", dropout_p)
    _check_mask(mask, (*query._geometry.sizes[:3], key._geometry.sizes[2]))
    return _served(query, key, "key"), _served(query, value, "value")


def _is_looped(query: Tensor, key: Tensor, value: Tensor, served: tuple[int, int]) -> bool:
    """True if the CPU's compiled loops exist and take these operands."""
    numel = query._geometry.numel * key._geometry.numel * value._geometry.numel
    return query._device is CPU and served[0] == served[1] and numel > 0


def _array(x: Tensor) -> Any:
    return x._get_array()


def _mask_array(mask: Tensor | None, query: Tensor, key: Tensor) -> Any:
    """Return the mask in the form that the loops take: it has the sizes of the scores, and is bool
    or of a type that they read."""
    if mask is None:
        return None
    if query._geometry.dtype is float64:
        mask = _cast(mask, float64)
    sizes = (*query._geometry.sizes[:3], key._geometry.sizes[2])
    return _array(calls.expand(mask, sizes, False))


def _sum_dtype(query: Tensor) -> dtype:
    return float64 if query._geometry.dtype is float64 else float32


def _made_by_loop(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    samples, heads, length, _ = query._geometry.sizes
    out = empty_as(query, (samples, heads, length, value._geometry.sizes[3]))
    sums = calls.new_empty(query, (samples, length, heads), _sum_dtype(query))
    sums = calls.transpose_int(sums, 1, 2)
    operands = (*map(_array, (query, key, value)), _mask_array(mask, query, key))
    by = float(_scale(query, scale))
    if _forward_loop(*operands, _array(out), _array(sums), int(bool(is_causal)), by):
        return out, sums
    return None


def _gradients_by_loop(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    mask: Tensor | None, is_causal: bool, scale: float | None, of_scores: Tensor | None,
) -> tuple[Tensor, ...] | None:  # fmt: skip
    operands = (*map(_array, (grad, query, key, value)), _mask_array(mask, query, key))
    made = [empty_as(x, x._geometry.sizes) for x in (query, key, value)]
    to = (*map(_array, made), None if of_scores is None else _array(of_scores))
    by = float(_scale(query, scale))
    sums = _array(cast(logsumexp, _sum_dtype(query)))
    if _backward_loop(*operands, _array(out), sums, *to, int(bool(is_causal)), by):
        return tuple(made)
    return None


def _weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the softmax of the scores. Without a mask every query attends to a key, so plain
    softmax has no row of -inf."""
    return calls._softmax(scores, 2, False) if mask is None else calls._safe_softmax(scores, 2)


def _scaled_dot_product_flash_attention_for_cpu(
    key_set: int, query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0,
    is_causal: bool = False, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    op = "_scaled_dot_product_flash_attention_for_cpu"
    served = _fit(op, query, key, value, attn_mask, dropout_p)
    if _is_looped(query, key, value, served):
        both = _made_by_loop(query, key, value, attn_mask, is_causal, scale)
        if both is not None:
            return both
    operands, by = (query, key, value, attn_mask), _scale(query, scale)
    launches = attention_kernels.launches(*operands, is_causal, by)
    if launches is not None:
        return attention_kernels.forward(launches, *operands)
    key, value = _repeated(key, served[0]), _repeated(value, served[1])
    samples, heads, length, _ = query._geometry.sizes
    q, k, v = map(_matrices, (calls.mul_Tensor(wide(query), by), key, value))
    make = calls.new_empty if key._geometry.numel else calls.new_zeros
    made = make(q, (samples * heads, length, value._geometry.sizes[3]))
    sums = make(q, (samples * heads, length, 1))
    for tile in _tiles(query, key, attn_mask, is_causal, q._geometry.dtype):
        scores = _scores(tile, q, k)
        if is_causal:
            _hide_later(scores, tile)
        weights = _weights(scores, attn_mask)
        fill_part(tile.of_queries(made), calls.bmm(weights, tile.of_keys(v)))
        # The largest weight is 1 / (sum of exponentials). Using it is cheaper than logsumexp.
        most, share = calls.amax(scores, (2,), True), calls.amax(weights, (2,), True)
        found = calls.sub_Tensor(most, calls.log(share), 1)
        if attn_mask is not None:  # PyTorch returns 0 for a query without keys
            found = calls.where_self(calls.eq_Tensor(share, 0), 0.0, found)
        fill_part(tile.of_queries(sums), found)
    sums = calls.transpose_int(calls.view(sums, (samples, heads, length)), 1, 2)
    logsumexp = calls.transpose_int(calls.contiguous(sums), 1, 2)
    return _laid_out(calls.unflatten_int(made, 0, (samples, heads)), query), logsumexp


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
    given = (grad_out, query, key, value, out, logsumexp, attn_mask)
    return _gradients(op, *given, dropout_p, is_causal, scale, False)[:3]


def _attention_and_mask_backward(
    key_set: int, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor,
    logsumexp: Tensor, attn_mask: Tensor, is_causal: bool, scale: float | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    op, given = "_attention_and_mask_backward", (grad_out, query, key, value, out, logsumexp)
    arguments.check_is_floating(op, "attn_mask", attn_mask)
    *found, slopes = _gradients(op, *given, attn_mask, 0.0, is_causal, scale, True)
    of_mask = calls.sum_to_size(slopes, attn_mask._geometry.sizes)
    return *found, cast(of_mask, attn_mask._geometry.dtype)


def _gradients(
    op: str, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor,
    logsumexp: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool, scale: float | None,
    with_scores: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the gradients of query, key, value and, with `with_scores`, of all scores."""
    served = _fit(op, query, key, value, mask, dropout_p)
    _check_made(op, query, value, grad_out, out, logsumexp)
    of_scores = None
    if with_scores:
        sizes = (*query._geometry.sizes[:3], key._geometry.sizes[2])
        of_scores = calls.new_zeros(query, sizes, _sum_dtype(query))
    given = (query, key, value, out, logsumexp, mask, is_causal, scale, of_scores)
    found = None
    if _is_looped(query, key, value, served):
        found = _gradients_by_loop(grad_out, *given)
    elif of_scores is None:
        by = _scale(query, scale)
        launches = attention_kernels.launches(query, key, value, mask, is_causal, by)
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
    mask: Tensor | None, is_causal: bool, scale: float | None, of_scores: Tensor | None,
    served: tuple[int, int],
) -> tuple[Tensor, ...]:  # fmt: skip
    by, sizes = _scale(query, scale), query._geometry.sizes[:2]
    whole = _repeated(key, served[0]), _repeated(value, served[1])
    q, k, v = map(_matrices, (calls.mul_Tensor(wide(query), by), *whole))
    of_query, of_key, of_value = map(calls.zeros_like, (q, k, v))
    grad, of = _matrices(grad_out), q._geometry.dtype
    sums = calls.unsqueeze(calls.flatten_using_ints(cast(logsumexp, of), 0, 1), 2)
    deltas = calls.sum_dim_IntList(calls.mul_Tensor(grad, _matrices(out)), (2,), True)
    whole_scores = None if of_scores is None else calls.flatten_using_ints(of_scores, 0, 1)
    for tile in _tiles(query, whole[0], mask, is_causal, of):
        scores, given = _scores(tile, q, k), tile.of_queries(grad)
        if is_causal:
            _hide_later(scores, tile)
        weights = calls.exp(calls.sub_Tensor(scores, tile.of_queries(sums), 1))
        slopes = calls.bmm(given, calls.transpose_int(tile.of_keys(v), 1, 2))
        slopes = calls.mul_Tensor(weights, calls.sub_Tensor(slopes, tile.of_queries(deltas), 1))
        if whole_scores is not None:
            part = tile.of_queries(whole_scores)
            fill_part(calls.slice_Tensor(part, 2, *tile.keys, 1), slopes)
        fill_part(tile.of_queries(of_query), calls.bmm(slopes, tile.of_keys(k)))
        _add_product(tile.of_keys(of_value), weights, given)
        _add_product(tile.of_keys(of_key), slopes, tile.of_queries(q))
    of_query = calls.mul__Tensor(of_query, by)
    found = [calls.unflatten_int(x, 0, sizes) for x in (of_query, of_key, of_value)]
    found[1:] = [_of_own_heads(x, sizes[1], own) for x, own in zip(found[1:], (key, value))]
    return tuple(_laid_out(x, like) for x, like in zip(found, (query, key, value)))
