"""Boxed kernels that serve any operator: on the CPU instead, not at all, or without a derivative.

    with gt.fallback.enable_cpu_fallback("CUDA", deny=["mm"]):      # off otherwise
        ...
    Library("_", "IMPL").fallback(gt.fallback.cpu_fallback, "PrivateUse1", boxed=True)
    lib.impl("scale", gt.fallback.not_implemented, "Meta", boxed=True)

`library.fallthrough_kernel` is the fourth; materialising conjugates and zeros is in `lazy_views.py`.
Source: aten/src/ATen/native/CPUFallback.cpp, autograd/autograd_not_implemented_fallback.cpp. Other
than there, operands that share memory share it on the CPU too, and views come back as views.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ._generated import operators as _ops
from .autograd.modes import is_grad_enabled
from .autograd.variable import warn_in_backward
from .core import errors
from .core.device import CPU, device
from .core.dtype import uint8
from .core.geometry import contiguous_geometry
from .dispatch import dispatcher, keys, tls
from .dispatch.backend_select import TENSOR_KEYS, resolve, user_name
from .dispatch.dispatcher import Handle
from .dispatch.keys import BELOW_ADINPLACEORVIEW
from .dispatch.operator import Operator, Table
from .dispatch.tls import AutoDispatchBelowADInplaceOrView
from .native import resize
from .storage import Storage
from .tensor import Tensor, from_storage, view_of

Stack = list[Any]

_CPU_KEYS = keys.key_set(("CPU",))


# --- not implemented --------------------------------------------------------------------------------


def not_implemented(operator: Operator, key_set: int, stack: Stack) -> None:
    """Refuses the operator at the key it is registered for.

    Raises: DispatchError naming operator and key.
    """
    raise errors.not_implemented_at(operator, user_name(keys.highest(key_set)))


# --- on the CPU -------------------------------------------------------------------------------------

# Operators whose falling back was told of.
_warned: set[Operator] = set()


def cpu_fallback(operator: Operator, key_set: int, stack: Stack) -> None:
    """Runs the operator on the CPU: operands in, results and what was written back out.

    Operands that share memory do so on the CPU as well; a result that is a view of an operand comes
    back as a view of it. Warns once for each operator.
    Raises: DispatchError if no operand and no `device` argument says where the results belong.
    """
    schema = operator.schema
    count = len(schema.arguments)
    given = stack[len(stack) - count :] if count else []
    place = _place(schema, given)
    if place is None:
        raise errors.no_device_for_fallback(operator)
    _warn_once(operator, place, given)
    with AutoDispatchBelowADInplaceOrView():  # the keys above this one have had their turn
        host = _Host(given)
        results = [host.bring(value) for value in given]
        for number, argument in enumerate(schema.arguments):
            if argument.type.base == "Device":
                results[number] = CPU
        operator.redispatch_boxed(_CPU_KEYS, results)
        host.return_written(t for a, value in zip(schema.arguments, given) if a.is_write for t in _tensors(value))
        stack[len(stack) - count :] = [host.send(result, place) for result in results]


def _place(schema: Any, given: Sequence[Any]) -> device | None:
    """The device that the results belong to."""
    for tensor in _tensors(given):
        if tensor._device is not CPU:
            return tensor._device
    for argument, value in zip(schema.arguments, given):
        if argument.type.base == "Device":
            return resolve(value)
    return None


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "_geometry"):
        yield value


def _warn_once(operator: Operator, place: device, given: Sequence[Any]) -> None:
    if operator in _warned:
        return
    nbytes = sum(t._geometry.nbytes for t in _tensors(given) if t._device is not CPU)
    warnings.warn(errors.runs_on_the_cpu(operator, place, nbytes), stacklevel=2)
    _warned.add(operator)


class _Region:
    """The bytes of a device's storage that operands look at, and their copy on the CPU."""

    __slots__ = ("of", "storage", "begin", "end", "copy")

    def __init__(self, of: Tensor) -> None:
        self.of, self.storage = of, of._get_storage()
        self.begin, self.end = self.storage.nbytes, 0
        self.copy: Storage | None = None

    def cover(self, tensor: Tensor) -> None:
        shape = tensor._geometry
        first = tensor._offset * shape.dtype.itemsize
        # Rounded down, so that offsets of every dtype stay whole.
        self.begin = min(self.begin, first & ~15)
        self.end = max(self.end, first + shape.extent * shape.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return max(self.end - self.begin, 0)

    @property
    def on_device(self) -> Tensor:
        shape, bits = contiguous_geometry((self.nbytes,), uint8), TENSOR_KEYS[self.storage.device.type]
        return from_storage(self.storage, self.begin, shape, bits)

    def fetched(self) -> Storage:
        """The copy on the CPU; made once."""
        if self.copy is None:
            self.copy = _moved(self.on_device, CPU)._get_storage()
        return self.copy

    def return_bytes(self) -> None:
        source = from_storage(self.fetched(), 0, contiguous_geometry((self.nbytes,), uint8), TENSOR_KEYS["cpu"])
        _copy(self.on_device, source)


class _Host:
    """One call's operands on the CPU: a copy for each storage, and who looks at it how."""

    __slots__ = ("regions", "twins")

    def __init__(self, given: Sequence[Any]) -> None:
        self.regions: dict[Storage, _Region] = {}
        self.twins: dict[int, tuple[Tensor, Tensor]] = {}
        for tensor in _tensors(given):
            if tensor._device is not CPU:
                self.regions.setdefault(tensor._get_storage(), _Region(tensor)).cover(tensor)

    def bring(self, value: Any) -> Any:
        """The value with CPU tensors in the place of the device's; the same tensor gives the same."""
        if isinstance(value, (list, tuple)):
            return [self.bring(item) for item in value]
        if not hasattr(value, "_geometry") or value._device is CPU:
            return value
        if id(value) not in self.twins:
            region, shape = self.regions[value._get_storage()], value._geometry
            offset = value._offset - region.begin // shape.dtype.itemsize
            twin = from_storage(region.fetched(), offset, shape, TENSOR_KEYS["cpu"])
            self.twins[id(value)] = (value, twin)
        return self.twins[id(value)][1]

    def return_written(self, tensors: Iterable[Tensor]) -> None:
        """Bring back what the CPU wrote: bytes, another shape (t_), or another storage (resize_)."""
        regions = []
        for tensor in tensors:
            if id(tensor) not in self.twins:
                continue
            twin, region = self.twins[id(tensor)][1], self.regions[tensor._get_storage()]
            shape = twin._geometry
            fits = (twin._offset + shape.extent) * shape.dtype.itemsize <= region.nbytes
            if twin._storage is not region.copy or not fits:
                resize.set_geometry(tensor, shape)
                _copy(tensor, twin)
                continue
            tensor._offset = twin._offset + region.begin // shape.dtype.itemsize
            tensor._geometry, tensor._array = shape, None
            if region not in regions:
                regions.append(region)
        for region in regions:
            region.return_bytes()

    def send(self, result: Any, place: device) -> Any:
        """A result on the device: an operand itself, a view of one, or a copy."""
        if isinstance(result, (list, tuple)):
            return type(result)([self.send(item, place) for item in result])
        if not hasattr(result, "_geometry") or place is CPU:
            return result
        for original, twin in self.twins.values():
            if twin is result:
                return original
        for region in self.regions.values():
            if region.copy is not None and region.copy is result._storage:
                offset = result._offset + region.begin // result._geometry.dtype.itemsize
                return view_of(region.of, result._geometry, offset)
        return _moved(result, place)


def _moved(tensor: Tensor, place: device) -> Tensor:
    key_set = (tensor._keys | TENSOR_KEYS[place.type]) & BELOW_ADINPLACEORVIEW
    return _ops._to_copy.redispatch_table[key_set](  # type: ignore[no-any-return]
        key_set, tensor, tensor._geometry.dtype, None, place, None, False, None
    )


def _copy(to: Tensor, source: Tensor) -> None:
    key_set = (to._keys | source._keys) & BELOW_ADINPLACEORVIEW
    _ops.copy_.redispatch_table[key_set](key_set, to, source, False)


class enable_cpu_fallback:  # noqa: N801 - used as a function and as `with enable_cpu_fallback(...):`
    """Let operators that have no kernel at a backend's key run on the CPU, until `remove` or the end of `with`.

    key: the backend, "CUDA" or "PrivateUse1". ops: those to serve, by name ("mm") or overload
    ("aten::add.out"); None for all. deny: those that must not fall back.
    Raises: RegistrationError if the backend has a fallback already.
    """

    __slots__ = ("_handles",)

    def __init__(self, key: str, ops: Iterable[str] | None = None, deny: Iterable[str] = ()) -> None:
        found = keys.runtime_key(key)
        if found.functionality != "Dense" or found.backend in ("CPU", "Meta"):
            raise errors.must("enable_cpu_fallback", "key", "be the key of a device other than cpu and meta", key)
        _warned.clear()
        self._handles: list[Handle] = []
        denied = frozenset(o for name in deny for o in _named(name))
        if ops is None:

            def serve(operator: Operator, key_set: int, stack: Stack) -> None:
                if operator in denied:
                    raise errors.fallback_denied(operator, user_name(found))
                cpu_fallback(operator, key_set, stack)

            self._handles.append(dispatcher.register_fallback(found, serve, "boxed"))
        else:
            chosen = {o: None for name in ops for o in _named(name) if o not in denied}
            for operator in chosen:
                if operator.table.slot(found)[0] is None:
                    self._handles.append(dispatcher.register_kernel(operator, found, cpu_fallback, "boxed"))

    def remove(self) -> None:
        """Operators without a kernel raise again."""
        while self._handles:
            self._handles.pop().remove()

    def __enter__(self) -> enable_cpu_fallback:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def _named(name: str) -> list[Operator]:
    """The operators of a name, all overloads, or of one overload. Raises: DispatchError for none."""
    full = name if "::" in name else f"aten::{name}"
    found = [o for o in dispatcher.operators() if o.is_defined and full in (o.name, o.qualified_name)]
    return found or [dispatcher.find(full)]


# --- without a derivative ---------------------------------------------------------------------------

AUTOGRAD_MODES = ("nothing", "warn", "error")
_mode = "nothing"
_serving: Handle | None = None
_BELOW_AUTOGRAD = keys.below("AutogradOther")
# attach(operator, inputs, results): give results that depend on inputs which require grad a node that
# warns when backward reaches it. Without it "warn" warns at the call.
_attach: Callable[[Operator, list[Tensor], Any], None] | None = warn_in_backward


def autograd_not_implemented(table: Table, key_set: int) -> Callable[..., Any]:
    """Makes the kernel of an operator at its autograd keys that knows no derivative.

    By `autograd_fallback_mode`: "nothing" goes on below, and results do not require grad; "warn"
    gives results a node that warns when backward comes to it; "error" refuses operands that require
    grad while gradients are recorded. To register for one operator, pass it with the convention
    "maker". An operand that requires no grad costs one look at its `_autograd`.
    """
    operator = table.operator
    places = [n for n, a in enumerate(table.signature.schema.arguments) if a.type.has_tensor]

    def without_derivative(key_set: int, *args: Any) -> Any:
        inputs = [
            x for n in places for x in (args[n] if isinstance(args[n], (list, tuple)) else (args[n],))
            if getattr(x, "_autograd", None) is not None
        ]  # fmt: skip
        key_set &= _BELOW_AUTOGRAD
        mode = _mode
        if not inputs or mode == "nothing" or not _records(inputs):
            return operator.redispatch_table[key_set](key_set, *args)
        if mode == "error":
            raise errors.no_derivative(operator)
        if _attach is None:
            warnings.warn(errors.derivative_warning(operator), stacklevel=2)
        with tls.AutoDispatchBelowAutograd():
            result = operator.redispatch_table[key_set](key_set, *args)
        if _attach is not None:
            _attach(operator, inputs, result)
        return result

    return without_derivative


def _records(inputs: list[Tensor]) -> bool:
    return _is_recording() and any(x.requires_grad for x in inputs)


_is_recording: Callable[[], bool] = is_grad_enabled


def on_missing_derivative(
    attach: Callable[[Operator, list[Tensor], Any], None], is_recording: Callable[[], bool]
) -> None:
    """Change how "warn" marks results, and who says whether gradients are recorded now."""
    global _attach, _is_recording
    _attach, _is_recording = attach, is_recording


def set_autograd_fallback_mode(mode: str) -> None:
    """What operators without a derivative do, for the whole process: "nothing", "warn" or "error".

    "nothing" is a fallthrough: those operators then pay nothing for autograd.
    """
    global _mode, _serving
    if mode not in AUTOGRAD_MODES:
        raise errors.must("set_autograd_fallback_mode", "mode", f"be one of {', '.join(AUTOGRAD_MODES)}", mode)
    with dispatcher.lock:
        _mode = mode
        if mode != "nothing" and _serving is None:
            _serving = dispatcher.replace_fallback(keys.Autograd, autograd_not_implemented, "maker")
        elif mode == "nothing" and _serving is not None:
            _serving.remove()
            _serving = None


def autograd_fallback_mode() -> str:
    """What operators without a derivative do."""
    return _mode
