"""Rows of means of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, bool_, float16, float32, float64

from . import Fails, Row, S, T

FLOATS = (float16, bfloat16, float32, float64)
KIND: Any = {
    "ulp": {float16: 1, bfloat16: 1, float32: 4, float64: 4}, "device_ulp": 4, "dtypes": FLOATS,
    "why": "sums of at most some dozens of terms that are exact, and one division for each",
    "zeros_equal": True,
}  # fmt: skip


def full(value: Any, count: int) -> tuple[int, ...]:
    found = (value,) if isinstance(value, int) else tuple(value)
    return found * count if len(found) == 1 else found


def windows(x, count, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    """Yield (cell, indices of its elements that are not padding, along each dimension)."""
    k, p, d = (full(v, count) for v in (kernel, padding, dilation))
    s = full(stride, count) if stride != () else k
    out = []
    for n, a, b, c, e in zip(x.shape[-count:], k, s, p, d):
        made = (n + 2 * c - e * (a - 1) - 1 + (b - 1 if ceil_mode else 0)) // b + 1
        out.append(made - (ceil_mode and (made - 1) * b >= n + c))
    found = []
    for cell in np.ndindex(*out):
        at = [[i * b - c + t * e for t in range(a)] for i, a, b, c, e in zip(cell, k, s, p, d)]
        found.append((cell, [[i for i in r if 0 <= i < n] for r, n in zip(at, x.shape[-count:])]))
    ends = [n + c for n, c in zip(x.shape[-count:], p)]
    return out, found, [(a, b, c, e) for a, b, c, e in zip(k, s, p, ends)]


def _avg(count: int) -> Any:
    def avg(x, kernel, stride=(), padding=0, ceil_mode=False, include=True, override=None):
        out, cells, rules = windows(x, count, kernel, stride, padding, 1, ceil_mode)
        made = np.zeros((*x.shape[: x.ndim - count], *out))
        for cell, inside in cells:
            total = x.astype(np.float64)[(..., *np.ix_(*inside))].sum(tuple(range(-count, 0)))
            by = override
            if by is None:
                sizes = [
                    min(i * s - p + k, end) - (i * s - p) for i, (k, s, p, end) in zip(cell, rules)
                ]
                by = np.prod(sizes if include else [len(r) for r in inside])
            made[(..., *cell)] = total / by
        return made

    return avg  # fmt: skip


def adaptive(x: np.ndarray, output_size: Any, count: int) -> Any:
    out = full(output_size, count)
    for cell in np.ndindex(*out):
        yield (
            cell,
            [
                list(range(i * n // o, -((i + 1) * n // -o)))
                for i, n, o in zip(cell, x.shape[-count:], out)
            ],
        )


def _adaptive_avg(count: int) -> Any:
    def avg(x, output_size):
        made = np.zeros((*x.shape[: x.ndim - count], *full(output_size, count)))
        for cell, inside in adaptive(x, output_size, count):
            part = x.astype(np.float64)[(..., *np.ix_(*inside))]
            made[(..., *cell)] = part.mean(tuple(range(-count, 0)))
        return made

    return avg


def _through(forward: Any, places: int) -> Any:
    """Return the gradient of a linear function of x, computed with basis vectors."""

    def backward(grad, x, *args):
        found = []
        for at in np.ndindex(*x.shape):
            basis = np.zeros(x.shape)
            basis[at] = 1
            found.append((forward(basis, *args) * grad.astype(np.float64)).sum())
        return np.array(found).reshape(x.shape)

    return backward


def pool_errors(op: str) -> tuple[Fails, ...]:
    return (
        Fails(
            S(T(1, 1, 3, 3), 2, 1, 2), errors.ArgumentError, f"{op}: 'padding' must be at most half"
        ),
        Fails(
            S(T(1, 1, 3, 3), 4), errors.ShapeError, f"{op}: 'self' must be as large as the kernel"
        ),
        Fails(S(T(3), 2), errors.ShapeError, f"{op}: 'self' must have 3 dimensions, or 4"),
        Fails(S(T(1, 1, 3, 3), 2), errors.DtypeError, f"{op}: 'self' must be", bool_),
    )  # fmt: skip


ROWS = [
    Row("adaptive_avg_pool1d", [S(T(2, 3, 5), 3), S(T(3, 4), [2])], _adaptive_avg(1), **KIND),
    Row(
        "adaptive_avg_pool2d",
        [S(T(1, 2, 5, 4), [3, 2]), S(T(1, 2, 4, 4), [1, 1])], _adaptive_avg(2), **KIND,
    ),
    Row("_adaptive_avg_pool2d", [S(T(1, 2, 5, 4), [3, 2])], _adaptive_avg(2), **KIND),
    Row(
        "_adaptive_avg_pool2d_backward", [S(T(1, 2, 2, 2), T(1, 2, 3, 4))],
        lambda g, x: _through(_adaptive_avg(2), 2)(g, x, [2, 2]), **KIND,
    ),
    Row("adaptive_avg_pool3d", [S(T(1, 1, 3, 3, 2), [2, 2, 1])], _adaptive_avg(3), **KIND),
    Row("_adaptive_avg_pool3d", [S(T(1, 1, 3, 3, 2), [2, 2, 2])], _adaptive_avg(3), **KIND),
    Row(
        "_adaptive_avg_pool3d_backward", [S(T(1, 1, 2, 1, 2), T(1, 1, 3, 2, 2))],
        lambda g, x: _through(_adaptive_avg(3), 3)(g, x, [2, 1, 2]), **KIND,
    ),
    Row("avg_pool1d", [S(T(2, 3, 6), 3, 2, 1), S(T(3, 5), 2)], _avg(1), **KIND),
    Row(
        "avg_pool2d",
        [S(T(1, 2, 5, 4), 2), S(T(1, 2, 5, 5), [3, 2], [2, 1], 1, True),
         S(T(2, 5, 5), 3, 2, 1, True, False),
         S(T(1, 2, 4, 4), 2, 1, 0, False, True, 3)],
        _avg(2), errors=pool_errors("avg_pool2d"), **KIND,
    ),
    Row(
        "avg_pool2d_backward",
        [S(T(1, 2, 3, 3), T(1, 2, 4, 4), [3, 3], [2, 2], [1, 1], True, False, None)],
        _through(_avg(2), 2), **KIND,
    ),
    Row("avg_pool3d", [S(T(1, 1, 3, 4, 4), 2, 1, 1)], _avg(3), **KIND),
    Row(
        "avg_pool3d_backward",
        [S(T(1, 1, 2, 1, 1), T(1, 1, 3, 2, 2), [2] * 3, [1] * 3, [0] * 3, False, True, None)],
        _through(_avg(3), 3), **KIND,
    ),
]  # fmt: skip
