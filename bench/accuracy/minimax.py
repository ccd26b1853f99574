"""Compute coefficients of math/elementary.cuh: `python -m bench.accuracy.minimax [NAME…]`.

The program computes polynomials with the smallest weighted error by Remez's exchange algorithm,
with 40 digits (mpmath). It rounds them to f32 or f64, and changes coefficients by units in the last
place as long as the largest error decreases. It prints each polynomial as C++, with the base-2
logarithms of its error before and after rounding. It is not part of a build: after changing a
degree or an interval, paste the output into the source.
"""

from __future__ import annotations

import argparse
import importlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

mp: Any = importlib.import_module("mpmath")  # without type hints
mp.mp.dps = 40
# The number of iterations of Remez's exchange.
TURNS = 25

# The number of changes that are tried after rounding.
TRIES = 20_000

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Fit:
    """An approximation of f on an interval by a polynomial with `terms` terms. The polynomial
    minimises the maximum of |weight * error|."""

    name: str
    bits: int  # bits of a coefficient's significand: 24 or 53
    terms: int
    low: Any
    high: Any
    f: Function
    weight: Function


def _near_zero(f: Function, series: Function, below: str = "1e-10") -> Function:
    """Return a function that equals f, but uses f's series near 0, where f loses digits by
    cancellation."""
    return lambda x: series(x) if abs(x) < mp.mpf(below) else f(x)


def _of_square(f: Function, series: Function) -> Function:
    return _near_zero(lambda z: f(mp.sqrt(z)), series)


LN2 = mp.log(2)
ROOT = mp.sqrt(2)
# factor of interval ends, because rounding may move an argument beyond them
WIDER = mp.mpf("1.0005")

exp_rest = _near_zero(lambda r: (mp.expm1(r) - r) / r**2, lambda r: mp.mpf(1) / 2 + r / 6)
exp2_share = _near_zero(lambda r: mp.expm1(r * LN2) / r, lambda r: LN2 + r * LN2**2 / 2)
sinh_rest = _of_square(lambda r: (mp.sinh(r) - r) / r**3, lambda z: mp.mpf(1) / 6 + z / 120)
cosh_rest = _of_square(lambda r: (mp.cosh(r) - 1) / r**2, lambda z: mp.mpf(1) / 2 + z / 24)
sin_rest = _of_square(lambda r: (mp.sin(r) - r) / r**3, lambda z: z / 120 - mp.mpf(1) / 6)
cos_rest = _near_zero(
    lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
    lambda z: mp.mpf(1) / 24 - z / 720 + z * z / 40320, "1e-6",
)  # fmt: skip
atan_rest = _of_square(lambda r: (mp.atan(r) - r) / r**3, lambda z: z / 5 - mp.mpf(1) / 3)
asin_rest = _of_square(lambda r: (mp.asin(r) - r) / r**3, lambda z: mp.mpf(1) / 6 + z * 3 / 40)
erf_near = _of_square(
    lambda x: mp.erf(x) / x - 1, lambda z: 2 / mp.sqrt(mp.pi) * (1 - z / 3 + z * z / 10) - 1
)
log_rest = _near_zero(
    lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
    lambda f: mp.mpf(1) / 3 - f / 4 + f * f / 5, "1e-7",
)  # fmt: skip


def _log_tail(s: Any) -> Any:
    """Return log((1 + s) / (1 - s))."""
    return 2 * mp.atanh(s)


log_share = _of_square(
    lambda s: (_log_tail(s) - 2 * s) / s**3, lambda z: mp.mpf(2) / 3 + z * 2 / 5 + z * z * 2 / 7
)
log_share_tail = _of_square(
    lambda s: (_log_tail(s) - 2 * s - s**3 * 2 / 3) / s**5,
    lambda z: mp.mpf(2) / 5 + z * 2 / 7 + z * z * 2 / 9,
)
log2_share = _of_square(
    lambda s: _log_tail(s) / s / LN2, lambda z: (mp.mpf(2) + z * 2 / 3 + z * z * 2 / 5) / LN2
)


def _erfc_share(centre: Any) -> Function:
    def share(t: Any) -> Any:
        x = centre * (1 + t) / (1 - t)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x) - 1

    return share


def _erfc_fit(bits: int, terms: int, centre: str, most: str) -> Fit:
    middle, end = mp.mpf(centre), mp.mpf(most)
    return Fit(
        "erfc_share", bits, terms, -1, (end - middle) / (end + middle), _erfc_share(middle),
        lambda t: mp.mpf(1),
    )  # fmt: skip


def _weight_of_erf(x: Any) -> Any:
    return mp.erfc(x) / mp.erf(x)


def _by_ln2(r: Any) -> Any:
    return r * r / abs(mp.expm1(r)) if r else mp.mpf(0)


HALF_LN2 = LN2 / 2 * WIDER
EIGHTH = (mp.pi / 4 * WIDER) ** 2
SHARE = ((ROOT - 1) / (ROOT + 1) * WIDER) ** 2

FITS = (
    Fit("exp_rest", 24, 5, -HALF_LN2, HALF_LN2, exp_rest, lambda r: r * r / mp.exp(r)),
    Fit("exp_rest", 53, 11, -HALF_LN2, HALF_LN2, exp_rest, _by_ln2),
    *(
        Fit("exp2_share", bits, terms, -WIDER / 2, WIDER / 2, exp2_share, lambda r: abs(r) / 2**r)
        for bits, terms in ((24, 6), (53, 11))
    ),
    Fit("sinh_rest", 24, 3, 0, HALF_LN2**2, sinh_rest, lambda z: z),
    Fit("sinh_rest", 53, 5, 0, HALF_LN2**2, sinh_rest, lambda z: z),
    Fit("cosh_rest", 24, 3, 0, HALF_LN2**2, cosh_rest, lambda z: z),
    Fit("cosh_rest", 53, 6, 0, HALF_LN2**2, cosh_rest, lambda z: z),
    Fit("erf_near", 24, 6, 0, mp.mpf("0.92") ** 2, erf_near, lambda z: 1 / (1 + erf_near(z))),
    Fit("erf_near", 53, 12, 0, mp.mpf("0.95") ** 2, erf_near, lambda z: 1 / (1 + erf_near(z))),
    Fit("erf_far", 24, 7, mp.mpf("0.92"), 4, lambda x: mp.log(mp.erfc(x)), _weight_of_erf),
    Fit("erf_far", 53, 18, mp.mpf("0.95"), 6, lambda x: mp.log(mp.erfc(x)), _weight_of_erf),
    _erfc_fit(24, 11, "3.5", "10.1"),
    _erfc_fit(53, 23, "3.75", "27.3"),
    Fit(
        "log_rest", 24, 9, (1 / ROOT - 1) * WIDER, (ROOT - 1) * WIDER, log_rest,
        lambda f: abs(f**3 / mp.log1p(f)) if f else mp.mpf(0),
    ),
    Fit("log_share", 53, 7, 0, SHARE, log_share, lambda z: z / 2),
    Fit("log2_share of pow", 53, 5, 0, SHARE, log2_share, lambda z: mp.mpf(1)),
    Fit("exp2_share of pow", 53, 7, -WIDER / 2, WIDER / 2, exp2_share, lambda r: abs(r) / 2**r),
    Fit("log_share_tail of pow", 53, 8, 0, SHARE, log_share_tail, lambda z: z * z / 2),
    Fit("sin_rest", 24, 3, 0, EIGHTH, sin_rest, lambda z: z),
    Fit("sin_rest", 53, 6, 0, EIGHTH, sin_rest, lambda z: z),
    Fit("cos_rest", 24, 3, 0, EIGHTH, cos_rest, lambda z: z * z),
    Fit("cos_rest", 53, 6, 0, EIGHTH, cos_rest, lambda z: z * z),
    Fit("atan_rest", 24, 9, 0, WIDER, atan_rest, lambda z: z),
    Fit("atan_rest", 53, 20, 0, WIDER, atan_rest, lambda z: z),
    Fit("asin_rest", 24, 5, 0, WIDER / 4, asin_rest, lambda z: z),
    Fit("asin_rest", 53, 12, 0, WIDER / 4, asin_rest, lambda z: z),
)  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy.minimax", description=__doc__)
    parser.add_argument("names", nargs="*", help="functions, as exp_rest; without them all")
    names = parser.parse_args(argv).names
    for fit in FITS:
        if not names or fit.name in names:
            print(shown(fit), flush=True)


def shown(fit: Fit) -> str:
    real, error = _remez(fit)
    coefficients, rounded_error = _rounded(fit, real)
    texts = [f"{np.float32(c)!s}f" if fit.bits == 24 else repr(c) for c in coefficients]
    title = (
        f"// {fit.name}, {fit.bits} bits: 2^{mp.log(error, 2)!s:.6} 2^{np.log2(rounded_error):.1f}"
    )
    return f"{title}\n{', '.join(texts)}"


def _remez(fit: Fit) -> tuple[list[Any], Any]:
    count = fit.terms + 1
    low, length = mp.mpf(fit.low), mp.mpf(fit.high) - mp.mpf(fit.low)
    grid = [x for x in _cosines(low, length, 24 * count) if fit.weight(x)]
    wanted, weights = [fit.f(x) for x in grid], [fit.weight(x) for x in grid]
    at = [round(k * (len(grid) - 1) / (count - 1)) for k in range(count)]
    best: tuple[list[Any], Any] = ([], mp.inf)
    for _ in range(TURNS):
        matrix, right = mp.matrix(count, count), mp.matrix(count, 1)
        for i, k in enumerate(at):
            for j in range(fit.terms):
                matrix[i, j] = grid[k] ** j
            matrix[i, fit.terms] = (-1) ** i / weights[k]
            right[i] = wanted[k]
        solved = mp.lu_solve(matrix, right)
        made = [solved[j] for j in range(fit.terms)]
        errors = [
            (f - mp.polyval(made[::-1], x)) * w
            for x, f, w in zip(grid, wanted, weights, strict=True)
        ]
        most = max(map(abs, errors))
        if most < best[1]:
            best = made, most
        at = _alternating(errors, count)
        if len(at) < count or most < abs(solved[fit.terms]) * mp.mpf("1.01"):
            break
    return best


def _cosines(low: Any, length: Any, count: int) -> list[Any]:
    return [low + length * (1 - mp.cos(mp.pi * k / count)) / 2 for k in range(count + 1)]


def _alternating(errors: list[Any], count: int) -> list[int]:
    """Return up to `count` positions of the greatest errors, with alternating signs."""
    at: list[int] = []
    for k, error in enumerate(errors):
        if not at or (error > 0) != (errors[at[-1]] > 0):
            at.append(k)
        elif abs(error) > abs(errors[at[-1]]):
            at[-1] = k
    while len(at) > count:
        sizes = [abs(errors[k]) for k in at]
        if len(at) == count + 1:
            at.pop(0 if sizes[0] < sizes[-1] else -1)
            continue
        least = min(range(len(at)), key=sizes.__getitem__)
        if least in (0, len(at) - 1):
            at.pop(least)
        else:
            beside = least - 1 if sizes[least - 1] < sizes[least + 1] else least + 1
            del at[max(least, beside)], at[min(least, beside)]
    return at


def _rounded(fit: Fit, real: list[Any]) -> tuple[list[float], float]:
    """Round the coefficients to `bits` bits. Then try random changes of the rounded coefficients,
    and keep each change that decreases the greatest error. Return the coefficients and this
    error."""
    exponents = [int(mp.frexp(c)[1]) for c in real]
    units = [mp.ldexp(1, e - fit.bits) for e in exponents]
    whole = [int(mp.nint(c / unit)) for c, unit in zip(real, units, strict=True)]
    low = mp.mpf(fit.low)
    grid = [x for x in _cosines(low, mp.mpf(fit.high) - low, 400) if fit.weight(x)]
    weights = [fit.weight(x) for x in grid]
    made = [n * unit for n, unit in zip(whole, units, strict=True)]
    errors = np.array([
        float(w * (fit.f(x) - mp.polyval(made[::-1], x)))
        for x, w in zip(grid, weights, strict=True)
    ])  # fmt: skip
    columns = [
        np.array([float(w * x**j * units[j]) for x, w in zip(grid, weights, strict=True)])
        for j in range(fit.terms)
    ]
    chosen = random.Random(0)
    most = np.abs(errors).max()
    for _ in range(TRIES):
        moves = [
            (chosen.randrange(fit.terms), chosen.choice((-2, -1, 1, 2)))
            for _ in range(chosen.choice((1, 2, 2, 3)))
        ]
        tried = errors - sum(by * columns[j] for j, by in moves)
        if np.abs(tried).max() < most:
            errors, most = tried, np.abs(tried).max()
            for j, by in moves:
                whole[j] += by
    return [float(n * unit) for n, unit in zip(whole, units, strict=True)], float(most)


if __name__ == "__main__":
    main()
