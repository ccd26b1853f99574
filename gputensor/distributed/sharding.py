"""Arrays of which each rank has a part: a change of the dimension that is divided.

It is a layout copy across ranks: packed by the layout kernels, moved by one all-to-all, unpacked by
the layout kernels.
"""

from __future__ import annotations

from typing import Any

from .groups import group_of
from .shapes import operator
from .work import taken, wait_for
from .._generated import calls
from ..core import errors
from ..exchange.construct import tensor
from ..tensor.tensor import Tensor


def shard_sizes(size: int, parts: int) -> list[int]:
    """How a dimension is divided: evenly, and the first parts have one more; `tensor_split`'s."""
    return [size // parts + (n < size % parts) for n in range(parts)]


def redistribute(x: Tensor, from_dim: int, to_dim: int, group: Any = None) -> Tensor:
    """This rank's part of an array that was divided along one dimension, divided along another.

    All ranks call it. `redistribute(x, 0, 1)` of rows gives columns; then `.t()` is this rank's
    part of the transpose. It can be differentiated: the gradient comes the same way back.

    Args:
        x: (*), this rank's part: any size along from_dim, the array's size along all others.
    Returns: (*), the array's size along from_dim, and along to_dim this rank's part of it, of
        `tensor_split`.
    """
    op = "redistribute"
    if not isinstance(x, Tensor):
        raise errors.not_a_tensor(op, "x", "a Tensor", x)
    where = group_of(op, group)
    source, to = x._dim(op, from_dim), x._dim(op, to_dim)
    if source == to:
        raise errors.wrong_value(op, "to_dim", "be another dimension than from_dim", to_dim)
    n, rank = where.size(), where.rank()
    here = tensor([x.shape[source]])
    sizes = operator("all_gather_into_tensor")(here, n, where.name)
    taken(sizes).wait()
    lengths, widths = sizes.tolist(), shard_sizes(x.shape[to], n)
    if len(set(lengths)) == len(set(widths)) == 1:
        packed = x.unflatten(to, (n, widths[0])).movedim(to, 0).contiguous()
        moved = operator("all_to_all_single")(packed, [], [], where.name)
        wait_for(moved)
        found: Tensor = moved.movedim(0, source).flatten(source, source + 1).contiguous()
        return found
    pieces = calls.split_with_sizes(x, widths, to)
    flat = calls.cat([piece.reshape(-1) for piece in pieces])
    given = [piece.numel() for piece in pieces]
    shapes = []
    for length in lengths:
        shape = [*x.shape]
        shape[source], shape[to] = length, widths[rank]
        shapes.append(shape)
    wanted = [_numel(shape) for shape in shapes]
    moved = operator("all_to_all_single")(flat, wanted, given, where.name)
    wait_for(moved)
    parts = calls.split_with_sizes(moved, wanted)
    made: Tensor = calls.cat([part.view(shape) for part, shape in zip(parts, shapes)], source)
    return made


def _numel(shape: list[int]) -> int:
    numel = 1
    for size in shape:
        numel *= size
    return numel
