"""Names of a package whose modules are imported when first asked for: imports are budgeted."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def attributes(
    namespace: dict[str, Any], home: dict[str, str], package: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A module's `__getattr__` and `__dir__`, for `namespace`, its globals().

    home: name -> the module of `package` that has it, where it is looked up once.
    """

    def getattr_(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        found = namespace[name] = getattr(import_module(f"{package}.{home[name]}"), name)
        return found

    def dir_() -> list[str]:
        return sorted({*namespace, *home})

    return getattr_, dir_
