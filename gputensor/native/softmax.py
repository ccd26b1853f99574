"""softmax and log_softmax along one dimension, and their derivatives.

Results are row-major for any operand layout, as in PyTorch.
Source: aten/src/ATen/native/SoftMax.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import exact
from ..core.device import CPU
from ..core.dtype import FLOATING, dtype
from ..core.geometry import Geometry, contiguous_geometry
from ..dispatch import shortcuts
from ..dispatch.operator import Operator, Table
from ..iterator import overlap
from ..iterator.rows import Rows
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..structured import arguments
from ..structured.shortcuts import computed as short, cuda_calls as short_calls
from ..structured.pointwise import Kernel
from ..structured.transfer import resize_output


class _Entry:
    """A cached plan: the layout of the result, the dimension of the rows, and the loop.

    is_fresh: no call has found the entry yet. The first call that finds it stores a short cut.
    """

    __slots__ = ("geometry", "dim", "run", "is_fresh")

    def __init__(self, op: str, result: Geometry, inputs: tuple[Tensor, ...], dim: int) -> None:
        device = inputs[0]._device
        self.geometry, self.dim, self.is_fresh = result, dim, True
        if device is CPU:
            self.run = getattr(stub.cpu("softmax"), op)
        else:
            rows = Rows(op, (result, *[x._geometry for x in inputs]), dim, result.dtype)
            self.run = stub.bind("softmax", op, device.type, rows)

    def learn(self, table: Table, kernel: Kernel, args: tuple[Any, ...]) -> None:
        """Store a short cut for calls with these arguments."""
        self.is_fresh = False
        if args[0]._device is CPU:
            short.learn(table, kernel, args, short.made_by(self.run, self.geometry, (self.dim,)))
            return
        inputs = tuple([None for x in args if isinstance(x, Tensor)])
        short_calls.learn(table, kernel, args, self.geometry, self.run, inputs, low_bits=0)

    def write(self, out: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        if self.geometry.numel == 0 or out._device.type == "meta":
            return out
        if out._device is CPU:
            run(self.run, *[x._get_array() for x in inputs], self.dim, out._get_array())
        else:
            self.run(out._device.index, (out._address(), *[x._address() for x in inputs]))
        return out


def _entry(
    operator: Operator, op: str, inputs: tuple[Tensor, ...], dim: Any, out: Tensor | None = None,
    kernel: Kernel | None = None, args: tuple[Any, ...] = (),
) -> _Entry:  # fmt: skip
    first = inputs[0]
    into = None if out is None else out._geometry
    key = (op, *[x._geometry for x in inputs], first._device, exact(dim), into)
    table = operator.table
    found: _Entry | None = table.plans.get(key)
    if found is None:
        geometry = first._geometry
        name = operator.short_name.lstrip("_").removesuffix("_data")
        at = arguments.dim(name, dim, geometry.ndim)
        result = contiguous_geometry(geometry.sizes, geometry.dtype)
        if out is not None and out._geometry.sizes == geometry.sizes:
            result = out._geometry
        found = table.remember(key, _Entry(op, result, inputs, at))
    elif found.is_fresh and kernel is not None:
        found.learn(table, kernel, args)
    return found


def _check(op: str, x: Tensor, arg: str) -> None:
    if x._geometry.dtype.category != FLOATING:
        raise errors.wrong_dtype(op, arg, "be floating", x, remedy="give dtype=, or use .float()")


def _check_input(op: str, self: Tensor, half_to_float: Any) -> None:
    _check(op, self, "self")
    if half_to_float:
        raise errors.must(op, "half_to_float", "be False", half_to_float, remedy="cast self first")


# --- forms ----------------------------------------------------------------------------------------


def functional(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, dim: int, half_to_float: bool) -> Tensor:
        _check_input(loop, self, half_to_float)
        args = (self, dim, half_to_float)
        entry = _entry(operator, loop, (self,), dim, None, kernel, args)
        return entry.write(allocate(entry.geometry, self._device), (self,))

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, dim: int, half_to_float: bool, out: Tensor) -> Tensor:
        _check_input(loop, self, half_to_float)
        arguments.check_alike(loop, "self", self, "out", out)
        entry = _entry(operator, loop, (self,), dim, out)
        overlap.check_itself(loop, out)
        if out is not self:
            overlap.check(loop, out, self, "self", entry.geometry)
        if out._geometry is not entry.geometry:
            resize_output(loop, out, entry.geometry)
        return entry.write(out, (self,))

    return kernel


def backward_functional(operator: Operator, loop: str) -> Kernel:
    def kernel(
        key_set: int, grad_output: Tensor, output: Tensor, dim: int, input_dtype: dtype
    ) -> Tensor:
        _check(loop, grad_output, "grad_output")
        arguments.check_device(loop, "grad_output", grad_output, "output", output)
        given = grad_output._geometry
        if output._geometry.sizes != given.sizes or output._geometry.dtype is not given.dtype:
            rule = f"have grad_output's sizes and dtype, {errors.describe(grad_output)}"
            raise errors.wrong_shape(loop, "output", rule, output)
        if input_dtype is not given.dtype:
            raise errors.wrong_dtype(loop, "input_dtype", f"be {given.dtype.short}", input_dtype)
        args = (grad_output, output, dim, input_dtype)
        entry = _entry(operator, loop, (grad_output, output), dim, None, kernel, args)
        return entry.write(allocate(entry.geometry, grad_output._device), (grad_output, output))

    return kernel


# --- public functions -----------------------------------------------------------------------------


def softmax(key_set: int, self: Tensor, dim: int, dtype: dtype | None = None) -> Tensor:
    made = calls._softmax(_in_dtype(self, dtype), dim, False)
    if dtype is None:
        table, to = operators.softmax_int.table, operators._softmax.table
        short.learn_forward(table, softmax, (self, dim, None), to, (dim, False))
    return made


def log_softmax(key_set: int, self: Tensor, dim: int, dtype: dtype | None = None) -> Tensor:
    made = calls._log_softmax(_in_dtype(self, dtype), dim, False)
    if dtype is None:
        table, to = operators.log_softmax_int.table, operators._log_softmax.table
        short.learn_forward(table, log_softmax, (self, dim, None), to, (dim, False))
    return made


def _over(operator: Callable[[], Operator]) -> Callable[[], tuple[shortcuts.Step, ...]]:
    return lambda: ((operator(), shortcuts.CPU, "softmax.functional.<locals>.kernel"),)


shortcuts.jumps(softmax, _over(lambda: operators._softmax))
shortcuts.jumps(log_softmax, _over(lambda: operators._log_softmax))


def _safe_softmax(key_set: int, self: Tensor, dim: int, dtype: dtype | None = None) -> Tensor:
    made = calls.softmax_int(self, dim, dtype)
    if not made._geometry.numel:
        return made
    sees_none = calls.all_dim(calls.eq_Tensor(self, -math.inf), dim, True)
    return calls.where_self(sees_none, 0.0, made)


def _in_dtype(self: Tensor, wanted: dtype | None) -> Tensor:
    if wanted is None or wanted is self._geometry.dtype:
        return self
    return calls.to_dtype(self, wanted, False, False, None)
