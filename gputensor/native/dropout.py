"""Dropout: in training, random elements or whole channels are set to zero.

Source: aten/src/ATen/native/Dropout.cpp.
"""

from __future__ import annotations

import math
from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import real
from ..core.dtype import bool_
from ..structured import missing
from ..structured.forms import Kernel, given
from ..tensor.tensor import Tensor


def native_dropout(
    key_set: int, input: Tensor, p: float, train: bool | None
) -> tuple[Tensor, Tensor]:
    """Return two tensors: the input, where each element is set to zero with probability p and the
    kept elements are scaled; and the mask of kept elements.
    """
    p = _checked_p("native_dropout", p)
    if train is not None and not train:
        kept = calls.ones_like(input, bool_, None, None, None, None)
        return calls.clone(input, memory_format=None), kept
    kept = calls.empty_like(input, bool_, None, None, None, None)
    missing.ask_inplace(operators.bernoulli__float, kept, 1 - p, None)
    scaled = calls.mul_Tensor(calls.mul_Tensor(input, kept), 0.0 if p == 1 else 1 / (1 - p))
    return scaled, kept


def native_dropout_backward(
    key_set: int, grad_output: Tensor, mask: Tensor, scale: float
) -> Tensor:
    scale = real("native_dropout_backward", "scale", scale)
    return calls.mul_Tensor(calls.mul_Tensor(grad_output, mask), scale)


def _checked_p(op: str, p: Any) -> float:
    found = real(op, "p", p)
    if not 0 <= found <= 1:
        raise errors.must(op, "p", "be in [0, 1]", p)
    return found


def _noise(input: Tensor, p: float, *, by_feature: bool) -> Tensor:
    """Return a tensor of ones for kept elements and zeros for dropped ones. by_feature: whole
    channels (of the first two dimensions) are kept or dropped. Source: make_feature_noise of
    ATen/native/Dropout.cpp."""
    if not by_feature:
        made = calls.empty_like(input, None, None, None, None, None)
    else:
        sizes = input._geometry.sizes
        if len(sizes) < 2:
            raise errors.wrong_shape("feature_dropout", "input", "have two dimensions", input)
        sizes = (*sizes[:2], *(1,) * (len(sizes) - 2))
        made = calls.new_empty(input, sizes, None, None, None, None)
    return calls.bernoulli__float(made, 1 - p, None)


def _dropped(key_set: int, op: str, input: Tensor, p: float, train: bool) -> Tensor:
    """Apply the dropout operator named `op`. Source: _dropout_impl of ATen/native/Dropout.cpp."""
    p, inplace = _checked_p(op, p), op.endswith("_")
    multiply = calls.mul__Tensor if inplace else calls.mul_Tensor
    if p == 0 or not train or not input._geometry.numel:
        return input
    if p == 1:
        zero = calls.zeros((), input._geometry.dtype, None, input._device, None)
        return multiply(input, zero)
    noise = _noise(input, p, by_feature=op.startswith("feature"))
    if "alpha" not in op:
        return multiply(input, calls.div__Tensor(noise, 1 - p))
    # SELU's limit for negative inputs. Dropped elements are set to it, which lets mean and variance
    # be restored. Source: ATen/native/Dropout.cpp.
    alpha = 1.7580993408473766
    a = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    shift = calls.add_Tensor(
        calls.mul_Tensor(calls.sub_Tensor(noise, 1, 1), alpha * a), alpha * a * p, 1
    )
    scaled = multiply(input, calls.mul__Tensor(noise, a))
    return (calls.add__Tensor if inplace else calls.add_Tensor)(scaled, shift, 1)


def dropout(key_set: int, input: Tensor, p: float, train: bool) -> Tensor:
    p = _checked_p("dropout", p)
    if input._device.type == "cuda" and train and 0 < p < 1 and input._geometry.numel:
        return calls.native_dropout(input, p, True)[0]
    return _dropped(key_set, "dropout", input, p, train)


dropout_: Kernel = given(_dropped, op="dropout_")
feature_dropout: Kernel = given(_dropped, op="feature_dropout")
feature_dropout_: Kernel = given(_dropped, op="feature_dropout_")
alpha_dropout: Kernel = given(_dropped, op="alpha_dropout")
alpha_dropout_: Kernel = given(_dropped, op="alpha_dropout_")
feature_alpha_dropout: Kernel = given(_dropped, op="feature_alpha_dropout")
feature_alpha_dropout_: Kernel = given(_dropped, op="feature_alpha_dropout_")
