"""Activations of `gt.nn.functional` that are composed of operators. All other activations are
operators: rows of native_functions.yaml with a field `nn`."""

from __future__ import annotations

from typing import Any

from ..._generated import calls
from ...core import errors
from ...core.arguments import flag
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from ._types import _refuse

__all__ = ["gumbel_softmax", "rrelu", "rrelu_", "softsign", "tanhshrink"]


@declares()
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Return softmax of (logits + Gumbel noise) / tau, a relaxed sample of a categorical
    distribution.

    hard: return a one-hot vector at the largest element, with the gradient of the softmax.
    """
    noise = calls.log(calls.exponential_(calls.empty_like(logits)))
    drawn = calls.div_Tensor(calls.sub_Tensor(logits, noise), tau)
    soft = calls.softmax_int(drawn, dim)
    if not flag("gumbel_softmax", "hard", hard):
        return soft
    largest = calls.argmax(soft, dim, True)
    chosen = calls.scatter_value(calls.zeros_like(soft), dim, largest, 1.0)
    return calls.add_Tensor(calls.sub_Tensor(chosen, calls.detach(soft)), soft)


@declares()
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    """Return x for each element x >= 0, and x times a slope for x < 0. In training, slopes are
    random numbers between lower and upper; otherwise the slope is their mean."""
    if flag("rrelu", "inplace", inplace):
        made = calls.rrelu(calls.clone(input), lower, upper, training, None)
        # not in place, because the derivative reads the old elements of input
        return calls.copy_(input, made, False)
    return calls.rrelu(input, lower, upper, training, None)


def softsign(input: Tensor) -> Tensor:
    """Return x / (1 + |x|) for each element x."""
    try:
        _tensor("softsign", input)
        return calls.div_Tensor(input, calls.add_Tensor(calls.abs(input), 1, 1))
    except Exception as error:
        return _refuse(error, "softsign", softsign, locals())


def tanhshrink(input: Tensor) -> Tensor:
    """Return x - tanh(x) for each element x."""
    try:
        _tensor("tanhshrink", input)
        return calls.sub_Tensor(input, calls.tanh(input), 1)
    except Exception as error:
        return _refuse(error, "tanhshrink", tanhshrink, locals())


@declares()
def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """Compute rrelu in place."""
    return rrelu(input, lower, upper, training, True)


def _tensor(op: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor(op, "input", "a Tensor", input)
