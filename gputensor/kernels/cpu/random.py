"""dst[i] = uniform random in [0, 1) from Philox4x64-10.                              family: random

Order    element i, counted row-major whatever the strides, is lane i % 4 of the block with counter
         (offset + i // 4, 0, 0, 0) and key (seed mod 2^64, 0); a complex element i is the real
         elements 2i and 2i + 1. A call uses ceil(n / 4) counters. Equal bits on every device.
Types    from the 64-bit word x: f64 (x >> 11) * 2^-53, f32 (x >> 40) * 2^-24,
         f16 (x >> 53) * 2^-11, bf16 (x >> 56) * 2^-8, all exact.
Source   Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011); words equal those of
         numpy.random.Philox, which steps its counter before a block and so begins one below.
"""

from __future__ import annotations

import numpy as np

# Words drawn at a time, a multiple of the four lanes; they stay in the L2 cache.
_BLOCK = 1 << 14
_WORD = 2**64 - 1

# By (kind, itemsize): bits to drop and the scale; NumPy counts bfloat16 as kind V.
_SCALES = {
    ("f", 8): (11, 2.0**-53), ("f", 4): (40, 2.0**-24), ("f", 2): (53, 2.0**-11),
    ("V", 2): (56, 2.0**-8),
}  # fmt: skip


def uniform(dst: np.ndarray, seed: int, offset: int) -> None:
    """Fill a floating or complex `dst` of any layout."""
    if not dst.flags.c_contiguous:
        dense = np.empty(dst.shape, dst.dtype)
        uniform(dense, seed, offset)
        np.copyto(dst, dense)
        return
    flat = dst.reshape(-1)
    if dst.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    words = words_from(seed, offset)
    if flat.dtype == np.float64:
        from numpy.random import Generator

        Generator(words).random(out=flat)
        return
    shift, scale = _SCALES[flat.dtype.kind, flat.itemsize]
    drop, unit = np.uint64(shift), np.float32(scale)
    for begin in range(0, flat.size, _BLOCK):
        part = flat[begin : begin + _BLOCK]
        bits = words.random_raw(part.size)
        bits >>= drop
        part[...] = bits.astype(np.float32) * unit


def words_from(seed: int, offset: int) -> np.random.Philox:
    """The bit generator whose first word is lane 0 of the block with counter `offset`."""
    from numpy.random import Philox  # not on the import path of the package

    before = (offset - 1) % 2**256
    counter = np.array([before >> shift & _WORD for shift in (0, 64, 128, 192)], np.uint64)
    return Philox(key=np.array([seed & _WORD, 0], np.uint64), counter=counter)
