"""Scans along one dimension: cumsum, cumprod, logcumsumexp, and cummax and cummin with indices.

Results are row-major for any operand layout. Integers and bool are computed as int64.
Source: aten/src/ATen/native/ReduceOps.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._generated import calls, operators
from ..kernels._generated.loops import LOOPS
from ..core import dtype as dtypes, errors
from ..core.arguments import exact
from ..core.device import CPU
from ..core.dtype import INTEGER, dtype
from ..core.dtype_rules import RULES
from ..core.geometry import Geometry, contiguous_geometry
from ..dispatch.operator import Operator, Table
from ..iterator import overlap
from ..iterator.rows import Rows
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..structured import arguments, forms, library
from ..structured.shortcuts import computed as short, cuda_calls as short_calls
from ..structured.pointwise import Kernel


def _scan(operator: Operator, loop: str, self: Tensor, dim: Any, *outs: Tensor) -> Any:
    """Write the results to `outs`, which have self's sizes and any layout. At the second call with
    these layouts, return the loop or the launch, so that the caller may store a short cut.
    Otherwise return None."""
    given, device = self._geometry, self._device
    key = (given, device, exact(dim), *[x._geometry for x in outs])
    table = operator.table
    bound = table.plans.get(key)
    was_found = bound is not None
    if bound is None:
        axis = arguments.dim(loop, dim, given.ndim)
        if device is CPU:
            bound = (getattr(stub.cpu("scan"), loop), axis, True)
        else:
            rows = Rows(loop, (*[x._geometry for x in outs], given), axis, given.dtype)
            bound = (stub.bind("scan", loop, device.type, rows), axis, True)
        table.remember(key, bound)
    call, axis, is_fresh = bound
    if was_found and is_fresh:
        table.remember(key, (call, axis, False))
    if given.numel == 0 or device.type == "meta":
        return None
    if device is CPU:
        arrays = [x._get_array() for x in (self, *outs)]
        if not given.ndim:
            arrays = [array.reshape(1) for array in arrays]
        run(call, arrays[0], axis, *arrays[1:])
    else:
        call(device.index, (*[x._address() for x in outs], self._address()))
    return call if was_found and is_fresh else None


def _operand(op: str, self: Tensor, wanted: Any) -> Tensor:
    """Return self in the dtype of the computation."""
    given = self._geometry.dtype
    RULES[LOOPS["scan"][op]].check(op, "self", given, self)
    if given.is_opaque and wanted in (None, given):
        raise errors.not_computed(op, "self", given, self)
    if LOOPS["scan"][op] != "running":
        return self
    if wanted is not None and (not isinstance(wanted, dtype) or wanted.is_opaque):
        raise errors.wrong_type(op, "dtype", "be a gputensor dtype", wanted)
    if wanted is None:
        wanted = dtypes.int64 if given.category <= INTEGER else given
    if wanted is dtypes.bool_:
        raise errors.wrong_dtype(op, "dtype", "not be bool", wanted)
    return self if wanted is given else calls.to_dtype(self, wanted, False, False, None)


def functional(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, dim: int, *wanted: Any) -> Tensor:
        x = _operand(loop, self, wanted[0] if wanted else None)
        arguments.dim(loop, dim, x._geometry.ndim)
        table = operator.table
        shape = contiguous_geometry(x._geometry.sizes, x._geometry.dtype)
        made = allocate(shape, x._device)
        found = _scan(operator, loop, x, dim, made)
        if found is not None and x is self:
            _learn(table, kernel, (self, dim, *wanted), shape, found)
        return made

    return kernel


def _learn(
    table: Table, kernel: Kernel, args: tuple[Any, ...], shape: Geometry, run: Any
) -> None:  # fmt: skip
    """Store a short cut for calls with these arguments. run: the loop or the launch."""
    if args[0]._device is not CPU:
        short_calls.learn(table, kernel, args, shape, run, (None,), low_bits=0)
    elif shape.ndim:
        axis = args[1] % shape.ndim
        short.learn(table, kernel, args, short.made_by(run, shape, (axis,)))


def inplace(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, dim: int, dtype: Any = None) -> Tensor:
        of = self._geometry.dtype
        if dtype is not None and dtype is not of:
            raise errors.wrong_dtype(f"{loop}_", "dtype", f"be self's, {of.short}", dtype)
        x = _operand(loop, self, of)
        overlap.check_itself(f"{loop}_", self, "self")
        arguments.dim(loop, dim, self._geometry.ndim)
        made = allocate(contiguous_geometry(self._geometry.sizes, of), self._device)
        _scan(operator, loop, x, dim, made)
        operators.copy_.redispatch_table[key_set](key_set, self, made, False)
        return self

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, dim: int, *rest: Any) -> Tensor:
        out: Tensor
        *wanted, out = rest
        x = _operand(loop, self, (wanted or [None])[0] or out._geometry.dtype)
        arguments.dim(loop, dim, x._geometry.ndim)
        layout = contiguous_geometry(x._geometry.sizes, x._geometry.dtype)
        library.check_out(loop, out, layout, self=self)
        if out is x:
            x = calls.clone(x)
        _scan(operator, loop, x, dim, out)
        return out

    return kernel


def select_functional(operator: Operator, loop: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Make the kernel that returns the running maxima or minima, and their indices."""

    def kernel(key_set: int, self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        x = _operand(loop, self, None)
        given = x._geometry
        arguments.dim(loop, dim, given.ndim)
        values = allocate(contiguous_geometry(given.sizes, given.dtype), x._device)
        indices = allocate(contiguous_geometry(given.sizes, dtypes.int64), x._device)
        _scan(operator, loop, x, dim, values, indices)
        return values, indices

    return kernel


def select_out(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, *args: Any) -> Any:
        return forms.out(getattr(operators, loop), 2)(key_set, *args)

    return kernel
