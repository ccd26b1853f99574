"""Rows of native/solve.py: systems of linear equations.

NumPy and SciPy call the same LAPACK, so results of small matrices are almost bit-equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import int32

from . import Fails, S, T
from .factor import A, B, COLUMN, H, ONE, ONES, SOLVED, TALL, V, info, ldl, fails, one, row, some

_TENSOR = T(1, 2, 1, 2, values="positive")
_TURNED = T(2, 1, 2, 1, values="positive", layout="contiguous")
_SQUARE = T(2, 1, 2, values="positive", layout="contiguous")


def _lstsq(a: Any, b: Any, rcond: Any = None, driver: str = "gelsy") -> Any:
    x = np.linalg.pinv(a) @ b
    rest, none = abs(b - a @ x) ** 2, np.empty(0, a.real.dtype)
    rank = np.asarray(np.linalg.matrix_rank(a))
    full, of_svd = a.shape[-2] > a.shape[-1], driver == "gelsd"
    values = np.linalg.svd(a, compute_uv=False) if of_svd else none
    return x, rest.sum(-2) if of_svd and full else none, rank, values


def _solve(a: Any, b: Any, left: bool = True) -> Any:
    if b.ndim < a.ndim:
        return np.linalg.solve(a, b[..., None])[..., 0]
    return np.linalg.solve(a, b) if left else H(np.linalg.solve(H(a), H(b)))


def _factor(x: Any, upper: bool) -> Any:
    return H(np.triu(x)) if upper else np.tril(x)


def _cholesky_inverse(x: Any, upper: bool = False) -> Any:
    factor = _factor(x, upper)
    return np.linalg.inv(factor @ H(factor))


def _triangular(b: Any, a: Any, upper: bool = True, transpose: bool = False) -> Any:
    part = np.triu(a) if upper else np.tril(a)
    made = np.linalg.solve(part.swapaxes(-1, -2) if transpose else part, b)
    return made, np.broadcast_to(a, made.shape[:-2] + a.shape[-2:])


ROWS = [
    row("cholesky_inverse", some() + some(True), _cholesky_inverse, domain=(0.8, 1.7),
        errors=fails("cholesky_inverse", "self")),
    row("cholesky_solve", [S(COLUMN, A), S(COLUMN, A, True)],
        lambda b, x, upper=False: _cholesky_inverse(x, upper) @ b,
        errors=(Fails(S(COLUMN, T(3, 3)), errors.ShapeError, "'self' must have 3 rows"),)),
    row("inverse", some(), np.linalg.inv, **SOLVED, errors=fails("inv")),
    row("linalg_inv", some(), np.linalg.inv, **SOLVED, errors=fails("inv")),
    row("linalg_inv_ex", one(), lambda x: (1 / x, info(x)), "xi", errors=fails("inv")),
    row("linalg_ldl_solve", [S(ONE, T(1, dtype=int32, values="ones"), B)],
        lambda ld, pivots, b: b / ld),
    row("linalg_lstsq", [
        S(TALL, TALL, driver="gelsy"), S(TALL, TALL, driver="gelsd"),
        S(T(1, 3, 2, values="positive"), TALL, driver="gelsd"),
        S(T(3, 2, values="positive"), T(2, 3, 1), driver="gelsy")],
        _lstsq, "xrlr", errors=(
            Fails(S(TALL, T(4, 1)), errors.ShapeError, "lstsq: 'b' must have 3 rows"),
            Fails(S(TALL, TALL, driver="x"), errors.ArgumentError, "lstsq: 'driver' must be"),
        ), ulp=1024),
    row("linalg_lu_solve", [S(ONE, T(1, dtype=int32, values="ones"), B)],
        lambda lu, pivots, b: b / lu),
    row("linalg_solve", [S(A, COLUMN), S(A, V), S(A, A, left=False)], _solve, **SOLVED, errors=(
        Fails(S(A, T(3, 3)), errors.ShapeError, "solve: 'B' must have 2 rows"),)),
    row("_linalg_solve_ex", one(B), lambda a, b: (b / a, *ldl(a)), "xxii"),
    row("linalg_solve_ex", [S(A, COLUMN), S(A, V)], lambda a, b: (_solve(a, b), info(a)), "xi",
        **SOLVED),
    row("linalg_solve_triangular", one(B, upper=True), lambda a, b, upper: b / a),
    row("linalg_tensorinv", [S(_TENSOR), S(_SQUARE, 1)],
        lambda x, ind=2: np.linalg.tensorinv(x, ind), errors=(
            Fails(S(A, 0), errors.ArgumentError, "tensorinv: 'ind' must be positive"),
            Fails(S(A, 1), errors.ShapeError, "tensorinv: 'self' must have as many"))),
    row("linalg_tensorsolve", [S(_TENSOR, T(1, 2)), S(_TURNED, T(2), (1, 3))],
        np.linalg.tensorsolve, errors=(
            Fails(S(A, T(3)), errors.ShapeError, "tensorsolve: 'self' must have as many"),)),
    row("lu_solve", [S(ONE, T(1, 1, values="positive"), ONES)], lambda b, lu, pivots: b / lu),
    row("triangular_solve", [S(COLUMN, A), S(COLUMN, A, False), S(COLUMN, A, True, True)],
        _triangular, "xx"),
]  # fmt: skip
