"""What the order of elements gives: median, mode, kthvalue, quantile, along one dimension.

A row is sorted, equal elements in their order and NaN last. Of equal elements the index of the
first in that order is given, of mode's the last; PyTorch leaves open which one.
Source: aten/src/ATen/native/Sorting.cpp, cpu/SortingKernel.cpp.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.dtype import BOOL, COMPLEX, FLOATING
from ..core.geometry import contiguous_geometry
from ..structured import arguments, library
from ..tensor.tensor import Tensor

Pair = tuple[Tensor, Tensor]


def _checked(op: str, self: Tensor, dim: Any, keepdim: Any) -> tuple[Tensor, int]:
    """self with a dimension at least, and the dimension to look along."""
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
    """Values and indices, of size 1 along the axis, that `compute(library, array, axis, *rest)`
    says the indices of."""
    of = x._geometry.dtype
    wide = calls.to_dtype(x, dtypes.float32) if of is dtypes.bfloat16 else x
    sizes = tuple([1 if d == axis else n for d, n in enumerate(x._geometry.sizes)])
    layouts = [contiguous_geometry(sizes, t) for t in (wide._geometry.dtype, dtypes.int64)]

    def both(library: Any, array: Any, *given: Any) -> Any:
        places = compute(library, array, *given)
        return library.np.take_along_axis(array, places, given[0]), places

    values, places = library.call(op, both, layouts, wide, axis, *rest)
    return (calls.to_dtype(values, of) if of is dtypes.bfloat16 else values), places


def _kth(library: Any, x: Any, axis: int, k: int) -> Any:
    order = library.np.argsort(x, axis=axis, kind="stable")
    return library.np.take(order, library.np.arange(k, k + 1), axis=axis)


def _median(library: Any, x: Any, axis: int, ignores_nan: bool) -> Any:
    """The lower of two; of a row with NaN the first NaN, unless it is ignored."""
    np = library.np
    order = np.argsort(x, axis=axis, kind="stable")
    n = x.shape[axis]
    if x.dtype.kind != "f":
        return np.take(order, np.arange((n - 1) // 2, (n - 1) // 2 + 1), axis=axis)
    nans = np.sum(np.isnan(x), axis=axis, keepdims=True)
    middle = np.maximum((n - nans - 1) // 2, 0)
    if not ignores_nan:  # NaN is last, the first one first
        middle = np.where(nans > 0, n - nans, (n - 1) // 2)
    return np.take_along_axis(order, middle, axis)


def kthvalue(key_set: int, self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    x, axis = _checked("kthvalue", self, dim, keepdim)
    n = x._geometry.sizes[axis]
    if not 1 <= arguments.integer("kthvalue", "k", k) <= n:
        raise errors.must("kthvalue", "k", f"be in [1, {n}]", k)
    return _finished(self, _select("kthvalue", _kth, x, axis, k - 1), keepdim, axis)


def _median_dim(op: str, self: Tensor, dim: int, keepdim: bool) -> Pair:
    x, axis = _checked(op, self, dim, keepdim)
    found = _select(op, _median, x, axis, op == "nanmedian")
    return _finished(self, found, keepdim, axis)


def median_dim(key_set: int, self: Tensor, dim: int, keepdim: bool = False) -> Pair:
    return _median_dim("median", self, dim, keepdim)


def nanmedian_dim(key_set: int, self: Tensor, dim: int, keepdim: bool = False) -> Pair:
    return _median_dim("nanmedian", self, dim, keepdim)


def _median_of_all(op: str, self: Tensor) -> Tensor:
    given = self._geometry
    if given.numel == 0:
        if given.dtype.category != FLOATING:
            raise errors.must(op, "self", "have elements, as its dtype has no NaN", self)
        return calls.full_like(calls.new_empty(self, ()), float("nan"))
    return _median_dim(op, calls.reshape(self, (given.numel,)), 0, False)[0]


def median(key_set: int, self: Tensor) -> Tensor:
    return _median_of_all("median", self)


def nanmedian(key_set: int, self: Tensor) -> Tensor:
    return _median_of_all("nanmedian", self)


def mode(key_set: int, self: Tensor, dim: int = -1, keepdim: bool = False) -> Pair:
    x, axis = _checked("mode", self, dim, keepdim)
    return _finished(self, _select("mode", _mode, x, axis), keepdim, axis)


def _mode(library: Any, x: Any, axis: int) -> Any:
    """The last place of the smallest of the elements that occur most often."""
    np = library.np
    order = np.argsort(x, axis=axis, kind="stable")
    rows = np.moveaxis(np.take_along_axis(x, order, axis), axis, -1)
    n = rows.shape[-1]
    ends = np.ones(rows.shape, bool)
    ends[..., :-1] = rows[..., 1:] != rows[..., :-1]
    # How many runs have ended before, and from it where each run begins.
    before = np.cumsum(ends, -1) - ends
    numbers = np.arange(rows.size // n if n else 0).reshape((*rows.shape[:-1], 1)) * n
    lengths = np.bincount((before + numbers).reshape(-1), minlength=rows.size)
    lengths = np.take(lengths, before + numbers)
    last = np.argmax(np.where(ends, lengths, 0), -1)
    return np.take_along_axis(order, np.expand_dims(last, axis), axis)
