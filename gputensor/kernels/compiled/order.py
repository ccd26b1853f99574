"""Sorting of rows by the compiled loops: see kernels/cpu/order.py."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.dtype import of_ours
from ..cpu import order as numpys
from .library import function

# The loops support only rows with fewer elements than this.
_MOST = 1 << 32
# NumPy sorts with vector instructions. It is faster for rows of fewer than _SHORT elements if there
# are more than _MANY elements in all.
_SHORT, _MANY = 512, 1 << 13


def first(x: np.ndarray, k: int, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    loop = function("order", f"first {of_ours(x.dtype).short}")
    if loop is None or x.shape[1] >= _MOST:
        return numpys.first(x, k, descending)
    values, places = np.empty((len(x), k), x.dtype), np.empty((len(x), k), np.int64)
    if loop(values, places, np.ascontiguousarray(x), descending):
        raise MemoryError
    return values, places


def sort(x: np.ndarray, descending: bool, values: np.ndarray, places: np.ndarray | None) -> bool:
    n = x.shape[1]
    if n < _SHORT and x.size > _MANY and x.dtype != np.float64:
        return False
    loop = function("order", f"sort {of_ours(x.dtype).short}")
    if loop is None or n >= _MOST:
        return False
    if loop(values, places, np.ascontiguousarray(x), descending):
        raise MemoryError
    return True


def statistic(op: str, of: np.dtype) -> Callable[..., bool] | None:
    loop = function("order", f"{op} {of_ours(of).short}")
    if loop is None:
        return None

    def write(values: np.ndarray, places: np.ndarray, x: np.ndarray, k: int) -> bool:
        if x.shape[1] >= _MOST:
            return False
        if loop(values, places, np.ascontiguousarray(x), k):
            raise MemoryError
        return True

    return write
