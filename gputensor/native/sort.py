"""Sorting along one dimension: sort, argsort, msort, topk. NaN comes last. Equal elements always
keep their order, as on PyTorch's CPU.

Source of the rules: aten/src/ATen/native/Sorting.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.device import CPU
from ..core.dtype import BOOL, COMPLEX
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..dispatch.operator import Table
from ..dispatch.shortcuts import CPU as CPU_CALL, jumps
from ..iterator.order import dense_strides_like
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..runtime import cpu
from ..runtime.libraries import HOST
from ..structured import arguments, library
from ..structured.forms import Kernel
from ..structured.shortcuts import results as short
from ..tensor.make import allocate
from ..tensor.tensor import Tensor

BY_LIBRARY = True

Pair = tuple[Tensor, Tensor]


# --- places in order ------------------------------------------------------------------------------


def places_in_order(on: Any, x: Any, dim: int, descending: bool) -> Any:
    """Return the indices that sort `x` along a dimension. Equal elements keep their order."""
    np, n = on.np, x.shape[dim]
    if (found := sorted_by_digits(on, x, dim, descending)) is not None:
        return found[1]
    if _is_short(on, x, dim):
        return _order_of_short(x, dim, descending)
    order = _order_of_long(on, x, dim, descending)
    if order is not None:
        return order
    key = np.flip(x, dim) if descending else x
    order = np.argsort(key, axis=dim, kind="stable")
    return n - 1 - np.flip(order, dim) if descending else order


def sorted_by_digits(
    on: Any, x: Any, dim: int, descending: bool, with_places: bool = True
) -> tuple[Any, Any] | None:
    """Sort by the CPU's loop. Return (values, indices or None), or None if the loop cannot sort
    x."""
    if on.is_gpu or not x.size:
        return None
    is_last = dim in (-1, x.ndim - 1)
    rows = x if is_last else x.swapaxes(dim, -1)
    flat = rows if x.ndim == 2 else rows.reshape(-1, rows.shape[-1])
    values = numpy.empty(flat.shape, x.dtype)
    places = numpy.empty(flat.shape, numpy.int64) if with_places else None
    if not stub.cpu("order").sort(flat, descending, values, places):
        return None
    if x.ndim != 2:
        values = values.reshape(rows.shape)
        places = places if places is None else places.reshape(rows.shape)
    if not is_last:
        values = values.swapaxes(-1, dim)
        places = places if places is None else places.swapaxes(-1, dim)
    return values, places


def _rows_sorted(
    self: Tensor, values: Geometry, indices: Geometry, descending: bool
) -> Pair | None:  # fmt: skip
    """Sort a contiguous CPU tensor along its last dimension by the CPU's loop. Return None if the
    loop cannot sort it.
    """
    x, n = self._get_array(), values.sizes[-1]
    pair = allocate(values, CPU), allocate(indices, CPU)
    arrays = [y.reshape(-1, n) for y in (x, pair[0]._get_array(), pair[1]._get_array())]
    if values.dtype.category == BOOL:
        arrays[:2] = [y.view(numpy.uint8) for y in arrays[:2]]
    return pair if run(stub.cpu("order").sort, arrays[0], descending, *arrays[1:]) else None


def taken(on: Any, x: Any, places: Any, dim: int) -> Any:
    """Return the elements at the indices `places` along a dimension. In all other dimensions,
    `places` has the sizes of x."""
    if on.is_gpu:
        return on.np.take_along_axis(x, places, dim)
    return stub.cpu("gather").taken(x, places, dim)


def _is_short(on: Any, x: Any, dim: int) -> bool:
    """Return True on the CPU if an element and its index fit together into 64 bits."""
    return x.dtype.itemsize <= 4 and not on.is_gpu and 1 < x.shape[dim] < 1 << 32


def _order_of_short(x: Any, dim: int, descending: bool) -> Any:
    """Return the indices that sort elements of at most 32 bits. The function sorts 64-bit numbers
    that are composed of key and index. NumPy sorts such numbers with vector instructions, several
    times faster than its stable argsort."""
    key = _keys_of_short(x, dim, descending)
    cpu.share_rows(key.shape, dim, lambda part: key[part].sort(dim))
    key &= 0xFFFFFFFF
    return key


def _order_of_long(on: Any, x: Any, dim: int, descending: bool) -> Any:
    """Like `_order_of_short`, for 64-bit integers within a small range. Return None for other
    arrays."""
    n = x.shape[dim]
    if on.is_gpu or x.dtype.kind not in "iu" or x.dtype.itemsize != 8 or n < 2 or not x.size:
        return None
    least, most = int(x.min()), int(x.max())
    bits = (n - 1).bit_length()
    if (most - least).bit_length() + bits > 63:
        return None
    key = (x - x.dtype.type(least)).view(numpy.int64)
    if descending:
        numpy.subtract(most - least, key, out=key)
    key <<= bits
    shape = [1] * x.ndim
    shape[dim] = n
    key |= numpy.arange(n, dtype=numpy.int64).reshape(shape)
    cpu.share_rows(key.shape, dim, lambda part: key[part].sort(dim))
    key &= (1 << bits) - 1
    return key


def _keys_of_short(x: Any, dim: int, descending: bool) -> Any:
    """Return int64 numbers that sort like the elements, which have at most 32 bits. The upper half
    is a key with the order of the elements, the lower half is the index along `dim`."""
    np = numpy
    if x.dtype.kind == "f":
        # Adding 0 turns -0.0 into 0.0, so that both sort as equal.
        bits = (x + np.float32(0)).astype(np.float32).view(np.int32)
        bits = np.where(np.isnan(x), np.int32(0x7FFFFFFF), bits ^ (bits >> 31 & 0x7FFFFFFF))
    elif x.dtype == np.uint32:
        # Map the unsigned numbers to signed integers of the same order.
        bits = (x ^ np.uint32(1 << 31)).view(np.int32)
    else:
        bits = x
    key = bits.astype(np.int64)
    key = (~key if descending else key) << 32
    shape = [1] * x.ndim
    shape[dim] = x.shape[dim]
    key |= np.arange(x.shape[dim], dtype=np.int64).reshape(shape)
    return key


def _sorted(on: Any, x: Any, dim: int, descending: bool, k: int | None = None) -> Any:
    """Return the values and indices of the first k elements in sorted order. k=None means all
    elements."""
    if not x.ndim:
        return x.reshape(1)[: 1 if k is None else k].reshape(x.shape) if k != 0 else x, 0
    x = x.view("u1") if x.dtype == bool else x
    found = sorted_by_digits(on, x, dim, descending) if k is None else None
    if found is not None:
        return found
    order = places_in_order(on, x, dim, descending)
    if k is not None:
        order = order[(slice(None),) * dim + (slice(0, k),)]
    return taken(on, x, order, dim), order


# --- sort -----------------------------------------------------------------------------------------


def _check(op: str, self: Tensor, dim: int) -> tuple[Geometry, int]:
    shape = self._geometry
    if shape.dtype.category == COMPLEX:
        raise errors.wrong_dtype(op, "self", "not be complex", self)
    return shape, arguments.dim(op, dim, shape.ndim)


def _found(op: str, self: Tensor, wanted: tuple[Geometry, Geometry], *rest: Any) -> Pair:
    """Return the values and indices. bfloat16 is sorted as float32, because CuPy cannot sort it;
    the conversion is exact."""
    if self._geometry.dtype is not dtypes.bfloat16:
        first, second = library.call(op, _sorted, wanted, self, *rest)
        return first, second
    values, places = wanted
    wide = geometry(values.sizes, values.strides, dtypes.float32)
    as_float = calls.to_dtype(self, dtypes.float32, False, False, None)
    found, indices = library.call(op, _sorted, (wide, places), as_float, *rest)
    return calls.to_dtype(found, dtypes.bfloat16, False, False, None), indices


def sort(key_set: int, self: Tensor, dim: int = -1, descending: bool = False) -> Pair:
    shape, d = _check("sort", self, dim)
    largest_first = arguments.boolean("sort", "descending", descending)
    strides = dense_strides_like(shape)
    values = geometry(shape.sizes, strides, shape.dtype)
    indices = geometry(shape.sizes, strides, dtypes.int64)
    is_rows = d == shape.ndim - 1 and shape.is_contiguous and shape.numel
    pair = None
    if is_rows and self._device is CPU:
        pair = _rows_sorted(self, values, indices, largest_first)
    if pair is None:
        pair = _found("sort", self, (values, indices), d, largest_first)
    _learn(operators.sort.table, sort, (self, dim, descending), pair, d, largest_first)
    return pair


def _learn(
    table: Table,
    kernel: Kernel,
    args: tuple[Any, ...],
    made: Any,
    *rest: Any,
    of: int | None = None,
) -> None:
    """Store the short cut of a sort. of: 0 if the operator returns only the values, 1 if only the
    indices, None if both."""
    if args[0]._geometry.dtype is dtypes.bfloat16:
        return

    def compute(x: Any) -> Any:
        found = _sorted(HOST, x, *rest)
        return found if of is None else found[of]

    is_new = len(rest) == 2 and args[0]._geometry.ndim > 0  # If False, a result may be a view.
    short.learn(table, kernel, args, made, compute, is_new)


def sort_stable(
    key_set: int, self: Tensor, stable: bool | None, dim: int = -1, descending: bool = False
) -> Pair:
    if stable is not None:
        arguments.boolean("sort", "stable", stable)
    return sort(key_set, self, dim, descending)


def msort(key_set: int, self: Tensor) -> Tensor:
    made: Tensor = calls.sort(self, 0, False)[0]
    if self._geometry.ndim:
        _learn(operators.msort.table, msort, (self,), made, 0, False, of=0)
    return made


def argsort(key_set: int, self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    made: Tensor = calls.sort(self, dim, descending)[1]
    ndim = self._geometry.ndim
    if ndim:
        args, rest = (self, dim, descending), (dim % ndim, descending)
        _learn(operators.argsort.table, argsort, args, made, *rest, of=1)
    return made


for _kernel in (msort, argsort):
    jumps(_kernel, lambda: ((operators.sort, CPU_CALL, sort),))


# --- topk -----------------------------------------------------------------------------------------


def topk(
    key_set: int, self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Pair:
    shape, d = _check("topk", self, dim)
    if shape.dtype.category == BOOL:
        raise errors.wrong_dtype("topk", "self", "not be bool", self)
    count, size = arguments.integer("topk", "k", k), shape.sizes[d] if shape.ndim else 1
    largest = arguments.boolean("topk", "largest", largest)
    arguments.boolean("topk", "sorted", sorted)
    if not 0 <= count <= size:
        raise errors.must("topk", "k", f"be in [0, {size}]", k)
    sizes = (*shape.sizes[:d], count, *shape.sizes[d + 1 :]) if shape.ndim else ()
    wanted = contiguous_geometry(sizes, shape.dtype), contiguous_geometry(sizes, dtypes.int64)
    args, rest = (self, k, dim, largest, sorted), (d, largest, count)
    is_little = _FEW * count < size or shape.numel <= _LITTLE
    if self._device is CPU and shape.ndim and shape.numel and count and is_little:
        values, places = library.call("topk", _first, wanted, self, *rest)
        made = values, places
        table = operators.topk.table
        short.learn(table, topk, args, made, lambda x: _first(None, x, *rest), is_new=True)
    else:
        made = _found("topk", self, wanted, *rest)
        _learn(operators.topk.table, topk, args, made, *rest)
    return made


# If k is at least 1 / _FEW of a row's length, and there are more than _LITTLE elements, the whole
# rows are sorted.
_FEW, _LITTLE = 4, 1 << 11


def _first(on: Any, x: Any, dim: int, descending: bool, k: int) -> Any:
    """Like `_sorted` on the CPU, but only the first k elements are sorted."""
    if dim == x.ndim - 1:
        found = stub.cpu("order").first(x.reshape(-1, x.shape[-1]), k, descending)
        if x.ndim == 2:
            return found
        sizes = (*x.shape[:-1], k)
        return found[0].reshape(sizes), found[1].reshape(sizes)
    rows = x.swapaxes(dim, -1)
    flat = numpy.ascontiguousarray(rows).reshape(-1, rows.shape[-1])
    values, places = stub.cpu("order").first(flat, k, descending)
    sizes = (*rows.shape[:-1], k)
    both = [found.reshape(sizes).swapaxes(dim, -1) for found in (values, places)]
    return tuple(map(numpy.ascontiguousarray, both))
