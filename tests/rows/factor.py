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

    return Row(name, samples, listed, result=_same(*kinds), **(NEAR | named))


def _cholesky(x: Any, upper: bool = False, check_errors: bool = False) -> Any:
    return np.sqrt(x.real).astype(x.dtype), _info(x)


def _slogdet(x: Any) -> Any:
    return _sign(x), np.log(abs(x[..., 0, 0])), x, _pivots(x)


def _lu(x: Any) -> Any:
    return x, _pivots(x), _info(x)


_B = T(1, 2, values="positive")

ROWS = [
    row("geqrf", one(), _geqrf, "xx"),
    row("linalg_cholesky_ex", one() + one(upper=True), _cholesky, "xi", dtypes=OF[:2],
        positive=True, errors=fails("cholesky", "self")),
    row("_linalg_det", one(), lambda x: (x[..., 0, 0], x, _pivots(x)), "xxi", errors=fails("det")),
    row("linalg_eig", one(), _eig, "cc", errors=fails("eig", "self")),
    row("_linalg_eigh", one(), lambda x: tuple(np.linalg.eigh(x)), "rx", errors=fails("eigh")),
    row("linalg_inv_ex", one(), lambda x: (1 / x, _info(x)), "xi", errors=fails("inv")),
    row("linalg_ldl_factor_ex", one(), _lu, "xii", errors=fails("ldl_factor", "self")),
    row("linalg_lu_factor_ex", one(), _lu, "xii"),
    row("linalg_matrix_exp", one(), np.exp, errors=fails("matrix_exp", "self")),
    row("linalg_qr", one(), _qr, "xx"),
    row("_linalg_slogdet", one(), _slogdet, "xrxi", errors=fails("slogdet")),
    row("_linalg_solve_ex", one(_B), lambda a, b: (b / a, *_lu(a)), "xxii"),
    row("linalg_solve_triangular", one(_B, upper=True), lambda a, b, upper: b / a),
    row("_linalg_svd", one(), lambda x: tuple(np.linalg.svd(x)), "xrx"),
]  # fmt: skip
