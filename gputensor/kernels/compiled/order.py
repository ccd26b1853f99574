"""Sorting of rows by the compiled loops: see kernels/cpu/order.py."""

from __future__ import annotations

import numpy as np

from ...core.dtype import of_ours
from ..cpu import order as numpys
from .library import function

_MOST = 1 << 32  # largest number of elements in a row
_LONG = 512  # from this row length on, the radix sort is faster than NumPy


def first(x: np.ndarray, k: int, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    loop = function("order", f"first {of_ours(x.dtype).short}")
    if loop is None or x.shape[1] >= _MOST:
        return numpys.first(x, k, descending)
    values, places = np.empty((len(x), k), x.dtype), np.empty((len(x), k), np.int64)
    if loop(values, places, np.ascontiguousarray(x), descending):
        raise MemoryError
    return values, places


def sort(
    x: np.ndarray, descending: bool, with_places: bool = True
) -> tuple[np.ndarray, np.ndarray | None] | None:
    n = x.shape[1]
    if n < _LONG or n >= _MOST:
        return None
    loop = function("order", f"sort {of_ours(x.dtype).short}")
    if loop is None:
        return None
    values = np.empty(x.shape, x.dtype)
    places = np.empty(x.shape, np.int64) if with_places else None
    if loop(values, places, np.ascontiguousarray(x), descending):
        raise MemoryError
    return values, places


def kth(x: np.ndarray, k: int) -> np.ndarray:
    loop = function("order", f"kth {of_ours(x.dtype).short}")
    if loop is None or x.shape[1] >= _MOST:
        return numpys.kth(x, k)
    places = np.empty((len(x), 1), np.int64)
    if loop(places, np.ascontiguousarray(x), k):
        raise MemoryError
    return places
