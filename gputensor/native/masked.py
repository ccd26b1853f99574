"""Operators with a mask: masked_fill, masked_select, masked_scatter.

On the CPU, masked_select and masked_scatter are loops of the family nonzero. On other devices they
are composed of other operators.

Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import errors, memory_format as formats, number_range
from ..core.device import CPU
from ..core.dtype import COMPLEX, bool_, dtype
from ..core.geometry import contiguous_geometry
from ..dispatch import shortcuts
from ..dispatch.operator import Table
from ..iterator import overlap
from ..iterator.broadcast import broadcast_sizes
from ..kernels import stub
from ..structured import arguments, float8
from ..structured.indexed import number_of
from ..structured.missing import ask, ask_inplace
from ..structured.pointwise import NUMBERS
from ..structured.shortcuts import (
    computed as short,
    cuda_calls as short_calls,
    indexed as short_indexed,
    results as short_results,
)
from ..tensor.make import from_array
from ..tensor.tensor import Tensor
from .view import expand
from .where import mixed_entry


def _check_mask(op: str, self: Tensor, mask: Tensor) -> None:
    if mask._geometry.dtype is not bool_:
        raise errors.wrong_dtype(op, "mask", "be bool", mask)
    if mask._device is not self._device and (mask._geometry.ndim or mask._device.type != "cpu"):
        raise errors.mixed_devices(op, self, "self", mask, "mask")


def _broadcast(op: str, self: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return self and mask, broadcast to their common sizes."""
    _check_mask(op, self, mask)
    if self._geometry.sizes == mask._geometry.sizes:
        return self, mask
    sizes = broadcast_sizes(self._geometry.sizes, mask._geometry.sizes)
    if sizes is None:
        rule = f"broadcast with self, sizes {list(self._geometry.sizes)}"
        raise errors.wrong_shape(op, "mask", rule, mask)
    if self._geometry.sizes != sizes:
        self = calls.expand(self, sizes)
    return self, calls.expand(mask, sizes)


def _over(op: str, self: Tensor, mask: Tensor) -> Tensor:
    """Return the mask, expanded to the sizes of self. Raise if elements of self share memory,
    because the operator writes to self."""
    _check_mask(op, self, mask)
    sizes = self._geometry.sizes
    if broadcast_sizes(mask._geometry.sizes, sizes) != sizes:
        raise errors.wrong_shape(op, "mask", f"broadcast to self, sizes {list(sizes)}", mask)
    overlap.check_itself(op, self, "self")
    return calls.expand(mask, sizes)


# --- masked_fill ----------------------------------------------------------------------------------


def _filled(op: str, self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Write value, a number or a 0-d tensor of self's dtype, where the mask is true."""
    mask = _over(op, self, mask)
    if overlap.relation(self, mask) != overlap.NO:
        mask = calls.clone(mask)
    ask(operators.where_self_out, self, mask, value, self, self)
    return self


def _value(self: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return number_of("masked_fill", value, self)
    if type(value) not in NUMBERS:
        raise errors.wrong_type("masked_fill", "value", "be a number or a 0-d tensor", value)
    of = self._geometry.dtype
    number_range.check("masked_fill", "value", value, of)
    return calls.scalar_tensor(value, of, None, self._device, None)


def masked_fill__Scalar(key_set: int, self: Tensor, mask: Tensor, value: Any) -> Tensor:
    table = operators.masked_fill__Scalar.table
    number = _number(self, value)
    given = _value(self, value) if number is None else number
    _filled("masked_fill", self, mask, given)
    if number is not None:
        _learn_on_cuda(table, masked_fill__Scalar, (self, mask, value), number, self)
    elif _is_learnt(self, value) and self._geometry.numel:
        make = short.written_by(_fill_where(given._geometry.dtype), (given._get_array(),))
        short.learn_again(table, masked_fill__Scalar, (self, mask, value), make)
    return self


def masked_fill_Scalar(key_set: int, self: Tensor, mask: Tensor, value: Any) -> Tensor:
    table = operators.masked_fill_Scalar.table
    number = _number(self, value)
    given = _value(self, value) if number is None else number
    made = _copy_filled(self, mask, given)
    if number is not None:
        _learn_on_cuda(table, masked_fill_Scalar, (self, mask, value), number, None)
    elif _is_learnt(self, value) and type(made) is Tensor and made._geometry.is_contiguous:
        loop = _fill_where(given._geometry.dtype)
        make = short.made_by(loop, made._geometry, (given._get_array(),))
        short.learn_again(table, masked_fill_Scalar, (self, mask, value), make)
    return made


_OF_CATEGORY = (bool, int, float, complex)


def _number(self: Tensor, value: Any) -> Any:
    """Return the value as a number of the category of self's dtype. A CUDA kernel receives this
    number as an argument. Return None if the value must be written to a 0-d tensor instead."""
    of = self._geometry.dtype
    if self._device.type != "cuda" or of.is_opaque or type(value) not in NUMBERS:
        return None
    if type(value) is complex and of.category != COMPLEX:
        return None
    number_range.check("masked_fill", "value", value, of)
    return _OF_CATEGORY[of.category](value)


def _learn_on_cuda(
    table: Table, kernel: Any, args: tuple[Any, ...], number: Any, out: Tensor | None
) -> None:
    """Store the short cut of a call that is one launch of `where`, once the call is repeated."""
    self, mask, device = args[0], args[1], args[0]._device
    sizes, given = self._geometry.sizes, (args[1], number, args[0])
    if mask._device is not device or not shortcuts.is_plain_thread():
        return
    if not short.comes_again(table, kernel, args, device):
        return
    if broadcast_sizes(mask._geometry.sizes, sizes) != sizes:
        return
    marks = mask if mask._geometry.sizes == sizes else calls.expand(mask, sizes)
    if out is not None:
        entry = mixed_entry(operators.where_self_out, out, (marks, number, self))
        short_calls.learn_inplace(table, kernel, args, entry.launch, given, order=(1, 0))
        return
    entry = mixed_entry(operators.where_self, None, (marks, number, self))
    if entry.geometry is contiguous_geometry(sizes, self._geometry.dtype):
        shape, launch = entry.geometry, entry.launch
        short_calls.learn(table, kernel, args, shape, launch, given, order=(1, 0))


def _is_learnt(self: Tensor, value: Any) -> bool:
    return type(value) in NUMBERS and self._device is CPU and not self._geometry.dtype.is_opaque


@cache
def _fill_where(of: dtype) -> Callable[[Any, Any, Any, Any], Any]:
    """Return the loop (x, mask, value, out) for values of this dtype."""
    where = stub.cpu_loop("where", "where", (bool_, of, of), of, of)
    return lambda x, mask, value, out: where(mask, value, x, out)


def _copy_filled(self: Tensor, mask: Tensor, given: Any) -> Tensor:
    self, mask = _broadcast("masked_fill", self, mask)
    of = self._geometry
    is_number = type(given) in NUMBERS
    if of.is_contiguous and of.ndim and mask._geometry.dtype is bool_:
        if is_number:
            if mask._device is self._device and _is_row_major(mask, given, self):
                return calls.where_self(mask, given, self)
        elif mask._geometry.is_contiguous and of.dtype is given._geometry.dtype:
            if not given._geometry.ndim:
                return calls.where_self(mask, given, self)
    return _filled("masked_fill", calls.clone(self, formats.contiguous_format), mask, given)


def _is_row_major(mask: Tensor, number: Any, self: Tensor) -> bool:
    """Return True if `where` gives these operands a row-major result."""
    if mask._geometry.is_contiguous:
        return True
    of = mixed_entry(operators.where_self, None, (mask, number, self)).geometry
    return of is contiguous_geometry(of.sizes, self._geometry.dtype)


masked_fill__Tensor, masked_fill_Tensor = masked_fill__Scalar, masked_fill_Scalar

for _kernel in (masked_fill__Scalar, masked_fill_Scalar):
    shortcuts.jumps(_kernel, lambda: (
        (operators.scalar_tensor, shortcuts.FACTORY, "factory.scalar_tensor"),
        (operators.expand, shortcuts.CPU, expand),
        (operators.clone, shortcuts.CPU, "copy.clone"),
        (operators.where_self, shortcuts.CPU, "where.functional.<locals>.kernel"),
        (operators.where_self_out, shortcuts.BELOW, "where.out.<locals>.kernel"),
    ))  # fmt: skip


# --- masked_select, masked_scatter ----------------------------------------------------------------


def masked_select(key_set: int, self: Tensor, mask: Tensor) -> Tensor:
    if self._geometry.dtype.is_float8:
        return float8.moved(masked_select, key_set, self, mask)
    self, mask = _broadcast("masked_select", self, mask)
    if self._device is CPU and mask._device is CPU:
        found = stub.cpu("nonzero").selected(self._get_array(), mask._get_array())
        return from_array(found, contiguous_geometry(found.shape, self._geometry.dtype))
    if not self._geometry.ndim:
        self, mask = calls.view(self, (1,)), calls.view(mask, (1,))
    return calls.index_Tensor(self, [mask])


def masked_select_backward(key_set: int, grad: Tensor, input: Tensor, mask: Tensor) -> Tensor:
    sizes = _broadcast("masked_select_backward", input, mask)[0]._geometry.sizes
    zeros = calls.new_zeros(grad, sizes, None, None, None, None)
    return calls.masked_scatter(zeros, mask, grad)


def masked_scatter_(key_set: int, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    op = "masked_scatter"
    if source._geometry.dtype is not self._geometry.dtype:
        rule = f"be {self._geometry.dtype.name}, as self is"
        raise errors.wrong_dtype(op, "source", rule, source)
    arguments.check_device(op, "self", self, "source", source)
    marks, given = _over(op, self, mask), calls.reshape(source, (source._geometry.numel,))
    marks, given = [
        x if overlap.relation(self, x) == overlap.NO else calls.clone(x) for x in (marks, given)
    ]
    if self._device is CPU:
        arrays = [x._get_array() for x in (self, marks, given)]
        if missing := stub.cpu("nonzero").put(*arrays):
            raise _too_few(source, missing)
        args = (self, mask, source)
        short_indexed.learn_masked(operators.masked_scatter_.table, masked_scatter_, args)
        return self
    target = self
    if not self._geometry.ndim:
        target, marks = calls.view(self, (1,)), calls.view(marks, (1,))
    places = calls.nonzero(marks)
    count = places._geometry.sizes[0]
    if given._geometry.numel < count:
        raise _too_few(source, count)
    if count:
        columns = list(calls.unbind_int(places, 1))
        part = calls.slice_Tensor(given, 0, 0, count)
        ask_inplace(operators._index_put_impl_, target, columns, part, False, True)
    return self


def _too_few(source: Tensor, count: int) -> Exception:
    rule = f"have an element for each that is written, {count}"
    return errors.wrong_shape("masked_scatter", "source", rule, source)


def masked_scatter(key_set: int, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    whole, marks = _broadcast("masked_scatter", self, mask)
    made = calls.clone(whole, formats.contiguous_format)
    masked_scatter_(key_set, made, marks, source)
    if whole is self:
        table, args = operators.masked_scatter.table, (self, mask, source)
        short_results.learn(table, masked_scatter, args, made, _scattered, is_new=True)
    return made


def _scattered(x: Any, mask: Any, source: Any) -> Any:
    """Return the array of masked_scatter, or None if the source has too few elements."""
    made = np.array(x, order="C")
    return None if stub.cpu("nonzero").put(made, mask, source.reshape(-1)) else made


for _scattering in (masked_scatter_, masked_scatter):
    shortcuts.jumps(_scattering, lambda: (
        (operators.expand, shortcuts.CPU, expand),
        (operators.reshape, shortcuts.CPU, "view.reshape"),
        (operators.clone, shortcuts.CPU, "copy.clone"),
    ))  # fmt: skip


def masked_scatter_backward(key_set: int, grad_output: Tensor, mask: Tensor, sizes: Any) -> Tensor:
    """Return the gradient of source. Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp,
    masked_scatter_backward."""
    count = math.prod(sizes)
    found = calls.masked_select(grad_output, mask)
    missing = count - found._geometry.numel
    if missing > 0:
        zeros = calls.new_zeros(grad_output, (missing,), None, None, None, None)
        found = calls.cat([found, zeros], 0)
    return calls.reshape(calls.slice_Tensor(found, 0, 0, count), tuple(sizes))
