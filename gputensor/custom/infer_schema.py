"""Schemas inferred from the annotations of a Python function such as `def f(x: Tensor) -> Tensor`.

The names in the annotations are read, so the types need not be imported. An annotation that a
schema cannot express raises an error with the argument's name. The schema text equals PyTorch's.
Source: torch/_library/infer_schema.py.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..core import errors
from ..core.device import device
from ..core.dtype import dtype

_TYPES = {
    "Tensor": "Tensor", "int": "SymInt", "float": "float", "bool": "bool", "str": "str",
    "complex": "complex", "Number": "Scalar", "dtype": "ScalarType", "device": "Device",
    "memory_format": "MemoryFormat", "layout": "Layout",
}  # fmt: skip
_RETURNS = {"Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar"}
# Tags of `Library.define` and `custom_op`: an `inplace` operator writes to its first argument and
# returns it; an `out` operator writes to its keyword-only tensors and returns them.
INPLACE, OUT = "inplace", "out"


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str] = (),
    op_name: str | None = None, tags: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return a function's schema text: `(Tensor x) -> Tensor`, after `op_name` if it is given.

    mutates_args: names of the tensors that the function writes to, or "unknown" for all of them.
    tags: "inplace" if the function writes to its first argument and returns it; "out" if it returns
    the keyword-only tensors that it writes to.
    Raises: ArgumentValueError for an annotation or default that a schema cannot express, and for
    mutates_args that name no tensor.
    """
    import inspect

    name = op_name or str(getattr(prototype_function, "__name__", "function"))
    written = mutates_args if isinstance(mutates_args, str) else frozenset(mutates_args)
    if isinstance(written, str) and written != "unknown":
        rule = "be names of arguments, or 'unknown'"
        raise errors.wrong_value(name, "mutates_args", rule, mutates_args)
    try:
        known = _names(prototype_function)
        found = inspect.signature(prototype_function, eval_str=True, globals=known)
    except NameError as error:
        got = f"{error}, which the module does not define"
        raise errors.no_schema_for(name, "every argument", got) from None
    texts, starred, seen = [], False, set()
    for number, argument in enumerate(found.parameters.values()):
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            raise errors.no_schema_for(
                name, f"'*{argument.name}'", "a variable number of arguments"
            )
        if argument.kind is argument.KEYWORD_ONLY and not starred:
            texts.append("*")
            starred = True
        type_text = _type(argument.annotation, name, f"'{argument.name}'")
        is_tensor = type_text.startswith("Tensor")
        if is_tensor if isinstance(written, str) else argument.name in written:
            if not is_tensor:
                raise errors.mutates_no_tensor(name, argument.name, type_text)
            type_text = f"Tensor(a{number}!){type_text[6:]}"
            seen.add(argument.name)
        default = ""
        if argument.default is not argument.empty:
            default = f"={_default(argument.default, name, argument.name)}"
        texts.append(f"{type_text} {argument.name}{default}")
    if not isinstance(written, str) and written - seen:
        raise errors.mutates_no_tensor(name, sorted(written - seen)[0], None)
    returned = _returns(found.return_annotation, name)
    if tags:
        returned = _returned_arguments(name, texts, returned, tags)
    return f"{op_name or ''}({', '.join(texts)}) -> {returned}"


def _names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the function's globals, with Tensor added if they do not contain it."""
    known: dict[str, Any] = getattr(function, "__globals__", {})
    if "Tensor" in known:
        return known
    from ..tensor.tensor import Tensor

    return {"Tensor": Tensor, **known}


def _returns(annotation: Any, name: str) -> str:
    if annotation is None:
        return "()"
    parts = [annotation]
    is_tuple = typing.get_origin(annotation) is tuple
    if is_tuple:
        parts = list(typing.get_args(annotation))
    texts = [_type(part, name, "the result") for part in parts]
    for part, text in zip(parts, texts):
        if text not in _RETURNS:
            raise errors.no_schema_for(name, "the result", part)
    if not is_tuple:
        return texts[0]
    return f"(({texts[0]}))" if len(texts) == 1 else f"({', '.join(texts)})"


def _type(annotation: Any, name: str, what: str) -> str:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [part for part in parts if part is not type(None)]
        if len(rest) == 1 and len(parts) == 2:
            return _type(rest[0], name, what) + "?"
        if set(rest) <= {bool, int, float, complex}:
            return "Scalar" + "?" * (len(rest) < len(parts))
    # `typing.List` without brackets has an origin, but no parts
    if parts and isinstance(origin, type) and issubclass(origin, Sequence) and origin is not tuple:
        return _type(parts[0], name, what) + "[]"
    found = _TYPES.get(getattr(annotation, "__name__", ""))
    if found is None or origin is not None:
        raise errors.no_schema_for(name, what, annotation)
    return found


def _default(value: Any, name: str, argument: str) -> str:
    if isinstance(value, (str, device)):
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, dtype):
        return value.name
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_default(item, name, argument) for item in value)}]"
    raise errors.no_schema_for(name, f"the default of '{argument}'", value)


def _returned_arguments(name: str, texts: list[str], returned: str, tags: Sequence[str]) -> str:
    """Return the schema's returns for an operator that returns the arguments to which it writes."""
    written = [text for text in texts if "!" in text]
    if INPLACE in tags:
        if len(written) != 1 or texts[0] != written[0] or not written[0].startswith("Tensor(a0!) "):
            raise errors.tag_does_not_fit(
                name, INPLACE, "write to its first argument, a Tensor, and to no other"
            )
    elif OUT in tags:
        by_name = texts[texts.index("*") + 1 :] if "*" in texts else []
        if not written or any(
            t not in by_name or not t.partition(")")[2].startswith(" ") for t in written
        ):
            raise errors.tag_does_not_fit(
                name, OUT, "write to keyword-only Tensors, and to no others"
            )
    else:
        return returned
    aliases = [text.partition(" ")[0] for text in written]
    expected = "Tensor" if len(aliases) == 1 else f"({', '.join(['Tensor'] * len(aliases))})"
    if returned != expected:
        tag = INPLACE if INPLACE in tags else OUT
        rule = f"return what it writes to, {expected}, not {returned}"
        raise errors.tag_does_not_fit(name, tag, rule)
    return aliases[0] if len(aliases) == 1 else f"({', '.join(aliases)})"
