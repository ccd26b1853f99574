"""Order statistics along one dimension: median, mode, kthvalue, quantile.

A row is sorted stably, with NaN last. Of equal elements, `mode` returns the last index and the
other operators return the first. PyTorch does not specify the choice. Source:
aten/src/ATen/native/Sorting.cpp, cpu/SortingKernel.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.dtype import BOOL, COMPLEX, FLOATING
from ..core.geometry import contiguous_geometry
from ..dispatch import shortcuts
from ..dispatch.keys import BATCHED
from ..dispatch.operator import Table
from ..kernels import stub
from ..runtime import cpu
from ..structured import arguments, library
from ..structured.forms import Kernel, given
from ..structured.shortcuts import results as short
from ..tensor.tensor import Tensor
from .sort import places_in_order, taken
from .view import reshape, squeeze_dim, view

BY_LIBRARY = True

Pair = tuple[Tensor, Tensor]


def _checked(op: str, self: Tensor, dim: Any, keepdim: Any) -> tuple[Tensor, int]:
    """Check the arguments. Return self, viewed as 1-d if it is 0-d, and the checked dimension."""
    given = self._geometry
    if given.dtype.category == COMPLEX or given.dtype.category == BOOL and op != "mode":
        rule = "be real" if given.dtype.category == COMPLEX else "not be bool"
        raise errors.wrong_dtype(op, "self", rule, self)
    arguments.boolean(op, "keepdim", keepdim)
    axis = arguments.dim(op, dim, given.ndim)
    if given.ndim and given.sizes[axis] == 0:
        raise errors.wrong_index(op, "dim", "name a dimension of non-zero size", axis)
    return (self if given.ndim else calls.view(self, (1,))), axis


def _finished(self: Tensor, found: Pair, keepdim: bool, axis: int) -> Pair:
    if not self._geometry.ndim:
        return calls.view(found[0], ()), calls.view(found[1], ())
    if keepdim:
        return found
    return calls.squeeze_dim(found[0], axis), calls.squeeze_dim(found[1], axis)


def _select(op: str, compute: Any, x: Tensor, axis: int, *rest: Any) -> Pair:
    """Return values and indices, both of size 1 along the axis. `compute(library, array, axis,
    *rest)` returns the indices."""
    of = x._geometry.dtype
    wide = calls.to_dtype(x, dtypes.float32) if of is dtypes.bfloat16 else x
    sizes = tuple([1 if d == axis else n for d, n in enumerate(x._geometry.sizes)])
    layouts = [contiguous_geometry(sizes, t) for t in (wide._geometry.dtype, dtypes.int64)]

    def both(library: Any, array: Any, *given: Any) -> Any:
        found = None if library.is_gpu else _by_loop(op, array.dtype)(array, axis, sizes, *rest)
        if found is not None:
            return found
        places = compute(library, array, *given)
        return taken(library, array, places, given[0]), places

    values, places = library.call(op, both, layouts, wide, axis, *rest)
    return (calls.to_dtype(values, of) if of is dtypes.bfloat16 else values), places


def _by_loop(op: str, of: Any) -> Callable[..., Any]:
    """Return a function that computes an operator of arrays of a dtype by the CPU's loop.

    The function takes an array, the axis, the sizes of the results and k, which only "kthvalue"
    has. It returns values and indices, or None if there is no loop for the array.
    """
    name, of = "kth" if op == "kthvalue" else op, numpy.dtype("u1") if of.kind == "b" else of
    write = stub.cpu("order").statistic(name, of)

    def compute(x: Any, axis: int, sizes: tuple[int, ...], k: int = 0) -> Any:
        if write is None or not x.size:
            return None
        if axis != x.ndim - 1:
            x = x.transpose(*range(axis), *range(axis + 1, x.ndim), axis)
        values, places = cpu.empty(sizes, x.dtype), cpu.empty(sizes, _INT64)
        rows = x.reshape(-1, x.shape[-1]).view(of)
        return (values, places) if write(values.view(of), places, rows, k) else None

    return compute


_INT64 = numpy.dtype(numpy.int64)


def _learn(
    table: Table, kernel: Kernel, op: str, args: tuple[Any, ...], made: Any, axis: int, *rest: Any
) -> None:
    """Store the short cut of a call. args: the arguments of the call, self first. made: its result
    or results. rest: as in `_by_loop`."""
    of, is_one = args[0]._geometry, type(made) is not tuple
    if of.dtype is dtypes.bfloat16:
        return
    sizes = (of.numel,) if is_one else of.sizes or (1,)
    shape = (made if is_one else made[0])._geometry.sizes
    compute = _by_loop(op, of.dtype.np)

    def both(array: Any) -> Any:
        found = compute(array.reshape(sizes), axis, shape, *rest)
        return found[0] if is_one and found is not None else found

    short.learn(table, kernel, args, made, both, is_new=True)


def _kth(library: Any, x: Any, axis: int, k: int) -> Any:
    """Return the index of the k-th element of each row. Equal elements are ordered by their
    indices."""
    order = library.np.argsort(x, axis=axis, kind="stable")
    return library.np.take(order, library.np.arange(k, k + 1), axis=axis)


def _median(library: Any, x: Any, axis: int, ignores_nan: bool) -> Any:
    """Return the index of the median, or of the lower one of two medians. For a row with NaN,
    return the index of the first NaN, unless NaN is ignored."""
    np = library.np
    n = x.shape[axis]
    if x.dtype.kind != "f":
        return _kth(library, x, axis, (n - 1) // 2)
    nans = np.sum(np.isnan(x), axis=axis, keepdims=True)
    order = places_in_order(library, x, axis, False)
    middle = np.maximum((n - nans - 1) // 2, 0)
    if not ignores_nan:  # A stable sort puts NaN last.
        middle = np.where(nans > 0, n - nans, (n - 1) // 2)
    return np.take_along_axis(order, middle, axis)


def kthvalue(key_set: int, self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    x, axis = _checked("kthvalue", self, dim, keepdim)
    n = x._geometry.sizes[axis]
    number = arguments.integer("kthvalue", "k", k)
    if not 1 <= number <= n:
        raise errors.must("kthvalue", "k", f"be in [1, {n}]", number)
    made = _finished(self, _select("kthvalue", _kth, x, axis, number - 1), keepdim, axis)
    args = (self, k, dim, keepdim)
    _learn(operators.kthvalue.table, kthvalue, "kthvalue", args, made, axis, number - 1)
    return made


def _medians(op: str) -> tuple[Kernel, Kernel]:
    """Make the kernels of `median` or `nanmedian`: along a dimension, and over all elements."""
    compute = partial(_median, ignores_nan=op == "nanmedian")

    def along(key_set: int, self: Tensor, dim: int, keepdim: bool = False) -> Pair:
        x, axis = _checked(op, self, dim, keepdim)
        made = _finished(self, _select(op, compute, x, axis), keepdim, axis)
        table = getattr(operators, f"{op}_dim").table
        _learn(table, along, op, (self, dim, keepdim), made, axis)
        return made

    def of_all(key_set: int, self: Tensor) -> Tensor:
        shape = self._geometry
        if shape.numel == 0:
            if shape.dtype.category != FLOATING:
                raise errors.must(op, "self", "have elements, as its dtype has no NaN", self)
            return calls.full_like(calls.new_empty(self, ()), float("nan"))
        made = along(key_set, calls.reshape(self, (shape.numel,)), 0)[0]
        _learn(getattr(operators, op).table, of_all, op, (self,), made, 0)
        return made

    return along, of_all


median_dim, median = _medians("median")
nanmedian_dim, nanmedian = _medians("nanmedian")


def mode(key_set: int, self: Tensor, dim: int = -1, keepdim: bool = False) -> Pair:
    x, axis = _checked("mode", self, dim, keepdim)
    made = _finished(self, _select("mode", _mode, x, axis), keepdim, axis)
    _learn(operators.mode.table, mode, "mode", (self, dim, keepdim), made, axis)
    return made


for _kernel in (kthvalue, mode, median_dim, nanmedian_dim, median, nanmedian):
    shortcuts.jumps(_kernel, lambda: (
        (operators.view, shortcuts.CPU, view),
        (operators.squeeze_dim, shortcuts.CPU, squeeze_dim),
        (operators.reshape, shortcuts.CPU, reshape),
    ))  # fmt: skip


def _mode(library: Any, x: Any, axis: int) -> Any:
    """Return the index of the mode in each row. The mode is the smallest of the most frequent
    values. The index is that of its last occurrence."""
    np = library.np
    order = places_in_order(library, x, axis, False)
    rows = np.moveaxis(np.take_along_axis(x, order, axis), axis, -1)
    n = rows.shape[-1]
    ends = np.ones(rows.shape, bool)
    ends[..., :-1] = rows[..., 1:] != rows[..., :-1]
    # A run is a sequence of equal elements. `before` is the index of each element's run in its row.
    before = np.cumsum(ends, -1) - ends
    numbers = np.arange(rows.size // n if n else 0).reshape((*rows.shape[:-1], 1)) * n
    lengths = np.bincount((before + numbers).reshape(-1), minlength=rows.size)
    lengths = np.take(lengths, before + numbers)
    last = np.argmax(np.where(ends, lengths, 0), -1)
    return np.take_along_axis(order, np.expand_dims(last, axis), axis)


# --- quantiles ------------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    key_set: int, op: str, self: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str
) -> Tensor:
    """Compute quantiles. q: a tensor or a number."""
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise errors.must(op, "q", "be in [0, 1]", q)
        q = calls.full_like(calls.new_empty(self, ()), q)
    given, of = self._geometry, self._geometry.dtype
    ignores_nan = op == "nanquantile"
    if of not in (dtypes.float32, dtypes.float64):
        raise errors.wrong_dtype(op, "self", "be float32 or float64", self)
    if q._geometry.ndim > 1:
        raise errors.wrong_shape(op, "q", "have at most one dimension", q)
    arguments.check_alike(op, "self", self, "q", q)
    if interpolation not in _INTERPOLATIONS:
        rule = f"be one of {', '.join(_INTERPOLATIONS)}"
        raise errors.wrong_value(op, "interpolation", rule, interpolation)
    if given.numel == 0:
        raise errors.must(op, "self", "have elements", self)
    # As in PyTorch, the values of q are checked only on the CPU and not under vmap.
    is_seen = q._device.type == "cpu" and not q._keys & BATCHED
    if is_seen and not bool(calls.all((q >= 0) * (q <= 1))):
        raise errors.must(op, "q", "be in [0, 1]", q)
    ndim = given.ndim
    x = calls.reshape(self, (given.numel,)) if dim is None or not ndim else self
    axis = 0 if dim is None else arguments.dim(op, dim, ndim)
    x = calls.movedim_int(x, axis, -1)
    found = _between_ranks(x, q, interpolation, ignores_nan)
    kept = x._geometry.sizes[:-1]
    if keepdim and ndim:
        where = axis if dim is not None else 0
        kept = (*kept[:where], 1, *kept[where:]) if dim is not None else (1,) * ndim
    if q._geometry.ndim == 0:
        return calls.reshape(found, kept)
    count = q._geometry.numel
    return calls.movedim_int(calls.reshape(found, (*kept, count)), -1, 0)


def _between_ranks(x: Tensor, q: Tensor, interpolation: str, ignores_nan: bool) -> Tensor:
    """Return quantiles, interpolated along the last dimension of x, for each q."""
    n = x._geometry.sizes[-1]
    ordered = calls.sort(x)[0]
    is_nan = ordered != ordered
    q = calls.reshape(q, (-1,))
    if ignores_nan:
        last = calls.sum_dim_IntList(is_nan, (-1,), True, dtype=None) * -1 + (n - 1)
        ranks = q * calls.where_self(last < 0, 0, last)
    else:
        whole = calls.any_dim(is_nan, -1, True)
        ranks = calls.where_self(whole, float(n - 1), q * (n - 1))
    ranks = calls.expand(ranks, (*x._geometry.sizes[:-1], q._geometry.numel))
    if interpolation in ("lower", "higher", "nearest"):
        whole_of = {"lower": calls.floor, "higher": calls.ceil, "nearest": calls.round}
        ranks = whole_of[interpolation](ranks)
    below = calls.to_dtype(ranks, dtypes.int64)
    low = calls.gather(ordered, -1, below)
    if interpolation not in ("linear", "midpoint"):
        return low
    weight: Any = 0.5 if interpolation == "midpoint" else ranks - below
    if interpolation == "midpoint":
        weight = calls.full_like(ranks, 0.5)
    above = calls.to_dtype(calls.ceil(ranks), dtypes.int64)
    return calls.lerp_Tensor(low, calls.gather(ordered, -1, above), weight)


quantile: Kernel = given(_quantile, op="quantile")
quantile_scalar: Kernel = quantile
nanquantile: Kernel = given(_quantile, op="nanquantile")
nanquantile_scalar: Kernel = nanquantile
