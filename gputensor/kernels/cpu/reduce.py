"""out[r] = op over the reduced axes of x.                                           family: reduce

Types    sum and mean accumulate in the compute dtype, f32 for f16 and bf16; amax, amin, any and all
         in the dtype of x. NaN propagates through amax and amin, and counts as true.
Order    determined by the layout of x, so every run gives the same bits. Along a contiguous axis it
         is NumPy's pairwise sum. Along other axes, runs of rows are summed separately.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.dtype import COMPLEX, FLOATING, INTEGER, complex32, complex64, dtype
from . import cast

# A loop has the arguments of np.ufunc.reduce (array, axes, dtype, out, keepdims), so that a ufunc's
# `reduce` can be a loop.
Loop = Callable[..., Any]

# The number of consecutive additions after which a chain is split. The error bound, in half ulps of
# the sum of magnitudes, is this number plus log2 of the number of chains.
CHAIN = 256
# The number of elements in NumPy's cast buffer (np.getbufsize()). NumPy sums pairwise only within a
# buffer.
_BUFFER = 8192
# NumPy's type stubs accept the arguments after the array only by name. Passing them by name would
# cost a dict per call.
_add: Callable[..., Any] = np.add.reduce

LOOPS: dict[str, Loop] = {
    "all": np.logical_and.reduce,
    "amax": np.maximum.reduce,
    "amin": np.minimum.reduce,
    "any": np.logical_or.reduce,
}

OPS = (*LOOPS, "mean", "nansum", "prod", "sum")


def bind(op: str, given: dtype, compute: dtype, out: dtype, numel: int | None = None) -> Loop:
    """Return the loop `(array, axes, None, out, keepdims)`. `axes` is None or a tuple, `out` an
    ndarray.

    numel: the number of elements, if known. A small sum is then computed by the ufunc itself.
    Without `out`, a full reduction returns a NumPy scalar, and other reductions return an array in
    NumPy's layout.
    """
    if given is complex32:  # Only `any` and `all` support complex32.
        wide = bind(op, complex64, complex64, out, numel)
        return lambda array, *args: wide(cast.readable(array), *args)
    if op in LOOPS:
        return LOOPS[op]
    if op == "count_nonzero":
        return _count_nonzero
    if given.category == COMPLEX and compute.category != COMPLEX:
        # Take the real part here, because NumPy would warn of the cast.
        loop = bind(op, given.to_real, compute, out, numel)
        return lambda array, *args: loop(array.real, *args)
    if given.category == FLOATING and compute.category == INTEGER:
        # Cast by our own rules, because C does not define the cast of NaN.
        whole = bind(op, compute, compute, out, numel)
        return lambda array, *args: whole(cast.convert(array, compute.np), *args)
    if op == "mean":
        return _mean(compute.np, out.np)
    if op == "prod":
        return _in_dtype(np.multiply.reduce, compute.np)
    if op == "nansum" and given.category == FLOATING:
        return _skipping_nan(_in_dtype(sum_in_blocks, compute.np))
    if numel is not None and numel <= CHAIN and given is compute is out:
        return np.add.reduce
    return _in_dtype(sum_in_blocks, compute.np)


def _count_nonzero(
    array: np.ndarray, axes: Any, unused: None = None, out: Any = None, keepdims: bool = False
) -> None:
    out[...] = np.count_nonzero(cast.readable(array), axes, keepdims=keepdims)


def _in_dtype(function: Loop, compute: np.dtype) -> Loop:
    """Return the loop of a reduction, which passes the dtype of the computation to `function`."""

    def loop(
        array: np.ndarray, axes: Any, unused: None = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        return function(array, axes, compute, out, keepdims)

    return loop


def _skipping_nan(plain: Loop) -> Loop:
    """Return a loop that sums all elements except NaN. The loop searches for NaN only if the plain
    sum is NaN."""

    def loop(array: np.ndarray, *args: Any) -> Any:
        found = plain(array, *args)
        if not np.isnan(found).any():
            return found
        return plain(np.where(np.isnan(array), array.dtype.type(0), array), *args)

    return loop


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
    """Return the sum, as np.add.reduce does. Where np.add.reduce would add more than CHAIN elements
    one after another, first replace each group of CHAIN elements by its sum."""
    if compute.kind in "fc":
        while array.size > CHAIN and (axis := _chained_axis(array, axes, compute)) is not None:
            array = _sums_of_runs(array, axis, compute)
    return _add(array, axes, compute, out, keepdims)


def _chained_axis(array: np.ndarray, axes: Any, compute: np.dtype) -> int | None:
    """Return the reduced axis along which NumPy adds one element at a time. Return None if there is
    no such axis or the axis is short."""
    cast = array.dtype != compute
    if not cast and array.flags.forc and (axes is None or len(axes) == array.ndim):
        return None  # NumPy sums a single contiguous run pairwise.
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
    """Return the sum of each group of `CHAIN` neighbouring elements along `axis`."""
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
