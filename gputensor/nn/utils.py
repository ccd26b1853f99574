"""What training does to parameters and gradients at large: `gt.nn.utils`."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import linalg
from .._generated import functions
from ..autograd import no_grad
from ..core import errors, lazy
from ..dispatch.refusal import declares
from ..tensor.tensor import Tensor
from .parameter import Parameter

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "fuse_conv_bn_eval", "fuse_conv_bn_weights",
    "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm", "parameters_to_vector",
    "vector_to_parameters",
]  # fmt: skip


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    of = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for p in of:
        if not isinstance(p, Tensor):
            raise errors.wrong_type("clip_grad_norm_", "parameters", "hold Tensors", p)
    return [p.grad for p in of if p.grad is not None]


@declares(tensors="Parameters", norm_type="float", error_if_nonfinite="bool")
@no_grad()
def get_total_norm(
    tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """The norm of all tensors as if they were one vector."""
    listed = list(tensors)
    if not listed:
        made: Tensor = functions.zeros(())
        return made
    norms = [linalg.vector_norm(x, float(norm_type)) for x in listed]
    total: Tensor = linalg.vector_norm(
        functions.stack([x.to(device=norms[0].device) for x in norms]), float(norm_type)
    )
    if error_if_nonfinite and not total.isfinite():
        raise errors.must("clip_grad_norm_", "parameters", "have gradients of a finite norm", total)
    return total


@declares()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:  # fmt: skip
    """Scale all gradients, in place, so that their norm together is at most `max_norm`.

    Returns: the norm before. Nothing is waited for: the factor stays on the device.
    """
    grads = _gradients(parameters)
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    with no_grad():
        factor = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(factor.to(device=grad.device, dtype=grad.dtype))
    return total


@declares()
@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Bring every element of every gradient within -clip_value and clip_value, in place."""
    for grad in _gradients(parameters):
        grad.clamp_(-float(clip_value), float(clip_value))


@declares(parameters="Parameters")
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements in one vector."""
    made: Tensor = functions.cat([p.reshape(-1) for p in parameters])
    return made


@declares(vec="Tensor", parameters="Parameters")
@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy a vector's elements into the parameters, in their order."""
    at = 0
    for p in parameters:
        p.copy_(vec[at : at + p.numel()].view(p.shape))
        at += p.numel()


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(weight, bias) of a convolution that does what it and a batch norm in evaluation do.

    bn_rm, bn_rv: the mean and variance that the norm has seen. transpose: of a transposed one,
    whose weight has the output channels in its second dimension.
    """
    scale = (bn_rv + bn_eps).rsqrt()
    scale = scale if bn_w is None else scale * bn_w
    bias = -bn_rm if conv_b is None else conv_b - bn_rm
    bias = bias * scale if bn_b is None else bias * scale + bn_b
    sizes = [1] * conv_w.ndim
    sizes[1 if transpose else 0] = -1
    weight: Tensor = conv_w * scale.reshape(sizes)
    return weight.detach().to(conv_w.dtype), bias.detach()


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fuse_conv_bn_weights` of a linear layer."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution that does what it and the batch norm behind it do in evaluation."""
    if conv.training or bn.training:
        raise errors.wrong_value("fuse_conv_bn_eval", "conv, bn", "be in evaluation", conv.training)
    fused = copy.deepcopy(conv)
    made = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    fused.weight, fused.bias = (Parameter(x) for x in made)
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a linear layer that does what it and the batch norm behind it do in evaluation."""
    return fuse_conv_bn_eval(linear, bn)
