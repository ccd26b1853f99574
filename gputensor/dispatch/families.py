"""Families of operators load when one of their names is first used.

`_generated/index.py` knows the family of every name and is all that an import needs.
`_generated/families/<family>.py` defines the operators and what calls them. The names that stand
for a family until then are attributes of lazy modules (`gt.add`, `calls.add_Tensor`) and of
Tensor's base class (`x.add`, `x + y`); the first use puts the real thing in their place, so that a
later one costs what it would cost without any of this.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from .._generated import index

# Guards every change of what is defined and registered, and every load: it is taken before Python's
# own locks of modules, so that two threads cannot hold one and wait for the other.
lock = threading.RLock()
_GENERATED = index.__name__.rpartition(".")[0]
_METHOD, _CALL, _OPERATOR = "Tensor_", "call_", "op_"
_loaded: dict[str, ModuleType] = {}
_loading: list[str] = []
# What takes back the changes that loads under way made, innermost last. See `note`.
_undos: list[list[Callable[[], object]]] = []


def note(undo: Callable[[], object]) -> None:
    """Say how a change is taken back, should the load that it is part of fail."""
    if _undos:
        _undos[-1].append(undo)


def called(family: str) -> ModuleType:
    """The family's operators and what calls them. One that fails to load leaves nothing behind."""
    found = _loaded.get(family)
    if found is None:
        with lock:
            found = _loaded.get(family)
            if found is None:
                _loading.append(family)
                try:
                    found = _load(f"{_GENERATED}.families.{family}")
                    _name(found)
                    _loaded[family] = found
                finally:
                    _loading.pop()
    return found


def load_of(qualified_name: str) -> None:
    """Load the family of `aten::add.Tensor`, or of all overloads of `aten::add`, if it is ours."""
    namespace, _, name = qualified_name.partition("::")
    if namespace == "aten":
        family = index.OPERATORS.get(name) or _bases().get(name)
        if family is not None and family not in _loading:
            called(family)


def load_all() -> None:
    """Load every family."""
    for family in dict.fromkeys(index.OPERATORS.values()):
        if family not in _loading:
            called(family)


@functools.cache
def _bases() -> dict[str, str]:
    return {name.partition(".")[0]: family for name, family in index.OPERATORS.items()}


def _load(module: str) -> ModuleType:
    _undos.append([])
    try:
        return import_module(module)
    except BaseException as error:
        for undo in reversed(_undos[-1]):
            undo()
        if isinstance(error, AttributeError):  # which says of a name that there is none such
            raise ImportError(f"{module} does not load: {error}") from error
        raise
    finally:
        _undos.pop()


def _name(module: ModuleType) -> None:
    """Give functions and methods the names under which users, and pickles, find them."""
    for name, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__name__ == name:
            if name.startswith(_METHOD):
                value.__name__ = name.removeprefix(_METHOD)
                value.__qualname__ = f"GeneratedMethods.{value.__name__}"
                value.__module__ = f"{_GENERATED}.methods"
            elif not name.startswith(_CALL):
                value.__module__ = f"{_GENERATED}.functions"


# --- what stands for a family until it is there ---------------------------------------------------


def lazy_functions(face: dict[str, Any]) -> Callable[[str], Any]:
    """`__getattr__` of the module with the globals `face`, which has every public function."""
    return _getter(face, lambda: index.FUNCTIONS, "")


def lazy_calls(face: dict[str, Any]) -> Callable[[str], Any]:
    """`__getattr__` of the module that has the call of every overload."""
    return _getter(face, _identifiers, _CALL)


def lazy_operators(face: dict[str, Any]) -> Callable[[str], Any]:
    """`__getattr__` of the module that has every Operator."""
    return _getter(face, _identifiers, _OPERATOR)


def _getter(
    face: dict[str, Any], names: Callable[[], Mapping[str, str]], prefix: str
) -> Callable[[str], Any]:
    def __getattr__(name: str) -> Any:
        family = names().get(name)
        if family is None:
            raise AttributeError(f"module {face['__name__']!r} has no attribute {name!r}")
        face[name] = found = getattr(called(family), prefix + name)
        return found

    return __getattr__


@functools.cache
def _identifiers() -> dict[str, str]:
    """The index of overloads as they are spelled in Python: `add_Tensor`."""
    return {name.replace(".", "_"): family for name, family in index.OPERATORS.items()}


class Later:
    """A method of Tensor whose family is not there yet: a descriptor that replaces itself."""

    __slots__ = ("name", "home")

    def __set_name__(self, home: type, name: str) -> None:
        self.home, self.name = home, name

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        # Not `getattr(tensor, name)`, which would find a subclass's override twice under `super()`.
        return self._real().__get__(tensor, owner)

    def _real(self) -> Any:
        module = called(index.METHODS[self.name])
        with lock:
            for name, value in vars(module).items():
                plain = name.removeprefix(_METHOD)
                if plain != name and isinstance(vars(self.home).get(plain), Later):
                    setattr(self.home, plain, value)
        return vars(self.home)[self.name]


class LaterProperty(Later):
    """As `Later`; what is a property may not be assigned before either."""

    __slots__ = ()

    def __set__(self, tensor: Any, value: Any) -> None:
        self._real().__set__(tensor, value)


def later_methods() -> dict[str, Later]:
    """Every method, property and method of Python's operators, for Tensor's base class."""
    return {
        name: LaterProperty() if name in index.PROPERTIES else Later() for name in index.METHODS
    }
