"""Rows of native/factor.py: factorisations of matrices, and determinants.

The matrices are valid for every factorisation and determine all signs. PyTorch's samples
(tests/op_db) have larger ones, with values, strides and gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import complex64, complex128, float32, float64, int32, int64

from . import Fails, Row, S, T

OF = (float32, float64, complex64, complex128)
NEAR: dict[str, Any] = {
    "ulp": 64, "device_ulp": 64, "of_largest": True,
    "why": "LAPACK's order of operations is its own",
    "zeros_equal": True, "out": "same", "dtypes": OF,
}  # fmt: skip
B, ONE = T(1, 2, values="positive"), T(1, 1, values="positive")
ONE, ONES = T(1, 1, values="positive"), T(1, dtype=int32, values="ones")
TALL = T(2, 3, 2, values="positive")
A, COLUMN = T(3, 2, 2, values="positive"), T(3, 2, 1, values="positive")
V, TAU = T(3, 2, values="positive"), T(2, 2, values="positive")
SOLVED: dict[str, Any] = {
    "ulp": 1 << 12, "device_ulp": 1 << 12, "why": "the matrices are as bad as condition 1000",
}  # fmt: skip


def one(*rest: Any, **named: Any) -> list[S]:
    """Return a matrix of one element, and a batch of such matrices."""
    return [S(T(1, 1, values="positive"), *rest, **named),
            S(T(3, 1, 1, values="positive"), *rest, **named)]  # fmt: skip


def fails(op: str, arg: str = "A") -> tuple[Fails, ...]:
    return (
        Fails(S(T(2, 3)), errors.ShapeError, f"{op}: '{arg}' must be a square matrix"),
        Fails(S(T(3)), errors.ShapeError, f"{op}: '{arg}' must be a"),
        Fails(S(T(2, 2)), errors.DtypeError, f"{op}: '{arg}' must be f32", int64),
    )


def info(x: Any) -> Any:
    return np.zeros(x.shape[:-2], np.int32)


def pivots(x: Any) -> Any:
    return np.ones(x.shape[:-1], np.int32)


def same(*kinds: str) -> Any:
    """dtypes of results: x the operand's, r real, c complex, i int32, l int64."""
    of_kind = {
        "x": lambda of: of,
        "r": lambda of: of.to_real if of.is_complex else of,
        "c": lambda of: of.to_complex,
        "i": lambda of: int32,
        "l": lambda of: int64,
    }

    def result(args: Any, kwargs: Any, of: Any) -> Any:
        made = tuple([of_kind[kind](of) for kind in kinds])
        return made if len(made) > 1 else made[0]

    return result


def _qr(x: Any, mode: str = "reduced") -> Any:
    found = np.linalg.qr(x, mode)
    return (np.empty(0, x.dtype), found) if mode == "r" else tuple(found)


def _geqrf(x: Any) -> Any:
    found, tau = np.linalg.qr(x, "raw")
    return found.swapaxes(-1, -2), tau


def _sign(x: Any) -> Any:
    return x[..., 0, 0] / abs(x[..., 0, 0])


def row(name: str, samples: list[S], reference: Any, kinds: str = "x", **named: Any) -> Row:
    """kinds: the results' dtypes, see `same`. The tolerance between devices is twice
    that to the reference, because cuSOLVER orders operations differently."""
    if type(named.get("ulp")) is int:
        named = {"device_ulp": 2 * named["ulp"]} | named

    def listed(*args: Any, **kwargs: Any) -> Any:
        found = reference(*args, **kwargs)
        return list(found) if type(found) is tuple else found

    return Row(name, samples, listed, **({"result": same(*kinds)} | NEAR | named))


def _cholesky(x: Any, upper: bool = False, check_errors: bool = False) -> Any:
    return np.sqrt(x.real).astype(x.dtype), info(x)


def products_of_reflectors(x: Any, tau: Any) -> Any:
    """Return H_1 H_2 ..., where H_i = 1 - tau_i v v^H, and v is the part of a column below x's
    diagonal."""
    eye = np.eye(x.shape[-2], dtype=x.dtype)
    made = eye
    for i in range(tau.shape[-1]):
        v = np.tril(x, -1)[..., i : i + 1] + eye[:, i : i + 1]
        made = made @ (eye - tau[..., None, i : i + 1] * (v @ v.conj().swapaxes(-1, -2)))
    return made


def _lu_unpack(lu: Any, pivots: Any) -> Any:
    """The reference for pivots of 1: each row in turn is exchanged with the first row."""
    places = np.arange(lu.shape[-2])
    for i in range(pivots.shape[-1]):
        places[[0, i]] = places[[i, 0]]
    P = np.broadcast_to(np.arange(lu.shape[-2])[:, None] == places, (*lu.shape[:-1], lu.shape[-2]))
    P = P.astype(lu.dtype)
    return P, np.tril(lu, -1) + np.eye(*lu.shape[-2:], dtype=lu.dtype), np.triu(lu[..., :2, :])


def _slogdet(x: Any) -> Any:
    return _sign(x), np.log(abs(x[..., 0, 0])), x, pivots(x)


def lu_of(x: Any) -> Any:
    import scipy.linalg

    found = [scipy.linalg.lu_factor(m) for m in x.reshape(-1, *x.shape[-2:])]
    lu, pivots = (np.stack([pair[n] for pair in found]) for n in (0, 1))
    of = x.shape[:-2]
    return lu.reshape(x.shape), (pivots + 1).astype(np.int32).reshape(*of, -1), info(x)


def ldl(x: Any) -> Any:
    return x, pivots(x), info(x)


def some(*rest: Any, **named: Any) -> list[S]:
    """Return a matrix of one element, and a batch of square matrices."""
    return [S(ONE, *rest, **named), S(A, *rest, **named)]


def H(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def _slogdet_of(x: Any) -> Any:
    return tuple([np.asarray(part) for part in np.linalg.slogdet(x)])


def _log(x: Any) -> Any:
    return np.log(np.linalg.det(x))


def _cholesky_of(x: Any, upper: bool = False) -> Any:
    return np.sqrt(x.real).astype(x.dtype)


def _lu(x: Any) -> Any:
    import scipy.linalg

    return tuple(scipy.linalg.lu(x))


def _old_qr(x: Any, some: bool = True) -> Any:
    return tuple(np.linalg.qr(x, "reduced" if some else "complete"))


def _householder(x: Any, tau: Any) -> Any:
    return products_of_reflectors(x, tau)[..., : x.shape[-1]]


def _ormqr(x: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    q = products_of_reflectors(x, tau)
    q = H(q) if transpose else q
    return q @ other if left else other @ q


ROWS = [
    row("cholesky", one() + one(True), _cholesky_of, dtypes=OF[:2], positive=True,
        errors=fails("cholesky", "self")),
    row("det", some(), np.linalg.det, **SOLVED, errors=fails("det")),
    row("geqrf", one(), _geqrf, "xx"),
    Row("_linalg_check_errors", [S(T(3, dtype=int32, values="zeros"), "solve", is_matrix=False)],
        lambda info, name, is_matrix: np.asarray(None)),
    row("linalg_cholesky", one() + one(upper=True), _cholesky_of, dtypes=OF[:2], positive=True,
        errors=fails("cholesky", "self")),
    row("linalg_cholesky_ex", one() + one(upper=True), _cholesky, "xi", dtypes=OF[:2],
        positive=True, errors=fails("cholesky", "self")),
    row("_linalg_det", one(), lambda x: (x[..., 0, 0], x, pivots(x)), "xxi", errors=fails("det")),
    row("linalg_det", some(), np.linalg.det, **SOLVED, errors=fails("det")),
    row("linalg_householder_product", [S(TALL, TAU), S(ONE, T(1, values="positive"))],
        _householder),
    row("linalg_ldl_factor", one(), lambda x: (x, np.ones(x.shape[:-1], np.int32)), "xi",
        errors=fails("ldl_factor", "self")),
    row("linalg_ldl_factor_ex", one(), ldl, "xii", errors=fails("ldl_factor", "self")),
    row("linalg_lu", [S(TALL), S(A)], _lu, "xxx"),
    row("linalg_lu_factor", [S(TALL), S(A)], lambda x: lu_of(x)[:2], "xi", errors=(
        Fails(S(A, pivot=False), errors.ArgumentError, "'pivot' must be True"),)),
    row("linalg_lu_factor_ex", [*one(), S(TALL)], lu_of, "xii"),
    row("linalg_qr", one(), _qr, "xx"),
    row("_linalg_slogdet", one(), _slogdet, "xrxi", errors=fails("slogdet")),
    row("linalg_slogdet", some(), _slogdet_of, "xr", errors=fails("slogdet"), **SOLVED),
    row("logdet", some(), _log, ulp=4096, positive=True, errors=fails("slogdet")),
    row("lu_unpack", [S(TALL, T(2, 2, dtype=int32, values="ones"))], _lu_unpack, "xxx"),
    row("orgqr", [S(TALL, TAU)], _householder),
    row("ormqr", [S(A, V, COLUMN), S(A, V, COLUMN, True, True), S(A, V, T(3, 1, 2), False)],
        _ormqr),
    row("qr", [S(TALL), S(TALL, False), S(A)], _old_qr, "xx", **SOLVED),
    row("slogdet", some(), _slogdet_of, "xr", errors=fails("slogdet"), **SOLVED),
]  # fmt: skip
