"""Fast kernels of elementwise operators on devices other than the CPU. `a + b` on a GPU calls one
of them.

The address of each operand is read once, for the plan's key and for the launch. These kernels
support tensors whose memory is on one device, and numbers. All other calls are passed to the
general kernels in this folder: see Note [What a plan is found by] there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core import errors
from ...core.arguments import ONE
from ...dispatch.operator import Operator
from ...tensor.make import allocate
from ...tensor.tensor import Tensor
from .. import pointwise
from ..shortcuts import cuda as short_cuda
from . import NUMBERS, Kernel, Rule


def unary(operator: Operator, rule: Rule) -> Kernel:
    """Make the functional form of a unary operator for all devices except the CPU."""
    loop = rule.loop
    general = pointwise.functional(operator, rule)

    def kernel(key_set: int, self: Tensor) -> Tensor:
        shape, device = self._geometry, self._device
        try:
            x = self._storage._data.ptr + self._offset * shape.dtype.itemsize
        except AttributeError:  # A meta tensor has no memory.
            return errors.plainly(general, key_set, self)
        key = (shape, device, x & 15)
        table = operator.table
        entry = table.plans.get(key)
        if entry is None:
            if shape.dtype.is_float8:
                return general(key_set, self)
            entry = pointwise.make_entry(table, rule, loop, None, (self,), key)
        elif entry.is_fresh:
            short_cuda.learn(table, kernel, key, entry)
        out = allocate(entry.geometry, device)
        if shape.numel:
            entry.launch(device.index, (out._storage._data.ptr, x))
        return out

    return kernel


def _has_float8(*inputs: Any) -> bool:
    """Return True if an operand is float8. There is no launch for float8: see wide.py."""
    for x in inputs:
        if type(x) not in NUMBERS and x._geometry.dtype.is_float8:
            return True
    return False


def binary(
    operator: Operator, rule: Rule,
    check_alpha: Callable[[Operator, Any, Any, Any], Any] | Any = None,
) -> Kernel:  # fmt: skip
    """Make the functional form of a binary operator for all devices except the CPU.

    check_alpha: for operators with `alpha`. It returns alpha as a Python number, or raises if alpha
    does not fit the operands.
    """
    loop = rule.loop
    general = pointwise.functional(operator, rule)
    # If IncludeDispatchKeys selected this kernel, the operands may be on the CPU, whose loops are
    # different. The general kernel handles operands of all devices.
    scaled = pointwise.functional(operator, rule, loop + "_alpha", n_params=1)

    def kernel(key_set: int, self: Any, other: Any, alpha: Any = ONE) -> Tensor:
        params: tuple[Any, ...] = ()
        if alpha is not ONE:
            alpha = check_alpha(operator, self, other, alpha)
            params = (alpha,)
        kind = type(other)
        try:
            device, shape = self._device, self._geometry
            a = self._storage._data.ptr + self._offset * shape.dtype.itemsize
            if kind in NUMBERS:
                b = other
                key: tuple[Any, ...] = (shape, device, a & 15, kind)
            elif other._device is device:
                shape_b = other._geometry
                b = other._storage._data.ptr + other._offset * shape_b.dtype.itemsize
                key = (shape, device, a & 15, shape_b, b & 15)
            else:
                raise AttributeError
        # The error is raised if an operand is a meta tensor, if the first operand is a number, or
        # for a CPU scalar and a tensor of the device.
        except AttributeError:
            if alpha is not ONE:
                return errors.plainly(scaled, key_set, self, other, alpha)
            if type(self) in NUMBERS:
                return errors.plainly(turned, key_set, self, other)
            return errors.plainly(general, key_set, self, other)
        table = operator.table
        entry = table.plans.get(key)
        if entry is None:
            if _has_float8(self, other):
                return general(key_set, self, other)
            entry = pointwise.make_entry(table, rule, loop, None, (self, other), key)
        elif params:
            short_cuda.learn_scaled(table, kernel, key, entry, alpha, is_inplace=False)
        elif entry.is_fresh:
            short_cuda.learn(table, kernel, key, entry)
        if params:
            pointwise.check_params(operator, rule, entry, params)
        out = allocate(entry.geometry, device)
        if entry.geometry.numel:
            entry.launch(device.index, (out._storage._data.ptr, a, b), params)
        return out

    def turned(key_set: int, self: Any, other: Any) -> Tensor:
        """Compute the operator for a number as the first operand."""
        shape, device = other._geometry, other._device
        storage = other._storage
        data = None if storage is None else storage._data
        if data is None or shape.dtype.is_float8 or device.type != "cuda":
            return general(key_set, self, other)
        b = data.ptr + other._offset * shape.dtype.itemsize
        key = (type(self), shape, device, b & 15)
        table = operator.table
        entry = table.plans.get(key)
        if entry is None:
            entry = pointwise.make_entry(table, rule, loop, None, (self, other), key)
        elif entry.is_fresh:
            short_cuda.learn_turned(table, kernel, key, entry)
        out = allocate(entry.geometry, device)
        if shape.numel:
            entry.launch(device.index, (out._storage._data.ptr, self, b))
        return out

    return kernel


def binary_inplace(
    operator: Operator, rule: Rule,
    check_alpha: Callable[[Operator, Any, Any, Any], Any] | Any = None,
) -> Kernel:  # fmt: skip
    """Make the in-place form of a binary operator for all devices except the CPU. check_alpha: as
    in `binary`."""
    loop = rule.loop
    write = pointwise.write(operator, rule)
    scaled = pointwise.write(operator, rule, loop + "_alpha")

    def kernel(key_set: int, self: Tensor, other: Any, alpha: Any = ONE) -> Tensor:
        params: tuple[Any, ...] = ()
        if alpha is not ONE:
            alpha = check_alpha(operator, self, other, alpha)
            params = (alpha,)
        kind = type(other)
        try:
            device, shape, storage = self._device, self._geometry, self._storage
            a = storage._data.ptr + self._offset * shape.dtype.itemsize
            if kind in NUMBERS:
                b = other
                key: tuple[Any, ...] = (shape, device, a & 15, kind)
            elif other._device is device and not (
                other._storage is storage or storage.may_alias or other._storage.may_alias
            ):
                shape_b = other._geometry
                b = other._storage._data.ptr + other._offset * shape_b.dtype.itemsize
                key = (shape, device, a & 15, shape_b, b & 15)
            else:
                raise AttributeError
        # An operand is a meta tensor or a CPU scalar, or the memory of the operands may overlap.
        except AttributeError:
            into = write if alpha is ONE else scaled
            return errors.plainly(into, self, (self, other), params)
        table = operator.table
        entry = table.plans.get(key)
        if entry is None:
            if _has_float8(self, other):
                return write(self, (self, other))
            entry = pointwise.make_entry(table, rule, loop, self, (self, other), key)
        elif params:
            short_cuda.learn_scaled(table, kernel, key, entry, alpha, is_inplace=True)
        elif entry.is_fresh:
            short_cuda.learn_inplace(table, kernel, key, entry)
        if params:
            pointwise.check_params(operator, rule, entry, params)
        if shape.numel:
            entry.launch(device.index, (a, a, b), params)
        return self

    return kernel
