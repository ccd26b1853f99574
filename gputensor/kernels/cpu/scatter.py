"""x[key] = v, or what is there combined with v, for elements that indices name.     family: scatter

Shapes   as in gather.py; value broadcasts to what would be gathered.
Types    those of x; the caller widens what is narrower than 32 bits where values are combined.
Order    that of the indices, the same bits on every run: the last of several values stays.
Returns  as in gather.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .gather import Indices, key, out_of_range


def scatter(
    x: np.ndarray, value: np.ndarray, indices: Indices, led: Sequence[int], begin: int | None,
    wraps: bool,
) -> int:  # fmt: skip
    bad = out_of_range(x, indices, led, wraps)
    if not bad:
        x[key(x, indices, led, begin)] = value
    return bad


def scatter_add(x: np.ndarray, value: np.ndarray, *places: Any) -> int:
    return _combine(np.add, x, value, *places)


def scatter_multiply(x: np.ndarray, value: np.ndarray, *places: Any) -> int:
    return _combine(np.multiply, x, value, *places)


def scatter_amax(x: np.ndarray, value: np.ndarray, *places: Any) -> int:
    return _combine(np.maximum, x, value, *places)


def scatter_amin(x: np.ndarray, value: np.ndarray, *places: Any) -> int:
    return _combine(np.minimum, x, value, *places)


def check_writable(x: np.ndarray) -> None:
    """`ufunc.at` and compiled loops write to memory that is read-only."""
    if not x.flags.writeable:
        raise ValueError("assignment destination is read-only")


def _combine(
    ufunc: np.ufunc, x: np.ndarray, value: np.ndarray, indices: Indices, led: Sequence[int],
    begin: int | None, wraps: bool,
) -> int:  # fmt: skip
    check_writable(x)
    bad = out_of_range(x, indices, led, wraps)
    if not bad:
        ufunc.at(x, key(x, indices, led, begin), value)
    return bad
