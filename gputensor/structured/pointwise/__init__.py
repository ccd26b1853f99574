"""Kernels of elementwise operators, in functional, in-place and out forms.

Unary and binary operators, comparisons and `where` share these kernels. A family supplies the loop,
the iterator config and the dtypes. Each form exists twice: for the CPU, where the loop takes arrays
and NumPy may allocate the result, and for all other devices, where a launch takes pointers.

Note [What a plan is found by]: on the CPU, the key of a plan consists of the geometry of each
tensor and the type of each number. The plan is valid for all values and addresses. On other
devices, the key also contains the device and the low four bits of each address, because these
determine the width of accesses. The default dtype is not part of the key; a change of the default
dtype drops all plans.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from operator import attrgetter
from typing import Any

from ...core import errors, number_range
from ...core.arguments import NUMBERS as NUMBERS
from ...core.device import CPU
from ...core.dtype import BOOL, INTEGER, float64
from ...core.geometry import Geometry, Sizes
from ...dispatch import defaults
from ...dispatch.operator import Operator, Table
from ...iterator import overlap
from ...iterator.operands import RESIZE
from ...iterator.plan import Plan, build
from ...tensor.tensor import Tensor
from ..shortcuts import pointwise as short
from ..transfer import resize_output
from . import wide
from .entries import (
    CpuEntry as CpuEntry,
    DeviceEntry as DeviceEntry,
    kinds_of as kinds_of,
    too_large as too_large,
)
from .rules import Rule as Rule, rule as rule

Kernel = Callable[..., Tensor]

# --- plans ----------------------------------------------------------------------------------------


def find_entry(
    table: Table, rule: Rule, loop: str, out: Tensor | None, inputs: tuple[Any, ...]
) -> Any:
    """Return the entry for these operands from an operator's table. If there is none, make it."""
    if out is None:
        kinds = [type(x) if type(x) in NUMBERS else x._geometry if x._device is CPU else _key(x)
                 for x in inputs]  # fmt: skip
        key: tuple[Any, ...] = (loop, None, *kinds)
    else:
        key = (loop, _key(out), *[True if x is out else _key(x) for x in inputs])
    entry = table.plans.get(key)
    if entry is None:
        entry = make_entry(table, rule, loop, out, inputs, key)
    return entry


def _key(operand: Any) -> Any:
    """Return an operand's part of the key: see Note [What a plan is found by]."""
    if type(operand) in NUMBERS:
        return type(operand)
    if operand._device is CPU:
        return operand._geometry
    # For meta and pending tensors, `data` is None.
    data, shape = operand._storage._data, operand._geometry
    begin = operand._offset * shape.dtype.itemsize
    return (shape, operand._device, (begin if data is None else begin + data.ptr) & 15)


def make_entry(
    table: Table, rule: Rule, loop: str, out: Tensor | None, inputs: tuple[Any, ...], key: Any
) -> Any:
    """Build a plan, bind its loop, and store both as an entry under `key`."""
    shape, alike = _likeness(rule, loop, out, inputs)
    if shape is not None and (model := table.plans.get(alike)) is not None:
        return _derived(table, key, model.over_sizes(shape))
    if shape is None:
        shape, alike, inner = _likeness_of_rows(rule, loop, out, inputs)
        if shape is not None and (model := table.plans.get(alike)) is not None:
            return _derived(table, key, model.over_rows(shape, inner))
    plan = _build(table.operator.short_name, rule, out, inputs)
    if plan.common_dtype.is_float8:
        find = partial(find_entry, table, rule, loop, None)
        has_numbers = any([type(x) in NUMBERS for x in inputs])
        return table.remember(key, wide.WideEntry(plan, has_numbers, find))
    kind = CpuEntry if plan.device is CPU else DeviceEntry
    entry = table.remember(key, kind(rule, loop, plan, inputs))
    if shape is not None:
        table.remember(alike, entry)
    return entry


def _derived(table: Table, key: Any, entry: Any) -> Any:
    """Return an entry that was derived from another one. Store it, on devices only if its key
    occurs for the second time."""
    remember = table.remember_again if type(entry) is DeviceEntry else table.remember
    return remember(key, entry)


def _likeness(
    rule: Rule, loop: str, out: Tensor | None, inputs: tuple[Any, ...]
) -> tuple[Geometry | None, tuple[Any, ...]]:
    """Return the geometry of an operand, and a key of all properties of the operands except their
    sizes. The operands must be row-major, on one device and of equal sizes. Otherwise return None
    and an empty tuple.

    A program that has new lengths in each call would otherwise build a plan each time. Instead, a
    plan is derived from another plan with an equal key. This is possible because dtypes, checks and
    the choice of a loop do not depend on sizes.
    """
    if rule.like_input or out is not None and out is not inputs[0]:
        return None, ()
    first: Geometry | None = None
    device: Any = None
    alike: list[Any] = [_likeness, loop, out is None]
    for x in inputs:
        if type(x) in NUMBERS:
            alike.append(type(x))
            continue
        shape = x._geometry
        if first is None:
            if not (shape.is_row_major and shape.ndim and shape.numel) or shape.dtype.is_float8:
                return None, ()
            first, device = shape, x._device
            alike.append(device)
        elif (
            x._device is not device
            or shape is not first
            and (not shape.is_row_major or shape.sizes != first.sizes or shape.dtype.is_float8)
        ):
            return None, ()
        alike.append(shape.dtype)
    return (first, tuple(alike)) if first is not None else (None, ())


def _likeness_of_rows(
    rule: Rule, loop: str, out: Tensor | None, inputs: tuple[Any, ...]
) -> tuple[Geometry | None, tuple[Any, ...], int]:
    """Return (geometry, key, number of elements of a row) if some operands are rows that are
    broadcast to the sizes of the other operands. geometry: of an operand that is no row. key: all
    properties except sizes, as in `_likeness`. The operands must be row-major and on one device,
    which is not the CPU. Otherwise return None, an empty tuple and 0."""
    none: tuple[Geometry | None, tuple[Any, ...], int] = (None, (), 0)
    shapes = [x._geometry for x in inputs if type(x) not in NUMBERS]
    device = next((x._device for x in inputs if type(x) not in NUMBERS), CPU)
    if device is CPU or rule.like_input or out is not None and out is not inputs[0]:
        return none
    whole: Geometry = max(shapes, key=attrgetter("ndim"))
    sizes = whole.sizes
    if 1 in sizes or 0 in sizes:
        return none
    alike: list[Any] = [_likeness_of_rows, loop, out is None, device]
    row: Sizes = ()
    for x in inputs:
        if type(x) in NUMBERS:
            alike.append(type(x))
            continue
        shape = x._geometry
        own = shape.sizes
        if not (shape.is_row_major and own and x._device is device) or shape.dtype.is_float8:
            return none
        if own != sizes:
            if sizes[-len(own) :] != own or row and row != own:
                return none
            row = own
        alike += [shape.dtype, own == sizes]
    return (whole, tuple(alike), prod(row)) if row else none


def _build(op: str, rule: Rule, out: Tensor | None, inputs: tuple[Any, ...]) -> Plan:
    specs: tuple[Any, ...] = tuple(
        [type(x) if type(x) in NUMBERS else (x._geometry, x._device) for x in inputs]
    )
    out_spec = None
    if out is not None:
        # The iterator compares pairs (geometry, device) by identity. If the output is also an
        # input, both must be one pair object.
        own = (out._geometry, out._device)
        out_spec = next((s for x, s in zip(inputs, specs) if x is out), own)
    default = defaults.get_default_dtype()
    plan = build(
        op, rule.config, (out_spec,), specs, default_dtype=default, out_dtype=rule.out_dtype,
        is_like_input=rule.like_input,
    )  # fmt: skip
    if rule.check is not None:
        rule.check(op, plan, inputs)
    for name, x in zip(rule.config.arg_names, inputs):
        if type(x) not in NUMBERS and x._geometry.dtype.is_float8:
            if not rule.takes_float8:
                raise errors.not_computed(op, name, x._geometry.dtype, x)
            if rule.takes_scalars:
                names, of = rule.config.arg_names, x._geometry.dtype
                wide.check_factor(op, names[1], of, inputs[1])
    return plan


# --- forms, for any device ------------------------------------------------------------------------


def functional(
    operator: Operator, rule: Rule, loop: str | None = None, n_params: int = 0
) -> Kernel:
    """Make the functional kernel, called as kernel(key_set, *inputs, *params). It returns a new
    tensor. params: scalars that do not affect the layout."""
    name = loop or rule.loop

    def kernel(key_set: int, *args: Any) -> Tensor:
        inputs, params = args[: len(args) - n_params], args[len(args) - n_params :]
        entry = find_entry(operator.table, rule, name, None, inputs)
        if params:
            check_params(operator, rule, entry, params)
        made: Tensor = entry.fresh(inputs, params)
        return made

    return kernel


def write(operator: Operator, rule: Rule, loop: str | None = None, n_params: int = 0) -> Kernel:
    """Make a function write(out, inputs, params, kernel) that returns `out`, for in-place and out
    kernels. All checks that can fail are made before `out` changes. kernel: the kernel that stores
    short cuts, or None."""
    name = loop or rule.loop

    def write_into(
        out: Tensor, inputs: tuple[Any, ...], params: tuple[Any, ...] = (),
        kernel: Kernel | None = None,
    ) -> Tensor:  # fmt: skip
        table = operator.table
        entry = find_entry(table, rule, name, out, inputs)
        if params:
            check_params(operator, rule, entry, params)
        check_overlap(operator.short_name, rule, out, inputs)
        if entry.plan.outputs[0].action is RESIZE:
            check_overlap(operator.short_name, rule, out, inputs, entry.geometry)
            if entry.has_numbers:
                _check_meeting(operator.short_name, entry.plan, inputs)
            resize_output(operator.short_name, out, entry.geometry)
        elif kernel is not None and entry.is_fresh and out._device is CPU:
            short.learn_out(table, kernel, entry, inputs, out)
        entry.write(out, inputs, params)
        return out

    return write_into


def check_params(operator: Operator, rule: Rule, entry: Any, params: tuple[Any, ...]) -> None:
    """Raise unless all scalar parameters fit the operands' promoted dtype."""
    for value in params:
        number_range.check(operator.short_name, rule.param, value, entry.plan.common_dtype)


def _check_meeting(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
    """Raise an error for a number out of range. Without this check, the kernel would raise the
    error, but only after `out` is resized."""
    common = plan.common_dtype
    for arg, x in zip(plan.config.arg_names, inputs):
        if type(x) in NUMBERS and common.category == INTEGER:
            number_range.in_64_bits(op, arg, x)
        elif type(x) is int and common.category != BOOL:
            number_range.check(op, arg, x, float64)


def check_overlap(
    op: str, rule: Rule, out: Tensor, inputs: tuple[Any, ...], shape: Geometry | None = None
) -> None:
    """Raise if `out` shares part of its memory with an input. shape: the geometry that `out` will
    have after a resize, if it is resized."""
    if not rule.config.check_mem_overlap:
        return
    for number, x in enumerate(inputs):
        if x is not out and type(x) not in NUMBERS:
            overlap.check(op, out, x, rule.config.input_name(number), shape)
