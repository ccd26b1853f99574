"""Search in sorted sequences.                                                        family: search

Shapes   one sequence (n), or sequences (..., n) with x (..., m).
"""

from __future__ import annotations

import numpy as np


def places(sequence: np.ndarray, x: np.ndarray, right: bool, out_int32: bool) -> np.ndarray | None:
    """Return the insertion points of x. Return None for several sequences and for a sequence that
    ends with NaN, for which NumPy has no function."""
    if sequence.ndim > 1 or not sequence.size or sequence[-1] != sequence[-1]:
        return None
    found: np.ndarray = sequence.searchsorted(x, "right" if right else "left")
    return found.astype(np.int32 if out_int32 else np.int64, copy=False)
