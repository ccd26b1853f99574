"""Sorted rows, the first k elements of rows, and order statistics of rows.           family: order

Shapes   x (rows, n).
Types    real. NaN is the largest; equal elements keep the order of their indices.
"""

from __future__ import annotations

from collections.abc import Callable

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


def statistic(op: str, of: np.dtype) -> Callable[..., bool] | None:
    """Return None: the caller must use NumPy's functions. The compiled function of this name
    returns `write(values, places, x, k)` for an op and the dtype of x, or None.

    op: "kth", "median", "nanmedian" or "mode". `write` writes one value and its index for each row
    and returns True, or it writes nothing and returns False. k: counts from 0; only "kth" reads it.
    """
    return None
