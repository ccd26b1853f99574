"""out[r] = op over the reduced axes of x: variances, norms, logsumexp.             family: moments

Types    f16 and bf16 in f32, rounded once. Norms of complex numbers are real.
Order    the order of additions is determined by the layout, as in reduce.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.dtype import dtype
from .norm import wide
from .reduce import Loop, sum_in_blocks


def bind(op: str, given: dtype, out: dtype, over: float = 1.0) -> Loop | None:
    """Return the loop `(array, axes, None, out, keepdims)`, where `axes` is a tuple. Return None if
    there is no loop.

    var divides the sum of (x - mean)² by `over`; std is its square root. For norm, `over` is the
    order.
    """
    if op == "logsumexp":
        return _logsumexp
    if op != "norm":
        return _spread(over, op == "std")
    extreme: Any = np.maximum if over > 0 else np.minimum
    if math.isinf(over):
        return lambda x, axes, unused, out, keepdims: extreme.reduce(
            np.abs(x), axes, None, out, keepdims
        )
    if over == 0:
        return lambda x, axes, unused, out, keepdims: np.copyto(
            out, np.count_nonzero(x, axes, keepdims=keepdims), casting="unsafe"
        )
    if over in (1, 2):
        return _of_sizes(over == 2)
    return None


def _logsumexp(
    x: np.ndarray, axes: Any, unused: None, out: np.ndarray, keepdims: bool = False
) -> None:
    x = wide(x)
    top = np.maximum.reduce(x, axes, keepdims=True)
    top = np.where(np.isfinite(top), top, x.dtype.type(0))
    total = np.log(sum_in_blocks(np.exp(x - top), axes, x.dtype, None, True)) + top
    np.copyto(out, total.reshape(out.shape), casting="unsafe")


def _of_sizes(is_squared: bool) -> Loop:
    def loop(
        x: np.ndarray, axes: Any, unused: None, out: np.ndarray, keepdims: bool = False
    ) -> None:
        size = np.abs(wide(x))
        if is_squared:
            np.multiply(size, size, size)
        found = np.asarray(sum_in_blocks(size, axes, size.dtype, None, keepdims))
        np.copyto(out, np.sqrt(found) if is_squared else found, casting="unsafe")

    return loop


def _spread(over: float, has_root: bool) -> Loop:
    def loop(
        x: np.ndarray, axes: Any, unused: None, out: np.ndarray, keepdims: bool = False
    ) -> None:
        spread(x, axes, over, keepdims, out, None)
        if has_root:
            np.sqrt(out, out)

    return loop


def spread(
    x: np.ndarray, axes: tuple[int, ...], over: float, keepdims: bool, out: np.ndarray,
    mean: np.ndarray | None,
) -> None:  # fmt: skip
    """Write the variance to `out`. Write the mean to `mean` unless that is None."""
    x = wide(x)
    middle = sum_in_blocks(x, axes, x.dtype, None, True)
    middle = np.true_divide(middle, x.size / middle.size)
    rest = np.subtract(x, middle)
    total = sum_in_blocks(np.multiply(rest, rest, rest), axes, rest.dtype, None, keepdims)
    np.true_divide(total, over, out, casting="unsafe")
    if mean is not None:
        mean[...] = middle.reshape(mean.shape)
