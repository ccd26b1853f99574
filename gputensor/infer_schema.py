"""A schema from the annotations of a Python function: `def f(x: Tensor, by: float = 2.0) -> Tensor`.

It reads the annotations' names, so that a function needs no import to be read; what it cannot say
raises and names the argument.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from .core import errors

_TYPES = {
    "Tensor": "Tensor", "int": "SymInt", "float": "float", "bool": "bool", "str": "str",
    "complex": "complex", "Number": "Scalar", "dtype": "ScalarType", "device": "Device",
    "memory_format": "MemoryFormat", "layout": "Layout",
}  # fmt: skip


def infer_schema(function: Callable[..., Any], name: str, mutates_args: Sequence[str] = ()) -> str:
    """The schema text of `function` under `name`.

    mutates_args: names of tensors that the function writes.
    Raises: ArgumentValueError for an annotation or default that a schema cannot say.
    """
    import inspect

    found = inspect.signature(function, eval_str=True, globals=_names(function))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    arguments, starred = [], False
    for argument in found.parameters.values():
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            raise errors.no_schema_for(name, f"'*{argument.name}'", "a variable number of arguments")
        if argument.kind is argument.KEYWORD_ONLY and not starred:
            arguments.append("*")
            starred = True
        type_text = _type(argument.annotation, name, f"'{argument.name}'")
        if argument.name in mutates_args:
            type_text = type_text.replace("Tensor", f"Tensor({next(letters)}!)", 1)
        default = "" if argument.default is argument.empty else f"={_default(argument.default, name, argument.name)}"
        arguments.append(f"{type_text} {argument.name}{default}")
    return f"{name}({', '.join(arguments)}) -> {_returns(found.return_annotation, name)}"


def _names(function: Callable[..., Any]) -> dict[str, Any]:
    """The function's globals, and Tensor where it does not import it."""
    known: dict[str, Any] = getattr(function, "__globals__", {})
    if "Tensor" in known:
        return known
    from .tensor import Tensor

    return {"Tensor": Tensor, **known}


def _returns(annotation: Any, name: str) -> str:
    if annotation is None:
        return "()"
    if typing.get_origin(annotation) is tuple:
        return f"({', '.join(_type(part, name, 'the result') for part in typing.get_args(annotation))})"
    return _type(annotation, name, "the result")


def _type(annotation: Any, name: str, what: str) -> str:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [part for part in parts if part is not type(None)]
        if len(rest) == 1 and len(parts) == 2:
            return _type(rest[0], name, what) + "?"
        if set(rest) <= {bool, int, float, complex}:
            return "Scalar" + "?" * (len(rest) < len(parts))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence) and origin is not tuple:
        return _type(parts[0], name, what) + "[]"
    found = _TYPES.get(getattr(annotation, "__name__", ""))
    if found is None:
        raise errors.no_schema_for(name, what, getattr(annotation, "__name__", annotation))
    return found


def _default(value: Any, name: str, argument: str) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_default(item, name, argument) for item in value)}]"
    raise errors.no_schema_for(name, f"the default of '{argument}'", value)
