"""segment_reduce: sums, means, products, maxima and minima of segments along a dimension.

A segment is a range of consecutive positions. The operator calls scatter_reduce; the index of a
position is the number of its segment. Positions outside of all segments go to an additional last
segment, which is dropped. Source: ATen/native/SegmentReduce.cpp.
"""

from __future__ import annotations

import math
from typing import Any

from .._generated import calls, functions
from ..core import dtype as dtypes, errors
from ..core.device import CPU
from ..structured import arguments
from ..tensor.tensor import Tensor

# Maps a reduction to its result for an empty segment, and to scatter_reduce's reduction.
_REDUCTIONS = {
    "sum": (0.0, "sum"), "mean": (0.0, "sum"), "prod": (1.0, "prod"),
    "max": (-math.inf, "amax"), "min": (math.inf, "amin"),
}  # fmt: skip

Runs = tuple[Tensor, Tensor]


def segment_reduce(
    key_set: int, data: Tensor, reduce: str, lengths: Tensor | None = None,
    indices: Tensor | None = None, offsets: Tensor | None = None, axis: int = 0,
    unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    op, given = "segment_reduce", data._geometry
    arguments.check_is_floating(op, "data", data)
    if reduce not in _REDUCTIONS:
        raise errors.must(op, "reduce", "be sum, mean, prod, max or min", reduce)
    if indices is not None:
        raise errors.must(op, "indices", "be None; use lengths or offsets", indices)
    if not given.numel or not given.ndim:
        raise errors.wrong_shape(op, "data", "have elements and dimensions", data)
    place = arguments.dim(op, axis, given.ndim)
    starts, ends = _runs(op, data, lengths, offsets, place, unsafe)
    count = ends._geometry.sizes[-1]
    start, name = _REDUCTIONS[reduce]
    x = calls.to_dtype(data, dtypes.float32) if given.dtype.itemsize == 2 else data
    sizes = (*given.sizes[:place], count + 1, *given.sizes[place + 1 :])
    bounds = initial if reduce in ("max", "min") else None
    made = calls.new_full(x, sizes, start if initial is None or bounds is not None else initial)
    index = _numbers(starts, ends, given.sizes[place], count)
    index = calls.expand(_beside(index, given.ndim - place - 1), given.sizes, False)
    made = calls.scatter_reduce_two(made, place, index, x, name, True)
    made = calls.contiguous(calls.narrow(made, place, 0, count))
    # Apply the initial value after the reduction, not as one of its operands. An element that
    # equals the initial value then receives the whole gradient.
    if bounds is not None:
        beyond = (calls.lt_Tensor if reduce == "max" else calls.gt_Tensor)(made, bounds)
        made = calls.masked_fill_Scalar(made, beyond, bounds)
    if reduce == "mean":
        size = _beside(calls.sub_Tensor(ends, starts), given.ndim - place - 1)
        if initial is not None:  # An empty segment then gives the initial value.
            size = calls.clamp_min(size, 1)
        made = calls.div_Tensor(made, size)
    return made if x is data else calls.to_dtype(made, given.dtype)


def _runs(
    op: str, data: Tensor, lengths: Tensor | None, offsets: Tensor | None, place: int, unsafe: bool
) -> Runs:
    """Return the begins and the ends of all segments."""
    arg, said = ("lengths", lengths) if offsets is None else ("offsets", offsets)
    if said is None:
        raise errors.must(op, "lengths", "be given where 'offsets' is not", None)
    given, sizes = said._geometry, data._geometry.sizes
    if given.dtype not in (dtypes.int32, dtypes.int64):
        raise errors.wrong_dtype(op, arg, "be int32 or int64", said)
    if given.ndim != place + 1 or given.sizes[:place] != sizes[:place]:
        raise errors.wrong_shape(op, arg, f"have the sizes of data up to dim {place}", said)
    if offsets is not None:
        n = given.sizes[-1] - 1
        if n < 0:
            raise errors.wrong_shape(op, arg, "hold a number at least", said)
        return calls.narrow(said, -1, 0, n), calls.narrow(said, -1, 1, n)
    if said._device is CPU and not unsafe and given.numel:
        if calls.lt_Tensor(said, 0).any():
            raise errors.must(op, arg, "hold no negative number", said)
        if calls.ne_Tensor(calls.sum_dim_IntList(said, (-1,), False), sizes[place]).any():
            raise errors.must(op, arg, f"sum to {sizes[place]} along dim {place}", said)
    ends = calls.cumsum(said, -1, dtype=None)
    return calls.sub_Tensor(ends, said), ends


def _numbers(starts: Tensor, ends: Tensor, n: int, count: int) -> Tensor:
    """Return the number of each position's segment, or `count` for positions outside of all
    segments."""
    batch = ends._geometry.sizes[:-1]
    places = functions.arange(n, device=ends._device)
    if not count:
        return calls.new_full(places, (*batch, n), 0)
    places = calls.contiguous(calls.expand(places, (*batch, n), False))
    ends = calls.contiguous(calls.to_dtype(ends, dtypes.int64))
    found = calls.searchsorted_Tensor(ends, places, False, True, None, None)
    is_before = calls.lt_Tensor(places, calls.narrow(starts, -1, 0, 1))
    return calls.masked_fill_Scalar(found, is_before, count)


def _beside(x: Tensor, behind: int) -> Tensor:
    """Return `x`, viewed with `behind` additional last dimensions of size 1."""
    return calls.view(calls.contiguous(x), (*x._geometry.sizes, *(1,) * behind))
