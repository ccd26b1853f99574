"""Rows of unpool, with planes of one element, so that no index occurs twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, float16, float32, float64, int32, int64

from . import Fails, Row, S, T

_FLOATS = (float16, bfloat16, float32, float64)
_ZERO = [[1, 1, 1], [0, 0, 0]]


def _unpooled(count: int) -> Any:
    def unpooled(x, indices, output_size, *rest):
        made = np.zeros((*x.shape[: x.ndim - count], *output_size), x.dtype)
        planes = made.reshape(*made.shape[: x.ndim - count], -1)
        for at in np.ndindex(*x.shape):
            planes[(*at[: x.ndim - count], indices[at])] = x[at]
        return made

    return unpooled


def _begins(sample: Any, n: int, k: int, m: int) -> list[int]:
    if m == 1:
        return [n - k]
    of = sample.dtype.type
    step = of(n - k) / of(m - 1)
    made = [int((of(i) + sample) * step) - int(sample * step) for i in range(m - 1)]
    return [*made, n - k]


def _pooled(count: int) -> Any:
    def pooled(x, kernel, out, samples):
        inner = x.shape[-count:]
        whole = x.reshape(-1, x.shape[-count - 1], *inner)
        values = np.zeros((*whole.shape[:2], *out), x.dtype)
        indices = np.zeros(values.shape, np.int64)
        for plane in np.ndindex(*whole.shape[:2]):
            given = samples[plane][:: 1 if count == 3 else -1]
            begins = [_begins(s, *rest) for s, *rest in zip(given, inner, kernel, out)]
            for cell in np.ndindex(*out):
                best, at = -np.inf, -1
                for tap in np.ndindex(*kernel):
                    place = [b[i] + t for b, i, t in zip(begins, cell, tap)]
                    now = whole[(*plane, *place)]
                    if at < 0 or now > best or now != now:
                        best, at = now, int(np.ravel_multi_index(place, inner))
                values[(*plane, *cell)], indices[(*plane, *cell)] = best, at
        shape = (*x.shape[:-count], *out)
        return [values.reshape(shape), indices.reshape(shape)]

    return pooled


def _scattered(grad, x, kernel, out, indices):
    count = len(out)
    made = np.zeros(x.shape)
    planes = made.reshape(*x.shape[:-count], -1)
    for at in np.ndindex(*grad.shape):
        planes[(*at[:-count], indices[at])] += float(grad[at])
    return made


def _indexed(args: Any, kwargs: Any, of: Any) -> Any:
    return of, int64


def _fractional(count: int) -> list[Row]:
    op, kernel, out = f"fractional_max_pool{count}d", [2, 1, 2][:count], [2, 3, 1][:count]
    x, few = T(2, 2, *(5, 4, 4)[:count]), T(1, 1, *(4, 4, 3)[:count])
    samples = T(2, 2, count, values="positive")
    grad, indices = T(1, 1, *out), T(1, 1, *out, values="classes", dtype=int64)
    return [
        Row(
            op,
            [
                S(x, kernel, out, samples), S(few, kernel, out, T(1, 1, count, values="positive")),
                S(T(2, *(5, 4, 4)[:count]), kernel, out, samples),
            ],
            _pooled(count), dtypes=_FLOATS, result=_indexed,
            errors=(
                Fails(S(T(3), kernel, out, samples), errors.ShapeError, f"{op}: 'self' must have"),
                Fails(S(x, kernel, [9] * count, samples), errors.ShapeError, "have room for"),
                Fails(S(x, [2], out, samples), errors.ArgumentError, f"have {count} entries"),
                Fails(S(x, [0] * count, out, samples), errors.ArgumentError, "must be positive"),
                Fails(S(x, kernel, out, T(1, 2, count)), errors.ShapeError, "'random_samples' mus"),
                Fails(S(x, kernel, out, samples), errors.DtypeError, "must be floating", int32),
                Fails(
                    S(x, kernel, out, T(2, 2, count, dtype=float64)), errors.DtypeError,
                    "'random_samples' must have self's dtype", float32,
                ),
            ),
        ),
        Row(
            f"{op}_backward", [S(grad, few, kernel, out, indices)], _scattered, dtypes=_FLOATS,
            zeros_equal=True,
            errors=(
                Fails(
                    S(grad, few, kernel, [9] * count, indices), errors.ShapeError,
                    f"{op}_backward: 'grad_output' must have sizes",
                ),
                Fails(
                    S(grad, few, kernel, out, T(1, dtype=int64)), errors.ShapeError,
                    "'indices' must have the sizes",
                ),
            ),
        ),
    ]  # fmt: skip


def _unpool(count: int) -> Row:
    op, ones, out = f"max_unpool{count}d", (1,) * count, [2, 3, 2][:count]
    rest = [] if count == 2 else _ZERO
    x, indices = T(2, 3, *ones), T(2, 3, *ones, values="classes", dtype=int64)
    samples = [S(x, indices, out, *rest)]
    samples.append(S(T(2, *ones), T(2, *ones, values="classes", dtype=int64), out, *rest))
    return Row(
        op, samples, _unpooled(count), dtypes=_FLOATS, out="same",
        errors=(
            Fails(S(T(3), indices, out, *rest), errors.ShapeError, f"{op}: 'self' must have"),
            Fails(S(x, T(2, dtype=int64), out, *rest), errors.ShapeError, "have the sizes"),
            Fails(S(x, T(2, dtype=int32), out, *rest), errors.DtypeError, "must be int64"),
            Fails(S(x, indices, [2], *rest), errors.ArgumentError, f"have {count} entries"),
            Fails(S(x, indices, out, *rest), errors.DtypeError, "must be floating", int32),
            *(
                [Fails(S(x, indices, out, [0] * 3, [0] * 3), errors.ArgumentError, "be positive")]
                if rest else []
            ),
        ),
    )  # fmt: skip


ROWS = [*_fractional(2), *_fractional(3), _unpool(2), _unpool(3)]
