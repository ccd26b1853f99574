"""Distributions of real numbers with a location and a scale, or with a bounded range.

Source: torch/distributions, a module for each class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._generated.functions import full_like, isclose, rand, where, zeros_like
from ..autograd import no_grad
from ..core.dtype import float64
from ..native.counts import by_rejection
from ..tensor.tensor import Tensor
from ..tensor.type_info import finfo
from . import constraints
from .constraints import Constraint
from .distribution import Check, Distribution, ExponentialFamily, Parameter, Regions
from .positive import Gamma
from .utils import quantity

LOCATION_SCALE: Regions = {"loc": constraints.real, "scale": constraints.positive}


class LocationScale(Distribution):
    """Base of distributions of `loc + scale * x`, where the distribution of x is symmetric around
    0. Mean and mode are loc."""

    arg_constraints: Regions = LOCATION_SCALE
    support: Constraint = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: Check = None) -> None:
        self._broadcast(validate_args, loc=loc, scale=scale)

    mean: Tensor = quantity(lambda self: self.loc)
    mode: Tensor = quantity(lambda self: self.loc)


class Normal(LocationScale, ExponentialFamily):
    """Normal distribution with mean loc and standard deviation scale."""

    stddev: Tensor = quantity(lambda self: self.scale)
    variance: Tensor = quantity(lambda self: self.scale.square())

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise: Tensor = self._empty(sample_shape, self.loc).normal_()
        return self.loc + noise * self.scale

    def _log_prob(self, value: Tensor) -> Tensor:
        square = (value - self.loc).square() / (2 * self.scale.square())
        return -square - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def _cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + ((value - self.loc) / self.scale / math.sqrt(2)).erf())

    def _icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Laplace(LocationScale):
    """Laplace distribution. The distance from loc is exponential with mean `scale`."""

    variance: Tensor = quantity(lambda self: 2 * self.scale.square())
    stddev: Tensor = quantity(lambda self: math.sqrt(2) * self.scale)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u: Tensor = self._empty(sample_shape, self.loc).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def _log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def _cdf(self, value: Tensor) -> Tensor:
        from_loc = value - self.loc
        return 0.5 - 0.5 * from_loc.sign() * (-from_loc.abs() / self.scale).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(LocationScale):
    """Cauchy distribution with median loc. The density at loc ± scale is half the maximum."""

    mean: Tensor = quantity(lambda self: full_like(self.loc, math.nan))
    variance: Tensor = quantity(lambda self: full_like(self.loc, math.inf))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise: Tensor = self._empty(sample_shape, self.loc).cauchy_()
        return self.loc + noise * self.scale

    def _log_prob(self, value: Tensor) -> Tensor:
        square = ((value - self.loc) / self.scale).square()
        return -math.log(math.pi) - self.scale.log() - square.log1p()

    def _cdf(self, value: Tensor) -> Tensor:
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def _icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """Uniform distribution in [low, high)."""

    has_rsample = True
    low: Tensor
    high: Tensor

    def __init__(self, low: Parameter, high: Parameter, validate_args: Check = None) -> None:
        self._broadcast(validate_args, low=low, high=high)

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        low, high = constraints.less_than(self.high), constraints.greater_than(self.low)
        return {"low": low, "high": high}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.interval(self.low, self.high)

    mean: Tensor = quantity(lambda self: (self.high + self.low) / 2)
    mode: Tensor = quantity(lambda self: math.nan * self.high)
    stddev: Tensor = quantity(lambda self: (self.high - self.low) / math.sqrt(12))
    variance: Tensor = quantity(lambda self: (self.high - self.low).square() / 12)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(self._empty(sample_shape, self.low).uniform_())

    def _log_prob(self, value: Tensor) -> Tensor:
        is_inside = ((self.low <= value) & (self.high > value)).type_as(self.low)
        return is_inside.log() - (self.high - self.low).log()

    def _cdf(self, value: Tensor) -> Tensor:
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def _icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class StudentT(Distribution):
    """Distribution of `loc + scale * x`, where x has Student's t-distribution with df degrees of
    freedom."""

    arg_constraints: Regions = {"df": constraints.positive, **LOCATION_SCALE}
    support: Constraint = constraints.real
    has_rsample = True
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(
        self, df: Parameter, loc: Parameter = 0.0, scale: Parameter = 1.0,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._broadcast(validate_args, df=df, loc=loc, scale=scale)

    mean: Tensor = quantity(lambda self: where(self.df <= 1, math.nan, self.loc))
    mode: Tensor = quantity(lambda self: self.loc)

    @property
    def variance(self) -> Tensor:
        finite = self.scale.square() * self.df / (self.df - 2).clamp(min=0)
        return where(self.df <= 1, math.nan, finite)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise: Tensor = self._empty(sample_shape, self.df).normal_()
        chi2 = Gamma(0.5 * self.df, 0.5, False).rsample(sample_shape)
        return self.loc + self.scale * noise * (chi2 / self.df).rsqrt()

    def _log_prob(self, value: Tensor) -> Tensor:
        y = (value - self.loc) / self.scale
        log_norm = (
            self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
            + (0.5 * self.df).lgamma() - (0.5 * (self.df + 1)).lgamma()
        )  # fmt: skip
        return -0.5 * (self.df + 1) * (y.square() / self.df).log1p() - log_norm

    def entropy(self) -> Tensor:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = half.lgamma() + math.lgamma(0.5) - more.lgamma()
        slope = more * (more.digamma() - half.digamma())
        return self.scale.log() + slope + 0.5 * self.df.log() + log_beta


class GeneralizedPareto(Distribution):
    """Generalized Pareto distribution from loc upwards. A concentration of 0 makes it
    exponential."""

    arg_constraints: Regions = {**LOCATION_SCALE, "concentration": constraints.real}
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(
        self, loc: Parameter, scale: Parameter, concentration: Parameter,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._broadcast(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, where(self.concentration < 0, end, math.inf))

    def _is_exponential(self) -> tuple[Tensor, Tensor]:
        """Return a mask that is true where concentration is 0, and the concentration, replaced by 1
        where the mask is true."""
        is_zero = isclose(self.concentration, zeros_like(self.concentration))
        return is_zero, where(is_zero, 1.0, self.concentration)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(self._empty(sample_shape, self.loc).uniform_())

    def _log_prob(self, value: Tensor) -> Tensor:
        z, (is_zero, k) = (value - self.loc) / self.scale, self._is_exponential()
        power = 1 / k + 1
        tail = where(power == 0, power, power * (k * z).log1p())
        return -self.scale.log() - where(is_zero, z, tail)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of 1 - cdf."""
        if self._validate_args:
            self._validate_sample(value)
        z, (is_zero, k) = (value - self.loc) / self.scale, self._is_exponential()
        return where(is_zero, -z, -(k * z).log1p() / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of the cdf."""
        return (-self.log_survival_function(value).exp()).log1p()

    def _cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def _icdf(self, value: Tensor) -> Tensor:
        log_tail, (is_zero, k) = (-value).log1p(), self._is_exponential()
        return self.loc + self.scale * where(is_zero, -log_tail, (-k * log_tail).expm1() / k)

    def _finite_below(self, bound: float) -> Tensor:
        return where(self.concentration < bound, self.concentration, math.nan)

    mean: Tensor = quantity(lambda self: self.loc + self.scale / (1 - self._finite_below(1.0)))
    mode: Tensor = quantity(lambda self: self.loc)

    @property
    def variance(self) -> Tensor:
        k = self._finite_below(0.5)
        return self.scale.square() / ((1 - k).square() * (1 - 2 * k))

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1


# Coefficients of the polynomials from which `_log_bessel` computes modified Bessel functions of
# order 0 and 1. The variable is (x / 3.75)^2 for x < 3.75, and 3.75 / x for larger x. Source:
# Abramowitz and Stegun, 9.8.1 to 9.8.4.
_BESSEL = (
    ((1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
     (0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1,
      0.2635537e-1, -0.1647633e-1, 0.392377e-2)),
    ((0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
     (0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1,
      -0.2895312e-1, 0.1787654e-1, -0.420059e-2)),
)  # fmt: skip


def _polynomial(y: Tensor, coefficients: Sequence[float]) -> Tensor:
    result: Any = 0.0
    for coefficient in reversed(coefficients):
        result = result * y + coefficient
    made: Tensor = result
    return made


def _log_bessel(x: Tensor, order: int) -> Tensor:
    small, large = _BESSEL[order]
    below = (_polynomial((x / 3.75).square(), small) * x.abs() ** order).log()
    above = x - 0.5 * x.log() + _polynomial(3.75 / x, large).log()
    return where(x < 3.75, below, above)


class VonMises(Distribution):
    """Von Mises distribution of angles in [-pi, pi), around loc."""

    arg_constraints: Regions = {"loc": constraints.real, "concentration": constraints.positive}
    support: Constraint = constraints.real
    loc: Tensor
    concentration: Tensor

    def __init__(
        self, loc: Parameter, concentration: Parameter, validate_args: Check = None
    ) -> None:
        self._broadcast(validate_args, loc=loc, concentration=concentration)

    mean: Tensor = quantity(lambda self: self.loc)
    mode: Tensor = quantity(lambda self: self.loc)

    @property
    def variance(self) -> Tensor:
        """Circular variance."""
        logs = [_log_bessel(self.concentration, order) for order in (1, 0)]
        return 1 - (logs[0] - logs[1]).exp()

    def _log_prob(self, value: Tensor) -> Tensor:
        cosine = self.concentration * (value - self.loc).cos()
        return cosine - math.log(2 * math.pi) - _log_bessel(self.concentration, 0)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Source: Best and Fisher, Efficient simulation of the von Mises distribution, 1979.
        with no_grad():
            shape = self._extended_shape(sample_shape)
            kappa = self.concentration.to(float64).expand(shape).flatten()
            tau = 1 + (1 + 4 * kappa.square()).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            ratio = where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho.square()) / (2 * rho))

            def propose(pending: Tensor) -> tuple[Tensor, Tensor]:
                r, k = ratio[pending], kappa[pending]
                u = rand((3, *r.shape), dtype=float64, device=r.device)
                z = (math.pi * u[0]).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = (c * (2 - c) > u[1]) | ((c / u[1]).log() + 1 - c >= 0)
                angle = (u[2] - 0.5).sign() * f.clamp(min=-1, max=1).acos()
                return angle, accepted | angle.isnan()

            angle = by_rejection(kappa, propose).reshape(shape) + self.loc
            return ((angle + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)
