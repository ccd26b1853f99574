"""The indices of the elements of x that are not zero, a column each, in row-major order.  family:
nonzero
"""

from __future__ import annotations

import numpy as np


def nonzero(x: np.ndarray) -> np.ndarray:
    if not x.ndim:
        return np.empty((0, nonzero_count(x)), np.int64)
    found = np.nonzero(x)
    return np.stack(found) if len(found) > 1 else found[0].reshape(1, -1)


def nonzero_count(x: np.ndarray) -> int:
    return int(np.count_nonzero(x))
