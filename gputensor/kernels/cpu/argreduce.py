"""out[r] = index of the maximum or minimum of row r along one axis.             family: argreduce

Numbers  the first of equal elements, and the first NaN if there is one.
"""

from __future__ import annotations

import numpy as np

from .gather import taken


def argmax(x: np.ndarray, axis: int, out: np.ndarray, keepdims: bool) -> None:
    _store(out, _known(x).argmax(axis), axis, keepdims)


def argmin(x: np.ndarray, axis: int, out: np.ndarray, keepdims: bool) -> None:
    _store(out, _known(x).argmin(axis), axis, keepdims)


def max(x: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray, keepdims: bool) -> None:
    _select(x, _known(x).argmax(axis), axis, values, out, keepdims)


def min(x: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray, keepdims: bool) -> None:
    _select(x, _known(x).argmin(axis), axis, values, out, keepdims)


def _select(
    x: np.ndarray, found: np.ndarray, axis: int, values: np.ndarray, out: np.ndarray, keepdims: bool
) -> None:
    """Write the indices of the maxima or minima to `out`, and the elements at these indices to
    `values`."""
    _store(out, found, axis, keepdims)
    if axis < 0:
        axis += x.ndim or 1
    places = found[..., None] if axis == found.ndim else np.expand_dims(found, axis)
    chosen = taken(x if x.ndim else x.reshape(1), places, axis)
    values[...] = chosen.reshape(values.shape)


def _known(x: np.ndarray) -> np.ndarray:
    """Cast bf16 to f32, because argmax of some ml_dtypes types ignores NaN. The cast keeps the
    order."""
    if x.dtype.kind == "V":
        x = x.astype(np.float32)
    return x if x.ndim else x.reshape(1)


def _store(out: np.ndarray, found: np.ndarray, axis: int, keepdims: bool) -> None:
    out[...] = np.expand_dims(found, axis) if keepdims and out.ndim else found
