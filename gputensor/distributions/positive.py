"""Distributions of positive numbers, of numbers in [0, 1] and of probabilities.

Source: torch/distributions, a module for each class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._generated.functions import igamma, stack, where, xlogy, zeros_like
from ..nn import functional as F
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .discrete import ByOdds
from .distribution import Check, Distribution, ExponentialFamily, Parameter, Regions
from .sampling import log_standard_gamma
from .utils import broadcast_all, clamp_probs, computed, quantity, refused, tiny


class Exponential(ExponentialFamily):
    """Exponential distribution with mean 1 / rate."""

    arg_constraints: Regions = {"rate": constraints.positive}
    support: Constraint = constraints.nonnegative
    has_rsample = True
    rate: Tensor

    def __init__(self, rate: Parameter, validate_args: Check = None) -> None:
        self._broadcast(validate_args, rate=rate)

    mean: Tensor = quantity(lambda self: self.rate.reciprocal())
    mode: Tensor = quantity(lambda self: zeros_like(self.rate))
    stddev: Tensor = quantity(lambda self: self.rate.reciprocal())
    variance: Tensor = quantity(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise: Tensor = self._empty(sample_shape, self.rate).exponential_()
        return noise / self.rate

    def _log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Tensor) -> Tensor:
        return 1 - (-self.rate * value).exp()

    def _icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()


class Gamma(ExponentialFamily):
    """Gamma distribution with shape `concentration` and mean concentration / rate."""

    arg_constraints: Regions = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Constraint = constraints.nonnegative
    has_rsample = True
    concentration: Tensor
    rate: Tensor

    def __init__(
        self, concentration: Parameter, rate: Parameter, validate_args: Check = None
    ) -> None:
        self._broadcast(validate_args, concentration=concentration, rate=rate)

    mean: Tensor = quantity(lambda self: self.concentration / self.rate)
    mode: Tensor = quantity(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance: Tensor = quantity(lambda self: self.concentration / self.rate.square())

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        log_x = log_standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        x = log_x.exp().to(self.rate.dtype) / self.rate
        return x.clamp(min=tiny(x))

    def _log_prob(self, value: Tensor) -> Tensor:
        a, rate = self.concentration, self.rate
        return xlogy(a, rate) + xlogy(a - 1, value) - rate * value - a.lgamma()

    def _cdf(self, value: Tensor) -> Tensor:
        return igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()


class Chi2(Gamma):
    """Chi-squared distribution with df degrees of freedom: Gamma(df / 2, 1 / 2)."""

    arg_constraints: Regions = {"df": constraints.positive}
    df: Tensor = quantity(lambda self: self.concentration * 2)

    def __init__(self, df: Parameter, validate_args: Check = None) -> None:
        super().__init__(0.5 * broadcast_all(df)[0], 0.5, validate_args)


class Dirichlet(ExponentialFamily):
    """Dirichlet distribution on the simplex. `concentration` has the shape (*, k)."""

    arg_constraints: Regions = {"concentration": constraints.independent(constraints.positive, 1)}
    support: Constraint = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: Check = None) -> None:
        if not isinstance(concentration, Tensor) or concentration.dim() < 1:
            rule = "be a Tensor of at least one dimension"
            raise refused(self, "concentration", rule, concentration)
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Normalize the logarithms, because samples with small concentrations would underflow to 0 /
        # 0.
        log_x = log_standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        x = log_x.softmax(-1).to(self.concentration.dtype)
        return x.clamp(min=tiny(x))

    def _log_prob(self, value: Tensor) -> Tensor:
        a = self.concentration
        return xlogy(a - 1.0, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    mean: Tensor = quantity(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        corner = F.one_hot(above.argmax(-1), above.shape[-1]).type_as(above)
        is_convex = (self.concentration < 1).all(-1).unsqueeze(-1)
        return where(is_convex, corner, above / above.sum(-1, True))

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def entropy(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1)
        log_norm = a.lgamma().sum(-1) - total.lgamma()
        slope = (a.shape[-1] - total) * total.digamma()
        return log_norm - slope - ((a - 1.0) * a.digamma()).sum(-1)


class Beta(ExponentialFamily):
    """Beta distribution in [0, 1] with mean concentration1 / (concentration1 + concentration0)."""

    arg_constraints: Regions = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support: Constraint = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Parameter, concentration0: Parameter, validate_args: Check = None
    ) -> None:
        both = stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, False)
        super().__init__(both.shape[:-1], (), validate_args)

    concentration1: Tensor = quantity(lambda self: self._dirichlet.concentration[..., 0])
    concentration0: Tensor = quantity(lambda self: self._dirichlet.concentration[..., 1])
    mean: Tensor = quantity(lambda self: self._dirichlet.mean[..., 0])
    mode: Tensor = quantity(lambda self: self._dirichlet.mode[..., 0])
    variance: Tensor = quantity(lambda self: self._dirichlet.variance[..., 0])

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._dirichlet.log_prob(stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()


class FisherSnedecor(Distribution):
    """F-distribution: the quotient of two chi-squared samples, each divided by its degrees of
    freedom."""

    arg_constraints: Regions = {"df1": constraints.positive, "df2": constraints.positive}
    support: Constraint = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Parameter, df2: Parameter, validate_args: Check = None) -> None:
        self._broadcast(validate_args, df1=df1, df2=df2)

    def _df2_above(self, bound: float) -> Tensor:
        return where(self.df2 <= bound, math.nan, self.df2)

    @property
    def mean(self) -> Tensor:
        df2 = self._df2_above(2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        df1, df2 = self.df1, self._df2_above(4)
        return 2 * df2.square() * (df1 + df2 - 2) / (df1 * (df2 - 2).square() * (df2 - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        above, below = (Gamma(df * 0.5, df, False) for df in (self.df1, self.df2))
        x = above.rsample(sample_shape) / below.rsample(sample_shape)
        return x.clamp(min=tiny(x))

    def _log_prob(self, value: Tensor) -> Tensor:
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        log_norm = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        power = half1 * ratio.log() + (half1 - 1) * value.log()
        return log_norm + power - (half1 + half2) * (ratio * value).log1p()


class ContinuousBernoulli(ByOdds, ExponentialFamily):
    """Distribution in [0, 1] with density proportional to probs ** x * (1 - probs) ** (1 - x).

    Args:
        lims: between these bounds around 1/2, where the formulas cancel, series are used.
    """

    support: Constraint = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: Check = None,
    ) -> None:  # fmt: skip
        self._lims = lims
        self._set_odds(probs, logits, validate_args)
        if "probs" in self.__dict__:
            self.probs = clamp_probs(self.probs)

    probs: Tensor = computed(lambda self: clamp_probs(self.logits.sigmoid()))

    def _regions(self) -> tuple[Tensor, Tensor]:
        """Return a mask that is False for `probs` near 0.5, where the closed formulas lose
        precision, and a copy of `probs` in which a valid value replaces the elements near 0.5."""
        holds = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return holds, where(holds, self.probs, self._lims[0])

    def _log_norm(self) -> Tensor:
        holds, p = self._regions()
        x = (self.probs - 0.5).square()
        formula = ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log()
        return where(holds, formula, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        holds, p = self._regions()
        x = self.probs - 0.5
        formula = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        return where(holds, formula, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x)

    @property
    def variance(self) -> Tensor:
        holds, p = self._regions()
        x = (self.probs - 0.5).square()
        odds = (-p).log1p() - p.log()
        formula = p * (p - 1.0) / (1.0 - 2.0 * p).square() + 1.0 / odds.square()
        return where(holds, formula, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(self._empty(sample_shape, self.probs).uniform_())

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        cross = F.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -cross + self._log_norm()

    def _cdf(self, value: Tensor) -> Tensor:
        holds, p = self._regions()
        formula = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        return where((value <= 0) | (value >= 1), (value >= 1).type_as(p),
                     where(holds, formula, value))  # fmt: skip

    def _icdf(self, value: Tensor) -> Tensor:
        holds, p = self._regions()
        none = (-p).log1p()
        formula = ((value * (2.0 * p - 1.0) - p).log1p() - none) / (p.log() - none)
        return where(holds, formula, value)

    def entropy(self) -> Tensor:
        none = (-self.probs).log1p()
        return self.mean * (none - self.probs.log()) - self._log_norm() - none
