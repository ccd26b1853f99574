"""Functions of NumPy's that are several operators of ours, for devices that NumPy does not reach.

On the CPU NumPy computes them on the tensors' memory, see exchange/numpy_protocol.py. Arguments
that are no tensors, as bounds of bins are, go to the tensor's device, as numbers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gputensor as gt
from gputensor import Tensor

from ..core import errors

_METHODS = {"linear", "lower", "higher", "midpoint", "nearest"}


def quantile(
    a: Tensor, q: Any, *, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`np.quantile`. Raises: KeyError for a method that `gt.quantile` lacks."""
    if method not in _METHODS:
        raise KeyError(method)
    a = a if a.is_floating_point() else a.double()
    q = _beside(a, q)
    if not isinstance(axis, (tuple, list)):
        return gt.quantile(a, q, axis, keepdims, interpolation=method)
    along = sorted(d % a.ndim for d in axis)
    rest = [d for d in range(a.ndim) if d not in along]
    flat = a.permute(*rest, *along).flatten(len(rest)) if along else a.unsqueeze(-1)
    made = gt.quantile(flat, q, -1, interpolation=method)
    for d in along if keepdims else ():
        made = made.unsqueeze(d + q.ndim)
    return made


def percentile(a: Tensor, q: Any, **options: Any) -> Tensor:
    """`np.percentile`."""
    return quantile(a, np.asarray(q) / 100, **options)


def median(a: Tensor, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`np.median`: of an even number of elements the mean of the middle two."""
    return quantile(a, 0.5, axis=axis, keepdims=keepdims)


def partition(a: Tensor, kth: Any, *, axis: int | None = -1) -> Tensor:
    """`np.partition`, sorted wholly."""
    return gt.sort(a.ravel() if axis is None else a, 0 if axis is None else axis)[0]


def argpartition(a: Tensor, kth: Any, *, axis: int | None = -1) -> Tensor:
    """`np.argpartition`, sorted wholly."""
    return gt.argsort(a.ravel() if axis is None else a, 0 if axis is None else axis)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """`np.unravel_index` of C order."""
    found = []
    for size in reversed(shape if isinstance(shape, Sequence) else (shape,)):
        found.append(indices % size)
        indices = indices // size
    return tuple(reversed(found))


def ravel_multi_index(multi_index: Sequence[Tensor], dims: Sequence[int]) -> Tensor:
    """`np.ravel_multi_index` of C order; indices are within the sizes."""
    found = multi_index[0]
    for x, size in zip(multi_index[1:], dims[1:]):
        found = found * size + x
    return found


def take(a: Tensor, indices: Any, *, axis: int | None = None) -> Tensor:
    """`np.take` by indexing, which takes what an index may be on every device."""
    if axis is None:
        return a.reshape(-1)[indices]
    return a[(slice(None),) * (axis % a.ndim) + (indices,)]


def bincount(x: Tensor, *, weights: Any = None, minlength: int = 0) -> Tensor:
    """`np.bincount`."""
    return gt.bincount(x, None if weights is None else _beside(x, weights), minlength)


def digitize(x: Tensor, bins: Any, *, right: bool = False) -> Tensor:
    """`np.digitize`. Raises: KeyError where the bins fall, which `gt.bucketize` does not take."""
    bounds = np.asarray(bins)
    if (bounds[1:] < bounds[:-1]).any():
        raise KeyError("bins")
    return gt.bucketize(x, _beside(x, bounds), right=not right)


def histogram(
    a: Tensor, *, bins: Any = 10, range: Any = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    """`np.histogram`: counts, and the bounds, of which the last is within."""
    a = a.ravel()
    if isinstance(bins, (int, np.integer)):
        low, high = (a.min(), a.max()) if range is None else range
        bins = np.linspace(float(low), float(high), int(bins) + 1)
    edges = _beside(a, np.asarray(bins))
    n = len(edges) - 1
    if n < 1:
        raise errors.must("histogram", "bins", "hold two bounds at least", errors.Got(str(n + 1)))
    place = gt.bucketize(a, edges, right=True) - 1
    place = gt.where(a == edges[n], n - 1, place)
    inside = (a >= edges[0]) & (a <= edges[n])
    if weights is not None:
        weights = _beside(a, weights).ravel()
    return gt.bincount(gt.where(inside, place, n), weights, n + 1)[:n], edges


def _beside(x: Tensor, value: Any) -> Tensor:
    """A tensor on x's device, in its dtype where that is a float."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    element = x.dtype if x.is_floating_point() else None
    return gt.tensor(array, dtype=element, device=x.device)
