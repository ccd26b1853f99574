"""Text of the modules in _generated that load families lazily. This text does not depend on
operators."""

from __future__ import annotations

from ..text import module

_LAZY = """from ..dispatch.families import lazy_{names} as _lazy

_lazy(globals())"""

_METHODS = '''from ..dispatch.families import later_methods as _later_methods


class GeneratedMethods:
    """Base class of Tensor, with the methods of all operators, also for Python operators."""

    __slots__ = ()
    # A class that defines __eq__ loses its hash; tensors are hashed by identity.
    __hash__ = object.__hash__
    vars().update(_later_methods())'''

_WHEN = "with lazy loading of families."

FILES = {
    "core/_generated/__init__.py": module("The index of all names."),
    "func/_generated/__init__.py": module("Batch rules of single rows."),
    "kernels/_generated/__init__.py": module("The loops of every family."),
    "makers/_generated/__init__.py": module("Kernels by the shape of a schema."),
    "registrations/_generated/__init__.py": module(
        "Registrations of operators. Each family has one file."
    ),
    "structured/_generated/__init__.py": module("The forms of short cuts."),
    "_generated/__init__.py": module(
        "Generated code. docs/internals/architecture.md describes the modules."
    ),
    "_generated/calls.py": module(
        f"Calls of overloads for native code, {_WHEN}", _LAZY.format(names="calls")
    ),
    "_generated/operators.py": module(
        f"The Operator of every overload, {_WHEN}", _LAZY.format(names="operators")
    ),
    "_generated/functions.py": module(
        f"Public functions, `gt.add(...)`, {_WHEN}", _LAZY.format(names="functions")
    ),
    "_generated/nn.py": module(f"Functions of gt.nn.functional, {_WHEN}", _LAZY.format(names="nn")),
    "_generated/methods.py": module(f"Tensor's operators, {_WHEN}", _METHODS),
}
