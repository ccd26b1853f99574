"""Modules as functions of their parameters: `functional_call` and `stack_module_state`.

Source: torch/_functorch/functional_call.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._generated import functions
from ..core import errors
from ..nn.modules.module import Module
from ..nn.utils import stateless


def functional_call(
    module: Module, parameter_and_buffer_dicts: Any, args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a module with other tensors in place of its parameters and buffers.

    Args:
        parameter_and_buffer_dicts: a dict of tensors by name, or a tuple of such dicts; for other
            names, the module's own tensors are used. A single dict gets the new tensors that
            `forward` assigns to its names. args: the positional arguments; a tuple unless
            there is only one.
        tie_weights: replace a tensor under all names that the module has for it. strict: all
        parameters and buffers must be named.

    >>> linear = gt.nn.Linear(2, 1, bias=False)
    >>> gt.func.functional_call(linear, {"weight": gt.ones(1, 2)}, gt.ones(2))
    tensor([2.])
    """
    given = _merged(parameter_and_buffer_dicts)
    return stateless.functional_call(
        module, given, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _merged(given: Any) -> Mapping[str, Any]:
    """Merge several dicts. Each name may occur once. Return a single dict as it is."""
    if isinstance(given, Mapping):
        return given
    listed = given if isinstance(given, (tuple, list)) else (given,)
    merged: dict[str, Any] = {}
    for part in listed:
        if not isinstance(part, Mapping):
            rule = "be a dict or a tuple of dicts"
            raise errors.wrong_type("functional_call", "parameter_and_buffer_dicts", rule, part)
        for name, x in part.items():
            if name in merged:
                rule = "name each tensor once"
                got = errors.Got(f"{name!r} twice")
                raise errors.wrong_value("functional_call", "parameter_and_buffer_dicts", rule, got)
            merged[name] = x
    return merged


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and the buffers of modules of one kind, each stacked along a new
    dimension.

    Returns: (parameters, buffers), dicts by name, for `functional_call` within `vmap`. The stacked
    parameters are leaves; they require grad if the modules' parameters do.
    """
    if not models:
        raise errors.wrong_value("stack_module_state", "models", "not be empty", models)
    if len({type(m) for m in models}) > 1 or len({m.training for m in models}) > 1:
        rule = "be of one class and in one mode, training or not"
        raise errors.wrong_value("stack_module_state", "models", rule, models)
    found: list[dict[str, Any]] = []
    for of in ("named_parameters", "named_buffers"):
        named = [dict(getattr(m, of)()) for m in models]
        stacked = {}
        for name, first in named[0].items():
            made = functions.stack([x[name] for x in named]).detach()
            stacked[name] = made.requires_grad_(first.requires_grad)
        found.append(stacked)
    return found[0], found[1]
