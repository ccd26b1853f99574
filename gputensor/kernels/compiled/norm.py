"""Normalisations of rows by the compiled loops: see kernels/cpu/norm.py.

Arrays whose strides the loops do not support are copied. Missing parameters of rows are replaced by
ones and zeros.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..cpu import norm as numpys
from .library import function

_normalized = function("norm", "normalized")
_normalized_backward = function("norm", "normalized_backward")
_grouped_backward = function("norm", "grouped_backward")
assert _normalized and _normalized_backward and _grouped_backward

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_dense = np.ascontiguousarray


def _computed(x: np.ndarray) -> np.dtype[Any]:
    return _DOUBLE if x.dtype == _DOUBLE else _SINGLE


@cache
def _neither(ndim: int, of: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return a one and a zero, as arrays of one element: the scale and the shift of a call that
    gives neither.

    The arrays are cached, so callers must not write to them.
    """
    return np.ones((1,) * ndim, of), np.zeros((1,) * ndim, of)


def normalized(
    x: np.ndarray, scale: Any, shift: Any, eps: float, out: np.ndarray, mean: np.ndarray | None,
    rstd: np.ndarray,
) -> None:  # fmt: skip
    of = _computed(x)
    if scale is None and shift is None:
        by, more = _neither(x.ndim, of)
    else:  # The loop needs a scale and a shift of equal sizes.
        by = np.ones(shift.shape, of) if scale is None else _dense(scale, of)
        more = np.zeros(by.shape, of) if shift is None else _dense(shift, of)
    to = mean, rstd
    if rstd.dtype != of:
        to = None if mean is None else np.empty(len(x), of), np.empty(len(x), of)
    if _normalized(x, by, more, out, *to, eps):
        if not x.flags.c_contiguous:
            return normalized(_dense(x), scale, shift, eps, out, mean, rstd)
        return numpys.normalized(x, scale, shift, eps, out, mean, rstd)
    for kept, found in zip((mean, rstd), to):
        if kept is not None and found is not kept:
            kept[...] = found


def _weight(x: Any, count: int, of: np.dtype[Any]) -> np.ndarray:
    return np.ones(count, of) if x is None else _dense(x)


def normalized_backward(
    grad: np.ndarray, x: np.ndarray, mean: np.ndarray | None, rstd: np.ndarray, weight: Any,
    of_x: Any, of_weight: Any, of_bias: Any,
) -> None:  # fmt: skip
    found = mean, rstd, _weight(weight, x.shape[1], _computed(x)), of_x, of_weight, of_bias
    if _normalized_backward(grad, x, *found) and _normalized_backward(
        _dense(grad), _dense(x), *found
    ):
        numpys.normalized_backward(grad, x, mean, rstd, weight, of_x, of_weight, of_bias)


def grouped_backward(
    grad: np.ndarray, x: np.ndarray, mean: np.ndarray, rstd: np.ndarray, weight: Any, of_x: Any,
    of_weight: Any, of_bias: Any,
) -> None:  # fmt: skip
    channels = x.shape[1] * x.shape[2]
    found = mean, rstd, _weight(weight, channels, _computed(x)), of_x, of_weight, of_bias
    if _grouped_backward(_dense(grad), _dense(x), *found):
        numpys.grouped_backward(grad, x, mean, rstd, weight, of_x, of_weight, of_bias)
