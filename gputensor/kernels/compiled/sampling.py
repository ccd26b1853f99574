"""Images at places that a grid names.                                            family: sampling

`loops/sampling.cpp` looks up some places at a time, for all channels.
"""

from __future__ import annotations

import numpy as np

from . import library


def grid_sample(
    x: np.ndarray, grid: np.ndarray, out: np.ndarray, mode: int, padding: int, align: bool
) -> bool:
    """Write x (N, C, H, W) at the places of grid (N, h, w, 2) into `out` (N, C, h, w); False where
    it is to be composed."""
    loop = library.function("sampling", f"grid_sample f{8 * x.itemsize}")
    return loop is not None and not loop(x, grid, out, mode, padding, align)
