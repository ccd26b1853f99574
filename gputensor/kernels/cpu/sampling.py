"""Images at places that a grid names.                                            family: sampling

NumPy has no loop of its own for them: native/sampling.py composes them of its functions.
"""

from __future__ import annotations

import numpy as np


def grid_sample(
    x: np.ndarray, grid: np.ndarray, out: np.ndarray, mode: int, padding: int, align: bool
) -> bool:
    """Write x (N, C, H, W) at the places of grid (N, h, w, 2) into `out` (N, C, h, w); False where
    it is to be composed."""
    return False
