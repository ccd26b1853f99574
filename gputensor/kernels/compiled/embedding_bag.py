"""Sums of rows of a table by bags, by the compiled loop: see loops/embedding_bag.cpp."""

from __future__ import annotations

import numpy as np

from . import library

_sum = library.function("embedding_bag", "sum")


def sum(
    table: np.ndarray, indices: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None,
    out: np.ndarray, of: np.ndarray, sizes: np.ndarray, is_mean: bool, padding: int,
) -> bool:  # fmt: skip
    """Write the sum or the mean of each bag, the bag of each index, and how many indices of a bag
    count. Returns: whether it is done."""
    given = [x for x in (table, indices, offsets, weights) if x is not None]
    is_aligned = all([x.flags.aligned for x in given])
    operands = (table, indices, offsets, weights, out, of, sizes)
    return is_aligned and _sum(*operands, int(is_mean), padding) == 0
