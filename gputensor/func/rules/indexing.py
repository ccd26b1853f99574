"""Batch rules of indexing: an index for the batch dimension is put before the other indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._generated import calls, functions
from ...core import errors
from ...structured.indexed import is_mask
from ...tensor.tensor import Tensor
from ..levels import aligned, batched, held, physical
from ..operators import Entry, call
from .batches import dims, pointwise, shifted


def index(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of `x[indices]` and `index_put`. If a mask has a batch, `x[mask]` is rejected,
    because its sizes depend on values, and `index_put` runs entry by entry."""
    x, indices, *rest = args
    masks = [i for i in indices if i is not None and is_mask(i)]
    if any(level.owns(i) for i in masks):
        if not rest:
            raise errors.vmap_data_dependent(entry.operator.short_name)
        return NotImplemented
    if masks:
        indices = [j for i in indices for j in _numbers(i)]
    if rest or entry.kind == "inplace":
        return _put(level, entry, x, indices, rest)
    rank = max(i._geometry.ndim for i in indices if i is not None)
    first = _first_of_neighbours(indices)
    if not any(level.owns(i) for i in indices):
        made = call(entry.operator, x.value, (None, *indices))
        # Index dimensions that are not adjacent come first in the result, before the batch.
        return batched(level, made.movedim(rank, 0) if first is None else made)
    of_batch = [None if i is None else _aligned(level, i, rank) for i in indices]
    made = call(entry.operator, physical(level, x), (_own(level, x, rank), *of_batch))
    if first and rank:  # the indexed dimensions now follow the batch: move them to their position
        made = made.movedim(tuple(range(1, rank + 1)), tuple(range(first + 1, first + 1 + rank)))
    return batched(level, made)


def _numbers(index: Any) -> Sequence[Any]:
    """Return an index as a list. A mask becomes one index for each of its dimensions."""
    if index is None or not is_mask(index):
        return (index,)
    found: tuple[Any, ...] = index.nonzero().unbind(1)
    return found


def _aligned(level: Any, i: Any, rank: int) -> Any:
    """Return an index with its batch. The entries of the batch are extended to `rank`
    dimensions."""
    return aligned(physical(level, i), i._geometry.ndim, rank)


def _own(level: Any, like: Any, rank: int, dtype: Any = None) -> Any:
    """Return the index of the batch dimension: the integers from 0 to the batch size - 1, followed
    by `rank` dimensions of size 1."""
    numbers = functions.arange(level.size, device=like.device, dtype=dtype)
    return numbers.reshape(level.size, *(1,) * rank)


def _first_of_neighbours(indices: Sequence[Any]) -> int | None:
    """Return the first indexed dimension; None if the indexed dimensions are not adjacent."""
    at = [n for n, i in enumerate(indices) if i is not None]
    return at[0] if at[-1] - at[0] + 1 == len(at) else None


def _put(level: Any, entry: Entry, x: Any, indices: Sequence[Any], rest: list[Any]) -> Any:
    """Compute index_put if the indexed dimensions are adjacent and come first. Otherwise return
    NotImplemented."""
    at = [n for n, i in enumerate(indices) if i is not None]
    if at != list(range(len(at))) or not rest:
        return NotImplemented
    if entry.kind == "inplace" and not level.owns(x):
        return NotImplemented
    values, *others = rest
    rank = max(indices[n]._geometry.ndim for n in at)
    of_batch = [_aligned(level, indices[n], rank) for n in at]
    behind = x._geometry.ndim - len(at) + rank
    value = held(level, values)
    if level.owns(values):
        value = aligned(value, values._geometry.ndim, behind)
    target = x.value if entry.kind == "inplace" else physical(level, x)
    made = call(entry.operator, target, (_own(level, x, rank), *of_batch), value, *others)
    return x if entry.kind == "inplace" else batched(level, made)


def masked_select(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of masked_select. The mask must not have a batch, so that all entries have
    equally many selected elements."""
    x, mask = args
    if level.owns(mask):
        raise errors.vmap_data_dependent(entry.operator.short_name)
    x, mask = calls.broadcast_tensors((x, mask))
    places = mask.reshape(-1).nonzero().reshape(-1)
    return functions.index_select(x.reshape(-1), 0, places)


def masked_fill(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of masked_fill: if the number has a batch, each entry is filled with its own
    number."""
    x, mask, value = args
    if not level.owns(value):
        return pointwise(level, entry, args, "")
    if entry.kind == "inplace":
        return NotImplemented
    return functions.where(mask, value.to(x.dtype), x)


def fill(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of fill: if the number has a batch, each entry is filled with its own
    number."""
    x, value = args
    if not level.owns(value):
        return pointwise(level, entry, args, "")
    if entry.kind == "inplace":
        return NotImplemented
    return value.to(x.dtype).expand(x.shape).clone()


def along(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of `index_select`, `index_add` and similar operators. If the index or the
    value has a batch, the operator runs as `gather` or `scatter`, which have an index for each
    element."""
    n = entry.names["index"]
    index, x, dim = args[n], args[0], args[1]
    value = args[entry.names["value"]] if "value" in entry.names else None
    if not level.owns(index) and not level.owns(value):
        return dims(level, entry, args, "free")
    if entry.kind == "inplace":
        return NotImplemented
    source: Any = args[entry.names["source"]] if "source" in entry.names else None
    if not x._geometry.ndim or (source is not None and not source._geometry.ndim):
        given = list(args)  # a 0-d tensor is treated as 1-d with one element
        given[0] = x.reshape(-1) if not x._geometry.ndim else x
        if source is not None:
            given[entry.names["source"]] = source.reshape(-1)
        return call(entry.operator, *given).reshape(x.shape if source is not None else ())
    sizes = list((x if source is None else source)._geometry.sizes)
    d = shifted(entry, dim, len(sizes)) - 1
    sizes[d] = index._geometry.numel
    shape = [1] * len(sizes)
    shape[d] = -1
    each = index.reshape(shape).expand(sizes)
    match entry.operator.short_name.removesuffix("_copy"):
        case "index_select":
            return functions.gather(x, d, each)
        case "index_add":
            alpha = args[entry.names["alpha"]]
            return functions.scatter_add(x, d, each, source if alpha == 1 else source * alpha)
        case "index_copy" | "index":
            return functions.scatter(x, d, each, source)
        case "index_reduce":
            options = {"reduce": args[entry.names["reduce"]]}
            options["include_self"] = args[entry.names["include_self"]]
            return functions.scatter_reduce(x, d, each, src=source, **options)
    if isinstance(value, Tensor):
        value = value.to(x.dtype).expand(sizes)
    filled: Any = value
    return functions.scatter(x, d, each, filled)


def searchsorted(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of searchsorted: all entries use one sorted sequence, or each entry uses its
    own rows."""
    rows, x, *rest = args
    if not isinstance(x, Tensor):
        return NotImplemented
    if rows._geometry.ndim == 1 and not level.owns(rows) and not level.owns(rest[-1]):
        return batched(level, call(entry.operator, rows, held(level, x), *rest))
    rest[-1] = None if rest[-1] is None else physical(level, rest[-1])
    value = physical(level, x)
    if rows._geometry.ndim == 1:
        value = value.reshape(level.size, -1)
    made = call(entry.operator, physical(level, rows), value, *rest)
    return batched(level, made.reshape(level.size, *x._geometry.sizes))


def bucketize(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of bucketize: `searchsorted` in each entry's own boundaries."""
    x, boundaries, out_int32, right = args
    if not isinstance(x, Tensor):
        return NotImplemented
    if not level.owns(boundaries):
        return batched(level, call(entry.operator, held(level, x), *args[1:]))
    return functions.searchsorted(boundaries, x, out_int32=out_int32, right=right)


def isin(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of isin. If the test elements have a batch, each entry is compared with its
    own test elements."""
    elements, wanted, unique, invert = args
    if not level.owns(wanted):
        return batched(level, call(entry.operator, elements.value, wanted, unique, invert))
    wanted = wanted.reshape(-1)
    if isinstance(elements, Tensor):
        elements = elements.unsqueeze(-1)
    found = (wanted == elements).any(-1)
    return ~found if invert else found


def unfold_backward(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of unfold_backward. The arguments `sizes` and `dim` refer to the input of
    unfold."""
    grad, sizes, dim, *rest = args
    if not sizes:
        return grad.sum()
    d = shifted(entry, dim, len(sizes))
    return batched(level, call(entry.operator, grad.value, (level.size, *sizes), d, *rest))


def embedding(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of embedding. If the tables have a batch, they are concatenated, and an offset
    is added to the indices."""
    weight, indices, padding, *rest = args
    if not level.owns(weight):
        return batched(level, call(entry.operator, weight, indices.value, padding, *rest))
    count = weight._geometry.sizes[0]
    rows = physical(level, indices) + _offsets(level, indices, count)
    return batched(level, call(entry.operator, weight.value.flatten(0, 1), rows, -1, *rest))


def embedding_backward(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of embedding's gradient: the gradients of all tables are computed as one
    concatenated table."""
    grad, indices, count, padding, scale = args
    if padding >= 0:
        grad = functions.where((indices == padding).unsqueeze(-1), 0, grad)
    rows = physical(level, indices) + _offsets(level, indices, count)
    made = call(entry.operator, physical(level, grad), rows, count * level.size, -1, scale)
    return batched(level, made.reshape(level.size, count, -1))


def _offsets(level: Any, indices: Any, count: int) -> Any:
    """Return the offset of each entry's rows in the concatenated tables."""
    return _own(level, indices, indices._geometry.ndim, indices.dtype) * count
