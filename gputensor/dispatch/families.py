"""Lazy loading of operator families. A family loads when one of its names is first used.

An import reads only `core/_generated/index.py`, which lists the family of every name. A family
loads in two steps. The first step imports `_generated/families/<family>.py`, which has one block
for each operator: `op_add_out` is an overload's Operator, `add` the function, `Tensor_add` the
method, and `call_add_out` the function that native code calls. Functions and methods choose the
overload, collect the operands' keys and call through its table. Native code checks values. If
native code fails with an exception of another library or of Python, and the schema shows which
argument is wrong, `_refuse` raises an exception of gputensor.

The second step imports `registrations/_generated/<family>.py`, which registers the kernels. It runs
at the first call of one of the operators, or earlier, when a kernel is registered for an operator
or its name is looked up. So our kernels are always the oldest. A failed step is undone completely
and tried again at the next use.

Until the first step, a placeholder stands for each name. The placeholders of `gt.add` and
`calls.add_Tensor` are in the module-like objects beside the index; the placeholders of `x.add` and
`x + y` are in Tensor's base class. The first use replaces the placeholder, so later uses cost
nothing extra.

Note [Loads take one lock first]
A load takes `lock` and then, in imports, Python's module locks. So no module that a load may import
uses an operator at its top level (`calls.add_Tensor`). Otherwise another thread that imports the
module would hold the module's lock and wait for `lock`: a deadlock. A test checks the modules.
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

from ..core._generated import index
from ..core import lazy

# Held during every definition, registration and load.
lock = threading.RLock()
# The lock is also held across a fork, so that no other thread is in the middle of a load: the child
# process would have no thread to finish the load.
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
_PACKAGE = __name__.partition(".")[0]
_GENERATED = f"{_PACKAGE}._generated"
_REGISTRATIONS = f"{_PACKAGE}.registrations._generated"
_METHOD, _CALL, _OPERATOR, _NN = "Tensor_", "call_", "op_", "nn_"
# The name of the start module, which imports all modules that every call needs. Here it is a
# string, because families.py must not import a module that imports the dispatcher.
_START = f"{_PACKAGE}.fallbacks.start"
# _done: finished steps, module name -> module. _under_way: steps in progress, module name -> the
# functions that undo them.
_done: dict[str, ModuleType] = {}
_under_way: dict[str, list[Callable[[], object]]] = {}
# Family -> registrations to make after the family's own kernels.
_waiting: dict[str, list[Callable[[], object]]] = {}


def note(undo: Callable[[], object]) -> None:
    """Register a function that undoes a change if the current import of a module fails. Call `note`
    before the change, because Ctrl-C may come between any two lines."""
    if _under_way:
        next(reversed(_under_way.values())).append(undo)


def called(family: str) -> ModuleType:
    """Return the module with the family's operators, functions and methods. Load it if
    necessary."""
    module = f"{_GENERATED}.families.{family}"
    return _done.get(module) or _step(module, _name)


def registered(family: str) -> None:
    """Register the family's kernels, unless they are registered already."""
    module = f"{_REGISTRATIONS}.{family}"
    if module in _done:
        return
    # Another thread may have loaded the module in the meantime, or an outer call of this thread may
    # be loading it.
    with lock:
        if f"{_GENERATED}.families.{family}" not in _under_way:
            called(family)
            _step(module, lambda found: _install(found, family))


def begin() -> None:
    """Import the modules that every call needs."""
    if _START not in _done:
        _step(_START, lambda found: found.install())


def _install(module: ModuleType, family: str) -> None:
    module.install()
    for action in _waiting.get(family, ()):
        action()
    _waiting.pop(family, None)


def _step(module: str, finish: Callable[[ModuleType], None]) -> Any:
    """Import a module and call `finish` with it, unless this was done before. If either fails, undo
    everything."""
    with lock:
        # another thread has imported the module, or an outer call of this thread is importing it
        if module in _done or module in _under_way:
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
            # Callers would interpret an AttributeError as a missing name, so raise an ImportError
            # instead.
            if isinstance(error, AttributeError):
                raise ImportError(f"{module} does not load: {error}") from error
            raise
        finally:
            del _under_way[module]


def family_of(qualified_name: str) -> str | None:
    """Return the family of `aten::add.Tensor`, or of all overloads of `aten::add`; None for an
    operator that is not built in.
    """
    namespace, _, name = qualified_name.partition("::")
    if namespace != "aten":
        return index.NAMESPACES.get(namespace)
    return index.OPERATORS.get(name) or _bases().get(name)


def is_complete(qualified_name: str) -> bool:
    """True if everything that a call of this operator needs is loaded."""
    family = family_of(qualified_name)
    return _START in _done and (family is None or f"{_REGISTRATIONS}.{family}" in _done)


def complete(qualified_name: str) -> None:
    """Load the family of a built-in operator, with its kernels. Do nothing for other operators."""
    family = family_of(qualified_name)
    if family is not None:
        registered(family)


def complete_all() -> None:
    """Call `complete` for every operator."""
    for family in dict.fromkeys((*index.OPERATORS.values(), *index.NAMESPACES.values())):
        registered(family)


def behind(qualified_name: str, action: Callable[[], object]) -> None:
    """Run `action` as soon as the kernels of the operator's family are registered, or immediately
    if they are already registered."""
    family = family_of(qualified_name)
    with lock:
        if family is None or f"{_REGISTRATIONS}.{family}" in _done:
            action()
        else:
            _waiting.setdefault(family, []).append(action)


@functools.cache
def _bases() -> dict[str, str]:
    return {name.partition(".")[0]: family for name, family in index.OPERATORS.items()}


# Special method -> the name of its function in PyTorch, if the names differ.
_NAMED = {"__pow__": "pow", "__ipow__": "pow_", "__rtruediv__": "__rdiv__"}


def _name(module: ModuleType) -> None:
    """Set the names under which users and pickles find functions and methods. If a function has two
    names, the second name gets a copy, because handlers distinguish `x.true_divide` from `x.div`
    and `~x` from `x.bitwise_not`."""
    space = vars(module)
    seen: set[FunctionType] = set()
    for name, value in space.items():
        if isinstance(value, FunctionType) and name.startswith(_NN):
            for part in (value, vars(value).get("__wrapped__", value)):
                part.__name__ = part.__qualname__ = name.removeprefix(_NN)
                part.__module__ = f"{_PACKAGE}.nn.functional"
        elif isinstance(value, FunctionType) and value.__globals__ is space:
            if value in seen:
                space[name] = value = _twin(value, name)
            seen.add(value)
            if name.startswith(_METHOD):
                plain = name.removeprefix(_METHOD)
                value.__name__ = _NAMED.get(plain, plain)
                value.__qualname__ = f"GeneratedMethods.{plain}"
                value.__module__ = f"{_GENERATED}.methods"
            elif not name.startswith(_CALL):
                value.__module__ = f"{_GENERATED}.functions"
        elif isinstance(value, property) and value.fget is not None:
            value.fget.__name__ = name.removeprefix(_METHOD)


def _twin(function: FunctionType, name: str) -> FunctionType:
    """Return a copy of a generated function. Stack frames of the copy have the name `name`, by
    which as_torch/overrides finds the copy."""
    code = function.__code__.replace(co_name=name, co_qualname=name)
    made = FunctionType(code, function.__globals__, name, function.__defaults__)
    made.__kwdefaults__, made.__doc__ = function.__kwdefaults__, function.__doc__
    return made


# --- placeholders for families that are not loaded ------------------------------------------------


def lazy_functions(module: dict[str, Any]) -> None:
    """Make `gputensor._generated.functions`, a module-like object with every public function as an
    attribute."""
    names = dict(index.FUNCTIONS)
    for name, of_module in index.MODULES.items():
        names |= zip(map(f"{name}_".__add__, of_module), of_module.values())
    _face(module, "", names)


def lazy_module(module: dict[str, Any]) -> None:
    """Make a public module such as `gputensor.linalg`. It has the functions `linalg_...` under
    their short names, and the classes that the module imports."""
    name = module["__name__"].rpartition(".")[2]
    found = _face(module, f"{name}_", index.MODULES[name], ModuleType)
    classes = {key: value for key, value in module.items() if isinstance(value, type)}
    vars(found).update(classes)
    vars(found)["__all__"] = [*found.__all__, *classes]
    vars(found)["__getattr__"] = functools.partial(lazy.missing_of, module["__name__"])
    vars(found)["__dir__"] = functools.partial(lazy.listed, vars(found))


def lazy_calls(module: dict[str, Any]) -> None:
    """Make the module-like object `gputensor._generated.calls`."""
    _face(module, _CALL, index.CALLS)


def lazy_nn(module: dict[str, Any]) -> None:
    """Make the module-like object `gputensor._generated.nn`: functions of gt.nn.functional."""
    _face(module, _NN, index.NN)


def lazy_operators(module: dict[str, Any]) -> None:
    """Make the module-like object `gputensor._generated.operators`."""
    identifiers = " ".join(index.OPERATORS).replace(".", "_").split()
    _face(module, _OPERATOR, dict(zip(identifiers, index.OPERATORS.values())))


def _face(
    module: dict[str, Any], prefix: str, families: Mapping[str, str], base: type = object
) -> Any:
    """Replace a module by an object, and return the object. module: the module's globals, from
    which the dunder names are taken. base: ModuleType for public modules; a plain class for objects
    that every call reads.
    """
    kept = {name: module[name] for name in ("__name__", "__doc__", "__file__", "__spec__")}
    kept |= {"__all__": list(families), "_families": families, "_prefix": prefix}
    kept |= {"__package__": module["__package__"]}
    short = module["__name__"].rpartition(".")[2]
    kind = type(short, (base,), dict(zip(families, map(_Stand, families))))
    face = kind(module["__name__"]) if base is ModuleType else kind()
    vars(face).update(kept)
    sys.modules[module["__name__"]] = face
    return face


class _Stand(str):
    """A placeholder for an attribute until its first use: a string with the attribute's name.

    Because placeholders are strings, an import runs no Python code per name. A module with
    `__getattr__` would be simpler, but Python does not specialise attribute reads on such a module.
    Each attribute of each call would then take 40 to 60 ns instead of 7.
    """

    __slots__ = ()

    def __get__(self, face: Any, owner: type) -> Any:
        if face is None:
            return self
        name = str(self)
        found = getattr(called(face._families[name]), face._prefix + name)
        with lock:
            if name in vars(owner):  # False if another thread has replaced it
                setattr(face, name, found)
                delattr(owner, name)
        return found


class Later(str):
    """A descriptor for a method of Tensor whose family is not loaded. The first use loads the
    family and replaces the descriptor."""

    __slots__ = ()

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        # `getattr(tensor, name)` would be wrong here: under `super()` it would find a subclass's
        # override again.
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
    """The form of `Later` for a property. It rejects assignment, as the property itself does."""

    __slots__ = ()

    def __set__(self, tensor: Any, value: Any) -> None:
        self._real().__set__(tensor, value)


def later_methods() -> dict[str, Later]:
    """Return descriptors of all methods, properties and operator methods (`__add__`), for Tensor's
    base class."""
    found: dict[str, Later] = dict(zip(index.METHODS, map(Later, index.METHODS)))
    return found | dict(zip(index.PROPERTIES, map(LaterProperty, index.PROPERTIES)))
