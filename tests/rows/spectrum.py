"""Rows of native/spectrum.py: eigenvalues, singular values, and functions of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import float32, float64

from . import Fails, S, T
from .factor import SOLVED, OF, A, H, ONE, TALL, fails, one, row, some


def _eig(x: Any) -> Any:
    of = np.complex64 if x.dtype.char in "fF" else np.complex128
    return tuple([part.astype(of) for part in np.linalg.eig(x)])


def _svd(x: Any, full_matrices: bool = True) -> Any:
    return tuple(np.linalg.svd(x, full_matrices))


def _old_svd(x: Any, some: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        m, n = x.shape[-2:]
        batch, values = x.shape[:-2], np.linalg.svd(x, compute_uv=False)
        return np.zeros((*batch, m, m), x.dtype), values, np.zeros((*batch, n, n), x.dtype)
    u, s, vh = np.linalg.svd(x, not some)
    return u, s, H(vh)


def _threshold(values: Any, x: Any, atol: Any, rtol: Any) -> Any:
    if rtol is None:
        eps = np.finfo(x.dtype).eps * max(x.shape[-2:])
        rtol = eps if atol is None else np.where(np.asarray(atol) > 0, 0, eps)
    top = np.asarray(rtol)[..., None] * values.max(-1, keepdims=True)
    return np.maximum(np.asarray(0 if atol is None else atol)[..., None], top)


def _pinv(x: Any, rcond: Any = None, atol: Any = None, rtol: Any = None) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    kept = s > _threshold(s, x, atol, rcond if rtol is None else rtol)
    inverse = np.where(kept, 1 / s, 0).astype(s.dtype)
    return (H(vh) * inverse[..., None, :]) @ H(u)


def _rank(x: Any, tol: Any = None, atol: Any = None, rtol: Any = None) -> Any:
    values = np.linalg.svd(x, compute_uv=False)
    atol, rtol = (atol, rtol) if tol is None else (tol, 0)
    return np.asarray((values > _threshold(values, x, atol, rtol)).sum(-1))


def _matrix_norm(x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, dtype=None):
    if not x.size:
        return np.zeros((1, 1) if keepdim else ())
    return np.linalg.norm(x if dtype is None else x.astype(dtype.np), ord, dim, keepdim)


def _norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None):
    dim = dim[0] if isinstance(dim, list) and len(dim) == 1 else dim
    dim = tuple(dim) if isinstance(dim, list) else dim
    if not x.size:
        return np.zeros((1, 1) if keepdim else ())
    return np.linalg.norm(x if dtype is None else x.astype(dtype.np), ord, dim, keepdim)


ROWS = [
    row("linalg_cond", [S(A), S(A, 2), S(A, -2), S(A, 1), S(ONE, math.inf), S(A, "fro")],
        np.linalg.cond, "r", **SOLVED),
    row("linalg_eig", one(), _eig, "cc", errors=fails("eig", "self")),
    row("_linalg_eigh", one(), lambda x: tuple(np.linalg.eigh(x)), "rx", errors=fails("eigh")),
    row("linalg_eigh", one() + one(UPLO="U"), lambda x, UPLO="L": tuple(np.linalg.eigh(x, UPLO)),
        "rx", errors=(*fails("eigh"), Fails(S(ONE, "x"), errors.ArgumentError, "'UPLO' must be"))),
    row("linalg_eigvals", one(), lambda x: np.linalg.eigvals(x).astype(np.result_type(x, 1j)), "c",
        errors=fails("eig", "self")),
    row("linalg_eigvalsh", some(), lambda x, UPLO="L": np.linalg.eigvalsh(x, UPLO), "r",
        errors=fails("eigh")),
    row("linalg_matrix_norm",
        [S(A), S(A, 1), S(A, -math.inf), S(A, 2, (0, 1)), S(A, "nuc", (-2, -1), True),
         S(T(2, 3, 2, dtype=float32), "fro", dtype=float64)],
        _matrix_norm, "r", result=lambda args, kwargs, of: kwargs.get("dtype", of).to_real
        if kwargs.get("dtype", of).is_complex else kwargs.get("dtype", of), errors=(
            Fails(S(A, 3), errors.ArgumentError, "'ord' must be fro, nuc"),
            Fails(S(A, 1, (0,)), errors.ArgumentError, "'dim' must name two dimensions"),
            Fails(S(T(3)), errors.ShapeError, "'self' must be a matrix"))),
    row("linalg_matrix_rank",
        [S(A), S(A, 0.4), S(A, T(dtype=float64, values="positive")), S(A, atol=0.5, rtol=0.1),
         S(A, rtol=T(dtype=float64, values="positive"))], _rank, "l"),
    row("linalg_norm",
        [S(T(3, 4)), S(T(3, 4), 1), S(T(3, 4), "nuc"), S(T(3, 0), 1), S(T(0, 0), 2, None, True),
         S(T(3, 4), None, 0), S(T(3, 4), 3, [1], True),
         S(T(3, 4), "fro", [0, 1]), S(T(3, dtype=float32), dtype=float64, ord=1)],
        _norm, "r", result=lambda args, kwargs, of: kwargs.get("dtype", of).to_real
        if kwargs.get("dtype", of).is_complex else kwargs.get("dtype", of), errors=(
            Fails(S(A, "nuc", 0), errors.ArgumentError, "'dim' must name two dimensions"),
            Fails(S(T(2, 3, 2), 1), errors.ShapeError, "'self' must be a vector or a matrix"))),
    row("linalg_pinv",
        [S(TALL), S(TALL, 1e-3), S(TALL, T(dtype=float32, values="zeros")),
         S(TALL, atol=T(2, dtype=float32, values="zeros")), S(TALL, atol=1e-3, rtol=1e-3)],
        _pinv, ulp=1024),
    row("_linalg_svd", one(), lambda x: tuple(np.linalg.svd(x)), "xrx", dtypes=OF[:2]),
    row("linalg_svd", one() + one(full_matrices=False), _svd, "xrx", dtypes=OF[:2]),
    row("linalg_svdvals", [S(TALL), S(A)], lambda x: np.linalg.svd(x, compute_uv=False), "r",
        **SOLVED),
    row("pinverse", [S(TALL), S(A, 0.1)], _pinv, ulp=1024),
    row("svd", one() + [S(ONE, False), S(A, True, False)], _old_svd, "xrx", dtypes=OF[:2]),
]  # fmt: skip
