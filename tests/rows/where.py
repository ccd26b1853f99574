"""Row of kernels/*/where: a choice between two inputs by a third."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bool_, float64, int64

from . import Fails, Row, S, T


def _condition(*sizes: int, layout: str | None = None) -> T:
    return T(*sizes, dtype=bool_, layout=layout)


def _where(condition: np.ndarray, *chosen: Any) -> Any:
    return np.where(condition, *chosen) if chosen else list(np.nonzero(np.atleast_1d(condition)))


ROWS = [
    Row(
        "where",
        [
            S(T(2, 3)),
            S(T()),
            S(_condition(2, 3), T(2, 3, values="any"), T(2, 3, values="any")),
            S(_condition(2, 3, 4, 5), T(2, 3, 4, 5), T(2, 3, 4, 5, layout="channels_last")),
            S(_condition(), T(), T()),
            S(_condition(0, 3), T(3), T()),
            S(_condition(3), T(2, 3, values="any"), T()),
            S(_condition(2, 1), T(1, 3), T(2, 3)),
            S(_condition(2, 3, layout="transposed"), T(2, 3), 2),
            S(_condition(2, 3), T(2, 3), 0.5),
            S(_condition(2, 3), T(2, 3), T(2, 3, dtype=float64)),
            S(_condition(2, 3), T(2, 3), T(dtype=int64)),
            S(_condition(2, 3), T(2, 3), 1j),
        ],
        _where,
        result=lambda args, _, chosen: chosen if len(args) > 1 else int64,
        errors=(
            Fails(
                S(T(2, dtype=int64), T(2), T(2)),
                errors.DtypeError,
                "where: 'condition' must be a bool tensor",
            ),
            Fails(
                S(_condition(2), T(3), T(2)),
                errors.ShapeError,
                "where: '(condition|self|other)' must broadcast",
            ),
        ),
    )
]
