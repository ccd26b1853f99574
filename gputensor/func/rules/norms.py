"""Batch rules of norms: the batch is merged with a dimension that the norm does not reduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core import errors
from ..levels import batched, physical, unfolded, wrapped
from ..operators import Entry, call

Args = Sequence[Any]

_INPUT = (True, False, False)  # only the gradient of the input is requested


def _scaled(out: Any, weight: Any, bias: Any) -> Any:
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _by_channel(x: Any, *weights: Any) -> list[Any]:
    """Reshape weights so that their channels are along the second dimension of x."""
    shape = (1, -1) + (1,) * (x._geometry.ndim - 2)
    return [None if w is None else w.reshape(shape) for w in weights]


def layer_norm(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of layer_norm: the batch is one more leading dimension. Weights with a batch
    are applied afterwards."""
    x, normal, weight, bias, eps = args
    if not level.owns(weight) and not level.owns(bias):
        value = physical(level, x)
        return wrapped(level, call(entry.operator, value, normal, weight, bias, eps))
    out, mean, rstd = call(entry.operator, x, normal, None, None, eps)
    return _scaled(out, weight, bias), mean, rstd


def rms_norm(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of RMS norm: the batch is one more leading dimension. Weights with a batch are
    applied afterwards."""
    x, normal, weight, eps = args
    if not level.owns(weight):
        return wrapped(level, call(entry.operator, physical(level, x), normal, weight, eps))
    out, rstd = call(entry.operator, x, normal, None, eps)
    return (out * weight).to(x.dtype), rstd


def rms_norm_backward(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of RMS norm's gradients: that of layer norm's, with mean 0."""
    grad, x, normal, rstd, weight, mask = args
    of: Any = None
    if mask[0]:
        scaled = grad if weight is None else grad * weight
        given = [physical(level, s) for s in (scaled, x)]
        of = call(entry.operator, *given, normal, physical(level, rstd), None, _INPUT[:2])[0]
    return (
        batched(level, of) if mask[0] else None,
        _summed(grad * (x * rstd), normal) if mask[1] else None,
    )


def _summed(of_each: Any, normal: Any) -> Any:
    """Return the sum over all dimensions before those of a row."""
    outer = tuple(range(of_each._geometry.ndim - len(normal)))
    return of_each.sum(outer) if outer else of_each


def layer_norm_backward(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of layer_norm's gradients. The operator computes the gradient of the input.
    The gradients of the weights are sums over all dimensions except the batch."""
    grad, x, normal, mean, rstd, weight, _, mask = args
    of: Any = None
    if mask[0]:
        scaled = grad if weight is None else grad * weight
        given = [physical(level, s) for s in (scaled, x, mean, rstd)]
        of = call(entry.operator, *given[:2], normal, *given[2:], None, None, _INPUT)[0]
    return (
        batched(level, of) if mask[0] else None,
        _summed(grad * ((x - mean) * rstd), normal) if mask[1] else None,
        _summed(grad, normal) if mask[2] else None,
    )


def group_norm(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of group_norm: the batch is merged with the samples. Weights with a batch are
    applied afterwards."""
    x, weight, bias, n, c, rest, group, eps = args
    if level.owns(weight) or level.owns(bias):
        out, mean, rstd = call(entry.operator, x, None, None, n, c, rest, group, eps)
        return _scaled(out, *_by_channel(x, weight, bias)), mean, rstd
    value = physical(level, x).flatten(0, 1)
    made = call(entry.operator, value, weight, bias, n * level.size, c, rest, group, eps)
    return unfolded(level, made, n)


def group_norm_backward(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of group_norm's gradients. The operator computes the gradient of the input.
    The gradients of the weights are sums over all dimensions except the batch."""
    grad, x, mean, rstd, weight, n, c, rest, group, mask = args
    of: Any = None
    if mask[0]:
        scaled = grad if weight is None else grad * _by_channel(x, weight)[0]
        given = [physical(level, s).flatten(0, 1) for s in (scaled, x, mean, rstd)]
        sizes = n * level.size, c, rest, group
        of = unfolded(level, call(entry.operator, *given, None, *sizes, _INPUT)[0], n)
    parts = grad.reshape(n, group, c // group, rest)
    places = x.reshape(n, group, c // group, rest) - mean.reshape(n, group, 1, 1)
    places = places * rstd.reshape(n, group, 1, 1)
    return (
        of,
        (parts * places).sum((0, 3)).reshape(c) if mask[1] else None,
        parts.sum((0, 3)).reshape(c) if mask[2] else None,
    )


def batch_norm_backward(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of batch_norm's gradients: the batch is merged with the channels, because the
    gradients of different channels are independent."""
    grad, x, *of_channels, train, eps, mask = args
    n, c, *inner = x._geometry.sizes
    given = [physical(level, s).transpose(0, 1).flatten(1, 2) for s in (grad, x)]
    flat = [None if s is None else physical(level, s).reshape(-1) for s in of_channels]
    made = call(entry.operator, *given, *flat, train, eps, mask)
    of = made[0]
    if of is not None:
        of = of.reshape(n, level.size, c, *inner).transpose(0, 1)
    parts = of, *[s if s is None else s.reshape(level.size, c) for s in made[1:]]
    return tuple([None if s is None else batched(level, s) for s in parts])


def batch_norm(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of batch_norm: the batch is merged with the channels. Weights are applied
    afterwards."""
    x, weight, bias, mean, var, training, momentum, eps = args
    kept = [s for s in (mean, var) if s is not None]
    n, c = x._geometry.sizes[:2]
    # Dimensions: samples, batch, channels.
    value = physical(level, x).transpose(0, 1)
    # If the batch has stride 0, all entries are equal, so one running statistic serves all of them.
    is_one = value._geometry.strides[1] == 0
    if training and not is_one and any(not level.owns(s) for s in kept):
        rule = "have the batch that the input has, or be None, as it is written to"
        raise errors.must("batch_norm", "running_mean", rule, kept[0])
    value = value.reshape(n, level.size * c, *x._geometry.sizes[2:])
    of: list[Any] = [
        None if s is None else physical(level, s).contiguous().reshape(-1) for s in (mean, var)
    ]
    out, m, r = call(entry.operator, value, None, None, *of, training, momentum, eps)
    if training:
        for s, new in zip((mean, var), of):
            if s is not None:
                new = new.reshape(level.size, c)
                s.value.copy_(new) if level.owns(s) else s.copy_(new[0])
    out = out.reshape(n, level.size, c, *x._geometry.sizes[2:]).transpose(0, 1)
    result = _scaled(batched(level, out), *_by_channel(x, weight, bias))
    saved = [batched(level, s.reshape(level.size, -1)) for s in (m, r)]
    return (result, *saved)
