"""out[r] = (x[r] - mean[r]) * rstd[r] * scale[r] + shift[r]; and roots of sums of squares.
family: norm

Types    f16 and bf16 in f32, rounded once.
Order    squares of a run of 1024 are added by BLAS, runs pairwise: fixed by the layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import cpu
from . import cast, quiet
from .reduce import in_blocks, sum_in_blocks

# Neighbours whose squares BLAS adds.
_RUN = 1024
# Elements from which on the threads share.
_SHARED_FROM = 1 << 17


def normalized(
    x: np.ndarray, scale: Any, shift: Any, eps: float, out: np.ndarray, mean: np.ndarray,
    rstd: np.ndarray,
) -> None:  # fmt: skip
    """Of x (R, …) over all dimensions but the first; scale and shift (R or 1, …) or None."""
    axes = tuple(range(1, x.ndim))
    count = x.size // len(x)

    def rows(part: Any) -> None:
        given, to = wide(x[part]), out[part]
        middle = np.true_divide(sum_in_blocks(given, axes, given.dtype, None, True), count)
        found = np.subtract(given, middle, to if to.dtype == given.dtype else None)
        spread = np.true_divide(squares(found, axes, None, None, True), count)
        one_by = np.true_divide(1, np.sqrt(np.add(spread, eps, spread), spread), spread)
        np.multiply(found, one_by, found)
        if scale is not None:
            np.multiply(found, wide(_rows_of(scale, part)), found)
        if shift is not None:
            np.add(found, wide(_rows_of(shift, part)), found)
        if found is not to:
            np.copyto(to, found, casting="unsafe")
        mean[part] = middle.reshape(mean[part].shape)
        rstd[part] = one_by.reshape(rstd[part].shape)

    if x.size < _SHARED_FROM:
        rows(slice(None))
    else:
        cpu.share_rows((len(x), count), 1, lambda part: quiet.run(rows, part[0]))


def _rows_of(x: np.ndarray, part: slice) -> np.ndarray:
    return x if len(x) == 1 else x[part]


def root_of_squares(x: np.ndarray, axes: tuple[int, ...], out: np.ndarray, keepdims: bool) -> None:
    """The 2-norm over the axes, row-major in `out`."""
    compute = np.dtype(np.float32) if x.dtype.itemsize == 2 else x.dtype
    into = out if out.dtype == compute else np.empty(out.shape, compute)
    if x.size < _SHARED_FROM:
        squares(x, axes, None, into, keepdims)
    else:
        in_blocks(squares, squares, added, compute)(x, axes, None, into, keepdims)
    np.sqrt(into, into)
    if into is not out:
        np.copyto(out, into, casting="unsafe")


def squares(
    x: np.ndarray, axes: tuple[int, ...], unused: None, out: Any, keepdims: bool
) -> np.ndarray:
    """Sums of squares over the axes."""
    x = wide(x)
    last, n = x.ndim - 1, x.shape[-1]
    if last not in axes or x.strides[-1] != x.itemsize or n < 16:
        return _total(np.multiply(x, x), axes, out, keepdims)
    if n <= _RUN:
        return _total(np.vecdot(x, x)[..., None], axes, out, keepdims)
    whole = n // _RUN * _RUN
    runs = x[..., :whole].reshape(*x.shape[:-1], -1, _RUN)
    sums = np.vecdot(runs, runs)
    if whole < n:
        sums[..., 0] += np.vecdot(x[..., whole:], x[..., whole:])
    return _total(sums, axes, out, keepdims)


def _total(sums: np.ndarray, axes: tuple[int, ...], out: Any, keepdims: bool) -> np.ndarray:
    found: np.ndarray = sum_in_blocks(sums, axes, sums.dtype, out, keepdims)
    return found


def added(parts: np.ndarray, axes: Any, unused: None, out: np.ndarray, keepdims: bool) -> None:
    sum_in_blocks(parts, axes, parts.dtype, out, keepdims)


def wide(x: np.ndarray) -> np.ndarray:
    """In the dtype that is computed in."""
    if x.dtype.itemsize > 2:
        return x
    return cast.widened(x) if x.dtype == np.float16 else x.astype(np.float32)
