"""out[r] = op over the reduced axes of x.                                           family: reduce

Types    sum and mean accumulate in the compute dtype, f32 for f16 and bf16; amax, amin, any and
         all in the dtype of x. NaN propagates through amax and amin, and counts as true.
Order    fixed by the layout of x, so the same bits on every run: NumPy's pairwise sum along the
         axis that is contiguous, and blocks of rows summed apart along any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtype import COMPLEX, FLOATING, INTEGER, dtype
from . import cast

# (array, axes, dtype, out, keepdims), as np.ufunc.reduce, so that a bare one can be a loop.
Loop = Callable[..., Any]

# Additions in a row before a chain is cut: its error bound is this many halves of an ulp of the sum
# of magnitudes, and log2 of the rest.
_CHAIN = 256
# Elements that NumPy casts at a time, and within which it sums pairwise (np.getbufsize()).
_BUFFER = 8192
# NumPy's stubs know the arguments behind the array by name alone, which costs a dict a call.
_add: Callable[..., Any] = np.add.reduce

LOOPS = {
    "all": np.logical_and.reduce,
    "amax": np.maximum.reduce,
    "amin": np.minimum.reduce,
    "any": np.logical_or.reduce,
}

OPS = (*LOOPS, "mean", "nansum", "prod", "sum")


def bind(op: str, given: dtype, compute: dtype, out: dtype, numel: int | None = None) -> Loop:
    """The loop `(array, axes, None, out, keepdims)`; `axes` None or a tuple, `out` an ndarray.

    With `numel`, the elements of the input where the caller knows them, a small sum is the bare
    ufunc. Without an `out` a full reduction gives a NumPy scalar, and others NumPy's layout.
    """
    if op in LOOPS:
        return LOOPS[op]
    if given.category == COMPLEX and compute.category != COMPLEX:
        loop = bind(op, given.to_real, compute, out, numel)  # NumPy would warn at each call
        return lambda array, *args: loop(array.real, *args)
    if given.category == FLOATING and compute.category == INTEGER:
        whole = bind(op, compute, compute, out, numel)  # C's cast says nothing of NaN
        return lambda array, *args: whole(cast.convert(array, compute.np), *args)
    if op == "mean":
        return _mean(compute.np, out.np)
    if op == "prod":
        return _prod(compute.np)
    if op == "nansum" and given.category == FLOATING:
        plain = _sum(compute.np)
        return lambda array, *args: plain(_without_nan(array), *args)
    if numel is not None and numel <= _CHAIN and given is compute is out:
        return np.add.reduce
    return _sum(compute.np)


def _sum(compute: np.dtype) -> Loop:
    def loop(
        array: np.ndarray, axes: Any, unused: None = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        return sum_in_blocks(array, axes, compute, out, keepdims)

    return loop


def _without_nan(array: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(array), array.dtype.type(0), array)


def _prod(compute: np.dtype) -> Loop:
    def loop(
        array: np.ndarray, axes: Any, unused: None = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        return np.multiply.reduce(array, axes, compute, out, keepdims)

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
    """np.add.reduce, after long chains of single additions were cut into runs."""
    if compute.kind in "fc":
        while array.size > _CHAIN and (axis := _chained_axis(array, axes, compute)) is not None:
            array = _sums_of_runs(array, axis, compute)
    return _add(array, axes, compute, out, keepdims)


def _chained_axis(array: np.ndarray, axes: Any, compute: np.dtype) -> int | None:
    """The reduced axis that NumPy walks one addition at a time, if it is long enough to matter."""
    reduced = range(array.ndim) if axes is None else axes
    cast = array.dtype != compute
    if len(reduced) == array.ndim and not cast and array.flags.forc:
        return None  # one contiguous run, summed pairwise
    shape, strides = array.shape, array.strides
    axis: int | None = max(
        reduced, key=lambda d: abs(strides[d]) if shape[d] > 1 else -1, default=None
    )
    if axis is None or shape[axis] <= _CHAIN:
        return None
    innermost = min((d for d in range(array.ndim) if shape[d] > 1), key=lambda d: abs(strides[d]))
    if axis == innermost and (not cast or shape[axis] <= _BUFFER):
        return None
    return axis


def _sums_of_runs(array: np.ndarray, axis: int, compute: np.dtype) -> np.ndarray:
    """`array` with every `_CHAIN` neighbours along `axis` added up."""
    whole, rest = divmod(array.shape[axis], _CHAIN)
    before, after = array.shape[:axis], array.shape[axis + 1 :]
    lead = (slice(None),) * axis
    sums = np.empty((*before, whole + bool(rest), *after), compute)
    runs = array[(*lead, slice(whole * _CHAIN))].reshape(*before, whole, _CHAIN, *after)
    _add(runs, axis + 1, compute, sums[(*lead, slice(whole))])
    if rest:
        tail = array[(*lead, slice(whole * _CHAIN, None))]
        _add(tail, axis, compute, sums[(*lead, slice(whole, None))], True)
    return sums
