"""Samples of the gamma distribution, with their derivative.

The arithmetic is float64 for every dtype. Samples have PyTorch's distributions but not PyTorch's
values.
"""

from __future__ import annotations

import math
from typing import Any

from .._generated.functions import (
    digamma, igamma, igammac, lgamma, randn, where, zeros_like,
)  # fmt: skip
from ..autograd import Function
from ..core.dtype import float64
from ..native.counts import by_rejection, uniform
from ..tensor.tensor import Tensor


class _LogGamma(Function):
    """Logarithm of standard gamma samples; differentiable by the implicit function theorem."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        # Source: Marsaglia and Tsang, A simple method for generating gamma variables, 2000. If a
        # concentration is below 1, the sample is drawn for concentration + 1 and multiplied by
        # rand ** (1 / concentration).
        boosted = concentration.flatten() + (concentration.flatten() < 1)
        shift = boosted - 1 / 3

        def propose(pending: Tensor) -> tuple[Tensor, Tensor]:
            d = shift[pending]
            x, u = randn(d.shape, dtype=d.dtype, device=d.device), uniform(d)
            cube = (1 + x / (9 * d).sqrt()).pow(3)
            log_cube = cube.log()  # NaN where cube < 0; `fits` is False there
            fits = u.log() < 0.5 * x.square() + d * (1 - cube + log_cube)
            return d.log() + log_cube, (fits & (cube > 0)) | ~((d > 0) & (d < math.inf))

        log_x = by_rejection(concentration, propose)
        log_x = log_x + (concentration < 1) * uniform(concentration).log() / concentration
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
    # For larger x: a difference quotient of fourth order. It is computed from P or from 1 - P,
    # whichever is smaller.
    large = x.clamp(min=1.0)
    step = 1e-3 * a.clamp(max=1.0) * a.clamp(min=1.0).sqrt()

    def cdf(steps: float) -> Tensor:
        shifted = a + steps * step
        return where(large < a, igamma(shifted, large), -igammac(shifted, large))

    slope = (8 * (cdf(1) - cdf(-1)) - (cdf(2) - cdf(-2))) / (12 * step)
    density = (a * large.log() - large - lgamma(a)).exp()
    return where(x < 1, by_series, -slope / density)


def log_standard_gamma(concentration: Tensor) -> Tensor:
    """Draw the logarithm of Gamma(concentration, 1) samples. It is float64 and does not
    underflow."""
    made: Tensor = _LogGamma.apply(concentration.to(float64))
    return made
