"""Indices of nonzero elements, and elements selected by a mask; row-major order.    family: nonzero

Types    NaN is not zero; masked elements are moved unchanged.
"""

from __future__ import annotations

import numpy as np


def nonzero(x: np.ndarray) -> np.ndarray:
    """Return the coordinates of nonzero elements, one row for each dimension."""
    marks = x if x.dtype.kind == "b" else np.not_equal(x, x.dtype.type(0))
    places = np.flatnonzero(marks)
    if x.ndim < 2:
        return places.reshape(1, -1)[: x.ndim] if x.ndim else np.empty((0, places.size), np.int64)
    return np.array(np.unravel_index(places, x.shape), np.int64)


def nonzero_count(x: np.ndarray) -> int:
    return int(np.count_nonzero(x))


def selected(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the elements of x at which the mask is true. x and mask have the same sizes."""
    found: np.ndarray = x.reshape(-1).compress(mask.reshape(-1))
    return found


def put(x: np.ndarray, mask: np.ndarray, values: np.ndarray) -> int:
    """Write the 1-d `values`, in order, to the elements at which the mask is true. Return the
    number of these elements. If there are fewer values, nothing is written."""
    count = nonzero_count(mask)
    if count <= values.size:
        x[mask] = values[:count]
    return count
