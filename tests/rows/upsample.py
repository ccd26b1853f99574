"""Rows of upsample. The references are matrices of weights, one for each dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, float16, float32, float64, int32, uint8

from . import Fails, Row, S, T

FLOATS = (float16, bfloat16, float32, float64)


def _cubic(x: float, a: float) -> float:
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def _lanczos(x: float) -> float:
    return float(np.sinc(x) * np.sinc(x / 3)) if abs(x) < 3 else 0.0


_FILTERS: Any = {
    "linear_aa": (lambda x: max(1 - abs(x), 0.0), 1), "cubic_aa": (lambda x: _cubic(x, -0.5), 2),
    "lanczos_aa": (_lanczos, 3),
}  # fmt: skip


def _matrix(mode: str, n: int, m: int, align: bool, scale: float | None) -> np.ndarray:
    by = 1 / scale if scale else n / m
    if align:
        by = (n - 1) / (m - 1) if m > 1 else 0.0
    made = np.zeros((m, n))
    for i in range(m):
        middle = by * i if align else by * (i + 0.5) - 0.5
        first = math.floor(max(middle, 0) if mode == "linear" else middle)
        if mode.startswith("nearest"):
            made[i, min(int(by * (i + 0.5 * (mode == "nearest_exact"))), n - 1)] = 1
        elif mode in _FILTERS:
            shape, reach = _FILTERS[mode]
            wide, center = max(by, 1), by * (i + 0.5)
            a = max(int(center - reach * wide + 0.5), 0)
            for j in range(a, min(int(center + reach * wide + 0.5), n)):
                made[i, j] = shape((j - center + 0.5) / wide)
            made[i] /= made[i].sum()
        else:
            t = max(middle, 0) - first if mode == "linear" else middle - first
            parts = [1 - t, t] if mode == "linear" else [_cubic(t - k, -0.75) for k in range(-1, 3)]
            for k, part in enumerate(parts, 0 if mode == "linear" else -1):
                made[i, min(max(first + k, 0), n - 1)] += part
    return made


def _matrices(mode: str, count: int, sizes: Any, output_size: Any, *options: Any) -> Any:
    align, scales = False, options
    if not mode.startswith("nearest"):
        align, *scales = options
    scales = [*scales, None, None, None]
    return [
        _matrix(mode, n, m, align, s)
        for n, m, s in zip(sizes[-count:], output_size[-count:], scales)
    ]


def _through(x: np.ndarray, matrices: Any) -> np.ndarray:
    made = x.astype(np.float64)
    for d, matrix in enumerate(matrices, -len(matrices)):
        made = np.moveaxis(np.moveaxis(made, d, -1) @ matrix.T, -1, d)
    return made


def _forward(mode: str, count: int) -> Any:
    def forward(x, output_size, *options):
        if output_size is None:  # `.vec`
            *align, factors = options
            output_size = [int(n * s) for n, s in zip(x.shape[2:], factors)]
            options = (*align, *factors)
        elif options and options[-1] is None:
            options = options[:-1]
        return _through(x, _matrices(mode, count, x.shape, output_size, *options))

    return forward


def _backward(mode: str, count: int) -> Any:
    def backward(grad, output_size, input_size, *options):
        found = _matrices(mode, count, input_size, output_size, *options)
        return _through(grad, [matrix.T for matrix in found])

    return backward


def _rows(name: str, mode: str, count: int) -> list[Row]:
    align = [] if mode.startswith("nearest") else [False]
    # positions that are exact in f32, so that cancelling terms are exact too
    given, out, to_ends = (1, 2, 5, 4), [10, 2], [9, 7]
    if count == 3:
        given, out, to_ends = (1, 2, 3, 2, 2), [6, 1, 4], [5, 3, 3]
    given, out, to_ends = given[: count + 2], out[:count], to_ends[:count]
    factors = [2.0, 0.5, 2.0][:count]
    values = "positive" if mode in _FILTERS else "exact"
    why = "weights of a filter are rounded when they are brought to a sum of one"
    kind: Any = {
        "dtypes": FLOATS if align or count == 3 else (*FLOATS, uint8), "zeros_equal": True,
        "out": "same",
        "ulp": {float16: 2, bfloat16: 2, float32: 32, float64: 32} if align else 0,
        "why": why if align else "",
    }  # fmt: skip
    samples = [
        S(T(*given, values=values), out, *align),
        S(T(2, *given[1:], values=values), None, *align, factors),
        S(T(*given, values=values), out, *align, None),
    ]  # fmt: skip
    if align:
        samples.append(S(T(*given, values=values), to_ends, True))
    whole = list(given)
    backward = [S(T(1, 2, *out, values=values), out, whole, *align)]
    if align:
        backward.append(S(T(1, 2, *to_ends, values=values), to_ends, whole, True))
    kind_of_gradients = {**kind, "dtypes": FLOATS}
    if not align:
        kind_of_gradients |= {"ulp": 1, "why": "sums of a few elements that are exact"}
    return [
        Row(
            name, samples, _forward(mode, count), **kind,
            errors=(
                Fails(S(T(3), out, *align), errors.ShapeError, f"{name}: 'self' must have"),
                Fails(S(T(*given), [0] * count, *align), errors.ArgumentError, "must be positive"),
                Fails(S(T(*given), [1] * 4, *align), errors.ArgumentError, "must be one int or"),
                Fails(
                    S(T(1, 0, *given[2:]), out, *align), errors.ShapeError, "have no size 0 but of"
                ),
                Fails(S(T(*given), out, *align), errors.DtypeError, "must be floating", int32),
                Fails(S(T(*given), None, *align, None), errors.ArgumentError, "must be given, or"),
                Fails(
                    S(T(*given), None, *align, [2.0] * 4), errors.ArgumentError, f"have {count} en"
                ),
            ),
        ),
        Row(
            f"{name}_backward", backward, _backward(mode, count), **kind_of_gradients,
            errors=(
                Fails(
                    S(T(1, 2, *whole[2:]), [9] * count, whole, *align), errors.ShapeError,
                    f"{name}_backward: 'grad_output' must have the sizes",
                ),
            ),
        ),
    ]  # fmt: skip


ROWS = sorted(
    [
        row
        for leaf in (
            ("upsample_nearest1d", "nearest", 1), ("upsample_nearest2d", "nearest", 2),
            ("upsample_nearest3d", "nearest", 3), ("_upsample_nearest_exact1d", "nearest_exact", 1),
            ("_upsample_nearest_exact2d", "nearest_exact", 2),
            ("_upsample_nearest_exact3d", "nearest_exact", 3), ("upsample_linear1d", "linear", 1),
            ("upsample_bilinear2d", "linear", 2), ("upsample_trilinear3d", "linear", 3),
            ("upsample_bicubic2d", "cubic", 2), ("_upsample_bilinear2d_aa", "linear_aa", 2),
            ("_upsample_bicubic2d_aa", "cubic_aa", 2), ("_upsample_lanczos2d_aa", "lanczos_aa", 2),
        )
        for row in _rows(*leaf)
    ],
    key=lambda row: row.name.strip("_"),
)  # fmt: skip
