"""out[i] = x[key][i]: elements that indices name, each read once.                    family: gather

Shapes   key is an index tuple of NumPy, of slices and int64 arrays that are known to be in range
         and not negative. along: the index stands for one dimension of x, and its own places for
         the others.
Types    elements are moved as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...runtime import cpu

Key = tuple[Any, ...]

# Places that a thread reads at a time; fewer than a tenth of them NumPy finds by itself.
_BLOCK = 1 << 16


def gather(x: np.ndarray, key: Key, out: np.ndarray) -> None:
    at = [d for d, k in enumerate(key) if type(k) is not slice]
    # take() moves whole rows; it needs a dense operand of its own
    if len(at) == 1 and x.flags.c_contiguous and out.flags.c_contiguous and x.size:
        np.take(x, key[at[0]], at[0], out, "wrap")
        return
    flat = flat_places(x, key, out.size) if out.flags.c_contiguous else None
    if flat is None:
        out[...] = x[key]
        return
    elements, places, to = x.reshape(-1), flat.reshape(-1), out.reshape(-1)

    def work(number: int) -> None:
        part = slice(number * _BLOCK, (number + 1) * _BLOCK)
        elements.take(places[part], None, to[part], "wrap")

    cpu.share(-(-out.size // _BLOCK), cpu.get_num_threads(), lambda: work)


def gather_along(x: np.ndarray, dim: int, index: np.ndarray, out: np.ndarray) -> None:
    """out[i, j] = x[index[i, j], j], for dim 0."""
    if not x.flags.c_contiguous or not out.flags.c_contiguous:
        out[...] = x[grid(index, dim)]
        return
    elements, places = x.reshape(-1), flat_along(x, dim, index)
    in_parts(
        index.shape, range(index.ndim), lambda at: elements.take(places(at), None, out[at], "wrap")
    )


def taken(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """np.take_along_axis, of an index that has the sizes of x but along the axis; of rows that lie
    one behind the other in a tenth of its calls."""
    found: np.ndarray
    n = x.shape[axis]
    if axis != x.ndim - 1 or not n or not x.flags.c_contiguous:
        found = np.take_along_axis(x, index, axis)
        return found
    begins: np.ndarray = np.arange(0, x.size, n)
    if x.ndim != 2:
        begins = begins.reshape(x.shape[:-1])
    found = x.reshape(-1).take(index + begins[..., None])
    return found


def grid(index: np.ndarray, dim: int) -> Key:
    """The index tuple of NumPy whose `dim` is the index, and which is its own place elsewhere."""
    found = list(np.ogrid[tuple([slice(n) for n in index.shape])])
    found[dim] = index
    return tuple(found)


def flat_along(x: np.ndarray, dim: int, index: np.ndarray) -> Callable[[Any], np.ndarray]:
    """Part of the index -> what it names as places in `x.reshape(-1)`, for a row-major x."""
    steps = [s // x.itemsize for s in x.strides]
    step, base = steps[dim], None
    for d, n in enumerate(index.shape):
        if d != dim and n > 1:
            own = (np.arange(n) * steps[d]).reshape((n, *(1,) * (index.ndim - 1 - d)))
            base = own if base is None else base + own

    def places(at: tuple[slice, ...]) -> np.ndarray:
        found = index[at]
        if step != 1:
            found = found * step
        if base is None:
            return found
        kept = zip(at[index.ndim - base.ndim :], base.shape)
        return found + base[tuple([s if n > 1 else slice(None) for s, n in kept])]

    return places


def in_parts(shape: tuple[int, ...], dims: Sequence[int], work: Callable[[Any], object]) -> None:
    """Call `work` with index tuples of parts that cover a shape, each whole but in one of `dims`,
    on all threads; of a small shape, or one of 1 in these, with all of it."""
    size = math.prod(shape)
    split = next((d for d in dims if shape[d] > 1), None)
    if size <= _BLOCK or split is None:
        work((slice(None),) * len(shape))
        return
    step = max(1, _BLOCK * shape[split] // size)
    before, after = (slice(None),) * split, (slice(None),) * (len(shape) - 1 - split)

    def part(number: int) -> None:
        work((*before, slice(number * step, (number + 1) * step), *after))

    cpu.share(-(-shape[split] // step), cpu.get_num_threads(), lambda: part)


def flat_places(x: np.ndarray, key: Key, count: int) -> np.ndarray | None:
    """What `x[key]` names as indices of `x.reshape(-1)`: NumPy walks several arrays and slices at
    5 ns an element. None where x is not dense or the elements, of which there are `count`, are few.
    """
    if 10 * count < _BLOCK or not x.flags.c_contiguous or not x.size:
        return None
    arrays = [k for k in key if type(k) is not slice]
    first = next(d for d, k in enumerate(key) if type(k) is not slice)
    behind = len(key) - first - len(arrays)
    width = np.broadcast(*arrays).ndim + behind
    small, large = np.zeros((), np.int64), []
    for d, k in enumerate(key):
        step, size = x.strides[d] // x.itemsize, x.shape[d]
        if type(k) is slice:
            ones = len(key) - 1 - d if d > first else width + first - 1 - d
            small = small + (np.arange(size) * step).reshape((size, *(1,) * ones))
            continue
        large.append((k * step if step != 1 else k).reshape(k.shape + (1,) * behind))
    for k in sorted(large, key=np.size):
        small = small + k
    return small if small.size == count else None
