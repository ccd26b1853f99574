"""Batch rules of losses: first the unreduced losses, then a reduction for each entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._generated import calls, functions
from .batches import leading, pointwise
from ..levels import batched, physical
from ..operators import Entry, call

_NONE, _MEAN = 0, 1


def loss(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of an elementwise loss: the unreduced loss, then a reduction for each
    entry."""
    n = entry.names["reduction"]
    given = list(args)
    given[n] = _NONE
    each = pointwise(level, entry, given, "")
    if args[n] == _NONE:
        return each
    return each.mean() if args[n] == _MEAN else each.sum()


def nll(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of nll_loss: the batch is merged with the samples; then losses and weights are
    added up for each entry."""
    x, target, weight, reduction, ignored = args
    if level.owns(weight):
        return NotImplemented
    scores, classes = physical(level, x), physical(level, target)
    is_single = x._geometry.ndim == 1
    if not is_single:
        scores, classes = scores.flatten(0, 1), classes.flatten(0, 1)
    each, _ = call(entry.operator, scores, classes, weight, _NONE, ignored)
    each = each.reshape(level.size, *target._geometry.sizes)
    if reduction == _NONE and not is_single:
        nothing = functions.zeros((level.size,), dtype=x.dtype, device=x.device)
        return batched(level, each), batched(level, nothing)
    kept = (classes != ignored).reshape(level.size, -1)
    if weight is None:
        total = kept.sum(1).to(x.dtype)
    else:
        of_class = weight[classes.long().clamp(0, len(weight) - 1)].reshape(level.size, -1)
        total = (of_class * kept).sum(1)
    out = each if reduction == _NONE else each.reshape(level.size, -1).sum(1)
    out = out / total if reduction == _MEAN else out
    return batched(level, out), batched(level, total)


def nll_backward(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of nll_loss's gradient: nonzero only at the class of each target."""
    grad, x, target, weight, reduction, ignored, total = args
    kept = target != ignored
    classes = functions.where(kept, target, 0).long()
    each = grad / total if reduction == _MEAN else grad
    if weight is not None:
        each = each * calls.index_Tensor(weight, (classes,))
    each = functions.where(kept, -each, 0)
    dim = 0 if x._geometry.ndim == 1 else 1
    return functions.scatter(
        functions.zeros_like(x), dim, classes.unsqueeze(dim), each.unsqueeze(dim)
    )


def cross_entropy_backward(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of cross_entropy's gradient: the gradient of `nll_loss`, then that of
    `log_softmax`."""
    logs = args[1]
    made = nll_backward(level, entry, args, "")
    dim = 0 if logs._geometry.ndim == 1 else 1
    return calls._log_softmax_backward_data(made, logs, dim, logs.dtype)


def loss_backward(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of a loss's gradient: the gradient of unreduced losses, from the gradient of
    each entry's reduced loss."""
    n = entry.names["reduction"]
    given = list(args)
    if args[n] == _MEAN:
        x = args[1]
        given[0] = args[0] / max(x._geometry.numel, 1)
    given[n] = _NONE
    return pointwise(level, entry, given, "")


def solve(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of linear systems; a vector becomes a matrix with one column."""
    a, b, *rest = args
    if b._geometry.ndim == 1 or b._geometry.sizes == a._geometry.sizes[:-1]:
        if not rest[0]:
            return NotImplemented
        result, *factors = call(entry.operator, a, b.unsqueeze(-1), *rest)
        return (result.squeeze(-1), *factors)
    return leading(level, entry, args, "")
