"""Gathers of indexed elements by the compiled loops: see kernels/cpu/gather.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runtime import cpu
from ..cpu import gather as numpys
from .library import function

MOST_INDICES = 6  # The loops accept at most this many index arrays.


def gather(
    out: np.ndarray, x: np.ndarray, indices: Sequence[np.ndarray], led: Sequence[int],
    begin: int | None, wraps: bool,
) -> int:  # fmt: skip
    loop = function("gather", _LOOPS[x.itemsize])
    if loop is None or len(indices) > MOST_INDICES:
        return numpys.gather(out, x, indices, led, begin, wraps)
    place: int = loop(x, out, *indices, -1 if begin is None else begin, wraps, *led)
    return place


_LOOPS = {n: f"gather {n}" for n in (1, 2, 4, 8, 16)}


def taken(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """Return the elements of x at `index` along `axis`, as np.take_along_axis does. All indices
    must be in range. `index` has the sizes of x except along the axis."""
    if index.dtype != np.int64:
        return numpys.taken(x, index, axis)
    found = cpu.empty(index.shape, x.dtype)
    bad = gather(found, x, (index,), (axis,), None, True)
    assert not bad, (x.shape, axis)
    return found
