"""out[i] = the element of x at the position that the index arrays give for i.        family: gather

Shapes   `indices` are int64 arrays that broadcast together. `led` contains the dimension of x that
         each of them indexes. In out, the dimensions of the indices replace the indexed
         dimensions, beginning at dimension `begin`. If begin is None, there is one index array,
         out has its sizes, and positions in all other dimensions are equal in x and out.
Types    elements are copied unchanged.
Numbers  if `wraps` is true, negative indices count from the end.
Returns  0, or 1 + the number of the first index array with an index out of range; then no element
         is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Indices = Sequence[np.ndarray]


def gather(
    out: np.ndarray, x: np.ndarray, indices: Indices, led: Sequence[int], begin: int | None,
    wraps: bool,
) -> int:  # fmt: skip
    bad = out_of_range(x, indices, led, wraps)
    if not bad:
        out[...] = x[key(x, indices, led, begin)]
    return bad


def taken(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """Return the elements of x at `index` along `axis`, as np.take_along_axis does. All indices
    must be in range. `index` has the sizes of x except along the axis."""
    found: np.ndarray = np.take_along_axis(x, index, axis)
    return found


def out_of_range(x: np.ndarray, indices: Indices, led: Sequence[int], wraps: bool) -> int:
    """Return the position, counted from 1, of the first index array with an index out of range.
    Return 0 if there is none."""
    for number, (index, dim) in enumerate(zip(indices, led), 1):
        size = x.shape[dim]
        # As uint64, negative indices are large, so one comparison covers both bounds.
        if index.size and index.view(np.uint64).max() >= size:
            if index.max() >= size or index.min() < (-size if wraps else 0):
                return number
    return 0


def key(x: np.ndarray, indices: Indices, led: Sequence[int], begin: int | None) -> tuple[Any, ...]:
    """Return the key that makes NumPy's `x[key]` read the indexed elements."""
    made: list[Any] = [slice(None)] * x.ndim
    if begin is None:
        made = list(np.ogrid[tuple([slice(n) for n in indices[0].shape])])
    for index, dim in zip(indices, led):
        made[dim] = index
    return tuple(made)
