"""Pooling over windows of images by the compiled loops: see loops/pool_windows.cpp."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np

from . import library

Sizes = tuple[int, ...]
_ONES = (1, 1, 0, 1)  # The kernel, step, pad and dilation of a window of one element.
_max_pool = library.function("pool_windows", "max_pool")
_avg_pool = library.function("pool_windows", "avg_pool")
_adaptive_avg_pool = library.function("pool_windows", "adaptive_avg_pool")
_adaptive_max_pool = library.function("pool_windows", "adaptive_max_pool")
_max_pool_backward = library.function("pool_windows", "max_pool_backward")
_line = library.function("pool_windows", "line")


def max_pool(x: np.ndarray, values: np.ndarray, places: np.ndarray, *windows: Sizes) -> bool:
    """Write the maxima of windows to `values` and their indices to `places`. windows: kernel,
    steps, pads and dilations. Return False if the loop declines."""
    numbers = in_volumes(windows, _ONES)
    return x.flags.aligned and _max_pool(x, values, places, *numbers, len(windows[0])) == 0


def avg_pool(
    x: np.ndarray, out: np.ndarray, include_pad: bool, divisor: int, *windows: Sizes
) -> bool:
    """Write the means of windows to `out`. divisor: the divisor of each sum; 0 stands for the
    number of counted elements."""
    numbers = (*in_volumes(windows, _ONES), len(windows[0]), include_pad, divisor)
    return x.flags.aligned and _avg_pool(x, out, *numbers) == 0


def adaptive_avg_pool(x: np.ndarray, out: np.ndarray, count: int) -> bool:
    """Write the means of windows to `out`. There is one window for each element of the last `count`
    dimensions of `out`."""
    arrays = [of_volumes(array, count) for array in (x, out)]
    return x.flags.aligned and _adaptive_avg_pool(*arrays) == 0


def adaptive_max_pool(x: np.ndarray, values: np.ndarray, places: np.ndarray, count: int) -> bool:
    """Write the maxima of windows to `values` and their indices to `places`. There is one window
    for each element of the last `count` dimensions of `values`. Return False if the loop
    declines."""
    arrays = [of_volumes(array, count) for array in (x, values, places)]
    return x.flags.aligned and _adaptive_max_pool(*arrays) == 0


def max_pool_backward(grad: np.ndarray, places: np.ndarray, out: np.ndarray) -> bool:
    """Add each element of `grad` to an element of `out`. `places` contains the index of that
    element in its plane. Return False if the loop declines or an index is out of range. In the
    latter case the content of `out` is undefined."""
    arrays = (grad, places, out)
    if not all([x.flags.c_contiguous and x.flags.aligned for x in arrays]):
        return False
    done: bool = _max_pool_backward(*arrays) == 0
    return done


def of_volumes(x: np.ndarray, count: int) -> np.ndarray:
    """Return a view of x with the dimensions (n, c, d, h, w). Missing spatial dimensions have size
    1."""
    if count == 3 and x.ndim == 5:
        return x
    view: np.ndarray = x[_index(x.ndim, count)]
    return view


@cache
def _index(ndim: int, count: int) -> tuple[Any, ...]:
    before = (None,) if ndim == count + 1 else ()
    return (*before, *(slice(None),) * (ndim - count), *(None,) * (3 - count), ...)


@lru_cache(maxsize=256)
def in_volumes(windows: tuple[Sizes, ...], ones: Sizes) -> tuple[int, ...]:
    """Extend window parameters to three spatial dimensions. ones: for each parameter, its value in
    the added dimensions, where a window has one element."""
    lead = 3 - len(windows[0])
    return tuple([n for of, one in zip(windows, ones) for n in (*(one,) * lead, *of)])


def line(
    x: np.ndarray, axis: int, out: np.ndarray, at: np.ndarray, by: np.ndarray, has_gaps: bool
) -> bool:
    """Write weighted sums of elements along an axis. at: for each filter tap and each result, the
    int32 index of the element to read; a tap with a negative index is skipped. by: for each tap and
    each result, the weight."""
    if not (x.flags.c_contiguous and out.flags.c_contiguous and x.flags.aligned):
        return False
    n = math.prod(x.shape[axis + 1 :])
    given, made = x.reshape(-1, x.shape[axis], n), out.reshape(-1, out.shape[axis], n)
    done: bool = _line(given, made, at, by, int(has_gaps)) == 0
    return done
