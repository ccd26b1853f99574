"""Calls of a module with other tensors in place of its parameters and buffers.

Source: torch/nn/utils/stateless.py, torch/nn/utils/_named_member_accessor.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...core import errors, lazy
from ...tensor.tensor import Tensor
from ..modules.module import Module

__all__ = ["functional_call"]


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """Return a dict that maps each name, relative to `module`, to (dict, key). The item `dict[key]`
    is the parameter or buffer of this name."""
    found = {}
    for path, below in module.named_modules(remove_duplicate=False):
        for kind in (below._parameters, below._buffers):
            for name in kind:
                found[f"{path}.{name}" if path else name] = kind, name
    return found


def _tied(given: dict[str, Any], places: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` with additional entries. If the module has a tensor of `given` under several
    names, each of these names gets an entry."""
    values = {id(kind[name]): given[path] for path, (kind, name) in places.items()
              if path in given and kind[name] is not None}  # fmt: skip
    shared = {path: values[id(kind[name])] for path, (kind, name) in places.items()
              if id(kind[name]) in values}  # fmt: skip
    return shared | given


def functional_call(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], args: Any = None,
    kwargs: Mapping[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call `module` with these tensors in place of its parameters and buffers. The module itself
    does not change.

    Args: tie_weights: a tensor with several names is replaced under all of them. Raises:
    ArgumentValueError for unknown names, and with `strict` for missing names.
    """
    places, given = _places(module), dict(parameters_and_buffers)
    unknown = sorted(set(given) - set(places))
    missing = sorted(set(places) - set(given)) if strict else []
    if unknown or missing:
        rule = "name the module's parameters and buffers" + (", all of them" if strict else "")
        raise errors.wrong_value(
            "functional_call", "parameters_and_buffers", rule, unknown or missing
        )
    given = _tied(given, places) if tie_weights else given
    before = {path: kind[name] for path, (kind, name) in places.items() if path in given}
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        for path, value in given.items():
            kind, name = places[path]
            kind[name] = value
        return module(*positional, **(kwargs or {}))
    finally:
        for path, value in before.items():
            kind, name = places[path]
            kind[name] = value


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
