"""Runs of equal elements.                                                           family: unique

Types    every NaN is a run of its own.
"""

from __future__ import annotations

import numpy as np


def runs(
    x: np.ndarray, wants_numbers: bool, wants_counts: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return the first element of each run in a 1-d array, the number of each element's run, and
    the sizes of the runs. Numbers and sizes are empty if they are not requested."""
    is_first = np.ones(x.size, bool)
    np.not_equal(x[1:], x[:-1], is_first[1:])
    starts = np.flatnonzero(is_first)
    none = np.empty(0, np.int64)
    numbers = np.cumsum(is_first) - 1 if wants_numbers else none
    return x[starts], numbers, np.diff(starts, append=x.size) if wants_counts else none
