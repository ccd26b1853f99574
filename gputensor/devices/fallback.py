"""Boxed kernels that work for any operator: CPU fallback, error, call without a derivative.

    with gt.fallback.enable_cpu_fallback("CUDA", deny=["mm"]):      # off otherwise
        ...
    Library("_", "IMPL").fallback(gt.fallback.cpu_fallback, "PrivateUse1")
    lib.impl("scale", gt.fallback.not_implemented, "Meta")
    lib.impl("scale", gt.fallback.autograd_not_implemented, "Autograd")

See also `library.fallthrough_kernel`. The kernel that materialises conjugates and zeros is in
fallbacks/lazy_views.py. The kernel without a derivative is in autograd/fallback.py. Source:
aten/src/ATen/native/CPUFallback.cpp. There are two differences: operands that share memory also
share it on the CPU, and results that are views stay views.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .._generated import operators as _operators
from ..autograd.fallback import (
    AUTOGRAD_MODES, autograd_fallback_mode, autograd_not_implemented, set_autograd_fallback_mode,
)  # fmt: skip
from ..core import errors, lazy
from ..core.device import CPU, device
from ..core.dtype import uint8
from ..core.geometry import contiguous_geometry
from ..dispatch import dispatcher, keys
from ..dispatch.backend_select import TENSOR_KEYS, resolve, user_name
from ..dispatch.dispatcher import Handle
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..dispatch.operator import Operator
from ..dispatch.tls import AutoDispatchBelowADInplaceOrView
from ..structured.transfer import set_geometry
from ..tensor.storage import Storage
from ..tensor.base import tensors_of
from ..tensor.make import from_storage, view_of
from ..tensor.tensor import Tensor

__all__ = [
    "AUTOGRAD_MODES", "autograd_fallback_mode", "autograd_not_implemented", "cpu_fallback",
    "enable_cpu_fallback", "not_implemented", "set_autograd_fallback_mode",
]  # fmt: skip

Stack = list[Any]

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_CPU_KEYS = keys.key_set(("CPU",))


# --- not implemented ------------------------------------------------------------------------------


def not_implemented(operator: Operator, key_set: int, stack: Stack) -> None:
    """Raise the error for an operator that has no kernel at this key.

    Raises: DispatchError with the operator and the key.
    """
    raise errors.not_implemented_at(operator, user_name(keys.highest(key_set)))


# --- on the CPU -----------------------------------------------------------------------------------

# Operators for which a warning was issued.
_warned: set[Operator] = set()


def cpu_fallback(operator: Operator, key_set: int, stack: Stack) -> None:
    """Run an operator on the CPU: copy its operands to the CPU, and then copy the results and the
    written memory back.

    Operands that share memory also share it on the CPU. A result that is a view of an operand stays
    a view. The first call of each operator warns.
    Raises: DispatchError if neither an operand nor a `device` argument determines the results'
    device.
    """
    schema = operator.schema
    count = len(schema.arguments)
    given = stack[len(stack) - count :] if count else []
    place = _place(schema, given)
    if place is None:
        raise errors.no_device_for_fallback(operator)
    _warn_once(operator, place, given)
    with AutoDispatchBelowADInplaceOrView():  # the kernels at these keys have run
        host = _Host(given)
        results = [host.bring(value) for value in given]
        for number, argument in enumerate(schema.arguments):
            if argument.type.base == "Device":
                results[number] = CPU
        operator.redispatch_boxed(_CPU_KEYS, results)
        written = [value for a, value in zip(schema.arguments, given) if a.is_write]
        host.return_written(tensors_of(written))
        stack[len(stack) - count :] = [host.send(result, place) for result in results]


for _kernel in (not_implemented, cpu_fallback):
    vars(_kernel)["kernel_convention"] = "boxed"


def _place(schema: Any, given: Sequence[Any]) -> device | None:
    for tensor in tensors_of(given):
        if tensor._device is not CPU:
            return tensor._device
    for argument, value in zip(schema.arguments, given):
        if argument.type.base == "Device":
            return resolve(value)
    return None


def _warn_once(operator: Operator, place: device, given: Sequence[Any]) -> None:
    if operator in _warned:
        return
    nbytes = sum(t._geometry.nbytes for t in tensors_of(given) if t._device is not CPU)
    warnings.warn(
        errors.runs_on_the_cpu(operator, place, nbytes), stacklevel=_levels_to_the_program()
    )
    _warned.add(operator)


def _levels_to_the_program() -> int:
    """Return the stacklevel of the innermost frame outside this package: the caller of the
    operator."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


class _Region:
    """The part of a device's storage that a call's operands cover, and its copy on the CPU."""

    __slots__ = ("of", "storage", "begin", "end", "copy")

    def __init__(self, of: Tensor) -> None:
        self.of, self.storage = of, of._get_storage()
        self.begin, self.end = self.storage._nbytes, 0
        self.copy: Storage | None = None

    def cover(self, tensor: Tensor) -> None:
        shape = tensor._geometry
        first = tensor._offset * shape.dtype.itemsize
        # round down to a multiple of 16, so that offsets are whole elements in every dtype
        self.begin = min(self.begin, first & ~15)
        if shape.numel:  # an empty view may begin past the end of its storage
            self.end = max(self.end, first + shape.extent * shape.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return max(self.end - self.begin, 0)

    @property
    def on_device(self) -> Tensor:
        shape = contiguous_geometry((self.nbytes,), uint8)
        bits = TENSOR_KEYS[self.storage.device.type]
        return from_storage(self.storage, self.begin, shape, bits)

    def fetched(self) -> Storage:
        """Return the region's copy on the CPU. The first call makes the copy."""
        if self.copy is None:
            self.copy = _moved(self.on_device, CPU)._get_storage()
        return self.copy

    def return_bytes(self) -> None:
        shape = contiguous_geometry((self.nbytes,), uint8)
        _copy(self.on_device, from_storage(self.fetched(), 0, shape, TENSOR_KEYS["cpu"]))


class _Host:
    """The operands of one call on the CPU: one copy of each storage, and tensors over the
    copies."""

    __slots__ = ("regions", "twins")

    def __init__(self, given: Sequence[Any]) -> None:
        self.regions: dict[Storage, _Region] = {}
        self.twins: dict[int, tuple[Tensor, Tensor]] = {}
        for tensor in tensors_of(given):
            if tensor._device is not CPU:
                self.regions.setdefault(tensor._get_storage(), _Region(tensor)).cover(tensor)

    def bring(self, value: Any) -> Any:
        """Replace the device's tensors in a value by CPU tensors. A tensor that occurs several
        times is replaced by one CPU tensor."""
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
        """Copy the changes that the CPU operator made back to the device: changed bytes, a new
        shape (t_) or a new storage (resize_)."""
        regions = []
        for tensor in tensors:
            if id(tensor) not in self.twins:
                continue
            twin, region = self.twins[id(tensor)][1], self.regions[tensor._get_storage()]
            shape = twin._geometry
            end = (twin._offset + shape.extent) * shape.dtype.itemsize if shape.numel else 0
            if twin._storage is not region.copy or end > region.nbytes:
                set_geometry(tensor, shape)
                _copy(tensor, twin)
                continue
            tensor._offset = twin._offset + region.begin // shape.dtype.itemsize
            tensor._geometry, tensor._array = shape, None
            if region not in regions:
                regions.append(region)
        for region in regions:
            region.return_bytes()

    def send(self, result: Any, place: device) -> Any:
        """Return a result as a tensor on the device: an operand, a view of an operand, or a
        copy."""
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
    to_copy = _operators._to_copy.redispatch_table[key_set]
    return to_copy(key_set, tensor, tensor._geometry.dtype, None, place, None, False, None)


def _copy(to: Tensor, source: Tensor) -> None:
    key_set = (to._keys | source._keys) & BELOW_ADINPLACEORVIEW
    _operators.copy_.redispatch_table[key_set](key_set, to, source, False)


class enable_cpu_fallback:
    """Run operators on the CPU if they have no kernel at a backend's key. `remove`, or the end of a
    `with` block, ends the fallback.

    key: the backend, "CUDA" or "PrivateUse1". ops: operators that fall back, given as a name ("mm")
    or an overload ("aten::add.out"); None for all. deny: operators that must not fall back. An
    operator with a kernel of the backend still uses that kernel. Raises: RegistrationError if the
    backend already has a fallback; ArgumentError for a composite operator, because the operators
    that it calls fall back instead.
    """

    __slots__ = ("_handles",)

    def __init__(
        self, key: str, ops: Iterable[str] | None = None, deny: Iterable[str] = ()
    ) -> None:
        found = keys.runtime_key(key)
        if found.functionality != "Dense" or found.backend in ("CPU", "Meta"):
            rule = "be the key of a device other than cpu and meta"
            raise errors.must("enable_cpu_fallback", "key", rule, key)
        _warned.clear()
        self._handles: list[Handle] = []
        denied = frozenset(o for name in deny for o in _named(name, found, "deny"))
        if ops is None:

            def serve(operator: Operator, key_set: int, stack: Stack) -> None:
                if operator in denied:
                    raise errors.fallback_denied(operator, user_name(found))
                cpu_fallback(operator, key_set, stack)

            self._handles.append(dispatcher.register_fallback(found, serve, "boxed"))
        else:
            named = [o for name in ops for o in _named(name, found, "ops")]
            chosen = dict.fromkeys([o for o in named if o not in denied])
            for operator in chosen:
                if operator.table.slot(found)[0] is None:
                    made = dispatcher.register_kernel(operator, found, cpu_fallback, "boxed")
                    self._handles.append(made)

    def remove(self) -> None:
        """End the fallback. From then on, operators without a kernel raise an error."""
        while self._handles:
            self._handles.pop().remove()

    def __enter__(self) -> enable_cpu_fallback:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def _named(name: str, key: keys.DispatchKey, argument: str) -> list[Operator]:
    """Return all overloads with a name, or one overload. Raises: DispatchError if none exists."""
    full = dispatcher.qualified(name)
    found = [o for o in dispatcher.overloads(full) if o.is_defined] or [dispatcher.find(full)]
    if all(o.table.slot(key)[1] in ("math kernel", "default backend kernel") for o in found):
        raise errors.composite_falls_back(argument, name)
    return found


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
