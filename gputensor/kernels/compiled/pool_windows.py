"""Windows of images by the compiled loops: see loops/pool_windows.cpp."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import library

Sizes = tuple[int, ...]
_ONES = (1, 1, 0, 1)  # kernel, step, pad and gap
_max_pool = library.function("pool_windows", "max_pool")
_avg_pool = library.function("pool_windows", "avg_pool")
_adaptive_avg_pool = library.function("pool_windows", "adaptive_avg_pool")
_max_pool_backward = library.function("pool_windows", "max_pool_backward")
_line = library.function("pool_windows", "line")


def max_pool(x: np.ndarray, values: np.ndarray, places: np.ndarray, *windows: Sizes) -> bool:
    """Write the maxima of windows and their places. windows: kernel, steps, pads and gaps. Returns:
    whether it is done."""
    count = len(windows[0])
    arrays = [of_volumes(array, count) for array in (x, values, places)]
    return x.flags.aligned and _max_pool(*arrays, *in_volumes(windows, _ONES)) == 0


def avg_pool(
    x: np.ndarray, out: np.ndarray, include_pad: bool, divisor: int, *windows: Sizes
) -> bool:
    """Write the means of windows; divisor: 0 where it is how many elements count."""
    arrays = [of_volumes(array, len(windows[0])) for array in (x, out)]
    numbers = (*in_volumes(windows, _ONES), int(include_pad), divisor)
    return x.flags.aligned and _avg_pool(*arrays, *numbers) == 0


def adaptive_avg_pool(x: np.ndarray, out: np.ndarray, count: int) -> bool:
    """Write the means of as many windows as `out` has elements in its last `count` dimensions."""
    arrays = [of_volumes(array, count) for array in (x, out)]
    return x.flags.aligned and _adaptive_avg_pool(*arrays) == 0


def max_pool_backward(grad: np.ndarray, places: np.ndarray, out: np.ndarray) -> bool:
    """Write planes, into which each element of a plane of `grad` is added at its place. Returns:
    whether it is done; not where a place is none, whatever `out` holds then."""
    arrays = (grad, places, out)
    if not all([x.flags.c_contiguous and x.flags.aligned for x in arrays]):
        return False
    done: bool = _max_pool_backward(*arrays) == 0
    return done


def of_volumes(x: np.ndarray, count: int) -> np.ndarray:
    """As (n, c, d, h, w): a view."""
    before = (None,) if x.ndim == count + 1 else ()
    index: Any = (*before, *(slice(None),) * (x.ndim - count), *(None,) * (3 - count), ...)
    view: np.ndarray = x[index]
    return view


def in_volumes(windows: tuple[Sizes, ...], ones: Sizes) -> list[int]:
    """Of three dimensions, the first ones with one element under one window, which `ones` state."""
    lead = 3 - len(windows[0])
    return [n for of, one in zip(windows, ones) for n in (*(one,) * lead, *of)]


def line(
    x: np.ndarray, axis: int, out: np.ndarray, at: np.ndarray, by: np.ndarray, has_gaps: bool
) -> bool:
    """Write sums of elements along an axis. at, by: of each tap the element of every result, below
    0 where it has none, as int32, and its weight."""
    if not (x.flags.c_contiguous and out.flags.c_contiguous and x.flags.aligned):
        return False
    n = math.prod(x.shape[axis + 1 :])
    given, made = x.reshape(-1, x.shape[axis], n), out.reshape(-1, out.shape[axis], n)
    done: bool = _line(given, made, at, by, int(has_gaps)) == 0
    return done
