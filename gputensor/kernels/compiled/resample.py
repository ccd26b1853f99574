"""out[j] = sum over t of by[t, j] * x[at[t, j]], along each of some dimensions.  family: resample

`loops/resample.cpp` makes some rows of a plane at a time, on all threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..cpu import resample as numpys
from . import library


def resample(x: np.ndarray, out: np.ndarray, taps: Sequence[numpys.Taps]) -> None:
    """Write what the taps of each dimension, from the second on, make of `x` into `out`."""
    loop = library.function("resample", f"resample f{8 * x.itemsize}")
    tables = [array for of in taps for array in (of.table, of.by)]
    if loop is None or loop(x, out, *tables, *[of.each for of in taps]):
        numpys.resample(x, out, taps)
