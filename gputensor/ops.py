"""`gt.ops.<namespace>.<operator>.<overload>`: all operators by name, built-in or registered.

A name exists as long as its operator is defined. `gt.ops.aten.add` is a packet of overloads;
calling it calls the first overload that accepts the arguments. `.default` is the overload without a
name.
"""

from __future__ import annotations

# Imported names begin with an underscore, because an attribute of this module would hide a
# namespace with the same name.
import sys as _sys
from typing import Any as _Any

from .core import errors as _errors
from .dispatch import dispatcher as _dispatcher
from .dispatch.operator import Operator as _Operator


class OperatorPacket:
    """All overloads of one operator name, as attributes. `default` is the unnamed overload."""

    def __init__(self, qualified_name: str) -> None:
        self.qualified_name = qualified_name
        self._overloads: tuple[_Operator, ...] = ()
        self._refresh()

    def _refresh(self) -> None:
        # Store the overloads in `__dict__`, so that Python finds them without `__getattr__`.
        for operator in self._overloads:
            self.__dict__.pop(operator.overload or "default", None)
        name = self.qualified_name
        self._overloads = tuple(o for o in _dispatcher.overloads(name) if o.is_defined)
        for operator in self._overloads:
            self.__dict__[operator.overload or "default"] = operator

    @property
    def __name__(self) -> str:
        return self.qualified_name.partition("::")[2]

    def overloads(self) -> list[str]:
        """Return the names of the overloads, in the order in which a call tries them."""
        return [o.overload or "default" for o in self._overloads]

    def __call__(self, /, *args: _Any, **kwargs: _Any) -> _Any:
        overloads = self._overloads
        if len(overloads) == 1:
            return overloads[0](*args, **kwargs)
        if not overloads:
            raise _errors.operator_not_found(self.qualified_name, None)
        reasons = []
        for operator in overloads:
            try:
                arguments, key_set = operator.table.signature.arrange(operator, args, kwargs)
            except _errors.ArgumentTypeError as error:
                reasons.append(f"{operator.qualified_name}: {error}")
                continue
            return operator.arranged(arguments, key_set)
        raise _errors.no_overload_fits(self.qualified_name, reasons)

    def __getattr__(self, name: str) -> _Operator:
        raise AttributeError(
            f"operator {self.__dict__.get('qualified_name')!r} has no overload {name!r}"
        )

    def __dir__(self) -> list[str]:
        return sorted(object.__dir__(self))

    def __repr__(self) -> str:
        return f"<OperatorPacket {self.qualified_name}: {', '.join(self.overloads())}>"

    def __str__(self) -> str:
        return self.qualified_name.replace("::", ".")

    def __reduce__(self) -> tuple[object, ...]:
        return (_packet, (self.qualified_name,))


class OperatorNamespace:
    """The operators of one namespace as attributes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> OperatorPacket:
        if name == "_name":  # copy and pickle read attributes before `_name` is set
            raise AttributeError(name)
        found = _packet(f"{self._name}::{name}")
        if not found._overloads:
            raise AttributeError(f"namespace {self._name!r} has no operator {name!r}")
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        head = self._name + "::"
        names = {
            o.name.removeprefix(head)
            for o in _dispatcher.operators()
            if o.is_defined and o.name.startswith(head)
        }
        return sorted({*object.__dir__(self), *names})

    def __repr__(self) -> str:
        return f"<operators of namespace {self._name!r}>"


_packets: dict[str, OperatorPacket] = {}
_namespaces: dict[str, OperatorNamespace] = {}


def _packet(qualified_name: str) -> OperatorPacket:
    """Return the packet with a qualified name such as `aten::add`. While the operator has
    overloads, all calls return the same object."""
    found = _packets.get(qualified_name)
    if found is None:
        found = OperatorPacket(qualified_name)
        if found._overloads:
            _packets[qualified_name] = found
    return found


def _follow(operator: _Operator) -> None:
    """Update packets and namespaces after an operator was defined or removed."""
    found = _packets.get(operator.name)
    if found is not None:
        found._refresh()
        if not found._overloads:
            namespace = _namespaces.get(operator.namespace)
            if namespace is not None:
                namespace.__dict__.pop(operator.name.partition("::")[2], None)


_dispatcher.definition_hooks.append(_follow)


def __getattr__(name: str) -> OperatorNamespace:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    namespace = _namespaces.get(name)
    if namespace is None:
        namespace = _namespaces[name] = OperatorNamespace(name)
        setattr(_sys.modules[__name__], name, namespace)
    return namespace


def __dir__() -> list[str]:
    return sorted({*globals(), *(o.namespace for o in _dispatcher.operators() if o.is_defined)})
