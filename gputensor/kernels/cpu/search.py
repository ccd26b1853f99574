"""Search in sorted sequences.                                                        family: search

Shapes   one sequence (n), or sequences (..., n) with x (..., m).
"""

from __future__ import annotations

import numpy as np


def places(sequence: np.ndarray, x: np.ndarray, right: bool, out_int32: bool) -> np.ndarray | None:
    """Return the insertion points of x. Return None where np.searchsorted cannot be used: for
    several sequences, for an empty sequence, and for a sequence that ends with NaN."""
    if sequence.ndim > 1 or not sequence.size or sequence[-1] != sequence[-1]:
        return None
    found: np.ndarray = sequence.searchsorted(x, "right" if right else "left")
    return found.astype(np.int32 if out_int32 else np.int64, copy=False)
