"""out[r, c] = op over x[r, 0 .. c] along one axis.                                  family: scan

Types    f16, bf16 run in f32; f32 and c64 in f64 and c128, as PyTorch's do on the CPU.
Numbers  cummax and cummin give the last of equal elements, and NaN from the first one on;
         sums begin at 0.0, so that -0.0 alone gives 0.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import cpu
from . import quiet

# Elements from which on the places of new extremes are repeated instead of accumulated.
_MANY = 1 << 14
# Elements up to which an operand of any layout is read where it is.
_DIRECT = 1 << 12
# Elements from which on rows are shared.
_SHARED = 1 << 16
_WIDER = {
    np.dtype(np.float16): np.float32, np.dtype(np.float32): np.float64,
    np.dtype(np.complex64): np.complex128,
}  # fmt: skip


def cumsum(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    _accumulate(np.add, 0, x, axis, out)


def cumprod(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    _accumulate(np.multiply, 1, x, axis, out)


def _accumulate(ufunc: Any, start: int, x: np.ndarray, axis: int, out: np.ndarray) -> None:
    first = (slice(None),) * axis + (slice(0, 1),)
    computed = out.dtype if out.dtype.kind in "iub" else _computed(x.dtype)
    # Rows that are added to rows are 2 to 3 times as quick in place, which a copy costs less than.
    is_direct = x.dtype == out.dtype == computed and (
        x.size < _DIRECT or x.strides[axis] == x.itemsize
    )

    def rows(part: Any) -> None:
        if is_direct and not _begins_below(x[part][first]):
            ufunc.accumulate(x[part], axis, None, out[part])
            return
        into = out[part] if out.dtype == computed else np.empty(out[part].shape, computed)
        np.copyto(into, x[part], casting="unsafe")
        head = into[first]
        ufunc(head, start, head)
        ufunc.accumulate(into, axis, None, into)
        if into.dtype != out.dtype:
            np.copyto(out[part], into, casting="unsafe")

    if x.size < _SHARED:
        rows(...)
    else:
        cpu.share_rows(x.shape, axis, lambda part: quiet.run(rows, part))


def _begins_below(head: np.ndarray) -> bool:
    """Whether any is -0.0, to which a sum's first 0.0 makes a difference; maybe true of complex."""
    if head.dtype.kind in "iub":
        return False
    return head.dtype.kind != "f" or bool((np.signbit(head) & (head == 0)).any())


def _computed(of: np.dtype) -> Any:
    return np.float32 if of.kind == "V" else _WIDER.get(of, of)


def logcumsumexp(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    if x.dtype.kind != "c":

        def whole(part: Any) -> None:
            wide = x[part].astype(_computed(x.dtype))
            out[part] = np.logaddexp.accumulate(wide, axis)

        cpu.share_rows(x.shape, axis, lambda part: quiet.run(whole, part))
        return
    rows, to = np.moveaxis(x, axis, 0), np.moveaxis(out, axis, 0)
    so_far = rows[0].astype(np.complex128)
    to[0] = so_far
    for place in range(1, len(rows)):
        so_far = _log_add_exp(so_far, rows[place].astype(np.complex128))
        to[place] = so_far


def _log_add_exp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of complex numbers; the one of the larger real part is taken off first."""
    swaps = (a.real > b.real) | np.isnan(a)
    low, high = np.where(swaps, b, a), np.where(swaps, a, b)
    gone = np.isneginf(low.real) & np.isneginf(high.real)
    both = np.isposinf(low.real) & np.isposinf(high.real)
    usual = high + np.log1p(np.exp(low - high))
    found = np.where(both, np.log(np.exp(low) + np.exp(high)), usual)
    found = np.where(gone, low, found)
    return np.where(np.isnan(a) | np.isnan(b), complex(np.nan, np.nan), found)


def cummax(x: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray) -> None:
    _extremes(np.maximum, x, axis, values, out)


def cummin(x: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray) -> None:
    _extremes(np.minimum, x, axis, values, out)


def _extremes(ufunc: Any, x: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray) -> None:
    if x.dtype.kind == "V":
        x = x.astype(np.float32)
    places = np.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - 1 - axis))

    def rows(part: Any) -> None:
        given, found = x[part], values[part]
        if found.dtype == given.dtype:
            ufunc.accumulate(given, axis, None, found)
        else:
            wide = ufunc.accumulate(given, axis)
            found[...] = wide
            found = wide
        is_new = given == found
        if given.dtype.kind == "f":
            is_new |= given != given
        if x.size < _MANY:
            np.maximum.accumulate(np.where(is_new, places, 0), axis, None, out[part])
        else:
            _last_true(is_new, axis, out[part])

    cpu.share_rows(x.shape, axis, lambda part: quiet.run(rows, part))


def _last_true(is_new: np.ndarray, axis: int, out: np.ndarray) -> None:
    """Of each place, the last one up to it that is true; the first of a row is."""
    rows = np.ascontiguousarray(np.moveaxis(is_new, axis, -1))
    new = np.flatnonzero(rows)
    found = np.repeat(new, np.diff(new, append=rows.size)).reshape(rows.shape)
    starts = np.arange(0, rows.size, rows.shape[-1]).reshape((*rows.shape[:-1], 1))
    np.subtract(found, starts, np.moveaxis(out, axis, -1))
