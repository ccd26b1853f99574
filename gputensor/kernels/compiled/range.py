"""Ranges, dst[i] = f(i), by the compiled loops: see kernels/cpu/range.py. family: range"""

from __future__ import annotations

import numpy as np

from ...core.dtype import of_ours
from ..cpu import cast, range as numpys
from .library import function

_INT64 = np.dtype(np.int64)


def arange(dst: np.ndarray, start: complex, step: complex) -> None:
    """Write start + i * step to each element i of the 1-d `dst`."""
    loop = function("range", f"arange {of_ours(dst.dtype).short}")
    if loop is None or not _is_dense(dst):
        numpys.arange(dst, start, step)
    elif dst.dtype.kind not in "iu":
        loop(dst, float(start.real), float(step.real))
    elif isinstance(start, int) and isinstance(step, int):
        loop(dst, cast.wrap(start, _INT64), cast.wrap(step, _INT64))
    else:
        numpys.arange(dst, start, step)


def linspace(dst: np.ndarray, start: complex, end: complex, steps: int) -> None:
    """Write `steps` evenly spaced values from `start` to `end`, for a 1-d `dst`."""
    loop = function("range", f"linspace {of_ours(dst.dtype).short}")
    if loop is None or not _is_dense(dst) or steps < 2 or dst.dtype.kind in "iu":
        numpys.linspace(dst, start, end, steps)
    else:
        loop(dst, float(start.real), float(end.real))


def _is_dense(dst: np.ndarray) -> bool:
    return dst.flags.c_contiguous and dst.flags.writeable
