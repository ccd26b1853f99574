"""Connectionist temporal classification: a loss over all alignments of a label sequence with time
steps.

An alignment of S labels has 2 S + 1 states: the labels, with blanks between and around them.
log_alpha[n, t, s] is the log-probability of all alignments up to step t and state s. Each step is
computed for the whole batch; states beyond the end of a shorter sequence have probability 0. As in
PyTorch, the gradient is with respect to the input of log_softmax. It adds up to 0 over the classes,
so the backward of log_softmax does not change it. An impossible step contributes 0, not NaN.
Source: aten/src/ATen/native/LossCTC.cpp; A. Graves et al., Connectionist Temporal Classification,
2006.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.device import CPU
from ..core.dtype import INTEGER
from ..core.geometry import contiguous_geometry
from ..kernels import stub
from ..structured import arguments, library
from ..tensor.make import allocate, over_array
from ..tensor.tensor import Tensor
from .criterion import MEAN, check_reduction, reduced

Lengths = tuple[int, ...]

BY_LIBRARY = True

_forward_loop = stub.compiled("ctc", "forward")
_backward_loop = stub.compiled("ctc", "backward")


def _lengths(op: str, arg: str, given: Any, count: int, most: int) -> Lengths:
    found = arguments.ints(op, arg, given)
    if len(found) != count:
        raise errors.must(op, arg, f"have a length for each of {count} samples", given)
    if not all(0 <= n <= most for n in found):
        raise errors.must(op, arg, f"hold lengths in [0, {most}]", given)
    return found


def _checked(
    op: str, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: Any
) -> tuple[Lengths, Lengths, int]:
    """Return the numbers of steps and of labels of each sample, and the index of the blank
    class."""
    given, labels = log_probs._geometry, targets._geometry
    if given.dtype not in (dtypes.float32, dtypes.float64):
        raise errors.wrong_dtype(op, "log_probs", "be f32 or f64", log_probs)
    if given.ndim != 3 or not given.numel:
        rule = "have three dimensions, (steps, samples, classes), none of size 0"
        raise errors.wrong_shape(op, "log_probs", rule, log_probs)
    steps, count, classes = given.sizes
    if labels.dtype.category != INTEGER:
        raise errors.wrong_dtype(op, "targets", "hold classes as integers", targets)
    arguments.check_device(op, "log_probs", log_probs, "targets", targets)
    if labels.ndim not in (1, 2) or labels.ndim == 2 and labels.sizes[0] != count:
        rule = f"be ({count}, longest), or texts one behind another"
        raise errors.wrong_shape(op, "targets", rule, targets)
    blank = arguments.integer(op, "blank", blank)
    if not 0 <= blank < classes:
        raise errors.must(op, "blank", f"be in [0, {classes - 1}]", blank)
    spans = _lengths(op, "input_lengths", input_lengths, count, steps)
    texts = _lengths(op, "target_lengths", target_lengths, count, labels.sizes[-1])
    if labels.ndim == 1 and sum(texts) != labels.numel:
        raise errors.wrong_shape(op, "targets", f"have {sum(texts)} elements in all", targets)
    if targets._device is CPU:
        array = targets._get_array()
        if labels.ndim == 2:
            array = array[np.arange(labels.sizes[1])[None] < np.array(texts)[:, None]]
        outside = array[(array < 0) | (array >= classes)]
        if outside.size:
            rule, got = f"hold classes in [0, {classes - 1}]", str(outside[0])
            raise errors.must(op, "targets", rule, errors.Got(got), kind=errors.IndexRangeError)
    return spans, texts, blank


# --- over arrays ----------------------------------------------------------------------------------


def _states(on: Any, targets: Any, texts: Lengths, blank: int) -> tuple[Any, Any, Any]:
    """Return three arrays (samples, states): the label of each state; a mask of the states that
    exist for the sample; and a mask of the states that an alignment may enter from the previous
    label, skipping the blank in between.
    """
    xp, longest = on.np, max(texts)
    length = xp.asarray(np.array(texts, np.int64))[:, None]
    places = xp.arange(longest)[None]
    if targets.ndim == 1:
        starts = np.concatenate([[0], np.cumsum(texts)[:-1]]).astype(np.int64)
        at = xp.minimum(xp.asarray(starts)[:, None] + places, max(len(targets) - 1, 0))
        picked = targets[at] if len(targets) else xp.zeros(at.shape, np.int64)
    else:
        picked = targets[:, :longest]
    labels = xp.full((len(texts), 2 * longest + 1), blank, np.int64)
    labels[:, 1::2] = xp.where(places < length, picked, blank)
    skips = xp.zeros(labels.shape, bool)
    skips[:, 3::2] = labels[:, 3::2] != labels[:, 1:-2:2]
    return labels, xp.arange(labels.shape[1])[None] < 2 * length + 1, skips


def _emitted(on: Any, logs: Any, labels: Any, is_there: Any, spans: Lengths) -> Any:
    """Return the log-probability of each state's label as (steps, samples, states); -inf beyond a
    sample's steps and states."""
    xp = on.np
    index = xp.broadcast_to(labels[None], (len(logs), *labels.shape))
    in_time = xp.arange(len(logs))[:, None] < xp.asarray(np.array(spans))
    is_there = is_there[None] & in_time[:, :, None]
    return xp.where(is_there, xp.take_along_axis(logs, index, 2), -math.inf)


def _added(on: Any, *logs: Any) -> Any:
    """Return the logarithm of the sum of the exponentials."""
    xp = on.np
    largest = xp.maximum(xp.maximum(logs[0], logs[1]), logs[2])
    base = xp.where(largest == -math.inf, 0, largest)
    return xp.log(sum([xp.exp(x - base) for x in logs])) + base


def _shifted(on: Any, x: Any, by: int) -> Any:
    """Shift the states by `by` positions. States beyond the ends have probability 0."""
    made = on.np.full_like(x, -math.inf)
    if by > 0:
        made[:, by:] = x[:, :-by]
    else:
        made[:, :by] = x[:, -by:]
    return made


def _forward(
    on: Any, logs: Any, targets: Any, spans: Lengths, texts: Lengths, blank: int
) -> tuple[Any, Any]:
    xp = on.np
    labels, is_there, skips = _states(on, targets, texts, blank)
    emitted = _emitted(on, logs, labels, is_there, spans)
    alpha = xp.full(emitted.shape, -math.inf, logs.dtype)
    alpha[0, :, :2] = emitted[0, :, :2]
    for t in range(1, len(alpha)):
        before = alpha[t - 1]
        skipped = xp.where(skips, _shifted(on, before, 2), -math.inf)
        after = _added(on, before, _shifted(on, before, 1), skipped) + emitted[t]
        alpha[t] = xp.where(is_there, after, -math.inf)
    ends = xp.asarray(np.array([max(n - 1, 0) for n in spans]))
    final = alpha[ends, xp.arange(len(texts))]
    likely = xp.where(_is_last(on, labels, texts), final, -math.inf)
    largest = likely.max(1)
    base = xp.where(largest == -math.inf, 0, largest)
    loss = -xp.log(xp.exp(likely - base[:, None]).sum(1)) - base
    # A sample without time steps has loss 0 if its target is empty, otherwise inf.
    without = [0.0 if not m else math.inf for m in texts]
    is_empty = xp.asarray(np.array(spans) == 0)
    return xp.where(is_empty, xp.asarray(np.array(without)), loss), xp.moveaxis(alpha, 0, 1)


def _is_last(on: Any, labels: Any, texts: Lengths) -> Any:
    """Return a mask of the states in which an alignment may end: the last label, or the blank after
    it."""
    last = on.np.asarray(np.array(texts))[:, None] * 2
    places = on.np.arange(labels.shape[1])[None]
    return (places == last) | (places == last - 1)


def _backward(
    on: Any, grad: Any, logs: Any, targets: Any, loss: Any, alpha: Any, spans: Lengths,
    texts: Lengths, blank: int, zero_infinity: bool,
) -> Any:  # fmt: skip
    xp = on.np
    labels, is_there, skips = _states(on, targets, texts, blank)
    emitted = _emitted(on, logs, labels, is_there, spans)
    ends = xp.asarray(np.array(spans) - 1)[:, None]
    first = xp.where(_is_last(on, labels, texts), 0.0, -math.inf).astype(logs.dtype)
    beta = xp.full(labels.shape, -math.inf, logs.dtype)
    shares = xp.zeros(emitted.shape, logs.dtype)
    for t in range(len(logs) - 1, -1, -1):
        skipped = _shifted(on, xp.where(skips, beta, -math.inf), -2)
        beta = _added(on, beta, _shifted(on, beta, -1), skipped)
        beta = xp.where(ends == t, first, beta)  # beta is the log-probability of the steps after t.
        both = alpha[:, t] + beta
        likely = both > -math.inf
        shares[t] = xp.where(likely, xp.exp(xp.where(likely, both, 0) + loss[:, None]), 0)
        beta = beta + emitted[t]
    made = xp.exp(logs)
    step, row = xp.arange(len(logs))[:, None, None], xp.arange(len(texts))[None, :, None]
    xp.add.at(made, (step, row, labels[None]), -shares)
    made = made * grad[None, :, None]
    if_impossible = 0.0 if zero_infinity else math.nan
    made = xp.where((loss == math.inf)[None, :, None], if_impossible, made)
    return xp.where(step <= ends[None], made, 0)


# --- by the CPU's loops ---------------------------------------------------------------------------


def _by_loop(
    loop: Any, before: tuple[Tensor, ...], log_probs: Tensor, targets: Tensor, spans: Lengths,
    texts: Lengths, after: tuple[Tensor, ...], *numbers: int,
) -> bool:  # fmt: skip
    """Run the CPU's loop `(*before, logs, targets, spans, texts, *after, *numbers)`. Operands are
    made dense first; result tensors must be dense. Return True if the loop ran."""
    if any([t._device is not CPU for t in (*before, log_probs, targets, *after)]):
        return False
    found: bool = loop(
        *[np.ascontiguousarray(t._get_array()) for t in before], log_probs._get_array(),
        np.ascontiguousarray(targets._get_array(), np.int64), np.array(spans), np.array(texts),
        *[np.ascontiguousarray(t._get_array()) for t in after], *numbers,
    )  # fmt: skip
    return found


# --- operators ------------------------------------------------------------------------------------


def _ctc_loss(
    key_set: int, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any,
    blank: int, zero_infinity: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    op = "ctc_loss"
    spans, texts, blank = _checked(op, log_probs, targets, input_lengths, target_lengths, blank)
    steps, count, _ = log_probs._geometry.sizes
    of = log_probs._geometry.dtype
    wanted = (
        contiguous_geometry((count,), of),
        contiguous_geometry((count, steps, 2 * max(texts) + 1), of),
    )
    if log_probs._device is CPU:
        loss, alpha = [allocate(geometry, CPU) for geometry in wanted]
        results = (loss, alpha)
        if _by_loop(_forward_loop, (), log_probs, targets, spans, texts, results, blank):
            return results
    loss, alpha = library.call(op, _forward, wanted, log_probs, targets, spans, texts, blank)
    return loss, alpha


def _ctc_loss_backward(
    key_set: int, grad: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Any,
    target_lengths: Any, neg_log_likelihood: Tensor, log_alpha: Tensor, blank: int,
    zero_infinity: bool,
) -> Tensor:  # fmt: skip
    op = "ctc_loss_backward"
    spans, texts, blank = _checked(op, log_probs, targets, input_lengths, target_lengths, blank)
    steps, count, _ = log_probs._geometry.sizes
    for arg, x, sizes in (
        ("grad", grad, (count,)),
        ("neg_log_likelihood", neg_log_likelihood, (count,)),
        ("log_alpha", log_alpha, (count, steps, 2 * max(texts) + 1)),
    ):
        if x._geometry.sizes != sizes or x._device is not log_probs._device:
            raise errors.wrong_shape(op, arg, f"have sizes {list(sizes)}, beside log_probs", x)
    wanted = contiguous_geometry(log_probs._geometry.sizes, log_probs._geometry.dtype)
    if log_probs._device is CPU:
        made = allocate(wanted, CPU)
        after = (neg_log_likelihood, log_alpha, made)
        if _by_loop(
            _backward_loop, (grad,), log_probs, targets, spans, texts, after, blank,
            int(zero_infinity),
        ):  # fmt: skip
            return made
    return library.call(
        op, _backward, (wanted,), grad, log_probs, targets, neg_log_likelihood, log_alpha, spans,
        texts, blank, zero_infinity,
    )[0]  # fmt: skip


def _listed(op: str, arg: str, lengths: Tensor) -> list[int]:
    """Return the values as a list. The call waits for the device."""
    if lengths._geometry.dtype.category != INTEGER:
        raise errors.wrong_dtype(op, arg, "hold integers", lengths)
    found: list[int] = calls.reshape(lengths, (lengths._geometry.numel,)).tolist()
    return found


def _by_tensors(
    key_set: int, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    *rest: Any,
) -> Any:  # fmt: skip
    op = "ctc_loss"
    inner = calls._ctc_loss if len(rest) == 2 else calls.ctc_loss_IntList
    return inner(
        log_probs, targets, _listed(op, "input_lengths", input_lengths),
        _listed(op, "target_lengths", target_lengths), *rest,
    )  # fmt: skip


# The overloads that take the lengths as tensors. `ctc_loss` applies a reduction, `_ctc_loss` does
# not.
_ctc_loss_Tensor = ctc_loss_Tensor = _by_tensors


def ctc_loss_IntList(
    key_set: int, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any,
    blank: int = 0, reduction: int = MEAN, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    check_reduction("ctc_loss", reduction)
    is_batch = log_probs._geometry.ndim != 2
    batch = log_probs if is_batch else calls.unsqueeze(log_probs, 1)
    each = calls._ctc_loss(batch, targets, input_lengths, target_lengths, blank, zero_infinity)[0]
    if zero_infinity:
        each = calls.where_self(each == math.inf, 0, each)
    if reduction == MEAN:
        texts = np.maximum(np.array(target_lengths), 1).astype(each._geometry.dtype.np)
        return calls.mean(each / over_array(texts).to(each._device))
    each = reduced("ctc_loss", each, reduction)
    return each if is_batch or not each._geometry.ndim else calls.squeeze_dim(each, 0)
