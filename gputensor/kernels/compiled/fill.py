"""dst[i] = number, in any layout.                                                     family: fill

NumPy casts the number. Large arrays are filled on all threads, by copying one element repeatedly.
"""

from __future__ import annotations

import numpy as np

from ...runtime import cpu
from ..cpu import fill as numpys
from . import library

# Below this number of bytes, NumPy's fill is faster than the compiled loop that copies one element
# to all elements of `dst`.
_SMALL = 1 << 18

_copy = library.function("copy", "copy")


def fill(dst: np.ndarray, number: complex) -> None:
    """Set every element of `dst`. The function suppresses NumPy's warnings itself, so callers do
    not need `quiet.run`."""
    if dst.nbytes >= _SMALL and dst.flags.writeable:
        one = np.empty((), dst.dtype)
        numpys.fill(one, number)
        if not _copy(dst, one, cpu.cache_nbytes()):
            return
    numpys.fill(dst, number)
