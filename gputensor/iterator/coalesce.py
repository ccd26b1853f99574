"""Coalescing: merge neighbouring dimensions that every operand can cross with a single stride."""

from __future__ import annotations

Sizes = tuple[int, ...]


def coalesce(shape: Sizes, operands: list[Sizes], order: list[int]) -> tuple[Sizes, list[Sizes]]:
    """Return shape and strides of the same iteration with fewer dimensions, innermost first.

    Two neighbours merge if either has size 1 or if, for every operand, the inner size times its
    stride is the outer stride. Only neighbours in `order` are merged.
    """
    if not order:
        return (), operands
    dim = order[0]
    sizes = [shape[dim]]
    columns = [[strides[dim] for strides in operands]]
    for dim in order[1:]:
        size = shape[dim]
        inner_size, inner = sizes[-1], columns[-1]
        outer = [strides[dim] for strides in operands]
        if inner_size == 1:
            sizes[-1], columns[-1] = size, outer
        elif size == 1:
            continue
        elif [inner_size * s for s in inner] == outer:
            sizes[-1] = inner_size * size
        else:
            sizes.append(size)
            columns.append(outer)
    return tuple(sizes), list(zip(*columns))
