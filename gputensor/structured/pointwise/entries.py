"""Entries of plan caches. An entry consists of a plan and its bound loop on the CPU, or of a plan
and its bound launch on another device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numpy import ufunc

from ...core import errors, number_range
from ...core.arguments import NUMBERS
from ...core.device import CPU
from ...core.dtype import bfloat16, complex32, dtype, float16
from ...core.geometry import Geometry
from ...iterator import parallel
from ...iterator.plan import Plan, over_rows, over_sizes
from ...kernels import stub
from ...kernels.cpu.pointwise import of_many, through_complex64
from ...kernels.cpu.quiet import again, enter, run
from ...tensor.make import allocate, from_array
from ...tensor.tensor import Tensor
from .rules import Rule

_new = object.__new__


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
        # Let NumPy allocate the result only if the result then has the planned layout. For 0-d
        # operands, NumPy returns a scalar. For operands that are not row-major, it allocates in its
        # order K.
        allocates = plan.elementwise_dense or _all_row_major(plan.outputs[0].geometry, inputs)
        self._fit(plan, allocates and plan.numel > 0 and len(plan.sizes) > 0)

    def over_sizes(self, shape: Geometry) -> CpuEntry:
        """Return an entry for operands that differ from those of this entry only in their sizes.
        shape: the geometry of an operand. See `_likeness`."""
        entry = _new(CpuEntry)
        entry.rule, entry.name = self.rule, self.name
        entry.kinds, entry.bound, entry.has_numbers = self.kinds, self.bound, self.has_numbers
        entry._fit(over_sizes(self.plan, shape), True)
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
        """Return the loop's result as a tensor. The loop gets None as `out`, so it allocates the
        result."""
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
    """Return the kind of each input. Loops are bound for these kinds."""
    return tuple([_kind(rule, plan, x, number) for number, x in enumerate(inputs)])


def _kind(rule: Rule, plan: Plan, x: Any, number: int) -> Any:
    """Return the kind of an input: its dtype or, for a number, the type.

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
    """Return gputensor's error for NumPy's error about an integer outside the range of doubles.
    Return an error of gputensor unchanged."""
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
    return result.is_row_major and all(
        [type(x) in NUMBERS or x._geometry.is_contiguous for x in inputs]
    )


class DeviceEntry:
    """A plan and its bound launch, for devices other than the CPU."""

    __slots__ = (
        "rule", "name", "plan", "launch", "geometry", "has_numbers", "last_beside", "is_fresh",
        "seen",
    )  # fmt: skip
    numpy_allocates = False
    rule: Rule
    name: str
    launch: Any

    def __init__(self, rule: Rule, loop: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
        self.rule, self.name = rule, loop
        self.plan: Plan = plan
        self.geometry: Geometry = plan.outputs[0].geometry
        self.launch = stub.bind(rule.family, rule.loop, plan.device.type, plan)
        self.has_numbers: bool = any([type(x) in NUMBERS for x in inputs])
        self.last_beside: Any = ((), ())
        self.is_fresh: bool = True
        self.seen: Any = None

    def over_sizes(self, shape: Geometry) -> DeviceEntry:
        """Return an entry for operands that differ from those of this entry only in their sizes.
        shape: the geometry of an operand. See `_likeness`."""
        entry = _new(DeviceEntry)
        entry.rule, entry.name, entry.has_numbers = self.rule, self.name, self.has_numbers
        entry.plan = plan = over_sizes(self.plan, shape)
        entry.geometry = plan.outputs[0].geometry
        over = getattr(self.launch, "over", None)
        launch = over(plan) if over is not None else None
        entry.launch = launch or stub.bind(self.rule.family, self.rule.loop, plan.device.type, plan)
        entry.last_beside, entry.is_fresh, entry.seen = ((), ()), True, None
        return entry

    def over_rows(self, shape: Geometry, inner: int) -> DeviceEntry:
        """Return an entry for operands that differ from those of this entry only in their sizes. As
        in this entry, some of the operands are rows: see `_likeness_of_rows`."""
        plan = over_rows(self.plan, shape, inner)
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
                # A CPU scalar may be combined with tensors of a device. The kernel gets its value
                # as a number.
                operands.append(x._get_array().item())
        self.launch(device.index, tuple(operands), params)
