"""Counts of values, or the sums of their weights.                                family: histogram

Types    counts are int64, sums float64.
Order    weights are added in the order of the elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def bincount(x: np.ndarray, weights: np.ndarray | None, bins: int) -> np.ndarray:
    """Count integers in [0, bins), or add up their float64 weights."""
    found: np.ndarray = np.bincount(x.astype(np.int64), weights, bins)
    return found if weights is not None else found.astype(np.int64)


def evenly(x: np.ndarray, bins: int, least: float, most: float) -> np.ndarray | None:
    """Return None: the caller must use its general code. The compiled function of this name counts
    the elements of x in bins of equal width between least and most."""
    return None


def points(
    x: np.ndarray, weights: np.ndarray | None, even: bool, edges: Sequence[np.ndarray]
) -> np.ndarray | None:
    """Return None: the caller must use its general code. The compiled function of this name returns
    the histogram of the points x (n, len(edges))."""
    return None
