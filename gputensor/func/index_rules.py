"""Batch rules of indexing: the batch's own index stands in front of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._generated import functions
from ..core import errors
from .levels import aligned, batched, held, physical
from .operators import Entry, call


def index(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """`x[indices]` and `index_put`. A mask with a batch picks as many elements as it happens to."""
    x, indices, *rest = args
    masks = [i for i in indices if i is not None and i.dtype.category == 0]
    if masks:
        if not rest and any(level.owns(i) for i in masks):
            raise errors.vmap_data_dependent(entry.operator.short_name)
        return NotImplemented
    if rest or entry.kind == "inplace":
        return _put(level, entry, x, indices, rest)
    rank = max(i._geometry.ndim for i in indices if i is not None)
    first = _first_of_neighbours(indices)
    if not any(level.owns(i) for i in indices):
        made = call(entry.operator, x.value, (None, *indices))
        # The dimensions of indices that stand apart come first, before the batch.
        return batched(level, made.movedim(rank, 0) if first is None else made)
    of_batch = [None if i is None else _aligned(level, i, rank) for i in indices]
    made = call(entry.operator, physical(level, x), (_own(level, x, rank), *of_batch))
    if first and rank:  # the indexed dimensions, which follow the batch, go to their place
        made = made.movedim(tuple(range(1, rank + 1)), tuple(range(first + 1, first + 1 + rank)))
    return batched(level, made)


def _aligned(level: Any, i: Any, rank: int) -> Any:
    """An index as the batch of itself, its entries made up to `rank` dimensions."""
    return aligned(physical(level, i), i._geometry.ndim, rank)


def _own(level: Any, like: Any, rank: int, dtype: Any = None) -> Any:
    """The batch's own index: each entry's number, with `rank` dimensions of 1 behind it."""
    numbers = functions.arange(level.size, device=like.device, dtype=dtype)
    return numbers.reshape(level.size, *(1,) * rank)


def _first_of_neighbours(indices: Sequence[Any]) -> int | None:
    """The first dimension that is indexed; None unless those that are stand side by side."""
    at = [n for n, i in enumerate(indices) if i is not None]
    return at[0] if at[-1] - at[0] + 1 == len(at) else None


def _put(level: Any, entry: Entry, x: Any, indices: Sequence[Any], rest: list[Any]) -> Any:
    """Values put where the indices are neighbours and in front."""
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


def embedding(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """Rows of one table, or each entry's own rows of the tables behind one another."""
    weight, indices, padding, *rest = args
    if not level.owns(weight):
        return batched(level, call(entry.operator, weight, indices.value, padding, *rest))
    count = weight._geometry.sizes[0]
    rows = physical(level, indices) + _offsets(level, indices, count)
    return batched(level, call(entry.operator, weight.value.flatten(0, 1), rows, -1, *rest))


def embedding_backward(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The gradients of all tables behind one another."""
    grad, indices, count, padding, scale = args
    if padding >= 0:
        return NotImplemented
    rows = physical(level, indices) + _offsets(level, indices, count)
    made = call(entry.operator, physical(level, grad), rows, count * level.size, -1, scale)
    return batched(level, made.reshape(level.size, count, -1))


def _offsets(level: Any, indices: Any, count: int) -> Any:
    """How far each entry's rows stand from the first entry's."""
    return _own(level, indices, indices._geometry.ndim, indices.dtype) * count
