"""Windows of images: the library's loops, or array functions of native/ without the library.

The functions here replace the library's: they return False and do nothing.
"""

from __future__ import annotations

import numpy as np

Sizes = tuple[int, ...]


def max_pool(x: np.ndarray, values: np.ndarray, places: np.ndarray, *windows: Sizes) -> bool:
    """Write the maxima of windows and their places. windows: kernel, steps, pads and gaps. Returns:
    whether it is done."""
    return False


def avg_pool(
    x: np.ndarray, out: np.ndarray, include_pad: bool, divisor: int, *windows: Sizes
) -> bool:
    """Write the means of windows; divisor: 0 where it is how many elements count."""
    return False


def adaptive_avg_pool(x: np.ndarray, out: np.ndarray, count: int) -> bool:
    """Write the means of as many windows as `out` has elements in its last `count` dimensions."""
    return False


def max_pool_backward(grad: np.ndarray, places: np.ndarray, out: np.ndarray) -> bool:
    """Write planes, into which each element of a plane of `grad` is added at its place. Returns:
    whether it is done; not where a place is none, whatever `out` holds then."""
    return False


def line(
    x: np.ndarray, axis: int, out: np.ndarray, at: np.ndarray, by: np.ndarray, has_gaps: bool
) -> bool:
    """Write sums of elements along an axis. at, by: of each tap the element of every result, below
    0 where it has none, as int32, and its weight."""
    return False
