"""x[key] = v, or x[key] combined with v, for indexed elements.                     family: scatter

Shapes   as in gather.py; value broadcasts to the shape that gather would return.
Types    the dtype of x. Before values are combined, the caller widens dtypes of less than 32 bits.
Order    the order of the indices, so every run gives the same bits. If several values are written
         to one element, the last one stays.
Returns  as in gather.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

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


def check_writable(x: np.ndarray) -> None:
    """Raise an error for a read-only array. `ufunc.at` and compiled loops do not check this."""
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


Loop = Callable[..., int]
scatter_add: Loop = partial(_combine, np.add)
scatter_multiply: Loop = partial(_combine, np.multiply)
scatter_amax: Loop = partial(_combine, np.maximum)
scatter_amin: Loop = partial(_combine, np.minimum)
