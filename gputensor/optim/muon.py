"""Muon: steps along orthogonalised averages of gradients. Source: torch/optim/_muon.py."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .._generated.functions import addmm, zeros_like
from ..core.dtype import bfloat16
from ..tensor.tensor import Tensor
from .arithmetic import Group, State, descend, rate
from .optimizer import Optimizer

_MOST_STEPS = 100


class Muon(Optimizer):
    """Step along the orthogonal matrix nearest to the average gradient. All parameters must be
    matrices.

    A Newton-Schulz iteration in bfloat16 approximates the orthogonal matrix. The singular values of
    the result are between 0.5 and 1.5.

    Args:
        weight_decay: the parameter shrinks by lr * weight_decay.
        momentum: decay rate of the average.
        nesterov: use grad + momentum * (average - grad) instead of the average.
        ns_coefficients: a, b, c of the iteration X = a X + (b A + c A A) X, where A = X X^T.
        eps: lower bound of the norm by which the gradient is divided before the iteration.
        ns_steps: number of iterations, below 100.
        adjust_lr_fn: factor of lr for a matrix (rows, columns): "original", the default,
            sqrt(max(1, rows / columns)), or "match_rms_adamw", 0.2 * sqrt(max(rows, columns)).
    """

    _numbers = ()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, weight_decay: float = 0.1,
        momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        self._pair("ns_coefficients", group["ns_coefficients"], 3)
        steps, name = group["ns_steps"], group["adjust_lr_fn"]
        if not isinstance(self._number("ns_steps", steps), int) or not 0 <= steps < _MOST_STEPS:
            raise self._must("ns_steps", f"be an int in [0, {_MOST_STEPS - 1}]", steps)
        is_known = isinstance(name, str) and name in ("original", "match_rms_adamw")
        if name is not None and not is_known:
            raise self._must("adjust_lr_fn", "be None, 'original' or 'match_rms_adamw'", name)
        for p in group["params"]:
            if p.ndim != 2 or p.is_complex():
                raise self._must("params", "be real matrices", p)

    def _decayed(self, p: Tensor, grad: Tensor, group: Group) -> Tensor:
        p.mul_(1 - rate(group) * group["weight_decay"])
        return grad

    def _begin(self, p: Tensor, group: Group) -> State:
        return {"momentum_buffer": zeros_like(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        average, momentum = state["momentum_buffer"], group["momentum"]
        average.lerp_(grad, 1 - momentum)
        direction = grad.lerp(average, momentum) if group["nesterov"] else average
        rows, columns = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        else:
            factor = math.sqrt(max(1, rows / columns))
        direction = _orthogonal(
            direction, group["ns_coefficients"], group["ns_steps"], group["eps"]
        )
        descend(p, direction.to(p.dtype), rate(group) * factor)


def _orthogonal(x: Tensor, coefficients: Iterable[float], steps: int, eps: float) -> Tensor:
    """Approximate the orthogonal matrix nearest to x, in bfloat16."""
    a, b, c = coefficients
    is_tall = x.shape[0] > x.shape[1]
    found = x.to(bfloat16)
    found = found.T if is_tall else found
    found = found / found.norm().clamp(min=eps)
    for _ in range(steps):
        square = found @ found.T
        found = addmm(found, addmm(square, square, square, beta=b, alpha=c), found, beta=a)
    return found.T if is_tall else found
