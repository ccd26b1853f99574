"""Division of an iteration among the CPU's threads, with the pool of runtime/cpu.py.

Ranges are cut between outer dimensions, so that no thread begins within a small inner dimension. No
part has fewer than `GRAIN` elements.
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
# Below this number of elements, a second thread saves less time in a single ufunc than its wake-up
# costs.
POINTWISE_FROM = 1 << 20
# The number of elements that a thread takes at a time. BLOCK is for a single ufunc. COMPOSED_BLOCK
# is for a loop of several ufuncs, whose intermediate results must fit into the cache. Such a loop
# uses several threads if it has at least four blocks.
BLOCK = 1 << 17
COMPOSED_BLOCK = 1 << 16
# There are more blocks than threads, so that all threads finish at nearly the same time.
_BLOCKS_PER_THREAD = 8


def for_each(shape: Sizes, work: Callable[[int, int], object], grain: int = GRAIN) -> None:
    """Call `work(begin, end)` for linear ranges that together cover all elements of `shape`,
    innermost dimension first."""
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
    """Return the largest block of whole inner dimensions that still gives at least `n_blocks`
    blocks.

    Ranges that begin at multiples of this block size contain no partial rows, which would need
    additional steps in each dimension.
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
    """Call `loop(*arrays, *params, out)`, without warnings, for blocks along a dimension of `out`.

    arrays: ndarrays that broadcast to `out`, or numbers. Each idle thread takes the next block, so
    that a thread on a busy core does not delay the others.
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
    """Return the dimension with the largest stride among dimensions with at least `n_parts`
    elements. If there is none, return the longest dimension."""
    wide = [d for d, size in enumerate(array.shape) if size >= n_parts]
    if wide:
        return max(wide, key=lambda d: array.strides[d])
    return max(range(array.ndim), key=lambda d: array.shape[d])


def part(x: Any, axis: int, first: int, last: int) -> Any:
    """Return `x[first:last]` along an axis counted from the end. Return x itself if it is a number
    or is broadcast along that axis."""
    if type(x) is not np.ndarray or x.ndim < -axis or x.shape[axis] == 1:
        return x
    where: tuple[Any, ...] = (..., slice(first, last), *[slice(None)] * (-axis - 1))
    return x[where]
