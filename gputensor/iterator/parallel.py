"""Splitting a walk over the CPU's threads; the pool is runtime/cpu.py's.

Ranges are cut between outer dimensions, so that no thread begins in the middle of a small inner
one. No part is smaller than `GRAIN` elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..kernels.cpu import quiet
from ..runtime import cpu
from ..core.geometry import Sizes

# PyTorch's at::internal::GRAIN_SIZE.
GRAIN = 32768
# Below this many elements, waking a second thread costs more than a bare ufunc gains.
POINTWISE_FROM = 1 << 20
# Elements that a thread takes at a time: for a single ufunc, which reads and writes once; and for a
# loop of several ufuncs with intermediate results in the cache, split from four blocks on.
BLOCK = 1 << 17
COMPOSED_BLOCK = 1 << 16
# Parts of one range differ in size by at most a share of 1 / this many per thread.
_BLOCKS_PER_THREAD = 8


def for_each(shape: Sizes, work: Callable[[int, int], object], grain: int = GRAIN) -> None:
    """Call `work(begin, end)` over linear ranges that cover a walk of `shape`, innermost first."""
    numel = 1
    for size in shape:
        numel *= size
    if numel <= grain or cpu.get_num_threads() == 1:
        if numel:
            work(0, numel)
        return
    block = block_size(shape, numel, cpu.get_num_threads() * _BLOCKS_PER_THREAD)
    cpu.parallel_for(
        0, numel // block, -(-grain // block), lambda first, last: work(first * block, last * block)
    )


def block_size(shape: Sizes, numel: int, n_blocks: int) -> int:
    """Elements in the largest run of whole inner dimensions of which there are `n_blocks` or more.

    Ranges that begin at its multiples have no partial rows, so a range of a tensor with many small
    dimensions does not begin with a step for each.
    """
    block = 1
    for size in shape:
        if numel // (block * size) < n_blocks:
            break
        block *= size
    return block


def pointwise(
    loop: Callable[..., Any], arrays: Sequence[Any], params: tuple[Any, ...],
    out: np.ndarray[Any, Any], block: int = BLOCK,
) -> None:  # fmt: skip
    """`loop(*arrays, *params, out)`, warnings off, in blocks along a slow dimension of `out`.

    arrays: ndarrays that broadcast to `out`, or numbers. Each free thread takes the next block, so
    a thread on a busy CPU does not delay the others.
    """
    if out.ndim == 0 or out.size == 0:
        quiet.run(loop, *arrays, *params, out)
        return
    dim = slowest_dim(out, -(-out.size // block))
    rows = out.shape[dim]
    step = max(1, block * rows // out.size)

    def work(number: int) -> None:
        first, last = number * step, (number + 1) * step
        parts = [part(x, dim - out.ndim, first, last) for x in arrays]
        quiet.run(loop, *parts, *params, part(out, dim - out.ndim, first, last))

    cpu.share(-(-rows // step), cpu.get_num_threads(), lambda: work)


def slowest_dim(array: np.ndarray[Any, Any], n_parts: int) -> int:
    """The dimension with the largest stride among those of at least `n_parts` elements; otherwise
    the longest."""
    wide = [d for d, size in enumerate(array.shape) if size >= n_parts]
    if wide:
        return max(wide, key=lambda d: array.strides[d])
    return max(range(array.ndim), key=lambda d: array.shape[d])


def part(x: Any, axis: int, first: int, last: int) -> Any:
    """`x[first:last]` along an axis counted from the end; all of it where it is broadcast there."""
    if type(x) is not np.ndarray or x.ndim < -axis or x.shape[axis] == 1:
        return x
    where: tuple[Any, ...] = (..., slice(first, last), *[slice(None)] * (-axis - 1))
    return x[where]
