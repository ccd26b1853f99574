"""Rows of native/counts. The tests in tests/random_numbers check the samples."""

from __future__ import annotations

from gputensor.core import errors
from gputensor.core.dtype import float64, int64

from . import Fails, Row, S, T
from .random import REAL_FLOATS

ROWS = [
    Row(
        "binomial",
        [
            S(T(2, 3, values="positive"), T(3, values="positive")),
            S(T(2, 3), T(2, 3)),
            S(T(), T(4, values="positive"), generator=None),
        ],
        dtypes=REAL_FLOATS,
        out="same",
        checked_by="tests/random_numbers/test_random.py",
        errors=(
            Fails(S(T(2), T(2)), errors.DtypeError, "binomial: 'count' must be floating", int64),
            Fails(S(T(2), T(2, dtype=float64)), errors.DtypeError, "'prob' must be float32"),
            Fails(S(T(2), T(3)), errors.ShapeError, "'prob' must broadcast with 'count'"),
        ),
    ),
    Row(
        "poisson",
        [S(T(2, 3, values="positive")), S(T(0)), S(T(values="positive"), generator=None)],
        dtypes=REAL_FLOATS,
        out="same",
        errors=(
            Fails(S(T(2)), errors.DtypeError, "poisson: 'input' must be floating", int64),
            Fails(S(-1.0), errors.GpuTensorError, "poisson: 'input' must be"),
        ),
    ),
]
