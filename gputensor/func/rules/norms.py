"""Batch rules of norms: the batch is merged with a dimension that the norm does not reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...autograd.formulas.nn import statistics
from ...core import errors
from ...core.dtype import dtype
from ...structured.layers.normalizing import of_statistics
from ...structured.layers.precision import cast, wide
from ..levels import batched, physical, unfolded, wrapped
from ..operators import Entry, call

Args = Sequence[Any]

_INPUT = (True, False, False)  # only the gradient of the input is requested


def _scaled(out: Any, weight: Any, bias: Any, of: dtype) -> Any:
    """Return out * weight + bias, computed in the dtype of the arithmetic and cast to `of`."""
    out = wide(out) if weight is None else wide(out) * wide(weight)
    return cast(out if bias is None else out + wide(bias), of)


def _by_channel(x: Any, *weights: Any) -> list[Any]:
    """Reshape weights so that their channels are along the second dimension of x."""
    shape = (1, -1) + (1,) * (x._geometry.ndim - 2)
    return [None if w is None else w.reshape(shape) for w in weights]


# --- rows -----------------------------------------------------------------------------------------


def layer_norm(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of layer_norm: the batch is one more leading dimension. Weights with a batch
    are applied afterwards."""
    x, normal, weight, bias, eps = args
    if not level.owns(weight) and not level.owns(bias):
        value = physical(level, x)
        return wrapped(level, call(entry.operator, value, normal, weight, bias, eps))
    out, *found = call(entry.operator, wide(x), normal, None, None, eps)
    of = of_statistics(x, weight, bias)
    return _scaled(out, weight, bias, x._geometry.dtype), *[cast(s, of) for s in found]


def rms_norm(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of RMS norm: the batch is one more leading dimension. Weights with a batch are
    applied afterwards."""
    x, normal, weight, eps = args
    if not level.owns(weight):
        return wrapped(level, call(entry.operator, physical(level, x), normal, weight, eps))
    out, rstd = call(entry.operator, wide(x), normal, None, eps)
    return _scaled(out, weight, None, x._geometry.dtype), rstd


def layer_norm_backward(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of layer_norm's gradients. The operator computes the gradient of the input.
    The gradients of the weights are sums over all dimensions except the batch."""
    grad, x, normal, mean, rstd, weight, bias, mask = args

    def of_input(grad: Any, x: Any, weight: Any, *found: Any) -> Any:
        return call(entry.operator, grad, x, normal, *found, weight, None, _INPUT)[0]

    return _gradients(level, of_input, grad, x, normal, mean, rstd, weight, bias, mask)


def rms_norm_backward(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of RMS norm's gradients. It computes them like `layer_norm_backward`."""
    grad, x, normal, rstd, weight, mask = args

    def of_input(grad: Any, x: Any, weight: Any, *found: Any) -> Any:
        return call(entry.operator, grad, x, normal, *found, weight, _INPUT[:2])[0]

    mask = (*mask, False)
    return _gradients(level, of_input, grad, x, normal, None, rstd, weight, None, mask)[:2]


def _gradients(
    level: Any, of_input: Callable[..., Any], grad: Any, x: Any, normal: Any, mean: Any, rstd: Any,
    weight: Any, bias: Any, mask: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the requested gradients of input, weight and bias. of_input: a function that computes
    the gradient of the input by the operator. mean: None for RMS norm."""
    of, found = x._geometry.dtype, [s for s in (mean, rstd) if s is not None]
    of_weights = of_statistics(x, weight, bias)
    outer = tuple(range(x._geometry.ndim - len(normal)))
    made = None
    if mask[0]:
        scaled, value, by = grad, x, weight
        if level.owns(weight):  # in the dtype of the arithmetic, so that the result is rounded once
            scaled, value, by = wide(grad) * wide(weight), wide(x), None
            found = [*map(wide, found)]
        given = [physical(level, s) for s in (scaled, value)]
        made = of_input(*given, by, *[physical(level, s) for s in found])
        made = batched(level, cast(made, of))

    def summed(of_each: Any) -> Any:
        return cast(of_each.sum(outer) if outer else of_each, of_weights)

    of_weight = None
    if mask[1]:
        dims = tuple(range(len(outer), x._geometry.ndim))
        of_weight = summed(wide(grad) * statistics(wide(x), dims, mean, rstd)[0])
    return made, of_weight, summed(wide(grad)) if mask[2] else None


# --- groups of channels ---------------------------------------------------------------------------


def group_norm(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of group_norm: the batch is merged with the samples. Weights with a batch are
    applied afterwards."""
    x, weight, bias, n, c, rest, group, eps = args
    if level.owns(weight) or level.owns(bias):
        out, *found = call(entry.operator, wide(x), None, None, n, c, rest, group, eps)
        of = of_statistics(x, weight, bias)
        weight, bias = _by_channel(x, weight, bias)
        return _scaled(out, weight, bias, x._geometry.dtype), *[cast(s, of) for s in found]
    value = physical(level, x).flatten(0, 1)
    made = call(entry.operator, value, weight, bias, n * level.size, c, rest, group, eps)
    return unfolded(level, made, n)


def group_norm_backward(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of group_norm's gradients. The operator computes the gradient of the input.
    The gradients of the weights are sums over all dimensions except the batch."""
    grad, x, mean, rstd, weight, n, c, rest, group, mask = args
    of, of_weights = x._geometry.dtype, of_statistics(x, weight)
    grad, x, mean, rstd = map(wide, (grad, x, mean, rstd))
    made = None
    if mask[0]:
        scaled, by = grad, weight
        if level.owns(weight):
            scaled, by = grad * wide(_by_channel(x, weight)[0]), None
        given = [physical(level, s).flatten(0, 1) for s in (scaled, x, mean, rstd)]
        by = None if by is None else wide(by)
        sizes = n * level.size, c, rest, group
        found = call(entry.operator, *given, by, *sizes, _INPUT)[0]
        made = unfolded(level, cast(found, of), n)
    parts = grad.reshape(n, group, c // group, rest)
    places = x.reshape(n, group, c // group, rest) - mean.reshape(n, group, 1, 1)
    places = places * rstd.reshape(n, group, 1, 1)
    return (
        made,
        cast((parts * places).sum((0, 3)).reshape(c), of_weights) if mask[1] else None,
        cast(parts.sum((0, 3)).reshape(c), of_weights) if mask[2] else None,
    )


# --- channels -------------------------------------------------------------------------------------


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
    weight, bias = _by_channel(x, weight, bias)
    result = _scaled(batched(level, out), weight, bias, x._geometry.dtype)
    saved = [batched(level, s.reshape(level.size, -1)) for s in (m, r)]
    return (result, *saved)
