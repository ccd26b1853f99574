"""Random numbers that no operator draws: gamma (with its derivative), Poisson, binomial.

Computed in float64 whatever the dtype, and cast by the caller. Draws differ from PyTorch's, their
distributions do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._generated.functions import (
    arange, digamma, empty, igamma, igammac, lgamma, logaddexp, rand, randn, where, zeros_like,
)  # fmt: skip
from ..autograd import Function
from ..core.dtype import float64
from ..tensor.tensor import Tensor


def by_rejection(like: Tensor, propose: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """Draw one float64 number for each element of `like`.

    propose: takes indices into the flattened `like`, returns proposals and which are accepted. It
    must accept NaN for a parameter that has no samples, for this waits until all are accepted.
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
        # Source: Marsaglia and Tsang, A simple method for generating gamma variables, 2000. Below
        # 1, a sample for concentration + 1 is multiplied by rand ** (1 / concentration).
        boosted = concentration.flatten() + (concentration.flatten() < 1)
        shift = boosted - 1 / 3

        def propose(pending: Tensor) -> tuple[Tensor, Tensor]:
            d = shift[pending]
            x, u = randn(d.shape, dtype=d.dtype, device=d.device), _uniform(d)
            cube = (1 + x / (9 * d).sqrt()).pow(3)
            log_cube = cube.log()  # NaN, which is not accepted, below 0
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
    """d log(x) / d a at a fixed cdf P(a, x): minus dP/da over x dP/dx."""
    x = log_x.exp()
    # Below 1, by the power series of P: x^a / Gamma(a) * sum (-x)^n / (n! (a + n)).
    small = x.clamp(max=1.0)
    term, first, second = 1 + zeros_like(a), 1 / a, 1 / a.square()
    for n in range(1, 18):
        term = term * -small / n
        first, second = first + term / (a + n), second + term / (a + n).square()
    by_series = -small.exp() * (first * (log_x - digamma(a)) - second)
    # Above, by a difference of fourth order of whichever of P and 1 - P is the smaller.
    large = x.clamp(min=1.0)
    step = 1e-3 * a.clamp(max=1.0) * a.clamp(min=1.0).sqrt()

    def cdf(steps: float) -> Tensor:
        shifted = a + steps * step
        return where(large < a, igamma(shifted, large), -igammac(shifted, large))

    slope = (8 * (cdf(1) - cdf(-1)) - (cdf(2) - cdf(-2))) / (12 * step)
    density = (a * large.log() - large - lgamma(a)).exp()
    return where(x < 1, by_series, -slope / density)


def _uniform(like: Tensor) -> Tensor:
    """Uniform in (0, 1]."""
    return 1 - rand(like.shape, dtype=float64, device=like.device)


def log_standard_gamma(concentration: Tensor) -> Tensor:
    """Logarithm, in float64, of a sample of Gamma(concentration, 1): no sample underflows."""
    made: Tensor = _LogGamma.apply(concentration.to(float64))
    return made


def poisson(rate: Tensor) -> Tensor:
    """One Poisson sample for each rate: the cdf 1 - P(k + 1, rate), inverted by bisection."""
    mean, u = rate.to(float64), _uniform(rate)
    reach = 12 * mean.sqrt() + 40  # farther from the mean lies less than 1e-17 of the probability
    low, high = (mean - reach).clamp(min=-1).floor(), (mean + reach).ceil()
    span = (high - low).nan_to_num(nan=1.0, posinf=1.0)
    steps = math.ceil(math.log2(span.max().item())) if rate.numel() else 0
    for _ in range(steps):
        middle = ((low + high) / 2).floor()
        is_below = (middle == low) | (igammac(middle + 1, mean) < u)
        low, high = where(is_below, middle, low), where(is_below, high, middle)
    return high.to(rate.dtype)


# Trials that are counted one by one.
_FEW = 16


def binomial(total_count: Tensor, probs: Tensor) -> Tensor:
    """One binomial sample for each count and probability.

    Of n uniform numbers the a-th smallest has a beta distribution. If it is above p, the other
    successes are among the a - 1 below; else these a are successes and the rest is drawn again.
    Source: Ahrens and Dieter, Computer methods for sampling from gamma, beta, Poisson and binomial
    distributions, 1974.
    """
    n, p, successes = total_count.to(float64), probs.to(float64), zeros_like(total_count)
    while (many := n > _FEW).any():
        rank = (n / 2).floor() + 1
        log_a = log_standard_gamma(rank)
        x = (log_a - logaddexp(log_a, log_standard_gamma(n + 1 - rank))).exp()
        is_above = x >= p
        successes = where(many & ~is_above, successes + rank, successes)
        n = where(many, where(is_above, rank - 1, n - rank), n)
        p = where(many, where(is_above, p / x, (p - x) / (1 - x)), p)
    trials = arange(_FEW, device=n.device).reshape(_FEW, *(1 for _ in n.shape))
    u = rand((_FEW, *n.shape), dtype=float64, device=n.device)
    return (successes + ((u < p) & (trials < n)).sum(0)).to(probs.dtype)
