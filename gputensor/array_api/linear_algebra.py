"""Products of matrices and vectors that are in the standard's main namespace."""

from __future__ import annotations

from collections.abc import Sequence

import gputensor as gt
from gputensor import Tensor

from ..core import errors
from .dtypes import promoted


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices, or of a matrix and a vector."""
    first, second = promoted("matmul", (x1, x2))
    return gt.matmul(first, second)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """A view of matrices with rows and columns exchanged."""
    return x.mT


def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Sum products over the last `axes` axes of x1 and the first `axes` axes of x2. If `axes`
    is a pair, it lists the axes of x1 and the axes of x2."""
    first, second = promoted("tensordot", (x1, x2))
    return gt.tensordot(first, second, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The inner product along an axis; x1 is conjugated."""
    if not -min(x1.ndim, x2.ndim) <= axis < 0:
        rule = f"be in [{-min(x1.ndim, x2.ndim)}, -1]"
        raise errors.must("vecdot", "axis", rule, axis, kind=errors.IndexRangeError)
    if x1.shape[axis] != x2.shape[axis]:
        rule = f"have {x1.shape[axis]} elements along axis {axis}, as x1 has"
        raise errors.must("vecdot", "x2", rule, x2, kind=errors.ShapeError)
    first, second = promoted("vecdot", (x1, x2))
    return gt.sum(gt.conj(first) * second, axis, dtype=first.dtype)
