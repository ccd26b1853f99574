"""Copies between layouts, dtypes and devices; clone and contiguous.

Every copy ends in `copy_`, which chooses the kernel by the two devices. A copy across devices moves
dense bytes of one layout. A cast or a change of layout is a separate copy on one of the devices.
Source of the semantics: aten/src/ATen/native/Copy.cpp.
"""

from __future__ import annotations

from typing import Any

from numpy import may_share_memory

from .. import runtime
from .._generated import calls, operators
from ..core import errors, memory_format as formats
from ..core.device import CPU
from ..core.dtype import float32
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..core.memory_format import contiguous_strides, memory_format
from ..dispatch import shortcuts
from ..dispatch.keys import BELOW_ADINPLACEORVIEW, CONJUGATE, NEGATIVE
from ..dispatch.operator import Table
from ..dispatch.tls import state as _state
from ..iterator import overlap
from ..iterator.config import COPY
from ..iterator.plan import build, over_sizes, over_strides
from ..kernels import stub
from ..tensor.make import CPU_KEYS, allocate, as_bytes
from ..tensor.tensor import Tensor
from ..structured import float8, missing, transfer
from ..structured.shortcuts import cuda as short_cuda, factories as short_make
from ..structured.view_kernel import seen
from .factory import empty, empty_like
from .resize import resize_

# --- copy_ ----------------------------------------------------------------------------------------


def copy_(key_set: int, self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    if self is src:
        return self
    table = operators.copy_.table
    to, source = self._geometry, src._geometry
    key = (to, source, self._device, src._device)
    run = table.plans.get(key)
    if run is None:
        run = _derived(table, self, src)
        if type(run) is _OnDevice:
            table.remember_again(key, run)
        else:
            run = table.remember(key, run or _planned(table, self, src))
    elif run is _assign:
        run = table.remember(key, _assign_again)
        shortcuts.learn(table, copy_, (to, source), short_make.copy_)
    mine, other = self._storage, src._storage
    if run is not _float8 and (
        mine is not None and (mine is other or mine.may_alias)
        or other is not None and other.may_alias
    ):  # fmt: skip
        if mine is other and to is source and self._offset == src._offset:
            return self
        is_host = self._device is CPU and src._device is CPU and mine is not other
        if not is_host or may_share_memory(self._get_array(), src._get_array()):
            overlap.check("copy_", self, src, "src")
    run(self, src, non_blocking)
    return self


def _planned(table: Table, to: Tensor, src: Tensor) -> Any:
    """Plan the copy between two layouts and devices, and return its function."""
    specs = ((to._geometry, to._device),), ((src._geometry, src._device),)
    run = _runner(build("copy_", COPY, *specs, default_dtype=None), to, src)
    if type(run) is _OnDevice and (alike := _likeness(to, src)) is not None:
        table.remember(alike, run)
    return run


def _derived(table: Table, to: Tensor, src: Tensor) -> Any:
    """Make the function of a copy to a row-major tensor without building a plan: on the CPU, or
    from a cached function of the same dtypes and device. Return None if this is not possible."""
    alike = _likeness(to, src)
    if alike is None:
        return None
    if to._device is CPU:
        return _on_host(to._geometry, src._geometry)
    model = table.plans.get(alike)
    if model is None:
        return None
    if src._geometry.is_row_major:
        return model.over(over_sizes(model.plan, to._geometry))
    return _OnDevice(over_strides(model.plan, to._geometry, src._geometry))


def _likeness(to: Tensor, src: Tensor) -> Any:
    """Return the cache key of a copy to a row-major tensor. The key does not depend on sizes.
    Return None for other copies, and for float8."""
    wanted, given, place = to._geometry, src._geometry, to._device
    if wanted.sizes != given.sizes or place is not src._device or not wanted.ndim:
        return None
    if not (wanted.is_row_major and wanted.numel):
        return None
    if wanted.dtype.is_float8 or given.dtype.is_float8:
        return None
    return (_likeness, wanted.dtype, given.dtype, place, given.is_row_major)


def copies_are_ours(key_set: int) -> bool:
    """Return True if `copy_` with these keys calls the kernel of this module and not a user's
    kernel."""
    return operators.copy_.redispatch_table[key_set & BELOW_ADINPLACEORVIEW] is copy_


def _runner(plan: Any, to: Tensor, src: Tensor) -> Any:
    """Return a function run(to, src, non_blocking) that copies between these layouts and
    devices."""
    if plan.numel == 0 or to._device.type == "meta":
        return _nothing
    if src._device.type == "meta":
        raise errors.no_storage("copy_", src)
    if to._geometry.dtype.is_float8 or src._geometry.dtype.is_float8:
        return _float8
    if runtime.is_further(to._device.type) or runtime.is_further(src._device.type):
        return _by_backend
    if to._device is not src._device:
        return _across
    if to._device is not CPU:
        return _OnDevice(plan)
    return _on_host(to._geometry, src._geometry)


def _on_host(to: Geometry, source: Geometry) -> Any:
    """Return the function of a copy within the CPU's memory, for all dtypes except float8."""
    return _assign if to.nbytes < _SMALL_BYTES and to.dtype is source.dtype else _on_cpu


def _nothing(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    """Do nothing, because the tensor has no elements or no data."""


cpu_copy = stub.cpu("copy").copy


def _on_cpu(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    x, y = to._array, src._array
    cpu_copy(to._get_array() if x is None else x, src._get_array() if y is None else y)


# Below this size, a copy without a cast uses NumPy, whose call costs less.
_SMALL_BYTES = 1 << 15


def _assign(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    x, y = to._array, src._array
    if x is None:
        x = to._get_array()
    # This assignment takes 0.7x the time of np.copyto (bench/host/overhead.py).
    x[...] = src._get_array() if y is None else y


def _assign_again(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    """Copy like `_assign`. The table holds this function instead of `_assign` once the short cut of
    the copy is stored."""
    _assign(to, src, non_blocking)


def _float8(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    """Copy float8 as bytes, or cast it with other operators."""
    target, given = to._geometry.dtype, src._geometry.dtype
    if target is given:
        src = as_bytes(src)
    elif given.is_float8:
        src = float8.decoded(src)
    if target.is_float8:
        if target is not given:
            wide = calls.to_device(src, src._device, float32, False, False, None)
            src = float8.encoded(wide, target)
        to = as_bytes(to)
    key_set = (to._keys | src._keys) & BELOW_ADINPLACEORVIEW
    copy_(key_set, to, src, non_blocking)


class _OnDevice:
    """A copy within one device, which launches the kernel of its plan with the tensors'
    addresses."""

    __slots__ = ("launch", "plan")

    def __init__(self, plan: Any, launch: Any = None) -> None:
        self.plan = plan
        self.launch = launch or stub.bind("copy", "copy", plan.device.type, plan)

    def over(self, plan: Any) -> _OnDevice:
        """Return the copy for another plan, which differs from `self.plan` only in sizes and
        strides."""
        over = getattr(self.launch, "over", None)
        return _OnDevice(plan, over(plan) if over is not None else None)

    def __call__(self, to: Tensor, src: Tensor, non_blocking: bool) -> None:
        self.launch(to._device.index, (to._address(), src._address()))


def copy_launch(to: Tensor, src: Tensor) -> Any:
    """Return the cached launch by which `copy_` copies between tensors of these layouts. Return
    None if `copy_` has not yet copied between them, or if the copy is not one launch on one
    device."""
    key = (to._geometry, src._geometry, to._device, src._device)
    run = operators.copy_.table.plans.get(key)
    return run.launch if type(run) is _OnDevice else None


# --- copies from or to a further device ---------------------------------------------------------


def _by_backend(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    """Copy by the operator `_copy_from`. It runs the kernel in this module unless the device's
    author registered another one."""
    key_set = (to._keys | src._keys) & BELOW_ADINPLACEORVIEW
    operators._copy_from.redispatch_table[key_set](key_set, src, to, non_blocking)


def _copy_from(key_set: int, self: Tensor, dst: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy self to dst. One of the two tensors is on a device from another package.
    `gt.backend.register` registers this kernel."""
    if self._device is not dst._device:
        _across(dst, self, non_blocking)
    elif _is_straight(dst._geometry, self._geometry):
        transfer.copy_within(dst, self)
    elif lays_out(dst):
        table, key = operators._copy_from.table, (dst._geometry, self._geometry, dst._device)
        run = table.plans.get(key)
        if run is None:
            specs = ((dst._geometry, dst._device),), ((self._geometry, self._device),)
            run = table.remember(key, _OnDevice(build("copy_", COPY, *specs, default_dtype=None)))
        run(dst, self, non_blocking)
    else:
        missing.fall_back(operators.copy_, dst, dst, self, non_blocking)
    return dst


def _copy_from_and_resize(key_set: int, self: Tensor, dst: Tensor) -> Tensor:
    if dst._geometry.sizes != self._geometry.sizes:
        resize_(key_set, dst, self._geometry.sizes)
    return copy_(key_set, dst, self)


def _is_straight(to: Geometry, source: Geometry) -> bool:
    """Return True if the copy needs no cast and no change of layout."""
    return to is source and to.is_non_overlapping_and_dense


def lays_out(tensor: Tensor) -> bool:
    """Return True if the tensor's device has a kernel that copies between layouts and dtypes."""
    return stub.serves("copy", "copy", tensor._device.type)


# --- copies between devices -----------------------------------------------------------------------


def _across(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    """Copy between two devices by a transfer of dense bytes. A cast is made before the transfer if
    elements of `to` have fewer bytes than elements of `src`, otherwise after the transfer.

    If a device has no kernel that copies between layouts, the host does this work. Then all bytes
    from the first to the last element are transferred, to the host and back.
    """
    if not lays_out(src):
        src = transfer.on_host(src)
    if not lays_out(to):
        is_dense = to._geometry.is_non_overlapping_and_dense
        landed = allocate(to._geometry, CPU) if is_dense else transfer.on_host(to)
        copy_(to._keys, landed, src)
        transfer.from_host(to, landed)
        return
    if to._device is src._device:
        copy_(to._keys, to, src)
        return
    if src._geometry.sizes != to._geometry.sizes:
        src = calls.expand(src, to._geometry.sizes, False)
    if to._geometry.dtype.itemsize < src._geometry.dtype.itemsize:
        src = calls.to_dtype(src, to._geometry.dtype, False, False, formats.preserve_format)
    if _is_straight(to._geometry, src._geometry):
        transfer.copy_dense(to, src)
        return
    source, is_dense = src._geometry, src._geometry.is_non_overlapping_and_dense
    if src._device is CPU:
        # The device of `to` changes the layout. Before the transfer, the host only makes the
        # elements dense.
        crossing = source if is_dense else contiguous_geometry(source.sizes, source.dtype)
        landed = to if to._geometry is crossing else allocate(crossing, to._device)
        if is_dense:
            transfer.copy_dense(landed, src)
        else:
            transfer.pack_from_host(landed, src, cpu_copy)
        if landed is to:
            return
    else:
        # The device of `src` changes the layout, so that the transferred bytes already have the
        # layout of `to`.
        wanted = to._geometry
        is_dense = wanted.is_non_overlapping_and_dense
        strides = wanted.strides if is_dense else contiguous_strides(wanted.sizes)
        crossing = geometry(wanted.sizes, strides, source.dtype)
        if source is not crossing:
            src = copy_fresh(src._keys, allocate(crossing, src._device), src, non_blocking)
        if to._geometry is crossing:
            transfer.copy_dense(to, src)
            return
        if to._device is CPU:
            landed = transfer.land_on_host(src)
        else:
            landed = allocate(crossing, to._device)
            transfer.copy_dense(landed, src)
    copy_fresh(to._keys, to, landed, non_blocking)


# --- clone and contiguous -------------------------------------------------------------------------


def copy(key_set: int, self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Return a copy of src with the layout of self. The bytes in gaps between elements are copied
    from self. Source: ATen/native/Copy.cpp, copy."""
    given = self._geometry
    if overlap.internal_overlap(given) == overlap.YES:
        made = calls.empty_like(self)
    else:
        made = calls.empty_strided(given.sizes, given.strides, given.dtype, None, self._device)
    if given.numel < given.extent == made._geometry.extent:
        flat = calls.as_strided(self, (given.extent,), (1,), self._offset)
        whole = calls.as_strided(made, (given.extent,), (1,), 0)
        missing.ask_inplace(operators.copy_, whole, flat, False)
    return missing.ask_inplace(operators.copy_, made, src, non_blocking)


_PLAIN_KEYS = (CPU_KEYS, short_cuda.CUDA_KEYS)


def clone(key_set: int, self: Tensor, memory_format: memory_format | None = None) -> Tensor:
    # The call of copy_ is inlined (bench/host/overhead.py), because every copy to another layout
    # calls clone.
    of = operators.clone.table
    made = _fresh(self, memory_format)
    key_set &= BELOW_ADINPLACEORVIEW
    made = operators.copy_.redispatch_table[key_set](key_set, made, self, False)
    if memory_format is None:
        _learn(of, clone, self, made)
    return made


def _fresh(self: Tensor, memory_format: memory_format | None) -> Tensor:
    """Call empty_like. If a plain call leads directly to this project's kernels, do their work."""
    if (
        memory_format is formats.contiguous_format and self._keys in _PLAIN_KEYS
        and shortcuts.is_plain_thread()
        and shortcuts.comes_straight(operators.empty_like, empty_like, self._device.type)
        and shortcuts.comes_straight(operators.empty_memory_format, empty, self._device.type)
    ):  # fmt: skip
        shape = self._geometry
        return allocate(contiguous_geometry(shape.sizes, shape.dtype), self._device)
    include, keep = _state.get()
    keys = (self._keys | include) & keep
    # The call of empty_like is inlined (bench/host/overhead.py).
    made: Tensor = operators.empty_like.table[keys](
        keys, self, None, None, None, None, memory_format
    )
    return made


def _learn(table: Table, kernel: Any, self: Tensor, made: Tensor) -> None:
    """Store the short cut of a copy, once a layout occurs for the second time."""
    if self._keys is not CPU_KEYS:
        if self._keys is short_cuda.CUDA_KEYS:
            _learn_on_cuda(table, kernel, self, made)
        return
    known = seen(self._geometry, table.operator.name)
    if not shortcuts.is_due(known, table) or type(made) is not Tensor:
        return
    found, shape = None, made._geometry
    if 0 < shape.nbytes < _SMALL_BYTES and not shape.dtype.is_float8:
        found = short_make.copied(table, self, shape)
    if found is not None:
        shortcuts.learn(table, kernel, self._geometry, found)
    known.short = table.short


def _learn_on_cuda(table: Table, kernel: Any, self: Tensor, made: Tensor) -> None:
    shape, device = self._geometry, self._device
    known = seen(shape, (table.operator.name, device))
    if not shortcuts.is_due(known, table) or type(made) is not Tensor:
        return
    launch = copy_launch(made, self)
    if launch is not None:
        found = short_cuda.copied(table, self, made._geometry, launch, behind=(None,))
        shortcuts.learn(table, kernel, shape, found, device)
    known.short = table.short


def copy_fresh(key_set: int, made: Tensor, source: Tensor, non_blocking: bool) -> Tensor:
    """Call copy_ on a new tensor. The dispatcher skips ADInplaceOrView and the keys above it, so
    that the tensor's version stays 0."""
    key_set &= BELOW_ADINPLACEORVIEW
    return operators.copy_.redispatch_table[key_set](key_set, made, source, non_blocking)


def fill_part(part: Tensor, source: Tensor) -> None:
    """Copy source to a part of a result without increasing the version. So a new result keeps
    version 0, and a write to `out` is counted once."""
    copy_fresh(part._keys | source._keys, part, source, False)


def resolve_conj(key_set: int, self: Tensor) -> Tensor:
    return calls.clone(self) if self._keys & CONJUGATE else self


def resolve_neg(key_set: int, self: Tensor) -> Tensor:
    return calls.clone(self) if self._keys & NEGATIVE else self


def contiguous(
    key_set: int, self: Tensor, memory_format: memory_format = formats.contiguous_format
) -> Tensor:
    if memory_format is formats.contiguous_format:
        if self._geometry.is_contiguous:
            return self
    elif self.is_contiguous(memory_format):
        return self
    elif memory_format is formats.preserve_format:
        rule = "name an order of dimensions"
        raise errors.must("contiguous", "memory_format", rule, memory_format)
    elif memory_format.rank != self._geometry.ndim:
        rule = f"fit the {self._geometry.ndim} dimensions of self"
        raise errors.must("contiguous", "memory_format", rule, memory_format)
    # The call of clone is inlined, which takes 0.97x of the time (bench/host/overhead.py).
    of = operators.contiguous.table
    include, keep = _state.get()
    keys = (self._keys | include) & keep
    made = operators.clone.table[keys](keys, self, memory_format)
    if memory_format is formats.contiguous_format:
        _learn(of, contiguous, self, made)
    return made


def _over_clone() -> Any:
    return ((operators.clone, shortcuts.CPU, clone),)


def over_copy() -> Any:
    """Return the operators that short cuts of copies skip: see `shortcuts.jumps`."""
    return (
        (operators.empty_like, shortcuts.CPU, "factory.empty_like"),
        (operators.copy_, shortcuts.BELOW, copy_),
    )


shortcuts.jumps(clone, over_copy)
shortcuts.jumps(contiguous, _over_clone)
