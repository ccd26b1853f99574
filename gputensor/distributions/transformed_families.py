"""Distributions defined as a transform of a simpler distribution.

Source: torch/distributions, a module for each class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._generated.functions import full_like, ones_like, where, zeros_like
from ..nn import functional as F
from ..tensor.tensor import Tensor
from ..tensor.type_info import finfo
from . import constraints
from .constraints import Constraint
from .discrete import ByCategorical, ByOdds
from .distribution import Check, Parameter, Regions
from .location_scale import LOCATION_SCALE, Cauchy, LocationScale, Normal, Uniform
from .positive import Exponential, Gamma
from .transformed import TransformedDistribution
from .transforms import (
    AbsTransform, AffineTransform, ExpTransform, PowerTransform, SigmoidTransform,
    StickBreakingTransform,
)  # fmt: skip
from .utils import broadcast_all, clamp_probs, euler_constant, quantity


class Gumbel(TransformedDistribution):
    """Gumbel distribution with mode loc: the limit distribution of maxima."""

    arg_constraints: Regions = LOCATION_SCALE
    support: Constraint = constraints.real
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: Check = None) -> None:
        base = Normal(loc, scale, validate_args=False)  # broadcasts both
        self.loc, self.scale = base.loc, base.scale
        info = finfo(self.loc.dtype)
        low, high = full_like(self.loc, info.tiny), full_like(self.loc, 1 - info.eps)
        log = ExpTransform().inv
        parts = [log, AffineTransform(0, -1), log, AffineTransform(self.loc, -self.scale)]
        super().__init__(Uniform(low, high, validate_args), parts, validate_args)

    def _log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    mean: Tensor = quantity(lambda self: self.loc + self.scale * euler_constant)
    mode: Tensor = quantity(lambda self: self.loc)
    stddev: Tensor = quantity(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance: Tensor = quantity(lambda self: self.stddev.square())

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class _Half(TransformedDistribution):
    """Distribution of |x|, where x has a symmetric distribution around 0."""

    arg_constraints: Regions = {"scale": constraints.positive}
    support: Constraint = constraints.nonnegative
    _base: type[LocationScale]

    def __init__(self, scale: Parameter, validate_args: Check = None) -> None:
        super().__init__(self._base(0, scale, False), AbsTransform(), validate_args)

    scale: Tensor = quantity(lambda self: self.base_dist.scale)
    mode: Tensor = quantity(lambda self: zeros_like(self.scale))

    def _log_prob(self, value: Tensor) -> Tensor:
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(value) - 1

    def _icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """Distribution of |x|, where x has a normal distribution with mean 0."""

    _base = Normal

    mean: Tensor = quantity(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance: Tensor = quantity(lambda self: self.scale.square() * (1 - 2 / math.pi))


class HalfCauchy(_Half):
    """Distribution of |x|, where x has a Cauchy distribution around 0."""

    _base = Cauchy

    mean: Tensor = quantity(lambda self: full_like(self.scale, math.inf))
    variance: Tensor = quantity(lambda self: full_like(self.scale, math.inf))


class LogNormal(TransformedDistribution):
    """Log-normal distribution of exp(x), where x is normal with mean loc and standard deviation
    scale."""

    arg_constraints: Regions = LOCATION_SCALE
    support: Constraint = constraints.positive

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: Check = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    loc: Tensor = quantity(lambda self: self.base_dist.loc)
    scale: Tensor = quantity(lambda self: self.base_dist.scale)
    mean: Tensor = quantity(lambda self: (self.loc + self.scale.square() / 2).exp())
    mode: Tensor = quantity(lambda self: (self.loc - self.scale.square()).exp())

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.loc + self.base_dist.entropy()


class LogisticNormal(TransformedDistribution):
    """Distribution on the simplex, with events of n + 1 elements: the stick-breaking transform of
    normal vectors of n elements."""

    arg_constraints: Regions = LOCATION_SCALE
    support: Constraint = constraints.simplex

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: Check = None) -> None:
        base = Normal(loc, scale, validate_args)
        base = base if base.batch_shape else base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    loc: Tensor = quantity(lambda self: self.base_dist.base_dist.loc)
    scale: Tensor = quantity(lambda self: self.base_dist.base_dist.scale)


class InverseGamma(TransformedDistribution):
    """Distribution of 1 / x, where x has a gamma distribution."""

    arg_constraints: Regions = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Constraint = constraints.positive
    concentration: Tensor = quantity(lambda self: self.base_dist.concentration)
    rate: Tensor = quantity(lambda self: self.base_dist.rate)

    def __init__(
        self, concentration: Parameter, rate: Parameter, validate_args: Check = None
    ) -> None:
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args)

    mode: Tensor = quantity(lambda self: self.rate / (self.concentration + 1))

    @property
    def mean(self) -> Tensor:
        less = self.concentration - 1
        return where(less > 0, self.rate / less, math.inf)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Pareto(TransformedDistribution):
    """Pareto distribution of type 1, above scale: density proportional to x ** -(alpha + 1)."""

    arg_constraints: Regions = {"alpha": constraints.positive, "scale": constraints.positive}
    scale: Tensor
    alpha: Tensor

    def __init__(self, scale: Parameter, alpha: Parameter, validate_args: Check = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        parts = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(Exponential(self.alpha, validate_args), parts, validate_args)

    mode: Tensor = quantity(lambda self: self.scale)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """Weibull distribution of scale * x ** (1 / concentration), where x is exponential with rate
    1."""

    arg_constraints: Regions = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support: Constraint = constraints.positive
    scale: Tensor
    concentration: Tensor
    concentration_reciprocal: Tensor

    def __init__(
        self, scale: Parameter, concentration: Parameter, validate_args: Check = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        parts = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(Exponential(ones_like(self.scale), False), parts, validate_args)

    def _moment(self, order: int) -> Tensor:
        return (1 + order * self.concentration_reciprocal).lgamma().exp()

    mean: Tensor = quantity(lambda self: self.scale * self._moment(1))
    variance: Tensor = quantity(
        lambda self: self.scale.square() * (self._moment(2) - self._moment(1).square())
    )

    @property
    def mode(self) -> Tensor:
        power = self.concentration_reciprocal
        return self.scale * ((self.concentration - 1) / self.concentration) ** power

    def entropy(self) -> Tensor:
        power = self.concentration_reciprocal
        return euler_constant * (1 - power) + (self.scale * power).log() + 1


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy distribution in [0, 1] with the cdf 1 - (1 - x ** a) ** b.

    Args:
        concentration1, concentration0: a and b.
    """

    arg_constraints: Regions = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support: Constraint = constraints.unit_interval
    concentration1: Tensor
    concentration0: Tensor

    def __init__(
        self, concentration1: Parameter, concentration0: Parameter, validate_args: Check = None
    ) -> None:
        a, b = broadcast_all(concentration1, concentration0)
        self.concentration1, self.concentration0 = a, b
        base = Uniform(zeros_like(b), ones_like(b), validate_args)
        powers = PowerTransform(b.reciprocal()), PowerTransform(a.reciprocal())
        parts = [powers[0], AffineTransform(1.0, -1.0), powers[1]]
        super().__init__(base, parts, validate_args)

    def _moment(self, order: int) -> Tensor:
        b, shifted = self.concentration0, 1 + order / self.concentration1
        return b * (shifted.lgamma() + b.lgamma() - (shifted + b).lgamma()).exp()

    mean: Tensor = quantity(lambda self: self._moment(1))
    variance: Tensor = quantity(lambda self: self._moment(2) - self.mean.square())

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = (-b).log1p() / b - (-b * a).log1p()
        return where((b < 1) | (a < 1), math.nan, log_mode.exp())

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


def _as_temperature(temperature: Parameter, like: Tensor) -> Tensor:
    if isinstance(temperature, Tensor):
        return temperature
    return like.new_full((), temperature)


class LogitRelaxedBernoulli(ByOdds):
    """Distribution of the logits of RelaxedBernoulli: (logits + logistic noise) / temperature."""

    support: Constraint = constraints.real
    has_rsample = True
    _kept = ("temperature",)
    temperature: Tensor

    def __init__(
        self, temperature: Parameter, probs: Any = None, logits: Any = None,
        validate_args: Check = None,
    ) -> None:  # fmt: skip
        self._set_odds(probs, logits, validate_args)
        self.temperature = _as_temperature(temperature, self._param)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = clamp_probs(self.probs)
        u = clamp_probs(self._empty(sample_shape, probs).uniform_())
        noise = u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        return noise / self.temperature

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return self.temperature.log() + difference - 2 * F.softplus(difference)


class RelaxedBernoulli(TransformedDistribution):
    """Bernoulli distribution relaxed to (0, 1); samples are differentiable in its parameters.

    Args:
        temperature: near 0, samples are near 0 and 1.
    """

    arg_constraints: Regions = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Constraint = constraints.unit_interval
    _logits_class: Any = LogitRelaxedBernoulli
    _transform: Any = SigmoidTransform
    temperature: Tensor = quantity(lambda self: self.base_dist.temperature)
    probs: Tensor = quantity(lambda self: self.base_dist.probs)
    logits: Tensor = quantity(lambda self: self.base_dist.logits)

    def __init__(
        self, temperature: Parameter, probs: Any = None, logits: Any = None,
        validate_args: Check = None,
    ) -> None:  # fmt: skip
        base = self._logits_class(temperature, probs, logits, validate_args)
        super().__init__(base, self._transform(), validate_args)


class ExpRelaxedCategorical(ByCategorical):
    """Distribution of the logarithm of a relaxed one-hot vector: (logits + Gumbel noise) /
    temperature, normalized."""

    support: Constraint = constraints.real_vector
    has_rsample = True
    _kept = ("temperature",)
    temperature: Tensor

    def __init__(
        self, temperature: Parameter, probs: Any = None, logits: Any = None,
        validate_args: Check = None,
    ) -> None:  # fmt: skip
        super().__init__(probs, logits, validate_args)
        self.temperature = _as_temperature(temperature, self._param)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = clamp_probs(self._empty(sample_shape, self.logits).uniform_())
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores.log_softmax(-1)

    def _log_prob(self, value: Tensor) -> Tensor:
        count = self._event_shape[-1]
        logits, value = broadcast_all(self.logits, value)
        scale = math.lgamma(count) + (count - 1) * self.temperature.log()
        return (logits - value * self.temperature).log_softmax(-1).sum(-1) + scale


class RelaxedOneHotCategorical(RelaxedBernoulli):
    """One-hot distribution relaxed to the simplex; samples are differentiable in its parameters.

    Args:
        temperature: near 0, samples are near one-hot vectors.
    """

    arg_constraints: Regions = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Constraint = constraints.simplex
    _logits_class = ExpRelaxedCategorical
    _transform = ExpTransform
