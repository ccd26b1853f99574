"""Folding of a batch norm in evaluation mode into the convolution or linear layer before it.

Source: torch/nn/utils/fusion.py.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ..._generated.functions import ones_like, zeros_like
from ...core import errors, lazy
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from ..parameter import Parameter
from .making import check_module

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip
Pair = tuple[Parameter, Parameter]


def _fused(
    named: tuple[str, str], weight: Tensor, bias: Tensor | None, norm: tuple[Any, ...], channel: int
) -> Pair:
    """Return the weight and the bias of a layer that also computes a batch norm. The norm's factors
    scale the weight along its dimension `channel`.

    named: the function's name and the name of its argument `weight`, for messages.
    """
    if weight.ndim <= channel:
        raise errors.wrong_shape(*named, f"have more than {channel} dimensions", weight)
    mean, var, eps, scale, shift = norm
    shift = zeros_like(mean) if shift is None else shift
    scale = ones_like(mean) if scale is None else scale
    before: Any = zeros_like(mean) if bias is None else bias
    factor = scale * (var + eps).rsqrt()
    sizes = [1] * weight.ndim
    sizes[channel] = -1
    made = (weight * factor.reshape(sizes)).to(dtype=weight.dtype)
    moved = ((before - mean) * factor + shift).to(dtype=before.dtype)
    return Parameter(made, weight.requires_grad), Parameter(moved, before.requires_grad)


@declares(conv_w="Tensor", conv_b="Tensor?", bn_rm="Tensor", bn_rv="Tensor", bn_eps="float",
          bn_w="Tensor?", bn_b="Tensor?", transpose="bool")  # fmt: skip
def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> Pair:  # fmt: skip
    """Return weight and bias of a convolution that also computes a batch norm with these values."""
    named = "fuse_conv_bn_weights", "conv_w"
    return _fused(named, conv_w, conv_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), int(transpose))


@declares(linear_w="Tensor", linear_b="Tensor?", bn_rm="Tensor", bn_rv="Tensor", bn_eps="float",
          bn_w="Tensor?", bn_b="Tensor?")  # fmt: skip
def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None,
) -> Pair:  # fmt: skip
    """Return weight and bias of a linear layer that also computes a batch norm with these
    values."""
    named = "fuse_linear_bn_weights", "linear_w"
    return _fused(named, linear_w, linear_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), 0)


def _fused_module(op: str, layer: Any, bn: Any, channel: int) -> Any:
    check_module(op, "layer", layer)
    check_module(op, "bn", bn)
    if layer.training or bn.training:
        raise errors.wrong_value(op, "layers", "be in evaluation", "training=True")
    if bn.running_mean is None:
        raise errors.wrong_value(op, "bn", "have running statistics", bn)
    made = copy.deepcopy(layer)
    norm = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    made.weight, made.bias = _fused((op, "layer"), made.weight, made.bias, norm, channel)
    return made


@declares(conv="Callable", bn="Callable", transpose="bool")
def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a copy of a convolution that also computes the batch norm after it. Both must be in
    evaluation mode."""
    return _fused_module("fuse_conv_bn_eval", conv, bn, int(transpose))


@declares(linear="Callable", bn="Callable")
def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a copy of a linear layer that also computes the batch norm after it. Both must be in
    evaluation mode.

    Raises: ArgumentValueError unless bn has one feature or as many as the layer has outputs.
    """
    check_module("fuse_linear_bn_eval", "layer", linear)
    check_module("fuse_linear_bn_eval", "bn", bn)
    if bn.num_features not in (1, linear.out_features):
        rule = f"have 1 or {linear.out_features} features, as the linear layer's outputs"
        raise errors.wrong_value("fuse_linear_bn_eval", "bn", rule, bn.num_features)
    return _fused_module("fuse_linear_bn_eval", linear, bn, 0)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
