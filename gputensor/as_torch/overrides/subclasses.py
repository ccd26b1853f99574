"""Methods and attributes that call the handler, for tensors of a class with
`__torch_function__`."""

from __future__ import annotations

import sys
from typing import Any

from ...dispatch.families import LaterProperty
from ...tensor.tensor import Tensor
from . import (
    BINARY, NAMES, PUBLIC, Overridden, boundary, call_handlers, default, disabled,
    entries, has_torch_function, is_overriding,
)  # fmt: skip
from .sources import PACKAGE, rule_of

# Maps a reflected operator to the operator that is called instead, with swapped operands, if the
# other operand is a tensor.
_SWAPPED = {f"__r{name}__": f"__{name}__" for name in NAMES}


def _called(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the handler for a method. Within a public function that will call the handler, raise
    Overridden. Without a handler, call the method."""
    caller = sys._getframe(2)
    relevant = (*args, *kwargs.values())
    if has_torch_function(relevant):
        if caller.f_globals.get("__name__", "").partition(".")[0] != PACKAGE:
            return call_handlers(rule_of(func), func, relevant, args, kwargs)
        if boundary(caller) == "caught":
            raise Overridden
    return func(*args, **kwargs)


def _method(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _called(getattr(Tensor, name), (self, *args), kwargs)

    method.__name__ = name
    return method


def _operator(name: str) -> Any:
    def method(self: Any, *others: Any) -> Any:
        given, used = (self, *others), name
        if all([isinstance(x, (Tensor, int, float, complex)) for x in others]):
            if name in _SWAPPED and isinstance(others[0], Tensor):
                given, used = (*others, self), _SWAPPED[name]
            used = PUBLIC.get(used, used)
        try:
            return _called(getattr(Tensor, used), given, {})
        except TypeError:
            return NotImplemented

    method.__name__ = name
    return method


def _attribute(name: str) -> property:
    def get(self: Any) -> Any:
        return _called(getattr(Tensor, name).__get__, (self,), {})

    def put(self: Any, value: Any) -> None:
        _called(getattr(Tensor, name).__set__, (self, value), {})

    return property(get, put)


def _members() -> dict[str, Any]:
    """Return replacements for the methods and attributes of Tensor. The replacements call
    handlers."""
    found: dict[str, Any] = {}
    for name, value in entries.members().items():
        if isinstance(value, (property, LaterProperty)):
            found[name] = _attribute(name)
        else:
            is_operator = name in PUBLIC or name in BINARY
            found[name] = _operator(name) if is_operator else _method(name)
    return found


def _dispatched(cls: Any, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    return cls.__torch_dispatch__(op, types, args, kwargs or {})


class Overridable:
    """The first base class of a program's subclass of Tensor. Its methods call handlers."""

    __slots__ = ()
    __hash__ = object.__hash__
    vars().update(_members())
    __torch_function__: Any = classmethod(default)
    __gputensor_dispatch__: Any

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # called by the handlers of subclasses
        return Tensor.__gputensor_dispatch__(func, types, args, kwargs)

    is_overriding = staticmethod(is_overriding)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "__torch_dispatch__" in vars(cls):
            # The handler of operators has another name in gputensor.
            cls.__gputensor_dispatch__ = classmethod(_dispatched)
            # Source: torch/csrc/autograd/python_variable.cpp, THPVariableMetaType_init.
            if "__torch_function__" not in vars(cls):
                cls.__torch_function__ = disabled
        super().__init_subclass__(**kwargs)
