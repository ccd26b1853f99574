"""What a module of users lists and lacks, and names that are imported when first asked for.

`python -m codegen` reads what such a module imports for type checkers, under `TYPE_CHECKING`, and
tells in the index where each name is: one list serves checkers, imports and `dir()`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .._generated import index

_PACKAGE = __name__.partition(".")[0]


def attributes(namespace: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A module's `__getattr__` and `__dir__`, for `namespace`, its globals().

    `__all__` comes to name what the index has for the module, too.
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
    """What the index says is in the module `home`; `watch.profiler.` is the module itself."""
    found = import_module(f"{_PACKAGE}.{home.removesuffix('.')}")
    return found if home.endswith(".") else getattr(found, name)


def listed(namespace: dict[str, Any]) -> list[str]:
    """What `dir()` says of a module: what users name, and what every module has."""
    special = [name for name in namespace if name.startswith("__") and name.endswith("__")]
    return sorted({*namespace["__all__"], *special})


def missing_of(module: str, name: str) -> Any:
    """`__getattr__` of a module that is whole."""
    raise missing(module, name)


def missing(module: str, name: str) -> AttributeError:
    """What a module raises for a name that it does not have."""
    if name.startswith("_"):  # asked for by machinery, and often
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return MissingName(module, name)


class MissingName(AttributeError):
    """A name that a module lacks. The sentence is made when it is read: hasattr() reads none."""

    def __str__(self) -> str:
        from .errors.names import no_name

        return no_name(*self.args)


class Lacks:
    """Stands in a class for a name that others' classes have: who reads it is told so.

    A `__getattr__` would hear of every name that is missing, but then Python does not specialise
    reads of those that are there: small calls took 1.3 times as long.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, kind: type) -> Any:
        raise LackedName(self._name, kind)


class LackedName(AttributeError):
    """A name that others' tensors have. The sentence is made when it is read."""

    def __str__(self) -> str:
        from .errors.names import no_attribute

        missing, kind = self.args
        return no_attribute(missing, sorted({*dir(kind)} - {*index.LACKS.split()}))
