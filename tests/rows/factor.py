"""Rows of native/factor.py: factorisations of matrices.

The matrices are those that every factorisation takes and that leave no choice of signs; larger ones
are PyTorch's own samples (tests/op_db), which are compared in values, strides and gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import complex64, complex128, float32, float64, int32, int64

from . import Fails, Row, S, T

OF = (float32, float64, complex64, complex128)
NEAR: dict[str, Any] = {
    "ulp": 256, "device_ulp": 256, "why": "LAPACK's order of operations is its own",
    "zeros_equal": True, "out": "same", "dtypes": OF,
}  # fmt: skip


def one(*rest: Any, **named: Any) -> list[S]:
    """A matrix of one element, and a batch of them."""
    return [S(T(1, 1, values="positive"), *rest, **named),
            S(T(3, 1, 1, values="positive"), *rest, **named)]  # fmt: skip


def fails(op: str, arg: str = "A") -> tuple[Fails, ...]:
    return (
        Fails(S(T(2, 3)), errors.ShapeError, f"{op}: '{arg}' must be a square matrix"),
        Fails(S(T(3)), errors.ShapeError, f"{op}: '{arg}' must be a"),
        Fails(S(T(2, 2)), errors.DtypeError, f"{op}: '{arg}' must be f32", int64),
    )


def _info(x: Any) -> Any:
    return np.zeros(x.shape[:-2], np.int32)


def _pivots(x: Any) -> Any:
    return np.ones(x.shape[:-1], np.int32)


def _results(*dtypes: Any) -> Any:
    return lambda args, kwargs, of: tuple([of if d is None else d(of) for d in dtypes])


def _same(*kinds: str) -> Any:
    """dtypes of results: x as the operand's, r real, c complex, i of int32, l of int64."""
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


def _eig(x: Any) -> Any:
    of = np.complex64 if x.dtype.char in "fF" else np.complex128
    return tuple([part.astype(of) for part in np.linalg.eig(x)])


def _sign(x: Any) -> Any:
    return x[..., 0, 0] / abs(x[..., 0, 0])


def row(name: str, samples: list[S], reference: Any, kinds: str = "x", **named: Any) -> Row:
    """kinds: of the results' dtypes, see `_same`."""

    def listed(*args: Any, **kwargs: Any) -> Any:
        found = reference(*args, **kwargs)
        return list(found) if type(found) is tuple else found

    return Row(name, samples, listed, **({"result": _same(*kinds)} | NEAR | named))


def _cholesky(x: Any, upper: bool = False, check_errors: bool = False) -> Any:
    return np.sqrt(x.real).astype(x.dtype), _info(x)


def products_of_reflectors(x: Any, tau: Any) -> Any:
    """H_1 H_2 ...; H_i = 1 - tau_i v v^H of what lies below x's diagonal."""
    eye = np.eye(x.shape[-2], dtype=x.dtype)
    made = eye
    for i in range(tau.shape[-1]):
        v = np.tril(x, -1)[..., i : i + 1] + eye[:, i : i + 1]
        made = made @ (eye - tau[..., None, i : i + 1] * (v @ v.conj().swapaxes(-1, -2)))
    return made


def _lu_unpack(lu: Any, pivots: Any) -> Any:
    """Of pivots that are 1: each row in turn changes places with the first."""
    places = np.arange(lu.shape[-2])
    for i in range(pivots.shape[-1]):
        places[[0, i]] = places[[i, 0]]
    P = np.broadcast_to(np.arange(lu.shape[-2])[:, None] == places, (*lu.shape[:-1], lu.shape[-2]))
    P = P.astype(lu.dtype)
    return P, np.tril(lu, -1) + np.eye(*lu.shape[-2:], dtype=lu.dtype), np.triu(lu[..., :2, :])


def _lstsq(a: Any, b: Any, rcond: Any = None, driver: str = "gelsy") -> Any:
    x = np.linalg.pinv(a) @ b
    rest, none = abs(b - a @ x) ** 2, np.empty(0, a.real.dtype)
    rank = np.full(a.shape[:-2], min(a.shape[-2:]))
    full, of_svd = a.shape[-2] > a.shape[-1], driver == "gelsd"
    values = np.linalg.svd(a, compute_uv=False) if of_svd else none
    return x, rest.sum(-2) if of_svd and full else none, rank, values


def _slogdet(x: Any) -> Any:
    return _sign(x), np.log(abs(x[..., 0, 0])), x, _pivots(x)


def lu_of(x: Any) -> Any:
    import scipy.linalg

    found = [scipy.linalg.lu_factor(m) for m in x.reshape(-1, *x.shape[-2:])]
    lu, pivots = (np.stack([pair[n] for pair in found]) for n in (0, 1))
    of = x.shape[:-2]
    return lu.reshape(x.shape), (pivots + 1).astype(np.int32).reshape(*of, -1), _info(x)


def _ldl(x: Any) -> Any:
    return x, _pivots(x), _info(x)


_B, _ONE = T(1, 2, values="positive"), T(1, 1, values="positive")
_TALL = T(2, 3, 2, values="positive")

ROWS = [
    row("geqrf", one(), _geqrf, "xx"),
    Row("_linalg_check_errors", [S(T(3, dtype=int32, values="zeros"), "solve", is_matrix=False)],
        lambda info, name, is_matrix: np.asarray(None)),
    row("linalg_cholesky_ex", one() + one(upper=True), _cholesky, "xi", dtypes=OF[:2],
        positive=True, errors=fails("cholesky", "self")),
    row("_linalg_det", one(), lambda x: (x[..., 0, 0], x, _pivots(x)), "xxi", errors=fails("det")),
    row("linalg_eig", one(), _eig, "cc", errors=fails("eig", "self")),
    row("_linalg_eigh", one(), lambda x: tuple(np.linalg.eigh(x)), "rx", errors=fails("eigh")),
    row("linalg_inv_ex", one(), lambda x: (1 / x, _info(x)), "xi", errors=fails("inv")),
    row("linalg_ldl_factor_ex", one(), _ldl, "xii", errors=fails("ldl_factor", "self")),
    row("linalg_ldl_solve", [S(_ONE, T(1, dtype=int32, values="ones"), _B)],
        lambda ld, pivots, b: b / ld),
    row("linalg_lstsq", [S(_TALL, _TALL, driver="gelsy"), S(_TALL, _TALL, driver="gelsd")],
        _lstsq, "xrlr", errors=(
            Fails(S(_TALL, T(4, 1)), errors.ShapeError, "lstsq: 'b' must have 3 rows"),
            Fails(S(_TALL, _TALL, driver="x"), errors.ArgumentError, "lstsq: 'driver' must be"),
        ), ulp=1024),
    row("linalg_lu_factor_ex", [*one(), S(_TALL)], lu_of, "xii"),
    row("linalg_lu_solve", [S(_ONE, T(1, dtype=int32, values="ones"), _B)],
        lambda lu, pivots, b: b / lu),
    row("linalg_matrix_exp", one(), np.exp, errors=fails("matrix_exp", "self")),
    row("linalg_qr", one(), _qr, "xx"),
    row("_linalg_slogdet", one(), _slogdet, "xrxi", errors=fails("slogdet")),
    row("_linalg_solve_ex", one(_B), lambda a, b: (b / a, *_ldl(a)), "xxii"),
    row("linalg_solve_triangular", one(_B, upper=True), lambda a, b, upper: b / a),
    row("_linalg_svd", one(), lambda x: tuple(np.linalg.svd(x)), "xrx", dtypes=OF[:2]),
    row("lu_unpack", [S(_TALL, T(2, 2, dtype=int32, values="ones"))], _lu_unpack, "xxx"),
]  # fmt: skip
