"""out[i] = x[key][i]: elements that indices name, each read once.                    family: gather

Shapes   key is an index tuple of NumPy, of slices and int64 arrays that are known to be in range
         and not negative.
Types    elements are moved as they are.
"""

from __future__ import annotations

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
