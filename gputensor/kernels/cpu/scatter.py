"""x[key] = v, or what is there combined with v, for elements that indices name.     family: scatter

Shapes   key is an index tuple of NumPy, of slices and int64 arrays that are known to be in range;
         v broadcasts to x[key].
Types    those of x; the caller widens what is narrower than 32 bits where values are combined.
Order    that of the indices, the same bits on every run: the last of several values stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Key = tuple[Any, ...]


def scatter(x: np.ndarray, key: Key, value: np.ndarray) -> None:
    x[key] = value


def scatter_add(x: np.ndarray, key: Key, value: np.ndarray) -> None:
    np.add.at(x, key, value)


def scatter_multiply(x: np.ndarray, key: Key, value: np.ndarray) -> None:
    np.multiply.at(x, key, value)


def scatter_amax(x: np.ndarray, key: Key, value: np.ndarray) -> None:
    np.maximum.at(x, key, value)


def scatter_amin(x: np.ndarray, key: Key, value: np.ndarray) -> None:
    np.minimum.at(x, key, value)
