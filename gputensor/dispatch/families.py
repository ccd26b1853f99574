"""Families of operators load when one of their names is first used.

`_generated/index.py` knows the family of every name and is all that an import needs. A family comes
in two steps. `_generated/families/<family>.py` has what is called, a block an operator:
`op_add_out` is an overload's Operator, `add` the function, `Tensor_add` the method, `call_add_out`
what native code calls. Functions and methods read which overload is meant, gather the operands'
keys and call through its table; values are checked by native code, and where that fails with
anything but a sentence of the house, `_refuse` raises one if the schema knows which argument is to
blame. Until a family is there something stands for each name: for `gt.add` and `calls.add_Tensor`
in the faces beside the index, for `x.add` and `x + y` in Tensor's base class. The first use puts
the real thing in its place, so that a later one costs what it would cost without any of this.
`_generated/kernels/<family>.py` registers the kernels when one of the operators is first called, or
before anything else is registered for it or looks it up: our kernels are always the oldest. A step
that fails is taken back whole and is tried again when next asked for.

Note [Loads take one lock first]
A load takes `lock` and then, importing, Python's locks of modules. So no module that a load may
import names an operator while it is imported itself (`calls.add_Tensor` at its top level): another
thread that imports it would hold the module and wait for `lock`. A test walks the modules.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from .._generated import index
from ..core import lazy

# Guards every change of what is defined and registered, and every load.
lock = threading.RLock()
# A fork waits for a load of another thread, which the child could never end.
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
_PACKAGE = __name__.partition(".")[0]
_GENERATED = f"{_PACKAGE}._generated"
_METHOD, _CALL, _OPERATOR = "Tensor_", "call_", "op_"
# What is between every call and its kernel; above the dispatcher, so it is found by name.
_START = f"{_PACKAGE}.interpose.start"
# Module of a step that is done -> the module; steps under way, with what takes back their changes.
_done: dict[str, ModuleType] = {}
_under_way: dict[str, list[Callable[[], object]]] = {}
# Family -> what is to be registered behind its own kernels.
_waiting: dict[str, list[Callable[[], object]]] = {}


def note(undo: Callable[[], object]) -> None:
    """Say how a change is taken back, should the step fail that it is part of. Call it before
    the change is made, since Ctrl-C may come between any two lines."""
    if _under_way:
        next(reversed(_under_way.values())).append(undo)


def called(family: str) -> ModuleType:
    """The family's operators and what calls them."""
    module = f"{_GENERATED}.families.{family}"
    return _done.get(module) or _step(module, _name)


def registered(family: str) -> None:
    """See to it that the family's kernels are there."""
    module = f"{_GENERATED}.kernels.{family}"
    if module in _done:
        return
    with lock:  # behind another thread's load; within its own, there is nothing to register yet
        if f"{_GENERATED}.families.{family}" not in _under_way:
            called(family)
            _step(module, lambda found: _install(found, family))


def begin() -> None:
    """See to it that what is between every call and its kernel is there."""
    if _START not in _done:
        _step(_START, lambda found: found.install())


def _install(module: ModuleType, family: str) -> None:
    module.install()
    for action in _waiting.get(family, ()):
        action()
    _waiting.pop(family, None)


def _step(module: str, finish: Callable[[ModuleType], None]) -> Any:
    """Import and finish a module once; one that fails leaves nothing behind."""
    with lock:
        if module in _done or module in _under_way:  # by another thread; or it asks for itself
            return _done.get(module)
        undos: list[Callable[[], object]] = []
        _under_way[module] = undos
        try:
            found = import_module(module)
            finish(found)
            _done[module] = found
            return found
        except BaseException as error:
            _done.pop(module, None)
            sys.modules.pop(module, None)
            for undo in reversed(undos):
                undo()
            if isinstance(error, AttributeError):  # which says of a name that there is none such
                raise ImportError(f"{module} does not load: {error}") from error
            raise
        finally:
            del _under_way[module]


def family_of(qualified_name: str) -> str | None:
    """The family of `aten::add.Tensor`, or of all overloads of `aten::add`; None if not ours."""
    namespace, _, name = qualified_name.partition("::")
    if namespace != "aten":
        return index.NAMESPACES.get(namespace)
    return index.OPERATORS.get(name) or _bases().get(name)


def is_complete(qualified_name: str) -> bool:
    """Whether all is there that a call of this operator may meet."""
    family = family_of(qualified_name)
    return _START in _done and (family is None or f"{_GENERATED}.kernels.{family}" in _done)


def complete(qualified_name: str) -> None:
    """See to it that an operator is defined and has its kernels, if it is ours."""
    family = family_of(qualified_name)
    if family is not None:
        registered(family)


def complete_all() -> None:
    """`complete` for every operator."""
    for family in dict.fromkeys((*index.OPERATORS.values(), *index.NAMESPACES.values())):
        registered(family)


def behind(qualified_name: str, action: Callable[[], object]) -> None:
    """Run `action` once the operator's family has its kernels, now if it has; loads nothing."""
    family = family_of(qualified_name)
    with lock:
        if family is None or f"{_GENERATED}.kernels.{family}" in _done:
            action()
        else:
            _waiting.setdefault(family, []).append(action)


@functools.cache
def _bases() -> dict[str, str]:
    return {name.partition(".")[0]: family for name, family in index.OPERATORS.items()}


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


def lazy_functions(module: dict[str, Any]) -> Any:
    """What `gputensor._generated.functions` is: every public function as an attribute."""
    names = dict(index.FUNCTIONS)
    for name, of_module in index.MODULES.items():
        names |= zip(map(f"{name}_".__add__, of_module), of_module.values())
    return _face(module, "", names)


def lazy_module(module: dict[str, Any]) -> Any:
    """What `gputensor.linalg` is: the functions `linalg_...` under their short names, and the
    classes that the module imports."""
    name = module["__name__"].rpartition(".")[2]
    found = _face(module, f"{name}_", index.MODULES[name], ModuleType)
    classes = {key: value for key, value in module.items() if isinstance(value, type)}
    vars(found).update(classes)
    vars(found)["__all__"] = [*found.__all__, *classes]
    vars(found)["__getattr__"] = functools.partial(lazy.missing_of, module["__name__"])
    vars(found)["__dir__"] = functools.partial(lazy.listed, vars(found))
    return found


def lazy_calls(module: dict[str, Any]) -> Any:
    """What `gputensor._generated.calls` is."""
    return _face(module, _CALL, index.CALLS)


def lazy_operators(module: dict[str, Any]) -> Any:
    """What `gputensor._generated.operators` is."""
    identifiers = " ".join(index.OPERATORS).replace(".", "_").split()
    return _face(module, _OPERATOR, dict(zip(identifiers, index.OPERATORS.values())))


def _face(
    module: dict[str, Any], prefix: str, families: Mapping[str, str], base: type = object
) -> Any:
    """An object in the place of a module. module: its globals, of which it keeps what it is. base:
    ModuleType for what users see; what is read in every call must be a plain object."""
    kept = {name: module[name] for name in ("__name__", "__doc__", "__file__", "__spec__")}
    kept |= {"__all__": list(families), "_families": families, "_prefix": prefix}
    kept |= {"__package__": module["__package__"]}
    short = module["__name__"].rpartition(".")[2]
    kind = type(short, (base,), dict(zip(families, map(_Stand, families))))
    face = kind(module["__name__"]) if base is ModuleType else kind()
    vars(face).update(kept)
    return face


class _Stand(str):
    """The name of an attribute, for which it stands until that is first asked for.

    It is a string so that no line of Python runs for each name of an operator in an import.
    A module with a `__getattr__` would do, but Python does not specialise reads of one: 40 to 60 ns
    for each attribute of each call, where this is back at 7.
    """

    __slots__ = ()

    def __get__(self, face: Any, owner: type) -> Any:
        if face is None:
            return self
        name = str(self)
        found = getattr(called(face._families[name]), face._prefix + name)
        with lock:
            if name in vars(owner):  # the first of two threads
                setattr(face, name, found)
                delattr(owner, name)
        return found


class Later(str):
    """The name of a method of Tensor whose family is not there yet: a descriptor that replaces
    itself."""

    __slots__ = ()

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        # Not `getattr(tensor, name)`, which would find a subclass's override twice under `super()`.
        return self._real().__get__(tensor, owner)

    def _real(self) -> Any:
        module = called(index.METHODS[self])
        home = import_module(f"{_GENERATED}.methods").GeneratedMethods
        with lock:
            for name, value in vars(module).items():
                plain = name.removeprefix(_METHOD)
                if plain != name and isinstance(vars(home).get(plain), Later):
                    setattr(home, plain, value)
        return vars(home)[str(self)]


class LaterProperty(Later):
    """As `Later`; what is a property may not be assigned before either."""

    __slots__ = ()

    def __set__(self, tensor: Any, value: Any) -> None:
        self._real().__set__(tensor, value)


def later_methods() -> dict[str, Later]:
    """Every method, property and method of Python's operators, for Tensor's base class."""
    found: dict[str, Later] = dict(zip(index.METHODS, map(Later, index.METHODS)))
    return found | dict(zip(index.PROPERTIES, map(LaterProperty, index.PROPERTIES)))
