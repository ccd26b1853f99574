"""out[r, c] = op over x[r, 0 .. c] along one axis.                                  family: scan

Types    f16 and bf16 are accumulated in f32, f32 in f64, and c64 in c128, as in PyTorch on the CPU.
Numbers  of equal elements, cummax and cummin return the last; from the first NaN on, they return
         NaN. Sums begin at 0.0, so a row of -0.0 gives 0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

_WIDER = {
    np.dtype(np.float16): np.float32, np.dtype(np.float32): np.float64,
    np.dtype(np.complex64): np.complex128,
}  # fmt: skip


def _accumulate(ufunc: Any, start: int, x: np.ndarray, axis: int, out: np.ndarray) -> None:
    made = x.astype(_computed(x.dtype))
    head = made[(slice(None),) * axis + (slice(0, 1),)]
    ufunc(head, start, head)
    ufunc.accumulate(made, axis, None, made)
    np.copyto(out, made, casting="unsafe")


def _computed(of: np.dtype) -> Any:
    return np.float32 if of.kind == "V" else _WIDER.get(of, of)


def logcumsumexp(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    if x.dtype.kind != "c":
        out[...] = np.logaddexp.accumulate(x.astype(_computed(x.dtype)), axis)
        return
    rows, to = np.moveaxis(x, axis, 0), np.moveaxis(out, axis, 0)
    so_far = rows[0].astype(np.complex128)
    to[0] = so_far
    for place in range(1, len(rows)):
        so_far = _log_add_exp(so_far, rows[place].astype(np.complex128))
        to[place] = so_far


def _log_add_exp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return logaddexp of complex numbers, computed relative to the operand with the larger real
    part."""
    swaps = (a.real > b.real) | np.isnan(a)
    low, high = np.where(swaps, b, a), np.where(swaps, a, b)
    gone = np.isneginf(low.real) & np.isneginf(high.real)
    both = np.isposinf(low.real) & np.isposinf(high.real)
    usual = high + np.log1p(np.exp(low - high))
    found = np.where(both, np.log(np.exp(low) + np.exp(high)), usual)
    found = np.where(gone, low, found)
    return np.where(np.isnan(a) | np.isnan(b), complex(np.nan, np.nan), found)


def _extremes(ufunc: Any, x: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray) -> None:
    if x.dtype.kind == "V":
        x = x.astype(np.float32)
    found = ufunc.accumulate(x, axis)
    values[...] = found
    places = np.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    is_new = (x == found) | (x != x)
    np.maximum.accumulate(np.where(is_new, places, 0), axis, None, out)


Loop = Callable[..., None]
cumsum: Loop = partial(_accumulate, np.add, 0)
cumprod: Loop = partial(_accumulate, np.multiply, 1)
cummax: Loop = partial(_extremes, np.maximum)
cummin: Loop = partial(_extremes, np.minimum)
