"""out[r] = op over the reduced axes of x.                                           family: reduce

Types    sum and mean accumulate in the compute dtype, f32 for f16 and bf16; amax, amin, any and
         all in the dtype of x. NaN propagates through amax and amin, and counts as true.
Order    fixed by the layout of x, so the same bits on every run: NumPy's pairwise sum along the
         axis that is contiguous, and blocks of rows summed apart along any other. All of a few
         floats are added up in row-major order, as OpenBLAS does for their product with ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.dtype import (
    BOOL, COMPLEX, FLOATING, INTEGER, complex32, complex64, dtype, float16, float32, float64,
)  # fmt: skip
from ...runtime import cpu
from . import cast, quiet

# (array, axes, dtype, out, keepdims), as np.ufunc.reduce, so that a bare one can be a loop.
Loop = Callable[..., Any]

# Additions in a row before a chain is cut: its error bound is this many halves of an ulp of the sum
# of magnitudes, and log2 of the rest.
CHAIN = 256
# Elements that NumPy casts at a time, and within which it sums pairwise (np.getbufsize()).
_BUFFER = 8192
# NumPy's stubs know the arguments behind the array by name alone, which costs a dict a call.
_add: Callable[..., Any] = np.add.reduce

LOOPS: dict[str, Loop] = {
    "all": np.logical_and.reduce,
    "amax": np.maximum.reduce,
    "amin": np.minimum.reduce,
    "any": np.logical_or.reduce,
}

OPS = (*LOOPS, "mean", "nansum", "prod", "sum")


def bind(op: str, given: dtype, compute: dtype, out: dtype, numel: int | None = None) -> Loop:
    """`bind_whole`, in blocks where the input is known to be large."""
    if given is complex32:  # any and all
        wide = bind_whole(op, complex64, complex64, out, numel)
        return lambda array, *args: wide(cast.readable(array), *args)
    loop = bind_whole(op, given, compute, out, numel)
    is_half = given.category == FLOATING and given.itemsize == 2
    if op in LOOPS and is_half and out is given and numel is not None and numel >= _BUFFER:
        loop = _by_bits(op, 0x7C00 if given is float16 else 0x7F80)
    if numel is None or numel < (_HALVES_FROM if is_half else _BLOCKS_FROM):
        return loop
    if op in LOOPS:
        return in_blocks(loop, loop, loop, out.np, not is_half)
    ends = {"nansum": "sum"}.get(op, op)
    whole = bind_whole(ends, compute, compute, out)
    if given is float16 and compute is float32:
        kept = bind_whole(op, compute, compute, out, numel)
        loop = lambda array, *args: kept(cast.widened(array), *args)  # noqa: E731
        wide = bind_whole("sum" if op == "mean" else op, compute, compute, compute)
        block = lambda array, *args: wide(cast.widened(array), *args)  # noqa: E731
        last = _divided(compute.np, numel) if op == "mean" else whole
        return in_blocks(loop, block, last, compute.np)
    if op == "mean":
        sums = bind_whole("sum", given, compute, compute)
        return in_blocks(loop, sums, _divided(compute.np, numel), compute.np, given is compute)
    one = bind_whole(op, given, compute, compute)
    return in_blocks(loop, one, whole, compute.np, given is compute)


# Elements from which on a reduction is cut into blocks of so many, for two threads; those of 16-bit
# floats are cast into the cache. Functions of the sizes alone, and so is the order of a sum.
_BLOCKS_FROM, _HALVES_FROM, _BLOCK = 1 << 21, 1 << 17, 1 << 16
# Blocks that are worth a thread; and how many there are of large operands, where nothing is made
# that should stay in the cache.
_PER_THREAD, _BLOCKS = 6, 16


class in_blocks:
    """A reduction in blocks of the slowest axis: `kept` of a block where that axis stays; else
    `block`, and `whole` of what the blocks leave behind, each of dtype `part`."""

    __slots__ = ("kept", "block", "whole", "part", "makes_none")

    def __init__(
        self, kept: Loop, block: Loop, whole: Loop, part: np.dtype, makes_none: bool = False
    ) -> None:
        self.kept, self.block, self.whole = kept, block, whole
        self.part, self.makes_none = part, makes_none

    def rows(self, size: int, rows: int) -> int:
        """How many of an array's rows a block has; size: elements of the array."""
        wanted = max(_BLOCK, size // _BLOCKS) if self.makes_none else _BLOCK
        return max(wanted * rows // size, 1)

    def __call__(
        self, array: np.ndarray, axes: Any, unused: None = None, out: Any = None,
        keepdims: bool = False,
    ) -> Any:  # fmt: skip
        reduced = range(array.ndim) if axes is None else axes
        shape, strides = array.shape, array.strides
        axis = max(range(array.ndim), key=lambda d: abs(strides[d]) if shape[d] > 1 else -1)
        rows = self.rows(array.size, shape[axis])
        count, stays = -(-shape[axis] // rows), axis not in reduced
        lead: tuple[slice, ...] = (slice(None),) * axis
        to: tuple[slice, ...] = (slice(None),) * (
            axis if keepdims else axis - sum([d < axis for d in reduced])
        )
        parts = None if stays else np.empty((count, *out.shape), self.part)
        kept, block = self.kept, self.block

        def work(number: int) -> None:
            piece = slice(number * rows, (number + 1) * rows)
            if parts is None:
                quiet.run(kept, array[(*lead, piece)], axes, None, out[(*to, piece)], keepdims)
            else:
                into = parts[number, ...]
                quiet.run(block, array[(*lead, piece)], axes, None, into, keepdims)

        cpu.share(count, count // _PER_THREAD, lambda: work)
        if parts is not None:
            self.whole(parts, (0,), None, out, False)
        return out


def _divided(compute: np.dtype, numel: int) -> Loop:
    """The mean of `numel` elements from sums of their blocks."""

    def loop(array: np.ndarray, axes: Any, unused: None, out: Any, keepdims: bool) -> Any:
        total = sum_in_blocks(array, axes, compute, None, keepdims)
        return np.true_divide(total, numel / out.size, out, casting="unsafe")

    return loop


def _by_bits(op: str, infinite: int) -> Loop:
    """An extreme of 16-bit floats, looked for among integers in their order: `infinite` is
    infinity's. Beyond it are NaN, and beyond its negative those with a sign."""

    def of_keys(
        array: np.ndarray, axes: Any, unused: None = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        bits = array.view(np.int16)
        keys = bits >> 15
        keys &= 0x7FFF
        keys ^= bits
        least, most = [
            np.asarray(LOOPS[extreme](keys, axes, None, None, keepdims))
            for extreme in ("amin", "amax")
        ]
        found = most if op == "amax" else least
        found = found ^ (found >> 15 & 0x7FFF)
        has_nan = (most > infinite) | (least < ~infinite)
        if has_nan.any():
            found = np.where(has_nan, np.int16(0x7FFF), found)
        out.view(np.int16)[...] = found
        return out

    return of_keys


def bind_whole(op: str, given: dtype, compute: dtype, out: dtype, numel: int | None = None) -> Loop:
    """The loop `(array, axes, None, out, keepdims)`; `axes` None or a tuple, `out` an ndarray.

    With `numel`, the elements of the input where the caller knows them, a small sum is the bare
    ufunc. Without an `out` a full reduction gives a NumPy scalar, and others NumPy's layout.
    """
    if op in LOOPS:
        return LOOPS[op]
    if given.category == COMPLEX and compute.category != COMPLEX:
        loop = bind_whole(op, given.to_real, compute, out, numel)  # NumPy would warn at each call
        return lambda array, *args: loop(array.real, *args)
    if given.category == FLOATING and compute.category == INTEGER:
        whole = bind_whole(op, compute, compute, out, numel)  # C's cast says nothing of NaN
        return lambda array, *args: whole(cast.convert(array, compute.np), *args)
    if op == "mean":
        return _mean(compute.np, out.np)
    if op == "prod":
        return _prod(compute.np)
    if op == "nansum" and given.category == FLOATING:
        plain = _sum(compute.np)
        return _skipping_nan(plain)
    if given.category == BOOL and compute.category == INTEGER:
        return _count
    if numel is not None and numel <= CHAIN and given is compute is out:
        return _small_sum(given.np, numel) if given in _BY_PRODUCT else np.add.reduce
    return _sum(compute.np)


# What OpenBLAS adds up faster: its products of vectors this short are the same on every run,
# wherever the operands lie. Other libraries say nothing of the kind.
_config: Any = np.show_config(mode="dicts")
_blas = _config.get("Build Dependencies", {}).get("blas", {}).get("name", "")
_BY_PRODUCT = frozenset((float32, float64) if "openblas" in _blas else ())


def _small_sum(element: np.dtype, numel: int) -> Loop:
    """np.add.reduce; of all elements, their product with ones, which takes half the time.

    ones: of the loop, for who writes it out. A product begins with 0.0, which is not what the sum
    of nothing but -0.0 is.
    """
    ones = np.ones(numel, element)

    def loop(
        array: np.ndarray, axes: Any, unused: None = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        if axes is None and out is not None and not keepdims and out.flags.carray:
            array.ravel().dot(ones, out)
            if out:
                return out
        return _add(array, axes, element, out, keepdims)

    found: Any = loop
    found.ones = ones
    return loop


def _count(
    array: np.ndarray, axes: Any, unused: None = None, out: Any = None, keepdims: bool = False
) -> Any:
    """How many of bool are true; NumPy counts in vectors where it counts them all."""
    if out is None or out.size != 1:
        return _add(array, axes, np.int64 if out is None else out.dtype, out, keepdims)
    out[...] = np.count_nonzero(array)
    return out


def _sum(compute: np.dtype) -> Loop:
    def loop(
        array: np.ndarray, axes: Any, unused: None = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        return sum_in_blocks(array, axes, compute, out, keepdims)

    return loop


def _skipping_nan(plain: Loop) -> Loop:
    """A sum that looks for NaN where it has come out as one."""

    def loop(array: np.ndarray, *args: Any) -> Any:
        found = plain(array, *args)
        if not np.isnan(found).any():
            return found
        return plain(np.where(np.isnan(array), array.dtype.type(0), array), *args)

    return loop


def _prod(compute: np.dtype) -> Loop:
    reduce: Any = np.multiply.reduce

    def loop(
        array: np.ndarray, axes: Any, unused: None = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        reduced = range(array.ndim) if axes is None else axes
        last = array.ndim - 1
        if last in reduced and array.strides[-1] == array.itemsize and array.shape[-1] >= 64:
            array = _products_of_lanes(array, compute)
        return reduce(array, axes, compute, out, keepdims)

    return loop


def _products_of_lanes(array: np.ndarray, compute: np.dtype) -> np.ndarray:
    """`array` with what stands apart on its last axis, which is contiguous, multiplied in vectors:
    NumPy multiplies one after the other."""
    n = array.shape[-1]
    lanes = 1 << (n.bit_length() // 2 + 1)
    whole = n // lanes * lanes
    rows = array[..., :whole].reshape(*array.shape[:-1], n // lanes, lanes)
    found: np.ndarray = np.multiply.reduce(rows, -2, compute)
    if whole < n:
        head = found[..., : n - whole]
        np.multiply(head, array[..., whole:], head, casting="unsafe")
    return found


def _mean(compute: np.dtype, to: np.dtype) -> Loop:
    def loop(
        array: np.ndarray, axes: Any, unused: None = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        total = np.asarray(sum_in_blocks(array, axes, compute, None, keepdims))
        count = array.size / total.size if total.size else 1.0
        if out is None:
            return np.true_divide(total, count).astype(to, copy=False)
        return np.true_divide(total, count, out, casting="unsafe")

    return loop


def sum_in_blocks(array: np.ndarray, axes: Any, compute: np.dtype, out: Any, keepdims: bool) -> Any:
    """np.add.reduce, after long chains of single additions were cut into runs."""
    if compute.kind in "fc":
        while array.size > CHAIN and (axis := _chained_axis(array, axes, compute)) is not None:
            array = _sums_of_runs(array, axis, compute)
    return _add(array, axes, compute, out, keepdims)


def _chained_axis(array: np.ndarray, axes: Any, compute: np.dtype) -> int | None:
    """The reduced axis that NumPy walks one addition at a time, if it is long enough to matter."""
    cast = array.dtype != compute
    if not cast and array.flags.forc and (axes is None or len(axes) == array.ndim):
        return None  # one contiguous run, summed pairwise
    return _longest(array.shape, array.strides, None if axes is None else tuple(axes), cast)


@lru_cache(maxsize=1024)
def _longest(
    shape: tuple[int, ...], strides: tuple[int, ...], axes: tuple[int, ...] | None, cast: bool
) -> int | None:
    dims = range(len(shape))
    reduced = dims if axes is None else axes
    axis: int | None = max(
        reduced, key=lambda d: abs(strides[d]) if shape[d] > 1 else -1, default=None
    )
    if axis is None or shape[axis] <= CHAIN:
        return None
    innermost = min((d for d in dims if shape[d] > 1), key=lambda d: abs(strides[d]))
    if axis == innermost and (not cast or shape[axis] <= _BUFFER):
        return None
    return axis


def _sums_of_runs(array: np.ndarray, axis: int, compute: np.dtype) -> np.ndarray:
    """`array` with every `CHAIN` neighbours along `axis` added up."""
    whole, rest = divmod(array.shape[axis], CHAIN)
    before, after = array.shape[:axis], array.shape[axis + 1 :]
    lead = (slice(None),) * axis
    sums = np.empty((*before, whole + bool(rest), *after), compute)
    runs = array[(*lead, slice(whole * CHAIN))].reshape(*before, whole, CHAIN, *after)
    _add(runs, axis + 1, compute, sums[(*lead, slice(whole))])
    if rest:
        tail = array[(*lead, slice(whole * CHAIN, None))]
        _add(tail, axis, compute, sums[(*lead, slice(whole, None))], True)
    return sums
