"""`gt.optim`: SGD and Adam, as `torch.optim` has them, written over the operators that users call.

An optimizer holds the tensors that it steps, and a state for each of them that has had a gradient.
Steps are made in place and are not recorded. A package of its own rather than a part of an example,
because the names are PyTorch's, and resuming needs `state_dict` to be trusted.
Source: torch/optim/optimizer.py, sgd.py and adam.py, the loops over single tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ._generated.functions import maximum, view_as_real, zeros_like
from .autograd import enable_grad, no_grad
from .core import errors
from .core.arguments import flag, number as plain_number
from .dispatch.refusal import declares, is_iterable
from .tensor.tensor import Tensor

__all__ = ["SGD", "Adam", "Optimizer"]

Group = dict[str, Any]
State = dict[str, Any]


class Optimizer:
    """Base of optimizers: groups of parameters with their options, and a state for each parameter.

    param_groups: dicts with `params` and the options. state: parameter -> its state.
    """

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
        for name in ("nesterov", "amsgrad", "maximize", "decoupled_weight_decay"):
            flag(type(self).__name__, name, group.get(name))

    def _step(self, p: Tensor, grad: Tensor, group: Group) -> None:
        raise NotImplementedError

    def _number(self, arg: str, value: Any) -> Any:
        """A number, NumPy's too, or a tensor of one element."""
        if plain_number(value) is None and not isinstance(value, Tensor):
            raise self._must(arg, "be a number", value, errors.ArgumentTypeError)
        if isinstance(value, (complex, np.complexfloating)):
            raise self._must(arg, "be real", value, errors.ArgumentTypeError)
        return value

    def _must(
        self, arg: str, rule: str, got: Any, kind: Any = errors.ArgumentValueError
    ) -> Exception:
        return errors.must(type(self).__name__, arg, rule, got, kind=kind)


def _like(name: str, value: Any, p: Tensor) -> Any:
    """A value of a loaded state: tensors as copies like their parameter, counts as numbers."""
    if not isinstance(value, Tensor):
        return value
    if name == "step":
        return int(value.item())  # PyTorch counts steps in a tensor
    return value.detach().to(device=p.device, dtype=p.dtype, copy=True)


class SGD(Optimizer):
    """Gradient descent: p -= lr * v, where v is the gradient, or with momentum an average of it.

    Args:
        momentum: v becomes momentum * v + (1 - dampening) * grad; the first v is the gradient.
        weight_decay: this part of the parameter is added to its gradient.
        nesterov: step along grad + momentum * v.
        maximize: step the other way.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        self._number("dampening", group["dampening"])
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise self._must("nesterov", "come with a momentum and no dampening", group["nesterov"])

    def _step(self, p: Tensor, grad: Tensor, group: Group) -> None:
        momentum = group["momentum"]
        if group["weight_decay"]:
            grad = grad.add(p, alpha=group["weight_decay"])
        if momentum:
            state = self.state.setdefault(p, {})
            average = state.get("momentum_buffer")
            if average is None:
                average = state["momentum_buffer"] = grad.detach().clone()
            else:
                average.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(average, alpha=momentum) if group["nesterov"] else average
        rate = group["lr"]
        if isinstance(rate, Tensor):
            p.sub_(grad * rate)
        else:
            p.add_(grad, alpha=-rate)


class Adam(Optimizer):
    """Adam: a step of lr along the average gradient, over the root of its average square.

    Args:
        betas: how much the two averages keep at each step.
        eps: added to the root.
        weight_decay: this part of the parameter is added to its gradient.
        amsgrad: over the root of the largest average square so far.
        maximize: step the other way.
        decoupled_weight_decay: the parameter itself shrinks by lr * weight_decay, as in AdamW.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
        maximize: bool = False, decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        betas = group["betas"]
        if not isinstance(betas, (list, tuple)) or len(betas) != 2:
            raise self._must("betas", "be two numbers", betas, errors.ArgumentTypeError)
        for beta in betas:
            if not 0 <= self._number("betas", beta) < 1:
                raise self._must("betas", "be in [0, 1)", tuple(group["betas"]))

    def _step(self, p: Tensor, grad: Tensor, group: Group) -> None:
        state = self.state.setdefault(p, {})
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = zeros_like(p), zeros_like(p)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(p)
        state["step"] += 1
        lr, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        if decay and group["decoupled_weight_decay"]:
            p.mul_(1 - lr * decay)
        elif decay:
            grad = grad.add(p, alpha=decay)
        average, square = state["exp_avg"], state["exp_avg_sq"]
        largest = state.get("max_exp_avg_sq")
        if p.is_complex():
            p, grad, average, square = [view_as_real(x) for x in (p, grad, average, square)]
            largest = None if largest is None else view_as_real(largest)
        average.add_(grad - average, alpha=1 - beta1)
        square.mul_(beta2).add_((grad * (1 - beta2)).mul_(grad))
        if largest is not None:
            largest.copy_(maximum(largest, square))
            square = largest
        step_size = lr / (1 - beta1 ** state["step"])
        root = square.sqrt().div_((1 - beta2 ** state["step"]) ** 0.5).add_(group["eps"])
        p.add_((average * -step_size).div_(root))
