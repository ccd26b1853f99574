"""Operators that write elements by indices: x[i, j] = v, scatter, put, index_add and similar ones.

If values are combined, elements of less than 32 bits are widened, combined and rounded once.
Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._generated import calls, operators
from ..core import errors, number_range
from ..core.arguments import number
from ..core.device import CPU
from ..core.dtype import COMPLEX, FLOATING, bool_, int64
from ..core.geometry import contiguous_geometry
from ..dispatch.operator import Table
from ..dispatch.shortcuts import BELOW, jumps
from ..iterator import overlap
from ..iterator.broadcast import broadcast_sizes
from ..structured import arguments, float8, forms
from ..structured.indexed import cropped, number_of, wide_dtype, write
from ..structured.forms import Kernel
from ..structured.missing import ask_inplace
from ..structured.pointwise import NUMBERS
from ..structured.shortcuts import indexed as short
from ..structured.shortcuts.computed import comes_again
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from .gather import along, check_along, clamped, flat_places, places, rows, with_dims

functional, kept_functional = forms.functional, forms.kept_functional
out = kept_out = forms.out_of_functional

_REDUCTIONS = "sum prod mean amax amin"


def _loop(reduce: str) -> str:
    """Return the name of the loop in kernels/*/scatter for a reduction. A mean uses the loop of the
    sum."""
    if reduce == "sum" or reduce == "mean":
        return "scatter_add"
    return "scatter_multiply" if reduce == "prod" else f"scatter_{reduce}"


def _number(value: Any, like: Tensor) -> Any:
    """Return a number as an operand of `write`. CUDA's kernels take the number itself; other
    devices take a 0-d tensor."""
    number_range.check("scatter", "value", value, like._geometry.dtype)
    if like._device.type == "cuda":
        return value
    return _as_tensor(value, like)


def _as_tensor(value: Any, like: Tensor) -> Tensor:
    return calls.scalar_tensor(value, like._geometry.dtype, None, like._device, None)


def _same_dtype(op: str, self: Tensor, value: Tensor, arg: str) -> None:
    if value._geometry.dtype is not self._geometry.dtype:
        raise errors.wrong_dtype(op, arg, f"be {self._geometry.dtype.name}, as self is", value)
    arguments.check_device(op, "self", self, arg, value)


def _apart(op: str, self: Tensor, *read: Any) -> list[Any]:
    """Return the operands that the operator reads, tensors or numbers. Tensors that share memory
    with self are copied."""
    if overlap.internal_overlap(self._geometry) == overlap.YES:
        raise errors.internal_overlap(op, "self", (self._geometry, self._device))
    shared = [isinstance(x, Tensor) and overlap.relation(self, x) != overlap.NO for x in read]
    return [calls.clone(x, None) if is_shared else x for x, is_shared in zip(read, shared)]


def _combine(loop: str, self: Tensor, at: Any, value: Any) -> None:
    """Combine `value` with the elements at the places `at(self)`. Elements of less than 32 bits are
    widened first."""
    if self._geometry.dtype.is_float8:
        raise errors.not_computed(loop, "self", self._geometry.dtype, self)
    wide = wide_dtype(self._geometry.dtype)
    if wide is self._geometry.dtype:
        write(loop, at(self), value)
        return
    if not isinstance(value, Tensor):
        value = _as_tensor(value, self)  # Rounded to self's dtype, as an element is.
    x = calls.to_dtype(self, wide, False, False, None)
    write(loop, at(x), calls.to_dtype(value, wide, False, False, None))
    ask_inplace(operators.copy_, self, x, False)


# --- x[i, :, j] = v -------------------------------------------------------------------------------


def _index_put_impl_(
    key_set: int, self: Tensor, indices: Sequence[Tensor | None], values: Tensor,
    accumulate: bool = False, unsafe: bool = False,
) -> Tensor:  # fmt: skip
    op = "index_put"
    if values._geometry.dtype is not self._geometry.dtype:
        rule = f"be {self._geometry.dtype.name}, as self is"
        raise errors.wrong_dtype(op, "values", rule, values)
    if values._device is not self._device:
        if values._geometry.ndim or values._device.type != "cpu":
            raise errors.mixed_devices(op, self, "self", values, "values")
        device, element = self._device, self._geometry.dtype
        values = calls.to_device(values, device, element, False, False, None)
    if self._geometry.dtype.is_float8 and not accumulate:
        float8.moved(_index_put_impl_, key_set, self, indices, values)
        return self
    (values,) = _apart(op, self, values)
    indices = [
        i if i is None or overlap.relation(self, i) == overlap.NO else calls.clone(i, None)
        for i in indices
    ]
    at = places(op, self, indices)
    if broadcast_sizes(values._geometry.sizes, at.sizes) != at.sizes:
        rule = f"broadcast to the places that are written, {list(at.sizes)}"
        raise errors.wrong_shape(op, "values", rule, values)
    if accumulate:
        _combine("scatter_add", self, at.of, values)
    else:
        write("scatter", at, values)
    return self


def index_put_(
    key_set: int, self: Tensor, indices: Sequence[Tensor | None], values: Tensor,
    accumulate: bool = False,
) -> Tensor:  # fmt: skip
    made = ask_inplace(operators._index_put_impl_, self, indices, values, accumulate, False)
    if self._device is CPU and not accumulate and not self._geometry.dtype.is_float8:
        table, args = operators.index_put_.table, (self, indices, values)
        if all([isinstance(i, Tensor) and i._geometry.dtype is int64 for i in indices]):
            short.learn_put(table, index_put_, args, lambda: places("index_put", self, indices))
    return made


jumps(index_put_, lambda: ((operators._index_put_impl_, BELOW, _index_put_impl_),))


def index_put(
    key_set: int, self: Tensor, indices: Sequence[Tensor | None], values: Tensor,
    accumulate: bool = False,
) -> Tensor:  # fmt: skip
    made = calls.clone(self)
    return ask_inplace(operators._index_put_impl_, made, indices, values, accumulate, False)


_unsafe_index_put = index_put


def _unsafe_masked_index_put_accumulate(
    key_set: int, self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    if self._geometry.numel == 0:
        return calls.clone(self)
    kept = calls.masked_fill_Scalar(values, calls.eq_Tensor(mask, False), 0)
    return index_put(key_set, self, clamped(self, indices), kept, True)


# --- scatter --------------------------------------------------------------------------------------


def _scatter(
    key_set: int, op: str, loop: str, self: Tensor, dim: Any, index: Tensor, value: Tensor | Any
) -> Tensor:
    is_number = type(value) in NUMBERS
    if not is_number:
        _same_dtype(op, self, value, "src")
    d = check_along(op, self, dim, index, None if is_number else value)
    source = _number(value, self) if is_number else value
    source, index = _apart(op, self, source, index)
    if index._geometry.numel == 0:
        return self
    if not is_number:
        source = cropped(with_dims(source), index._geometry.sizes or (1,))
    if loop == "scatter":
        write(loop, along(op, self, d, index), source)
    else:
        _combine(loop, self, lambda x: along(op, x, d, index), source)
    return self


def _scatters(operator: str, op: str, loop: str) -> Kernel:
    """Make the kernel of an operator without reduction. loop: a loop of the family scatter."""

    def kernel(key_set: int, self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
        table = getattr(operators, operator).table
        _scatter(key_set, op, loop, self, dim, index, value)
        _learn(table, kernel, (self, dim, index, value), loop, _along(op))
        return self

    return kernel


def _along(op: str) -> Any:
    return lambda self, dim, index: along(
        op, self, arguments.dim(op, dim, self._geometry.ndim), index
    )


def _learn(
    table: Table, kernel: Kernel, args: tuple[Any, ...], loop: str, find: Any, start: Any = None
) -> None:
    """Store the short cut of a call whose value needs no conversion, once the call is repeated.
    find(self, dim, index) returns the places. start: a number that is written to these places
    first.
    """
    self, index, *values = [x for x in args if isinstance(x, Tensor)]
    place = self._device
    is_served = place is CPU or place.type == "cuda" and start is None
    if not is_served or not index._geometry.numel or not comes_again(table, kernel, args, place):
        return
    at, of = find(self, args[1], index), self._geometry.dtype
    value = values[0] if values else _number(args[3], self)
    if values and (value._geometry.sizes or (1,)) != at.sizes:
        return
    if not of.is_float8 and (loop == "scatter" or wide_dtype(of) is of):
        first = None if start is None else _number(start, self)
        short.learn_write(table, kernel, args, loop, at, value, first)


def scatter__reduce(
    key_set: int, self: Tensor, dim: int, index: Tensor, src: Tensor | Any, reduce: str
) -> Tensor:
    if reduce != "add" and reduce != "multiply":
        raise errors.must("scatter", "reduce", "be 'add' or 'multiply'", reduce)
    is_number, loop = type(src) in NUMBERS, f"scatter_{reduce}"
    table = (operators.scatter__value_reduce if is_number else operators.scatter__reduce).table
    _scatter(key_set, "scatter", loop, self, dim, index, src)
    _learn(table, scatter__reduce, (self, dim, index, src, reduce), loop, _along("scatter"))
    return self


scatter__value_reduce = scatter__reduce
scatter__src: Kernel = _scatters("scatter__src", "scatter", "scatter")
scatter__value: Kernel = _scatters("scatter__value", "scatter", "scatter")
scatter_add_: Kernel = _scatters("scatter_add_", "scatter_add", "scatter_add")


def _checked_reduction(op: str, self: Tensor, reduce: Any, allowed: str) -> None:
    if reduce not in allowed.split():
        raise errors.must(op, "reduce", f"be one of {allowed.replace(' ', ', ')}", reduce)
    if self._geometry.dtype.category == COMPLEX and reduce.startswith("am"):
        raise errors.wrong_dtype(op, "self", f"be real for {reduce}", self)


def _identity(self: Tensor, reduce: str) -> Any:
    """Return the identity element of a reduction for self's dtype."""
    of = self._geometry.dtype
    if _loop(reduce) == "scatter_add":
        return 0
    if reduce == "prod":
        return 1
    if of is bool_:
        return reduce == "amin"
    if of.category == FLOATING:
        return -math.inf if reduce == "amax" else math.inf
    low, high = number_range.integer_range(of)
    return low if reduce == "amax" else high


def scatter_reduce__two(
    key_set: int, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    op = "scatter_reduce"
    _checked_reduction(op, self, reduce, _REDUCTIONS)
    _same_dtype(op, self, src, "src")
    d = check_along(op, self, dim, index, src)
    src, index = _apart(op, self, src, index)
    if index._geometry.numel == 0:
        return self
    table = operators.scatter_reduce__two.table
    source = cropped(with_dims(src), index._geometry.sizes or (1,))
    _reduce(self, lambda x: along(op, x, d, index), source, reduce, include_self)
    args = (self, dim, index, src, reduce, include_self)
    _learn_reduction(table, scatter_reduce__two, args, _along(op))
    return self


def _learn_reduction(table: Table, kernel: Kernel, args: tuple[Any, ...], find: Any) -> None:
    reduce, include_self = args[4:]
    if reduce != "mean":
        start = None if include_self else _identity(args[0], reduce)
        _learn(table, kernel, args, _loop(reduce), find, start)


def _reduce(self: Tensor, at: Any, source: Tensor, reduce: str, include_self: bool) -> None:
    """Combine the elements of `source` with the elements of self at the places. If include_self is
    False, ignore the old elements of self at the places.
    """
    wide = wide_dtype(self._geometry.dtype)
    x = self
    if wide is not self._geometry.dtype:
        x = calls.to_dtype(self, wide, False, False, None)
        source = calls.to_dtype(source, wide, False, False, None)
    if not include_self:
        write("scatter", at(x), _number(_identity(x, reduce), x))
    write(_loop(reduce), at(x), source)
    if reduce == "mean":
        _divide(x, at, include_self)
    if x is not self:
        ask_inplace(operators.copy_, self, x, False)


def _divide(x: Tensor, at: Any, include_self: bool) -> None:
    """Divide each sum by the number of its terms. Quotients of integers are rounded down."""
    counts = (calls.ones_like if include_self else calls.zeros_like)(x)
    write("scatter_add", at(counts), _number(1, x))
    if not include_self:
        counts = calls.where_self(calls.eq_Tensor(counts, 0), 1, counts)
    mode = None if x._geometry.dtype.category >= FLOATING else "floor"
    ask_inplace(operators.div__Tensor_mode, x, counts, mode)


# --- index_add, index_copy, index_fill, index_reduce ----------------------------------------------


def _rows(op: str, *, wraps: bool = False) -> Any:
    return lambda self, dim, index: rows(op, self, dim, index, wraps=wraps)


def _sources(op: str, self: Tensor, dim: Any, index: Tensor, source: Tensor) -> tuple[Any, Tensor]:
    """Return two values: a function that takes a tensor and returns the places of its indexed
    slices; and the slices of the source."""
    _same_dtype(op, self, source, "source")
    index, source = _apart(op, self, index, source)
    at = rows(op, self, dim, index)
    given = with_dims(source) if at.target._geometry.ndim == 1 else source
    if given._geometry.sizes != at.sizes:
        rule = f"have a slice for each index, sizes {list(at.sizes)}"
        raise errors.wrong_shape(op, "source", rule, source)
    return lambda x: rows(op, x, dim, index), given


def index_add_(
    key_set: int, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any = 1
) -> Tensor:
    alpha = number(alpha)
    if alpha is None:
        raise errors.wrong_type("index_add", "alpha", "be a number", alpha)
    number_range.check("index_add", "alpha", alpha, self._geometry.dtype)
    table = operators.index_add_.table
    at, given = _sources("index_add", self, dim, index, source)
    _combine("scatter_add", self, at, given if alpha == 1 else calls.mul_Tensor(given, alpha))
    if alpha == 1:
        args = (self, dim, index, source, alpha)
        _learn(table, index_add_, args, "scatter_add", _rows("index_add"))
    return self


def index_copy_(key_set: int, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    table = operators.index_copy_.table
    at, given = _sources("index_copy", self, dim, index, source)
    write("scatter", at(self), given)
    _learn(table, index_copy_, (self, dim, index, source), "scatter", _rows("index_copy"))
    return self


def index_reduce_(
    key_set: int, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    _checked_reduction("index_reduce", self, reduce, _REDUCTIONS.removeprefix("sum "))
    table = operators.index_reduce_.table
    at, given = _sources("index_reduce", self, dim, index, source)
    _reduce(self, at, given, reduce, include_self)
    args = (self, dim, index, source, reduce, include_self)
    _learn_reduction(table, index_reduce_, args, _rows("index_reduce"))
    return self


def index_fill__int_Scalar(
    key_set: int, self: Tensor, dim: int, index: Tensor, value: Any
) -> Tensor:
    table = operators.index_fill__int_Scalar.table
    number_range.check("index_fill", "value", value, self._geometry.dtype)
    _fill(self, dim, index, _number(value, self))
    args, find = (self, dim, index, value), _rows("index_fill", wraps=True)
    _learn(table, index_fill__int_Scalar, args, "scatter", find)
    return self


def _fill(self: Tensor, dim: Any, index: Tensor, value: Any) -> Tensor:
    index, value = _apart("index_fill", self, index, value)
    write("scatter", rows("index_fill", self, dim, index, wraps=True), value)
    return self


def index_fill__int_Tensor(
    key_set: int, self: Tensor, dim: int, index: Tensor, value: Any
) -> Tensor:
    if type(value) in NUMBERS:
        return index_fill__int_Scalar(key_set, self, dim, index, value)
    if not isinstance(value, Tensor):
        raise errors.wrong_type("index_fill", "value", "be a number or a 0-d tensor", value)
    return _fill(self, dim, index, number_of("index_fill", value, self))


# --- put ------------------------------------------------------------------------------------------


def put_(
    key_set: int, self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False
) -> Tensor:
    _same_dtype("put", self, source, "source")
    if index._geometry.numel != source._geometry.numel:
        rule = f"have a value for each index, {index._geometry.numel}"
        raise errors.wrong_shape("put", "source", rule, source)
    index, source = _apart("put", self, index, source)
    given = calls.reshape(source, index._geometry.sizes)
    dense = self if self._geometry.is_contiguous else calls.contiguous(self)
    if accumulate:
        _combine("scatter_add", dense, lambda x: flat_places("put", x, index), given)
    else:
        write("scatter", flat_places("put", dense, index), given)
    if dense is not self:
        ask_inplace(operators.copy_, self, dense, False)
        return self
    args, loop = (self, index, source, accumulate), "scatter_add" if accumulate else "scatter"
    _learn(operators.put_.table, put_, args, loop, lambda x, _, at: flat_places("put", x, at))
    return self


# --- copies in which a part is written ----------------------------------------------------------


def _into_view(op: str, made: Tensor, view: Tensor, src: Tensor) -> Tensor:
    if src._geometry.sizes != view._geometry.sizes:
        rule = f"have the sizes of what it replaces, {list(view._geometry.sizes)}"
        raise errors.wrong_shape(op, "src", rule, src)
    ask_inplace(operators.copy_, view, src, False)
    return made


def _strided_clone(self: Tensor) -> Tensor:
    """Return a copy with self's strides, or a dense one if elements share memory."""
    of = self._geometry
    if overlap.internal_overlap(of) == overlap.YES or of.is_non_overlapping_and_dense:
        return calls.clone(self)
    made = allocate(contiguous_geometry((of.extent,), of.dtype), self._device)
    view = calls.as_strided(made, of.sizes, of.strides, 0)
    ask_inplace(operators.copy_, view, self, False)
    return view


def select_scatter(key_set: int, self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    made = _strided_clone(self)
    return _into_view("select_scatter", made, calls.select_int(made, dim, index), src)


def slice_scatter(
    key_set: int, self: Tensor, src: Tensor, dim: int = 0, start: int | None = None,
    end: int | None = None, step: int = 1,
) -> Tensor:  # fmt: skip
    made = _strided_clone(self)
    return _into_view("slice_scatter", made, calls.slice_Tensor(made, dim, start, end, step), src)


def unfold_backward(
    key_set: int, grad_in: Tensor, input_sizes: Any, dim: int, size: int, step: int
) -> Tensor:
    sizes = arguments.sizes("unfold_backward", input_sizes, "input_sizes")
    made = calls.new_zeros(grad_in, sizes, None, None, None, None)
    numbers = calls.arange(made._geometry.numel, int64, None, grad_in._device, None)
    places = calls.unfold(calls.view(numbers, sizes), dim, size, step)
    if places._geometry.sizes != grad_in._geometry.sizes:
        rule = f"have sizes {list(places._geometry.sizes)}"
        raise errors.wrong_shape("unfold_backward", "grad_in", rule, grad_in)
    return ask_inplace(operators.put_, made, places, grad_in, True)
