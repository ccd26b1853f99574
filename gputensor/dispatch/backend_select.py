"""Selection of the device and the backend of factory calls, for the BackendSelect key.

A factory function has no tensor to dispatch on. Its `device`, or the default device, selects the
backend. Source: torchgen's register_backend_select and c10/core/TensorOptions.h.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ..core import device as _devices, errors
from ..core.device import CPU, device
from ..core.registry import Registry
from . import keys


class _Keys(dict[str, int]):
    """A dict: device type -> key set. Looking up a device type that is not registered raises an
    error."""

    def __missing__(self, device_type: str) -> int:
        raise errors.no_device(device_type, "no backend is registered under this name")


BACKEND_OF_TYPE = {
    "cpu": "CPU", "cuda": "CUDA", "xla": "XLA", "meta": "Meta", "privateuseone": "PrivateUse1",
    "privateusetwo": "PrivateUse2", "privateusethree": "PrivateUse3",
}  # fmt: skip
# TENSOR_KEYS: device type -> the key set of its plain tensors. DENSE_KEYS: device type -> the key
# set with only its Dense key. A factory call without tensor arguments uses DENSE_KEYS and ignores
# the keys that the thread includes, as in PyTorch.
TENSOR_KEYS = _Keys({kind: keys.tensor_keys(name) for kind, name in BACKEND_OF_TYPE.items()})
DENSE_KEYS = _Keys({kind: keys.key_set((name,)) for kind, name in BACKEND_OF_TYPE.items()})

# The devices of `with gt.device(...)` blocks and of `set_default_device`, outermost first.
default_devices: ContextVar[tuple[device, ...]] = ContextVar(
    "gputensor_default_device", default=(CPU,)
)
# device type -> functions to call when the type is removed. They remove the kernels registered
# under its name.
ends_with: dict[str, list[Callable[[], None]]] = {}
# device type -> function that returns the index of the current device, for names without an index
# such as "cuda". Each device type registers its own function.
_current_index: Registry[str, Callable[[], int]] = Registry()
# Key name -> the remedy that an error suggests for an operator without a kernel at this key.
# backend.py sets it.
remedies: Registry[str, Callable[[Any], str]] = Registry()


def register_device_type(device_type: str, backend: str) -> Callable[[], None]:
    """Let tensors of a device type carry the keys of `backend`. Return a function that undoes the
    registration."""
    TENSOR_KEYS[device_type] = keys.tensor_keys(backend)
    DENSE_KEYS[device_type] = keys.key_set((backend,))
    BACKEND_OF_TYPE[device_type] = backend

    def undo() -> None:
        for undo_one in ends_with.pop(device_type, ()):
            undo_one()
        for table in (TENSOR_KEYS, DENSE_KEYS, BACKEND_OF_TYPE):
            table.pop(device_type, None)

    return undo


def user_name(key: keys.DispatchKey) -> str:
    """Return the key's name for messages. For a named device it is `PrivateUse1 (openreg)`."""
    for device_type, backend in BACKEND_OF_TYPE.items():
        is_renamed = backend.startswith("Private") and not device_type.startswith("private")
        if backend == key.backend and is_renamed:
            return f"{key} ({device_type})"
    return str(key)


def remedy(key: keys.DispatchKey, operator: Any) -> str:
    """Return the remedy for an operator without a kernel at this key. Return "" if there is no
    remedy."""
    advise = remedies.get(key.name)
    return "" if advise is None else advise(operator)


def resolve(target: device | None) -> device:
    """Return the device for a factory's new tensor. None means the default device. The result has
    an index if its device type has indices."""
    if target is None:
        target = default_devices.get()[-1]
    if target.index is None and target.type in _current_index:
        return device(target.type, _current_index[target.type]())
    return target


def default_device() -> device:
    """Return the device of factory calls without `device`."""
    return resolve(None)


def set_default_device(device: _devices.device | str | None) -> None:
    """Set the device of factory calls without `device`, for this thread or task."""
    chosen = CPU if device is None else _devices.device(device)
    default_devices.set((*default_devices.get()[:-1], chosen))


def register_current_index(device_type: str, current: Callable[[], int]) -> Callable[[], None]:
    """Register the function that returns the current index of a device type. Return a function that
    undoes it."""
    return _current_index.register(device_type, current)


def _push(target: device) -> None:
    before = default_devices.get()
    try:
        default_devices.set((*before, target))
    except BaseException:
        default_devices.set(before)
        raise


def _without(target: device) -> tuple[device, ...]:
    """Return the default devices without the entry of the innermost block of this device.

    Blocks that were entered after that block stay.
    """
    stack = default_devices.get()
    at = len(stack) - 1
    for n in range(at, 0, -1):
        if stack[n] is target:
            at = n
            break
    return stack[:at] + stack[at + 1 :]


_devices._context_hooks[:] = [_push, _without, default_devices.set]
