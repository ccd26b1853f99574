"""Public modules: their lists of names, lazy imports, and errors for missing names.

`python -m codegen` reads the imports under `TYPE_CHECKING` of a public module and writes the module
that defines each name to the index. So one list serves type checkers, imports and `dir()`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ._generated import index

_PACKAGE = __name__.partition(".")[0]


def attributes(namespace: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` of a module. namespace: the module's globals().

    Add the module's names in the index to `__all__`.
    """
    module = namespace["__name__"]
    later = index.LATER.get(module.removeprefix(f"{_PACKAGE}."), {})
    public = namespace.setdefault("__all__", [])
    public += [name for name in later if name not in public]

    def getattr_(name: str) -> Any:
        if name not in later:
            raise missing(module, name)
        namespace[name] = found = loaded(later[name], name)
        return found

    return getattr_, lambda: listed(namespace)


def loaded(home: str, name: str) -> Any:
    """Import `name` from the module `home`. If `home` ends in a dot, return the module itself."""
    found = import_module(f"{_PACKAGE}.{home.removesuffix('.')}")
    return found if home.endswith(".") else getattr(found, name)


def listed(namespace: dict[str, Any]) -> list[str]:
    """Return the names that `dir()` lists: the public names, and the dunder names that every module
    has."""
    special = [name for name in namespace if name.startswith("__") and name.endswith("__")]
    return sorted({*namespace["__all__"], *special})


def missing_of(module: str, name: str) -> Any:
    """Raise the error for a missing name. This is the `__getattr__` of modules without lazy
    names."""
    raise missing(module, name)


def missing(module: str, name: str) -> AttributeError:
    """Make the error for a name that a module does not have."""
    # Names that begin with an underscore get a short error, because Python often looks up dunder
    # names.
    if name.startswith("_"):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return MissingName(module, name)


class MissingName(AttributeError):
    """The error for a name that a module does not have. The message is built only when it is
    read."""

    def __str__(self) -> str:
        from .errors.names import no_name

        return no_name(*self.args)


class Lacks:
    """A descriptor for a name that only other libraries' classes have. Reading the name raises
    LackedName.

    A `__getattr__` would prevent Python from specialising reads of existing names: small calls then
    took 1.3 times as long.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, kind: type) -> Any:
        raise LackedName(self._name, kind)


class LackedName(AttributeError):
    """The error for a name that only other libraries' tensors have. The message is built only when
    it is read."""

    def __str__(self) -> str:
        from .errors.names import no_attribute

        missing, kind = self.args
        return no_attribute(missing, sorted({*dir(kind)} - {*index.LACKS.split()}))
