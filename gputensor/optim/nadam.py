"""NAdam and RAdam, variants of Adam. Source: torch/optim/nadam.py and radam.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._generated.functions import where, zeros_like
from ..tensor.tensor import Tensor
from .arithmetic import Group, State, averages, descend, fresh, keep, rate, rounded, scalar
from .optimizer import Optimizer


class NAdam(Optimizer):
    """Adam with Nesterov momentum.

    Args:
        betas: decay rates of the averages of gradients and of squares.
        eps: added to the root.
        momentum_decay: how fast the momentum grows to its final value.
        Other options: as in `Optimizer`.
    """

    _is_elementwise = True
    _numbers = ("step", "mu_product")
    _not_negative = (*Optimizer._not_negative, "momentum_decay")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        })  # fmt: skip

    def _begin(self, p: Tensor, group: Group) -> State:
        return {"mu_product": 1.0, "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        average, square, beta1, beta2 = averages(grad, state, group)
        decay = scalar(group["momentum_decay"])
        lr, product = rate(group), state["mu_product"]
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * decay))
        following = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * decay))
        is_tensor = isinstance(mu, Tensor) or isinstance(product, Tensor)
        part = mu if is_tensor else rounded(mu, product)  # rounded as in PyTorch
        keep(state, "mu_product", product * part)
        product = state["mu_product"]
        root = fresh(square.div(1 - beta2**step).sqrt_()).add_(group["eps"])
        descend(p, grad / root, lr * (1 - mu) / (1 - product))
        descend(p, fresh(average) / root, lr * following / (1 - product * following))


class RAdam(Optimizer):
    """Rectified Adam: the first steps follow the average gradient, without a division by average
    squares.

    Once the average of squares covers enough steps, the steps are divided by its root, with a
    factor that grows to 1.

    Args:
        betas: decay rates of the averages of gradients and of squares.
        eps: added to the root.
        Other options: as in `Optimizer`.
    """

    _is_elementwise = True

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        })  # fmt: skip

    def _begin(self, p: Tensor, group: Group) -> State:
        return {"exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        average, square, beta1, beta2 = averages(grad, state, group)
        bias1, bias2 = 1 - beta1**step, 1 - beta2**step
        direction = fresh(average) / bias1 * rate(group)
        # The effective number of squared gradients in the average. worth: the number at this step.
        # most: the limit for many steps.
        most = 2 / (1 - beta2) - 1
        worth = most - 2 * step * beta2**step / bias2
        enough = worth > 5
        if not isinstance(enough, Tensor):
            if enough:
                direction = direction * self._factor(square, worth, most, bias2, group["eps"])
        else:
            factor = self._factor(square, worth.clamp(min=5), most, bias2, group["eps"])
            direction = direction * where(enough, factor, 1.0)
        p.sub_(direction)

    @staticmethod
    def _factor(square: Tensor, worth: Any, most: float, bias2: Any, eps: float) -> Tensor:
        part = (worth - 4) * (worth - 2) * most / ((most - 4) * (most - 2) * worth)
        root = fresh(square.sqrt()).add_(eps)
        factor: Tensor = bias2**0.5 * part**0.5 / root
        return factor
