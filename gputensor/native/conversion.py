"""Conversions: `to` converts a tensor to another dtype or device, and `item` converts one element
to a Python number.

Source of the semantics: aten/src/ATen/native/TensorConversions.cpp.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls, operators
from ..core import errors, memory_format as formats
from ..core.device import CPU, device
from ..core.dtype import dtype
from ..core.geometry import Geometry
from ..core.memory_format import memory_format
from ..dispatch import shortcuts
from ..dispatch.backend_select import resolve
from ..dispatch.operator import Table
from ..dispatch.tls import BELOW, PLAIN, state
from ..kernels.cpu.cast import readable
from ..structured import float8
from ..structured.shortcuts import cuda as short_cuda, factories as short_make
from ..structured.shortcuts.computed import comes_again
from ..structured.view_kernel import seen
from ..tensor.base import suggest_memory_format
from ..tensor.make import CPU_KEYS
from ..tensor.tensor import Tensor
from .copy import copy_fresh, copy_launch, cpu_copy, over_copy

CUDA_KEYS = short_cuda.CUDA_KEYS
_now = state.get


def _to(
    self: Tensor, element: Any, place: Any, non_blocking: bool, copy: bool,
    form: memory_format | None,
) -> Tensor:  # fmt: skip
    """Return self if it matches the request and `copy` is False, otherwise a copy.

    Note [to and the suggested format]: as in PyTorch, `form` is compared with the memory format
    that the strides suggest, not with the contiguity flag. A transposed x, or an x with gaps,
    suggests contiguous_format unless its strides look like channels_last.
    x.to(memory_format=contiguous_format) then returns x itself. Use `contiguous` for a guaranteed
    layout.
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


def to_device(key_set: int, self: Tensor, device: Any, dtype: Any, *rest: Any) -> Tensor:
    return _to(self, dtype, device, *rest)


def to_dtype(
    key_set: int, self: Tensor, dtype: Any, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    table, key = operators.to_dtype.table, (self._geometry, dtype)
    made = _to(self, dtype, None, non_blocking, copy, memory_format)
    is_plain = non_blocking is False and copy is False and memory_format is None
    place = self._device
    if made is not self and is_plain and shortcuts.left(table, key, place) is None:
        found = shortcuts.left(operators._to_copy.table, (*key, place), place)
        if found is not None:
            shortcuts.learn(table, to_dtype, key, found, place)
    return made


def to_other(key_set: int, self: Tensor, other: Tensor, *rest: Any) -> Tensor:
    return _to(self, other._geometry.dtype, other._device, *rest)


def _to_copy(
    key_set: int, self: Tensor, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, non_blocking: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    table = operators._to_copy.table
    made = calls.empty_like(self, dtype, layout, device, pin_memory, memory_format)
    made = copy_fresh(key_set | made._keys, made, self, non_blocking)
    if (
        (self._keys is CPU_KEYS or self._keys is CUDA_KEYS) and layout is None
        and pin_memory is None and non_blocking is False and memory_format is None
        and type(made) is Tensor and made._device is self._device
    ):  # fmt: skip
        _learn_cast(table, self, made)
    return made


# From this number of bytes on, a short cut would save only a negligible part of a cast's time.
_LARGE_BYTES = 1 << 20


def _behind(wanted: Geometry, place: device) -> tuple[Any, ...]:
    """Return the arguments of `_to_copy` after self, for a cast on this device."""
    return (wanted.dtype, None, place, None, False, None)


def _learn_cast(table: Table, self: Tensor, made: Tensor) -> None:
    """Store the short cut of a cast. On the CPU, a cast has a short cut only if operand and result
    are row-major."""
    shape, wanted, place = self._geometry, made._geometry, made._device
    known = seen(shape, (table.operator.name, wanted.dtype, place))
    if not shortcuts.is_due(known, table):
        return
    key = (shape, wanted.dtype, place)
    if place is not CPU:
        launch = copy_launch(made, self)
        if launch is not None:
            found = short_cuda.copied(table, self, wanted, launch, (), _behind(wanted, place))
            shortcuts.learn(table, _to_copy, key, found, place)
        known.short = table.short
        return
    is_plain = not (shape.dtype.is_opaque or wanted.dtype.is_opaque)
    is_dense = shape.is_row_major and wanted.is_row_major
    if is_dense and 0 < wanted.nbytes < _LARGE_BYTES and is_plain:
        short_make.learn_cast(table, _to_copy, key, cpu_copy, wanted, _behind(wanted, CPU))
    known.short = table.short


shortcuts.jumps(_to_copy, over_copy)
shortcuts.jumps(to_dtype, lambda: ((operators._to_copy, shortcuts.CPU, _to_copy),))


# --- one element to Python ------------------------------------------------------------------------


def item(key_set: int, self: Tensor) -> Any:
    if self._geometry.numel != 1:
        raise errors.must("item", "self", "hold one element", self)
    found = calls._local_scalar_dense(self)
    table, of = operators.item.table, self._geometry
    if of.dtype.np.kind in "biufc" and not of.dtype.is_float8 and comes_again(table, item, (self,)):
        shortcuts.learn(table, item, of, _item)
    return found


def _item(self: Tensor) -> Any:
    """Return the element, or None if the call must use the dispatcher. This function is the short
    cut of `item`, which autograd does not record."""
    if self._keys is not CPU_KEYS:
        return None
    now = _now()
    return self._get_array().item() if now is PLAIN or now is BELOW else None


def _local_scalar_dense(key_set: int, self: Tensor) -> Any:
    """Return the element as a Python number. The call waits for the device."""
    if self._device is not CPU:
        self = calls.to_device(self, CPU, self._geometry.dtype, False, False, None)
    if self._geometry.dtype.is_float8:
        self = float8.decoded(self)
    try:
        found = self._get_array().item()
    except ValueError:
        raise errors.must("_local_scalar_dense", "self", "hold one element", self) from None
    return found if type(found) is not bytes else readable(self._get_array()).item()


shortcuts.jumps(
    item, lambda: ((operators._local_scalar_dense, shortcuts.CPU, _local_scalar_dense),)
)
