"""Maxima, minima and their indices. argmax and argmin search all elements or one dimension. max and
min with indices search one dimension. The other overloads of max, min and aminmax are here too.

Source: aten/src/ATen/native/ReduceOps.cpp, argmax_argmin_impl.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..kernels._generated.loops import LOOPS
from ..core import dtype as dtypes, errors
from ..core.device import CPU
from ..core.dtype_rules import RULES
from ..dispatch.operator import Operator, Table
from ..iterator import overlap
from ..iterator.operands import RESIZE
from ..iterator.plan import build_reduction
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..core.geometry import contiguous_geometry, reduced_sizes
from ..tensor.make import allocate, from_array
from ..tensor.tensor import Tensor
from ..structured import arguments, forms
from ..structured.shortcuts import computed as short, cuda_calls as short_calls
from ..structured.pointwise import Kernel
from ..structured.transfer import resize_output


class _Entry:
    """A cached plan of a reduction over one dimension, with the plan's loop or launch.

    is_fresh: no call has used the stored entry yet. The first call that uses it adds a short cut.
    """

    __slots__ = ("plan", "geometry", "run", "axis", "keepdim", "is_fresh")

    def __init__(
        self, op: str, self_: Tensor, out: Tensor | None, axis: int, keepdim: bool
    ) -> None:
        given, device, self.is_fresh = self_._geometry, self_._device, True
        keepdim = arguments.boolean(op, "keepdim", keepdim)
        RULES[LOOPS["argreduce"][op]].check(op, "self", given.dtype, self_)
        dims = (axis,) if given.ndim else ()
        if dims and given.sizes[axis] == 0:
            raise errors.wrong_index(op, "dim", "name a dimension of non-zero size", axis)
        out_spec = None if out is None else (out._geometry, out._device)
        of, made = (given, device), dtypes.int64
        self.plan = build_reduction(op, of, out_spec, dims, keepdim, given.dtype, made)
        self.geometry, self.axis, self.keepdim = self.plan.outputs[0].geometry, axis, keepdim
        if device is CPU:
            self.run = getattr(stub.cpu("argreduce"), op)
        else:
            self.run = stub.bind("argreduce", op, device.type, self.plan)

    def learn(self, table: Table, kernel: Kernel, args: tuple[Any, ...]) -> None:
        """Store a short cut for calls with these arguments."""
        self.is_fresh, run, axis, keepdim = False, self.run, self.axis, self.keepdim
        if args[0]._device is not CPU:
            short_calls.learn(table, kernel, args, self.geometry, run, (None,), low_bits=0)
            return
        make = short.made_by(lambda x, out: run(x, axis, out, keepdim), self.geometry)
        short.learn(table, kernel, args, make)

    def write(self, out: Tensor, source: Tensor) -> Tensor:
        device = source._device
        if self.geometry.numel == 0 or device.type == "meta":
            return out
        if device is CPU:
            run(self.run, source._get_array(), self.axis, out._get_array(), self.keepdim)
        else:
            self.run(device.index, (out._address(), source._address()))
        return out


def _flat(op: str, self: Tensor, dim: Any, keepdim: bool) -> tuple[Tensor, int, bool]:
    """Return the operand, the dimension to search, and True if the dimension is kept. If `dim` is
    None, the operand is flattened in row-major order."""
    geometry = self._geometry
    if dim is not None:
        return self, arguments.dim(op, dim, geometry.ndim), keepdim
    if geometry.numel == 0:
        raise errors.wrong_index(op, "dim", "be given for an empty tensor", dim)
    return (calls.reshape(self, (geometry.numel,)) if geometry.ndim else self), 0, False


def functional(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        x, axis, keeps = _flat(loop, self, dim, keepdim)
        table = operator.table
        key = (x._geometry, x._device, axis, keeps, type(keeps))
        entry = table.plans.get(key)
        if entry is None:
            entry = table.remember(key, _Entry(loop, x, None, axis, keeps))
        elif entry.is_fresh and dim is not None:
            entry.learn(table, kernel, (self, dim, keepdim))
        made: Tensor = entry.write(allocate(entry.geometry, x._device), x)
        if dim is None and keepdim:
            return calls.view(made, (1,) * self._geometry.ndim)
        return made

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, dim: int | None, keepdim: bool, out: Tensor) -> Tensor:
        x, axis, keeps = _flat(loop, self, dim, keepdim)
        if dim is None and keepdim and self._geometry.ndim:
            x = calls.view(x, (1,) * (self._geometry.ndim - 1) + (-1,))
            axis = self._geometry.ndim - 1
            keeps = True
        entry = _Entry(loop, x, out, axis, keeps)
        overlap.check_out(loop, out, entry.geometry, self=x)
        if entry.plan.outputs[0].action is RESIZE:
            resize_output(loop, out, entry.geometry)
        return entry.write(out, x)

    return kernel


_both = stub.compiled("reduce", "aminmax")
_LARGE = 1 << 15  # From this size on, one pass for minima and maxima is faster than two.


# --- max and min ----------------------------------------------------------------------------------


def select_functional(operator: Operator, loop: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Make the kernel that returns the maxima or minima along one dimension, and their indices."""

    def kernel(
        key_set: int, self: Tensor, dim: int, keepdim: bool = False
    ) -> tuple[Tensor, Tensor]:
        axis = arguments.dim(loop, dim, self._geometry.ndim)
        table, device = operator.table, self._device
        key = (self._geometry, device, axis, keepdim, type(keepdim))
        entry = table.plans.get(key)
        if entry is None:
            entry = table.remember(key, _Entry(loop, self, None, axis, keepdim))
        shape: Any = entry.geometry
        values = allocate(contiguous_geometry(shape.sizes, self._geometry.dtype), device)
        indices = allocate(shape, device)
        if shape.numel == 0 or device.type == "meta":
            return values, indices
        if device is CPU:
            x, places = self._get_array(), indices._get_array()
            run(entry.run, x, axis, values._get_array(), places, entry.keepdim)
        else:
            entry.run(device.index, (indices._address(), values._address(), self._address()))
        return values, indices

    return kernel


def _in_one_pass(self: Tensor, dim: int | None, keepdim: bool) -> tuple[Tensor, Tensor] | None:
    x = self._geometry
    axes = None if dim is None else (arguments.dim("aminmax", dim, x.ndim),)
    sizes = reduced_sizes(x.sizes, range(x.ndim) if axes is None else axes, keepdim)
    pairs = _both(self._get_array(), x.dtype, axes, sizes, keepdim)
    if not isinstance(pairs, np.ndarray):
        return None
    made = contiguous_geometry(sizes, x.dtype)
    least, most = [from_array(pairs[..., n].copy("C"), made) for n in (0, 1)]
    return least, most


def aminmax(
    key_set: int, self: Tensor, dim: int | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    dims = () if dim is None else (dim,)
    if self._device is CPU and self._geometry.numel >= _LARGE and type(keepdim) is bool:
        found = _in_one_pass(self, dim, keepdim)
        if found is not None:
            return found
    return calls.amin(self, dims, keepdim), calls.amax(self, dims, keepdim)


def max_dim_max(key_set: int, *args: Any) -> tuple[Tensor, Tensor]:
    made: tuple[Tensor, Tensor] = forms.out(operators.max_dim, 2)(key_set, *args)
    return made


def min_dim_min(key_set: int, *args: Any) -> tuple[Tensor, Tensor]:
    made: tuple[Tensor, Tensor] = forms.out(operators.min_dim, 2)(key_set, *args)
    return made
