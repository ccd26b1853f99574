"""Change the dimension along which an array is divided among ranks.

This is a layout copy across ranks: layout kernels pack and unpack, and one all-to-all transfers the
data.
"""

from __future__ import annotations

import math
from typing import Any

from .groups import group_of
from .shapes import operator
from .work import taken, wait_for
from .._generated import calls
from ..core import errors
from ..exchange.construct import tensor
from ..tensor.tensor import Tensor


def shard_sizes(size: int, parts: int) -> list[int]:
    """Return the sizes of parts as in `tensor_split`: the first parts may have one more element."""
    return [size // parts + (n < size % parts) for n in range(parts)]


def redistribute(x: Tensor, from_dim: int, to_dim: int, group: Any = None) -> Tensor:
    """Change the division of an array among ranks from one dimension to another.

    All ranks must call it. `redistribute(x, 0, 1)` changes a division by rows to a division by
    columns. Its `.t()` is this rank's part of the transpose. It is differentiable.

    Args:
        x: (*), this rank's part: any size along from_dim, the array's size along all other
        dimensions.
    Returns: (*), this rank's part: the array's size along from_dim, and along to_dim a part as in
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
    wanted = [math.prod(shape) for shape in shapes]
    moved = operator("all_to_all_single")(flat, wanted, given, where.name)
    wait_for(moved)
    parts = calls.split_with_sizes(moved, wanted)
    return calls.cat([part.view(shape) for part, shape in zip(parts, shapes)], source)
