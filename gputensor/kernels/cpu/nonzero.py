"""The indices of the elements of x that are not zero, a column each, in row-major order.  family:
nonzero
"""

from __future__ import annotations

import math

import numpy as np


# Elements from which on places are found as if there were one dimension, for which NumPy is quick.
_MANY = 1 << 12


def nonzero(x: np.ndarray) -> np.ndarray:
    """Places among all elements, row-major."""
    marks = x if x.dtype.kind == "b" else np.not_equal(x, x.dtype.type(0))
    return np.flatnonzero(marks)


def coordinates(places: np.ndarray, shape: tuple[int, ...], out: np.ndarray) -> None:
    """Places as coordinates: `out` has a row for each dimension, none where there are none."""
    if len(shape) < 2:
        out[...] = places
    elif places.size < _MANY:
        for to, found in zip(out, np.unravel_index(places, shape)):
            to[...] = found
    else:
        *outer, n = shape
        rows = math.prod(outer)
        ends = np.searchsorted(places, np.arange(n, rows * n + 1, n))
        counts = np.diff(ends, prepend=0)
        begins = np.repeat(np.arange(0, rows * n, n), counts)
        np.subtract(places, begins, out[-1])
        for to, of_row in zip(out, np.unravel_index(np.arange(rows), outer)):
            to[...] = np.repeat(of_row, counts)


def nonzero_count(x: np.ndarray) -> int:
    return int(np.count_nonzero(x))
