"""x[key] = v, or what is there combined with v, for elements that indices name.     family: scatter

Shapes   key is an index tuple of NumPy, of slices and int64 arrays that are known to be in range
         and not negative; v broadcasts to x[key]. along: as in gather.py.
Types    those of x; the caller widens what is narrower than 32 bits where values are combined.
Order    that of the indices, the same bits on every run: the last of several values stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import quiet
from .gather import Key, flat_along, flat_places, grid, in_parts

# Elements of a row from which on a call of a ufunc for it costs less than its elements.
_LONG = 256


def scatter(x: np.ndarray, key: Key, value: np.ndarray) -> None:
    found = _flat(x, key, value)
    if found is None:
        x[key] = value
    else:
        elements, places, values = found
        elements[places] = values


_COMBINED = {
    "scatter_add": np.add, "scatter_multiply": np.multiply, "scatter_amax": np.maximum,
    "scatter_amin": np.minimum,
}  # fmt: skip


def along(loop: str, x: np.ndarray, dim: int, index: np.ndarray, value: np.ndarray) -> None:
    """x[index[i, j], j] = value[i, j], for dim 0, or what a loop of these names makes of both."""
    ufunc = _COMBINED.get(loop)
    if not x.flags.c_contiguous:
        key = grid(index, dim)
        if ufunc is None:
            x[key] = value
        else:
            ufunc.at(x, key, value)
        return
    elements, places = x.reshape(-1), flat_along(x, dim, index)
    values = value if value.shape == index.shape else np.broadcast_to(value, index.shape)

    def part(at: tuple[slice, ...]) -> None:
        to = places(at).reshape(-1)
        if ufunc is not None:
            quiet.run(ufunc.at, elements, to, values[at].reshape(-1))
        else:
            elements[to] = values[at].reshape(-1) if value.ndim else value

    # parts that are whole along dim write to elements of their own
    in_parts(index.shape, [d for d in range(index.ndim) if d != dim], part)


def scatter_add(x: np.ndarray, key: Key, value: np.ndarray) -> None:
    _at(np.add, x, key, value)


def scatter_multiply(x: np.ndarray, key: Key, value: np.ndarray) -> None:
    _at(np.multiply, x, key, value)


def scatter_amax(x: np.ndarray, key: Key, value: np.ndarray) -> None:
    _at(np.maximum, x, key, value)


def scatter_amin(x: np.ndarray, key: Key, value: np.ndarray) -> None:
    _at(np.minimum, x, key, value)


def _at(ufunc: Any, x: np.ndarray, key: Key, value: np.ndarray) -> None:
    """NumPy is quick where all three operands have one dimension, or a row is long."""
    if type(key[0]) is not slice and key[0].ndim == 1 and value.size > _LONG * len(key[0]):
        if all(type(k) is slice for k in key[1:]) and value.shape[:1] == key[0].shape:
            for place, row in zip(key[0].tolist(), value):
                ufunc(x[place], row, out=x[place])
            return
    found = _flat(x, key, value)
    ufunc.at(*((x, key, value) if found is None else found))


def _flat(x: np.ndarray, key: Key, value: np.ndarray) -> Any:
    """Elements of x, places among them, and values, of one dimension each; None where they are few
    or x is not dense."""
    places = flat_places(x, key, value.size)
    if places is None or value.shape != places.shape:
        return None
    return x.reshape(-1), places.reshape(-1), value.reshape(-1)
