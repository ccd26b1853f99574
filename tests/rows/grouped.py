"""Rows of native/grouped.py: products of groups of matrices."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, float16, float32, float64, int32, int64

from . import Fails, Row, S, T


def _products(a: Any, b: Any, offs: Any = None) -> Any:
    if offs is None:
        return np.matmul(a, b)
    groups = list(enumerate(pairwise([0, *offs.tolist()])))
    if a.ndim == b.ndim == 2:
        return np.stack([a[:, i:j] @ b[i:j] for _, (i, j) in groups])
    out = np.zeros((a.shape[-2], b.shape[-1]), a.dtype)
    for group, (i, j) in groups:
        if a.ndim == 2:
            out[i:j] = a[i:j] @ b[group]
        else:
            out[:, i:j] = a[group] @ b[:, i:j]
    return out


def _ends(values: str, groups: int = 1) -> T:
    return T(groups, values=values, dtype=int32)


def _fails(error: type[Exception], says: str, *operands: Any) -> Fails:
    return Fails(S(*operands), error, says, float32)


# If all ends are 1, the first group has one row and the others are empty.
ROWS = [
    Row(
        "_grouped_mm",
        [
            S(T(5, 3), T(1, 3, 4), _ends("ones")),
            S(T(5, 3), T(3, 3, 4), _ends("ones", 3)),
            S(T(2, 5, 3), T(3, 7), _ends("ones", 2)),
            S(T(5, 3), T(3, 2), _ends("ones", 2)),
            S(T(3, 4, layout="transposed"), T(4, 2), _ends("zeros")),
            S(T(2, 3, 4), T(2, 4, 5)),
            S(T(0, 3), T(2, 3, 4), _ends("zeros", 2)),
        ],
        _products,
        dtypes=(float16, bfloat16, float32, float64),
        errors=(
            _fails(
                errors.ShapeError, "'self' must have 2 or 3 dim", T(3), T(2, 3, 4), _ends("ones")
            ),
            _fails(
                errors.ShapeError, "'mat2' must have 3 rows", T(5, 3), T(2, 5, 3), _ends("ones")
            ),
            _fails(errors.ArgumentError, "'offs' must be given if", T(5, 3), T(2, 3, 4)),
            _fails(
                errors.ShapeError, "'offs' must have 2 elem", T(5, 3), T(2, 3, 4), _ends("ones")
            ),
            _fails(errors.DtypeError, "'offs' must be i32", T(5, 3), T(1, 3, 4), T(1, dtype=int64)),
            _fails(
                errors.DtypeError, "'mat2' must have self's", T(2, 5, 3), T(2, 3, 4, dtype=float64)
            ),
            _fails(errors.ShapeError, "'mat2' must have 2 matrices", T(2, 5, 3), T(3, 3, 4)),
        ),
    ),
]
