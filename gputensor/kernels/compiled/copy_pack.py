"""dst[n, c, …] = src[n, c, …] * scale[c] + bias[c], in dst's dtype; any strides.       family: pack

`loops/copy_pack.cpp` does it in one read and one write; NumPy's loops take bool and what is not
aligned.
"""

from __future__ import annotations

import numpy as np

from ..cpu import copy_pack as numpys
from . import library

_pack = library.function("copy_pack", "pack")


def pack(dst: np.ndarray, src: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> None:
    """Write `src`, scaled, into `dst` of the same sizes (N, C, …); they share no memory.

    scale, bias: a number per channel, in f64.
    """
    if _pack(dst, src, scale, bias):
        numpys.pack(dst, src, scale, bias)
