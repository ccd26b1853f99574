"""Rprop: uses only the signs of gradients. Source: torch/optim/rprop.py, _single_tensor_rprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._generated.functions import full_like, view_as_real, where, zeros_like
from ..tensor.tensor import Tensor
from .arithmetic import Group, State, fresh, rate
from .optimizer import Optimizer


class Rprop(Optimizer):
    """Rprop: each element has its own step size, initially lr, and moves against the sign of its
    gradient.

    While the sign is the same, the size grows. When the sign changes, the size shrinks and the
    element does not move.

    Args:
        etas: factors of a shrinking size, in (0, 1), and of a growing one, above 1.
        step_sizes: the smallest and the largest size.
        Other options: as in `Optimizer`.
    """

    _is_elementwise = True

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2), step_sizes: tuple[float, float] = (1e-6, 50), *,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        self._pair("step_sizes", group["step_sizes"])
        shrink, grow = self._pair("etas", group["etas"])
        if not 0 < shrink < 1 < grow:
            raise self._must("etas", "be in (0, 1) and above 1", tuple(group["etas"]))

    def _begin(self, p: Tensor, group: Group) -> State:
        if isinstance(first := rate(group), Tensor):
            sizes = zeros_like(p)
            (view_as_real(sizes) if p.is_complex() else sizes).add_(first)
        else:
            sizes = full_like(p, complex(first, first) if p.is_complex() else first)
        return {"prev": zeros_like(p), "step_size": sizes}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        shrink, grow = group["etas"]
        least, most = group["step_sizes"]
        before, size = state["prev"], state["step_size"]
        agrees = grad * before
        turns = agrees < 0
        kept = fresh(size)
        larger = where(agrees > 0, kept * grow, kept)
        size.copy_(where(turns, kept * shrink, larger)).clamp_(least, most)
        grad = where(turns, 0.0, grad)
        p.sub_(grad.sign() * fresh(size))
        before.copy_(grad)
