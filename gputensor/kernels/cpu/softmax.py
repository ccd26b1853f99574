"""out[..., i, ...] = softmax over one axis, its logarithm, and their derivatives.      family:
softmax

Types    f16 and bf16 in f32, rounded once.
Numbers  the largest element is taken off first, so nothing overflows: log_softmax is
         (x - max) - log(sum(exp(x - max))). A row of -inf, or with NaN or inf, gives NaN.
Order    of sums as in reduce.py: fixed by the layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .reduce import sum_in_blocks

_WIDE = {2: np.dtype(np.float32)}


def softmax(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    wide = _wide(x)
    powers = _less_max(wide, axis)
    np.exp(powers, powers)
    _store(out, np.true_divide(powers, _sum(powers, axis), powers))


def log_softmax(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    less = _less_max(_wide(x), axis)
    total = _sum(np.exp(less), axis)
    np.log(total, total)
    if less.dtype == out.dtype and out.ndim:
        np.subtract(less, total, out)
    else:
        _store(out, np.subtract(less, total, less))


def softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int, out: np.ndarray) -> None:
    """output * (grad - sum(grad * output))."""
    grad, output = _wide(grad), _wide(output)
    _store(out, output * (grad - _sum(grad * output, axis)))


def log_softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int, out: np.ndarray) -> None:
    """grad - exp(output) * sum(grad)."""
    grad, output = _wide(grad), _wide(output)
    powers = np.exp(output)
    _store(out, grad - np.multiply(powers, _sum(grad, axis)))


def _wide(x: np.ndarray) -> np.ndarray:
    """The operand in the dtype that it is computed in; 0-d ones as rows of one element."""
    compute = _WIDE.get(x.dtype.itemsize, x.dtype)
    return np.atleast_1d(x.astype(compute, copy=False))


def _less_max(x: np.ndarray, axis: int) -> Any:
    return np.subtract(x, np.maximum.reduce(x, axis, keepdims=True))


def _sum(x: np.ndarray, axis: int) -> Any:
    return sum_in_blocks(x, (axis,), x.dtype, None, True)


def _store(out: np.ndarray, wide: np.ndarray) -> None:
    np.copyto(out, wide.reshape(out.shape), casting="unsafe")
