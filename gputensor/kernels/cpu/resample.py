"""out[j] = sum over t of by[t, j] * x[at[t, j]], along each of some dimensions.  family: resample

Shapes   x and out (planes, *sizes), or (planes, *sizes, lanes); out is dense.
Types    f32 and f64.
Order    the last dimension first; a sum in the order of its taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Taps(NamedTuple):
    """Which elements of a dimension make each of m results.

    each: how many do; 0 where this differs. table: i32; `at` of (each, m), or where the taps of
    each result begin (m + 1), and `at` behind it. by: their weights, None is 1.
    """

    each: int
    table: np.ndarray
    by: np.ndarray | None


def resample(x: np.ndarray, out: np.ndarray, taps: Sequence[Taps]) -> None:
    """Write what the taps of each dimension, from the second on, make of `x` into `out`."""
    for axis, of in reversed(list(enumerate(taps, 1))):
        x = (_alike if of.each else _ragged)(x, axis, of, out.shape[axis])
    out[...] = x


def _weighted(x: np.ndarray, axis: int, at: np.ndarray, by: np.ndarray | None) -> np.ndarray:
    part = x.take(at, axis)
    return part if by is None else part * by.reshape(-1, *[1] * (x.ndim - axis - 1))


def _alike(x: np.ndarray, axis: int, of: Taps, m: int) -> np.ndarray:
    at = of.table.reshape(of.each, m)
    by: Any = [None] * of.each if of.by is None else of.by.reshape(of.each, m)
    made = _weighted(x, axis, at[0], by[0])
    for t in range(1, of.each):
        made = made + _weighted(x, axis, at[t], by[t])
    return made


def _ragged(x: np.ndarray, axis: int, of: Taps, m: int) -> np.ndarray:
    starts, at = of.table[: m + 1], of.table[m + 1 :]
    has_any = np.diff(starts) > 0
    made = np.zeros((*x.shape[:axis], m, *x.shape[axis + 1 :]), x.dtype)
    if len(at):
        sums = np.add.reduceat(_weighted(x, axis, at, of.by), starts[:-1][has_any], axis)
        made[(slice(None),) * axis + (has_any,)] = sums
    return made
