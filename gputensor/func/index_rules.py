"""Batch rules of indexing: the batch's own index stands in front of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._generated import functions
from ..core import errors
from .levels import batched, level_number, physical
from .operators import Entry, call


def index(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """`x[indices]` and `index_put`. A mask with a batch picks as many elements as it happens to."""
    x, indices, *rest = args
    given = [None if i is None else _held(level, i) for i in indices]
    masks = [i for i in indices if i is not None and i.dtype.category == 0]
    if masks:
        if not rest and any(level_number(i) == level.number for i in masks):
            raise errors.vmap_data_dependent(entry.operator.short_name)
        return NotImplemented
    if rest or entry.kind == "inplace":
        return _put(level, entry, x, indices, rest)
    if not any(level_number(i) == level.number for i in indices):
        return _of_batch(level, entry, x, given)
    rank = max(i._geometry.ndim for i in indices if i is not None)
    own = functions.arange(level.size, device=x.device).reshape(level.size, *(1,) * rank)
    aligned = [None if i is None else _aligned(level, i, rank) for i in indices]
    made = call(entry.operator, physical(level, x), (own, *aligned))
    where = _place(indices)
    return batched(level, _moved(made, rank, where))


def _held(level: Any, x: Any) -> Any:
    return x.value if level_number(x) == level.number else x


def _aligned(level: Any, i: Any, rank: int) -> Any:
    """An index as the batch of itself, its entries made up to `rank` dimensions."""
    value = physical(level, i)
    for _ in range(rank - i._geometry.ndim):
        value = value.unsqueeze(1)
    return value


def _place(indices: Sequence[Any]) -> int:
    """Where an entry's indexed dimensions stand in its result: where the indices are if they are
    neighbours, else in front."""
    at = [n for n, i in enumerate(indices) if i is not None]
    return at[0] if at[-1] - at[0] + 1 == len(at) else 0


def _moved(made: Any, rank: int, where: int) -> Any:
    """The result with its indexed dimensions, which follow the batch, moved to their place."""
    if not where or not rank:
        return made
    return made.movedim(tuple(range(1, rank + 1)), tuple(range(where + 1, where + 1 + rank)))


def _of_batch(level: Any, entry: Entry, x: Any, indices: list[Any]) -> Any:
    """The same indices in every entry."""
    rank = max(i._geometry.ndim for i in indices if i is not None)
    where = _place(indices)
    made = call(entry.operator, x.value, (None, *indices))
    if where == 0 and indices[0] is None or _apart(indices):
        return batched(level, made.movedim(rank, 0))  # what is indexed apart stands in front
    return batched(level, made)


def _apart(indices: Sequence[Any]) -> bool:
    at = [n for n, i in enumerate(indices) if i is not None]
    return at[-1] - at[0] + 1 != len(at)


def _put(level: Any, entry: Entry, x: Any, indices: Sequence[Any], rest: list[Any]) -> Any:
    """Values put where the indices are neighbours and in front."""
    at = [n for n, i in enumerate(indices) if i is not None]
    if at != list(range(len(at))) or not rest:
        return NotImplemented
    if entry.kind == "inplace" and level_number(x) != level.number:
        return NotImplemented
    values, *others = rest
    rank = max(indices[n]._geometry.ndim for n in at)
    own = functions.arange(level.size, device=x.device).reshape(level.size, *(1,) * rank)
    aligned = [_aligned(level, indices[n], rank) for n in at]
    behind = x._geometry.ndim - len(at) + rank
    value = _held(level, values)
    if level_number(values) == level.number:
        for _ in range(behind - values._geometry.ndim):
            value = value.unsqueeze(1)
    target = x.value if entry.kind == "inplace" else physical(level, x)
    made = call(entry.operator, target, (own, *aligned), value, *others)
    return x if entry.kind == "inplace" else batched(level, made)


def embedding(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """Rows of one table, or each entry's own rows of the tables behind one another."""
    weight, indices, padding, *rest = args
    if level_number(weight) != level.number:
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
    starts = functions.arange(level.size, device=indices.device, dtype=indices.dtype) * count
    return starts.reshape(level.size, *(1,) * indices._geometry.ndim)
