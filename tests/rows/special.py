"""Rows of kernels/*/special. The reference is SciPy in float64, also for orthogonal polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial.hermite import hermval
from scipy import special

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, complex64, float16, float32, float64

from . import Fails, Row, S, T

_WHY = "SciPy and the kernels are good to some ulp where a function is not near its zero"
_ULP = {float16: 1, bfloat16: 1, float32: 64, float64: 512}
_ONE = [S(T(2, 3, values="positive")), S(T(0, 3)), S(T(values="positive"))]
_TWO = [
    S(T(2, 3, values="positive"), T(3, values="positive")),
    S(T(2, 3, values="positive"), 2.0),
    S(T(2, 3, values="positive"), T(values="positive", dtype=float64)),
]


def _row(name: str, ref: Any, samples: list[S] = _ONE, **more: Any) -> Row:
    refusal = Fails(
        S(T(2), *(() if samples is _ONE else (T(2),))), errors.DtypeError, "must be", complex64
    )
    more.setdefault("errors", (refusal,))
    tolerance = {"ulp": _ULP, "device_ulp": 512, "why": _WHY} | more
    return Row(name, samples, ref, positive=True, **tolerance)


def _shifted(polynomial: Any) -> Any:
    return lambda x, n: polynomial(x * 2 - 1, n)


def _of_degree(evaluate: Any) -> Any:
    """Truncate degrees to whole numbers."""
    return lambda x, n: evaluate(np.trunc(n).astype(int) if np.ndim(n) else int(n), x)


def _hermite(n: Any, x: Any) -> Any:
    """SciPy's function computes with sqrt(2) * x. Its rounding error is large where the polynomial
    is small."""
    each = np.vectorize(lambda n, x: hermval(x, [0] * n + [1]), otypes=[np.float64])
    return each(n, x)


def _v(x: Any, n: Any) -> Any:
    n = np.trunc(n)
    return np.where(n == 0, 1.0, np.where(n == 1, 2 * x - 1, 4 * x * x - 2 * x - 1))


def _w(x: Any, n: Any) -> Any:
    n = np.trunc(n)
    return np.where(n == 0, 1.0, np.where(n == 1, 2 * x + 1, 4 * x * x + 2 * x - 1))


_T, _U = _of_degree(special.eval_chebyt), _of_degree(special.eval_chebyu)
_DEGREES = [
    S(T(2, 3, values="positive"), 2),
    S(T(2, 3, values="positive"), T(3, values="positive")),
]


def _logit(x: Any, eps: Any = None) -> Any:
    return special.logit(x if eps is None else np.clip(x, eps, 1 - eps))


def _mvlgamma(x: Any, p: int) -> Any:
    return sum(special.gammaln(x - k / 2) for k in range(p)) + p * (p - 1) / 4 * np.log(np.pi)


ROWS = [
    _row("digamma", special.psi),
    _row("erfinv", special.erfinv, domain=(0.1, 0.9)),
    _row("i0", special.i0),
    _row("igamma", special.gammainc, _TWO[::2]),
    _row("igammac", special.gammaincc, _TWO[::2]),
    _row(
        "lgamma", special.gammaln,
        device_ulp=2048, why="SciPy's is off by units of 1 beside its zeros: by 4096 of 1e-4's",
    ),
    _row(
        "logit", _logit,
        [S(T(2, 3, values="positive")), S(T(2, 3), 0.3), S(T(0, 3)), S(T(values="positive"), 0.0)],
        domain=(0.1, 0.9),
    ),
    _row(
        "mvlgamma", _mvlgamma, [S(T(2, 3, values="positive"), 1), S(T(2, 3, values="positive"), 2)],
        errors=(Fails(S(T(2), 0), errors.ArgumentError, "mvlgamma: 'p' must be at least 1"),),
        dtypes=(float32, float64), rule=lambda *_: "floating_real", out="same",
    ),
    _row(
        "polygamma", special.polygamma,
        [S(1, T(2, 3, values="positive")), S(2, T(2, values="positive")), S(0, T())],
        errors=(Fails(S(-1, T(2)), errors.ArgumentError, "polygamma: 'n' must not be negative"),),
    ),
    _row(
        "polygamma_", lambda x, n: special.polygamma(n, x), [S(T(2, 3, values="positive"), 1)],
        errors=(Fails(S(T(2), -1), errors.ArgumentError, "polygamma_: 'n' must not be negative"),),
        dtypes=(float32, float64), refuses_expanded=True,
    ),
    _row("special_airy_ai", lambda x: special.airy(x)[0]),
    _row("special_bessel_j0", special.j0),
    _row("special_bessel_j1", special.j1),
    _row("special_bessel_y0", special.y0),
    _row("special_bessel_y1", special.y1),
    _row("special_chebyshev_polynomial_t", _T, _DEGREES),
    _row("special_chebyshev_polynomial_u", _U, _DEGREES),
    _row("special_chebyshev_polynomial_v", _v, _DEGREES),
    _row("special_chebyshev_polynomial_w", _w, _DEGREES),
    _row("special_entr", special.entr),
    _row("special_erfcx", special.erfcx),
    _row("special_hermite_polynomial_h", _of_degree(_hermite), _DEGREES),
    _row("special_hermite_polynomial_he", _of_degree(special.eval_hermitenorm), _DEGREES),
    _row("special_i0e", special.i0e),
    _row("special_i1", special.i1),
    _row("special_i1e", special.i1e),
    _row("special_laguerre_polynomial_l", _of_degree(special.eval_laguerre), _DEGREES),
    _row("special_legendre_polynomial_p", _of_degree(special.eval_legendre), _DEGREES),
    _row("special_log_ndtr", special.log_ndtr),
    _row("special_modified_bessel_i0", special.i0),
    _row("special_modified_bessel_i1", special.i1),
    _row("special_modified_bessel_k0", special.k0),
    _row("special_modified_bessel_k1", special.k1),
    _row("special_ndtr", special.ndtr),
    _row("special_ndtri", special.ndtri, domain=(0.1, 0.9)),
    _row("special_scaled_modified_bessel_k0", special.k0e),
    _row("special_scaled_modified_bessel_k1", special.k1e),
    _row("special_shifted_chebyshev_polynomial_t", _shifted(_T), _DEGREES),
    _row("special_shifted_chebyshev_polynomial_u", _shifted(_U), _DEGREES),
    _row("special_shifted_chebyshev_polynomial_v", _shifted(_v), _DEGREES),
    _row("special_shifted_chebyshev_polynomial_w", _shifted(_w), _DEGREES),
    _row("special_spherical_bessel_j0", lambda x: special.spherical_jn(0, x)),
    _row("special_xlog1py", special.xlog1py, _TWO),
    _row(
        "special_zeta", special.zeta,
        [
            S(T(2, 3, values="positive"), T(3, values="positive")),
            S(T(2, values="positive"), 1.5), S(2.5, T(2, values="positive")),
        ],
        domain=(1.1, 2.9),
    ),
    _row("xlogy", special.xlogy, _TWO),
]  # fmt: skip
