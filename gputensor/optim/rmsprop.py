"""RMSprop and Adagrad. Source: torch/optim/rmsprop.py and adagrad.py, the loops over single
tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._generated.functions import full_like, view_as_real, zeros_like
from ..tensor.tensor import Tensor
from .optimizer import Group, Optimizer


def _real(tensors: list[Tensor]) -> list[Tensor]:
    """Complex numbers are stepped as two real ones."""
    return [view_as_real(x) if x.is_complex() else x for x in tensors]


class RMSprop(Optimizer):
    """A step of lr along the gradient, over the root of its average square.

    Args:
        alpha: how much the average keeps at each step.
        eps: added to the root.
        centered: over the root of the average variance instead.
        momentum: along an average of these steps.
        weight_decay: this part of the parameter is added to its gradient.
        capturable: steps are counted on the device, as a CUDA graph needs it.
        maximize: step the other way.
        foreach, differentiable: as of `Optimizer`.
    """

    _counts_steps = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0, momentum: float = 0, centered: bool = False,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
            "momentum": momentum, "centered": centered, "capturable": capturable,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        if not self._number("alpha", group["alpha"]) >= 0:
            raise self._must("alpha", "not be negative", group["alpha"])

    def _step(self, p: Tensor, grad: Tensor, group: Group) -> None:
        state = self.state.setdefault(p, {})
        if not state:
            state["square_avg"] = zeros_like(p)
            if group["momentum"] > 0:
                state["momentum_buffer"] = zeros_like(p)
            if group["centered"]:
                state["grad_avg"] = zeros_like(p)
        self._stepped(p, state, group)
        alpha = group["alpha"]
        if group["weight_decay"]:
            grad = grad.add(p, alpha=group["weight_decay"])
        p, grad, square = _real([p, grad, state["square_avg"]])
        square.mul_(alpha).add_((grad * (1 - alpha)).mul_(grad))
        if group["centered"]:
            (average,) = _real([state["grad_avg"]])
            average.add_(grad - average, alpha=1 - alpha)
            square = square - average * average
        root = square.sqrt().add_(group["eps"])
        step = grad / root
        if group["momentum"] > 0:
            step = _real([state["momentum_buffer"]])[0].mul_(group["momentum"]).add_(step)
        rate = group["lr"]
        if isinstance(rate, Tensor):
            p.sub_(step * rate)
        else:
            p.add_(step, alpha=-rate)


class Adagrad(Optimizer):
    """A step of lr along the gradient, over the root of the sum of its squares.

    Args:
        lr_decay: lr is divided by 1 + (step - 1) * lr_decay.
        initial_accumulator_value: what the sum begins with.
        foreach, differentiable, fused: as of `Optimizer`.
    """

    _counts_steps = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0,
        weight_decay: float = 0, initial_accumulator_value: float = 0, eps: float = 1e-10,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        for name in ("lr_decay", "initial_accumulator_value"):
            if not self._number(name, group[name]) >= 0:
                raise self._must(name, "not be negative", group[name])

    def _step(self, p: Tensor, grad: Tensor, group: Group) -> None:
        state = self.state.setdefault(p, {})
        if not state:
            first = group["initial_accumulator_value"]
            state["sum"] = full_like(p, complex(first, first) if p.is_complex() else first)
        step = self._stepped(p, state, group)
        if group["weight_decay"]:
            grad = grad.add(p, alpha=group["weight_decay"])
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        p, grad, total = _real([p, grad, state["sum"]])
        total.add_(grad * grad)
        p.add_(grad / total.sqrt().add_(group["eps"]), alpha=-rate)
