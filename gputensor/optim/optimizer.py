"""What all optimizers have: groups of parameters, a state for each, steps in place, unrecorded.

Source: torch/optim/optimizer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._generated.functions import full
from ..autograd import enable_grad, no_grad
from ..core import errors
from ..core.arguments import flag, number as plain_number
from ..core.dtype import float32
from ..dispatch.refusal import declares, is_iterable
from ..runtime import capture
from ..tensor.tensor import Tensor

Group = dict[str, Any]
State = dict[str, Any]


class Optimizer:
    """Base of optimizers: groups of parameters with their options, and a state for each parameter.

    param_groups: dicts with `params` and the options. state: parameter -> its state.
    foreach, fused: which of PyTorch's loops steps the parameters; here one does, whatever they say.
    differentiable: a step that is recorded, which is not to be had.
    """

    # Whether steps are counted, in state["step"]: by the host, or with capturable=True by a tensor.
    _counts_steps = False

    def __init__(self, params: Iterable[Any], defaults: Group) -> None:
        """
        Args:
            params: tensors, or dicts with `params` and options that differ from `defaults`.
        Raises: ArgumentTypeError, ArgumentValueError for what cannot be stepped, or twice would be.
        """
        if isinstance(params, Tensor) or not is_iterable(params):
            rule = "be a sequence of Tensors or dicts"
            raise self._must("params", rule, params, errors.ArgumentTypeError)
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: dict[Tensor, State] = {}
        listed = list(params)
        if not listed:
            raise self._must("params", "not be empty", listed)
        for group in listed if isinstance(listed[0], dict) else [{"params": listed}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Step further tensors from now on. param_group: `params`, and options of its own."""
        if not isinstance(param_group, dict):
            raise self._must("param_group", "be a dict", param_group, errors.ArgumentTypeError)
        params: Any = param_group.get("params")
        if not is_iterable(params):
            rule = "hold Tensors as 'params'"
            raise self._must("param_group", rule, param_group, errors.ArgumentTypeError)
        params = [params] if isinstance(params, Tensor) else list(params)
        known = {p for group in self.param_groups for p in group["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise self._must("params", "hold Tensors", p, errors.ArgumentTypeError)
            if not p.is_leaf:
                raise self._must("params", "hold leaves", p)
            if p in known:
                raise self._must("params", "hold each Tensor at most once", p)
            known.add(p)
        made = {**self.defaults, **param_group, "params": params}
        self._check(made)
        self.param_groups.append(made)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if set_to_none:
                        p.grad = None
                    else:
                        p.grad.detach_().zero_()

    @declares(closure="Callable?")
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step every parameter that has a gradient.

        Args:
            closure: computes the loss anew and its gradients; called with recording on.
        Returns: what closure returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if capture.capturing:
            self._check_capture()
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._step(p, -p.grad if group["maximize"] else p.grad, group)
        return loss

    # --- state --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and options by the parameters' numbers: plain values and tensors, for `gt.save`.

        Tensors in it are those of the optimizer, not copies.
        """
        numbers = {p: n for n, p in enumerate(p for g in self.param_groups for p in g["params"])}
        return {
            "state": {numbers[p]: dict(state) for p, state in self.state.items()},
            "param_groups": [
                {**group, "params": [numbers[p] for p in group["params"]]}
                for group in self.param_groups
            ],
        }

    @declares(first=True, state_dict="dict")
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state and options; tensors are copied to their parameters' dtype and device.

        Raises: ArgumentValueError if the groups are not of the same sizes; nothing is changed then.
        """
        missing = [name for name in ("state", "param_groups") if name not in state_dict]
        if missing:
            got = errors.Got(f"no {missing[0]!r}")
            raise self._must("state_dict", "be what state_dict() gave", got)
        given, groups = state_dict["param_groups"], self.param_groups
        if [len(g["params"]) for g in given] != [len(g["params"]) for g in groups]:
            sizes = errors.Got(f"groups of {[len(g['params']) for g in given]} parameters")
            rule = f"have groups of {[len(g['params']) for g in groups]} parameters"
            raise self._must("state_dict", rule, sizes)
        params = dict(zip(
            [n for g in given for n in g["params"]], [p for g in groups for p in g["params"]]
        ))  # fmt: skip
        state = {
            params[n]: {name: _like(name, value, params[n]) for name, value in kept.items()}
            for n, kept in state_dict["state"].items()
        }
        for group, new in zip(groups, given):
            if new.get("capturable", group.get("capturable")):
                for p in group["params"]:
                    if "step" in state.get(p, ()):
                        state[p]["step"] = _count(p, state[p]["step"])
        for group, new in zip(groups, given):
            group.update({name: value for name, value in new.items() if name != "params"})
        self.state = state

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])

    # --- what a kind of optimizer says ----------------------------------------------------------

    def _check(self, group: Group) -> None:
        """Raise unless the options of a group are what they may be."""
        for name in ("lr", "weight_decay", "momentum", "eps"):
            if name in group and not self._number(name, group[name]) >= 0:
                raise self._must(name, "not be negative", group[name])
        for name in (
            "nesterov", "amsgrad", "maximize", "decoupled_weight_decay", "centered", "capturable"
        ):  # fmt: skip
            flag(type(self).__name__, name, group.get(name))
        hints = [self._hint(group, name) for name in ("foreach", "fused", "differentiable")]
        if hints[0] and hints[1]:
            raise self._must("fused", "not come with foreach=True", True)
        if hints[2]:
            raise self._must("differentiable", "be False: steps are not recorded", True)

    def _hint(self, group: Group, name: str) -> bool:
        """A bool that may be None, or missing."""
        value = group.get(name)
        return value is not None and flag(type(self).__name__, name, value)

    def _step(self, p: Tensor, grad: Tensor, group: Group) -> None:
        raise NotImplementedError

    def _stepped(self, p: Tensor, state: State, group: Group) -> Any:
        """Which step this is, from 1; of a capturable group a tensor on the parameter's device."""
        if not group.get("capturable"):
            state["step"] = state.get("step", 0) + 1
        elif isinstance(state.get("step"), Tensor):
            state["step"].add_(1)
        else:
            state["step"] = _count(p, state.get("step", 0) + 1)
        return state["step"]

    def _has_state(self, group: Group) -> bool:
        """Whether a step of these parameters goes on from what earlier ones left."""
        return True

    def _check_capture(self) -> None:
        """Raise where a step that is captured would not go on, in a replay, from the one before."""
        if capture.here() is None:
            return
        name = type(self).__name__
        for group in self.param_groups:
            if self._counts_steps and not group.get("capturable"):
                why = "the host counts its steps, where capturable is not True"
                raise errors.capture_refused(f"{name}.step", why)
            if self._has_state(group):
                if any(p.grad is not None and not self.state.get(p) for p in group["params"]):
                    why = "its state is made by a first step, which goes before the capture"
                    raise errors.capture_refused(f"{name}.step", why)

    def _number(self, arg: str, value: Any) -> Any:
        """A number, NumPy's too, or a tensor of one element."""
        plain = plain_number(value)
        if (plain is None or isinstance(value, np.bool_)) and not isinstance(value, Tensor):
            raise self._must(arg, "be a number", value, errors.ArgumentTypeError)
        if isinstance(plain, int) and plain.bit_length() > 64:
            raise errors.number_too_wide(type(self).__name__, arg, plain)
        if isinstance(value, (complex, np.complexfloating)):
            raise self._must(arg, "be real", value, errors.ArgumentTypeError)
        return value

    def _must(
        self, arg: str, rule: str, got: Any, kind: Any = errors.ArgumentValueError
    ) -> Exception:
        return errors.must(type(self).__name__, arg, rule, got, kind=kind)


def _count(p: Tensor, step: int) -> Tensor:
    return full((), float(step), dtype=float32, device=p.device)


def _like(name: str, value: Any, p: Tensor) -> Any:
    """A value of a loaded state: tensors as copies like their parameter, counts as numbers."""
    if not isinstance(value, Tensor):
        return value
    if name == "step":
        return int(value.item())  # PyTorch counts steps in a tensor
    return value.detach().to(device=p.device, dtype=p.dtype, copy=True)
