"""Differences and integrals along a dimension: diff, gradient (finite differences), trapezoid.

They are composed of other operators. Source: aten/src/ATen/native/ReduceOps.cpp, Integration.cpp.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import number
from ..core.device import CPU
from ..core.dtype import BOOL, FLOATING, float32, float64
from ..dispatch.shortcuts import CPU as CPU_CALL, jumps
from ..kernels import stub
from ..structured import arguments
from ..structured.shortcuts import computed as short, results
from ..tensor.tensor import Tensor
from .criterion import SUM, reducing


def trace(key_set: int, self: Tensor) -> Tensor:
    if self._geometry.ndim != 2:
        raise errors.wrong_shape("trace", "self", "be a matrix", self)
    made, shape = calls.sum(calls.diagonal(self)), self._geometry
    if made._device is CPU and shape.dtype in (float32, float64) and shape.numel:
        total = reducing(shape.dtype, min(shape.sizes), SUM)
        make = short.made_new(lambda x: total(x.diagonal()), made._geometry)
        short.learn_again(operators.trace.table, trace, (self,), make)
    return made


jumps(trace, lambda: (
    (operators.diagonal, CPU_CALL, "slicing.diagonal"),
    (operators.sum, CPU_CALL, "reduce._over_all_cpu.<locals>.kernel"),
))  # fmt: skip


def _between(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return two views along dim: without the first element, and without the last element."""
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
    n = arguments.integer("diff", "n", n, least=0)
    for arg, x in (("prepend", prepend), ("append", append)):
        if x is not None and x._geometry.ndim != ndim:
            raise errors.wrong_shape("diff", arg, f"have {ndim} dimensions, as self", x)
    if n == 0:  # For n = 0, prepend and append are ignored, as in PyTorch.
        return calls.clone(self)
    parts = [x for x in (prepend, self, append) if x is not None]
    found = calls.cat(parts, axis) if len(parts) > 1 else self
    for _ in range(min(n, found._geometry.sizes[axis])):
        ahead, behind = _between(found, axis)
        is_bool = found._geometry.dtype.category == BOOL
        found = (calls.ne_Tensor if is_bool else calls.sub_Tensor)(ahead, behind)
    if n == 1 and len(parts) == 1:
        _learn_diff((self, n, dim, prepend, append), found, axis)
    return found


def _learn_diff(args: tuple[Any, ...], made: Tensor, axis: int) -> None:
    """Store the short cut of `diff` for neighbours, once a call is repeated."""
    shape = made._geometry
    allocate, of = short.new_array(shape), shape.dtype
    if made._device is not CPU or allocate is None or of.category != FLOATING:
        return
    subtract = stub.cpu_loop("binary", "sub", (of, of), of, of)
    before = (slice(None),) * axis
    ahead, behind = (*before, slice(1, None)), (*before, slice(0, -1))

    def compute(x: Any) -> Any:
        out = allocate()
        subtract(x[ahead], x[behind], out)
        return out

    # Five arguments follow self, two more than a form of made_new supports.
    results.learn(operators.diff.table, diff, args, made, compute, is_new=True)


jumps(diff, lambda: (
    (operators.slice_Tensor, CPU_CALL, "slicing.slice"),
    (operators.sub_Tensor, CPU_CALL, "structured.pointwise.cpu.binary.<locals>.kernel"),
))  # fmt: skip


def _widths(op: str, y: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return the distances between the points x, shaped to broadcast with y."""
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


def _axis(op: str, y: Tensor, x: Any, dim: int) -> int:
    """Check the points and the heights of an integral. Return its dimension."""
    axis = arguments.dim(op, dim, y._geometry.ndim)
    if y._geometry.ndim == 0:
        raise errors.wrong_shape(op, "y", "have at least one dimension", y)
    for arg, given in (("y", y), ("x", x)):
        if isinstance(given, Tensor) and given._geometry.dtype.category == BOOL:
            raise errors.wrong_dtype(op, arg, "not be bool", given)
    return axis


def _trapezoid(op: str, y: Tensor, x: Any, dim: int) -> tuple[Tensor, int]:
    """Return the areas of the trapezoids between neighbouring points, and the dimension."""
    axis = _axis(op, y, x, dim)
    width: Any = _widths(op, y, x, axis) if isinstance(x, Tensor) else x
    return _heights(y, axis) * width / 2.0, axis


def trapezoid_x(key_set: int, y: Tensor, x: Tensor, dim: int = -1) -> Tensor:
    areas, axis = _trapezoid("trapezoid", y, x, dim)
    return calls.sum_dim_IntList(areas, (axis,), False)


def _step(op: str, dx: Any) -> Any:
    """Return the spacing as a Python number, because a tensor would affect promotion."""
    found = number(dx)
    if found is None or isinstance(found, (bool, complex)):
        raise errors.wrong_type(op, "dx", "be a real number", dx)
    return found


def trapezoid_dx(key_set: int, y: Tensor, dx: Any = 1, dim: int = -1) -> Tensor:
    """Return the sum of all heights without half of the first and of the last one, times dx.
    Source: aten/src/ATen/native/Integration.cpp, do_trapezoid."""
    step, axis = _step("trapezoid", dx), _axis("trapezoid", y, dx, dim)
    if y._geometry.sizes[axis] == 0:
        return calls.sum_dim_IntList(y, (axis,), False, dtype=y._geometry.dtype)
    total = calls.sum_dim_IntList(y, (axis,), False)
    first, last = [calls.select_int(y, axis, place) for place in (0, -1)]
    made: Tensor = (total - first * 0.5 - last * 0.5) * step
    return made


def cumulative_trapezoid_x(key_set: int, y: Tensor, x: Tensor, dim: int = -1) -> Tensor:
    areas, axis = _trapezoid("cumulative_trapezoid", y, x, dim)
    return calls.cumsum(areas, axis, dtype=None)


def cumulative_trapezoid_dx(key_set: int, y: Tensor, dx: Any = 1, dim: int = -1) -> Tensor:
    op = "cumulative_trapezoid"
    areas, axis = _trapezoid(op, y, _step(op, dx), dim)
    return calls.cumsum(areas, axis, dtype=None)


# --- gradient -------------------------------------------------------------------------------------


def gradient(
    key_set: int, self: Tensor, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> list[Tensor]:
    """Return the finite differences along each dimension. spacing: one number, or for each
    dimension a number or a tensor of coordinates.

    Source: aten/src/ATen/native/ReduceOps.cpp, gradient.
    """
    op, ndim = "gradient", self._geometry.ndim
    if self._geometry.dtype.category == BOOL:
        raise errors.wrong_dtype(op, "self", "not be bool", self)
    dims = tuple(range(ndim)) if dim is None else arguments.dims(op, dim, ndim)
    if edge_order not in (1, 2):
        raise errors.must(op, "edge_order", "be 1 or 2", edge_order)
    if isinstance(spacing, (list, tuple)):
        if len(spacing) != len(dims):
            raise errors.must(op, "spacing", f"hold {len(dims)} spacings", spacing)
    else:
        spacing = (1 if spacing is None else spacing,) * len(dims)
    for d in dims:
        if self._geometry.sizes[d] <= edge_order:
            rule = f"have more than {edge_order} elements along dim {d}"
            raise errors.wrong_shape(op, "self", rule, self)
    return [_slope(self, h, d, edge_order) for h, d in zip(spacing, dims)]


def gradient_array(key_set: int, self: Tensor, dim: Any, edge_order: int = 1) -> list[Tensor]:
    return gradient(key_set, self, None, dim, edge_order)


def _slope(f: Tensor, spacing: Any, d: int, order: int) -> Tensor:
    """Return the gradient along one dimension. Inner points use three neighbours. Points at the
    border use the `order` + 1 elements at that border."""
    n = f._geometry.sizes[d]

    def at(first: int, count: int = 1) -> Tensor:
        return calls.narrow(f, d, first, count)

    if not isinstance(spacing, Tensor):
        inner = calls.narrow(f, d, 2, n - 2) - calls.narrow(f, d, 0, n - 2)
        if order == 1:
            edges = at(1) - at(0), at(n - 1) - at(n - 2)
        else:
            edges = (
                -1.5 * at(0) + 2.0 * at(1) - 0.5 * at(2),
                1.5 * at(n - 1) - 2.0 * at(n - 2) + 0.5 * at(n - 3),
            )
        return calls.cat((edges[0] / spacing, inner / spacing / 2, edges[1] / spacing), d)
    if spacing._geometry.sizes != (n,):
        raise errors.wrong_shape("gradient", "spacing", f"hold {n} coordinates", spacing)
    sizes = [1] * f._geometry.ndim
    sizes[d] = -1
    ahead, behind = _between(spacing, 0)
    apart = calls.reshape(ahead - behind, tuple(sizes))
    h1, h2 = calls.narrow(apart, d, 0, n - 2), calls.narrow(apart, d, 1, n - 2)
    a, b = -h2 / (h1 * (h1 + h2)), (h2 - h1) / (h1 * h2)
    c = h1 / (h2 * (h1 + h2))
    inner = a * at(0, n - 2) + b * at(1, n - 2) + c * at(2, n - 2)
    first, last = calls.narrow(apart, d, 0, 1), calls.narrow(apart, d, n - 2, 1)
    if order == 1:
        edges = (at(1) - at(0)) / first, (at(n - 1) - at(n - 2)) / last
    else:
        second, before = calls.narrow(apart, d, 1, 1), calls.narrow(apart, d, n - 3, 1)
        edges = (
            _parabola(at(0), at(1), at(2), first, second),
            -_parabola(at(n - 1), at(n - 2), at(n - 3), last, before),
        )
    return calls.cat((edges[0], inner, edges[1]), d)


def _parabola(f0: Tensor, f1: Tensor, f2: Tensor, h1: Tensor, h2: Tensor) -> Tensor:
    """Return the slope at f0 of the parabola through f0, f1 and f2, which are h1 and h2 apart."""
    whole = h1 + h2
    return -(h1 + whole) / (h1 * whole) * f0 + whole / (h1 * h2) * f1 - h1 / (h2 * whole) * f2
