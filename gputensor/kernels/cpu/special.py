"""out[i] = op(x[i]) or op(a[i], b[i]).                                              family: special

Types    f32 and f64 as in SciPy, but f32 polynomials are computed in f64; f16 and bf16 in f32,
         rounded once.
Source   SciPy, and the recurrences of the orthogonal polynomials (Abramowitz and Stegun, 22.7);
         values at the edges are PyTorch's, aten/src/ATen/native/Math.h.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dtype import dtype
from .pointwise import Input, Loop, computed
from .select import where

# After every _STRIDE steps of a recurrence, the loop ends if all values are NaN.
_STRIDE = 64
# Polynomials of a higher degree are not computed, as in include/math/special.cuh.
_HIGHEST = 2**20
# A step of a recurrence. It is called with (x, k, p_k, p_(k-1)) and returns p_(k+1).
Step = Callable[[Any, int, Any, Any], Any]


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Return the loop `(*inputs, *params, out)` of `op` for these dtypes."""
    function = LOOPS[op]
    if isinstance(function, str):
        return computed(_scipy(function), inputs, common, out)

    def in_their_order(*given: Any) -> Any:
        """Call `function` and copy its result to the inputs' layout, because NumPy's `where`
        returns row-major arrays."""
        made = np.asarray(function(*given))
        if made.ndim < 2:
            return made
        like = next((x for x in given if np.shape(x) == made.shape), made)
        if like.strides == made.strides:
            return made
        laid = np.empty_like(like, made.dtype)
        laid[...] = made
        return laid

    return computed(in_their_order, inputs, common, out)


@functools.cache
def _scipy(name: str) -> Callable[..., Any]:
    """Return a function of SciPy, which is imported when it is first needed."""
    from scipy import special

    found: Callable[..., Any] = getattr(special, name)
    return found


def _airy_ai(x: Any) -> Any:
    return where(np.isfinite(x), _scipy("airy")(x)[0], np.nan)


# Separate passes set the results at poles and infinities. A pass is skipped if an array has no such
# elements, which is the usual case.


def _digamma(x: Any) -> Any:
    if x.min() > 0:
        return _scipy("psi")(x)
    at_pole = where(np.isfinite(x) & (x < 0) & (x == np.floor(x)), np.nan, _scipy("psi")(x))
    at_pole = where(x == -np.inf, np.nan, at_pole)
    return where(x == 0, np.copysign(np.inf, -x), at_pole)


def _lgamma(x: Any) -> Any:
    made = _scipy("gammaln")(x)
    return made if np.isfinite(x).all() else where(np.isinf(x), np.inf, made)


def _igammac(a: Any, x: Any) -> Any:
    """Return 1 - igamma where this difference is accurate. Elsewhere return the sum of a series for
    small a and x, where SciPy's gammaincc takes microseconds per element, or gammaincc."""
    a, x = np.broadcast_arrays(a, x)
    exact_from = 1e-6 if x.dtype == np.float32 else 0.5
    left = _scipy("gammainc")(a.astype(np.float64), x.astype(np.float64))
    made = np.subtract(1, left, left).astype(x.dtype, copy=False)
    rest = ~(made >= exact_from)
    has_series = rest & (a > 0) & (a <= 1.25) & (x > 0) & (x <= 1.1)
    if has_series.any():
        made[has_series] = _igammac_series(a[has_series], x[has_series])
        rest &= ~has_series
    if rest.any():
        made[rest] = _scipy("gammaincc")(a[rest], x[rest])
    return made


def _igammac_series(a: Any, x: Any) -> Any:
    """Return igammac(a, x) for 0 < a <= 1.25 and 0 < x <= 1.1. Source: igamc_series of
    scipy/xsf/cephes/igam.h."""
    a, x = a.astype(np.float64), x.astype(np.float64)
    power = a * np.log(x) - _log_gamma_of_next(a)
    term, total = np.ones_like(x), np.zeros_like(x)
    for n in range(1, 21):
        term *= x / -n
        total += term / (a + n)
    return -np.expm1(power) - np.exp(power) * a * total


def _log_gamma_of_next(a: Any) -> Any:
    """Return log(gamma(1 + a)) for 0 < a <= 1.5, by Taylor's series of log(gamma) at 1."""
    is_far = a > 0.5  # log(gamma(1 + a)) = log(a) + log(gamma(1 + (a - 1)))
    t = where(is_far, a - 1, a)
    total = np.zeros_like(a)
    for factor in _taylor():
        total = (total + factor) * t
    return where(is_far, np.log(a), 0) + total


@functools.cache
def _taylor() -> list[float]:
    """Return the factors of the powers 50 to 1 in Taylor's series of log(gamma) at 1."""
    powers = np.arange(50, 1, -1)
    return [
        *(_scipy("zeta")(powers.astype(float), 1.0) / powers * (-1.0) ** powers),
        -np.euler_gamma,
    ]


def _logit(x: Any, eps: Any) -> Any:
    if eps >= 0:
        x = where(x < eps, eps, where(x > 1 - eps, 1 - eps, x))
    return np.log(x / (1 - x))


def _polygamma(x: Any, n: Any) -> Any:
    zeta = _scipy("zeta")
    if n == 0:
        return _digamma(x)
    if n == 1 and x.min() > 0:
        return zeta(2.0, x)
    if n == 1:
        with_reflection = np.pi**2 / np.sin(np.pi * (x - np.trunc(x))) ** 2 - zeta(2.0, 1 - x)
        return where((x < 0) & (x != np.floor(x)), with_reflection, zeta(2.0, x))
    sign = -1.0 if n % 2 == 0 else 1.0
    return sign * _scipy("gamma")(np.float64(n) + 1).astype(x.dtype) * _zeta_of(n + 1, x)


def _zeta_of(x: Any, q: Any) -> Any:
    """Return SciPy's zeta, extended to q < 0. For q < 0 the function is defined only for integer x.
    The terms with negative bases are then a difference of two series.
    """
    x, q = np.broadcast_arrays(x, q)
    zeta = _scipy("zeta")
    if q.min() > 0:
        return zeta(x, q).astype(x.dtype, copy=False)
    is_left = (q < 0) & (q != np.floor(q)) & (x > 1) & (x == np.floor(x))
    before = zeta(x, where(is_left, np.ceil(q) - q, 1)) - zeta(x, where(is_left, 1 - q, 1))
    made = zeta(x, where(is_left, q - np.floor(q), where(q > 0, q, 1)))
    made = where(is_left, made + where(x % 2 == 0, before, -before), made)
    made = where((x > 1) & (q <= 0) & (q == np.floor(q)), np.inf, made)
    made = where((x > 1) & (q < 0) & (q != np.floor(q)) & ~is_left, np.nan, made)
    made = where(q != q, np.nan, made)
    return where(x == 1, np.inf, where(x < 1, np.nan, made)).astype(x.dtype)


def _spherical_j0(x: Any) -> Any:
    return where(x == 0, 1, where(np.isinf(x), 0, np.sin(x) / x))


def _erfinv(x: Any) -> Any:
    """Return erfinv. Elements outside of [-1, 1] are set here, because SciPy's function would throw
    and catch an exception for each of them."""
    erfinv = _scipy("erfinv")
    if np.abs(x).max() < 1:
        return erfinv(x)
    made = erfinv(where(np.abs(x) < 1, x, x.dtype.type(0)))
    outside = np.abs(x) == 1
    if outside.any():
        made = where(outside, np.copysign(x.dtype.type(np.inf), x), made)
    return where(np.abs(x) <= 1, made, x.dtype.type(np.nan))


def _entr(x: Any) -> Any:
    if x.min() > 0:
        return -x * np.log(x)
    return where(x > 0, -x * np.log(x), where(x == 0, 0, where(x < 0, -np.inf, x)))


def _times_log(log: Any) -> Callable[..., Any]:
    """Return a function x * log(y) whose result is 0 where x is 0 and y is not NaN."""

    def of(a: Any, b: Any) -> Any:
        made, is_zero = a * log(b), a == 0
        return where(np.isnan(b), b, where(is_zero, 0, made)) if is_zero.any() else made

    return of


def _polynomial(
    first: Callable[[Any], Any], step: Step, is_shifted: bool = False
) -> Callable[..., Any]:
    """Return a function of (x, n) that computes the polynomial p_n(x), with n truncated to an
    integer. The result is 0 for negative and infinite n, and NaN for finite n above _HIGHEST.

    p_0 is 1 and p_1 is `first`. The computation is in f64, as on CUDA, because f32 loses digits
    near a zero of the polynomial.
    """

    def of(x: Any, n: Any) -> Any:
        degree = np.trunc(n)
        made = (degree == 0).astype(x.dtype)
        if not degree.max() <= _HIGHEST:
            made = where((degree > _HIGHEST) & np.isfinite(degree), x.dtype.type(np.nan), made)
            degree = where(degree <= _HIGHEST, degree, -1)
        highest = int(max(-1, degree.max()))
        if highest < 1:
            return made + np.zeros_like(x) if made.shape != x.shape else made
        wide = x.astype(np.float64)
        return in_f64(2 * wide - 1 if is_shifted else wide, degree, made, highest).astype(x.dtype)

    def in_f64(x: Any, degree: Any, made: Any, highest: int) -> Any:
        before, here = x.dtype.type(1), first(x)
        for k in range(1, highest + 1):
            if np.ndim(degree):
                made = where(degree == k, here, made)
            if k % _STRIDE == 0 and np.isnan(here).all():
                break  # A NaN stays NaN in all further steps.
            if k < highest:
                before, here = here, step(x, k, here, before)
        if not np.ndim(degree):
            return here
        return where(degree > k, here, made) if k < highest else made

    return of


def _chebyshev(first: Callable[[Any], Any], is_shifted: bool = False) -> Callable[..., Any]:
    return _polynomial(first, lambda x, k, p, q: 2 * x * p - q, is_shifted)


_CHEBYSHEV: dict[str, Callable[[Any], Any]] = {
    "t": lambda x: x, "u": lambda x: 2 * x, "v": lambda x: 2 * x - 1, "w": lambda x: 2 * x + 1,
}  # fmt: skip

# A string is the name of a ufunc in scipy.special.
LOOPS: dict[str, Callable[..., Any] | str] = {
    "airy_ai": _airy_ai,
    "bessel_j0": "j0",
    "bessel_j1": "j1",
    "bessel_y0": "y0",
    "bessel_y1": "y1",
    "chebyshev_polynomial_t": _chebyshev(_CHEBYSHEV["t"]),
    "chebyshev_polynomial_u": _chebyshev(_CHEBYSHEV["u"]),
    "chebyshev_polynomial_v": _chebyshev(_CHEBYSHEV["v"]),
    "chebyshev_polynomial_w": _chebyshev(_CHEBYSHEV["w"]),
    "digamma": _digamma,
    "entr": _entr,
    "erfcx": "erfcx",
    "erfinv": _erfinv,
    "hermite_polynomial_h": _polynomial(
        lambda x: 2 * x, lambda x, k, p, q: 2 * (x * p - np.float32(k) * q)
    ),
    "hermite_polynomial_he": _polynomial(lambda x: x, lambda x, k, p, q: x * p - np.float32(k) * q),
    "i0": "i0",
    "i0e": "i0e",
    "i1": "i1",
    "i1e": "i1e",
    "igamma": "gammainc",
    "igammac": _igammac,
    "laguerre_polynomial_l": _polynomial(
        lambda x: 1 - x, lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)
    ),
    "legendre_polynomial_p": _polynomial(
        lambda x: x, lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)
    ),
    "lgamma": _lgamma,
    "logit": _logit,
    "log_ndtr": "log_ndtr",
    "modified_bessel_k0": "k0",
    "modified_bessel_k1": "k1",
    "ndtr": "ndtr",
    "ndtri": "ndtri",
    "polygamma": _polygamma,
    "scaled_modified_bessel_k0": "k0e",
    "scaled_modified_bessel_k1": "k1e",
    "shifted_chebyshev_polynomial_t": _chebyshev(_CHEBYSHEV["t"], True),
    "shifted_chebyshev_polynomial_u": _chebyshev(_CHEBYSHEV["u"], True),
    "shifted_chebyshev_polynomial_v": _chebyshev(_CHEBYSHEV["v"], True),
    "shifted_chebyshev_polynomial_w": _chebyshev(_CHEBYSHEV["w"], True),
    "spherical_bessel_j0": _spherical_j0,
    "xlog1py": _times_log(np.log1p),
    "xlogy": _times_log(np.log),
    "zeta": _zeta_of,
}
