"""Differences and integrals along a dimension: diff, gradient's finite differences, trapezoid.

Made of other operators. Source: aten/src/ATen/native/ReduceOps.cpp, Integration.cpp.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core import errors
from ..core.dtype import BOOL
from ..structured import arguments
from ..tensor.tensor import Tensor


def trace(key_set: int, self: Tensor) -> Tensor:
    if self._geometry.ndim != 2:
        raise errors.wrong_shape("trace", "self", "be a matrix", self)
    return calls.sum(calls.diagonal(self))


def _between(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """All elements along dim but the first, and all but the last."""
    n = x._geometry.sizes[dim]
    ahead = calls.slice_Tensor(x, dim, 1, n, 1)
    return ahead, calls.slice_Tensor(x, dim, 0, max(n - 1, 0), 1)


def diff(
    key_set: int, self: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    ndim = self._geometry.ndim
    if ndim == 0:
        raise errors.wrong_shape("diff", "self", "have at least one dimension", self)
    axis = arguments.dim("diff", dim, ndim)
    if arguments.integer("diff", "n", n) < 0:
        raise errors.must("diff", "n", "not be negative", n)
    for arg, x in (("prepend", prepend), ("append", append)):
        if x is not None and x._geometry.ndim != ndim:
            raise errors.wrong_shape("diff", arg, f"have {ndim} dimensions, as self", x)
    parts = [x for x in (prepend, self, append) if x is not None]
    found = calls.cat(parts, axis) if len(parts) > 1 else self
    if n == 0:
        return calls.clone(found)
    for _ in range(min(n, found._geometry.sizes[axis])):
        ahead, behind = _between(found, axis)
        is_bool = found._geometry.dtype.category == BOOL
        found = (calls.ne_Tensor if is_bool else calls.sub_Tensor)(ahead, behind)
    return found


def _widths(op: str, y: Tensor, x: Tensor, axis: int) -> Tensor:
    """Distances between the points x, as y is spread out."""
    if x._geometry.ndim == 1:
        if x._geometry.numel != y._geometry.sizes[axis]:
            rule = f"have {y._geometry.sizes[axis]} points, as y along dim"
            raise errors.wrong_shape(op, "x", rule, x)
        ahead, behind = _between(x, 0)
        sizes = [1] * y._geometry.ndim
        sizes[axis] = -1
        return calls.view(ahead - behind, tuple(sizes))
    extra = y._geometry.ndim - x._geometry.ndim
    if extra > 0:
        x = calls.view(x, (*(1,) * extra, *x._geometry.sizes))
    ahead, behind = _between(x, axis)
    return ahead - behind


def _heights(y: Tensor, axis: int) -> Tensor:
    ahead, behind = _between(y, axis)
    return ahead + behind


def _trapezoid(op: str, y: Tensor, x: Any, dim: int) -> tuple[Tensor, int]:
    """Areas of the parts, and the dimension."""
    axis = arguments.dim(op, dim, y._geometry.ndim)
    if y._geometry.ndim == 0:
        raise errors.wrong_shape(op, "y", "have at least one dimension", y)
    for arg, given in (("y", y), ("x", x)):
        if isinstance(given, Tensor) and given._geometry.dtype.category == BOOL:
            raise errors.wrong_dtype(op, arg, "not be bool", given)
    width: Any = _widths(op, y, x, axis) if isinstance(x, Tensor) else x
    return _heights(y, axis) * width / 2.0, axis


def trapezoid_x(key_set: int, y: Tensor, x: Tensor, dim: int = -1) -> Tensor:
    areas, axis = _trapezoid("trapezoid", y, x, dim)
    return calls.sum_dim_IntList(areas, (axis,), False)


def trapezoid_dx(key_set: int, y: Tensor, dx: Any = 1, dim: int = -1) -> Tensor:
    areas, axis = _trapezoid("trapezoid", y, dx, dim)
    return calls.sum_dim_IntList(areas, (axis,), False)


def cumulative_trapezoid_x(key_set: int, y: Tensor, x: Tensor, dim: int = -1) -> Tensor:
    areas, axis = _trapezoid("cumulative_trapezoid", y, x, dim)
    return calls.cumsum(areas, axis, dtype=None)


def cumulative_trapezoid_dx(key_set: int, y: Tensor, dx: Any = 1, dim: int = -1) -> Tensor:
    areas, axis = _trapezoid("cumulative_trapezoid", y, dx, dim)
    return calls.cumsum(areas, axis, dtype=None)
