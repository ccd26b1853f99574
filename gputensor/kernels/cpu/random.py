"""dst[i] = a random number from Philox4x64-10.                                       family: random

Order    element i, counted row-major whatever the strides, is lane i % 4 of the block with counter
         (offset + i // 4, 0, 0, 0) and key (seed mod 2^64, 0); a complex element i is the real
         elements 2i and 2i + 1. A call uses ceil(n / 4) counters. Equal bits on every device where
         no logarithm, root or angle is taken; there each device has its own last bits.
Types    uniform, from the 64-bit word x: f64 (x >> 11) * 2^-53, f32 (x >> 40) * 2^-24,
         f16 (x >> 53) * 2^-11, bf16 (x >> 56) * 2^-8, all exact. What else is floating is computed
         in f32 and rounded once, f64 in f64. normal takes lanes 2k and 2k + 1 for both of its
         elements (Box and Muller); integers are first + x mod count.
Source   Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011); words equal those of
         numpy.random.Philox, which steps its counter before a block and so begins one below.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime import cpu
from . import quiet

# Words drawn at a time, a multiple of the four lanes; they stay in the L2 cache.
_BLOCK = 1 << 14
# Blocks that are worth a second thread.
_SHARED_FROM = 16
_WORD = 2**64 - 1

# By (kind, itemsize): bits to drop and the scale; NumPy counts bfloat16 as kind V.
_SCALES = {
    ("f", 8): (11, 2.0**-53), ("f", 4): (40, 2.0**-24), ("f", 2): (53, 2.0**-11),
    ("V", 2): (56, 2.0**-8),
}  # fmt: skip

# (words, dtype) -> as many numbers, of any dtype.
Make = Callable[[np.ndarray, np.dtype], np.ndarray]


def uniform(dst: np.ndarray, seed: int, offset: int, low: float = 0.0, high: float = 1.0) -> None:
    """Fill a floating or complex `dst` of any layout."""
    width = high - low
    if dst.dtype == np.float64 and dst.flags.c_contiguous:

        def draw(part: np.ndarray, first: int) -> None:
            generator_from(seed, first).random(out=part)
            if width != 1 or low:
                part *= width
                part += low

        _in_blocks(dst.reshape(-1), offset, draw)
        return

    def make(words: np.ndarray, of: np.dtype) -> np.ndarray:
        shift, scale = _SCALES[of.kind, of.itemsize]
        words >>= np.uint64(shift)
        wide = _wide(of)
        drawn = words.astype(wide) * wide(scale)
        made: np.ndarray = drawn if width == 1 and not low else drawn * wide(width) + wide(low)
        return made

    _fill(dst, seed, offset, make)


def normal(dst: np.ndarray, seed: int, offset: int, mean: float, std: float) -> None:
    """Of a complex `dst` the parts have these, each."""
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
    """Tries up to the first success; integers count in f64."""
    scale = 1 / math.log1p(-p)
    _fill(
        dst, seed, offset,
        lambda words, of: np.ceil(np.log(_inside(words, of)) * _wide(of)(scale)),
    )  # fmt: skip


def bernoulli(dst: np.ndarray, seed: int, offset: int, limit: int, _: int) -> None:
    """1 where the word's upper 53 bits are below `limit`."""
    _fill(dst, seed, offset, lambda words, of: words >> np.uint64(11) < np.uint64(limit))


def integers(dst: np.ndarray, seed: int, offset: int, first: int, count: int) -> None:
    """`count` integers from `first` on, modulo 2^64; all of them where count is 2^64."""
    start = np.uint64(first & _WORD)

    def make(words: np.ndarray, of: np.dtype) -> np.ndarray:
        if count <= _WORD:
            words -= words // np.uint64(count) * np.uint64(count)  # faster than %
        words += start
        return words if of == np.uint64 else words.view(np.int64)

    _fill(dst, seed, offset, make)


# --- from words to numbers ------------------------------------------------------------------------


def _fill(dst: np.ndarray, seed: int, offset: int, make: Make) -> None:
    if not dst.flags.c_contiguous:
        dense = np.empty(dst.shape, dst.dtype)
        _fill(dense, seed, offset, make)
        np.copyto(dst, dense)
        return
    flat = dst.reshape(-1)
    if dst.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)

    def draw(part: np.ndarray, first: int) -> None:
        count = part.size + part.size % 2
        if flat.size <= _BLOCK:
            words = words_from(seed, first).random_raw(count)
        else:  # the same words, drawn without the GIL
            words = generator_from(seed, first).integers(0, _WORD, count, np.uint64, endpoint=True)
        part[...] = make(words, part.dtype)[: part.size]

    _in_blocks(flat, offset, draw)


def _in_blocks(flat: np.ndarray, offset: int, draw: Callable[[np.ndarray, int], None]) -> None:
    """`draw(part, its first counter)` for parts of an array; of a large one on several threads."""

    def work(number: int) -> None:
        part = flat[number * _BLOCK : (number + 1) * _BLOCK]
        draw(part, offset + number * (_BLOCK // 4))  # a counter gives four words

    count = -(-flat.size // _BLOCK)
    if count == 1:
        quiet.run(work, 0)
        return
    threads = cpu.get_num_threads() if count >= _SHARED_FROM else 1
    cpu.share(count, threads, lambda: lambda number: quiet.run(work, number))


def words_from(seed: int, offset: int) -> np.random.BitGenerator:
    """The thread's bit generator, whose next word is lane 0 of the block with counter `offset`."""
    return generator_from(seed, offset).bit_generator


def generator_from(seed: int, offset: int) -> np.random.Generator:
    """The thread's generator over `words_from`."""
    found: np.random.Generator | None = getattr(_own, "generator", None)
    if found is None:
        from numpy.random import Generator, Philox  # not on the import path of the package

        found = _own.generator = Generator(Philox(0))
    before = (offset - 1) % 2**256
    counter = np.array([before >> shift & _WORD for shift in (0, 64, 128, 192)], np.uint64)
    key = np.array([seed & _WORD, 0], np.uint64)
    found.bit_generator.state = {
        "bit_generator": "Philox", "state": {"counter": counter, "key": key}, "buffer": _SPENT,
        "buffer_pos": 4, "has_uint32": 0, "uinteger": 0,
    }  # fmt: skip
    return found


# Setting its state costs less than one microsecond, a new Philox five.
_own = threading.local()
_SPENT = np.zeros(4, np.uint64)


def _wide(of: np.dtype) -> Any:
    """The type that numbers for dtype `of` are computed in."""
    return np.float64 if of.kind in "iub" or of == np.float64 else np.float32


def _upper(words: np.ndarray, bits: int) -> np.ndarray:
    """The upper bits of each word; 32-bit integers where they fit, which convert faster."""
    words = words >> np.uint64(64 - bits)
    return words.astype(np.int32) if bits < 32 else words.view(np.int64)


def _inside(words: np.ndarray, of: np.dtype) -> np.ndarray:
    """Numbers above 0 and below 1."""
    if _wide(of) is np.float64:
        return (_upper(words, 53) | 1).astype(np.float64) * 2.0**-53
    made = (_upper(words, 31) | 1).astype(np.float32) * np.float32(2.0**-31)
    kept: np.ndarray = np.minimum(made, np.float32(1 - 2.0**-24))
    return kept


def _normals(words: np.ndarray, of: np.dtype, mean: float, std: float) -> np.ndarray:
    """Pairs of normal numbers from pairs of words. Source: Box and Muller (1958)."""
    wide = _wide(of)
    bits = (53, 53) if wide is np.float64 else (30, 24)
    size = (_upper(words[::2], bits[0]) + 1).astype(wide) * wide(2.0 ** -bits[0])
    angle = _upper(words[1::2], bits[1]).astype(wide) * wide(2 * math.pi * 2.0 ** -bits[1])
    np.sqrt(np.multiply(np.log(size, size), wide(-2), size), size)
    if std != 1:
        np.multiply(size, wide(std), size)
    made = np.empty(words.size, wide)
    np.multiply(size, np.cos(angle), made[::2])
    np.multiply(size, np.sin(angle, angle), made[1::2])
    made += wide(mean)
    return made
