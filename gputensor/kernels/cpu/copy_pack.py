"""dst[n, c, …] = src[n, c, …] * scale[c] + bias[c], in dst's dtype; any strides.       family: pack

Types    computed in f32, in f64 if either side is, each step rounded; integers are rounded to
         nearest even and saturated, NaN gives 0. The same bits as kernels/cuda/include/vectors.cuh.
Order    image after image, so that what is computed takes little memory.
"""

from __future__ import annotations

import numpy as np

from . import cast, quiet

_float64 = np.dtype(np.float64)


def pack(dst: np.ndarray, src: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> None:
    """Write `src`, scaled, into `dst` of the same sizes (N, C, …); they share no memory.

    scale, bias: a number per channel. Silences itself: call it without `quiet`.
    """
    compute = np.dtype(np.float64 if _float64 in (dst.dtype, src.dtype) else np.float32)
    shape = (-1, *(1,) * (dst.ndim - 2))
    by, plus = (x.astype(np.float32).astype(compute).reshape(shape) for x in (scale, bias))
    for to, source in zip(dst, src):
        quiet.run(_pack, to, source, by, plus)


def _pack(dst: np.ndarray, src: np.ndarray, by: np.ndarray, plus: np.ndarray) -> None:
    scaled = cast.convert(src, by.dtype) * by + plus
    if dst.dtype.kind in "iu":
        dst[...] = _quantised(scaled, dst.dtype)
    else:
        cast.convert_into(dst, scaled)


def _quantised(x: np.ndarray, of: np.dtype) -> np.ndarray:
    """No float equals the largest 32- or 64-bit integer, but floats have the next power of two."""
    limits = np.iinfo(of)
    rounded = np.rint(x)
    above, least = 2.0 ** (8 * of.itemsize - (of.kind == "i")), float(limits.min)
    fits = (rounded < above) & (rounded >= least)
    found = cast.convert(np.where(fits, rounded, 0).astype(x.dtype), of)
    found[rounded >= above] = limits.max
    found[rounded < least] = limits.min
    return found
