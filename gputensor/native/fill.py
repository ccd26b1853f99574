"""fill_ and zero_ write one value to every element. Expanded tensors are allowed, as in PyTorch."""

from __future__ import annotations

import builtins
from typing import Any

from .. import runtime
from .._generated import calls, operators
from ..core import errors, number_range
from ..core.arguments import number
from ..core.device import CPU
from ..core.dtype import BOOL, FLOATING, float32
from ..dispatch import shortcuts
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..iterator import overlap
from ..kernels import stub
from ..tensor.tensor import Tensor
from ..structured import arguments, pointwise
from ..structured.pointwise import writes
from ..structured.shortcuts import computed as short
from ..structured.view_kernel import seen


def fill_(key_set: int, self: Tensor, value: Any) -> Tensor:
    if type(value) not in pointwise.NUMBERS:
        raise errors.wrong_type("fill_", "value", "be a number or a 0-d tensor", value)
    geometry = self._geometry
    # Numbers that every dtype can represent need no check. For NaN the comparisons are False, so
    # NaN is checked.
    if type(value) is complex or not (
        0 <= value <= 127 or geometry.dtype.category == FLOATING and -1e38 < value < 1e38
    ):
        number_range.check("fill_", "value", value, geometry.dtype)
    if geometry.numel == 0:
        return self
    if geometry.dtype.is_float8:
        return calls.copy_(self, calls.full((), value, float32, None, self._device, None), False)
    if self._device is CPU:
        stub.cpu("fill").fill(self._get_array(), value)
        table, known = operators.fill__Scalar.table, seen(geometry, "fill_")
        if shortcuts.is_due(known, table):
            if (found := short.filling(geometry)) is not None:
                shortcuts.learn(table, fill_, geometry, found)
            known.short = table.short
        return self
    launch = writes.writing("fill_", "fill", "fill", geometry, self._device)
    launch(self._device.index, (self._address(),), (value,))
    return self


def fill_tensor_(key_set: int, self: Tensor, value: Any) -> Tensor:
    if type(value) in pointwise.NUMBERS:  # A boxed call may pass a number instead of a tensor.
        return fill_(key_set, self, value)
    if value._geometry.ndim:
        raise errors.must("fill_", "value", "be a number or a 0-d tensor", value)
    from . import copy

    if overlap.relation(self, value) != overlap.NO:
        value = calls.clone(value)
    return copy.copy_(key_set, self, value, False)


def fill(key_set: int, self: Tensor, value: Any) -> Tensor:
    if not hasattr(value, "_geometry"):
        plain = number(value)
        made = calls.empty_like(self)
        keys = made._keys & BELOW_ADINPLACEORVIEW
        into = operators.fill__Scalar.redispatch_table[keys]
        return into(keys, made, value if plain is None else plain)
    return fill_tensor_(key_set, calls.empty_like(self), value)


def zero_(key_set: int, self: Tensor) -> Tensor:
    geometry = self._geometry
    place = self._device
    has_bytes = geometry.is_non_overlapping_and_dense and geometry.numel
    if has_bytes and place is not CPU and place.type != "meta":
        device, index = runtime.of(place.type), place.index
        if hasattr(device, "memset_async"):
            stream = device.current_stream(index)
            device.memset_async(self._address(), 0, geometry.nbytes, index, stream)
            return self
    zero = False if geometry.dtype.category == BOOL else 0
    table, known = operators.zero_.table, seen(geometry, "zero_") if place is CPU else None
    if shortcuts.is_due(known, table):
        if (fill := short.filling(geometry)) is not None:
            shortcuts.learn(table, zero_, geometry, lambda self: fill(self, zero))
        known.short = table.short
    return fill_(key_set, self, zero)


def fill_diagonal_(key_set: int, self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write to the diagonal. Source: aten/src/ATen/native/Fill.cpp, fill_diagonal_."""
    given = self._geometry
    if given.ndim < 2:
        raise errors.wrong_shape("fill_diagonal_", "self", "have at least two dimensions", self)
    if given.ndim > 2 and len(set(given.sizes)) > 1:
        raise errors.wrong_shape("fill_diagonal_", "self", "have dimensions of one size", self)
    wrap = arguments.boolean("fill_diagonal_", "wrap", wrap)
    step = builtins.sum(given.strides)
    count = min(given.sizes)
    main = calls.as_strided(self, (count,), (step,), self._offset)
    calls.fill__Scalar(main, fill_value)
    if wrap and given.ndim == 2 and given.sizes[0] > given.sizes[1] + 1:
        rows, columns = given.sizes
        for first in range(columns + 1, rows, columns + 1):
            part = calls.diagonal(calls.narrow(self, 0, first, rows - first))
            calls.fill__Scalar(part, fill_value)
    return self
