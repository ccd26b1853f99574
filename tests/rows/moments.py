"""Rows of native/moments: variance, standard deviation, and functions composed of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int64,
)

from . import Fails, Row, S, T

_FLOATS = (float16, bfloat16, float32, float64, complex64, complex128)
_ULP = {float16: 1, bfloat16: 1, float32: 8, float64: 8, complex64: 8, complex128: 8}
_WHY = "a mean, a square and sums of some dozens; 16-bit floats are computed in f32"

_SAMPLES = [
    S(T(2, 3)),
    S(T(7)),
    S(T(3, 0), 0),
    S(T(2, 3), 0),
    S(T(2, 3), unbiased=False),
    S(T(2, 3, 4), (0, 2), correction=0, keepdim=True),
    S(T(3, 7), correction=1.5),
    S(T(2, 3), 1, False, True),
]


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _variance(
    x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: Any = None
) -> list[np.ndarray]:
    rest = (1 if unbiased else 0) if correction is None else correction
    wide = _wide(x)
    if not wide.size:
        return [np.zeros((0,))] * 2
    mean = np.mean(wide, dim, keepdims=True)
    total = np.sum(np.abs(wide - mean) ** 2, dim, keepdims=keepdim)
    count = wide.size / max(mean.size, 1)
    return [total / np.maximum(count - rest, 0.0), np.mean(wide, dim, keepdims=keepdim)]


def _row(name: str, root: bool, with_mean: bool) -> Row:
    def reference(*args: Any, **kwargs: Any) -> Any:
        spread, mean = _variance(*args, **kwargs)
        spread = np.sqrt(spread) if root else spread
        return [spread, mean] if with_mean else spread

    return Row(
        name, _SAMPLES, reference, ulp=_ULP, why=_WHY, device_ulp=20, out="same", dtypes=_FLOATS,
        result=lambda args, kwargs, of: (of.to_real, of) if with_mean else of.to_real,
        errors=(
            Fails(S(T(2, 3), 2), errors.IndexRangeError, r"'dim' must be in \[-2, 1\] \(got 2\)"),
            Fails(S(T(2)), errors.DtypeError, f"{name}: 'self' must be floating or complex", int64),
        ),
    )  # fmt: skip


def _cov(x: Any, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    return np.cov(_wide(x), ddof=correction, fweights=fweights, aweights=aweights)


_SQUARE = Fails(S(T(2, 3, 4)), errors.ShapeError, "'self' must have at most two dimensions")

ROWS = [
    Row(
        "corrcoef",
        [S(T(3, 7)), S(T(7))],
        lambda x: np.corrcoef(_wide(x)),
        ulp={**_ULP, float16: 8, bfloat16: 8},
        why=_WHY + ", and rounded by each operator",
        device_ulp=20,
        dtypes=_FLOATS,
        errors=(_SQUARE,),
    ),
    Row(
        "cov",
        [
            S(T(3, 7)),
            S(T(7), correction=0),
            S(T(2, 3), fweights=T(3, dtype=int64, values="classes"), correction=0),
            S(T(2, 4), aweights=T(4, dtype=float64, values="positive")),
        ],
        _cov,
        ulp={**_ULP, float16: 16, bfloat16: 16},
        why=_WHY + ", and rounded by each operator",
        device_ulp=20,
        dtypes=(float32, float64),
        result=lambda args, kwargs, of: float64 if "aweights" in kwargs else of,
        errors=(
            _SQUARE,
            Fails(S(T(2)), errors.DtypeError, "cov: 'self' must not be bool", bool_),
            Fails(
                S(T(2, 3), fweights=T(2, dtype=int64)),
                errors.ShapeError,
                "cov: 'fweights' must have a weight for each of 3 columns",
            ),
            Fails(
                S(T(2, 3), aweights=T(3, dtype=int64)),
                errors.DtypeError,
                "cov: 'aweights' must be floating",
            ),
        ),
    ),
    Row(
        "nanmean",
        [S(T(2, 3)), S(T(3, 7, values="exact"), 0), S(T(2, 3, 4), (0, 2), True)],
        lambda x, dim=None, keepdim=False: np.nanmean(_wide(x), dim, keepdims=keepdim),
        ulp=_ULP,
        why=_WHY,
        device_ulp=20,
        out="same",
        dtypes=(float16, bfloat16, float32, float64),
        errors=(Fails(S(T(2)), errors.DtypeError, "nanmean: 'self' must be floating", int64),),
    ),
    _row("std", root=True, with_mean=False),
    _row("std_mean", root=True, with_mean=True),
    _row("var", root=False, with_mean=False),
    _row("var_mean", root=False, with_mean=True),
]
