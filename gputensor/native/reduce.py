"""Reductions over some or all dimensions: sum, nansum, mean, prod, amax, amin, any, all.

The result is row-major for any input layout. Sums of bool and integers are int64. any and all
return bool, or uint8 for uint8. Source: aten/src/ATen/native/ReduceOps.cpp.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._generated import calls, operators
from ..kernels._generated.loops import LOOPS
from ..core import dtype as dtypes, errors
from ..core.arguments import exact
from ..core.device import CPU
from ..core.dtype import FLOATING, INTEGER, dtype
from ..core.dtype_rules import RULES
from ..core.geometry import Geometry, Sizes, contiguous_geometry, reduced_sizes
from ..dispatch import defaults, tls
from ..dispatch.keys import FUSE
from ..dispatch.operator import Operator, Table
from ..iterator import overlap
from ..iterator.operands import RESIZE
from ..iterator.plan import build_reduction, over_reduced
from ..kernels import stub
from ..kernels.cpu.quiet import again, enter, run
from ..tensor.make import allocate, from_array
from ..tensor.tensor import Tensor
from ..structured import arguments, float8
from ..structured.shortcuts import computed as short, cuda as short_cuda
from ..structured.pointwise import Kernel
from ..structured.transfer import resize_output

_empty = np.empty

# --- dtypes: (dtype to combine in, dtype of the result) -------------------------------------------


def _sum_dtypes(op: str, given: dtype, wanted: dtype | None) -> tuple[dtype, dtype]:
    if wanted is None:
        wanted = dtypes.int64 if given.category <= INTEGER else given
    return wanted, wanted


@lru_cache(1 << 9)
def _dtypes(op: str, given: dtype, wanted: dtype | None) -> tuple[dtype, dtype]:
    word = LOOPS["reduce"][op]
    for of in (given, wanted):
        if of is not None and of.is_opaque and (word != "any" or of is not dtypes.complex32):
            raise errors.not_computed(op, "self", of, errors.Got(of.short))
    if word in ("sums", "sums_real", "products"):
        RULES[word].check(op, "self", given)
        return _sum_dtypes(op, given, wanted)
    if word == "any":
        return given, dtypes.uint8 if given is dtypes.uint8 else dtypes.bool_
    found, said = given, RULES[word]
    if word == "floating_only" and wanted is not None:
        found = wanted
    if not said.takes(found) and word == "floating_only":
        arg, remedy = "dtype" if found is not given else "self", "use .float() or dtype="
        rule, got = "be floating or complex", errors.Got(found.short)
        raise errors.wrong_dtype(op, arg, rule, got, remedy=remedy)
    said.check(op, "self", found)
    return found, found


# Maps a reduction that is computed in bool to the equivalent reduction.
_OF_BOOLS = {"sum": "any", "nansum": "any", "prod": "all"}
# Reductions that are undefined for zero elements.
_NO_IDENTITY = ("amax", "amin")
# For these reductions, an empty tuple of dimensions means no dimension. For others, it means all
# dimensions.
_EMPTY_MEANS_NONE = ("any", "all")

# --- plans ----------------------------------------------------------------------------------------


class _Entry:
    """A cached plan of a reduction, with its loop and axes on the CPU, or with its launch on
    another device. loop: the loop's name.

    is_fresh: no call has found the entry yet. The first call that finds it stores a short cut.
    """

    __slots__ = ("plan", "loop", "geometry", "run", "axes", "keepdim", "is_fresh")

    def __init__(self, plan: Any, loop: str, run: Any, axes: Sizes | None, keepdim: bool) -> None:
        self.plan, self.loop, self.run, self.axes, self.keepdim = plan, loop, run, axes, keepdim
        self.geometry = plan.outputs[0].geometry
        self.is_fresh = True

    def over(self, source: Geometry) -> _Entry:
        """Return the entry for a source of other sizes: see `_likeness`."""
        plan = over_reduced(self.plan, source, self.axes or (), self.keepdim)
        over = getattr(self.run, "over", None)
        run = over(plan) if over is not None else None
        run = run or stub.bind("reduce", self.loop, plan.device.type, plan)
        return _Entry(plan, self.loop, run, self.axes, self.keepdim)

    def learn(self, table: Table, kernel: Kernel, args: tuple[Any, ...]) -> None:
        """Store a short cut for calls with these arguments."""
        self.is_fresh = False
        if self.plan.device is CPU:
            make = short.reduction(self.run, (self.axes, None, self.keepdim), self.geometry)
            short.learn(table, kernel, args, make)
        elif self.plan.device.type == "cuda" and self.plan.numel:
            short_cuda.learn_with_params(table, kernel, args, self.geometry, self.run)

    def fresh(self, source: Tensor) -> Tensor:
        out = allocate(self.geometry, source._device)
        self.write(out, source)
        return out

    def write(self, out: Tensor, source: Tensor) -> None:
        device = source._device
        if device is CPU:
            run(self.run, source._get_array(), self.axes, None, out._get_array(), self.keepdim)
        elif self.geometry.numel and device.type != "meta":
            self.run(device.index, (out._address(), source._address() if self.plan.numel else 0))


def _make_entry(
    op: str, self: Tensor, out: Tensor | None, dim: Any, keepdim: bool, wanted: dtype | None
) -> _Entry:
    given = self._geometry
    dims = _dims(op, given.ndim, dim)
    keepdim = arguments.boolean(op, "keepdim", keepdim)
    if op in _NO_IDENTITY and given.numel == 0:
        _check_not_empty(op, given.sizes, dims, dim)
    compute, result = _dtypes(op, given.dtype, _wanted(op, wanted, out))
    loop_name = op
    if compute is dtypes.bool_ and op in _OF_BOOLS:
        loop_name, compute = _OF_BOOLS[op], given.dtype  # The loop converts elements to bool.
    if out is not None and op in _EMPTY_MEANS_NONE:
        if out._geometry.dtype in (dtypes.bool_, dtypes.uint8):
            result = out._geometry.dtype
    out_spec = None if out is None else (out._geometry, out._device)
    plan = build_reduction(op, (given, self._device), out_spec, dims, keepdim, compute, result)
    if self._device is CPU:
        # f16 and bf16 are combined in f32: with a rounding at each addition, large sums would stop
        # growing.
        combine = dtypes.float32 if compute in (dtypes.float16, dtypes.bfloat16) else compute
        loop = stub.cpu("reduce").bind(loop_name, given.dtype, combine, result, given.numel)
        axes = None if len(dims) == given.ndim else dims
        return _Entry(plan, loop_name, loop, axes, keepdim)
    run_on = stub.bind("reduce", loop_name, self._device.type, plan)
    return _Entry(plan, loop_name, run_on, dims, keepdim)


def _wanted(op: str, wanted: Any, out: Tensor | None) -> dtype | None:
    if wanted is None:
        return None if out is None else out._geometry.dtype
    if not isinstance(wanted, dtype) or wanted.is_opaque:
        raise errors.wrong_type(op, "dtype", "be a gputensor dtype", wanted)
    return wanted


def _dims(op: str, ndim: int, dim: Any) -> Sizes:
    if dim is None:
        return tuple(range(ndim))
    dims = arguments.dims(op, dim, ndim)
    if ndim == 0:
        return ()
    if not dims and op not in _EMPTY_MEANS_NONE:
        return tuple(range(ndim))
    return dims


def _check_not_empty(op: str, sizes: Sizes, dims: Sizes, dim: Any) -> None:
    if not dim and type(dim) is not int:
        raise errors.must(op, "dim", "be given for an empty tensor", dim)
    for d in dims:
        if sizes[d] == 0:
            raise errors.wrong_index(op, "dim", "name dimensions of non-zero size", dim)


def _wide(op: str, self: Tensor, wanted: Any) -> Tensor:
    """Return float8 numbers as float32. Raise if the result would be float8."""
    of = self._geometry.dtype
    if LOOPS["reduce"][op] != "any" and _wanted(op, wanted, None) is None:
        raise errors.not_computed(op, "self", of, errors.Got(of.short))
    return float8.decoded(self)


# --- kernels --------------------------------------------------------------------------------------


def _reduce(
    operator: Operator, op: str, self: Tensor, dim: Any, keepdim: bool, wanted: Any,
    kernel: Kernel | None = None, args: tuple[Any, ...] = (),
) -> Tensor:  # fmt: skip
    if type(dim) is list:
        dim = tuple(dim)
    table = operator.table
    key = (self._geometry, self._device, exact(dim), keepdim, type(keepdim), wanted)
    entry = table.plans.get(key)
    if entry is None:
        if self._geometry.dtype.is_float8:
            return _reduce(operator, op, _wide(op, self, wanted), dim, keepdim, wanted)
        alike = _likeness(self, key)
        model = None if alike is None else table.plans.get(alike)
        if model is not None:
            made = model.over(self._geometry)
            # A chain's substitute for an entry (fusion/members/reductions.py) is always stored.
            remember = table.remember_again if type(made) is _Entry else table.remember
            entry = remember(key, made)
        else:
            entry = table.remember(key, _make_entry(op, self, None, dim, keepdim, wanted))
            if alike is not None and entry.axes:
                table.remember(alike, entry)
    elif entry.is_fresh and kernel is not None:
        entry.learn(table, kernel, args)
    result: Tensor = entry.fresh(self)
    return result


def _likeness(self: Tensor, key: tuple[Any, ...]) -> Any:
    """Return a key of all properties of a call except the sizes of self, or None. Calls with equal
    keys have plans that differ only in sizes, so a new plan is derived from an earlier one: see
    `_likeness` in structured/pointwise. key: the key of the call's plan."""
    shape, sizes = self._geometry, self._geometry.sizes
    is_plain = self._device is not CPU and shape.is_row_major and sizes
    if not is_plain or 1 in sizes or 0 in sizes:
        return None
    return (_likeness, shape.dtype, len(sizes), *key[1:])


def _reduce_into(
    operator: Operator, op: str, self: Tensor, dim: Any, keepdim: bool, wanted: Any, out: Tensor
) -> Tensor:
    if self._geometry.dtype.is_float8:
        self = _wide(op, self, wanted)
    entry = _make_entry(op, self, out, dim, keepdim, wanted)
    overlap.check_out(op, out, entry.geometry, self=self)
    if entry.plan.outputs[0].action is RESIZE:
        resize_output(op, out, entry.geometry)
    entry.write(out, self)
    return out


def _parameters(operator: Operator) -> tuple[str, ...]:
    """Return which of the arguments dim, keepdim and dtype an overload has, according to its
    schema."""
    text = operator.definition.text if operator.definition else ""
    return tuple([name for name in ("dim", "keepdim", "dtype") if f" {name}" in text])


def functional(operator: Operator, loop: str) -> Kernel | tuple[Kernel, Kernel]:
    has = _parameters(operator)
    if "dim" not in has:

        def over_all(key_set: int, self: Tensor, dtype: Any = None) -> Tensor:
            args = (self, dtype)
            return _reduce(operator, loop, self, None, False, dtype, over_all, args)

        return _over_all_cpu(operator, loop), over_all

    def over_dims(
        key_set: int, self: Tensor, dim: Any = None, keepdim: bool = False, *wanted: Any
    ) -> Tensor:
        dtype, args = wanted[0] if wanted else None, (self, dim, keepdim, *wanted)
        return _reduce(operator, loop, self, dim, keepdim, dtype, over_dims, args)

    return over_dims


def _over_all_cpu(operator: Operator, loop: str) -> Kernel:
    """Make the CPU kernel of a reduction to one element. It calls the plan's loop directly."""

    def kernel(key_set: int, self: Tensor, dtype: Any = None) -> Tensor:
        key = (self._geometry, dtype)
        table = operator.table
        entry = table.plans.get(key)
        if entry is None:
            if self._geometry.dtype.is_float8:
                return kernel(key_set, _wide(loop, self, dtype), dtype)
            entry = table.remember(key, _make_entry(loop, self, None, None, False, dtype))
        elif entry.is_fresh:
            entry.learn(table, kernel, (self, dtype))
        array = self._array
        if array is None:
            array = self._get_array()
        made = _empty((), entry.geometry.dtype.np)
        try:
            enter(entry.run, array, None, None, made)
        except RuntimeError as error:
            again(error, entry.run, array, None, None, made)
        return from_array(made, entry.geometry)

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    has = _parameters(operator)

    def kernel(key_set: int, self: Tensor, *rest: Any) -> Tensor:
        given = dict(zip(has, rest))
        return _reduce_into(
            operator, loop, self, given.get("dim"), given.get("keepdim", False), given.get("dtype"),
            rest[-1],
        )  # fmt: skip

    return kernel


# --- by one loop on the CPU -----------------------------------------------------------------------


def reduced(self: Tensor, loop: Any, dims: Sizes, keepdim: bool, result: dtype) -> Tensor:
    """Reduce `self` by a CPU loop to a new tensor of dtype `result`."""
    sizes = reduced_sizes(self._geometry.sizes, dims, keepdim)
    made = allocate(contiguous_geometry(sizes, result), CPU)
    run(loop, self._get_array(), dims, None, made._get_array(), keepdim)
    return made


# --- by one kernel on CUDA ------------------------------------------------------------------------


class _Layout(NamedTuple):
    """The layout of a OneKernel. over: the divisor of a variance, or the order of a norm."""

    shape: Sizes
    stride_bytes: Any
    dtypes: Any
    common_dtype: dtype
    n_reduced: int
    over: float


class OneKernel:
    """A kernel of family moments, or of a norm, for one layout. On other devices, the operator is
    composed of other operators. geometry: the geometry of the result. is_composed: True if composed
    operators give the same bits as the kernel. In this case gt.fuse records the operators instead
    of the kernel.

    counts: maps an operator's name to the number of its calls, up to 2. The second call stores a
    short cut.
    """

    __slots__ = ("geometry", "run", "is_composed", "counts")

    def __init__(
        self, family: str, op: str, x: Tensor, dims: Sizes, keepdim: bool, over: float
    ) -> None:  # fmt: skip
        given, device = x._geometry, x._device
        result = given.dtype.to_real
        plan = build_reduction(op, (given, device), None, dims, keepdim, given.dtype, result)
        layout = _Layout(
            plan.shape, plan.stride_bytes, plan.dtypes, given.dtype, plan.n_reduced, over
        )  # fmt: skip
        self.geometry: Geometry = plan.outputs[0].geometry
        self.run: Any = stub.bind(family, op, "cuda", layout)
        self.counts: dict[str, int] = {}
        # For half dtypes, the composed operators round more often than the kernel. If the launch
        # has a last stage, the kernel divides rows into other segments than the operators do.
        self.is_composed: bool = (
            given.dtype in (dtypes.float32, dtypes.float64) and given.is_non_overlapping_and_dense
            and getattr(self.run, "last", self) is None
        )  # fmt: skip

    def __call__(self, source: Tensor, *mean: Tensor) -> Tensor:
        """Return the result. Write the mean to `mean`, if the operator has one."""
        out = allocate(self.geometry, source._device)
        self.run(source._device.index, tuple([x._address() for x in (out, *mean, source)]))
        return out

    def learn(self, operator: Operator, kernel: Kernel, args: tuple[Any, ...]) -> None:
        """Count a call of `operator` with these arguments, which this kernel computes. The second
        call stores a short cut."""
        count = self.counts.get(operator.name, 0)
        if count < 2:
            self.counts[operator.name] = count + 1
            if count:
                short_cuda.learn_with_params(operator.table, kernel, args, self.geometry, self.run)


def one_kernel(
    operator: Operator, op: str, self: Tensor, dims: Sizes, keepdim: bool, over: float = 1.0,
    family: str = "moments",
) -> OneKernel | None:  # fmt: skip
    """Return the kernel for these operands, or None if the result must be composed of other
    operators. The table of `operator` caches the kernel."""
    given = self._geometry
    if self._device.type != "cuda" or not given.numel or given.dtype not in _OF_KERNELS:
        return None
    key = (one_kernel, op, given, self._device, dims, keepdim, over)
    table = operator.table
    found: OneKernel | None = table.plans.get(key)
    if found is None:
        found = table.remember(key, OneKernel(family, op, self, dims, keepdim, over))
    return None if found.is_composed and tls.state.get()[0] & FUSE else found


_OF_KERNELS = frozenset((
    dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.complex64,
    dtypes.complex128,
))  # fmt: skip

# --- composed -------------------------------------------------------------------------------------


def logsumexp(key_set: int, self: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    given = self._geometry
    dims = arguments.dims("logsumexp", dim, given.ndim)
    is_whole = given.dtype.category <= INTEGER
    x = calls.to_dtype(self, defaults.get_default_dtype()) if is_whole else self
    kind = x._geometry.dtype
    if given.ndim and given.numel and x._device is CPU and kind.category == FLOATING:
        keepdim = arguments.boolean("logsumexp", "keepdim", keepdim)
        over = dims or tuple(range(given.ndim))
        return reduced(x, stub.cpu("moments").bind("logsumexp", kind, kind), over, keepdim, kind)
    if kind.category == FLOATING:
        keepdim = arguments.boolean("logsumexp", "keepdim", keepdim)
        over = dims or tuple(range(given.ndim))
        kernel = one_kernel(operators.logsumexp, "logsumexp", x, over, keepdim)
        if kernel is not None:
            if x is self:
                kernel.learn(operators.logsumexp, logsumexp, (self, dim, keepdim))
            return kernel(x)
    if not given.numel:  # amax is undefined for zero elements.
        return calls.log(calls.sum_dim_IntList(calls.exp(x), dims, keepdim, dtype=None))
    is_complex = given.dtype.is_complex
    top = calls.amax(
        calls.select_int(calls.view_as_real(x), -1, 0) if is_complex else x, dims, True
    )
    top = calls.where_self(top - top == 0, top, 0.0)
    total = calls.sum_dim_IntList(calls.exp(x - top), dims, True, dtype=None)
    found = calls.log(total) + top
    return found if keepdim else calls.sum_dim_IntList(found, dims, False, dtype=None)


def count_nonzero(key_set: int, self: Tensor, dim: Any = None) -> Tensor:
    if self._device is not CPU:
        return calls.sum_dim_IntList(self != 0, dim, False, dtype=None)
    if self._geometry.dtype.is_float8:
        self = self != 0
    given, of = self._geometry.dtype, dtypes.int64
    loop = stub.cpu("reduce").bind("count_nonzero", given, of, of)
    dims = _dims("count_nonzero", self._geometry.ndim, dim)
    made = reduced(self, loop, dims, False, of)
    if dim is None or type(dim) is int:
        make = short.reduction(loop, (dims, None, False), made._geometry)
        short.learn_again(operators.count_nonzero.table, count_nonzero, (self, dim), make)
    return made


count_nonzero_dim_IntList = count_nonzero
