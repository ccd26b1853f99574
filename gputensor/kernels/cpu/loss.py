"""loss[r] = -w[t[r]] * x[r, t[r]], their sum or weighted mean, and the derivatives.   family: loss

Types    f16 and bf16 are summed in f32, rounded once. Targets are int64 or uint8.
Numbers  a target equal to ignore_index is skipped; any other target that is not a class raises.
Order    of sums: NumPy's pairwise sum, with equal bits on every run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import errors

NONE, MEAN = 0, 1


def nll_loss(
    x: np.ndarray, target: np.ndarray, weight: Any, reduction: int, ignore_index: int,
    out: np.ndarray, total: np.ndarray,
) -> None:  # fmt: skip
    """Write the loss to `out`, and the sum of the weights to `total`. The classes are dimension 1
    of x, or dimension 0 of a 1-d x."""
    x = x if x.ndim > 1 else x[None]
    index, kept = _classes("nll_loss", target, x, ignore_index)
    compute = _wide(x.dtype)
    weights = kept.astype(compute)
    if weight is not None:
        weights *= weight[index]
    each = np.negative(np.take_along_axis(x, index[:, None], 1)[:, 0].astype(compute))
    each = np.where(kept, each * weights, 0)
    if reduction == NONE:
        out[...] = each.reshape(out.shape)
        total[...] = 0
        return
    weighed, added = np.add.reduce(weights, None), np.add.reduce(each, None)
    out.fill(added / weighed if reduction == MEAN else added)
    total.fill(weighed)


def nll_loss_backward(
    grad: np.ndarray, target: np.ndarray, weight: Any, reduction: int, ignore_index: int,
    total: np.ndarray, out: np.ndarray,
) -> None:  # fmt: skip
    made = out if out.ndim > 1 else out[None]
    index, kept = _classes("nll_loss_backward", target, made, ignore_index)
    compute = _wide(out.dtype)
    each = np.negative(grad.astype(compute))
    if reduction == MEAN:
        each = each / total.astype(compute)
    if weight is not None:
        each = each * weight[index]
    made.fill(0)
    np.put_along_axis(made, index[:, None], np.where(kept, each, 0)[:, None], 1)


def _wide(of: np.dtype) -> np.dtype:
    return np.dtype(np.float32) if of.itemsize == 2 else of


def _classes(
    op: str, target: np.ndarray, x: np.ndarray, ignore_index: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the targets as indices (0 for an ignored target), and a mask that is false for ignored
    targets.

    Raises: IndexRangeError for a target that is not a class.
    """
    target = target.reshape(x.shape[:1] + x.shape[2:]).astype(np.int64)
    kept = target != ignore_index
    outside = kept & ((target < 0) | (target >= x.shape[1]))
    if outside.any():
        raise errors.target_out_of_range(op, int(target[outside][0]), x.shape[1])
    return np.where(kept, target, 0), kept
