"""Rows of native/distance: norms of vectors, and distances by them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int64,
)

from . import Fails, Row, S, T

_REAL = (float16, bfloat16, float32, float64)
_FLOATS = (*_REAL, complex64, complex128)
_ULP = {float16: 1, bfloat16: 1, float32: 8, float64: 8, complex64: 8, complex128: 8}
_WHY = "squares or moduli, a sum of some dozens and a root; 16-bit floats are computed in f32"
_LOOSE = {**_ULP, float16: 4, bfloat16: 4, float32: 16, float64: 16}


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _norm(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    size = np.abs(_wide(x))
    dims = tuple(dim) if isinstance(dim, list) else dim
    if size.ndim == 0 or dims == ():
        dims = None
    how: Any = {"axis": dims, "keepdims": keepdim}
    if p == 0:
        return np.sum(size != 0, **how).astype(np.float64)
    if p is not None and math.isinf(p):
        return (np.max if p > 0 else np.min)(size, **how)
    if p == 1:
        return np.sum(size, **how)
    return np.sqrt(np.sum(size * size, **how))


def _renorm(x: Any, p: Any, dim: int, maxnorm: float) -> Any:
    others = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    size = _norm(x, p, others, True)
    return _wide(x) * np.where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)


def _cdist(a: Any, b: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    return _norm(_wide(a)[..., :, None, :] - _wide(b)[..., None, :, :], p, -1)


def _cdist_backward(grad: Any, a: Any, b: Any, p: float, lengths: Any) -> Any:
    grad, a, b, lengths = map(_wide, (grad, a, b, lengths))
    apart = a[..., :, None, :] - b[..., None, :, :]
    slope = np.sign(apart) if p == 1 else apart / lengths[..., None]
    if math.isinf(p):
        slope = np.where(abs(apart) == lengths[..., None], np.sign(apart), 0)
    return (slope * grad[..., None]).sum(-2)


def _pdist_backward(grad: Any, x: Any, p: float, lengths: Any) -> Any:
    first, second = np.triu_indices(len(x), 1)
    whole = np.ones((2, len(x), len(x)))
    for to, of in zip(whole, (grad, lengths)):
        to[first, second] = to[second, first] = _wide(of)
    return _cdist_backward(whole[0], x, x, p, whole[1])


def _pdist(x: Any, p: float = 2.0) -> Any:
    first, second = np.triu_indices(len(x), 1)
    return _cdist(x, x, p)[first, second]


def _real(args: Any, kwargs: Any, of: Any) -> Any:
    return kwargs.get("dtype", of).to_real


def _cosine_similarity(a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    a, b = np.broadcast_arrays(_wide(a), _wide(b))
    of_a, of_b = (np.maximum(_norm(x, 2, dim, True), eps) for x in (a, b))
    return (a / of_a * (b / of_b)).sum(dim)


def _pairwise_distance(a: Any, b: Any, p: Any = 2, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return _norm(_wide(a) - _wide(b) + eps, p, -1, keepdim)


_BAD_DIM = Fails(S(T(2, 3), 2, 2), errors.IndexRangeError, r"'dim' must be in \[-2, 1\] \(got 2\)")
_WHOLE = Fails(S(T(2)), errors.DtypeError, "'self' must be floating or complex", int64)
_INF = math.inf

_LENGTHS = T(3, 2, values="positive")
_SLOPES: Any = {
    "ulp": {float16: 8, bfloat16: 8, float32: 32, float64: 32}, "of_largest": True,
    "device_ulp": 32, "dtypes": _REAL, "why": "a sum that may cancel a few bits",
}  # fmt: skip

ROWS = [
    Row(
        "cdist",
        [
            S(T(3, 4), T(2, 4)),
            S(T(2, 3, 2), T(3, 2), p=_INF),
            S(T(3, 4), T(2, 4), p=0.0),
            S(T(27, 3), T(2, 3), p=1.0),
            S(T(2, 3), T(0, 3)),
        ],
        _cdist,
        ulp=_LOOSE,
        why=_WHY,
        device_ulp=20,
        dtypes=_REAL,
        errors=(
            Fails(S(T(2, 3), T(2, 4)), errors.ShapeError, "'x2' must have points of 3 numbers"),
            Fails(S(T(2, 3), T(2, 3), p=-1.0), errors.ArgumentError, "'p' must not be negative"),
            Fails(S(T(2, 3), T(2, 3)), errors.DtypeError, "'x1' must be floating", int64),
        ),
    ),
    Row(
        "_cdist_backward",
        [
            S(T(3, 2), T(3, 4), T(2, 4), 2.0, _LENGTHS),
            S(T(2, 3, 2), T(2, 3, 4), T(2, 4), 1.0, T(2, 3, 2, values="positive")),
        ],
        _cdist_backward,
        errors=(
            Fails(
                S(T(3, 1), T(3, 4), T(2, 4), 2.0, _LENGTHS),
                errors.ShapeError,
                r"_cdist_backward: 'grad' must broadcast to \[3, 2\]",
            ),
            Fails(
                S(T(3, 2), T(3, 4), T(2, 3), 2.0, _LENGTHS),
                errors.ShapeError,
                "_cdist_backward: 'x2' must have points of 4 numbers, as x1",
            ),
        ),
        **_SLOPES,
    ),
    Row(
        "_cdist_forward",
        [S(T(3, 4), T(2, 4), 2.0, None), S(T(2, 3, 2), T(1, 3, 2), 1.0, 1)],
        _cdist,
        ulp=_LOOSE,
        why=_WHY,
        device_ulp=20,
        out="same",
        dtypes=_REAL,
    ),
    Row(
        "cosine_similarity",
        [S(T(3, 4), T(3, 4)), S(T(2, 3, 2), T(3, 2), dim=-1, eps=0.5), S(T(0, 3), T(3), 0)],
        _cosine_similarity,
        ulp=_LOOSE,
        why=_WHY + "; and a sum that may cancel a few bits",
        device_ulp=20,
        dtypes=_REAL,
        errors=(
            Fails(S(T(2), T(3)), errors.ShapeError, "cosine_similarity: 'x2' must broadcast"),
            Fails(S(T(2, 3), T(2, 3)), errors.DtypeError, "'x1' must be floating", int64),
            Fails(S(T(2), T(2), 1), errors.IndexRangeError, "cosine_similarity: 'dim' must be"),
        ),
    ),
    Row(
        "dist",
        [S(T(2, 3), T(2, 3)), S(T(2, 3), T(3), 1), S(T(4), T(4), _INF)],
        lambda a, b, p=2: _norm(_wide(a) - _wide(b), p),
        ulp={**_LOOSE, float16: 8, bfloat16: 8},
        why=_WHY + "; the difference is rounded first",
        device_ulp=20,
        out="same",
        dtypes=_FLOATS,
        result=_real,
    ),
    Row(
        "_euclidean_dist",
        [S(T(3, 4), T(2, 4)), S(T(2, 3, 2), T(2, 4, 2))],
        lambda a, b: _cdist(a, b),
        ulp={**_LOOSE, float32: 4096, float64: 4096, float16: 64, bfloat16: 64},
        why="squares of distances are differences of products, which cancel",
        device_ulp=4096,
        out="same",
        dtypes=(float32, float64),
    ),
    Row(
        "linalg_vector_norm",
        [
            S(T(2, 3)),
            S(T()),
            S(T(2, 3), 1, 0),
            S(T(2, 3, 4), _INF, (0, -1), True),
            S(T(2, 3), -_INF, 1),
            S(T(2, 3), 0, 1),
            S(T(0, 3), 2, 0),
            S(T(33, 40), 2, (0,), dtype=float64),
        ],
        _norm,
        ulp=_ULP,
        why=_WHY,
        device_ulp=20,
        out="same",
        dtypes=_REAL,
        result=_real,
        errors=(
            _BAD_DIM,
            _WHOLE,
            Fails(S(T(0, 3), _INF, 0), errors.ArgumentError, "'dim' must name dimensions of non-"),
        ),
    ),
    Row(
        "norm",
        [
            S(T(2, 3)),
            S(T(2, 3), 1),
            S(T(2, 3), 2, 0),
            S(T(2, 3, 4), None, (0, 2), True),
            S(T(2, 3), 1, dtype=float64),
            S(T(2, 3), 2, [1], False, dtype=float64),
        ],
        _norm,
        ulp=_ULP,
        why=_WHY,
        device_ulp=20,
        out="same",
        dtypes=_REAL,
        result=_real,
        errors=(_BAD_DIM, _WHOLE),
    ),
    Row(
        "pairwise_distance",
        [S(T(3, 4), T(3, 4)), S(T(2, 3), T(3), 1.0, 0.5, True)],
        _pairwise_distance,
        ulp={**_LOOSE, float16: 8, bfloat16: 8},
        why=_WHY + "; the difference is rounded first",
        device_ulp=20,
        dtypes=_REAL,
        errors=(Fails(S(T(), T()), errors.ShapeError, "'x1' must have a dimension"),),
    ),
    Row(
        "pdist",
        [S(T(4, 3)), S(T(3, 2), _INF), S(T(1, 3))],
        _pdist,
        ulp=_LOOSE,
        why=_WHY,
        device_ulp=20,
        dtypes=_REAL,
        errors=(Fails(S(T(3)), errors.ShapeError, "pdist: 'self' must have two dimensions"),),
    ),
    Row(
        "_pdist_backward",
        [
            S(T(6), T(4, 3), 2.0, T(6, values="positive")),
            S(T(3), T(3, 2), 1.0, T(3, values="positive")),
        ],
        _pdist_backward,
        errors=(
            Fails(
                S(T(5), T(4, 3), 2.0, T(6)),
                errors.ShapeError,
                r"_pdist_backward: 'grad' must have sizes \[6\]",
            ),
        ),
        **_SLOPES,
    ),
    Row(
        "_pdist_forward",
        [S(T(4, 3), 1.0), S(T(3, 2))],
        _pdist,
        ulp=_LOOSE,
        why=_WHY,
        device_ulp=20,
        out="same",
        dtypes=_REAL,
    ),
    Row(
        "renorm",
        [S(T(2, 3), 2, 0, 1.0), S(T(2, 3, 4), 1, -1, 2.5), S(T(3, 2), _INF, 1, 1)],
        _renorm,
        ulp={**_LOOSE, complex64: 16, complex128: 16},
        why=_WHY,
        device_ulp=20,
        out="same",
        dtypes=_FLOATS,
        errors=(
            Fails(S(T(2), 2, 0, 1.0), errors.ShapeError, "have at least two dimensions"),
            Fails(S(T(2, 3), 0, 0, 1.0), errors.ArgumentError, "renorm: 'p' must be positive"),
        ),
    ),
]
