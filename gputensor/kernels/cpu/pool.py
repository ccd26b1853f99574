"""best[o] = max of x over window o, and at[o] where it is, as a flat index of the window's
dimensions.                                                                           family: pool

Shapes   x, best and at have the same leading dimensions, and one behind them for each of kernel;
         best and at are row-major.
Numbers  the first of equal elements; a NaN is larger than all, and the last of several counts.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ...runtime import cpu
from . import quiet
from .select import where

Sizes = tuple[int, ...]

# Elements of the result that a thread makes at a time.
_BLOCK = 1 << 14


def _added(of: list[np.ndarray], strides: list[int]) -> np.ndarray:
    return sum(np.ix_(*[b * s for b, s in zip(of, strides)]), np.zeros((), np.int64))


def max_pool(
    x: np.ndarray, least: Any, kernel: Sizes, steps: Sizes, pads: Sizes, gaps: Sizes,
    best: np.ndarray, at: np.ndarray,
) -> None:  # fmt: skip
    """`least` is no more than any element; what is padded counts as it."""
    count = len(kernel)
    sizes, out = x.shape[-count:], best.shape[-count:]
    whole = [(o - 1) * s + g * (k - 1) + 1 for o, s, g, k in zip(out, steps, gaps, kernel)]
    images, best, at = (a.reshape(-1, *a.shape[-count:]) for a in (x, best, at))
    begins = [np.arange(o) * s - p for o, s, p in zip(out, steps, pads)]
    strides = [math.prod(sizes[d + 1 :]) for d in range(count)]
    inner = tuple([slice(p, p + min(n, w - p)) for p, n, w in zip(pads, sizes, whole)])
    outer = tuple([slice(0, min(n, w - p)) for p, n, w in zip(pads, sizes, whole)])
    taps = [*product(*[range(k) for k in kernel])]
    # where windows begin, how far each tap is from there, and which one is the first in the input
    origin = _added(begins, strides)
    apart = np.array([sum(t * g * s for t, g, s in zip(tap, gaps, strides)) for tap in taps])
    unpadded = [-(np.minimum(b, 0) // g) for b, g in zip(begins, gaps)]
    number = np.min_scalar_type(len(taps))
    first = _added(unpadded, [math.prod(kernel[d + 1 :]) for d in range(count)]).astype(number)

    def pool(part: slice) -> None:
        given, most = images[part], best[part]
        padded = np.full((len(given), *whole), least, given.dtype)
        padded[(slice(None), *inner)] = given[(slice(None), *outer)]
        most.fill(least)
        which = np.empty(most.shape, number)
        which[...] = first
        for n, tap in enumerate(taps):
            reach = zip(tap, steps, gaps, out)
            now = padded[
                (slice(None), *[slice(t * g, t * g + s * (o - 1) + 1, s) for t, s, g, o in reach])
            ]
            better = now > most
            if given.dtype.kind in "fV":
                better |= now != now
            where(better, now, most, most)
            np.maximum(which, better * number.type(n), out=which)
        np.add(apart.take(which, mode="wrap"), origin, at[part])

    step = max(1, _BLOCK // math.prod(out))

    def work(number: int) -> None:
        quiet.run(pool, slice(number * step, (number + 1) * step))

    cpu.share(-(-len(images) // step), cpu.get_num_threads(), lambda: work)
