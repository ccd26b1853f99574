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
from typing import Any

from numpy import ufunc

from ..._generated.loops import LOOPS
from ...core import errors, number_range
from ...core.device import CPU
from ...core.dtype import BOOL, INTEGER, bfloat16, bool_, complex32, dtype, float16, float64
from ...core.dtype_rules import RULES, DtypeRule
from ...core.geometry import Geometry, Sizes, contiguous_geometry
from ...dispatch import defaults
from ...dispatch.operator import Operator, Table
from ...iterator import overlap, parallel
from ...iterator.operands import RESIZE
from ...iterator.plan import Plan, build, over_rows, over_sizes
from ...kernels import stub
from ...kernels.cpu.pointwise import of_many, through_complex64
from ...kernels.cpu.quiet import again, enter, run
from ...tensor.make import allocate, from_array
from ...tensor.tensor import Tensor
from ..shortcuts import pointwise as short
from ..transfer import resize_output
from . import wide

Kernel = Callable[..., Tensor]
NUMBERS = frozenset((bool, int, float, complex))

_new = object.__new__


class Rule:
    """The description of one operator, which a family provides.

    loop: the loop's name in kernels/. config: the iterator's flags. check(op, plan, inputs): raises
    for dtypes that the operator does not accept. out_dtype(common): the result's dtype, if it
    differs from the common dtype. param: the name in messages of an additional number that some
    loops take. like_input: if True, a result of another dtype has the layout of `empty_like` of the
    input, as in PyTorch.
    """

    __slots__ = (
        "family", "loop", "config", "check", "out_dtype", "param", "like_input", "takes_scalars",
        "takes_float8",
    )  # fmt: skip
    family: str
    loop: str
    config: Any
    check: Callable[[str, Plan, tuple[Any, ...]], None] | None
    out_dtype: Callable[[dtype], dtype] | None
    param: str
    like_input: bool

    def __init__(
        self, family: str, loop: str, config: Any,
        check: Callable[[str, Plan, tuple[Any, ...]], None] | None = None,
        out_dtype: Callable[[dtype], dtype] | None = None, param: str = "alpha",
        like_input: bool = False,
    ) -> None:  # fmt: skip
        self.family, self.loop, self.config, self.param = family, loop, config, param
        self.takes_scalars: bool = False
        self.takes_float8: bool = False
        self.check, self.out_dtype, self.like_input = check, out_dtype, like_input


def rule(family: str, loop: str, config: Any, to_float: Any) -> Rule:
    """Return the Rule of a loop, according to `dtypes:` of its YAML row. to_float: the config for
    operators that compute integers in floating point."""
    said = RULES[LOOPS[family][loop]]
    out_dtype = _real if said.gives_real else None
    if said.gives_bool:
        config = config.replace(check_all_same_dtype=False, static_dtype=bool_)
    made = Rule(
        family, loop, to_float if said.to_float else config, _check(said), out_dtype,
        like_input=said.gives_real,
    )  # fmt: skip
    made.takes_float8 = said.takes_float8
    return made


def _real(common: dtype) -> dtype:
    return common.to_real


def _check(said: DtypeRule) -> Callable[[str, Plan, tuple[Any, ...]], None] | None:
    if not said.refuses:
        return None

    def check(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
        said.check(op, "self", plan.common_dtype)

    def check_each(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
        for name, x in zip(plan.config.arg_names, inputs):
            if type(x) is bool or type(x) not in NUMBERS:
                said.check(op, name, bool_ if type(x) is bool else x._geometry.dtype, x)

    return check_each if said.each else check


class CpuEntry:
    """An entry of a plan cache on the CPU: a plan and its bound loop."""

    __slots__ = (
        "rule", "name", "plan", "kinds", "bound", "loop", "geometry", "numpy_allocates", "block",
        "has_numbers", "last_beside", "is_fresh", "seen",
    )  # fmt: skip
    plan: Plan
    geometry: Geometry

    def __init__(self, rule: Rule, loop: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
        self.rule, self.name = rule, loop
        self.kinds: tuple[Any, ...] = kinds_of(rule, plan, inputs)
        self.has_numbers: bool = any([kind in NUMBERS for kind in self.kinds])
        result = plan.outputs[0].geometry.dtype
        if complex32 in (plan.common_dtype, result, *self.kinds):
            bind = partial(through_complex64, stub.cpu(rule.family).bind)
        else:
            bind = partial(stub.cpu_loop, rule.family)
        self.bound = bind(loop, self.kinds, plan.common_dtype, result)
        # NumPy returns a scalar for 0-d operands. If the operands are not row-major, it allocates
        # results in its order K.
        allocates = plan.elementwise_dense or _all_row_major(plan.outputs[0].geometry, inputs)
        self._fit(plan, allocates and plan.numel > 0 and len(plan.sizes) > 0)

    def over_sizes(self, sizes: Sizes) -> CpuEntry:
        """Return the entry for operands that differ only in their sizes: see `_likeness`."""
        entry = _new(CpuEntry)
        entry.rule, entry.name = self.rule, self.name
        entry.kinds, entry.bound, entry.has_numbers = self.kinds, self.bound, self.has_numbers
        entry._fit(over_sizes(self.plan, sizes), True)
        return entry

    def _fit(self, plan: Plan, numpy_allocates: bool) -> None:
        """Store the plan, and values that depend on the number of elements."""
        self.plan, self.geometry = plan, plan.outputs[0].geometry
        self.is_fresh: bool = True
        self.last_beside: Any = ((), ())
        self.seen: Any = None
        self.loop: Callable[..., Any]
        result = self.geometry.dtype
        if complex32 in (plan.common_dtype, result, *self.kinds):
            self.loop, numpy_allocates = self.bound, False
        elif stub.is_compiled(self.bound):
            self.loop = self.bound
        else:
            self.loop = of_many(self.bound, self.kinds, result, plan.numel)
        self.block: int = _block(self.loop, plan.numel)
        self.numpy_allocates: bool = numpy_allocates and not self.block

    def write(self, out: Tensor, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> None:
        """Run the loop from the inputs to `out`. With enough elements, several threads run it."""
        if self.plan.numel == 0:
            return
        arrays = [x if type(x) in NUMBERS else x._get_array() for x in inputs]
        try:
            if self.block:
                parallel.pointwise(self.loop, arrays, params, out._get_array(), self.block)
            else:
                run(self.loop, *arrays, *params, out._get_array())
        except OverflowError as error:
            raise self.refused(error, inputs) from None

    def fresh(self, inputs: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Tensor:
        """Return a new tensor to which the loop has written."""
        out = allocate(self.geometry, CPU)
        self.write(out, inputs, params)
        return out

    def made(self, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Tensor:
        """Call the loop with `out` None, so that it allocates the result, and return the result."""
        arrays = [x if type(x) in NUMBERS else x._get_array() for x in inputs]
        try:
            array = enter(self.loop, *arrays, *params, None)
        except (RuntimeError, OverflowError) as error:
            if isinstance(error, OverflowError):
                raise self.refused(error, inputs) from None
            array = again(error, self.loop, *arrays, *params, None)
        return from_array(array, self.geometry)

    def refused(self, error: OverflowError, inputs: tuple[Any, ...]) -> Exception:
        op = self.plan.op.removesuffix("_")
        names = self.plan.config.arg_names
        return too_large(error, op, self.plan.common_dtype, inputs, names)


def _block(loop: Any, numel: int) -> int:
    """Return the number of elements that a thread processes at a time; 0 means a single call."""
    if stub.is_compiled(loop):
        return 0
    if isinstance(loop, ufunc) or isinstance(loop, partial) and isinstance(loop.func, ufunc):
        return max(parallel.BLOCK, numel >> 4) if numel >= parallel.POINTWISE_FROM else 0
    return parallel.COMPOSED_BLOCK if numel >= 4 * parallel.COMPOSED_BLOCK else 0


def kinds_of(rule: Rule, plan: Plan, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the kind of each input, as loops take it."""
    return tuple([_kind(rule, plan, x, number) for number, x in enumerate(inputs)])


def _kind(rule: Rule, plan: Plan, x: Any, number: int) -> Any:
    """Return the kind of an input, as loops take it: its dtype, or the type of a number.

    In products and quotients of f16 or bf16, a 0-d `other` is not rounded to the dtype. Source:
    ATen/native/cpu/BinaryOpsKernel.cpp, binary_kernel_reduced_floating_vec_opmath_support.
    """
    if type(x) in NUMBERS:
        return type(x)
    element = x._geometry.dtype
    if number and rule.takes_scalars and not x._geometry.ndim and element is not plan.common_dtype:
        if plan.common_dtype in (float16, bfloat16):
            return float
    return element


def too_large(
    error: OverflowError, op: str, common: dtype, inputs: tuple[Any, ...],
    names: tuple[str, ...] = ("self", "other"),
) -> Exception:  # fmt: skip
    """Return our error for NumPy's error about an integer outside the range of doubles. Errors of
    our own are returned unchanged."""
    if isinstance(error, errors.GpuTensorError):
        return error
    arg, value = next(
        (name, x) for name, x in zip(names, inputs)
        if type(x) is int and not number_range.fits(x, common)
    )  # fmt: skip
    return errors.number_out_of_range(op, common, value, arg)


def _all_row_major(result: Geometry, inputs: tuple[Any, ...]) -> bool:
    """Return True if the result and all operands are row-major. NumPy then allocates a row-major
    result, even for broadcast operands."""
    if result is not contiguous_geometry(result.sizes, result.dtype):
        return False
    return all([type(x) in NUMBERS or x._geometry.is_contiguous for x in inputs])


class DeviceEntry:
    """A plan and its bound launch, for devices other than the CPU."""

    __slots__ = (
        "rule", "name", "plan", "launch", "geometry", "has_numbers", "last_beside", "is_fresh",
        "seen",
    )  # fmt: skip
    numpy_allocates = False

    def __init__(self, rule: Rule, loop: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
        self.rule, self.name = rule, loop
        self.plan: Plan = plan
        self.geometry: Geometry = plan.outputs[0].geometry
        self.launch = stub.bind(rule.family, rule.loop, plan.device.type, plan)
        self.has_numbers: bool = any([type(x) in NUMBERS for x in inputs])
        self.last_beside: Any = ((), ())
        self.is_fresh: bool = True
        self.seen: Any = None

    def over_sizes(self, sizes: Sizes) -> DeviceEntry:
        """Return the entry for operands that differ only in their sizes: see `_likeness`."""
        entry = _new(DeviceEntry)
        entry.rule, entry.name, entry.has_numbers = self.rule, self.name, self.has_numbers
        entry.plan = plan = over_sizes(self.plan, sizes)
        entry.geometry = plan.outputs[0].geometry
        over = getattr(self.launch, "over", None)
        launch = over(plan) if over is not None else None
        entry.launch = launch or stub.bind(self.rule.family, self.rule.loop, plan.device.type, plan)
        entry.last_beside, entry.is_fresh, entry.seen = ((), ()), True, None
        return entry

    def over_rows(self, sizes: Sizes, inner: int) -> DeviceEntry:
        """Return the entry for operands of other sizes: see `_likeness_of_rows`."""
        plan = over_rows(self.plan, sizes, inner)
        made = DeviceEntry(self.rule, self.name, plan, ())
        made.has_numbers = self.has_numbers
        return made

    def fresh(self, inputs: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Tensor:
        """Return a new tensor to which the launch writes."""
        out = allocate(self.geometry, self.plan.device)
        self.write(out, inputs, params)
        return out

    def write(self, out: Tensor, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> None:
        """Launch the kernel from the inputs to `out`. The call returns before the device has run
        the kernel."""
        device = self.plan.device
        if self.plan.numel == 0 or device.type == "meta":
            return
        operands = [out._address()]
        for x in inputs:
            if type(x) in NUMBERS:
                operands.append(x)
            elif x._device is device:
                operands.append(x._address())
            else:
                # A CPU scalar may be among operands of a device.
                operands.append(x._get_array().item())
        self.launch(device.index, tuple(operands), params)


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
    sizes, alike = _likeness(rule, loop, out, inputs)
    model = table.plans.get(alike) if sizes else None
    if model is not None:
        return table.remember(key, model.over_sizes(sizes))
    whole, alike_rows, inner = ((), (), 0) if sizes else _likeness_of_rows(rule, loop, out, inputs)
    if inner and (model := table.plans.get(alike_rows)) is not None:
        return table.remember(key, model.over_rows(whole, inner))
    plan = _build(table.operator.short_name, rule, out, inputs)
    if plan.common_dtype.is_float8:
        find = partial(find_entry, table, rule, loop, None)
        has_numbers = any([type(x) in NUMBERS for x in inputs])
        return table.remember(key, wide.WideEntry(plan, has_numbers, find))
    kind = CpuEntry if plan.device is CPU else DeviceEntry
    entry = table.remember(key, kind(rule, loop, plan, inputs))
    if sizes or inner:
        table.remember(alike if sizes else alike_rows, entry)
    return entry


def _likeness(
    rule: Rule, loop: str, out: Tensor | None, inputs: tuple[Any, ...]
) -> tuple[Sizes, tuple[Any, ...]]:
    """Return the sizes of row-major operands on one device, and a key of all their other
    properties. For other operands, return empty tuples.

    A program that has new lengths in each call would otherwise build a plan each time. Instead, a
    plan is derived from another plan with an equal key. This is possible because dtypes, checks and
    the choice of a loop do not depend on sizes.
    """
    sizes: Sizes = ()
    device = next((x._device for x in inputs if type(x) not in NUMBERS), CPU)
    alike: list[Any] = [_likeness, loop, out is None, device]
    if rule.like_input or out is not None and out is not inputs[0]:
        return (), ()
    for x in inputs:
        if type(x) in NUMBERS:
            alike.append(type(x))
            continue
        shape = x._geometry
        if not (shape.is_row_major and shape.ndim and x._device is device):
            return (), ()
        if sizes and shape.sizes != sizes:
            return (), ()
        sizes = shape.sizes
        if shape.dtype.is_float8:
            return (), ()
        alike.append(shape.dtype)
    return (sizes, tuple(alike)) if sizes and 0 not in sizes else ((), ())


def _likeness_of_rows(
    rule: Rule, loop: str, out: Tensor | None, inputs: tuple[Any, ...]
) -> tuple[Sizes, tuple[Any, ...], int]:
    """Return, for row-major operands on a device other than the CPU of which some are rows that
    repeat: the sizes of the others, a key of all their other properties, as in `_likeness`, and the
    number of elements of a row. For other operands, return 0 for this number.
    """
    none: tuple[Sizes, tuple[Any, ...], int] = ((), (), 0)
    shapes = [x._geometry for x in inputs if type(x) not in NUMBERS]
    device = next((x._device for x in inputs if type(x) not in NUMBERS), CPU)
    if device is CPU or rule.like_input or out is not None and out is not inputs[0]:
        return none
    sizes: Sizes = max([x.sizes for x in shapes], key=len)
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
    return (sizes, tuple(alike), prod(row)) if row else none


def _build(op: str, rule: Rule, out: Tensor | None, inputs: tuple[Any, ...]) -> Plan:
    specs: tuple[Any, ...] = tuple(
        [type(x) if type(x) in NUMBERS else (x._geometry, x._device) for x in inputs]
    )
    out_spec = None if out is None else (out._geometry, out._device)
    # If the output is also an input, both must be the same pair object, because the iterator
    # compares pairs by identity.
    out_spec = next((s for x, s in zip(inputs, specs) if x is out), out_spec)
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
    """Raise the error that a kernel would raise for a number out of range, but before `out` is
    resized."""
    common = plan.common_dtype
    for arg, x in zip(plan.config.arg_names, inputs):
        if type(x) in NUMBERS and common.category == INTEGER:
            number_range.in_64_bits(op, arg, x)
        elif type(x) is int and common.category != BOOL:
            number_range.check(op, arg, x, float64)


def check_overlap(
    op: str, rule: Rule, out: Tensor, inputs: tuple[Any, ...], shape: Geometry | None = None
) -> None:
    """Raise if `out`, with the geometry `shape` that it will have, shares part of its memory with
    an input."""
    if not rule.config.check_mem_overlap:
        return
    for number, x in enumerate(inputs):
        if x is not out and type(x) not in NUMBERS:
            overlap.check(op, out, x, rule.config.input_name(number), shape)
