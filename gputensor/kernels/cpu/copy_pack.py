"""dst[n, c, …] = src[n, c, …] * scale[c] + bias[c], in dst's dtype; any strides.        family:
pack

Types    computed in f32, in f64 if either side is, each step rounded; integers are rounded to
         nearest even and saturated, NaN gives 0. The same bits as kernels/cuda/include/vectors.cuh.
Order    pieces that stay in the L2 cache, each read, scaled, cast and written at once; the pieces
of
         one source part follow each other, channel after channel, on several threads.
Source   the per-channel walk: facts of NHWC to NCHW copies, `copy_plan.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime import cpu
from . import cast, copy_compiled, quiet

_uint8, _float64 = np.dtype(np.uint8), np.dtype(np.float64)
# Elements of a piece: with its scratch and index array it stays in the L2 cache.
_PIECE = 1 << 16
# Of one that is computed in place, without a scratch: fewer waits for the GIL. Images of 224² are
# packed in two thirds of the time, eight planes at a time (bench/pack.py).
_PIECE_IN_PLACE = 1 << 18
# A second thread pays from here on, in elements.
_PARALLEL_FROM = 1 << 19

Step = Callable[[np.ndarray, np.ndarray, Any, Any], None]


def pack(dst: np.ndarray, src: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> None:
    """Write `src`, scaled, into `dst` of the same sizes (N, C, …); they share no memory.

    scale, bias: a number per channel. Silences itself: call it without `quiet`.
    """
    if dst.size == 0:
        return
    compute = np.dtype(np.float64 if _float64 in (dst.dtype, src.dtype) else np.float32)
    scale, bias = (x.astype(np.float32).astype(compute) for x in (scale, bias))
    threads = cpu.get_num_threads() if dst.size >= _PARALLEL_FROM else 1
    rows = _pixels_alike(dst, src)
    if loops(dst, src) == "compiled":
        if rows is not None:
            _compiled_rows(*rows, scale, bias, threads)
        else:
            _compiled_walk(dst, src, scale, bias, threads)
    elif rows is not None:
        _rows(*rows, scale, bias, compute, threads)
    else:
        _planes(dst, src, scale, bias, compute, threads)


def loops(dst: np.ndarray, src: np.ndarray) -> str:
    """Whose loops a call takes: "compiled" or "NumPy's"."""
    if copy_compiled.of_pack(dst.dtype, src.dtype) is None or dst.ndim < 3 or not dst.size:
        return "NumPy's"
    if dst.ndim == 3:
        dst, src = dst[None], src[None]
    is_aligned = dst.flags.aligned and src.flags.aligned
    return "compiled" if is_aligned and _collapsed(dst, src) is not None else "NumPy's"


def _pixels_alike(dst: np.ndarray, src: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Both sides as (rows, channels of all pixels in a row), where both keep channels innermost."""
    last = dst.ndim - 1
    for x in (dst, src):
        if x.strides[1] != x.itemsize or x.strides[last] != x.itemsize * x.shape[1]:
            return None
    order = [0, *range(2, last + 1), 1]
    wide = dst.shape[1] * dst.shape[last]
    try:
        to, source = [x.transpose(order).reshape(-1, wide, copy=False) for x in (dst, src)]
        return to, source
    except ValueError:  # rows that no single stride reaches
        return None


def _rows(
    dst: np.ndarray, src: np.ndarray, scale: np.ndarray, bias: np.ndarray, compute: np.dtype,
    threads: int,
) -> None:  # fmt: skip
    count, wide = dst.shape
    pixels = wide // scale.size
    tables = _tables(dst.dtype, src.dtype, scale, bias)
    rows_of_tables = np.tile(np.arange(scale.size) * 256, pixels)
    scale, bias = np.tile(scale, pixels), np.tile(bias, pixels)
    target = _PIECE_IN_PLACE if dst.dtype == compute else _PIECE
    step = max(1, target // wide)

    def make() -> Callable[[int], None]:
        write = _writer(dst.dtype, compute)
        look_up = None if tables is None else _looker(tables.reshape(-1))

        def piece(index: int) -> None:
            where = slice(index * step, index * step + step)
            if look_up is not None:
                look_up(dst[where], src[where], rows_of_tables)
            else:
                quiet.run(write, dst[where], src[where], scale, bias)

        return piece

    cpu.share(-(-count // step), threads, make)


def _planes(
    dst: np.ndarray, src: np.ndarray, scale: np.ndarray, bias: np.ndarray, compute: np.dtype,
    threads: int,
) -> None:  # fmt: skip
    """A few channels of a few rows at a time, the channels of the same rows one after another; of
    small images several at a time."""
    images, channels, lines = dst.shape[:3]
    line = dst[0, 0, 0].size
    target = _PIECE_IN_PLACE if dst.dtype == compute and _is_dense(dst) else _PIECE
    lines_each = min(lines, max(1, target // line))
    # Of many small channels several make a piece; a single one has numbers for scale and bias.
    channels_each = min(channels, max(1, _PIECE // (line * lines_each)))
    each = line * lines_each * channels_each
    images_each = min(images, max(1, target // each)) if lines_each == lines else 1
    groups, parts = -(-channels // channels_each), -(-lines // lines_each)
    tables = _tables(dst.dtype, src.dtype, scale, bias)
    shape = (channels_each, *(1,) * (dst.ndim - 2))

    def make() -> Callable[[int], None]:
        write = _writer(dst.dtype, compute)
        look_up = None if tables is None or channels_each > 1 else _looker(tables.reshape(-1))

        def piece(index: int) -> None:
            rest, group = divmod(index, groups)
            begin, part = divmod(rest, parts)
            image = slice(begin * images_each, begin * images_each + images_each)
            first = group * channels_each
            some = slice(part * lines_each, part * lines_each + lines_each)
            if channels_each == 1:
                to, source = dst[image, first, some], src[image, first, some]
                if look_up is not None:
                    look_up(to, source, 256 * first)
                else:
                    quiet.run(write, to, source, scale[first], bias[first])
                return
            which = slice(first, first + channels_each)
            by, plus = scale[which].reshape(-1, *shape[1:]), bias[which].reshape(-1, *shape[1:])
            quiet.run(write, dst[image, which, some], src[image, which, some], by, plus)

        return piece

    cpu.share(-(-images // images_each) * groups * parts, threads, make)


def _is_dense(dst: np.ndarray) -> bool:
    """Whether all but the first dimension are dense."""
    return bool(dst[0].flags.c_contiguous)


def _writer(of: np.dtype, compute: np.dtype) -> Step:
    """What does one piece. In place where dst is what is computed in, else through a scratch."""
    if of == compute:

        def in_place(dst: np.ndarray, src: np.ndarray, scale: Any, bias: Any) -> None:
            if _is_dense(dst):
                cast.convert_into(dst, src)
                np.multiply(dst, scale, out=dst)
                np.add(dst, bias, out=dst)
            else:
                through(dst, src, scale, bias)

        through = _through_scratch(compute)
        return in_place
    return _through_scratch(compute)


def _through_scratch(compute: np.dtype) -> Step:
    scratch, whole = np.empty(0, compute), np.empty(0, np.int32)

    def step(dst: np.ndarray, src: np.ndarray, scale: Any, bias: Any) -> None:
        nonlocal scratch, whole
        if scratch.size < src.size:
            scratch, whole = np.empty(src.size, compute), np.empty(src.size, np.int32)
        part = scratch[: src.size].reshape(src.shape)
        cast.convert_into(part, src)
        np.multiply(part, scale, out=part)
        np.add(part, bias, out=part)
        if dst.dtype.kind not in "iu":
            cast.convert_into(dst, part)
        elif dst.itemsize > 2:
            np.copyto(dst, _quantised(part, dst.dtype))
        else:
            limits = np.iinfo(dst.dtype)
            _round_between(part, limits.min, limits.max)
            # NumPy casts to int32 with SIMD, and from there in the loop that stores.
            integers = whole[: src.size].reshape(src.shape)
            np.copyto(integers, part, casting="unsafe")
            np.copyto(dst, integers, casting="unsafe")

    return step


def _round_between(x: np.ndarray, low: int, high: int) -> None:
    np.rint(x, out=x)
    if low < 0 and np.isnan(x.min()):
        x[np.isnan(x)] = 0
    np.fmax(x, low, out=x)  # the number where the other one is NaN
    np.fmin(x, high, out=x)


def _quantised(x: np.ndarray, of: np.dtype) -> np.ndarray:
    """For integers of 32 and 64 bits, whose largest value no float has: the first above does."""
    limits = np.iinfo(of)
    rounded = np.rint(x)
    above, least = 2.0 ** (8 * of.itemsize - (of.kind == "i")), float(limits.min)
    fits = (rounded < above) & (rounded >= least)
    found = cast.convert(np.where(fits, rounded, 0).astype(x.dtype), of)
    found[rounded >= above] = limits.max
    found[rounded < least] = limits.min
    return found


# --- compiled loops: copy_compiled.cpp has what they do ------------------------------------------

# Elements of a piece: a call is 3 us, and no other piece is long to wait for.
_COMPILED_PIECE = 1 << 17


def _compiled_rows(
    dst: np.ndarray, src: np.ndarray, scale: np.ndarray, bias: np.ndarray, threads: int
) -> None:
    count, wide = dst.shape
    loops = copy_compiled.of_pack(dst.dtype, src.dtype)
    assert loops is not None
    loop = loops[1]
    by, plus = (np.tile(x, wide // x.size) for x in (scale, bias))
    to, source, factors, sums = (cpu.address_of(x) for x in (dst, src, by, plus))
    step = max(1, _COMPILED_PIECE // wide)

    def piece(index: int) -> None:
        first = index * step
        loop(
            to + first * dst.strides[0], source + first * src.strides[0],
            min(step, count - first), *dst.strides[:1], *src.strides[:1], wide, factors, sums,
        )  # fmt: skip

    cpu.share(-(-count // step), threads, lambda: piece)


def _compiled_walk(
    dst: np.ndarray, src: np.ndarray, scale: np.ndarray, bias: np.ndarray, threads: int
) -> None:
    """Parts of the longest of images, rows and pixels; all channels of each."""
    loops, both = copy_compiled.of_pack(dst.dtype, src.dtype), _collapsed(dst, src)
    assert loops is not None and both is not None
    loop, (to, source) = loops[0], both
    sizes = [to.shape[d] for d in (0, 2, 3, 1)]
    steps = [(to.strides[d], source.strides[d]) for d in (0, 2, 3, 1)]
    dim = max(range(3), key=lambda d: sizes[d])
    part = max(1, min(sizes[dim], _COMPILED_PIECE * sizes[dim] // to.size))
    begin = cpu.address_of(to), cpu.address_of(source)
    factors, sums = cpu.address_of(scale), cpu.address_of(bias)

    def piece(index: int) -> None:
        first = index * part
        mine = [*sizes]
        mine[dim] = min(part, sizes[dim] - first)
        walk = np.array([(n, *step) for n, step in zip(mine, steps)], np.int64)
        at = [x + first * step for x, step in zip(begin, steps[dim])]
        loop(*at, cpu.address_of(walk), factors, sums)

    cpu.share(-(-sizes[dim] // part), threads, lambda: piece)


def _collapsed(dst: np.ndarray, src: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Both sides as (N, C, rows, pixels), as few rows as can be; None where that is no view."""
    n, c, last = *dst.shape[:2], dst.shape[-1]
    for shape in ((n, c, 1, dst[0, 0].size), (n, c, dst[0, 0].size // last, last)):
        try:
            to, source = [x.reshape(shape, copy=False) for x in (dst, src)]
            return to, source
        except ValueError:
            continue
    return None


# --- bytes to 16 bits: every value that can come out is computed once -----------------------------


def _tables(
    of: np.dtype, source: np.dtype, scale: np.ndarray, bias: np.ndarray
) -> np.ndarray | None:
    """(channels, 256): 2x, since NumPy casts f32 to f16 in software (bench/pack.py)."""
    if source != _uint8 or of.itemsize != 2 or of.kind in "iu":
        return None
    values = quiet.run(_scaled, np.arange(256).astype(scale.dtype), scale[:, None], bias[:, None])
    found: np.ndarray = quiet.run(cast.convert, values, of)
    return found


def _scaled(x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> Any:
    return x * scale + bias


def _looker(tables: np.ndarray) -> Callable[[np.ndarray, np.ndarray, Any], None]:
    places = np.empty(0, np.intp)
    found = np.empty(0, tables.dtype)
    words = tables.view(np.uint16)

    def look_up(dst: np.ndarray, src: np.ndarray, begin: Any) -> None:
        nonlocal places, found
        if places.size < src.size:
            places, found = np.empty(src.size, np.intp), np.empty(src.size, np.uint16)
        index, values = places[: src.size].reshape(src.shape), found[: src.size].reshape(src.shape)
        np.add(src, begin, out=index, dtype=np.intp)
        np.take(words, index, out=values, mode="clip")
        np.copyto(dst.view(np.uint16), values)

    return look_up
