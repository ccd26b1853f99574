"""out[r] = sum of (x[r] - mean[r])² / over; and the mean.                          family: moments

Types    f16 and bf16 in f32, which results have.
Order    of sums as in reduce.py and norm.py: fixed by the layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import cpu
from . import quiet
from .norm import added, squares, wide
from .reduce import in_blocks, sum_in_blocks

# Elements from which on the threads share, and that one takes at a time.
_SHARED_FROM, _PART = 1 << 17, 1 << 16


def spread(
    x: np.ndarray, axes: tuple[int, ...], over: float, keepdims: bool, out: np.ndarray,
    mean: np.ndarray | None,
) -> None:  # fmt: skip
    """mean: None where nobody wants it."""
    kept = [d for d, n in enumerate(x.shape) if d not in axes and n > 1]
    if x.size < _SHARED_FROM:
        _of_part(x, axes, over, keepdims, out, mean)
        return
    if mean is None:
        mean = np.empty_like(out)
    if kept:
        _by_parts(kept[0], x, axes, over, keepdims, out, mean)
    else:
        _of_all(x, axes, over, out.reshape(1), mean.reshape(1))


def _of_part(
    x: np.ndarray, axes: tuple[int, ...], over: float, keepdims: bool, out: Any, mean: Any
) -> None:
    x = wide(x)
    middle = sum_in_blocks(x, axes, x.dtype, None, True)
    middle = np.true_divide(middle, x.size / middle.size)
    squares(np.subtract(x, middle), axes, None, out, keepdims)
    np.true_divide(out, over, out)
    if mean is not None:
        mean[...] = middle.reshape(mean.shape)


def _by_parts(
    axis: int, x: np.ndarray, axes: tuple[int, ...], over: float, keepdims: bool, out: Any,
    mean: Any,
) -> None:  # fmt: skip
    step = max(1, _PART * x.shape[axis] // x.size)
    lead = (slice(None),) * axis
    to = lead if keepdims else (slice(None),) * (axis - sum([d < axis for d in axes]))

    def work(number: int) -> None:
        part = slice(number * step, (number + 1) * step)
        into = (*to, part)
        quiet.run(_of_part, x[(*lead, part)], axes, over, keepdims, out[into], mean[into])

    cpu.share(-(-x.shape[axis] // step), cpu.get_num_threads(), lambda: work)


def _of_all(x: np.ndarray, axes: tuple[int, ...], over: float, out: Any, mean: Any) -> None:
    def sums(part: np.ndarray, axes: Any, unused: None, out: Any, keepdims: bool) -> Any:
        return sum_in_blocks(wide(part), axes, mean.dtype, out, keepdims)

    def apart(part: np.ndarray, axes: Any, unused: None, out: Any, keepdims: bool) -> Any:
        return squares(np.subtract(wide(part), mean[0]), axes, None, out, keepdims)

    for block, result, count in ((sums, mean, x.size), (apart, out, over)):
        in_blocks(block, block, added, result.dtype)(x, axes, None, result.reshape(()), False)
        np.true_divide(result, count, result)
