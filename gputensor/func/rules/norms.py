"""Batch rules of norms: the batch joins what a norm has many of anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core import errors
from ..levels import batched, physical, unfolded, wrapped
from ..operators import Entry, call

Args = Sequence[Any]


def _scaled(out: Any, weight: Any, bias: Any) -> Any:
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _by_channel(x: Any, *weights: Any) -> list[Any]:
    """Weights of the channels, laid along the second dimension of x."""
    shape = (1, -1) + (1,) * (x._geometry.ndim - 2)
    return [None if w is None else w.reshape(shape) for w in weights]


def layer_norm(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch is one more dimension in front; weights that have one come behind."""
    x, normal, weight, bias, eps = args
    if not level.owns(weight) and not level.owns(bias):
        value = physical(level, x)
        return wrapped(level, call(entry.operator, value, normal, weight, bias, eps))
    out, mean, rstd = call(entry.operator, x, normal, None, None, eps)
    return _scaled(out, weight, bias), mean, rstd


def layer_norm_backward(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The gradient of the input; those of weights are sums over everything but the batch."""
    grad, x, normal, mean, rstd, weight, bias, mask = args
    if mask[1] or mask[2] or level.owns(weight):
        return NotImplemented
    of = [physical(level, s) for s in (grad, x, mean, rstd)]
    made = call(entry.operator, *of[:2], normal, *of[2:], weight, bias, mask)
    return (batched(level, made[0]) if mask[0] else made[0], *made[1:])


def group_norm(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch joins the samples; weights that have one come behind."""
    x, weight, bias, n, c, rest, group, eps = args
    if level.owns(weight) or level.owns(bias):
        out, mean, rstd = call(entry.operator, x, None, None, n, c, rest, group, eps)
        return _scaled(out, *_by_channel(x, weight, bias)), mean, rstd
    value = physical(level, x).flatten(0, 1)
    made = call(entry.operator, value, weight, bias, n * level.size, c, rest, group, eps)
    return unfolded(level, made, n)


def batch_norm(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch joins the channels; weights come behind."""
    x, weight, bias, mean, var, training, momentum, eps = args
    kept = [s for s in (mean, var) if s is not None]
    if training and any(not level.owns(s) for s in kept):
        rule = "have the batch that the input has, or be None, as it is written to"
        raise errors.must("batch_norm", "running_mean", rule, kept[0])
    n, c = x._geometry.sizes[:2]
    value = physical(level, x).transpose(0, 1)  # samples, batch, channels
    value = value.reshape(n, level.size * c, *x._geometry.sizes[2:])
    of: list[Any] = [None if s is None else physical(level, s).reshape(-1) for s in (mean, var)]
    out, m, r = call(entry.operator, value, None, None, *of, training, momentum, eps)
    if training:
        for s, new in zip((mean, var), of):
            if s is not None:
                s.value.copy_(new.reshape(level.size, c))
    out = out.reshape(n, level.size, c, *x._geometry.sizes[2:]).transpose(0, 1)
    result = _scaled(batched(level, out), *_by_channel(x, weight, bias))
    saved = [batched(level, s.reshape(level.size, -1)) for s in (m, r)]
    return (result, *saved)
