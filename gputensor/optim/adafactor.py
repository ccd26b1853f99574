"""Adafactor: stores the average squares of a matrix's gradient as one row and one column. Source:
torch/optim/_adafactor.py, the loop over single tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._generated.functions import zeros_like
from ..core import errors
from ..tensor.type_info import finfo
from ..tensor.tensor import Tensor
from .arithmetic import Group, State, rate
from .optimizer import Optimizer


class Adafactor(Optimizer):
    """Adafactor: divides the gradient by the root of the average squared gradient. The step size is
    relative to the parameter's root mean square.

    For a parameter of two or more dimensions, the state holds only the means of the squares along
    the last two dimensions. The host reads norms at each step.

    Args:
        lr: the largest relative step; step n uses min(lr, 1 / sqrt(n)).
        beta2_decay: at step n the new squares have the weight n ** beta2_decay in the averages.
        eps: (lower bound of the root of the average square, lower bound of a parameter's root mean
            square); None means the dtype's epsilon for the first.
        d: a step with a larger root mean square is scaled down to d.
        weight_decay: the parameter shrinks by lr * weight_decay.
        Other options: as in `Optimizer`.
    """

    _not_negative = ("lr", "weight_decay")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
            "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        if not self._number("beta2_decay", group["beta2_decay"]) <= 0:
            raise self._must("beta2_decay", "not be positive", group["beta2_decay"])
        if not self._number("d", group["d"]) >= 1:
            raise self._must("d", "be at least 1", group["d"])
        eps = group["eps"]
        if isinstance(eps, (list, tuple)) and len(eps) == 2 and eps[0] is None:
            eps = (0.0, eps[1])
        if not all(least >= 0 for least in self._pair("eps", eps)):
            raise self._must("eps", "not be negative", tuple(group["eps"]))
        for p in group["params"]:
            if p.is_complex():
                raise self._must("params", "not be complex", p, errors.ArgumentTypeError)

    def _decayed(self, p: Tensor, grad: Tensor, group: Group) -> Tensor:
        # Return the gradient unchanged. `_update` applies the decay, because `_update` needs the
        # parameter's norm before the decay.
        return grad

    def _begin(self, p: Tensor, group: Group) -> State:
        if p.ndim < 2:
            return {"variance": zeros_like(p)}
        *others, rows, columns = p.shape
        return {
            "row_var": p.new_zeros([*others, rows, 1]),
            "col_var": p.new_zeros([*others, 1, columns]),
        }

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group, step: Any) -> None:
        lr, (root, least), count = rate(group), group["eps"], p.numel() ** 0.5
        root = finfo(p.dtype).eps if root is None else root
        step_size = max(least, p.norm(2).item() / count) * min(float(lr), step**-0.5)
        if group["weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        square = self._mean_square(grad, state, float(step) ** group["beta2_decay"], root)
        direction = square.clamp_(min=root * root).rsqrt_().mul_(grad)
        size = max(1.0, direction.norm(2).item() / (count * group["d"]))
        p.add_(direction, alpha=-step_size / size)

    @staticmethod
    def _mean_square(grad: Tensor, state: State, part: float, root: float) -> Tensor:
        """Return the new average square. part: the weight of this gradient's square in the
        average."""
        if grad.ndim < 2:
            variance: Tensor = state["variance"]
            return variance.lerp_(grad * grad, part).clone()
        row: Tensor = state["row_var"]
        column: Tensor = state["col_var"]
        for mean, dim in ((row, -1), (column, -2)):
            norm = grad.norm(2, dim=dim, keepdim=True)
            mean.lerp_(norm.square_().div_(grad.shape[dim]), part)
        least = row.mean(dim=-2, keepdim=True).clamp_(min=root)
        return (row @ column).div_(least)
