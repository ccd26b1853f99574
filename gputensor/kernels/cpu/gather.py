"""out[i] = x[place that the indices name for i].                                     family: gather

Shapes   each of `indices`, int64 arrays that broadcast together, stands for the dimension of x of
         the same number in `led`. Their own dimensions stand in out from `begin` on, in place of
         those; begin None: out has the sizes of the one index, and in the other dimensions the
         place in x is that in out.
Types    elements are moved as they are.
Returns  0, or the number of the first index with one out of range plus one, with nothing written.
         wraps: negative ones count from the end.
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
    """np.take_along_axis, of an index in range that has the sizes of x but along the axis."""
    found: np.ndarray = np.take_along_axis(x, index, axis)
    return found


def out_of_range(x: np.ndarray, indices: Indices, led: Sequence[int], wraps: bool) -> int:
    """0, or the number of the first index with one out of range plus one."""
    for number, (index, dim) in enumerate(zip(indices, led), 1):
        size = x.shape[dim]
        if index.size and index.view(np.uint64).max() >= size:  # negative ones are large then
            if index.max() >= size or index.min() < (-size if wraps else 0):
                return number
    return 0


def key(x: np.ndarray, indices: Indices, led: Sequence[int], begin: int | None) -> tuple[Any, ...]:
    """The index of x for NumPy."""
    made: list[Any] = [slice(None)] * x.ndim
    if begin is None:
        made = list(np.ogrid[tuple([slice(n) for n in indices[0].shape])])
    for index, dim in zip(indices, led):
        made[dim] = index
    return tuple(made)
