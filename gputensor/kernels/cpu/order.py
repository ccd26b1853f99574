"""The first k elements of rows in sorted order, and the index of the k-th element.   family: order

Shapes   x (rows, n).
Types    real. NaN is the largest; equal elements keep the order of their indices.
"""

from __future__ import annotations

import numpy as np


def sort(x: np.ndarray, descending: bool, values: np.ndarray, places: np.ndarray | None) -> bool:
    """Write nothing and return False: the caller must use NumPy's functions. The compiled function
    of this name writes the sorted rows to `values`, and their indices to `places` unless it is
    None. Both have the sizes (rows, n)."""
    return False


def first(x: np.ndarray, k: int, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the first k elements of each row in sorted order: (values, places), each (rows, k)."""
    keys = x.astype(np.float32) if x.dtype.kind == "V" else x  # bfloat16
    order = np.argsort(keys[:, ::-1] if descending else keys, 1, kind="stable")
    places = x.shape[1] - 1 - order[:, ::-1] if descending else order
    places = places[:, :k].copy()
    return np.take_along_axis(x, places, 1), places


def kth(x: np.ndarray, k: int) -> np.ndarray:
    """Return the index of the k-th element in each row, (rows, 1); k counts from 0."""
    return first(x, k + 1, False)[1][:, k:].copy()
