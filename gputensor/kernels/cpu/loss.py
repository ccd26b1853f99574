"""loss[r] = -w[t[r]] * x[r, t[r]], their sum, or their mean by weight; and its derivative.  family:
loss

Types    f16 and bf16 are summed in f32, rounded once. Targets are int64 or uint8.
Numbers  a target that is ignore_index counts nothing; another outside the classes raises.
Order    of sums: NumPy's pairwise, the same bits on every run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import errors

NONE, MEAN = 0, 1
# Of types, NumPy makes a dtype at every call.
_INDEX, _UNSIGNED, _SINGLE = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float32)


def nll_loss(
    x: np.ndarray, target: np.ndarray, weight: Any, reduction: int, ignore_index: int,
    out: np.ndarray, total: np.ndarray,
) -> None:  # fmt: skip
    x = x.reshape(-1, x.shape[-1]) if x.ndim == 1 else x
    target, kept = _classes("nll_loss", target, x.shape[1], ignore_index)
    compute = _wide(x.dtype)
    # take() needs a dense operand of its own; a pair of index arrays does not
    each = np.negative(x[np.arange(target.size), target].astype(compute, copy=False))
    weights = None if weight is None else weight[target].astype(compute, copy=False)
    if weights is not None:
        each *= weights
    if kept is not None:
        each[~kept] = 0
        weights = kept.astype(compute) if weights is None else np.where(kept, weights, 0)
    if reduction == NONE:
        out[...] = each.reshape(out.shape)
        total[...] = 0
        return
    weighed = compute.type(target.size) if weights is None else np.add.reduce(weights)
    added = np.add.reduce(each)
    out.fill(added / weighed if reduction == MEAN else added)
    total.fill(weighed)


def nll_loss_backward(
    grad: np.ndarray, target: np.ndarray, weight: Any, reduction: int, ignore_index: int,
    total: np.ndarray, out: np.ndarray,
) -> None:  # fmt: skip
    made = out.reshape(-1, out.shape[-1]) if out.ndim == 1 else out
    target, kept = _classes("nll_loss_backward", target, made.shape[1], ignore_index)
    compute = _wide(out.dtype)
    each = np.negative(grad.astype(compute, copy=False))
    if reduction == MEAN:
        each = each / total.astype(compute, copy=False)
    if weight is not None:
        each = each * weight[target]
    if kept is not None:
        each = np.where(kept, each, 0)
    made.fill(0)
    made[np.arange(target.size), target] = each


def _wide(of: np.dtype) -> np.dtype:
    return _SINGLE if of.itemsize == 2 else of


def _classes(
    op: str, target: np.ndarray, classes: int, ignore_index: int
) -> tuple[np.ndarray, Any]:
    """The targets as indices, ignored ones as 0, and which are kept; None for all.

    Raises: IndexRangeError for a target that is no class.
    """
    target = target.reshape(-1).astype(_INDEX, copy=False)
    outside = target.view(_UNSIGNED) >= classes  # negative ones are large then
    ignores = 0 <= ignore_index < classes
    if not ignores and not np.count_nonzero(outside):
        return target, None
    kept = target != ignore_index
    outside &= kept
    if np.count_nonzero(outside):
        raise errors.target_out_of_range(op, int(target[outside.argmax(0)]), classes)
    return np.where(kept, target, 0), kept
