"""Rows of sampling. The references loop over positions; gradients are those of basis vectors."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, float16, float32, float64, int32

from . import Fails, Row, S, T

FLOATS = (float16, bfloat16, float32, float64)
_KIND: Any = {
    "dtypes": FLOATS, "zeros_equal": True,
    "ulp": {float16: 2, bfloat16: 2, float32: 64, float64: 64},
    "why": "places and weights are rounded, and cancel in gradients; f64 has differences of 2**-10",
}  # fmt: skip


def _cubic(x: float) -> float:
    x, a = abs(x), -0.75
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def _inside(x: float, n: int, padding: int, align: bool) -> float:
    if padding == 0:
        return x
    low, high = (0, n - 1) if align else (-0.5, n - 0.5)
    while padding == 2 and high > low and not low <= x <= high:
        x = 2 * (low if x < low else high) - x
    return min(max(x if high > low else 0, 0), n - 1)


def _taps(place: float, n: int, mode: int, padding: int, align: bool) -> list[tuple[int, float]]:
    """Yield (element, weight); elements outside of the image are omitted."""
    x = (place + 1) * (n - 1) / 2 if align else ((place + 1) * n - 1) / 2
    if mode == 2:
        first = math.floor(x)
        near = [(first + k, _cubic(x - first - k)) for k in range(-1, 3)]
        made = [(math.floor(_inside(i, n, padding, align)), w) for i, w in near]
    else:
        x = _inside(x, n, padding, align)
        first = math.floor(x)
        made = [(round(x), 1.0)] if mode else [(first, first + 1 - x), (first + 1, x - first)]
    return [(i, w) for i, w in made if 0 <= i < n]


def _sampled(x, grid, *options):
    sizes, out = x.shape[2:], grid.shape[1:-1]
    made = np.zeros((*x.shape[:2], *out))
    for n, *at in np.ndindex(grid.shape[0], *out):
        places = [float(p) for p in grid[(n, *at)]][::-1]
        for taps in product(*[_taps(p, m, *options) for p, m in zip(places, sizes)]):
            weight = math.prod(w for _, w in taps)
            element = x[(n, slice(None), *(i for i, _ in taps))].astype(np.float64)
            made[(n, slice(None), *at)] += element * weight
    return made


def _gradients(grad, x, grid, *options):
    *options, _ = options
    of_input, of_grid, step = np.zeros(x.shape), np.zeros(grid.shape), 2.0**-10

    def weighed(x, grid):
        return float((_sampled(x, grid, *options) * grad.astype(np.float64)).sum())

    for at in np.ndindex(*x.shape):
        basis = np.zeros(x.shape)
        basis[at] = 1
        of_input[at] = weighed(basis, grid)
    for at in np.ndindex(*grid.shape):  # linear within a cell
        moved = np.zeros(grid.shape)
        moved[at] = step
        of_grid[at] = (weighed(x, grid + moved) - weighed(x, grid - moved)) / (2 * step)
    return [of_input, np.where(abs(of_grid) < 1e-9, 0, of_grid)]


def _affine(theta, size, align):
    sizes = size[2:]
    ends = [np.linspace(-1, 1, n) * (1 if align else (n - 1) / n) * (n > 1) for n in sizes]
    base = [p[::-1] + (1.0,) for p in product(*ends)]
    made = np.array(base) @ theta.astype(np.float64).transpose(0, 2, 1)
    return made.reshape(size[0], *sizes, len(sizes))


def _samples(count: int) -> list[S]:
    """Return samples; the small ones are used for derivatives."""
    few = T(1, 1, *(3, 2, 2)[:count]), T(1, *(1,) * (count - 1), 2, count)
    many = T(2, 3, *(4, 3, 2)[:count]), T(2, *(3, 4, 1)[:count], count)
    return [
        S(*few, 0, 0, False), S(*many, 0, 1, True), S(*many, 0, 2, False), S(*many, 1, 2, True),
        S(*few, 1, 0, True),
        *([S(*many, 2, 0, False), S(*few, 2, 2, True)] if count == 2 else []),
    ]  # fmt: skip


def _refusals(op: str, count: int) -> tuple[Fails, ...]:
    ones = (2,) * count
    x, grid = T(2, 1, *ones), T(2, *ones, count)
    return (
        Fails(S(T(2, 1), grid, 0, 0, True), errors.ShapeError, f"{op}: 'input' must have"),
        Fails(S(x, T(1, *ones, count), 0, 0, True), errors.ShapeError, "'grid' must have sizes"),
        Fails(S(x, T(2, *ones, 4), 0, 0, True), errors.ShapeError, "'grid' must have sizes"),
        Fails(S(T(2, 1, 0, *ones[1:]), grid, 0, 0, True), errors.ShapeError, "no size 0 but of"),
        Fails(S(x, grid, 3, 0, True), errors.ArgumentError, "'interpolation_mode' must be 0"),
        Fails(S(x, grid, 0, 3, True), errors.ArgumentError, "'padding_mode' must be 0"),
        Fails(S(x, grid, 0, 0, True), errors.DtypeError, "'input' must be floating", int32),
        Fails(
            S(x, T(2, *ones, count, dtype=float64), 0, 0, True), errors.DtypeError,
            "'grid' must have input's dtype", float32,
        ),
    )  # fmt: skip


_ROUNDED = _KIND | {"ulp": {**_KIND["ulp"], float32: 1 << 14, float64: 1 << 16}}


def _rows(count: int) -> list[Row]:
    op, ones = f"grid_sampler_{count}d", (3,) * count
    x, grid, grad = T(1, 2, *ones), (1, 3, 2, *[1] * (count - 2), count), T(1, 2, 3, 2)
    grid = T(*grid, values="positive")
    if count == 3:
        grad = T(1, 2, 3, 2, 1)
    mask = [True, True]
    return [
        Row(op, _samples(count), _sampled, errors=_refusals(op, count), out="same", **_KIND),
        Row(
            f"{op}_backward",
            [S(grad, x, grid, 0, 0, False, mask), S(grad, x, grid, 0, 1, True, mask)],
            _gradients, **_ROUNDED,
            errors=(
                Fails(
                    S(T(1), x, grid, 0, 0, False, mask), errors.ShapeError,
                    f"{op}_backward: 'grad_output' must have sizes",
                ),
            ),
        ),
    ]  # fmt: skip


_LOOPED = [
    S(T(1, 2, 3, 2), T(1, 2, 3, 3), T(1, 3, 2, 2, values="positive"), 0, 0, False, [True, True]),
    S(
        T(1, 2, 3, 2, 1), T(1, 2, 3, 3, 3), T(1, 3, 2, 1, 3, values="positive"), 0, 1, True,
        [True, True],
    ),
]  # fmt: skip

ROWS = [
    Row(
        "affine_grid_generator",
        [S(T(2, 2, 3), [2, 1, 3, 4], True), S(T(1, 3, 4), [1, 1, 2, 1, 3], False)], _affine,
        errors=(
            Fails(S(T(1, 2, 3), [1, 1, 3], True), errors.ArgumentError, "'size' must have 4 or 5"),
            Fails(S(T(1, 2, 3), [1, 1, 3, 0], True), errors.ArgumentError, "must be positive"),
            Fails(S(T(2, 2, 3), [1, 1, 3, 3], True), errors.ShapeError, "'theta' must have sizes"),
            Fails(
                S(T(1, 2, 3), [1, 1, 3, 3], True), errors.DtypeError, "must be floating", int32
            ),
        ),
        dtypes=FLOATS, zeros_equal=True,
        ulp={float16: 4, bfloat16: 4, float32: 16, float64: 16}, why="linspace, and sums of three",
    ),
    Row(
        "grid_sampler", _samples(2)[:2] + _samples(3)[1:2], _sampled, **_KIND,
        errors=(
            Fails(
                S(T(1, 1, 2), T(1, 1, 1), 0, 0, True), errors.ShapeError,
                "grid_sampler: 'input' must have 4 or 5 dimensions",
            ),
        ),
    ),
    *_rows(2), *_rows(3),
    Row("_grid_sampler_backward", _LOOPED, _gradients, device_ulp=16, **_ROUNDED),
]  # fmt: skip
