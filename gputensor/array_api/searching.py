"""Indexing, searching, sets and sorting."""

from __future__ import annotations

from typing import Literal, NamedTuple

import gputensor as gt
from gputensor import Tensor

from ..core import errors
from .dtypes import Number, together
from .statistical import Axes, sum


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Select the elements at `indices` of an axis, which may be omitted for a 1-d x."""
    if axis is None and x.ndim != 1:
        raise errors.must("take", "axis", "be given unless x has one dimension", x)
    axis = 0 if axis is None else axis + x.ndim if axis < 0 else axis
    return x[(*[slice(None)] * axis, indices.to(gt.int64))]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Select the elements at `indices` along an axis."""
    return gt.take_along_dim(x, indices.to(gt.int64), axis)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first maximum. If axis is None, return its index in the flattened
    tensor."""
    return gt.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first minimum. If axis is None, return its index in the flattened
    tensor."""
    return gt.argmin(x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The number of nonzero elements."""
    return sum(gt.ne(x, 0), axis=axis, dtype=gt.int64, keepdims=keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the indices of nonzero elements, as one tensor for each axis."""
    if not x.ndim:
        raise errors.must("nonzero", "x", "have a dimension", x)
    found: tuple[Tensor, ...] = gt.nonzero(x, as_tuple=True)
    return found


def searchsorted(
    x1: Tensor, x2: Tensor | int | float, /, *, side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the indices at which elements of x2 can be inserted into x1 so that x1 stays sorted.
    `sorter` holds the indices that sort x1."""
    if sorter is not None:
        sorter = sorter.to(gt.int64)
    first, second = together("searchsorted", x1, x2)
    return gt.searchsorted(first, second, side=side, sorter=sorter)


def where(condition: Tensor, x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """Select elements of x1 where the condition is true, elements of x2 elsewhere."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        x1 = gt.full((), x1, device=condition.device)
    return gt.where(condition, *together("where", x1, x2))


# --- sets -----------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def isin(x1: Tensor | int, x2: Tensor | int, /, *, invert: bool = False) -> Tensor:
    """True where an element of x1 is in x2."""
    first, second = together("isin", x1, x2)
    return gt.isin(first, second, invert=invert)


def _unique(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    flat = x.reshape(-1)
    # PyTorch's `unique` does not sort complex numbers: sort them as rows (real, imaginary)
    rows, dim = (gt.view_as_real(flat), 0) if x.is_complex() else (flat, None)
    values, inverse, counts = gt.unique(rows, return_inverse=True, return_counts=True, dim=dim)
    values = gt.view_as_complex(values) if x.is_complex() else values
    return values, inverse.reshape(x.shape), counts


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return unique values, their first indices, the inverse indices and the counts."""
    values, inverse, counts = _unique(x)
    places = gt.arange(x.numel(), device=x.device)
    first = gt.full(values.shape, x.numel(), dtype=gt.int64, device=x.device)
    first = first.scatter_reduce(0, inverse.reshape(-1), places, "amin")
    return UniqueAll(values, first, inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return unique values and their counts."""
    values, _, counts = _unique(x)
    return UniqueCounts(values, counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return unique values and, for each element of x, the index of its value."""
    values, inverse, _ = _unique(x)
    return UniqueInverse(values, inverse)


def unique_values(x: Tensor, /) -> Tensor:
    """Return the distinct elements."""
    return _unique(x)[0]


# --- sorting --------------------------------------------------------------------------------------


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Return the indices that sort x along an axis; with `stable`, equal elements keep their
    order."""
    return gt.argsort(x, dim=axis, descending=descending, stable=stable)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort the elements along an axis."""
    return gt.sort(x, dim=axis, descending=descending, stable=stable).values
