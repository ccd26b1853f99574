"""Elementwise losses, with a mean, a sum, or no reduction.

mse, smooth_l1, huber, binary_cross_entropy and binary_cross_entropy_with_logits have loops, and so
have their gradients. Gradients of a mean are divided by the number of elements. Other losses are
composed of operators.
Source: aten/src/ATen/native/Loss.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .._generated import calls
from ..kernels._generated.loops import LOOPS
from ..core import errors
from ..core.dtype import FLOATING, dtype
from ..dispatch.operator import Operator
from ..iterator.config import BINARY, UNARY
from ..kernels import stub
from ..structured import arguments, forms, pointwise
from ..structured.pointwise import elementwise
from ..structured.pointwise import Kernel
from ..tensor.tensor import Tensor

NONE, MEAN, SUM = range(3)
_OPERANDS = ("grad_output", "self", "target")
# Inputs of loops that have the argument pos_weight. They are 1 if they are not given.
_FACTORS = ("weight", "pos_weight")


def check_reduction(op: str, reduction: Any) -> None:
    if reduction not in (NONE, MEAN, SUM):
        raise errors.wrong_value(op, "reduction", "be 0 (none), 1 (mean) or 2 (sum)", reduction)


def reduced(op: str, each: Tensor, reduction: int) -> Tensor:
    check_reduction(op, reduction)
    if reduction == NONE:
        return each
    return calls.mean(each) if reduction == MEAN else calls.sum(each)


@lru_cache(maxsize=256)
def reducing(of: dtype, count: int, reduction: int) -> Callable[[Any], Any]:
    """Return a function that reduces an array of `count` losses as `reduced` does. It supports f32
    and f64 on the CPU."""
    if reduction == NONE:
        return lambda each: each
    name = "mean" if reduction == MEAN else "sum"
    loop = stub.cpu("reduce").bind(name, of, of, of, count)

    def all_of(each: Any) -> Any:
        made = np.empty((), of.np)
        loop(each, None, None, made)
        return made

    return all_of


def per_element(op: str, gradient: Tensor, reduction: int) -> Tensor:
    """Return the gradient of each element's loss. For a mean, the given gradient is divided by the
    number of elements."""
    check_reduction(op, reduction)
    if reduction != MEAN or not gradient._geometry.numel:
        return gradient
    return gradient / gradient._geometry.numel


# --- losses with loops --------------------------------------------------------------------------

# Maps the name of a numeric argument to its condition: the text for errors, and the test.
_NUMBERS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "beta": ("not be negative", lambda x: x >= 0),
    "delta": ("be positive", lambda x: x > 0),
}


def functional(operator: Operator, loop: str) -> Kernel:
    """Make the kernel of a loss. Its arguments are some of `_OPERANDS`, optional weights, the
    reduction, and numbers.
    """
    op, names = operator.short_name, tuple([a.name for a in operator.schema.arguments])
    factors = _FACTORS if "pos_weight" in names else ()
    inputs = tuple([name for name in names if name in _OPERANDS or name in factors])
    numbers = tuple([name for name in names if name in _NUMBERS])
    is_gradient = inputs[0] == "grad_output"
    config = BINARY if LOOPS["criterion"][loop].startswith("promoted") else UNARY
    config = config.replace(arg_names=inputs)
    rule = pointwise.rule("criterion", loop, config, config)

    def beside(entry: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        reduction, *found = args
        if not is_gradient:
            return tuple(found)
        return (
            1 / entry.geometry.numel if reduction == MEAN and entry.geometry.numel else 1.0,
            *found,
        )

    made = elementwise.compute(operator, rule, beside)

    def kernel(key_set: int, *args: Any) -> Tensor:
        given = dict(zip(names, args))
        for name in factors:
            given[name] = 1.0 if given[name] is None else given[name]
        reduction, weight = given["reduction"], None if factors else given.get("weight")
        check_reduction(op, reduction)
        for name in numbers:
            said, holds = _NUMBERS[name]
            if not holds(given[name]):
                raise errors.must(op, name, said, given[name])
        operands = tuple([given[name] for name in inputs])
        each: Tensor = made(operands, (reduction, *[given[name] for name in numbers]))
        if weight is not None:
            each = each * calls.to_dtype(weight, each._geometry.dtype)
        return each if is_gradient else reduced(op, each, reduction)

    return kernel


out = forms.out_of_functional


# --- composed, with their own gradients -----------------------------------------------------------


def soft_margin_loss(key_set: int, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    arguments.check_is_floating("soft_margin_loss", "self", self)
    each = calls.log1p(calls.exp(-target * self))
    return reduced("soft_margin_loss", each, reduction)


def soft_margin_loss_backward(
    key_set: int, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int
) -> Tensor:
    z = calls.exp(-target * self)
    each = grad_output * (-target * z / (z + 1))
    return per_element("soft_margin_loss_backward", each, reduction)


# --- composed of other operators ----------------------------------------------------------------


def l1_loss(key_set: int, self: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    return reduced("l1_loss", calls.abs(self - target), reduction)


def kl_div(
    key_set: int, self: Tensor, target: Tensor, reduction: int = MEAN, log_target: bool = False
) -> Tensor:
    for arg, x in (("self", self), ("target", target)):
        if x._geometry.dtype.category < FLOATING:
            raise errors.wrong_dtype("kl_div", arg, "be floating", x)
    if log_target:
        each = calls.exp(target) * (target - self)
    else:
        each = calls.xlogy_Tensor(target, target) - target * self
    return reduced("kl_div", each, reduction)


def poisson_nll_loss(
    key_set: int, input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float,
    reduction: int,
) -> Tensor:  # fmt: skip
    if log_input:
        each = calls.exp(input) - target * input
    else:
        each = input - target * calls.log(input + eps)
    if full:
        stirling = target * calls.log(target) - target + 0.5 * calls.log(2 * math.pi * target)
        each = each + calls.masked_fill_Scalar(stirling, target <= 1, 0)
    return reduced("poisson_nll_loss", each, reduction)


def hinge_embedding_loss(
    key_set: int, self: Tensor, target: Tensor, margin: float = 1.0, reduction: int = MEAN
) -> Tensor:
    beyond = calls.clamp_min(margin - self, 0)
    each = calls.where_self(target != 1, beyond, 0) + calls.where_self(target != -1, self, 0)
    return reduced("hinge_embedding_loss", each, reduction)


def margin_ranking_loss(
    key_set: int, input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0,
    reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    each = calls.clamp_min(-target * (input1 - input2) + margin, 0)
    return reduced("margin_ranking_loss", each, reduction)


_LEAST = 1e-12


def cosine_embedding_loss(
    key_set: int, input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0,
    reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    op, dim = "cosine_embedding_loss", target._geometry.ndim
    if dim > 1:
        raise errors.wrong_shape(op, "target", "have at most one dimension", target)
    for arg, x in (("input1", input1), ("input2", input2)):
        if x._geometry.ndim != dim + 1:
            raise errors.wrong_shape(op, arg, f"have {dim + 1} dimensions beside this target", x)
    product, first, second = (
        calls.sum_dim_IntList(x * y, (dim,), False)
        for x, y in ((input1, input2), (input1, input1), (input2, input2))
    )
    cosine = product / calls.sqrt((first + _LEAST) * (second + _LEAST))
    each = calls.where_self(target == 1, 1 - cosine, 0)
    apart = calls.clamp_min(cosine - margin, 0)
    return reduced(op, each + calls.where_self(target == -1, apart, 0), reduction)


def _distance(x: Tensor, y: Tensor, p: float, eps: float) -> Tensor:
    return calls.pairwise_distance(x, y, p, eps, False)


def triplet_margin_loss(
    key_set: int, anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0,
    p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    op, ndim = "triplet_margin_loss", anchor._geometry.ndim
    for arg, x in (("positive", positive), ("negative", negative)):
        if x._geometry.ndim != ndim:
            raise errors.wrong_shape(op, arg, f"have {ndim} dimensions, as anchor has", x)
    if not margin > 0:
        raise errors.must(op, "margin", "be positive", margin)
    near, far = _distance(anchor, positive, p, eps), _distance(anchor, negative, p, eps)
    if swap:
        far = calls.minimum(far, _distance(positive, negative, p, eps))
    return reduced(op, calls.clamp_min(near - far + margin, 0), reduction)
