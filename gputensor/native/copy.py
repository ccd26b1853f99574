"""Copies: between layouts, dtypes and devices; clone, contiguous and `to`; one element to Python.

Every copy ends in `copy_`, which chooses the kernel by the two devices. A copy across devices moves
dense bytes of one layout; casts and layout changes are done by a copy on one side.
Source of the semantics: aten/src/ATen/native/Copy.cpp and TensorConversions.cpp.
"""

from __future__ import annotations

from typing import Any

from numpy import may_share_memory

from .. import runtime
from .._generated import calls, operators
from ..core import errors, memory_format as formats
from ..core.device import CPU, device
from ..core.dtype import dtype, float32
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..core.memory_format import contiguous_strides, memory_format
from ..dispatch import shortcuts
from ..dispatch.backend_select import resolve
from ..dispatch.keys import BELOW_ADINPLACEORVIEW, CONJUGATE, NEGATIVE
from ..dispatch.operator import Table
from ..dispatch.tls import state as _state
from ..iterator import overlap
from ..iterator.config import COPY
from ..iterator.plan import build
from ..kernels import stub
from ..kernels.cpu.cast import readable
from ..tensor.base import suggest_memory_format
from ..tensor.make import CPU_KEYS, allocate, as_bytes
from ..tensor.tensor import Tensor
from ..structured import arguments, float8, missing, transfer
from ..structured.shortcuts import cpu as short, cuda as short_cuda, factories as short_make
from ..structured.view_kernel import seen
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
        specs = ((to, self._device),), ((source, src._device),)
        plan = build("copy_", COPY, *specs, default_dtype=None)
        run = table.remember(key, _runner(plan, self, src))
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


def copies_are_ours(key_set: int) -> bool:
    """True if `copy_` for these keys is the kernel above, so that a user's kernel sees each
    copy."""
    return operators.copy_.redispatch_table[key_set & BELOW_ADINPLACEORVIEW] is copy_


def _runner(plan: Any, to: Tensor, src: Tensor) -> Any:
    """Who moves the elements of this pair of layouts and devices: run(to, src, non_blocking)."""
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
    is_small = to._geometry.nbytes < _SMALL_BYTES and to._geometry.dtype is src._geometry.dtype
    return _assign if is_small else _on_cpu


def _nothing(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    """An empty tensor, or one without data."""


_cpu_copy = stub.cpu("copy").copy


def _on_cpu(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    x, y = to._array, src._array
    _cpu_copy(to._get_array() if x is None else x, src._get_array() if y is None else y)


# Below this, a copy of one dtype uses NumPy, whose call costs less.
_SMALL_BYTES = 1 << 15
# From here on what a cast costs beside its loop is nothing.
_LARGE_BYTES = 1 << 20


def _assign(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    x, y = to._array, src._array
    if x is None:
        x = to._get_array()
    x[...] = src._get_array() if y is None else y  # 0.7x np.copyto, bench/overhead.py


def _assign_again(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    """The same, if a short cut exists already."""
    _assign(to, src, non_blocking)


def _float8(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    """A copy of bytes, or a cast of float8 by other operators."""
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
    """A copy within one device: the launch of its plan, which looks at the addresses itself."""

    __slots__ = ("launch",)

    def __init__(self, plan: Any) -> None:
        self.launch = stub.bind("copy", "copy", plan.device.type, plan)

    def __call__(self, to: Tensor, src: Tensor, non_blocking: bool) -> None:
        self.launch(to._device.index, (to._address(), src._address()))


# --- copies that a further device takes part in ---------------------------------------------------


def _by_backend(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    """The device's `_copy_from`: our own below, unless its author registered another."""
    key_set = (to._keys | src._keys) & BELOW_ADINPLACEORVIEW
    operators._copy_from.redispatch_table[key_set](key_set, src, to, non_blocking)


def _copy_from(key_set: int, self: Tensor, dst: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy self into dst, one of them on a further device; `gt.backend.register` binds it."""
    if self._device is not dst._device:
        _across(dst, self, non_blocking)
    elif _is_straight(dst._geometry, self._geometry):
        transfer.copy_within(dst, self)
    elif _lays_out(dst):
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
    """True if a copy of bytes suffices."""
    return to is source and to.is_non_overlapping_and_dense


def _lays_out(tensor: Tensor) -> bool:
    """True if the tensor's device has a kernel that copies between layouts and dtypes."""
    return stub.serves("copy", "copy", tensor._device.type)


# --- copies between devices -----------------------------------------------------------------------


def _across(to: Tensor, src: Tensor, non_blocking: bool) -> None:
    """Copy between two devices: dense bytes are transferred, in `to`'s dtype if these are fewer.

    If a device has no kernel that copies layouts, the host does it: all bytes between the first and
    the last element are transferred, in either direction.
    """
    if not _lays_out(src):
        src = transfer.on_host(src)
    if not _lays_out(to):
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
        # `to`'s device changes the layout; the host only closes gaps.
        crossing = source if is_dense else contiguous_geometry(source.sizes, source.dtype)
        landed = to if to._geometry is crossing else allocate(crossing, to._device)
        if is_dense:
            transfer.copy_dense(landed, src)
        else:
            transfer.pack_from_host(landed, src, _cpu_copy)
        if landed is to:
            return
    else:
        # src's device changes the layout, so that the bytes of `to` are transferred.
        wanted = to._geometry
        is_dense = wanted.is_non_overlapping_and_dense
        strides = wanted.strides if is_dense else contiguous_strides(wanted.sizes)
        crossing = geometry(wanted.sizes, strides, source.dtype)
        if source is not crossing:
            src = _copy_fresh(src._keys, allocate(crossing, src._device), src, non_blocking)
        if to._geometry is crossing:
            transfer.copy_dense(to, src)
            return
        if to._device is CPU:
            landed = transfer.land_on_host(src)
        else:
            landed = allocate(crossing, to._device)
            transfer.copy_dense(landed, src)
    _copy_fresh(to._keys, to, landed, non_blocking)


# --- clone and contiguous -------------------------------------------------------------------------


def copy(key_set: int, self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Source: ATen/native/Copy.cpp, copy. Bytes between elements are kept too."""
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


def type_as(key_set: int, self: Tensor, other: Tensor) -> Tensor:
    return calls.to_other(self, other, False, False, None)


def clone(key_set: int, self: Tensor, memory_format: memory_format | None = None) -> Tensor:
    # The calls of empty_like and copy_ written out (bench/overhead.py): every layout copy is a
    # clone.
    of = operators.clone.table
    include, keep = _state.get()
    keys = (self._keys | include) & keep
    made = operators.empty_like.table[keys](keys, self, None, None, None, None, memory_format)
    key_set &= BELOW_ADINPLACEORVIEW
    made = operators.copy_.redispatch_table[key_set](key_set, made, self, False)
    if memory_format is None:
        _learn(of, clone, self, made)
    return made


def _learn(table: Table, kernel: Any, self: Tensor, made: Tensor) -> None:
    """Leave the short cut of a copy, once one of this layout was made before."""
    if self._keys is not CPU_KEYS:
        if self._keys is short_cuda.CUDA_KEYS:
            _learn_on_cuda(table, kernel, self, made)
        return
    known = seen(self._geometry, table.operator.name)
    if not shortcuts.is_due(known, table) or type(made) is not Tensor:
        return
    found, shape = None, made._geometry
    if 0 < shape.nbytes < _SMALL_BYTES and not shape.dtype.is_float8:
        found = short_make.copied(self, shape)
    if found is not None:
        shortcuts.learn(table, kernel, self._geometry, found)
    known.short = table.short


def _learn_on_cuda(table: Table, kernel: Any, self: Tensor, made: Tensor) -> None:
    shape, device = self._geometry, self._device
    known = seen(shape, (table.operator.name, device))
    if not shortcuts.is_due(known, table) or type(made) is not Tensor:
        return
    run = operators.copy_.table.plans.get((made._geometry, shape, device, device))
    if type(run) is _OnDevice:
        found = short_cuda.copied(shape, device, made._geometry, run.launch)
        shortcuts.learn(table, kernel, shape, found, device)
    known.short = table.short


def _copy_fresh(key_set: int, made: Tensor, source: Tensor, non_blocking: bool) -> Tensor:
    """copy_ into a new tensor: below ADInplaceOrView, so its version stays 0."""
    key_set &= BELOW_ADINPLACEORVIEW
    return operators.copy_.redispatch_table[key_set](key_set, made, source, non_blocking)


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
    # The call of clone written out (0.97x, bench/overhead.py).
    of = operators.contiguous.table
    include, keep = _state.get()
    keys = (self._keys | include) & keep
    made = operators.clone.table[keys](keys, self, memory_format)
    if memory_format is formats.contiguous_format:
        _learn(of, contiguous, self, made)
    return made


def _over_clone() -> Any:
    return ((operators.clone, shortcuts.CPU, clone),)


def _over_copy() -> Any:
    return (
        (operators.empty_like, shortcuts.CPU, "factory.empty_like"),
        (operators.copy_, shortcuts.BELOW, copy_),
    )


shortcuts.jumps(clone, _over_copy)
shortcuts.jumps(contiguous, _over_clone)


# --- to -------------------------------------------------------------------------------------------


def _to(
    self: Tensor, element: Any, place: Any, non_blocking: bool, copy: bool,
    form: memory_format | None,
) -> Tensor:  # fmt: skip
    """self if it matches the request and `copy` is False, otherwise a copy.

    Note [to and the suggested format]: `form` is compared with the format that the strides suggest,
    not with the flag, as in PyTorch; so x.to(memory_format=contiguous_format) is x itself for a
    transposed or gapped x that does not look channels_last, and `contiguous` is the operator that
    promises a layout.
    """
    shape = self._geometry
    if element is None:
        element = shape.dtype
    elif not isinstance(element, dtype):
        raise errors.wrong_type("to", "dtype", "be a gputensor dtype", element)
    if place is None:
        place = self._device
    elif place is not self._device:
        place = resolve(device(place))
    if form is not None and not isinstance(form, memory_format):
        raise errors.wrong_type("to", "memory_format", "be a memory format", form)
    stays = (
        not copy and element is shape.dtype and place is self._device
        and (form is None or form is formats.preserve_format or form is suggest_memory_format(self))
    )  # fmt: skip
    if stays:
        return self
    return calls._to_copy(self, element, None, place, None, non_blocking, form)


def to_dtype_layout(
    key_set: int, self: Tensor, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    if pin_memory:
        raise errors.must("to", "pin_memory", "be False", pin_memory)
    return _to(self, dtype, device, non_blocking, copy, memory_format)


def to_device(
    key_set: int, self: Tensor, device: Any, dtype: Any, non_blocking: bool = False,
    copy: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    return _to(self, dtype, device, non_blocking, copy, memory_format)


def to_dtype(
    key_set: int, self: Tensor, dtype: Any, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    table, key = operators.to_dtype.table, (self._geometry, dtype)
    made = _to(self, dtype, None, non_blocking, copy, memory_format)
    is_plain = non_blocking is False and copy is False and memory_format is None
    if made is not self and is_plain and key not in table.short:
        found = shortcuts.left(operators._to_copy.table, (*key, CPU))
        if found is not None:
            shortcuts.learn(table, to_dtype, key, found)
    return made


def to_other(
    key_set: int, self: Tensor, other: Tensor, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    return _to(self, other._geometry.dtype, other._device, non_blocking, copy, memory_format)


def _to_copy(
    key_set: int, self: Tensor, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, non_blocking: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    table = operators._to_copy.table
    made = calls.empty_like(self, dtype, layout, device, pin_memory, memory_format)
    made = _copy_fresh(key_set | made._keys, made, self, non_blocking)
    if (
        self._keys is CPU_KEYS and layout is None and pin_memory is None
        and non_blocking is False and memory_format is None and type(made) is Tensor
    ):  # fmt: skip
        _learn_cast(table, self, made)
    return made


def _learn_cast(table: Table, self: Tensor, made: Tensor) -> None:
    """Leave the short cut of a cast on the CPU whose result is row-major, as what it reads is."""
    shape, wanted = self._geometry, made._geometry
    known = seen(shape, (table.operator.name, wanted.dtype))
    if made._device is not CPU or not shortcuts.is_due(known, table):
        return
    is_plain = not (shape.dtype.is_opaque or wanted.dtype.is_opaque)
    is_dense = shape.is_row_major and wanted.is_row_major
    if is_dense and 0 < wanted.nbytes < _LARGE_BYTES and is_plain:
        behind = (wanted.dtype, None, CPU, None, False, None)
        short.learn_cast(table, _to_copy, (shape, wanted.dtype, CPU), _cpu_copy, wanted, behind)
    known.short = table.short


shortcuts.jumps(_to_copy, _over_copy)
shortcuts.jumps(to_dtype, lambda: ((operators._to_copy, shortcuts.CPU, _to_copy),))


# --- one element to Python ------------------------------------------------------------------------


def item(key_set: int, self: Tensor) -> Any:
    if self._geometry.numel != 1:
        raise errors.must("item", "self", "hold one element", self)
    return calls._local_scalar_dense(self)


def _local_scalar_dense(key_set: int, self: Tensor) -> Any:
    """Waits for the device."""
    if self._device is not CPU:
        self = calls.to_device(self, CPU, self._geometry.dtype, False, False, None)
    if self._geometry.dtype.is_float8:
        self = float8.decoded(self)
    try:
        found = self._get_array().item()
    except ValueError:
        raise errors.must("_local_scalar_dense", "self", "hold one element", self) from None
    return found if type(found) is not bytes else readable(self._get_array()).item()


# --- flip -----------------------------------------------------------------------------------------


def flip(key_set: int, self: Tensor, dims: Any) -> Tensor:
    """A copy with some dimensions reversed; on a device, one from negative strides."""
    shape = self._geometry
    is_known = type(dims) is tuple and self._device is CPU and copies_are_ours(self._keys)
    is_known = is_known and all([type(d) is int for d in dims])  # True equals 1 as a key
    plan: Any = operators.flip.table.plans.get((shape, dims)) if is_known else None
    if plan is not None:
        to, index = plan
        made = allocate(to, CPU)
        _cpu_copy(made._get_array(), self._get_array()[index])
        return made
    if shape.dtype.is_float8:
        return float8.moved(flip, key_set, self, dims)
    chosen = arguments.dims("flip", dims, shape.ndim, "dims")
    if not _lays_out(self):
        served: Tensor = missing.fall_back(operators.flip, self, self, chosen)
        return served
    if not shape.ndim:
        return calls.clone(self)
    made = calls.empty_like(self, None, None, None, None, None)
    if shape.numel == 0 or self._device.type == "meta":
        return made
    if self._device is CPU:
        index = tuple([slice(None, None, -1 if d in chosen else 1) for d in range(shape.ndim)])
        _cpu_copy(made._get_array(), self._get_array()[index])
        if is_known:
            operators.flip.table.remember((shape, dims), (made._geometry, index))
        return made
    strides = tuple([-n if d in chosen else n for d, n in enumerate(shape.strides)])
    reversed_shape = geometry(shape.sizes, strides, shape.dtype)  # only for the plan
    plan = build(
        "flip", COPY, ((made._geometry, made._device),), ((reversed_shape, self._device),),
        default_dtype=None,
    )  # fmt: skip
    last = sum((shape.sizes[d] - 1) * shape.stride_bytes[d] for d in chosen)
    launch = stub.bind("copy", "copy", self._device.type, plan)
    launch(self._device.index, (made._address(), self._address() + last))
    return made
