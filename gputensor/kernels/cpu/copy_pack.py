"""dst[n, c, …] = src[n, c, …] * scale[c] + bias[c], in dst's dtype; any strides.       family: pack

Types    computed in f32, or in f64 if either side is f64; each step is rounded. Integers are
         rounded to nearest even and saturated; NaN becomes 0. The bits equal those of
         kernels/cuda/include/vectors.cuh.
Order    one image after the other, so that temporaries are small.
"""

from __future__ import annotations

import numpy as np

from . import cast, quiet

_float64 = np.dtype(np.float64)


def pack(dst: np.ndarray, src: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> None:
    """Write `src`, scaled and shifted per channel, into `dst`. Both arrays have the sizes (N, C, …)
    and share no memory.

    scale, bias: one number per channel. The function suppresses NumPy's warnings itself, so callers
    do not need `quiet.run`.
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
    """Round and saturate to an integer dtype. The upper bound is a power of two, because the
    largest 32- or 64-bit integer is not exact as a float."""
    limits = np.iinfo(of)
    rounded = np.rint(x)
    above, least = 2.0 ** (8 * of.itemsize - (of.kind == "i")), float(limits.min)
    fits = (rounded < above) & (rounded >= least)
    found = cast.convert(np.where(fits, rounded, 0).astype(x.dtype), of)
    found[rounded >= above] = limits.max
    found[rounded < least] = limits.min
    return found
