"""Indices of nonzero elements, and elements selected by a mask; row-major order.    family: nonzero

Types    NaN is not zero; masked elements are moved unchanged.
"""

from __future__ import annotations

import numpy as np


def nonzero(x: np.ndarray) -> np.ndarray:
    """Return the coordinates of nonzero elements, one row for each dimension."""
    marks = x if x.dtype.kind == "b" else np.not_equal(x, x.dtype.type(0))
    if not x.ndim:
        return np.empty((0, int(marks)), np.int64)
    places = marks.nonzero()
    return places[0].reshape(1, -1) if x.ndim == 1 else np.array(places, np.int64)


def nonzero_count(x: np.ndarray) -> int:
    return int(np.count_nonzero(x))


def selected(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the elements of x at which the mask is true. x and mask have the same sizes."""
    found: np.ndarray = x.reshape(-1).compress(mask.reshape(-1))
    return found


def over(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the mask, broadcast to the sizes of x."""
    if mask.shape == x.shape:
        return mask
    whole = np.empty(x.shape, bool)
    whole[...] = mask
    return whole


def put(x: np.ndarray, mask: np.ndarray, values: np.ndarray) -> int:
    """Write the 1-d `values`, in order, to the elements at which the mask is true; return 0. If the
    mask has more true elements than `values` has elements, write nothing and return the number of
    true elements. mask: broadcast to the sizes of x."""
    mask = over(x, mask)
    count = nonzero_count(mask)
    if count > values.size:
        return count
    x[mask] = values[:count]
    return 0
