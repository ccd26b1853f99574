"""`swap_in_optimizer_params_and_state`: in a `with` block, an optimizer updates given tensors
instead of its parameters.

Source: torch/optim/_stateless.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core import errors
from ..tensor.tensor import Tensor
from .arithmetic import Group, State
from .optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Replace an optimizer's parameters, state and options within a `with` block.

    Args:
        optimizer: an optimizer with a state.
        swapin_parameters: as many tensors as the optimizer has parameters, in their order.
        swapin_optim_state: a dict as from `state_dict()`. Its tensors are written in place; other
            changes of the state are lost at the block's end.
    Raises: ArgumentValueError if they do not fit the optimizer; nothing is changed then.
    """
    if not isinstance(optimizer, Optimizer):
        raise errors.wrong_type(_NAME, "optimizer", "be an Optimizer", optimizer)
    params = _parameters(optimizer, swapin_parameters)
    kept, groups = _kept(optimizer, swapin_optim_state)
    before = optimizer.state, [dict(group) for group in optimizer.param_groups]
    rest, state = iter(params), defaultdict[Any, State](dict)
    try:
        for group, given in zip(optimizer.param_groups, groups):
            own = [next(rest) for _ in given["params"]]
            group.update(given, params=own)
            state.update({p: dict(kept.get(n, {})) for p, n in zip(own, given["params"])})
        optimizer.state = state
        yield
    finally:
        optimizer.state = before[0]
        for group, own_group in zip(optimizer.param_groups, before[1]):
            group.clear()
            group.update(own_group)


def _parameters(optimizer: Optimizer, given: Any) -> list[Tensor]:
    """Return the tensors that the optimizer updates in the block. Raise an error unless there is
    one tensor for each parameter of the optimizer."""
    if not isinstance(given, dict) or not all(isinstance(x, Tensor) for x in given.values()):
        raise errors.wrong_type(_NAME, "swapin_parameters", "be a dict of Tensors", given)
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    if len(given) != count:
        rule = f"hold {count} tensors, as the optimizer"
        raise errors.wrong_value(_NAME, "swapin_parameters", rule, len(given))
    return [*given.values()]


def _kept(optimizer: Optimizer, given: Any) -> tuple[dict[Any, State], list[Group]]:
    """Return the states and the groups of a state dict. Raise an error unless they fit the
    optimizer."""

    def must(rule: str, got: Any) -> Exception:
        return errors.wrong_value(_NAME, "swapin_optim_state", rule, got)

    if not optimizer.state:
        rule = "have a state, which a first step makes"
        raise errors.wrong_value(_NAME, "optimizer", rule, errors.Got("none"))
    if not isinstance(given, dict):
        raise errors.wrong_type(_NAME, "swapin_optim_state", "be a dict", given)
    state, groups = given.get("state"), given.get("param_groups")
    if not isinstance(state, dict) or not all(isinstance(x, dict) for x in state.values()):
        raise must("have a dict 'state' of dicts", state)
    if not isinstance(groups, list) or not all(isinstance(x, dict) for x in groups):
        raise must("have a list 'param_groups' of dicts", groups)
    if len(groups) != len(optimizer.param_groups):
        raise must(f"have {len(optimizer.param_groups)} groups", len(groups))
    numbers: set[int] = set()
    for group, one in zip(optimizer.param_groups, groups):
        params = one.get("params")
        if not isinstance(params, list) or not all(type(n) is int for n in params):
            raise must("have lists of numbers as 'params'", params)
        if len(params) != len(group["params"]):
            raise must(f"have {len(group['params'])} parameters in its group", len(params))
        if one.keys() != group.keys():
            other = sorted(one.keys() ^ group.keys())
            raise must("have the options of the optimizer's groups", errors.Got(f"not {other}"))
        numbers.update(params)
    if not state.keys() <= numbers:
        raise must("have a state of its parameters alone", errors.Got(f"{[*state]}"))
    return state, groups
