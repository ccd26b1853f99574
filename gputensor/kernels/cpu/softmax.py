"""out[..., i, ...] = softmax over one axis, its logarithm, and their derivatives.  family: softmax

Types    f16 and bf16 in f32, rounded once.
Numbers  the largest element is subtracted first, so no exponential overflows: log_softmax is (x -
         max) - log(sum(exp(x - max))). A row of -inf, or with NaN or inf, gives NaN.
Order    of sums: NumPy's, determined by the layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .norm import wide


def softmax(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    powers = np.exp(_less_largest(x, axis))
    _store(powers / _sum(powers, axis), out)


def log_softmax(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    less = _less_largest(x, axis)
    _store(less - np.log(_sum(np.exp(less), axis)), out)


def softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int, out: np.ndarray) -> None:
    """Write output * (grad - sum(grad * output)) to `out`."""
    grad, output = _rows(grad), _rows(output)
    _store(output * (grad - _sum(grad * output, axis)), out)


def log_softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int, out: np.ndarray) -> None:
    """Write grad - exp(output) * sum(grad) to `out`."""
    grad, output = _rows(grad), _rows(output)
    _store(grad - np.exp(output) * _sum(grad, axis), out)


def _rows(x: np.ndarray) -> np.ndarray:
    """Return x in the dtype of the computation. A 0-d x becomes a row of one element."""
    return np.atleast_1d(wide(x))


def _less_largest(x: np.ndarray, axis: int) -> np.ndarray:
    x = _rows(x)
    less: np.ndarray = x - x.max(axis, keepdims=True)
    return less


def _sum(x: np.ndarray, axis: int) -> Any:
    return x.sum(axis, keepdims=True)


def _store(made: np.ndarray, out: np.ndarray) -> None:
    out[...] = made.reshape(out.shape)
