"""nll_loss and its derivative by the compiled loops: see kernels/cpu/loss.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import errors
from ..cpu import loss as numpys
from .library import function

_nll_loss = function("loss", "nll_loss")
_nll_loss_backward = function("loss", "nll_loss_backward")
assert _nll_loss and _nll_loss_backward


def nll_loss(
    x: np.ndarray, target: np.ndarray, weight: Any, reduction: int, ignore_index: int,
    out: np.ndarray, total: np.ndarray,
) -> None:  # fmt: skip
    bad = _nll_loss(x, target, weight, out, total, reduction, ignore_index)
    if bad > 0:
        raise _no_class("nll_loss", target, bad - 1, x)
    if bad:
        numpys.nll_loss(x, target, weight, reduction, ignore_index, out, total)


def nll_loss_backward(
    grad: np.ndarray, target: np.ndarray, weight: Any, reduction: int, ignore_index: int,
    total: np.ndarray, out: np.ndarray,
) -> None:  # fmt: skip
    bad = _nll_loss_backward(grad, target, weight, total, out, reduction, ignore_index)
    if bad > 0:
        raise _no_class("nll_loss_backward", target, bad - 1, out)
    if bad:
        numpys.nll_loss_backward(grad, target, weight, reduction, ignore_index, total, out)


def _no_class(op: str, target: np.ndarray, row: int, x: np.ndarray) -> Exception:
    return errors.target_out_of_range(op, int(target.flat[row]), x.shape[x.ndim > 1])
