"""Dropout: in training, random elements or whole channels are set to zero.

On CUDA one kernel draws the mask and scales what it keeps (kernels/cuda/dropout.cu). It gives the
bits of the composed operators, which gt.fuse records and transforms decompose.

Source: aten/src/ATen/native/Dropout.cpp.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import real
from ..core.dtype import bfloat16, bool_, float16, float32, float64
from ..core.geometry import Geometry, Sizes
from ..dispatch import tls
from ..dispatch.keys import BATCHED, DUAL, FUSE
from ..dispatch.operator import Operator
from ..iterator.coalesce import coalesce
from ..iterator.order import dimension_order
from ..kernels import stub
from ..structured import missing
from ..structured.forms import Kernel, given
from ..structured.generator import default_generator
from ..tensor.make import allocate
from ..tensor.tensor import Tensor

# --- by one kernel on CUDA ------------------------------------------------------------------------

_OF_KERNEL = frozenset((float16, bfloat16, float32, float64))
_COMPOSED = BATCHED | DUAL | FUSE


class _Layout(NamedTuple):
    """The layout of a kernel of family dropout. stride_bytes and dtypes have one entry for out, one
    for mask, and one for the operand that is scaled."""

    shape: Sizes
    stride_bytes: Any
    dtypes: Any


class _Kernel:
    """The kernel of dropout, or of its gradient, for one layout. result: the geometry of the scaled
    result. mask: the geometry of the mask."""

    __slots__ = ("result", "mask", "run")

    def __init__(self, op: str, x: Tensor, mask: Geometry) -> None:
        given = x._geometry
        made = calls.empty_like(x, None, None, None, None, None)
        self.result: Geometry = made._geometry
        self.mask: Geometry = mask
        of_all = (self.result, mask, given)
        walks = [g.stride_bytes for g in of_all]
        # Random numbers are assigned to elements in row-major order.
        order = [*reversed(range(given.ndim))]
        if op == "dropout_backward":
            order = dimension_order(given.sizes, walks)
        shape, walks = coalesce(given.sizes, walks, order)
        layout = _Layout(shape, walks, tuple([g.dtype for g in of_all]))
        self.run: Any = stub.bind("dropout", op, "cuda", layout)

    def dropped(self, x: Tensor, p: float, factor: float) -> tuple[Tensor, Tensor]:
        """Return the result and the mask."""
        place = x._device
        seed, block = default_generator(place).take(x._geometry.numel, place.index)
        out, mask = allocate(self.result, place), allocate(self.mask, place)
        limit = math.ceil(math.ldexp(1 - p, 53))
        operands = (out._address(), mask._address(), x._address())
        self.run(place.index, operands, (seed, block, limit, factor))
        return out, mask

    def scaled(self, grad: Tensor, mask: Tensor, factor: float) -> Tensor:
        out = allocate(self.result, grad._device)
        operands = (out._address(), mask._address(), grad._address())
        self.run(grad._device.index, operands, (0, 0, 0, factor))
        return out


def _kernel_of(
    operator: Operator, op: str, x: Tensor, mask: Tensor | None = None
) -> _Kernel | None:
    """Return the kernel for these operands, or None if the result must be composed of other
    operators."""
    shape, place = x._geometry, x._device
    if (
        place.type != "cuda" or shape.dtype not in _OF_KERNEL or not shape.numel
        or tls.state.get()[0] & _COMPOSED
    ):  # fmt: skip
        return None
    if mask is not None:
        of = mask._geometry
        alike = of.dtype is bool_ and mask._device is place and of.sizes == shape.sizes
        if not alike or of.strides != shape.strides or not shape.is_non_overlapping_and_dense:
            return None
    table = operator.table
    key = (_kernel_of, op, shape, place)
    found: _Kernel | None = table.plans.get(key)
    if found is None:
        if mask is None:
            mask = calls.empty_like(x, bool_, None, None, None, None)
        found = table.remember(key, _Kernel(op, x, mask._geometry))
    return found


# --- dropout --------------------------------------------------------------------------------------


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
    factor = 0.0 if p == 1 else 1 / (1 - p)
    kernel = _kernel_of(operators.native_dropout, "dropout", input)
    if kernel is not None:
        return kernel.dropped(input, p, factor)
    kept = calls.empty_like(input, bool_, None, None, None, None)
    missing.ask_inplace(operators.bernoulli__float, kept, 1 - p, None)
    return calls.mul_Tensor(calls.mul_Tensor(input, kept), factor), kept


def native_dropout_backward(
    key_set: int, grad_output: Tensor, mask: Tensor, scale: float
) -> Tensor:
    scale = real("native_dropout_backward", "scale", scale)
    operator = operators.native_dropout_backward
    kernel = _kernel_of(operator, "dropout_backward", grad_output, mask)
    if kernel is not None:
        return kernel.scaled(grad_output, mask, scale)
    return calls.mul_Tensor(calls.mul_Tensor(grad_output, mask), scale)


def _checked_p(op: str, p: Any) -> float:
    found = real(op, "p", p)
    if not 0 <= found <= 1:
        raise errors.must(op, "p", "be in [0, 1]", p)
    return found


def _noise(input: Tensor, p: float, *, by_feature: bool) -> Tensor:
    """Return a tensor of ones for kept elements and zeros for dropped ones. by_feature: keep or
    drop whole channels; a channel is one index of the first two dimensions. Source:
    make_feature_noise of ATen/native/Dropout.cpp."""
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
    # -alpha is SELU's limit for negative inputs. Dropped elements are set to -alpha. Then all
    # elements are scaled and shifted, which restores mean and variance. Source:
    # ATen/native/Dropout.cpp.
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
