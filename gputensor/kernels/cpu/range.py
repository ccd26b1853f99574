"""Ranges: dst[i] is computed from the index i alone (arange, linspace, eye).          family: range

Types    integers exactly, modulo their width; floating types in f64 and complex types in
         complex128, then cast by Note [Numeric casts]. No fused multiply-add.
Numbers  arange: start + i * step. linspace: start + i * step in the first half, otherwise end -
         (n - 1 - i) * step, with step = (end - start) / (n - 1), so both ends are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import cast

# The number of elements computed at a time. Three f64 temporaries of this length fit into the L2
# cache.
_BLOCK = 1 << 14


def arange(dst: np.ndarray, start: complex, step: complex) -> None:
    """Write start + i * step to each element i of the 1-d `dst`."""
    kind = dst.dtype.kind
    if kind in "iu" and not isinstance(start, float) and not isinstance(step, float):
        first: Any = np.int64(cast.wrap(start, np.dtype(np.int64)))
        width: Any = np.int64(cast.wrap(step, np.dtype(np.int64)))
    else:
        accumulate: type[Any] = np.complex128 if kind == "c" else np.float64
        first, width = accumulate(start), accumulate(step)
    for begin in range(0, dst.size, _BLOCK):
        part = dst[begin : begin + _BLOCK]
        index = np.arange(begin, begin + part.size)
        cast.convert_into(part, index * width + first)


def linspace(dst: np.ndarray, start: complex, end: complex, steps: int) -> None:
    """Write `steps` evenly spaced values from `start` to `end`, for a 1-d `dst`."""
    accumulate: type[Any] = np.complex128 if dst.dtype.kind == "c" else np.float64
    first, last = accumulate(start), accumulate(end)
    width = (last - first) / max(steps - 1, 1)
    middle = steps // 2
    for begin in range(0, middle, _BLOCK):
        end = min(middle, begin + _BLOCK)
        cast.convert_into(dst[begin:end], first + width * np.arange(begin, end))
    if steps == 1:
        cast.convert_into(dst, np.array([first]))
        return
    for begin in range(middle, steps, _BLOCK):
        end = min(steps, begin + _BLOCK)
        left = np.arange(steps - 1 - begin, steps - 1 - end, -1)
        cast.convert_into(dst[begin:end], last - width * left)


def eye(dst: np.ndarray, columns: int) -> None:
    """Write ones on the main diagonal of `dst` with this number of columns, and zeros elsewhere."""
    dst.fill(False)
    if dst.flags.c_contiguous:
        length = min(dst.shape)
        dst.reshape(-1)[: length * columns : columns + 1] = True
    else:
        np.fill_diagonal(dst, True)
