"""Indices of nonzero elements by the compiled loops: see kernels/cpu/nonzero.py."""

from __future__ import annotations

import numpy as np

from ...core.dtype import of_ours
from ...runtime import cpu
from ..cpu import nonzero as numpys
from .library import function

_INT64 = np.dtype(np.int64)
_PER_BLOCK = 4096  # The number of elements per block, as in loops/nonzero.cpp.
_FEW = 512  # Up to this number of elements, a single NumPy call is faster.


def nonzero(x: np.ndarray) -> np.ndarray:
    short = of_ours(x.dtype).short
    find = function("nonzero", f"find {short}")
    if find is None or x.size <= _FEW:
        return numpys.nonzero(x)
    dense = np.ascontiguousarray(x)
    counts = _counts(dense, short)
    found = cpu.empty((x.ndim, int(counts[-1])), _INT64)
    find(found, dense, counts, *x.shape)
    return found


def nonzero_count(x: np.ndarray) -> int:
    short = of_ours(x.dtype).short
    if function("nonzero", f"count {short}") is None:
        return numpys.nonzero_count(x)
    return int(_counts(np.ascontiguousarray(x), short)[-1])


def selected(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    select = function("nonzero", f"select {x.itemsize}")
    if select is None or x.size <= _FEW:
        return numpys.selected(x, mask)
    dense = np.ascontiguousarray(mask)
    counts = _counts(dense, "bool")
    found = cpu.empty((int(counts[-1]),), x.dtype)
    select(found, np.ascontiguousarray(x), dense, counts)
    return found


def put(x: np.ndarray, mask: np.ndarray, values: np.ndarray) -> int:
    put_all, flags = function("nonzero", f"put {x.itemsize}"), x.flags
    if put_all is None or not flags.c_contiguous or not flags.writeable:
        return numpys.put(x, mask, values)
    marks = np.ascontiguousarray(numpys.over(x, mask))
    counts = np.empty(-(-x.size // _PER_BLOCK) + 1, np.int64)
    missing: int = put_all(x, marks, np.ascontiguousarray(values), counts)
    return missing


def _counts(dense: np.ndarray, short: str) -> np.ndarray:
    """Return the prefix sums of the numbers of nonzero elements per block. The last entry is the
    total."""
    counts = np.empty(-(-dense.size // _PER_BLOCK) + 1, np.int64)
    count = function("nonzero", f"count {short}")
    assert count is not None
    count(dense, counts)
    return counts
