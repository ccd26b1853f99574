"""RMSprop, Adagrad and Adadelta: steps divided by the root of an average or sum of squares.

Source: torch/optim/rmsprop.py, adagrad.py and adadelta.py, the loops over single tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._generated.functions import full_like, zeros_like
from ..structured import steps
from ..structured.steps import mix, mix_square
from ..tensor.tensor import Tensor
from .arithmetic import Group, State, descend, fresh, rate, scalar
from .optimizer import Optimizer


class RMSprop(Optimizer):
    """RMSprop: steps of lr * gradient, divided by the root of the average squared gradient.

    Args:
        alpha: decay rate of the average.
        eps: added to the root.
        centered: divide by the root of the average variance instead.
        momentum: decay rate of an average of the steps, used if not 0.
        Other options: as in `Optimizer`.
    """

    _is_elementwise = True
    _not_negative = (*Optimizer._not_negative, "alpha")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, alpha: float = 0.99,
        eps: float = 1e-8, weight_decay: float = 0, momentum: float = 0, centered: bool = False,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
            "momentum": momentum, "centered": centered, "capturable": capturable,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
        })  # fmt: skip

    def _begin(self, p: Tensor, group: Group) -> State:
        state = {"square_avg": zeros_like(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = zeros_like(p)
        return state

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        alpha, momentum = scalar(group["alpha"]), scalar(group["momentum"])
        square = state["square_avg"]
        mix_square(square, grad, alpha)
        if group["centered"]:
            average = state["grad_avg"]
            mix(average, grad, alpha)
            square = square - fresh(average).square()
        direction = grad / fresh(square.sqrt()).add_(group["eps"])
        if momentum > 0:
            direction = state["momentum_buffer"].mul_(momentum).add_(direction)
        descend(p, direction, rate(group))


class Adagrad(Optimizer):
    """Adagrad: steps of lr * gradient, divided by the root of the sum of squared gradients.

    Args:
        lr_decay: lr is divided by 1 + (step - 1) * lr_decay.
        initial_accumulator_value: initial value of the sum.
        Other options: as in `Optimizer`.
    """

    _is_elementwise = True
    _not_negative = (*Optimizer._not_negative, "lr_decay", "initial_accumulator_value")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lr_decay: float = 0,
        weight_decay: float = 0, initial_accumulator_value: float = 0, eps: float = 1e-10,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

        # Make the sums now, because PyTorch's state dicts contain them before the first step.
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = {"step": 0, **self._begin(p, group)}

    def _begin(self, p: Tensor, group: Group) -> State:
        first = group["initial_accumulator_value"]
        return {"sum": full_like(p, complex(first, first) if p.is_complex() else first)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        numbers = rate(group), scalar(group["lr_decay"]), group["eps"], step
        steps.adagrad(p, grad, state["sum"], *numbers, fresh)


class Adadelta(Optimizer):
    """Adadelta: steps of lr * gradient * rms(earlier steps) / rms(gradients), where rms is the root
    of an average square.

    Args:
        rho: decay rate of both average squares.
        eps: added to the averages before their roots are taken.
        Other options: as in `Optimizer`.
    """

    _is_elementwise = True

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        if not 0 <= self._number("rho", group["rho"]) <= 1:
            raise self._must("rho", "be in [0, 1]", group["rho"])

    def _begin(self, p: Tensor, group: Group) -> State:
        return {"square_avg": zeros_like(p), "acc_delta": zeros_like(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        rho, eps = scalar(group["rho"]), scalar(group["eps"])
        square, steps = state["square_avg"], state["acc_delta"]
        mix_square(square, grad, rho)
        direction = fresh(steps.add(eps).sqrt_()).div_(square.add(eps).sqrt_()).mul_(grad)
        mix_square(steps, direction, rho)
        descend(p, direction, rate(group))
