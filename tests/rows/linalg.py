"""Rows of native/linalg.py: gt.linalg and its older names, over the factorisations.

NumPy and SciPy call the same LAPACK, so batches of small matrices agree nearly to the bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import ALL, bool_, float32, float64, int32, int64

from . import Fails, Row, S, T
from .factor import OF, fails, lu_of, one, products_of_reflectors, row

_A, _B = T(3, 2, 2, values="positive"), T(3, 2, 1, values="positive")
_V, _TAU = T(3, 2, values="positive"), T(2, 2, values="positive")
_TALL = T(2, 3, 2, values="positive")
_ONE, _ONES = T(1, 1, values="positive"), T(1, dtype=int32, values="ones")


def some(*rest: Any, **named: Any) -> list[S]:
    """A matrix of one element, and a batch of square ones."""
    return [S(_ONE, *rest, **named), S(_A, *rest, **named)]


def _none(x: Any) -> Any:
    return np.zeros(x.shape[:-2], np.int32)


def _H(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def _solve(a: Any, b: Any, left: bool = True) -> Any:
    if b.ndim < a.ndim:
        return np.linalg.solve(a, b[..., None])[..., 0]
    return np.linalg.solve(a, b) if left else _H(np.linalg.solve(_H(a), _H(b)))


def _slogdet(x: Any) -> Any:
    return tuple([np.asarray(part) for part in np.linalg.slogdet(x)])


def _log(x: Any) -> Any:
    return np.log(np.linalg.det(x))


def _cholesky(x: Any, upper: bool = False) -> Any:
    return np.sqrt(x.real).astype(x.dtype)


def _factor(x: Any, upper: bool) -> Any:
    return _H(np.triu(x)) if upper else np.tril(x)


def _cholesky_inverse(x: Any, upper: bool = False) -> Any:
    factor = _factor(x, upper)
    return np.linalg.inv(factor @ _H(factor))


def _triangular(b: Any, a: Any, upper: bool = True, transpose: bool = False) -> Any:
    part = np.triu(a) if upper else np.tril(a)
    made = np.linalg.solve(part.swapaxes(-1, -2) if transpose else part, b)
    return made, np.broadcast_to(a, made.shape[:-2] + a.shape[-2:])


def _lu(x: Any) -> Any:
    import scipy.linalg

    return tuple(scipy.linalg.lu(x))


def _qr(x: Any, some: bool = True) -> Any:
    return tuple(np.linalg.qr(x, "reduced" if some else "complete"))


def _householder(x: Any, tau: Any) -> Any:
    return products_of_reflectors(x, tau)[..., : x.shape[-1]]


def _ormqr(x: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    q = products_of_reflectors(x, tau)
    q = _H(q) if transpose else q
    return q @ other if left else other @ q


def _svd(x: Any, full_matrices: bool = True) -> Any:
    return tuple(np.linalg.svd(x, full_matrices))


def _old_svd(x: Any, some: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        m, n = x.shape[-2:]
        batch, values = x.shape[:-2], np.linalg.svd(x, compute_uv=False)
        return np.zeros((*batch, m, m), x.dtype), values, np.zeros((*batch, n, n), x.dtype)
    u, s, vh = np.linalg.svd(x, not some)
    return u, s, _H(vh)


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
    return (_H(vh) * inverse[..., None, :]) @ _H(u)


def _rank(x: Any, tol: Any = None, atol: Any = None, rtol: Any = None) -> Any:
    values = np.linalg.svd(x, compute_uv=False)
    atol, rtol = (atol, rtol) if tol is None else (tol, 0)
    return np.asarray((values > _threshold(values, x, atol, rtol)).sum(-1))


def _matrix_norm(x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, dtype=None):
    return np.linalg.norm(x if dtype is None else x.astype(dtype.np), ord, dim, keepdim)


def _norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None):
    dim = dim[0] if isinstance(dim, list) and len(dim) == 1 else dim
    dim = tuple(dim) if isinstance(dim, list) else dim
    return np.linalg.norm(x if dtype is None else x.astype(dtype.np), ord, dim, keepdim)


def _vander(x: Any, N: Any = None) -> Any:
    x = np.atleast_1d(x)
    count = x.shape[-1] if N is None else N
    x = x.astype(np.int64) if x.dtype.kind in "iub" else x
    return np.cumprod(np.stack([np.ones_like(x)] + [x] * (count - 1), -1), -1, dtype=x.dtype)


def _vander_dtype(args: Any, kwargs: Any, of: Any) -> Any:
    return int64 if of.category <= int64.category else of


def _cross(a: Any, b: Any, dim: Any = -1) -> Any:
    a, b = np.broadcast_arrays(a, b)
    dim = next(d for d, n in enumerate(a.shape) if n == 3) if dim is None else dim
    x, y = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
    parts = [x[i] * y[j] - x[j] * y[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.moveaxis(np.stack(parts), 0, dim)


def _cross_of_first(a: Any, b: Any, dim: Any = None) -> Any:
    return _cross(a, b, dim)


def _expm(x: Any) -> Any:
    import scipy.linalg

    return scipy.linalg.expm(x)


_NUMBERS = tuple(d for d in ALL if d is not bool_)
_EXACT: dict[str, Any] = {"ulp": 0, "device_ulp": 0, "why": ""}
_POWERS = [S(T(3, 2, 2), n) for n in (0, 1, 2, 3, 5)] + [S(_A, -2)]
_TENSOR = T(1, 2, 1, 2, values="positive")
_TURNED = T(2, 1, 2, 1, values="positive", layout="contiguous")
_SQUARE = T(2, 1, 2, values="positive", layout="contiguous")
_SOLVED: dict[str, Any] = {"ulp": 1 << 12, "why": "the matrices are as bad as condition 1000"}

ROWS = [
    row("cholesky", one() + one(True), _cholesky, dtypes=OF[:2], positive=True,
        errors=fails("cholesky", "self")),
    row("cholesky_inverse", some() + some(True), _cholesky_inverse, domain=(0.8, 1.7),
        errors=fails("cholesky_inverse", "self")),
    row("cholesky_solve", [S(_B, _A), S(_B, _A, True)],
        lambda b, x, upper=False: _cholesky_inverse(x, upper) @ b,
        errors=(Fails(S(_B, T(3, 3)), errors.ShapeError, "'self' must have 3 rows"),)),
    row("cross", [S(T(3, 4), T(3, 4)), S(T(2, 3), T(1, 3), 1)], _cross_of_first, **_EXACT,
        dtypes=_NUMBERS,
        errors=(Fails(S(T(2), T(2)), errors.ShapeError, "'self' must have a dimension of size"),)),
    row("det", some(), np.linalg.det, **_SOLVED, errors=fails("det")),
    row("inverse", some(), np.linalg.inv, **_SOLVED, errors=fails("inv")),
    row("linalg_cholesky", one() + one(upper=True), _cholesky, dtypes=OF[:2], positive=True,
        errors=fails("cholesky", "self")),
    row("linalg_cond", [S(_A), S(_A, 2), S(_A, -2), S(_A, 1), S(_ONE, math.inf), S(_A, "fro")],
        np.linalg.cond, "r", ulp=1024),
    row("linalg_cross", [S(T(2, 3), T(2, 3)), S(T(3, 2), T(3, 1), dim=0), S(T(0, 3), T(1, 3))],
        _cross, **_EXACT, dtypes=_NUMBERS, errors=(
            Fails(S(T(2), T(2)), errors.ShapeError, "cross: 'self' must have size 3"),
            Fails(S(T(3), T(1, 3)), errors.ShapeError, "cross: 'other' must have 1 dimensions"),
        )),
    row("linalg_det", some(), np.linalg.det, **_SOLVED, errors=fails("det")),
    Row("linalg_diagonal", [S(T(2, 3)), S(T(2, 3), offset=1), S(T(2, 3, 2), dim1=0, dim2=1)],
        lambda x, offset=0, dim1=-2, dim2=-1: np.diagonal(x, offset, dim1, dim2)),
    row("linalg_eigh", one() + one(UPLO="U"), lambda x, UPLO="L": tuple(np.linalg.eigh(x, UPLO)),
        "rx", errors=(*fails("eigh"), Fails(S(_ONE, "x"), errors.ArgumentError, "'UPLO' must be"))),
    row("linalg_eigvals", one(), lambda x: np.linalg.eigvals(x).astype(np.result_type(x, 1j)), "c",
        errors=fails("eig", "self")),
    row("linalg_eigvalsh", some(), lambda x, UPLO="L": np.linalg.eigvalsh(x, UPLO), "r",
        errors=fails("eigh")),
    row("linalg_householder_product", [S(_TALL, _TAU), S(_ONE, T(1, values="positive"))],
        _householder),
    row("linalg_inv", some(), np.linalg.inv, **_SOLVED, errors=fails("inv")),
    row("linalg_ldl_factor", one(), lambda x: (x, np.ones(x.shape[:-1], np.int32)), "xi",
        errors=fails("ldl_factor", "self")),
    row("linalg_lu", [S(_TALL), S(_A)], _lu, "xxx"),
    row("linalg_lu_factor", [S(_TALL), S(_A)], lambda x: lu_of(x)[:2], "xi", errors=(
        Fails(S(_A, pivot=False), errors.ArgumentError, "'pivot' must be True"),)),
    row("linalg_matrix_norm",
        [S(_A), S(_A, 1), S(_A, -math.inf), S(_A, 2, (0, 1)), S(_A, "nuc", (-2, -1), True),
         S(T(2, 3, 2, dtype=float32), "fro", dtype=float64)],
        _matrix_norm, "r", result=lambda args, kwargs, of: kwargs.get("dtype", of).to_real
        if kwargs.get("dtype", of).is_complex else kwargs.get("dtype", of), errors=(
            Fails(S(_A, 3), errors.ArgumentError, "'ord' must be fro, nuc"),
            Fails(S(_A, 1, (0,)), errors.ArgumentError, "'dim' must name two dimensions"),
            Fails(S(T(3)), errors.ShapeError, "'self' must be a matrix"))),
    row("linalg_matrix_power", _POWERS, np.linalg.matrix_power, ulp=1024),
    row("linalg_matrix_rank",
        [S(_A), S(_A, 0.4), S(_A, T(dtype=float64, values="positive")), S(_A, atol=0.5, rtol=0.1),
         S(_A, rtol=T(dtype=float64, values="positive"))], _rank, "l"),
    row("linalg_norm",
        [S(T(3, 4)), S(T(3, 4), 1), S(T(3, 4), "nuc"),
         S(T(3, 4), None, 0), S(T(3, 4), 3, [1], True),
         S(T(3, 4), "fro", [0, 1]), S(T(3, dtype=float32), dtype=float64, ord=1)],
        _norm, "r", result=lambda args, kwargs, of: kwargs.get("dtype", of).to_real
        if kwargs.get("dtype", of).is_complex else kwargs.get("dtype", of), errors=(
            Fails(S(_A, "nuc", 0), errors.ArgumentError, "'dim' must name two dimensions"),
            Fails(S(T(2, 3, 2), 1), errors.ShapeError, "'self' must be a vector or a matrix"))),
    row("linalg_pinv",
        [S(_TALL), S(_TALL, 1e-3), S(_TALL, T(dtype=float32, values="zeros")),
         S(_TALL, atol=T(2, dtype=float32, values="zeros")), S(_TALL, atol=1e-3, rtol=1e-3)],
        _pinv, ulp=1024),
    row("linalg_slogdet", some(), _slogdet, "xr", errors=fails("slogdet")),
    row("linalg_solve", [S(_A, _B), S(_A, _V), S(_A, _A, left=False)], _solve, **_SOLVED, errors=(
        Fails(S(_A, T(3, 3)), errors.ShapeError, "solve: 'B' must have 2 rows"),)),
    row("linalg_solve_ex", [S(_A, _B), S(_A, _V)], lambda a, b: (_solve(a, b), _none(a)), "xi",
        **_SOLVED),
    row("linalg_svd", one() + one(full_matrices=False), _svd, "xrx", dtypes=OF[:2]),
    row("linalg_svdvals", [S(_TALL), S(_A)], lambda x: np.linalg.svd(x, compute_uv=False), "r"),
    row("linalg_tensorinv", [S(_TENSOR), S(_SQUARE, 1)],
        lambda x, ind=2: np.linalg.tensorinv(x, ind), errors=(
            Fails(S(_A, 0), errors.ArgumentError, "tensorinv: 'ind' must be positive"),
            Fails(S(_A, 1), errors.ShapeError, "tensorinv: 'self' must have as many"))),
    row("linalg_tensorsolve", [S(_TENSOR, T(1, 2)), S(_TURNED, T(2), (1, 3))],
        np.linalg.tensorsolve, errors=(
            Fails(S(_A, T(3)), errors.ShapeError, "tensorsolve: 'self' must have as many"),)),
    row("linalg_vander", [S(T(3)), S(T(2, 3), N=2), S(T(1), N=5), S(T(), N=3)], _vander, **_EXACT,
        dtypes=_NUMBERS, result=_vander_dtype, errors=(
            Fails(S(T()), errors.ArgumentError, "vander: 'N' must be above 1"),
            Fails(S(T(2), N=0), errors.ArgumentError, "vander: 'N' must be above 1"))),
    row("logdet", some(), _log, ulp=4096, positive=True, errors=fails("slogdet")),
    row("lu_solve", [S(_ONE, T(1, 1, values="positive"), _ONES)], lambda b, lu, pivots: b / lu),
    row("matrix_exp", one(), np.exp, errors=fails("matrix_exp", "self")),
    row("matrix_power", _POWERS, np.linalg.matrix_power, ulp=1024,
        errors=(Fails(S(T(2, 3), 2), errors.ShapeError, "'self' must be a square matrix"),
                Fails(S(T(2, 2), 2.0), TypeError, "'n' must be an int"))),
    row("orgqr", [S(_TALL, _TAU)], _householder),
    row("ormqr", [S(_A, _V, _B), S(_A, _V, _B, True, True), S(_A, _V, T(3, 1, 2), False)], _ormqr),
    row("pinverse", [S(_TALL), S(_A, 0.1)], _pinv, ulp=1024),
    row("qr", [S(_TALL), S(_TALL, False), S(_A)], _qr, "xx"),
    row("slogdet", some(), _slogdet, "xr", errors=fails("slogdet")),
    row("svd", one() + [S(_ONE, False), S(_A, True, False)], _old_svd, "xrx", dtypes=OF[:2]),
    row("triangular_solve", [S(_B, _A), S(_B, _A, False), S(_B, _A, True, True)], _triangular,
        "xx"),
]  # fmt: skip
