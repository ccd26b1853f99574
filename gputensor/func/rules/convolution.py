"""Batch rules of convolutions: the batch is merged with the samples, or with the channels as
groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..levels import batched, physical
from ..operators import Entry, call


def convolution(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule of convolutions: a batch of inputs is merged with the samples, a batch of
    weights with the groups."""
    x, weight, bias, *rest, groups = args
    if level.owns(bias):
        plain = call(entry.operator, x, weight, None, *rest, groups)
        return plain + bias.reshape(-1, *(1,) * (x._geometry.ndim - 2))
    size, samples = level.size, x._geometry.sizes[0]
    if not level.owns(weight):
        made = call(entry.operator, x.value.flatten(0, 1), weight, bias, *rest, groups)
        return batched(level, made.reshape(size, samples, *made._geometry.sizes[1:]))
    channels = _as_channels(level, x)
    filters = weight.value.flatten(0, 1)
    made = call(entry.operator, channels, filters, None, *rest, groups * size)
    made = made.unflatten(1, (size, -1)).transpose(0, 1)
    result = batched(level, made)
    return result if bias is None else result + bias.reshape(-1, *(1,) * (x._geometry.ndim - 2))


def weight_gradient(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule for the gradient of weights: each entry's filters are a group, as in the
    convolution."""
    x, grad, *rest, groups = args
    given = _as_channels(level, x), _as_channels(level, grad)
    made = call(entry.operator, *given, *rest, groups * level.size)
    return batched(level, made.unflatten(0, (level.size, -1)))


def _as_channels(level: Any, x: Any) -> Any:
    """Merge the batch with the channels: return samples that contain the channels of all
    entries."""
    return physical(level, x).transpose(0, 1).flatten(1, 2)
