"""dst[i] = src[i], any pair of dtypes, any strides, `src` broadcast.                  family: copy

`loops/copy.cpp` moves and casts the elements. NumPy's loop runs if it declines: for operands that
overlap or do not broadcast, and for dtypes of other libraries.
"""

from __future__ import annotations

import numpy as np

from ...runtime import cpu
from ..cpu import copy as numpys
from . import library

_copy = library.function("copy", "copy")


def copy(dst: np.ndarray, src: np.ndarray) -> None:
    """Write `src` into `dst`."""
    if not dst.flags.writeable or _copy(dst, src, cpu.cache_nbytes()):
        numpys.copy(dst, src)


def contiguous(src: np.ndarray) -> np.ndarray:
    """Return a new row-major array with the elements of `src`."""
    dst = cpu.empty(src.shape, src.dtype)
    copy(dst, src)
    return dst
