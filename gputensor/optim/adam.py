"""Adam and AdamW. Source: torch/optim/adam.py and adamw.py, the loop over single tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._generated.functions import maximum, view_as_real, zeros_like
from ..core import errors
from ..tensor.tensor import Tensor
from .optimizer import Group, Optimizer


class Adam(Optimizer):
    """Adam: a step of lr along the average gradient, over the root of its average square.

    Args:
        betas: how much the two averages keep at each step.
        eps: added to the root.
        weight_decay: this part of the parameter is added to its gradient.
        amsgrad: over the root of the largest average square so far.
        maximize: step the other way.
        capturable: steps are counted on the device, as a CUDA graph needs it.
        foreach, differentiable, fused: as of `Optimizer`.
        decoupled_weight_decay: the parameter itself shrinks by lr * weight_decay, as in AdamW.
    """

    _counts_steps = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "foreach": foreach, "maximize": maximize, "capturable": capturable,
            "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
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
            state["exp_avg"], state["exp_avg_sq"] = zeros_like(p), zeros_like(p)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(p)
        step = self._stepped(p, state, group)
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
        step_size = lr / (1 - beta1**step)
        root = square.sqrt().div_((1 - beta2**step) ** 0.5).add_(group["eps"])
        p.add_((average * -step_size).div_(root))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself, by lr * weight_decay a step."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip
