"""The base class of optimizers: parameter groups, a state for each parameter, and the loop of a
step.

Source: torch/optim/optimizer.py.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np

from .._generated.functions import full, view_as_real
from ..autograd import enable_grad, set_grad_enabled
from ..core import errors
from ..core.arguments import flag, number as plain_number
from ..core.dtype import float64
from ..dispatch.refusal import declares, is_iterable
from ..runtime import capture
from ..structured import steps
from ..tensor.tensor import Tensor
from .arithmetic import Group, State, Stepped, fresh, number_dtype, rate, scalar
from .hooks import (
    Hooked, hooked, register_optimizer_step_post_hook, register_optimizer_step_pre_hook,
)  # fmt: skip

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

# Options that must be True, False, None or missing.
_FLAGS = (
    "nesterov", "amsgrad", "maximize", "decoupled_weight_decay", "centered", "capturable",
    "foreach", "fused", "differentiable",
)  # fmt: skip


class Optimizer(Hooked):
    """Base class of optimizers: groups of parameters with their options, and a state for each
    parameter.

    Each optimizer of this package defines a constructor with its options, `_begin` and `_update`.
    `_begin` makes the state of one parameter; `_update` is the formula of one step. A user's class
    may define `step` instead.

    param_groups: dicts with `params` and the options. state: parameter -> its state.

    Options of several optimizers:
    weight_decay: weight_decay * parameter is added to the gradient; with decoupled_weight_decay
        the parameter is multiplied by 1 - lr * weight_decay instead.
    maximize: step along the gradient instead of against it.
    capturable: count steps on the device, which CUDA graphs need.
    foreach, fused: accepted and ignored; in PyTorch they choose a loop.
    differentiable: autograd records steps, so gradients flow to the rate, to options that are
        tensors, and to the gradients. The parameters must not be leaves that require grad then.
    """

    # The names of numbers in a parameter's state. They are Python numbers, or, with
    # capturable=True, 0-d tensors on the parameter's device. In a state dict, all are 0-d tensors.
    _numbers: tuple[str, ...] = ("step",)
    # True if `_update` receives complex parameters as real views.
    _steps_reals = True
    # True if a step computes each element independently of the others, so that it can be one pass
    # over memory: see passes.py.
    _is_elementwise = False
    # True if the options are checked. A user's class without `_update` may have options of any
    # values.
    _is_checked = True
    # _plain: options that must be numbers. _not_negative: options that must also not be negative.
    _plain: tuple[str, ...] = ()
    _not_negative: tuple[str, ...] = ("lr", "weight_decay", "momentum", "eps")

    def __init__(self, params: Iterable[Any], defaults: Group) -> None:
        """
        Args:
            params: tensors, pairs of a name and a tensor, or dicts with `params` and options that
                differ from `defaults`.
        Raises: ArgumentTypeError or ArgumentValueError for invalid or repeated parameters."""
        if isinstance(params, Tensor) or not is_iterable(params):
            rule = "be a sequence of Tensors or dicts"
            raise self._must("params", rule, params, errors.ArgumentTypeError)
        super().__init__()
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: defaultdict[Any, State] = defaultdict(dict)
        listed = list(params)
        if not listed:
            raise self._must("params", "not be empty", listed)
        for group in listed if isinstance(listed[0], dict) else [{"params": listed}]:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Disable the counting of steps in a subclass without `_update`. If the `step` method of
        this subclass needs the number of the step, it must count the steps itself."""
        super().__init_subclass__(**kwargs)
        if cls._update is Optimizer._update:
            cls._numbers = ()
            cls._is_checked = cls.__module__.startswith(__package__)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters.

        Args:
            param_group: a dict of `params` (tensors or (name, tensor) pairs) and options.
        """
        if not isinstance(param_group, dict):
            raise self._must("param_group", "be a dict", param_group, errors.ArgumentTypeError)
        params: Any = param_group.get("params")
        if not is_iterable(params):
            rule = "hold Tensors as 'params'"
            raise self._must("param_group", rule, param_group, errors.ArgumentTypeError)
        params = [params] if isinstance(params, Tensor) else list(params)
        names = [p[0] for p in params if isinstance(p, tuple) and len(p) == 2]
        if names and len(names) != len(params):
            raise self._must("params", "be all with names or all without", errors.Got("both"))
        if any(("param_names" in group) != bool(names) for group in self.param_groups):
            raise self._must("params", "have names in all groups or in none", errors.Got("both"))
        params = [p[1] for p in params] if names else params
        known = {p for group in self.param_groups for p in group["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise self._must("params", "hold Tensors", p, errors.ArgumentTypeError)
            if not (p.is_leaf or p.retains_grad or self.defaults.get("differentiable")):
                raise self._must("params", "hold leaves", p)
            if p in known:
                raise self._must("params", "hold each Tensor in one group", p)
        if len({*params}) < len(params):
            text = "a group holds a parameter twice, which each step then moves twice"
            warnings.warn(f"{type(self).__name__}: {text}", stacklevel=3)
        made = {**param_group, "params": params}
        made.update({name: x for name, x in self.defaults.items() if name not in made})
        if names:
            made["param_names"] = names
        if self._is_checked:
            self._check(made)
        self.param_groups.append(made)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the gradients, or, with set_to_none=False, set them to zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if set_to_none:
                        p.grad = None
                    else:
                        p.grad.detach_().zero_()

    @hooked
    @declares(closure="Callable?")
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: computes and returns the loss, and calls backward; called with grad enabled.
        Returns: the closure's result.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if capture.capturing:
            self._check_capture()
        if is_recorded := bool(self.defaults.get("differentiable")):
            self._check_recorded()
        with set_grad_enabled(is_recorded):
            # Make every state before the first write, because there may not be enough memory for
            # all states.
            states = [self._states(group) for group in self.param_groups]
            is_in_passes = self._is_elementwise and not is_recorded and passes().are_on()
            for group, found in zip(self.param_groups, states):
                if is_in_passes:
                    passes().Passes(self, group).step(found)
                else:
                    for stepped in found:
                        self._step_by_operators(stepped, group)
        return loss

    def _step_by_operators(self, stepped: Stepped, group: Group) -> None:
        p, grad, state = stepped
        self._apply(p, grad, state, group)
        # if the update raises an error, no state is added and no step is counted
        if self._has_state(group):
            self.state[p] = state

    def _set_numbers(self, stepped: Stepped, numbers: State, group: Group) -> None:
        """Store the numbers that a parameter's state has after a step by a pass (passes.py). Add
        the state to the optimizer. The value None removes a number from the state."""
        p, _, state = stepped
        for name, number in numbers.items():
            if number is None:
                del state[name]
            else:
                state[name] = number
        if self._has_state(group):
            self.state[p] = state

    def _states(self, group: Group) -> list[Stepped]:
        """Return the parameters that have a gradient, each with its gradient and its state."""
        kept = self.state if self._has_state(group) else {}
        made: dict[Tensor, State] = {}  # a group may contain a parameter twice
        found = []
        for p in group["params"]:
            if (grad := p.grad) is not None:
                state = kept.get(p) or made.get(p)
                if state is None:
                    state = made[p] = {
                        **dict.fromkeys(self._numbers, 0), **self._begin(p, group)
                    }  # fmt: skip
                found.append((p, grad, state))
        return found

    def _apply(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        """Update one parameter and its state in place, by separate operators."""
        grad = -grad if group.get("maximize") else grad
        step = self._stepped(p, state, group) if "step" in self._numbers else None
        grad = self._decayed(p, grad, group)
        if not (self._steps_reals and p.is_complex()):
            self._update(p, grad, state, group, step)
        else:
            seen = {name: _as_real(value) for name, value in state.items()}
            self._update(_as_real(p), _as_real(grad), seen, group, step)
            state.update({name: seen[name] for name in self._numbers})
        if step is not None and not isinstance(state["step"], Tensor):
            state["step"] = step

    def _decayed(self, p: Tensor, grad: Tensor, group: Group) -> Tensor:
        """Return the gradient with weight decay added. If the decay is decoupled, shrink the
        parameter instead."""
        decay, is_decoupled = scalar(group.get("weight_decay")), group.get("decoupled_weight_decay")
        if not isinstance(decay, Tensor) and not decay:
            return grad
        return steps.decayed(p, grad, rate(group), decay, bool(is_decoupled), fresh)

    # --- state --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the options of the groups and the states in PyTorch's format, for `gt.save`. The
        keys of the states are the numbers of the parameters.

        Tensors are not copied, except for numbers that are kept on the host.
        """
        for hook in list(self._state_dict_hooks[0].values()):
            hook(self)
        listed = [p for group in self.param_groups for p in group["params"]]
        # a parameter that is listed twice has the lower number
        numbers = {p: n for n, p in reversed([*enumerate(listed)])}
        found: dict[str, Any] = {
            "state": {numbers.get(p, p): self._saved(state) for p, state in self.state.items()},
            "param_groups": [
                {name: value for name, value in group.items() if name != "params"}
                | {"params": [numbers[p] for p in group["params"]]}
                for group in self.param_groups
            ],
        }
        for hook in list(self._state_dict_hooks[1].values()):
            changed = hook(self, found)
            found = found if changed is None else changed
        return found

    def _saved(self, state: Any) -> Any:
        # the entry was added by the user and does not belong to a parameter
        if not isinstance(state, dict):
            return state
        return {
            name: value if name not in self._numbers or isinstance(value, Tensor)
            else full((), float(value), dtype=number_dtype(value))
            for name, value in state.items()
        }  # fmt: skip

    @declares(first=True, state_dict="dict")
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load states and options. Tensors are copied to the dtype and device of their parameters.

        Raises: ArgumentValueError if the groups have other sizes. In this case nothing is changed.
        """
        state_dict = dict(state_dict)
        for hook in list(self._load_state_dict_hooks[0].values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        missing = [name for name in ("state", "param_groups") if name not in state_dict]
        if missing:
            got = errors.Got(f"no {missing[0]!r}")
            raise self._must("state_dict", "be what state_dict() gave", got)
        given, groups = state_dict["param_groups"], self.param_groups
        if [len(g["params"]) for g in given] != [len(g["params"]) for g in groups]:
            sizes = errors.Got(f"groups of {[len(g['params']) for g in given]} parameters")
            rule = f"have groups of {[len(g['params']) for g in groups]} parameters"
            raise self._must("state_dict", rule, sizes)
        params = dict(
            zip([n for g in given for n in g["params"]], [p for g in groups for p in g["params"]])
        )
        state: defaultdict[Any, State] = defaultdict(dict)
        for n, kept in state_dict["state"].items():
            p = params.get(n)
            state[n if p is None else p] = kept if p is None else self._loaded(p, kept)
        for group, new in zip(groups, given):
            if new.get("capturable", group.get("capturable")):
                for p in group["params"]:
                    if p in state:
                        self._to_device(p, state[p])
        for group, new in zip(groups, given):
            group.update({name: value for name, value in new.items() if name != "params"})
        self.state = state
        for hook in list(self._load_state_dict_hooks[1].values()):
            hook(self)

    def _loaded(self, p: Tensor, kept: State) -> State:
        return {
            name: _number_of(value, name != "step" and p.dtype is float64)
            if name in self._numbers
            else _copy(value) if name == "step" else _like(value, p)
            for name, value in kept.items()
        }  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that are copied and pickled: all except hooks, which may refer to
        any object."""
        hooks = vars(Hooked())
        return {name: value for name, value in vars(self).items() if name not in hooks}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Hooked.__init__(self)
        vars(self).update(state)

    def __repr__(self) -> str:
        groups = []
        for number, group in enumerate(self.param_groups):
            lines = [f"    {name}: {group[name]}\n" for name in sorted(group) if name != "params"]
            groups.append(f"Parameter Group {number}\n{''.join(lines)}")
        return f"{type(self).__name__} (\n{chr(10).join(groups)})"

    # --- for subclasses -------------------------------------------------------------------------

    def _check(self, group: Group) -> None:
        """Raise an error for an invalid option of a group."""
        for name in self._plain:
            self._number(name, group[name])
        for name in self._not_negative:
            if name in group and not self._number(name, group[name]) >= 0:
                raise self._must(name, "not be negative", group[name])
        if "betas" in group:
            for beta in self._pair("betas", group["betas"]):
                if not 0 <= beta < 1:
                    raise self._must("betas", "be in [0, 1)", tuple(group["betas"]))
        flags = {name: flag(type(self).__name__, name, group.get(name)) for name in _FLAGS}
        for other in ("foreach", "differentiable"):
            if flags["fused"] and flags[other]:
                raise self._must("fused", f"not come with {other}=True", True)

    def _begin(self, p: Tensor, group: Group) -> State:
        """Return the state of a parameter before its first step. An entry of `_numbers` that begins
        at 0 may be missing in the state."""
        return {}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        """Step one parameter.

        Args:
            p, grad: the parameter and its gradient, negated if maximize=True, with weight decay
                added. Complex tensors are passed as real views, as in the state, unless
                `_steps_reals` is False.
            step: the number of this step, from 1; a tensor with capturable=True; None if
                `_numbers` has no "step".
        """
        raise NotImplementedError

    def _stepped(self, p: Tensor, state: State, group: Group) -> Any:
        """Return the number of this step, counted from 1. For a capturable group, the number is a
        tensor on the device."""
        if group.get("capturable"):
            self._to_device(p, state)
        step = state["step"]
        if not isinstance(step, Tensor):
            return step + 1
        step.add_(1)
        is_host = step.device.type == "cpu" and not group.get("capturable")
        return step.item() if is_host else fresh(step)

    def _to_device(self, p: Tensor, state: State) -> None:
        for name in self._numbers:
            if name in state and not isinstance(state[name], Tensor):
                made = full((), float(state[name]), dtype=number_dtype(state[name]))
                state[name] = made.to(p.device)

    def _has_state(self, group: Group) -> bool:
        """Return True if a step of this group depends on a state from earlier steps."""
        return True

    def _check_recorded(self) -> None:
        """Raise an error if a recorded step would write to a leaf that requires grad."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.is_leaf and p.requires_grad and p.grad is not None:
                    rule = "hold no leaf that requires grad, as differentiable=True records steps"
                    raise self._must("params", rule, p, errors.AutogradError)

    def _check_capture(self) -> None:
        """Raise an error if a step is being captured but cannot be replayed. If the host counts the
        steps, or if the state does not exist before the capture, each replay would repeat the same
        step."""
        if capture.here() is None:
            return
        name = type(self).__name__
        for group in self.param_groups:
            if "step" in self._numbers and not group.get("capturable"):
                why = "the host counts its steps, where capturable is not True"
                raise errors.capture_refused(f"{name}.step", why)
            if self._has_state(group):
                if any(p.grad is not None and not self.state.get(p) for p in group["params"]):
                    why = "its state is made by a first step, which goes before the capture"
                    raise errors.capture_refused(f"{name}.step", why)

    def _number(self, arg: str, value: Any) -> Any:
        """Check an option that must be a Python or NumPy number, or a tensor with one element."""
        plain = plain_number(value)
        if (plain is None or isinstance(value, np.bool_)) and not isinstance(value, Tensor):
            raise self._must(arg, "be a number", value, errors.ArgumentTypeError)
        if isinstance(value, Tensor) and value.numel() != 1:
            raise self._must(arg, "have one element", value)
        if isinstance(plain, int) and plain.bit_length() > 64:
            raise errors.number_too_wide(type(self).__name__, arg, plain)
        if isinstance(value, (complex, np.complexfloating)):
            raise self._must(arg, "be real", value, errors.ArgumentTypeError)
        return value

    def _pair(self, arg: str, value: Any, count: int = 2) -> list[Any]:
        """Check an option that must be a list or tuple of `count` numbers."""
        if not isinstance(value, (list, tuple)) or len(value) != count:
            rule = f"be {'two' if count == 2 else 'three'} numbers"
            raise self._must(arg, rule, value, errors.ArgumentTypeError)
        return [self._number(arg, one) for one in value]

    def _must(
        self, arg: str, rule: str, got: Any, kind: Any = errors.ArgumentValueError
    ) -> Exception:
        return errors.must(type(self).__name__, arg, rule, got, kind=kind)


def passes() -> Any:
    """Return the module passes.py. It is imported at the first step, because it imports fusion."""
    return import_module(f"{__package__}.passes")


def _as_real(value: Any) -> Any:
    is_complex = isinstance(value, Tensor) and value.is_complex()
    return view_as_real(value) if is_complex else value


def _number_of(value: Any, is_double: bool) -> Any:
    value = value.item() if isinstance(value, Tensor) else value
    return np.float64(value) if is_double else value


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _like(value: Any, p: Tensor) -> Any:
    """Copy a loaded value to the parameter's device. Cast a floating value to the parameter's
    dtype."""
    if isinstance(value, Tensor):
        of = p.dtype if p.is_floating_point() else value.dtype
        return value.detach().to(device=p.device, dtype=of, copy=True)
    if isinstance(value, dict):
        return {name: _like(one, p) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_like(one, p) for one in value)
    return value
