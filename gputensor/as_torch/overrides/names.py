"""The functions that classes and modes can override, and their names.

Source: torch/overrides.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

import gputensor as gt

from ...dispatch.families import Later, LaterProperty
from ...dispatch.operator import Operator
from ...ops import OperatorPacket
from ...tensor.tensor import Tensor
from .entries import members
from . import handle_torch_function, has_torch_function

# Maps a namespace of PyTorch to the name of our module and to the prefix of its functions' names. A
# function that is in several namespaces gets its name from the first of them.
_NAMESPACES = {
    "torch.nn.functional": ("nn.functional", ""), "torch.functional": ("functional", ""),
    "torch": ("", ""), "torch.nn.init": ("nn.init", ""), "torch.linalg": ("linalg", "linalg_"),
    "torch.fft": ("fft", "fft_"), "torch.special": ("special", "special_"),
}  # fmt: skip


def _module(path: str) -> Any:
    return functools.reduce(getattr, path.split("."), gt) if path else gt


def resolve_name(f: Any) -> str | None:
    """Return the qualified name of a function that handlers can get. The name of the getter of
    `shape` is `torch.Tensor.shape.__get__`. Return None for other functions."""
    if isinstance(f, (Operator, OperatorPacket)):
        return str(f)
    if (given := getattr(f, "__name__", "")).endswith("_") and f in _names_of_members():
        return _names_of_members()[f]
    for namespace, (path, start) in _NAMESPACES.items():
        name = given.removeprefix(start)
        if getattr(_module(path), name, None) is f:
            return f"{namespace}.{name}"
    return _names_of_members().get(f)


@functools.cache
def _names_of_members() -> dict[Any, str]:
    found = {}
    for name, value in members().items():
        if isinstance(value, (property, LaterProperty)):
            value = getattr(Tensor, name)
            for way in ("__get__", "__set__"):
                found[getattr(value, way)] = f"torch.Tensor.{name}.{way}"
        else:
            value = getattr(Tensor, name) if isinstance(value, Later) else value
            plain = f"__{value.__name__.strip('_')}__"
            if value not in found or name in (value.__name__, plain):
                found[value] = f"torch.Tensor.{name}"
    return found


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return a dict: module or class -> the functions that handlers can get."""
    found: dict[Any, list[Callable[..., Any]]] = {Tensor: [*_names_of_members()]}
    for path, _ in _NAMESPACES.values():
        module = _module(path)
        found[module] = [*_functions(module)]
    return found


def _functions(module: Any) -> Iterator[Callable[..., Any]]:
    for name in getattr(module, "__all__", [*vars(module)]):
        function = getattr(module, name)
        if isinstance(function, FunctionType) and not name.startswith("_"):
            yield function


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return True for a method of Tensor, and for the getter or setter of an attribute."""
    return func in _names_of_members() or func.__name__ == "__get__"


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a function call handlers. dispatcher: a function that takes the
    decorated function's arguments and returns the arguments that may have a handler."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


OF_OVERRIDES: dict[str, Any] = {
    f.__name__: f
    for f in (
        resolve_name, get_overridable_functions, is_tensor_method_or_property, wrap_torch_function,
    )
}  # fmt: skip
