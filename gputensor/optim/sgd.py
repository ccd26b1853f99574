"""SGD, with momentum. Source: torch/optim/sgd.py, the loop over single tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..tensor.tensor import Tensor
from .optimizer import Group, Optimizer


class SGD(Optimizer):
    """Gradient descent: p -= lr * v, where v is the gradient, or with momentum an average of it.

    Args:
        momentum: v becomes momentum * v + (1 - dampening) * grad; the first v is the gradient.
        weight_decay: this part of the parameter is added to its gradient.
        nesterov: step along grad + momentum * v.
        maximize: step the other way.
        foreach, differentiable, fused: as of `Optimizer`.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        self._number("dampening", group["dampening"])
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise self._must("nesterov", "come with a momentum and no dampening", group["nesterov"])

    def _has_state(self, group: Group) -> bool:
        return bool(group["momentum"])

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
