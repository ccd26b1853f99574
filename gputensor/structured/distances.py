"""Gradients of distances, composed of differentiable operators."""

from __future__ import annotations

from .._generated import calls, functions
from ..tensor.tensor import Tensor


def share(x: Tensor, whole: Tensor) -> Tensor:
    """Return x / whole, with zeros where `whole` is zero."""
    is_zero = whole == 0
    return functions.where(is_zero, 0.0, x / functions.where(is_zero, 1.0, whole))


def power_slope(x: Tensor, p: float) -> Tensor:
    """Return sgn(x) * |x| ** (p - 1), with zeros where x is zero."""
    if p >= 2:
        return x * x.abs() ** (p - 2)
    is_zero = x == 0
    return functions.where(
        is_zero, 0.0, functions.sgn(x) * functions.where(is_zero, 1, x).abs() ** (p - 1)
    )


def _distance_slope(apart: Tensor, p: float, size: Tensor) -> Tensor:
    if p == 0:
        return functions.zeros_like(apart)
    if p == 1:
        return functions.sgn(apart)
    if p == 2:
        return share(apart, size)
    if p == float("inf"):
        return functions.where(apart.abs() == size, functions.sgn(apart), 0.0)
    return share(power_slope(apart, p), size ** (p - 1))


def cdist_slope(grad: Tensor, x1: Tensor, x2: Tensor, p: float, result: Tensor) -> Tensor:
    """Return the gradient with respect to x1, of sizes (..., P, M). Its batch dimensions are those
    of `result`, whose sizes are (..., P, R)."""
    if not x1._geometry.sizes[-1] or not result._geometry.numel:
        return functions.zeros_like(x1)
    apart = calls.unsqueeze(x1, -2) - calls.unsqueeze(x2, -3)
    found = _distance_slope(apart, p, calls.unsqueeze(result, -1)) * calls.unsqueeze(grad, -1)
    return calls.sum_dim_IntList(found, (-2,), False)


def pdist_slope(grad: Tensor, self: Tensor, p: float, result: Tensor) -> Tensor:
    made = calls.new_zeros(self, self._geometry.sizes)
    rows, start = self._geometry.sizes[0], 0
    for r in range(rows - 1):
        count = rows - 1 - r
        size = calls.unsqueeze(calls.slice_Tensor(result, 0, start, start + count, 1), -1)
        part = calls.unsqueeze(calls.slice_Tensor(grad, 0, start, start + count, 1), -1)
        apart = calls.select_int(self, 0, r) - calls.slice_Tensor(self, 0, r + 1, rows, 1)
        slope = _distance_slope(apart, p, size) * part
        head = functions.zeros_like(calls.slice_Tensor(self, 0, 0, r, 1))
        own = calls.sum_dim_IntList(slope, (0,), True)
        made = made + calls.cat([head, own, -slope], 0)
        start += count
    return made
