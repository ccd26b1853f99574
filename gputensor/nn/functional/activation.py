"""Activations of `gt.nn.functional`: operators under the signatures of torch.nn.functional."""

from __future__ import annotations

from typing import Any

from ..._generated import calls
from ...core import errors
from ...core.arguments import flag
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from ._types import _refuse

__all__ = [
    "celu", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardsigmoid", "hardswish", "hardtanh",
    "hardtanh_", "leaky_relu", "leaky_relu_", "logsigmoid", "mish", "relu6", "rrelu", "rrelu_",
    "selu", "sigmoid", "silu", "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    "threshold",
]  # fmt: skip


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x for each element x >= 0, and alpha * (exp(x / alpha) - 1) for x < 0."""
    try:
        _tensor("celu", input)
        if flag("celu", "inplace", inplace):
            return calls.celu_(input, alpha)
        return calls.celu(input, alpha)
    except Exception as error:
        return _refuse(error, "celu", celu, locals())


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x for each element x >= 0, and alpha * (exp(x) - 1) for x < 0."""
    try:
        _tensor("elu", input)
        if flag("elu", "inplace", inplace):
            return calls.elu_(input, alpha, 1, 1)
        return calls.elu(input, alpha, 1, 1)
    except Exception as error:
        return _refuse(error, "elu", elu, locals())


@declares()
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return each element x times the normal distribution function of x."""
    return calls.gelu(input, approximate)


@declares()
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of input along dim times the sigmoid of the second half."""
    return calls.glu(input, dim)


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


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return (x + 3) / 6 for each element x, clamped to [0, 1]."""
    try:
        _tensor("hardsigmoid", input)
        if flag("hardsigmoid", "inplace", inplace):
            return calls.hardsigmoid_(input)
        return calls.hardsigmoid(input)
    except Exception as error:
        return _refuse(error, "hardsigmoid", hardsigmoid, locals())


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return each element times its hardsigmoid."""
    try:
        _tensor("hardswish", input)
        if flag("hardswish", "inplace", inplace):
            return calls.hardswish_(input)
        return calls.hardswish(input)
    except Exception as error:
        return _refuse(error, "hardswish", hardswish, locals())


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Return each element, clamped to [min_val, max_val]."""
    try:
        _tensor("hardtanh", input)
        if flag("hardtanh", "inplace", inplace):
            return calls.hardtanh_(input, min_val, max_val)
        return calls.hardtanh(input, min_val, max_val)
    except Exception as error:
        return _refuse(error, "hardtanh", hardtanh, locals())


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return x for each element x >= 0, and negative_slope * x for x < 0."""
    try:
        _tensor("leaky_relu", input)
        if flag("leaky_relu", "inplace", inplace):
            return calls.leaky_relu_(input, negative_slope)
        return calls.leaky_relu(input, negative_slope)
    except Exception as error:
        return _refuse(error, "leaky_relu", leaky_relu, locals())


def logsigmoid(input: Tensor) -> Tensor:
    """Return the logarithm of the sigmoid of each element."""
    try:
        _tensor("logsigmoid", input)
        return calls.log_sigmoid(input)
    except Exception as error:
        return _refuse(error, "logsigmoid", logsigmoid, locals())


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return each element times the tanh of its softplus."""
    try:
        _tensor("mish", input)
        if flag("mish", "inplace", inplace):
            return calls.mish_(input)
        return calls.mish(input)
    except Exception as error:
        return _refuse(error, "mish", mish, locals())


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return each element, clamped to [0, 6]."""
    try:
        _tensor("relu6", input)
        if flag("relu6", "inplace", inplace):
            return calls.relu6_(input)
        return calls.relu6(input)
    except Exception as error:
        return _refuse(error, "relu6", relu6, locals())


@declares()
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    """Return x for each element x >= 0, and a slope between lower and upper times x for x < 0."""
    if flag("rrelu", "inplace", inplace):
        made = calls.rrelu(calls.clone(input), lower, upper, training, None)
        # not in place, because the derivative reads the old elements of input
        return calls.copy_(input, made, False)
    return calls.rrelu(input, lower, upper, training, None)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return elu with a fixed alpha and scale, which keep mean and variance."""
    try:
        _tensor("selu", input)
        if flag("selu", "inplace", inplace):
            return calls.selu_(input)
        return calls.selu(input)
    except Exception as error:
        return _refuse(error, "selu", selu, locals())


def sigmoid(input: Tensor) -> Tensor:
    """Return the logistic function of each element."""
    try:
        _tensor("sigmoid", input)
        return calls.sigmoid(input)
    except Exception as error:
        return _refuse(error, "sigmoid", sigmoid, locals())


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return each element times its sigmoid."""
    try:
        _tensor("silu", input)
        if flag("silu", "inplace", inplace):
            return calls.silu_(input)
        return calls.silu(input)
    except Exception as error:
        return _refuse(error, "silu", silu, locals())


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Return log(1 + exp(beta * x)) / beta for each element x, and x where beta * x is above the
    threshold."""
    try:
        _tensor("softplus", input)
        return calls.softplus(input, beta, threshold)
    except Exception as error:
        return _refuse(error, "softplus", softplus, locals())


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Move each element towards zero by lambd; elements in [-lambd, lambd] become 0."""
    try:
        _tensor("softshrink", input)
        return calls.softshrink(input, lambd)
    except Exception as error:
        return _refuse(error, "softshrink", softshrink, locals())


def softsign(input: Tensor) -> Tensor:
    """Return x / (1 + |x|) for each element x."""
    try:
        _tensor("softsign", input)
        return calls.div_Tensor(input, calls.add_Tensor(calls.abs(input), 1, 1))
    except Exception as error:
        return _refuse(error, "softsign", softsign, locals())


def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent of each element."""
    try:
        _tensor("tanh", input)
        return calls.tanh(input)
    except Exception as error:
        return _refuse(error, "tanh", tanh, locals())


def tanhshrink(input: Tensor) -> Tensor:
    """Return x - tanh(x) for each element x."""
    try:
        _tensor("tanhshrink", input)
        return calls.sub_Tensor(input, calls.tanh(input), 1)
    except Exception as error:
        return _refuse(error, "tanhshrink", tanhshrink, locals())


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return x for each element x above the threshold, and `value` for other elements."""
    try:
        _tensor("threshold", input)
        if flag("threshold", "inplace", inplace):
            return calls.threshold_(input, threshold, value)
        return calls.threshold(input, threshold, value)
    except Exception as error:
        function = globals()["threshold"]  # the local name is an argument
        return _refuse(error, "threshold", function, locals())


# --- in place -------------------------------------------------------------------------------------


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Compute elu in place."""
    try:
        return elu(input, alpha, True)
    except Exception as error:
        return _refuse(error, "elu_", elu_, locals())


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Compute hardtanh in place."""
    try:
        return hardtanh(input, min_val, max_val, True)
    except Exception as error:
        return _refuse(error, "hardtanh_", hardtanh_, locals())


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Compute leaky_relu in place."""
    try:
        return leaky_relu(input, negative_slope, True)
    except Exception as error:
        return _refuse(error, "leaky_relu_", leaky_relu_, locals())


@declares()
def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """Compute rrelu in place."""
    return rrelu(input, lower, upper, training, True)


def _tensor(op: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor(op, "input", "a Tensor", input)
