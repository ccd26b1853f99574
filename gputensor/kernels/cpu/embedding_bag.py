"""Sums of rows of a table by bags; without the library, native/embedding.py composes them."""

from __future__ import annotations

import numpy as np


def sum(
    table: np.ndarray, indices: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None,
    out: np.ndarray, of: np.ndarray, sizes: np.ndarray, is_mean: bool, padding: int,
) -> bool:  # fmt: skip
    """Write the sum or the mean of each bag, the bag of each index, and how many indices of a bag
    count. Returns: whether it is done."""
    return False
