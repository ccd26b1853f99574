"""`__torch_function__` of classes that are not tensors: functions of gputensor call it for
arguments that they do not accept.

Source: torch/overrides.py, and torch/csrc/utils/python_arg_parser.cpp for the order of the classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import gputensor as gt


def _given(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, (list, tuple)) else (value,)


def overloaded(values: Iterable[Any]) -> list[Any]:
    """Return an argument of each class with a handler, in order, but subclasses before their
    bases."""
    found: list[Any] = []
    for x in _given(values):
        kind = type(x)
        if not has_handler(x) or any([kind is type(other) for other in found]):
            continue
        at = next((n for n, other in enumerate(found) if isinstance(x, type(other))), len(found))
        found.insert(at, x)
    return found


def has_handler(x: Any) -> bool:
    """True for an object that is not a tensor and has `__torch_function__`."""
    return not isinstance(x, gt.Tensor) and hasattr(type(x), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return True if an argument has `__torch_function__`."""
    return bool(overloaded(relevant_args))


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Return the result of the first handler among the arguments that does not return
    NotImplemented."""
    found = overloaded(relevant_args)
    types = tuple([type(x) for x in found])
    for x in found:
        result = x.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(
        f"no implementation found for {name!r} on types that implement __torch_function__: "
        f"{[type(x) for x in found]}"
    )


def is_tensor_like(inp: Any) -> bool:
    """Return True for a tensor and for an object with `__torch_function__`."""
    return isinstance(inp, gt.Tensor) or has_handler(inp)


def override(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[Any] | None:
    """Call the handler of an argument; None if no argument has one.

    given: the function's arguments by name, with the defaults of those that were left out.
    """
    if not has_torch_function(given.values()):
        return None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        value = given[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= value
        elif parameter.default is parameter.empty:
            args.append(value)
        elif value is not parameter.default:
            kwargs[name] = value
    relevant = [*args, *kwargs.values()]
    return (handle_torch_function(function, relevant, *args, **kwargs),)


OF_OVERRIDES: dict[str, Any] = {
    "has_torch_function": has_torch_function, "handle_torch_function": handle_torch_function,
    "has_torch_function_unary": lambda x: has_torch_function((x,)),
    "has_torch_function_variadic": lambda *args: has_torch_function(args),
    "is_tensor_like": is_tensor_like,
}  # fmt: skip
