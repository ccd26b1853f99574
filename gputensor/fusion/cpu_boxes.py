"""Blocks of a chain on the CPU whose operands run along several dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
Sizes = tuple[int, ...]

# Elements of a run in a block, along each of the dimensions.
_RUN = 1 << 7
# What a row of the scratch is longer where elements are read across rows of so many bytes: rows of
# a power of two would share few sets of the L1 cache.
_PAD, _PADDED_FROM = 64, 512


def box(sizes: Sizes, order: Sizes, turned: Sizes, block: int) -> Sizes:
    """The sizes of a block that holds a run of each operand. order: the walk's dimensions, slowest
    first; turned: those along which other operands run; block: how many elements it may have."""
    first = (order[-1], *turned)
    found, left = [1] * len(sizes), block
    for d in first:
        found[d] = min(sizes[d], _RUN, max(left, 1))
        left //= found[d]
    for d in dict.fromkeys((*first, *order[::-1])):
        grown = min(sizes[d], found[d] * max(left, 1))
        left = left * found[d] // grown
        found[d] = grown
    return tuple(found)


def part(x: Array, where: list[slice]) -> Array:
    """The part of an operand, which broadcasts to the walk, that belongs to a block."""
    if x.size == 1:
        return x
    own = where[len(where) - x.ndim :]
    return x[(*[slice(None) if n == 1 else of for n, of in zip(x.shape, own)], ...)]


def scratch_bytes(numel: int, widest: int) -> int:
    """Of what `move` needs for so many elements."""
    return (numel * widest // _PADDED_FROM + 1) * (_PADDED_FROM + _PAD)


def move(out: Array, x: Array, scratch: Array) -> None:
    """Copy elements to another layout: through rows with gaps if need be, since to read across
    dense ones takes three times as long."""
    if x.shape != out.shape:
        x = np.broadcast_to(x, out.shape)
    # dims of one element lie nowhere
    order = sorted([d for d in range(x.ndim) if x.shape[d] > 1], key=lambda d: x.strides[d])
    along = min(order, key=lambda d: out.strides[d], default=-1)
    strides, stride, has_gaps = [0] * x.ndim, x.itemsize, False
    for d in order:
        if d == along and stride >= _PADDED_FROM and d != order[0]:
            stride, has_gaps = stride + _PAD, True
        strides[d] = stride
        stride *= x.shape[d]
    if has_gaps:
        rows = np.ndarray(x.shape, x.dtype, scratch, 0, strides)
        np.copyto(rows, x)
        x = rows
    np.copyto(out, x)
