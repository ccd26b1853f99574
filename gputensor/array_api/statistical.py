"""Statistics over axes, and the utilities `all`, `any` and `diff`.

For PyTorch an empty tuple of axes means all axes, for the standard no axis; see `over`. Sums and
products of small integers are int64 or uint64; PyTorch always returns int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import gputensor as gt
from gputensor import Tensor, dtype

from .dtypes import promoted

Axes = int | tuple[int, ...] | None


def over(
    op: Callable[..., Tensor], x: Tensor, axis: Axes, keepdims: bool, **more: object
) -> Tensor:
    """Apply an operator over axes. None means all axes, () means no axis."""
    if axis == ():
        # no axis: reduce over a new axis of size 1, so that each element is its own slice
        return op(x.unsqueeze(-1), (-1,), keepdim=False, **more)
    return op(x, tuple(range(x.ndim)) if axis is None else axis, keepdim=keepdims, **more)


def _sum_dtype(x: Tensor, given: dtype | None) -> dtype | None:
    if given is not None or x.dtype.category != 1 or x.dtype.is_signed:
        return given
    return gt.uint64


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: dtype | None = None,
    include_initial: bool = False,
) -> Tensor:  # fmt: skip
    """Cumulative products; if include_initial is True, the first one is 1."""
    return _running(gt.cumprod, 1, x, axis, dtype, include_initial)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: dtype | None = None,
    include_initial: bool = False,
) -> Tensor:  # fmt: skip
    """Cumulative sums; if include_initial is True, the first one is 0."""
    return _running(gt.cumsum, 0, x, axis, dtype, include_initial)


def _running(
    op: Callable[..., Tensor], initial: int, x: Tensor, axis: int | None, given: dtype | None,
    include_initial: bool,
) -> Tensor:  # fmt: skip
    if axis is None:
        x, axis = x.reshape(-1) if x.ndim != 1 else x, 0
    found = op(x, axis, dtype=_sum_dtype(x, given))
    if not include_initial:
        return found
    sizes = list(x.shape)
    sizes[axis] = 1
    return gt.concat([gt.full(sizes, initial, dtype=found.dtype, device=x.device), found], axis)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest element, or NaN if an element is NaN."""
    return over(gt.amax, x, axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean."""
    return over(gt.mean, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest element, or NaN if an element is NaN."""
    return over(gt.amin, x, axis, keepdims)


def prod(
    x: Tensor, /, *, axis: Axes = None, dtype: dtype | None = None, keepdims: bool = False
) -> Tensor:
    """The product of the elements."""
    element = _sum_dtype(x, dtype)
    if isinstance(axis, int):
        return gt.prod(x, axis, keepdims, dtype=element)
    # the operator takes one axis: merge the reduced axes
    axes = range(x.ndim) if axis is None else [a % x.ndim for a in axis]
    kept = [a for a in range(x.ndim) if a not in axes]
    sizes = [1 if a in axes else n for a, n in enumerate(x.shape)]
    count = math.prod([x.shape[a] for a in axes])
    flat = x.permute((*kept, *axes)).reshape((*[x.shape[a] for a in kept], count))
    found = gt.prod(flat, -1, dtype=element)
    return found.reshape(sizes) if keepdims else found


def std(
    x: Tensor, /, *, axis: Axes = None, correction: int | float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation. The divisor is the number of elements minus `correction`."""
    return over(gt.std, x, axis, keepdims, correction=correction)


def sum(
    x: Tensor, /, *, axis: Axes = None, dtype: dtype | None = None, keepdims: bool = False
) -> Tensor:
    """The sum of the elements."""
    element = _sum_dtype(x, None) if dtype is None else dtype
    if axis is None or axis == ():
        return over(gt.sum, x, axis, keepdims, dtype=element)
    return gt.sum(x, axis, keepdims, dtype=element)


def var(
    x: Tensor, /, *, axis: Axes = None, correction: int | float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance. The divisor is the number of elements minus `correction`."""
    return over(gt.var, x, axis, keepdims, correction=correction)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """True if all elements are true."""
    return over(gt.all, x.to(gt.bool), axis, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """True if at least one element is true."""
    return over(gt.any, x.to(gt.bool), axis, keepdims)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The n-th differences of adjacent elements along an axis."""
    given = [part for part in (prepend, x, append) if part is not None]
    whole = gt.concat(promoted("diff", given), axis) if len(given) > 1 else x
    return gt.diff(whole, n, axis)
