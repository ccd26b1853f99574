"""Adam, AdamW and Adamax. SparseAdam raises an error, because there are no sparse tensors.

Source: torch/optim/adam.py, adamw.py and adamax.py, the loops over single tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._generated.functions import maximum, zeros_like
from ..core import errors
from ..structured import steps
from ..structured.steps import mix
from ..tensor.tensor import Tensor
from .arithmetic import Group, State, descend, fresh, rate, scalar
from .optimizer import Optimizer


class Adam(Optimizer):
    """Adam: steps of lr * average gradient, divided by the root of the average squared gradient.

    Args:
        betas: decay rates of the averages of gradients and of squares.
        eps: added to the root.
        amsgrad: divide by the root of the largest average square so far.
        Other options: as in `Optimizer`.
    """

    _is_elementwise = True

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "foreach": foreach, "maximize": maximize, "capturable": capturable,
            "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def _begin(self, p: Tensor, group: Group) -> State:
        state = {"exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}
        return {**state, "max_exp_avg_sq": zeros_like(p)} if group["amsgrad"] else state

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        betas = scalar(group["betas"][0]), scalar(group["betas"][1])
        largest = state["max_exp_avg_sq"] if group["amsgrad"] else None
        kept = state["exp_avg"], state["exp_avg_sq"], largest
        steps.adam(p, grad, *kept, rate(group), betas, group["eps"], step, fresh)


class AdamW(Adam):
    """Adam with decoupled weight decay: parameters are multiplied by 1 - lr * weight_decay."""

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
        amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip


class Adamax(Optimizer):
    """Adam that divides by a decaying maximum of |grad| instead of the root of the average square.

    At each step the maximum becomes max(beta2 * maximum, |grad| + eps).

    Args:
        betas: decay rates of the average of gradients and of the maximum.
        eps: added to |grad|.
        Other options: as in `Optimizer`.
    """

    _is_elementwise = True

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def _begin(self, p: Tensor, group: Group) -> State:
        return {"exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        beta1, beta2 = map(scalar, group["betas"])
        average, largest = state["exp_avg"], state["exp_inf"]
        mix(average, grad, beta1)
        largest.copy_(maximum(fresh(largest) * beta2, grad.abs().add_(group["eps"])))
        step_size = rate(group) / (1 - beta1**step)
        descend(p, fresh(average) / fresh(largest), step_size)


class SparseAdam(Optimizer):
    """Adam for sparse gradients. The constructor raises, because gputensor has no sparse
    tensors."""

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, maximize: bool = False,
    ) -> None:  # fmt: skip
        rule, remedy = "have sparse gradients, which do not exist here", "use Adam"
        raise errors.must("SparseAdam", "params", rule, params, remedy=remedy)
