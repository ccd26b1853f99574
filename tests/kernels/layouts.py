"""Arrays with equal elements in several layouts, for tests of kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Layout = Callable[[np.ndarray], np.ndarray]


def dense(x: np.ndarray) -> np.ndarray:
    return np.array(x, order="C")


def transposed(x: np.ndarray) -> np.ndarray:
    """Return the elements with the dimensions in reverse order in memory."""
    return np.array(x, order="F")


def stepped(x: np.ndarray) -> np.ndarray:
    """Return the elements at every second place of a larger array."""
    room = np.full(tuple([2 * n for n in x.shape]), 9, x.dtype)
    view = room[(..., *[slice(None, None, 2)] * x.ndim)]
    view[...] = x
    return view


def gapped(x: np.ndarray) -> np.ndarray:
    """Dense rows with gaps between them."""
    if not x.ndim:
        return dense(x)
    room = np.full((*x.shape[:-1], x.shape[-1] + 3), 9, x.dtype)
    room[..., 1 : x.shape[-1] + 1] = x
    return room[..., 1 : x.shape[-1] + 1]


def turned(x: np.ndarray) -> np.ndarray:
    """Return the elements with the first two dimensions exchanged in memory."""
    return np.array(x.swapaxes(0, 1), order="C").swapaxes(0, 1) if x.ndim > 1 else dense(x)


LAYOUTS: tuple[Layout, ...] = (dense, transposed, stepped, gapped, turned)
