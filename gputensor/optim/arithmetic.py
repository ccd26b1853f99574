"""Arithmetic of optimizers: numbers in a parameter's state, and in-place steps that autograd may
record."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..autograd import is_grad_enabled
from ..core.dtype import dtype, float32, float64
from ..dispatch.defaults import get_default_dtype
from ..structured import steps
from ..structured.steps import mix, mix_square
from ..tensor.tensor import Tensor

Group = dict[str, Any]
State = dict[str, Any]
# A parameter, its gradient and its state.
Stepped = tuple[Tensor, Tensor, State]


def number_dtype(kept: Any = None) -> dtype:
    """Return the dtype of a number in a parameter's state: float64 if the default dtype is float64
    or if `kept` is a NumPy float64, otherwise float32. `load_state_dict` stores the numbers of a
    float64 parameter, except the step, as NumPy float64. Source: torch/optim/optimizer.py,
    _get_scalar_dtype."""
    is_double = isinstance(kept, np.float64) or get_default_dtype() is float64
    return float64 if is_double else float32


def keep(state: State, name: str, value: Any) -> None:
    """Store a number in a parameter's state, rounded to the dtype of PyTorch's tensor for this
    number.

    A tensor with a history stays a tensor, so that gradients flow through later steps.
    """
    before = state[name]
    if isinstance(value, Tensor) and value.requires_grad:
        state[name] = value
    elif isinstance(before, Tensor):
        made = fresh(before)
        state[name] = made.copy_(value) if isinstance(value, Tensor) else made.fill_(value)
    else:
        state[name] = rounded(value, before)


def rounded(value: Any, like: Any = None) -> Any:
    """Return a number rounded to the dtype `number_dtype(like)`."""
    value = float(value)
    if isinstance(like, np.float64):
        return np.float64(value)
    return value if number_dtype() is float64 else float(np.float32(value))


# Note [Steps that are recorded]
# Steps work in place. If autograd records them, a node may save operands or results, which must
# then not be overwritten. So `fresh` copies each operand that a node may save.


def fresh(x: Tensor) -> Tensor:
    """Return x, or a copy of x if autograd records the step. See Note [Steps that are recorded]."""
    return x.clone() if is_grad_enabled() else x


def scalar(value: Any) -> Any:
    """Return an option of a group, which is a number or a 0-d tensor."""
    return value.reshape(()) if isinstance(value, Tensor) and value.ndim else value


def rate(group: Group) -> Any:
    """Return the learning rate of a group, which is a number or a 0-d tensor."""
    return scalar(group["lr"])


plus = partial(steps.plus, fresh=fresh)
add = partial(steps.add, fresh=fresh)
descend = partial(steps.descend, fresh=fresh)


def averages(grad: Tensor, state: State, group: Group) -> tuple[Tensor, Tensor, Any, Any]:
    """Update the averages of gradients and of squared gradients, which Adam and its variants keep.

    Returns: both averages, and their decay rates.
    """
    beta1, beta2 = map(scalar, group["betas"])
    mix(state["exp_avg"], grad, beta1)
    mix_square(state["exp_avg_sq"], grad, beta2)
    return state["exp_avg"], state["exp_avg_sq"], beta1, beta2
