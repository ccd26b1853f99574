"""Devices as values: a type and an index. Equal devices are one object, so they are compared by
identity.

This module does not list the devices of this machine; see `runtime`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from . import errors
from .guard import Guard

# The original names of the device types that have dispatch keys. A PrivateUse type may get another
# name (`rename_privateuse`).
_TYPES = {"cpu", "cuda", "xla", "meta", "privateuseone", "privateusetwo", "privateusethree"}
# PyTorch's other device types. Devices of these types can be compared and printed. They hold no
# tensors unless an extension registers the name. Source: c10/core/DeviceType.h.
_ELSEWHERE = {
    "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "lazy",
    "vulkan", "mps", "hpu", "mtia",
}  # fmt: skip
# The dispatch keys of device types for which native_functions.yaml has autocast policies.
AUTOCAST_DEVICES = ("CPU", "CUDA")
_ALIASES: dict[str, str] = {}
# The maximum number of devices of a type, set by the width of c10::DeviceIndex.
MOST_DEVICES = 128
# (text, index) -> device; cleared whenever a device name is added or removed.
_interned: dict[tuple[str, int | None], device] = {}
# All devices made so far. A device type that is registered again gets the same objects.
_made: dict[tuple[str, int | None], device] = {}
# Functions that are called with an unknown type name. A function returns True if it has registered
# the name (backend.py loads extensions).
unknown_type_hooks: list[Callable[[str], bool]] = []


class device(Guard):
    """A device that holds tensors: `device("cuda:1")`, `device("cuda", 1)`, `device("cpu")`.

    index: None means the current device. A tensor's device has a number if its type has indices.
    `with device("cuda:1"):` makes this device the default of factory functions in the block.
    """

    __slots__ = ("type", "index")
    type: str
    index: int | None

    def __new__(cls, type: str | device, index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        if index is not None and index.__class__ is not int:
            # converted before the lookup, because True and 1.0 equal 1 as dict keys
            index = _index(index)
        try:
            known = _interned.get((type, index))
        except TypeError:  # the value is unhashable and therefore not a device
            known = None
        return known if known is not None else _parse(cls, type, index)

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[object, ...]:
        return (device, (self.type, self.index))

    def __copy__(self) -> device:
        return self

    def __deepcopy__(self, memo: object) -> device:
        return self

    # As a context manager, a device sets the default device of factories.

    def _enter(self) -> None:
        _context_hooks[0](self)

    def _found(self) -> Any:
        return _context_hooks[1](self)

    def _put_back(self, found: Any) -> None:
        _context_hooks[2](found)


# Three functions that change the default device: push a device, return the state without this
# device, restore a state. dispatch.backend_select sets them and holds the state, because `core`
# holds no state.
_context_hooks: list[Callable[..., Any]] = []


def _index(value: Any) -> int:
    """Convert a NumPy int to an index. Raises: ArgumentError for a bool."""
    try:
        if not isinstance(value, bool):
            return int(operator.index(value))
    except Exception:
        pass
    raise _no_index(value)


def _no_index(value: Any) -> errors.GpuTensorError:
    return errors.must("device", "index", f"be an integer in [0, {MOST_DEVICES - 1}]", value)


def _parse(cls: type[device], text: Any, index: int | None) -> device:
    if isinstance(text, int) and not isinstance(text, bool):
        return device("cuda", text)
    if not isinstance(text, str):
        raise errors.wrong_type("device", "type", "be a device string or a device", text)
    name, colon, number = text.partition(":")
    name = _ALIASES.get(name, name)
    is_known = name in _TYPES or any([hook(name) for hook in unknown_type_hooks])
    if not is_known and name not in _ELSEWHERE:
        known = ", ".join(sorted(_TYPES - set(_ALIASES)))
        raise errors.must("device", "type", f"be one of {known}, with an optional ':index'", text)
    if colon:
        if index is not None or not (number.isascii() and number.isdigit() and len(number) < 5):
            rule = "end in ':' and a non-negative integer, given once"
            raise errors.must("device", "type", rule, text)
        index = int(number)
    if index is not None and not 0 <= index < MOST_DEVICES:
        raise _no_index(index)
    if name in ("cpu", "meta") and index is not None:
        if index:
            raise errors.must("device", "index", f"be 0 or left out on '{name}'", index)
        index = None
    key = (name, index)
    made = _made.get(key)
    if made is None:
        made = object.__new__(cls)
        made.type, made.index = name, index
        made = _made.setdefault(key, made)
    _interned.setdefault(key, made)
    if text != name or index is None:
        _interned.setdefault((text, index if not colon else None), made)
    return made


def rename_privateuse(first_name: str, name: str) -> Callable[[], None]:
    """Rename a PrivateUse device type to `name`. Return a function that removes the new name.

    The old name stays valid for these devices. The dispatch key keeps its name.
    Raises: ArgumentError if the name is in use, or the type is renamed already.
    """
    if name in _TYPES:
        raise errors.must("rename_privateuse", "name", "not be another device's name", name)
    if first_name in _ALIASES:
        rule = f"not be called {_ALIASES[first_name]!r} already"
        raise errors.must("rename_privateuse", "first_name", rule, first_name)
    _TYPES.add(name)
    _ALIASES[first_name] = name
    _interned.clear()

    def undo() -> None:
        if _ALIASES.get(first_name) == name:
            del _ALIASES[first_name]
            _TYPES.discard(name)
            _interned.clear()

    return undo


CPU = device("cpu")
META = device("meta")
