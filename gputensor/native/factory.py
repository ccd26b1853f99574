"""Operators that create tensors: empty tensors in all formats, filled tensors, and the _like and
new_ forms.

BackendSelect chooses the dispatch key before `empty` and `empty_strided` run. All other operators
are composed of these two. pin_memory, layout and the other options are checked only here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..structured._generated import short_forms as forms
from ..core import dtype as dtypes, errors, memory_format as formats
from ..core.arguments import exact
from ..core.device import CPU
from ..core.dtype import dtype
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..core.memory_format import layout, memory_format, strided
from ..dispatch import defaults, shortcuts
from ..dispatch.operator import Table
from ..dispatch.backend_select import resolve
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..dispatch.shortcuts import Seen
from ..dispatch.tls import inference_blocks, keys_now, state as _state
from ..iterator import overlap
from ..iterator.order import dense_strides_like
from ..tensor.make import CPU_KEYS, allocate, zero_tensor
from ..tensor.tensor import Tensor, blank
from ..structured import arguments
from ..structured.pointwise import writes
from ..structured.forms import Kernel
from ..structured.shortcuts import cuda_factories as short_cuda, factories as short_make
from ..structured.shortcuts.computed import new_array
from ..structured.transfer import resized
from ..structured.view_kernel import seen


_np_empty = np.empty


def _options(op: str, element: Any, form: Any) -> dtype:
    """Check the options of a factory call and return its dtype."""
    if form is not None and form is not strided:
        kind = errors.ArgumentError if isinstance(form, layout) else errors.ArgumentTypeError
        raise errors.must(op, "layout", "be gputensor.strided", form, kind=kind)
    if element is None:
        return defaults.get_default_dtype()
    if not isinstance(element, dtype):
        raise errors.wrong_type(op, "dtype", "be a gputensor dtype", element)
    return element


# --- empty ----------------------------------------------------------------------------------------


def empty(
    key_set: int, size: Any, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    table = operators.empty_memory_format.table
    if dtype is None or layout is not None:
        dtype = _options("empty", dtype, layout)
    try:
        known = _EMPTY[exact(size), dtype, memory_format]
        wanted = known.value
    except (KeyError, TypeError):
        known = None
        wanted = errors.plainly(_empty_geometry, size, dtype, memory_format)
    if device is None:
        device = resolve(None)
    if pin_memory:
        return _pinned("empty", wanted, device)
    if device is CPU:
        if known is not None and known.short is not table.short:
            _learn_empty(table, size, known, memory_format)
        if wanted.in_numpy:
            # `from_array` is inlined, because half of all operator calls run this code
            # (bench/host/overhead.py).
            tensor = blank()
            tensor._geometry = wanted
            tensor._keys = CPU_KEYS if not inference_blocks else keys_now(CPU_KEYS)
            tensor._device = CPU
            tensor._storage = None
            tensor._offset = 0
            tensor._array = _np_empty(wanted.sizes, wanted.dtype.np)
            tensor._autograd = None
            return tensor
        return allocate(wanted, CPU)
    place = resolve(device)
    if known is not None and place.type == "cuda" and memory_format is None:
        _learn_empty_on_cuda(table, size, wanted, device, place)
    return allocate(wanted, place)


def _pinned(op: str, wanted: Geometry, device: Any) -> Tensor:
    from ..tensor import host_memory

    made: Tensor = host_memory.pinned_empty(op, wanted, resolve(device))
    return made


# Maps the arguments (size, dtype, memory_format) of `empty` to the result's geometry. Cleared when
# full.
_EMPTY: dict[Any, Seen] = {}


def _learn_empty(table: Table, size: Any, known: Seen, form: Any) -> None:
    wanted = known.value
    if form is None and wanted.in_numpy:
        short_make.leave(
            table, empty, (size,), wanted.dtype, lambda asks: short_make.empty(wanted, asks, size)
        )
    known.short = table.short


def _learn_empty_on_cuda(
    table: Table, size: Any, wanted: Geometry, device: Any, place: Any
) -> None:
    element = wanted.dtype
    if table.learners.get("cuda") is not empty or (size, element, device) in table.short:
        return
    found = forms.cuda_empty(wanted, place, asks=device is not place)
    for asked in (element, None) if element is defaults.get_default_dtype() else (element,):
        shortcuts.learn(table, empty, (size, asked, device), found, place)


def _empty_geometry(size: Any, element: Any, form: memory_format | None) -> Geometry:
    element = _options("empty", element, None)
    sizes = arguments.sizes("empty", size)
    if form is None or form is formats.contiguous_format:
        wanted = contiguous_geometry(sizes, element)
    else:
        wanted = geometry(sizes, formats.strides_for("empty", sizes, form), element)
    if type(size) is tuple and all(type(n) is int for n in size):
        if len(_EMPTY) >= 1 << 12:
            _EMPTY.clear()
        _EMPTY[size, element, form] = Seen(wanted)
    return wanted


def empty_strided(
    key_set: int, size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    element = _options("empty_strided", dtype, layout)
    sizes = arguments.sizes("empty_strided", size)
    strides = arguments.sizes("empty_strided", stride, "stride")
    if len(sizes) != len(strides):
        rule = f"have {len(sizes)} entries, as size has"
        raise errors.must("empty_strided", "stride", rule, strides)
    wanted = geometry(sizes, strides, element)
    if pin_memory:
        return _pinned("empty_strided", wanted, device)
    return allocate(wanted, resolve(device))


def empty_permuted(
    key_set: int, size: Any, physical_layout: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    sizes = arguments.sizes("empty_permuted", size)
    order = arguments.dims("empty_permuted", physical_layout, len(sizes), "physical_layout")
    if len(order) != len(sizes):
        rule = f"name each of the {len(sizes)} dimensions"
        raise errors.must("empty_permuted", "physical_layout", rule, order)
    strides = [0] * len(sizes)
    running = 1
    for d in reversed(order):
        strides[d] = running
        running *= max(sizes[d], 1)
    return calls.empty_strided(sizes, tuple(strides), dtype, layout, device, pin_memory)


def empty_like(
    key_set: int, self: Tensor, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    shape = self._geometry
    place = self._device if device is None else device
    element = shape.dtype if dtype is None else dtype
    if memory_format is None or memory_format is formats.preserve_format:
        if place is self._device and element is shape.dtype and memory_format is None:
            known = seen(shape, "empty_like" if place is CPU else ("empty_like", place))
            table = operators.empty_like.table
            if known is not None and known.short is not table.short:
                _learn_empty_like(table, shape, place, known)
        if shape.is_row_major:
            # The call of empty is inlined (bench/host/overhead.py).
            include, keep = _state.get()
            keys = include & keep
            table = operators.empty_memory_format.table
            return table[keys](keys, shape.sizes, element, layout, place, pin_memory, None)
        strides = shape.views.get("dense")
        if strides is None:
            strides = shape.views["dense"] = dense_strides_like(shape)
        return calls.empty_strided(shape.sizes, strides, element, layout, place, pin_memory)
    include, keep = _state.get()
    keys = include & keep
    table = operators.empty_memory_format.table
    return table[keys](keys, shape.sizes, element, layout, place, pin_memory, memory_format)


def _learn_empty_like(table: Table, shape: Geometry, place: Any, known: Seen) -> None:
    if shape.is_row_major:
        wanted = contiguous_geometry(shape.sizes, shape.dtype)
    else:
        wanted = geometry(shape.sizes, dense_strides_like(shape), shape.dtype)
    if place is CPU:
        shortcuts.learn(table, empty_like, shape, short_make.empty_like(wanted))
    elif place.type == "cuda":
        shortcuts.learn(table, empty_like, shape, forms.cuda_empty_like(wanted, place), place)
    known.short = table.short


def new_empty(
    key_set: int, self: Tensor, size: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    element = self._geometry.dtype if dtype is None else dtype
    place = self._device if device is None else device
    sizes = arguments.sizes("new_empty", size)
    made = calls.empty_memory_format(sizes, element, layout, place, pin_memory, None)
    _learn_new(new_empty, self, size, (dtype, layout, device, pin_memory), made, _uninitialised)
    return made


def new_empty_strided(
    key_set: int, self: Tensor, size: Any, stride: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    element = self._geometry.dtype if dtype is None else dtype
    place = self._device if device is None else device
    return calls.empty_strided(size, stride, element, layout, place, pin_memory)


# --- filled tensors, made below ADInplaceOrView, so that their version stays 0 --------------------


def _fill(key_set: int, made: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):  # A tensor with one element is accepted as a number.
        value = value.item()
    key_set = (key_set | made._keys) & BELOW_ADINPLACEORVIEW
    return operators.fill__Scalar.redispatch_table[key_set](key_set, made, value)


def _zero(key_set: int, made: Tensor) -> Tensor:
    key_set = (key_set | made._keys) & BELOW_ADINPLACEORVIEW
    return operators.zero_.redispatch_table[key_set](key_set, made)


_BY_NUMBER = {bool: dtypes.bool_, int: dtypes.int64}


def dtype_of_number(value: Any) -> dtype:
    """Return the dtype of a tensor that is filled with a Python number. Source: torch.full."""
    if type(value) is complex:
        return defaults.get_default_dtype().to_complex
    return _BY_NUMBER.get(type(value)) or defaults.get_default_dtype()


def _tuple(op: str, size: Any) -> tuple[int, ...]:
    return size if type(size) is tuple else arguments.sizes(op, size)


def full(
    key_set: int, size: Any, fill_value: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    element = dtype_of_number(fill_value) if dtype is None else dtype
    sizes = _tuple("full", size)
    table = operators.full.table
    made = calls.empty_memory_format(sizes, element, layout, device, pin_memory, None)
    made = _fill(key_set, made, fill_value)
    if type(made) is Tensor and type(fill_value) in _BY_VALUE:
        if made._device is CPU:
            _learn_full(table, made, fill_value)
        else:
            write, unnamed = partial(_writer, made, fill_value), dtype_of_number(fill_value)
            short_cuda.learn(table, full, (sizes, fill_value), made, device, write, unnamed)
    return made


def _writer(made: Tensor, value: Any) -> Any:
    """Return a function that takes an address and writes `value` to all elements of a tensor at
    this address. The tensor has the geometry and the device of `made`. Return None if `value` is
    the int 0 and the device has no memset."""
    shape, place = made._geometry, made._device
    if not value and type(value) is int:
        return writes.zeroing(shape, place)
    launch = writes.writing("fill_", "fill", "fill", shape, place)
    return writes.writer(launch, place, (value,))


# Complex numbers are excluded, because short cuts could not distinguish 0.0 from -0.0 in their
# parts.
_BY_VALUE = frozenset((bool, int, float))


def _learn_full(table: Table, made: Tensor, value: Any) -> None:
    def make(shape: Geometry, array: Any, asks: bool) -> Any:
        return short_make.filled_with(shape, array, asks, value)

    front, again = (made._geometry.sizes, value), partial(short_make.filled, made._geometry, made)
    short_make.learn(table, full, front, made, again, make, dtype_of_number(value))


def full_out(key_set: int, size: Any, fill_value: Any, out: Tensor) -> Tensor:
    overlap.check_itself("full", out)
    return _fill(key_set, resized("full", out, size), fill_value)


def zeros_out(key_set: int, size: Any, out: Tensor) -> Tensor:
    overlap.check_itself("zeros", out)
    return _zero(key_set, resized("zeros", out, size))


def ones_out(key_set: int, size: Any, out: Tensor) -> Tensor:
    overlap.check_itself("ones", out)
    return _fill(key_set, resized("ones", out, size), 1)


def _of_size(op: str, value: int) -> Kernel:
    def kernel(key_set: int, size: Any, *options: Any) -> Tensor:
        table = getattr(operators, op).table
        made = calls.empty_memory_format(_tuple(op, size), *options)
        made = _fill(key_set, made, value) if value else _zero(key_set, made)
        front = (made._geometry.sizes,)
        if type(made) is Tensor and made._device is CPU:
            again = partial(short_make.filled, made._geometry, made)
            short_make.learn(table, kernel, front, made, again)
        else:
            write = partial(_writer, made, value)
            short_cuda.learn(table, kernel, front, made, options[2], write)
        return made

    return kernel


zeros: Kernel = _of_size("zeros", 0)
ones: Kernel = _of_size("ones", 1)


def full_like(key_set: int, self: Tensor, fill_value: Any, *options: Any) -> Tensor:
    table, made = operators.full_like.table, calls.empty_like(self, *options)
    made = _fill(key_set, made, fill_value)
    if made._device is CPU:
        _learn_like(table, full_like, self, options, made, short_make.full_like)
    return made


def _like(op: str, value: int) -> Kernel:
    def kernel(key_set: int, self: Tensor, *options: Any) -> Tensor:
        table, made = getattr(operators, op).table, calls.empty_like(self, *options)
        made = _fill(key_set, made, value) if value else _zero(key_set, made)
        if made._device is CPU:
            _learn_like(table, kernel, self, options, made, short_make.filled_like)
        elif options[0] is None and options[-1] is None and type(made) is Tensor:
            key, write = (self._geometry, None), partial(_writer, made, value)
            short_cuda.learn_like(table, kernel, self, key, made, write)
        return made

    return kernel


def _learn_like(
    table: Table, kernel: Kernel, self: Tensor, options: tuple[Any, ...], made: Tensor, make: Any
) -> None:
    """Store the short cut of a `_like` factory that passes at most the dtype, once a call is
    repeated. make(geometry, made) returns the short cut, or None."""
    dtype, *others = options
    if type(made) is not Tensor or any([x is not None for x in others]):
        return
    known = seen(self._geometry, (table.operator.name, dtype))
    if shortcuts.is_due(known, table):
        found = make(made._geometry, made)
        if found is not None:
            shortcuts.learn(table, kernel, (self._geometry, dtype), found)
        known.short = table.short


zeros_like: Kernel = _like("zeros_like", 0)
ones_like: Kernel = _like("ones_like", 1)


def new_full(key_set: int, self: Tensor, size: Any, fill_value: Any, *options: Any) -> Tensor:
    made = _fill(key_set, calls.new_empty(self, size, *options), fill_value)
    _learn_new(new_full, self, size, options, made, lambda shape, made: None)
    return made


def new_zeros(key_set: int, self: Tensor, size: Any, *options: Any) -> Tensor:
    made = _zero(key_set, calls.new_empty(self, size, *options))
    _learn_new(new_zeros, self, size, options, made, short_make.filled)
    return made


def new_ones(key_set: int, self: Tensor, size: Any, *options: Any) -> Tensor:
    made = _fill(key_set, calls.new_empty(self, size, *options), 1)
    _learn_new(new_ones, self, size, options, made, short_make.filled)
    return made


def _uninitialised(shape: Geometry, made: Tensor) -> Any:
    return new_array(shape)


def _learn_new(
    kernel: Kernel, self: Tensor, size: Any, options: tuple[Any, ...], made: Tensor, fill: Any
) -> None:
    """Store the short cut of a `new_` factory, once a call is repeated. fill(geometry, made)
    returns a function that makes the result's array, or None if the fill value is an argument of
    the call."""
    dtype, layout, device, pin_memory = (*options, None, None, None, None)[:4]
    shape, place = made._geometry, made._device
    is_plain = layout is None and pin_memory is None and isinstance(size, tuple)
    if type(made) is not Tensor or place is not CPU or not is_plain:
        return
    op = kernel.__name__
    known, table = seen(shape, (op, self._geometry, dtype, device)), getattr(operators, op).table
    if shortcuts.is_due(known, table):
        found = short_make.new(shape, fill(shape, made))
        if found is not None:
            shortcuts.learn(table, kernel, (self._geometry, shape.sizes, dtype, device), found)
        known.short = table.short


def _efficientzerotensor(
    key_set: int, size: Any, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    element = _options("_efficientzerotensor", dtype, layout)
    sizes = arguments.sizes("_efficientzerotensor", size)
    return zero_tensor(contiguous_geometry(sizes, element), resolve(device))


def scalar_tensor(key_set: int, s: Any, *options: Any) -> Tensor:
    made = _fill(key_set, calls.empty_memory_format((), *options), s)
    if type(made) is Tensor and made._device is CPU:
        table, shape = operators.scalar_tensor.table, made._geometry
        known = seen(shape, "scalar_tensor")
        if shortcuts.is_due(known, table):
            short_make.leave(
                table, scalar_tensor, (), shape.dtype, lambda asks: short_make.number(shape, asks)
            )
            known.short = table.short
    return made


# --- short cuts -----------------------------------------------------------------------------------


def _over_empty() -> Any:
    return (
        (operators.empty_memory_format, shortcuts.FACTORY, empty),
        (operators.empty_strided, shortcuts.FACTORY, empty_strided),
    )


def _over_filling() -> Any:
    return (
        (operators.empty_memory_format, shortcuts.FACTORY, empty),
        (operators.empty_like, shortcuts.CPU, empty_like),
        (operators.fill__Scalar, shortcuts.BELOW, "fill.fill_"),
        (operators.zero_, shortcuts.BELOW, "fill.zero_"),
    )


shortcuts.jumps(empty_like, _over_empty)
for _kernel in (zeros, ones, full, zeros_like, ones_like, full_like, scalar_tensor):
    shortcuts.jumps(_kernel, _over_filling)
shortcuts.jumps(new_empty, _over_empty)
for _kernel in (new_full, new_zeros, new_ones):
    shortcuts.jumps(
        _kernel, lambda: (*_over_filling(), (operators.new_empty, shortcuts.CPU, new_empty))
    )
