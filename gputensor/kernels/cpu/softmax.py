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

from ...runtime import cpu
from . import cast, quiet
from .reduce import CHAIN, sum_in_blocks

# Elements from which on rows are shared.
_MANY = 1 << 16
# NumPy's stubs know the arguments behind the array by name alone, which costs a dict a call.
_largest: Any = np.maximum.reduce
_add: Any = np.add.reduce
_WIDE = {2: np.dtype(np.float32)}


def softmax(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    _of_rows(_softmax, axis, out, x)


def log_softmax(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    _of_rows(_log_softmax, axis, out, x)


def softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int, out: np.ndarray) -> None:
    """output * (grad - sum(grad * output))."""
    _of_rows(_softmax_backward, axis, out, grad, output)


def log_softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int, out: np.ndarray) -> None:
    """grad - exp(output) * sum(grad)."""
    _of_rows(_log_softmax_backward, axis, out, grad, output)


def _of_rows(loop: Any, axis: int, out: np.ndarray, *given: np.ndarray) -> None:
    """`loop(*wide, axis, out)` of parts that stay in the cache, on all threads."""

    if out.size >= _MANY:
        _of_many(loop, axis, out, given)
    elif out.ndim:
        if out.itemsize == 2:
            given = tuple(map(_wide, given))
        loop(*given, axis, out)
    else:
        loop(*map(_wide, given), axis, out.reshape(1))


def _of_many(loop: Any, axis: int, out: np.ndarray, given: tuple[np.ndarray, ...]) -> None:
    def rows(part: Any) -> None:
        loop(*[_wide(x[part]) for x in given], axis, out[part])

    cpu.share_rows(out.shape, axis, lambda part: quiet.run(rows, part))


def _softmax(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    powers = _less_max(x, axis, out)
    np.exp(powers, powers)
    _store(np.true_divide, powers, _sum(powers, axis), out)


def _log_softmax(x: np.ndarray, axis: int, out: np.ndarray) -> None:
    less = _less_max(x, axis, out)
    total = _sum(np.exp(less), axis)
    _store(np.subtract, less, np.log(total, total), out)


def _softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int, out: np.ndarray) -> None:
    made = grad * output
    total = _sum(made, axis)
    _store(np.multiply, output, np.subtract(grad, total, made), out)


def _log_softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int, out: np.ndarray) -> None:
    powers = np.exp(output)
    np.multiply(powers, _sum(grad, axis), powers)
    _store(np.subtract, grad, powers, out)


def _wide(x: np.ndarray) -> np.ndarray:
    """The operand in the dtype that it is computed in; 0-d ones as rows of one element."""
    if x.dtype.itemsize > 2 and x.ndim:
        return x
    if x.dtype == np.float16:
        return np.atleast_1d(cast.widened(x))
    return np.atleast_1d(x.astype(_WIDE.get(x.dtype.itemsize, x.dtype), copy=False))


def _less_max(x: np.ndarray, axis: int, out: np.ndarray) -> Any:
    """In `out` if it has the dtype that is computed in."""
    into = out if out.itemsize > 2 else None
    return np.subtract(x, _largest(x, axis, None, None, True), into)


def _sum(x: np.ndarray, axis: int) -> Any:
    if x.shape[axis] <= CHAIN:
        return _add(x, axis, None, None, True)
    return sum_in_blocks(x, (axis,), x.dtype, None, True)


def _store(ufunc: Any, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    if out.itemsize > 2:
        ufunc(a, b, out)
    else:
        np.copyto(out, ufunc(a, b), casting="unsafe")
