"""dst[i] = src[i], any pair of dtypes, any strides, `src` broadcast.                  family: copy

Types    casts follow Note [Numeric casts] in cast.py.
Order    `dst` may overlap `src`. If their dtypes differ, equal elements must have equal addresses.
"""

from __future__ import annotations

import numpy as np

from . import cast, quiet

OPS = ("copy", "pack")  # copy_pack.py implements "pack".


def copy(dst: np.ndarray, src: np.ndarray) -> None:
    """Write `src` into `dst`. The function suppresses NumPy's warnings itself, so callers do not
    need `quiet.run`."""
    if dst.dtype == src.dtype:
        np.copyto(dst, src)
    else:
        quiet.run(cast.convert_into, dst, src)


def contiguous(src: np.ndarray) -> np.ndarray:
    """Return a new row-major array with the elements of `src`."""
    return src.copy()
