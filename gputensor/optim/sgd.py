"""SGD with momentum, and ASGD, which averages the parameters.

Source: torch/optim/sgd.py and asgd.py, the loops over single tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._generated.functions import empty_like, zeros_like
from ..core import errors
from ..structured import steps
from ..tensor.tensor import Tensor
from .arithmetic import Group, State, descend, fresh, keep, rate, rounded, scalar
from .optimizer import Optimizer


class SGD(Optimizer):
    """Gradient descent: p -= lr * v, where v is the gradient, or an average with momentum.

    Args:
        momentum: v becomes momentum * v + (1 - dampening) * grad; the first v is the detached
            gradient, even with differentiable=True.
        nesterov: step along grad + momentum * v.
        Other options: as in `Optimizer`.
    """

    _is_elementwise = True
    _numbers = ()
    _steps_reals = False
    _plain = ("dampening",)

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, momentum: float = 0,
        dampening: float = 0, weight_decay: float = 0, nesterov: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise self._must("nesterov", "come with a momentum and no dampening", group["nesterov"])

    def _has_state(self, group: Group) -> bool:
        return bool(group["momentum"])

    def _begin(self, p: Tensor, group: Group) -> State:
        if not self._has_state(group):
            return {}
        return {"momentum_buffer": empty_like(p), "is_first": True}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        average = state.get("momentum_buffer") if self._has_state(group) else None
        is_first = state.pop("is_first", average is None)
        if is_first and self._has_state(group):
            if average is None:  # a state loaded from PyTorch may contain None
                average = state["momentum_buffer"] = empty_like(grad)
            average.copy_(grad.detach())
        numbers = rate(group), scalar(group["momentum"]), scalar(group["dampening"])
        steps.sgd(p, grad, average, *numbers, group["nesterov"], is_first, fresh)


class ASGD(Optimizer):
    """Averaged SGD: state["ax"] is the average of the parameters over the steps after t0.

    The rate of step n is lr / (1 + lambd * lr * n) ** alpha; each step multiplies the parameters by
    1 - lambd * rate.

    Args:
        lambd, alpha: as in these formulas.
        t0: the step after which the average begins.
        Other options: as in `Optimizer`.
    """

    _is_elementwise = True
    _numbers = ("step", "eta", "mu")
    _plain = ("lambd", "alpha", "t0")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lambd: float = 1e-4,
        alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })  # fmt: skip

    def _begin(self, p: Tensor, group: Group) -> State:
        state: State = {"eta": 0.0, "mu": 1.0, "ax": zeros_like(p)}
        keep(state, "eta", rate(group))
        return state

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        eta, mu, following = state["eta"], state["mu"], self._rate(group, step)
        p.mul_(1 - scalar(group["lambd"]) * eta)
        descend(p, grad, eta)
        average = state["ax"]
        average.add_((p - average).mul_(mu))
        since = step - group["t0"]
        weight = 1 / (since.clamp(min=1) if isinstance(since, Tensor) else max(1, since))
        for name, value in (("eta", following), ("mu", weight)):
            # Both numbers have PyTorch's default dtype, whatever dtype the parameter has.
            keep(state, name, value if isinstance(value, Tensor) else rounded(value))

    def _rate(self, group: Group, step: Any) -> Any:
        """Return the learning rate of the next step."""
        lr = rate(group)
        try:
            found = lr / (1 + scalar(group["lambd"]) * lr * step) ** scalar(group["alpha"])
        except ArithmeticError:
            found = None
        if found is None or isinstance(found, complex):
            got = errors.Got(f"alpha={group['alpha']}, lambd={group['lambd']}")
            raise self._must("alpha", "lead to a rate, with lambd", got)
        return found
