"""Losses of `gt.nn.functional` that do more than call an operator. All other losses are operators:
rows of native_functions.yaml with a field `nn`.

`reduction` is the name of a reduction. The deprecated arguments `size_average` and `reduce` replace
it, with a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._generated import calls
from ...autograd.modes import no_grad
from ...core import errors
from ...core.arguments import real
from ...core.arguments import reduction as _reduction
from ...iterator.broadcast import broadcast_sizes
from ...dispatch import refusal
from ...dispatch.keys import BATCHED
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from ._types import _refuse

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_soft_margin_loss", "smooth_l1_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip

# --- losses of classes --------------------------------------------------------------------------


@declares()
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Return nll_loss of log_softmax over the classes.

    Args:
        input: (C), (N, C) or (N, C, d1, ...), any numbers.
        target: as in `nll_loss`, or probabilities of input's sizes and dtype.
        label_smoothing: in [0, 1], the share of the loss spread evenly over all classes.
    Raises: as `nll_loss`.
    """
    number = _reduction("cross_entropy", reduction, size_average, reduce)
    smoothing = real("cross_entropy", "label_smoothing", label_smoothing)
    return calls.cross_entropy_loss(input, target, weight, number, ignore_index, smoothing)


@declares()
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Return the negative log-probability of all alignments of each target sequence to its input
    steps.

    Args:
        log_probs: (T, N, C) or (T, C), from log_softmax; float32 or float64.
        targets: (N, S), or all sequences concatenated; classes other than the blank.
        input_lengths, target_lengths: (N), integers in a tensor, tuple or list.
        reduction: "mean" divides each loss by its target's length, then averages.
        zero_infinity: loss and gradient are 0 for sequences without an alignment.
    """
    number = _reduction("ctc_loss", reduction)
    steps, texts = input_lengths, target_lengths
    if isinstance(steps, Tensor) and isinstance(texts, Tensor):
        return calls.ctc_loss_Tensor(log_probs, targets, steps, texts, blank, number, zero_infinity)
    steps, texts = [x.reshape(-1).tolist() if isinstance(x, Tensor) else x for x in (steps, texts)]
    return calls.ctc_loss_IntList(log_probs, targets, steps, texts, blank, number, zero_infinity)


# --- losses of differences ----------------------------------------------------------------------


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the absolute differences. weight: a factor for each element. A weighted mean is
    divided by the sum of the weights."""
    try:
        number = _reduction("l1_loss", reduction, size_average, reduce)
        x, y = _together("l1_loss", input, target, weight)
        if weight is None:
            return calls.l1_loss(x, y, number)
        return _weighed(calls.l1_loss(x, y, 0), weight, number)
    except Exception as error:
        return _refuse(error, "l1_loss", l1_loss, locals())


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the squared differences. weight: a factor for each element. A weighted mean is divided
    by the sum of the weights."""
    try:
        number = _reduction("mse_loss", reduction, size_average, reduce)
        x, y = _together("mse_loss", input, target, weight)
        if weight is None:
            return calls.mse_loss(x, y, number)
        return _weighed(calls.mse_loss(x, y, 0), weight, number)
    except Exception as error:
        return _refuse(error, "mse_loss", mse_loss, locals())


@declares()
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return d**2 / 2 for each difference d, and delta * (abs(d) - delta / 2) where abs(d) is above
    delta.

    weight: a factor for each element. The mean divides by the number of elements, not by the sum of
    weights.
    """
    number = _reduction("huber_loss", reduction)
    x, y = _together("huber_loss", input, target, weight)
    delta = real("huber_loss", "delta", delta)
    if weight is None:
        return calls.huber_loss(x, y, number, delta)
    return _reduced(calls.huber_loss(x, y, 0, delta) * weight, number)


@declares()
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """Return abs(d) - beta / 2 for each difference d, and d**2 / (2 * beta) where abs(d) is below
    beta."""
    number = _reduction("smooth_l1_loss", reduction, size_average, reduce)
    x, y = _together("smooth_l1_loss", input, target, None)
    beta = real("smooth_l1_loss", "beta", beta)
    return calls.smooth_l1_loss(x, y, number, beta) if beta else calls.l1_loss(x, y, number)


def _together(
    op: str, input: Tensor, target: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Broadcast input and target to common sizes. Warn if their sizes differ."""
    _tensors(op, weight, input=input, target=target)
    x, y = tuple(input.shape), tuple(target.shape)
    if weight is not None and tuple(weight.shape) != x:
        raise errors.must(op, "weight", f"have input's sizes {list(x)}", weight,
                          kind=errors.ArgumentValueError)  # fmt: skip
    if x == y:
        return input, target
    refusal.warn(errors.other_target_sizes(op, x, y), stacklevel=3)
    sizes = broadcast_sizes(x, y)
    return (input, target) if sizes is None else (input.expand(sizes), target.expand(sizes))


def _weighed(each: Tensor, weight: Tensor, number: int) -> Tensor:
    each = each * weight
    return calls.sum(each) / calls.sum(weight) if number == 1 else _reduced(each, number)


# --- losses of probabilities --------------------------------------------------------------------


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Return -(target * log(input) + (1 - target) * log(1 - input)), weighted.

    Args:
        input: probabilities, in [0, 1]; their logarithms are limited to -100.
        target: of input's sizes. weight: broadcast to input's sizes.
    Raises: AutocastError under autocast on CUDA; use binary_cross_entropy_with_logits there.
    """
    try:
        number = _reduction("binary_cross_entropy", reduction, size_average, reduce)
        _alike("binary_cross_entropy", input, target, weight)
        return calls.binary_cross_entropy(input, target, weight, number)
    except Exception as error:
        return _refuse(error, "binary_cross_entropy", binary_cross_entropy, locals())


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return binary_cross_entropy of sigmoid(input), computed without loss of precision.

    weight: broadcast to input's sizes. pos_weight: the weight of positive targets, also broadcast.
    """
    try:
        op = "binary_cross_entropy_with_logits"
        number = _reduction(op, reduction, size_average, reduce)
        _alike(op, input, target, weight)
        _tensors(op, pos_weight)
        return calls.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)
    except Exception as error:
        return _refuse(
            error, "binary_cross_entropy_with_logits", binary_cross_entropy_with_logits, locals()
        )


def _alike(op: str, input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    _tensors(op, weight, input=input, target=target)
    if input.shape != target.shape:
        rule = f"have input's sizes {list(input.shape)}"
        raise errors.must(op, "target", rule, target, kind=errors.ArgumentValueError)


@declares()
def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """Return the Kullback-Leibler divergence, target * (log(target) - input).

    Args:
        input: log-probabilities. target: probabilities, or log-probabilities if log_target.
        reduction: also "batchmean", the sum divided by the size of the first dimension.
    """
    is_by_batch = reduction == "batchmean"
    number = _reduction("kl_div", "sum" if is_by_batch else reduction, size_average, reduce)
    found = calls.kl_div(input, target, number, log_target)
    return found / input.shape[0] if is_by_batch and input.ndim else found


@declares()
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Return 0.5 * (log(var) + (input - target)**2 / var), plus a constant if `full`. The call
    waits for the values of var.

    var: not negative. It has input's sizes, or these sizes with one size replaced by 1, or these
    sizes without the last one. It is clamped to eps, without a gradient.
    """
    op = "gaussian_nll_loss"
    number = _reduction(op, reduction)
    _tensors(op, input=input, target=target)
    if not isinstance(var, Tensor):
        var = calls.full_like(input, real(op, "var", var))
    if not var._keys & BATCHED and bool(calls.any(var < 0)):  # elements cannot be read under vmap
        raise errors.must(op, "var", "hold no negative number", var, kind=errors.ArgumentValueError)
    if var.shape != input.shape:
        x, v = tuple(input.shape), tuple(var.shape)
        if x[:-1] == v:
            var = var.unsqueeze(-1)
        elif len(x) != len(v) or sum([b for a, b in zip(x, v) if a != b]) != 1:
            rule = f"have input's sizes {list(x)}, one of them 1 or the last left out"
            raise errors.must(op, "var", rule, var, kind=errors.ArgumentValueError)
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    difference = input - target
    each = 0.5 * (calls.log(var) + difference * difference / var)
    return _reduced(each + 0.5 * math.log(2 * math.pi) if full else each, number)


# --- losses with margins ------------------------------------------------------------------------


@declares()
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Return the sum of max(0, margin - input[target] + input[other])**p over the other classes,
    divided by the number of classes C.

    Args:
        input: (C) or (N, C). target: classes, () or (N), int64.
        p: 1 or 2. weight: (C), a factor for each target.
    """
    op = "multi_margin_loss"
    number = _reduction(op, reduction, size_average, reduce)
    _tensors(op, weight, input=input, target=target)
    if p not in (1, 2):
        raise errors.must(op, "p", "be 1 or 2", p, kind=errors.ArgumentValueError)
    if weight is not None and weight.ndim != 1:
        rule = "have one dimension"
        raise errors.must(op, "weight", rule, weight, kind=errors.ArgumentValueError)
    return calls.multi_margin_loss(input, target, p, margin, weight, number)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Compute binary_cross_entropy_with_logits, take the mean over the last dimension, then apply
    the reduction.

    weight: (C), a factor for each class.
    """
    try:
        op = "multilabel_soft_margin_loss"
        number = _reduction(op, reduction, size_average, reduce)
        _tensors(op, weight, input=input, target=target)
        if not input.ndim:
            raise errors.wrong_shape(op, "input", "have a dimension of classes", input)
        each = target * calls.log_sigmoid(input) + (1 - target) * calls.log_sigmoid(-input)
        each = -each if weight is None else -each * weight
        return _reduced(
            calls.sum_dim_IntList(each, (input.ndim - 1,), False) / input.shape[-1], number
        )
    except Exception as error:
        return _refuse(error, "multilabel_soft_margin_loss", multilabel_soft_margin_loss, locals())


@declares()
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Return max(0, -target * (input1 - input2) + margin)."""
    op = "margin_ranking_loss"
    number = _reduction(op, reduction, size_average, reduce)
    _tensors(op, input1=input1, input2=input2, target=target)
    for arg, x in (("input2", input2), ("target", target)):
        if x.ndim != input1.ndim:
            raise errors.wrong_shape(op, arg, f"have {input1.ndim} dimensions, as input1 has", x)
    return calls.margin_ranking_loss(input1, input2, target, margin, number)


@declares()
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Return max(0, d(anchor, positive) - d(anchor, negative) + margin), where d is the p-norm
    distance.

    swap: use d(positive, negative) where it is smaller than d(anchor, negative).
    """
    op = "triplet_margin_loss"
    number = _reduction(op, reduction, size_average, reduce)
    _triplet(op, anchor, positive, negative, margin)
    return calls.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


@declares()
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Return triplet_margin_loss for a given distance function. The default is the 2-norm of the
    difference."""
    op = "triplet_margin_with_distance_loss"
    number = _reduction(op, reduction)
    _triplet(op, anchor, positive, negative, margin)
    if distance_function is None:
        inputs = anchor, positive, negative
        return calls.triplet_margin_loss(*inputs, margin, 2.0, 1e-6, swap, number)
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    for made in (near, far):
        if not isinstance(made, Tensor):
            raise errors.wrong_type(op, "distance_function", "give a Tensor", made)
    if swap:
        far = calls.minimum(far, distance_function(positive, negative))
    return _reduced(calls.clamp_min(near - far + margin, 0), number)


def _triplet(op: str, anchor: Tensor, positive: Tensor, negative: Tensor, margin: float) -> None:
    _tensors(op, anchor=anchor, positive=positive, negative=negative)
    for arg, x in (("positive", positive), ("negative", negative)):
        if x.ndim != anchor.ndim:
            raise errors.wrong_shape(op, arg, f"have {anchor.ndim} dimensions, as anchor has", x)
    if not real(op, "margin", margin) > 0:
        raise errors.must(op, "margin", "be positive", margin, kind=errors.ArgumentValueError)


# --- checks -------------------------------------------------------------------------------------


def _tensors(op: str, *weights: Any, **operands: Any) -> None:
    """Raise an error unless all operands are tensors, and all weights are tensors or None."""
    for arg, x in operands.items():
        if not isinstance(x, Tensor):
            raise errors.not_a_tensor(op, arg, "a Tensor", x)
    for weight in weights:
        if weight is not None and not isinstance(weight, Tensor):
            raise errors.not_a_tensor(op, "weight", "a Tensor", weight)


def _reduced(each: Tensor, number: int) -> Tensor:
    if number == 0:
        return each
    return calls.mean(each) if number == 1 else calls.sum(each)
