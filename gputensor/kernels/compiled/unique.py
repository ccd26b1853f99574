"""Runs of equal elements by the compiled loops: see kernels/cpu/unique.py."""

from __future__ import annotations

import numpy as np

from ...core.dtype import of_ours
from ...runtime import cpu
from ..cpu import unique as numpys
from .library import function

_INT64 = np.dtype(np.int64)
_PER_BLOCK = 4096  # The number of elements per block, as in loops/unique.cpp.


def runs(
    x: np.ndarray, wants_numbers: bool, wants_counts: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    short = of_ours(x.dtype).short
    count, find = function("unique", f"count {short}"), function("unique", f"find {short}")
    if count is None or find is None:
        return numpys.runs(x, wants_numbers, wants_counts)
    dense = np.ascontiguousarray(x)
    before = np.empty(-(-x.size // _PER_BLOCK) + 1, _INT64)
    count(dense, before)
    total = int(before[-1])
    values = cpu.empty((total,), x.dtype)
    numbers = cpu.empty((x.size if wants_numbers else 0,), _INT64)
    counts = cpu.empty((total if wants_counts else 0,), _INT64)
    given = numbers if wants_numbers else None, counts if wants_counts else None
    find(values, *given, dense, before)
    return values, numbers, counts
