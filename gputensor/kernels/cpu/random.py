"""dst[i] = a random number from Philox4x64-10.                                       family: random

Order    element i, counted row-major for any strides, is lane i % 4 of the block with counter
         (offset + i // 4, 0, 0, 0) and key (seed mod 2^64, 0). A complex element i consists of the
         real elements 2i and 2i + 1. A call uses ceil(n / 4) counters. The bits are equal on all
         devices, except for the last bits of logarithms, roots and angles.
Types    uniform, from the 64-bit word x: f64 (x >> 11) * 2^-53, f32 (x >> 40) * 2^-24, f16 (x >>
         53) * 2^-11, bf16 (x >> 56) * 2^-8, all exact. Other floating types are computed in f32 and
         rounded once; f64 is computed in f64. normal uses lanes 2k and 2k + 1 for both of its
         elements (Box and Muller); integers are first + x mod count.
Source   Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011). The words equal those
         of numpy.random.Philox, which increments its counter before a block, so its counter begins
         one lower.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_WORD = 2**64 - 1

# Maps NumPy's (kind, itemsize) to the number of low bits of the random word to drop, and to the
# factor for the remaining bits. The kind of bfloat16 is V.
_SCALES = {
    ("f", 8): (11, 2.0**-53), ("f", 4): (40, 2.0**-24), ("f", 2): (53, 2.0**-11),
    ("V", 2): (56, 2.0**-8),
}  # fmt: skip

# A function (random words, dtype) that returns an array with one number for each word.
Make = Callable[[np.ndarray, np.dtype], np.ndarray]


def uniform(dst: np.ndarray, seed: int, offset: int, low: float = 0.0, high: float = 1.0) -> None:
    """Fill a floating or complex `dst` of any layout with uniform numbers."""

    def make(words: np.ndarray, of: np.dtype) -> np.ndarray:
        shift, scale = _SCALES[of.kind, of.itemsize]
        wide = _wide(of)
        made: np.ndarray = (words >> np.uint64(shift)).astype(wide) * wide(scale)
        made = made * wide(high - low) + wide(low)
        return made

    _fill(dst, seed, offset, make)


def standard(op: str, of: np.dtype) -> Callable[[np.ndarray, int, int], None]:
    """Return a function (dst, seed, offset) that fills row-major arrays of one real dtype. op:
    `uniform` for numbers in [0, 1), or `normal` for mean 0 and standard deviation 1."""
    loop: Callable[..., None] = uniform if op == "uniform" else normal
    return lambda dst, seed, offset: loop(dst, seed, offset, 0.0, 1.0)


def normal(dst: np.ndarray, seed: int, offset: int, mean: float, std: float) -> None:
    """Fill `dst` with normal numbers. For a complex `dst`, `mean` and `std` apply to each part."""
    _fill(dst, seed, offset, lambda words, of: _normals(words, of, mean, std))


def log_normal(dst: np.ndarray, seed: int, offset: int, mean: float, std: float) -> None:
    _fill(dst, seed, offset, lambda words, of: np.exp(_normals(words, of, mean, std)))


def exponential(dst: np.ndarray, seed: int, offset: int, rate: float, _: float) -> None:
    _fill(dst, seed, offset, lambda words, of: np.log(_inside(words, of)) * _wide(of)(-1 / rate))


def cauchy(dst: np.ndarray, seed: int, offset: int, median: float, sigma: float) -> None:
    def make(words: np.ndarray, of: np.dtype) -> np.ndarray:
        wide = _wide(of)
        angle = (_inside(words, of) - wide(0.5)) * wide(math.pi)
        made: np.ndarray = np.tan(angle) * wide(sigma) + wide(median)
        return made

    _fill(dst, seed, offset, make)


def geometric(dst: np.ndarray, seed: int, offset: int, p: float, _: float) -> None:
    """Fill `dst` with geometric numbers: the number of trials up to and including the first
    success. Integer results are computed in f64."""
    scale = 1 / math.log1p(-p)
    _fill(
        dst, seed, offset,
        lambda words, of: np.ceil(np.log(_inside(words, of)) * _wide(of)(scale)),
    )  # fmt: skip


def bernoulli(dst: np.ndarray, seed: int, offset: int, limit: int, _: int) -> None:
    """Write 1 where the upper 53 bits of the random word are below `limit`, and 0 elsewhere."""
    _fill(dst, seed, offset, lambda words, of: words >> np.uint64(11) < np.uint64(limit))


def integers(dst: np.ndarray, seed: int, offset: int, first: int, count: int) -> None:
    """Fill `dst` with random integers in [first, first + count), modulo 2^64. If count is 2^64, all
    64-bit integers are possible."""
    start = np.uint64(first & _WORD)

    def make(words: np.ndarray, of: np.dtype) -> np.ndarray:
        if count <= _WORD:
            words = words % np.uint64(count)
        made = words + start
        return made if of == np.uint64 else made.view(np.int64)

    _fill(dst, seed, offset, make)


def permutation(out: np.ndarray, seed: int, offset: int) -> None:
    """Write a random permutation: the indices that sort `out.size` random words, in a stable
    order."""
    out[...] = words_from(seed, offset).random_raw(out.size).argsort(kind="stable")


# --- from words to numbers ------------------------------------------------------------------------


def _fill(dst: np.ndarray, seed: int, offset: int, make: Make) -> None:
    of = dst.real.dtype if dst.dtype.kind == "c" else dst.dtype
    count = dst.size * (dst.itemsize // of.itemsize)
    words = words_from(seed, offset).random_raw(count + count % 2)
    made = np.empty(count, of)
    made[...] = make(words, of)[:count]
    dst[...] = made.view(dst.dtype).reshape(dst.shape)


def words_from(seed: int, offset: int) -> Any:
    """Return a bit generator whose next word is lane 0 of the block with counter `offset`."""
    # Philox is imported here, because a global import would slow down the import of the package.
    from numpy.random import Philox

    return Philox(counter=(offset - 1) % 2**256, key=seed & _WORD)


def _wide(of: np.dtype) -> Any:
    """Return the dtype of the computation for results of dtype `of`."""
    return np.float64 if of.kind in "iub" or of == np.float64 else np.float32


def _upper(words: np.ndarray, bits: int) -> np.ndarray:
    return (words >> np.uint64(64 - bits)).view(np.int64)


def _inside(words: np.ndarray, of: np.dtype) -> np.ndarray:
    """Return random numbers in the open interval (0, 1)."""
    if _wide(of) is np.float64:
        return (_upper(words, 53) | 1).astype(np.float64) * 2.0**-53
    made = (_upper(words, 31) | 1).astype(np.float32) * np.float32(2.0**-31)
    found: np.ndarray = np.minimum(made, np.float32(1 - 2.0**-24))
    return found


def _normals(words: np.ndarray, of: np.dtype, mean: float, std: float) -> np.ndarray:
    """Return pairs of normal numbers made from pairs of words. Source: Box and Muller (1958)."""
    wide = _wide(of)
    bits = (53, 53) if wide is np.float64 else (30, 24)
    size = (_upper(words[::2], bits[0]) + 1).astype(wide) * wide(2.0 ** -bits[0])
    angle = _upper(words[1::2], bits[1]).astype(wide) * wide(2 * math.pi * 2.0 ** -bits[1])
    size = np.sqrt(np.log(size) * wide(-2)) * wide(std)
    made: np.ndarray = np.empty(words.size, wide)
    made[::2], made[1::2] = size * np.cos(angle), size * np.sin(angle)
    made += wide(mean)
    return made
