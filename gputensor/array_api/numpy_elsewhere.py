"""NumPy functions composed of several of our operators, for devices whose memory NumPy cannot
access.

For CPU tensors, NumPy itself computes all these functions except amax and amin; see
exchange/numpy/protocol.py. Arguments that are not tensors, such as the edges of bins, are moved to
the tensor's device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gputensor as gt
from gputensor import Tensor

from . import statistical
from ..core import errors

_METHODS = {"linear", "lower", "higher", "midpoint", "nearest"}


def amax(a: Tensor, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`np.max`, used on all devices. Raises: ValueError for an empty slice, as NumPy does."""
    _check_elements("max", a, axis)
    return statistical.max(a, axis=axis, keepdims=keepdims)


def amin(a: Tensor, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`np.min`, used on all devices. Raises: ValueError for an empty slice, as NumPy does."""
    _check_elements("min", a, axis)
    return statistical.min(a, axis=axis, keepdims=keepdims)


def _check_elements(op: str, a: Tensor, axis: Any) -> None:
    """Raise an error if a slice has no elements. The message contains NumPy's wording, because Dask
    calls reductions on empty arrays to find result dtypes, and searches the error for this
    wording."""
    if a.numel():
        return
    axes = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not all([a.shape[d] for d in axes]):
        got = errors.Got("zero-size array to reduction operation")
        raise errors.wrong_value(op, "a", "hold an element in each slice", got)


def angle(z: Tensor, *, deg: bool = False) -> Tensor:
    """`np.angle`."""
    found = gt.angle(z if z.is_complex() or z.is_floating_point() else z.double())
    return gt.rad2deg(found) if deg else found


def fix(x: Tensor) -> Tensor:
    """`np.fix`."""
    return gt.trunc(x)


def iscomplex(x: Tensor) -> Tensor:
    """`np.iscomplex`."""
    return gt.imag(x) != 0 if x.is_complex() else gt.zeros_like(x, dtype=gt.bool)


def isreal(x: Tensor) -> Tensor:
    """`np.isreal`."""
    return ~iscomplex(x)


def nanprod(a: Tensor, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """`np.nanprod`: NaN counts as 1."""
    kept = gt.where(gt.isnan(a), 1, a)
    return statistical.prod(kept, axis=axis, dtype=dtype, keepdims=keepdims)


def quantile(
    a: Tensor, q: Any, *, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`np.quantile`. Raises: KeyError for a method that `gt.quantile` lacks."""
    if method not in _METHODS:
        raise KeyError(method)
    a = a if a.is_floating_point() else a.double()
    q = _beside(a, q).to(a.dtype)
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
    return quantile(a, (q.double() if isinstance(q, Tensor) else np.asarray(q)) / 100, **options)


def median(a: Tensor, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`np.median`: the mean of the middle two for an even number of elements."""
    return quantile(a, 0.5, axis=axis, keepdims=keepdims)


def partition(a: Tensor, kth: Any, *, axis: int | None = -1) -> Tensor:
    """`np.partition`. The result is fully sorted, which NumPy does not require."""
    return gt.sort(a.ravel() if axis is None else a, 0 if axis is None else axis)[0]


def argpartition(a: Tensor, kth: Any, *, axis: int | None = -1) -> Tensor:
    """`np.argpartition`. The indices sort the tensor fully, which NumPy does not require."""
    return gt.argsort(a.ravel() if axis is None else a, 0 if axis is None else axis)


def diag(v: Tensor, *, k: int = 0) -> Tensor:
    """`np.diag`."""
    return gt.diag(v, k)


def diff(
    a: Tensor, *, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Tensor:
    """`np.diff` with prepend or append. A number or 0-d array is expanded to one slice."""

    def slices(given: Any) -> Tensor | None:
        if given is None:
            return None
        x = _beside(a, given)
        sizes = [1 if d == axis % a.ndim else size for d, size in enumerate(a.shape)]
        return x if x.ndim else x.expand(sizes)

    if n == 0:
        return a
    return statistical.diff(a, n=n, axis=axis, prepend=slices(prepend), append=slices(append))


def dot(a: Any, b: Any) -> Tensor:
    """`np.dot`: sums over the last axis of `a` and the second-last of `b`."""
    a, b = (_beside(b, a), b) if isinstance(b, Tensor) else (a, _beside(a, b))
    if not a.ndim or not b.ndim:
        made: Tensor = a * b
        return made
    element = gt.result_type(a, b)
    return gt.tensordot(a.to(element), b.to(element), ([-1], [b.ndim - 2 if b.ndim > 1 else 0]))


def linspace(
    start: Any, stop: Any, *, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Tensor:
    """`np.linspace` with bounds that may be tensors. Results of integer dtypes are rounded down."""
    like = start if isinstance(start, Tensor) else stop
    made = gt.float64 if not like.is_floating_point() else like.dtype
    low, high = (_beside(like, x).to(made) for x in (start, stop))
    count = num - 1 if endpoint else num
    steps = gt.arange(num, dtype=made, device=like.device) / (count or 1)
    steps = steps.reshape((-1,) + (1,) * max(low.ndim, high.ndim))
    found = low + (high - low) * steps
    if endpoint and num > 1:
        found[-1] = high
    if dtype is not None:
        found = (found if dtype.is_floating_point else found.floor()).to(dtype)
    return found.movedim(0, axis) if axis else found


def nanargmax(a: Tensor, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """`np.nanargmax`. Waits for the device. Raises: ValueError if a slice holds only NaN."""
    return gt.argmax(_numbers("nanargmax", a, axis, -gt.inf), axis, keepdims)


def nanargmin(a: Tensor, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """`np.nanargmin`. Waits for the device. Raises: ValueError if a slice holds only NaN."""
    return gt.argmin(_numbers("nanargmin", a, axis, gt.inf), axis, keepdims)


def _numbers(op: str, a: Tensor, axis: int | None, otherwise: float) -> Tensor:
    """Replace NaN by the number `otherwise`. Raises: ValueError if a slice holds only NaN."""
    if not a.is_floating_point():
        return a
    is_nan = gt.isnan(a)
    if (is_nan.all() if axis is None else is_nan.all(axis).any()).item():
        raise errors.wrong_value(op, "a", "hold a number in each slice", errors.Got("NaN alone"))
    return gt.where(is_nan, otherwise, a)


def nanmax(a: Tensor, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`np.nanmax`: NaN for a slice that holds only NaN."""
    return _extreme(gt.amax, a, axis, keepdims, -gt.inf)


def nanmin(a: Tensor, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`np.nanmin`: NaN for a slice that holds only NaN."""
    return _extreme(gt.amin, a, axis, keepdims, gt.inf)


def _extreme(op: Any, a: Tensor, axis: Any, keepdims: bool, otherwise: float) -> Tensor:
    axes = tuple(range(a.ndim)) if axis is None else axis
    if not a.is_floating_point():
        found: Tensor = op(a, axes, keepdims)
        return found
    is_nan = gt.isnan(a)
    found = op(gt.where(is_nan, otherwise, a), axes, keepdims)
    return gt.where(gt.all(is_nan, axes, keepdims), gt.nan, found)


def unique(
    ar: Tensor, *, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:  # fmt: skip
    """`np.unique` of all elements, sorted. `return_index` gives the first index of each value."""
    flat = ar.reshape(-1)
    found, inverse, counts = gt.unique(flat, return_inverse=True, return_counts=True)
    more: list[Tensor] = []
    if return_index:
        order = gt.argsort(inverse, stable=True)
        more.append(order[gt.cumsum(counts, 0) - counts])
    if return_inverse:
        more.append(inverse.reshape(ar.shape))
    if return_counts:
        more.append(counts)
    return (found, *more) if more else found


def ravel_multi_index(multi_index: Sequence[Tensor], dims: Sequence[int]) -> Tensor:
    """`np.ravel_multi_index` in C order. Indices must be within the sizes."""
    found = multi_index[0]
    for x, size in zip(multi_index[1:], dims[1:]):
        found = found * size + x
    return found


def take(a: Tensor, indices: Any, *, axis: int | None = None) -> Tensor:
    """`np.take` by advanced indexing, which accepts indices of all kinds on all devices."""
    if axis is None:
        return a.reshape(-1)[indices]
    return a[(slice(None),) * (axis % a.ndim) + (indices,)]


def bincount(x: Tensor, *, weights: Any = None, minlength: int = 0) -> Tensor:
    """`np.bincount`."""
    return gt.bincount(x, None if weights is None else _beside(x, weights), minlength)


def digitize(x: Tensor, bins: Any, *, right: bool = False) -> Tensor:
    """`np.digitize`. Waits for the device if `bins` is a tensor. Raises: KeyError for decreasing
    bins, which `gt.bucketize` does not accept."""
    bounds = bins if isinstance(bins, Tensor) else np.asarray(bins)
    if (bounds[1:] < bounds[:-1]).any():
        raise KeyError("bins")
    return gt.bucketize(x, _beside(x, bounds), right=not right)


def histogram(
    a: Tensor, *, bins: Any = 10, range: Any = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    """`np.histogram`: counts and edges; the last bin includes its right edge."""
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
    """Return `value` as a tensor on x's device, in the dtype of x if x is floating-point. Return a
    tensor unchanged."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    element = x.dtype if x.is_floating_point() else None
    return gt.tensor(array, dtype=element, device=x.device)
