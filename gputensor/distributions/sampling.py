"""Samples of gamma (differentiable), Poisson and binomial distributions, which have no operator.

The arithmetic is float64 for every dtype. Samples have PyTorch's distributions but not PyTorch's
values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._generated.functions import (
    arange, digamma, empty, full_like, igamma, igammac, lgamma, rand, randn, where,
    zeros_like,
)  # fmt: skip
from ..autograd import Function
from ..core import errors
from ..core.dtype import FLOATING, float64
from ..dispatch.refusal import declares
from ..functional import broadcast_tensors
from ..structured.generator import Generator
from ..tensor.tensor import Tensor


def by_rejection(like: Tensor, propose: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """Draw one float64 number for each element of `like`.

    propose: takes indices into the flattened `like`; returns proposals and a mask of the accepted
    ones. The loop runs until every element is accepted, so `propose` must accept NaN for an invalid
    parameter.
    """
    drawn = empty(like.numel(), dtype=float64, device=like.device)
    pending = arange(like.numel(), device=like.device)
    while pending.numel():
        proposed, accepted = propose(pending)
        drawn[pending[accepted]] = proposed[accepted]
        pending = pending[~accepted]
    return drawn.reshape(like.shape)


class _LogGamma(Function):
    """Logarithm of standard gamma samples; differentiable by the implicit function theorem."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        # Source: Marsaglia and Tsang, A simple method for generating gamma variables, 2000. For a
        # concentration below 1, a sample of concentration + 1 is multiplied by
        # rand ** (1 / concentration).
        boosted = concentration.flatten() + (concentration.flatten() < 1)
        shift = boosted - 1 / 3

        def propose(pending: Tensor) -> tuple[Tensor, Tensor]:
            d = shift[pending]
            x, u = randn(d.shape, dtype=d.dtype, device=d.device), _uniform(d)
            cube = (1 + x / (9 * d).sqrt()).pow(3)
            log_cube = cube.log()  # NaN for cube < 0, which `fits` rejects
            fits = u.log() < 0.5 * x.square() + d * (1 - cube + log_cube)
            return d.log() + log_cube, (fits & (cube > 0)) | ~((d > 0) & (d < math.inf))

        log_x = by_rejection(concentration, propose)
        log_x = log_x + (concentration < 1) * _uniform(concentration).log() / concentration
        ctx.save_for_backward(log_x, concentration)
        return log_x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        log_x, concentration = ctx.saved_tensors
        return grad * _log_gamma_slope(log_x, concentration)


def _log_gamma_slope(log_x: Tensor, a: Tensor) -> Tensor:
    """Return d log(x) / d a at a fixed cdf P(a, x): -(dP/da) / (x dP/dx)."""
    x = log_x.exp()
    # For x < 1: power series of P, x^a / Gamma(a) * sum (-x)^n / (n! (a + n)).
    small = x.clamp(max=1.0)
    term, first, second = 1 + zeros_like(a), 1 / a, 1 / a.square()
    for n in range(1, 18):
        term = term * -small / n
        first, second = first + term / (a + n), second + term / (a + n).square()
    by_series = -small.exp() * (first * (log_x - digamma(a)) - second)
    # for larger x: a difference quotient of fourth order of P or of 1 - P, whichever is smaller
    large = x.clamp(min=1.0)
    step = 1e-3 * a.clamp(max=1.0) * a.clamp(min=1.0).sqrt()

    def cdf(steps: float) -> Tensor:
        shifted = a + steps * step
        return where(large < a, igamma(shifted, large), -igammac(shifted, large))

    slope = (8 * (cdf(1) - cdf(-1)) - (cdf(2) - cdf(-2))) / (12 * step)
    density = (a * large.log() - large - lgamma(a)).exp()
    return where(x < 1, by_series, -slope / density)


def _uniform(like: Tensor, generator: Any = None) -> Tensor:
    """Draw uniform numbers in (0, 1]."""
    return 1 - rand(like.shape, generator=generator, dtype=float64, device=like.device)


def log_standard_gamma(concentration: Tensor) -> Tensor:
    """Draw the logarithm of Gamma(concentration, 1) samples. It is float64 and does not
    underflow."""
    made: Tensor = _LogGamma.apply(concentration.to(float64))
    return made


# Hörmann's constants hold for means of at least _LARGE. `_by_counting` handles smaller means.
_LARGE = 10.0
# A Poisson sample with a mean below _LARGE is less than _MOST, because the probability of a larger
# sample is less than the rounding error of the cdf.
_MOST = 100


class _Drawn(Function):
    """Samples whose derivatives are zero."""

    @staticmethod
    def forward(ctx: Any, draw: Callable[..., Tensor], generator: Any, *of: Tensor) -> Tensor:
        ctx.save_for_backward(*of)
        return draw(generator, *of)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *[zeros_like(x) for x in ctx.saved_tensors]


@declares()
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw one Poisson sample for each rate, or NaN for a rate that is negative or not finite.

    Samples have the rates' dtype; equal seeds give equal samples on every device.

    >>> gt.poisson(gt.zeros(2)).tolist()
    [0.0, 0.0]
    """
    made: Tensor = _Drawn.apply(_poisson, generator, _of_reals("poisson", "input", input))
    return made


@declares()
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw one binomial sample for each count and probability, or NaN if one of them is out of
    range.

    Samples have the probabilities' dtype; equal seeds give equal samples on every device.

    >>> gt.binomial(gt.tensor([3.0]), gt.ones(2)).tolist()
    [3.0, 3.0]
    """
    _of_reals("binomial", "prob", prob)
    made: Tensor = _Drawn.apply(_binomial, generator, *broadcast_tensors(count, prob))
    return made


def _of_reals(op: str, arg: str, x: Tensor) -> Tensor:
    if x._geometry.dtype.category != FLOATING:
        raise errors.wrong_dtype(op, arg, "be floating", x)
    return x


def _poisson(generator: Any, rate: Tensor) -> Tensor:
    mean = rate.to(float64).flatten()
    drawn = full_like(mean, math.nan)
    small = ((mean >= 0) & (mean < _LARGE)).nonzero()[:, 0]
    large = ((mean >= _LARGE) & (mean < math.inf)).nonzero()[:, 0]
    few = mean[small]
    drawn[small] = _by_counting((-few).exp(), zeros_like(few), few, generator)
    drawn[large] = _poisson_by_rejection(mean[large], generator)
    return drawn.reshape(rate.shape).to(rate.dtype)


def _binomial(generator: Any, total_count: Tensor, probs: Tensor) -> Tensor:
    n, p = total_count.to(float64).flatten(), probs.to(float64).flatten()
    rare = p.clamp(max=1 - p)  # count successes or failures, whichever are rarer
    is_known = (rare >= 0) & (n >= 0) & (n < math.inf)
    drawn, mean = full_like(n, math.nan), n * rare
    small = (is_known & (mean < _LARGE)).nonzero()[:, 0]
    large = (is_known & (mean >= _LARGE)).nonzero()[:, 0]
    count, odds = n[small], rare[small] / (1 - rare[small])
    none = (count * (-rare[small]).log1p()).exp()
    drawn[small] = _by_counting(none, -odds, (count + 1) * odds, generator)
    drawn[large] = _binomial_by_rejection(n[large], rare[large], generator)
    return where(p > 0.5, n - drawn, drawn).reshape(probs.shape).to(probs.dtype)


def _by_counting(term: Tensor, a: Tensor, b: Tensor, generator: Any) -> Tensor:
    """Draw samples by inversion: subtract the terms of the pmf from uniform numbers until below 0.

    term: the probability of 0. The probability of k is (a + b / k) times the probability of k - 1.
    """
    count = zeros_like(term)
    rest = 1 - _uniform(term, generator) - term
    pending = arange(term.numel(), device=term.device)
    for k in range(1, _MOST):
        goes_on = rest >= 0
        pending, rest, term = pending[goes_on], rest[goes_on], term[goes_on]
        if not pending.numel():
            break
        a, b = a[goes_on], b[goes_on]
        term = term * (a + b / k)
        rest = rest - term
        count[pending] = float(k)
    return count


def _poisson_by_rejection(mean: Tensor, generator: Any) -> Tensor:
    """Draw Poisson samples with means of 10 or more.

    Source: Hörmann, The transformed rejection method for generating Poisson random variables, 1993,
    algorithm PTRS.
    """

    def propose(pending: Tensor) -> tuple[Tensor, Tensor]:
        m = mean[pending]
        b = 0.931 + 2.53 * m.sqrt()
        a = 0.02483 * b - 0.059
        u, v, side = _sides(m, generator)
        k = ((2 * a / side + b) * u + m + 0.43).floor()
        accepted = (side >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        left = (~accepted & (k >= 0)).nonzero()[:, 0]
        m, a, b, v, side, at = (x[left] for x in (m, a, b, v, side, k))
        weight = v * (1.1239 + 1.1328 / (b - 3.4)) / (a / side.square() + b)
        accepted[left] = weight.log() <= at * m.log() - m - lgamma(at + 1)
        return k, accepted

    return by_rejection(mean, propose)


def _binomial_by_rejection(count: Tensor, probability: Tensor, generator: Any) -> Tensor:
    """Draw binomial samples with means of 10 or more and probabilities of at most 1/2.

    Source: Hörmann, The generation of binomial random variates, 1993, algorithm BTRS.
    """

    def propose(pending: Tensor) -> tuple[Tensor, Tensor]:
        n, p = count[pending], probability[pending]
        spread = (n * p * (1 - p)).sqrt()
        b = 1.15 + 2.53 * spread
        a = 0.0248 * b - 0.0873 + 0.01 * p
        u, v, side = _sides(n, generator)
        k = ((2 * a / side + b) * u + n * p + 0.5).floor()
        accepted = (side >= 0.07) & (v <= 0.92 - 4.2 / b)
        left = (~accepted & (k >= 0) & (k <= n)).nonzero()[:, 0]
        n, p, a, b, v, side, at = (x[left] for x in (n, p, a, b, v, side, k))
        weight = v * (2.83 + 5.1 / b) * spread[left] / (a / side.square() + b)
        mode = ((n + 1) * p).floor()
        to_mode = lgamma(mode + 1) + lgamma(n - mode + 1) - lgamma(at + 1) - lgamma(n - at + 1)
        accepted[left] = weight.log() <= to_mode + (at - mode) * (p / (1 - p)).log()
        return k, accepted

    return by_rejection(count, propose)


def _sides(like: Tensor, generator: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Draw u in (-1/2, 1/2] and v in (0, 1]; return u, v and 1/2 - |u|."""
    u, v = _uniform(like, generator) - 0.5, _uniform(like, generator)
    return u, v, 0.5 - u.abs()
