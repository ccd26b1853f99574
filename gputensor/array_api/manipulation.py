"""Functions that change the shape of a tensor or the order of its elements."""

from __future__ import annotations

from typing import TypeAlias

import gputensor as gt
from gputensor import Tensor

from ..core import errors
from .dtypes import as_tuple, promoted

Axes: TypeAlias = int | tuple[int, ...]


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Return views of the tensors, broadcast to their common sizes."""
    return gt.broadcast_tensors(*arrays) if arrays else ()


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common sizes of several shapes after broadcasting."""
    return tuple(gt.broadcast_shapes(*shapes))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Return a view of x, broadcast to larger sizes."""
    return gt.broadcast_to(x, shape)


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Concatenate tensors along an existing axis. For None, flatten the tensors first."""
    found = promoted("concat", arrays)
    if axis is None:
        return gt.concat([x.reshape(-1) for x in found])
    return gt.concat(found, axis)


def expand_dims(x: Tensor, /, axis: Axes) -> Tensor:
    """Return a view with new axes of size 1. `axis` counts positions in the result."""
    axes = as_tuple(axis)
    ndim = x.ndim + len(axes)
    places = {a + ndim if a < 0 else a for a in axes}
    if len(places) < len(axes) or not places <= set(range(ndim)):
        rule = f"hold different axes in [{-ndim}, {ndim - 1}]"
        raise errors.must("expand_dims", "axis", rule, axis, kind=errors.IndexRangeError)
    for place in sorted(places):
        x = gt.unsqueeze(x, place)
    return x


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """Reverse the order of elements along axes, or along all axes for None."""
    return gt.flip(x, tuple(range(x.ndim)) if axis is None else as_tuple(axis))


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """Return a view with axes moved to other positions. The other axes keep their order."""
    return gt.moveaxis(x, as_tuple(source), as_tuple(destination))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Return a view with its axes in another order."""
    return gt.permute(x, axes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Repeat each element along an axis. For None, flatten x first."""
    if isinstance(repeats, Tensor):
        repeats = repeats.to(gt.int64)
    return gt.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return the elements with other sizes.

    copy: False raises an error if a copy is needed; True always copies."""
    if copy is False:
        return x.view(shape)
    return gt.reshape(gt.clone(x) if copy else x, shape)


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """Shift elements cyclically by `shift` positions along axes. For None, shift the flattened
    tensor."""
    if axis is not None and isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return gt.roll(x, shift, () if axis is None else axis)


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """Return a view without these axes, which must have size 1."""
    axes = as_tuple(axis)
    for each in axes:
        if x.shape[each] != 1:
            raise errors.wrong_value("squeeze", "axis", "name axes of one element", x)
    return gt.squeeze(x, axes)


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Join tensors of equal sizes along a new axis."""
    return gt.stack(promoted("stack", arrays), axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Repeat the whole tensor along each axis."""
    return gt.tile(x, repetitions)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return a tuple of views, one for each index of an axis."""
    return tuple(gt.unbind(x, axis))
