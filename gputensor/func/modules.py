"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._generated import functions
from ..core import errors
from ..nn.modules.module import Module


def functional_call(
    module: Module, parameter_and_buffer_dicts: Any, args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    return None


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of modules of one kind, each stacked along a new dimension.

    Returns: (parameters, buffers), dicts by name, for `functional_call` within `vmap`. The stacked
    parameters are leaves that require grad as the modules' do.
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
