"""The formulas of the optimizers that PyTorch also implements as operators: Adam, SGD and Adagrad.

The classes of optim/ and the operators of native/optimizer.py call these functions. Steps work in
place. fresh: a function that returns a copy of an operand if the step is recorded and must not
overwrite the operand, and otherwise the operand itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .._generated import calls
from ..core.dtype import float64
from ..tensor.tensor import Tensor

Fresh = Callable[[Tensor], Tensor]


def plain(x: Tensor) -> Tensor:
    """Return x itself. Optimizer steps that are not recorded pass this function as `fresh`."""
    return x


def _exact(step: Any) -> Any:
    """Return the step number. Cast a tensor to f64, the precision of Python's numbers, so that both
    give the same results."""
    return step.to(float64) if isinstance(step, Tensor) else step


def plus(x: Tensor, y: Tensor, factor: Any, fresh: Fresh = plain) -> Tensor:
    """Return x + factor * y."""
    return x + fresh(y) * factor if isinstance(factor, Tensor) else x.add(y, alpha=factor)


def add(x: Tensor, y: Tensor, factor: Any, fresh: Fresh = plain) -> None:
    """Compute x += factor * y in place."""
    if isinstance(factor, Tensor):
        x.add_(fresh(y) * factor)
    else:
        x.add_(y, alpha=factor)


@lru_cache(maxsize=256)
def _rest(kept: float) -> float:
    """Return 1 - kept. The result is cached, because short cuts compare numbers by identity."""
    return 1 - kept


def mix(x: Tensor, y: Tensor, kept: Any) -> None:
    """Compute x = kept * x + (1 - kept) * y in place."""
    if isinstance(kept, Tensor):
        x.add_((y - x) * (1 - kept))
    else:
        x.lerp_(y, _rest(kept))


def mix_square(x: Tensor, y: Tensor, kept: Any) -> None:
    """Compute x = kept * x + (1 - kept) * y * y in place."""
    x.mul_(kept)
    if isinstance(kept, Tensor):
        x.add_(y.square() * (1 - kept))
    else:
        x.addcmul_(y, y, value=_rest(kept))


def descend(p: Tensor, direction: Tensor, lr: Any, fresh: Fresh = plain) -> None:
    """Compute p -= lr * direction in place."""
    if isinstance(lr, Tensor):
        p.sub_(fresh(direction) * lr)
    else:
        p.add_(direction, alpha=-lr)


def decayed(
    p: Tensor, grad: Tensor, lr: Any, decay: Any, is_decoupled: bool, fresh: Fresh = plain
) -> Tensor:
    """Return the gradient with weight decay added. If is_decoupled, shrink the parameter instead
    and return the gradient unchanged."""
    if not isinstance(decay, Tensor) and not decay:
        return grad
    if is_decoupled:
        p.mul_(1 - lr * decay)
        return grad
    return plus(grad, p, decay, fresh)


def adam(
    p: Tensor, grad: Tensor, average: Tensor, square: Tensor, largest: Tensor | None, lr: Any,
    betas: tuple[Any, Any], eps: Any, step: Any, fresh: Fresh = plain,
) -> None:  # fmt: skip
    """Take one step of Adam. step: counted from 1. largest: the largest average square so far, if
    amsgrad is used.
    """
    mix(average, grad, betas[0])
    mix_square(square, grad, betas[1])
    if largest is not None:
        square = largest.copy_(calls.maximum(fresh(largest), fresh(square)))
    step = _exact(step)
    step_size = lr / (1 - betas[0] ** step)
    root = fresh(square.sqrt()).div_((1 - betas[1] ** step) ** 0.5).add_(eps)
    descend(p, fresh(average) / root, step_size, fresh)


def sgd(
    p: Tensor, grad: Tensor, average: Tensor | None, lr: Any, momentum: Any, dampening: Any,
    is_nesterov: bool, is_first: bool, fresh: Fresh = plain,
) -> None:  # fmt: skip
    """Take one step of SGD. average: the average of the gradients; None without momentum.

    At the first step, the average is the gradient.
    """
    if average is not None:
        if not is_first:
            add(average.mul_(momentum), grad, 1 - dampening, fresh)
        grad = plus(grad, average, momentum, fresh) if is_nesterov else average
    descend(p, grad, lr, fresh)


def adagrad(
    p: Tensor, grad: Tensor, total: Tensor, lr: Any, lr_decay: Any, eps: Any, step: Any,
    fresh: Fresh = plain,
) -> None:  # fmt: skip
    """Take one step of Adagrad. step: counted from 1. total: the sum of the squares of the
    gradients."""
    total.add_(grad * grad)
    root = fresh(total.sqrt()).add_(eps)
    descend(p, grad / root, lr / (1 + (_exact(step) - 1) * lr_decay), fresh)
