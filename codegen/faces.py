"""Modules of _generated that are the same for any operators: lazy faces of the families."""

from __future__ import annotations

from .text import module

_LAZY = """from ..dispatch.families import lazy_{names} as _lazy

__getattr__ = _lazy(globals())"""

_FUNCTIONS = """from ..dispatch.families import lazy_functions as _lazy
from .index import FUNCTIONS as _FUNCTIONS

__all__ = list(_FUNCTIONS)
__getattr__ = _lazy(globals())


def __dir__():
    return [*globals(), *__all__]"""

_METHODS = '''from ..dispatch.families import later_methods as _later_methods


class GeneratedMethods:
    """Base of Tensor: every operator that has a method, and what Python's own operators call."""

    __slots__ = ()
    # A class that defines __eq__ loses its hash; tensors are hashed by identity.
    __hash__ = object.__hash__
    vars().update(_later_methods())'''

_WHEN = "whose families load when they are first named."

FILES = {
    "__init__.py": module("What codegen writes: docs/architecture.md tells what is where."),
    "calls.py": module(f"Calls of overloads for native code, {_WHEN}", _LAZY.format(names="calls")),
    "operators.py": module(
        f"The Operator of every overload, {_WHEN}", _LAZY.format(names="operators")
    ),
    "functions.py": module(f"Public functions, `gt.add(...)`, {_WHEN}", _FUNCTIONS),
    "methods.py": module(f"Tensor's operators, {_WHEN}", _METHODS),
}
