"""dst[i] = src[i], any pair of dtypes, any strides, `src` broadcast.                  family: copy

Types    casts follow Note [Numeric casts] in cast.py.
Order    one write per element; `dst` may overlap `src` only if they are the same elements.
"""

from __future__ import annotations

import numpy as np

from . import cast, layout_copy, quiet

_copyto = np.copyto


def copy(dst: np.ndarray, src: np.ndarray) -> None:
    """Write `src` into `dst`. Silences itself: call it without `quiet`."""
    if dst.dtype == src.dtype:
        if dst.nbytes < layout_copy.FROM_NBYTES:
            _copyto(dst, src)
        else:
            layout_copy.copy(dst, src)
    else:
        quiet.run(cast.convert_into, dst, src)


def contiguous(src: np.ndarray) -> np.ndarray:
    """A new row-major array with the elements of `src`."""
    if src.nbytes < layout_copy.FROM_NBYTES:
        return src.copy()
    dst = np.empty(src.shape, src.dtype)
    layout_copy.copy(dst, src)
    return dst
