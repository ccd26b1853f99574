"""Kullback-Leibler divergences in closed form, selected by the classes of both distributions.

Source: torch/distributions/kl.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .. import linalg
from .._generated.functions import full_like, where, xlogy
from ..core import errors, lazy
from ..nn import functional as F
from ..tensor.tensor import Tensor
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution, ExponentialFamily
from .location_scale import Cauchy, Laplace, Normal, Uniform
from .multivariate import LowRankMultivariateNormal, MultivariateNormal, half_log_det, mahalanobis
from .positive import Beta, ContinuousBernoulli, Dirichlet, Exponential, Gamma
from .transformed import Independent, TransformedDistribution
from .transformed_families import Gumbel, HalfNormal, Pareto
from .utils import euler_constant as EULER, refused, sum_rightmost

__all__ = ["kl_divergence", "register_kl"]
Divergence = Callable[[Any, Any], Tensor]
F_ = TypeVar("F_", bound=Divergence)
_registry: dict[tuple[type, type], Divergence] = {}
_found: dict[tuple[type, type], Divergence | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[F_], F_]:
    """Return a decorator that registers a function as the kl_divergence(p, q) of two classes. The
    function is also used for their subclasses."""
    for arg, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise errors.wrong_type("register_kl", arg, "be a class of distributions", kind)

    def register(function: F_) -> F_:
        _registry[type_p, type_q] = function
        _found.clear()
        return function

    return register


def _search(type_p: type, type_q: type) -> Divergence | None:
    """Return the function registered for the closest base classes. Warn if the closest bases of p
    and of q lead to different functions."""
    fits = [pq for pq in _registry if issubclass(type_p, pq[0]) and issubclass(type_q, pq[1])]
    if not fits:
        return None

    def distances(pq: tuple[type, type]) -> tuple[int, int]:
        return type_p.__mro__.index(pq[0]), type_q.__mro__.index(pq[1])

    by_p = min(fits, key=distances)
    by_q = min(fits, key=lambda pq: distances(pq)[::-1])
    if _registry[by_p] is not _registry[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning, stacklevel=3,
        )  # fmt: skip
    return _registry[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence KL(p || q) in nats: (*batch).

    Raises: AbsentError if no function is registered for the classes.
    """
    kinds = type(p), type(q)
    if kinds not in _found:
        _found[kinds] = _search(*kinds)
    function = _found[kinds]
    if function is None:
        raise _no_form(p, q)
    return function(p, q)


def _no_form(p: Any, q: Any) -> errors.GpuTensorError:
    names = type(p).__name__, type(q).__name__
    return errors.AbsentError(f"kl_divergence: no closed form for {names[0]} and {names[1]}")


def _inf_where(condition: Tensor, value: Tensor) -> Tensor:
    return where(condition, math.inf, value)


def _log_gamma_norm(q: Any) -> Any:
    """Compute lgamma(concentration) - concentration * log(rate)."""
    return q.concentration.lgamma() - q.concentration * q.rate.log()


def _to_normal(p: Any, q: Any) -> Any:
    """Compute KL(p || q) for a normal q from p's entropy, mean and variance."""
    square = (p.variance + (p.mean - q.loc).square()) / (2 * q.scale.square())
    return -p.entropy() + q.scale.log() + 0.5 * math.log(2 * math.pi) + square


def _to_exponential(p: Any, q: Any) -> Any:
    """Compute KL(p || q) for an exponential q from p's entropy and mean."""
    return -p.entropy() - q.rate.log() + q.rate * p.mean


def _to_gamma(p: Any, q: Any, mean_log: Tensor) -> Any:
    """Compute KL(p || q) for a gamma q from p's entropy, mean and mean of log(x)."""
    log_terms = _log_gamma_norm(q) - (q.concentration - 1) * mean_log
    return -p.entropy() + log_terms + q.rate * p.mean


def _to_continuous_bernoulli(p: Any, q: Any) -> Any:
    log_norm = (-q.probs).log1p() + q._log_norm()
    return -p.entropy() - p.mean * q.logits - log_norm


# Maps a class of p to the classes of q with an infinite divergence: the density or probability of q
# is 0 in a part of p's support.
_OUTSIDE: dict[Any, list[Any]] = {
    Beta: [Pareto], ContinuousBernoulli: [Pareto],
    Exponential: [Beta, ContinuousBernoulli, Pareto, Uniform],
    Gamma: [Beta, ContinuousBernoulli, Pareto, Uniform],
    Gumbel: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Laplace: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Normal: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Pareto: [Beta, ContinuousBernoulli, Uniform], Poisson: [Bernoulli, Binomial],
}  # fmt: skip
for _p, _others in _OUTSIDE.items():
    for _q in _others:
        register_kl(_p, _q)(lambda p, q: full_like(p.mean + 0 * q.mean, math.inf))

for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_p, Normal)(_to_normal)
for _p in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_p, Exponential)(_to_exponential)
register_kl(Beta, ContinuousBernoulli)(_to_continuous_bernoulli)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    ones = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    ones = where(p.probs == 0, 0.0, _inf_where(q.probs == 0, ones))
    zeros = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    return ones + where(p.probs == 1, 0.0, _inf_where(q.probs == 1, zeros))


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise errors.AbsentError("kl_divergence: no closed form where q.total_count is larger")
    one = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return _inf_where(p.total_count > q.total_count, p.total_count * one)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = _inf_where(q.probs == 0, p.probs * (p.logits - q.logits))
    return where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    of_p = p._log_norm() + (-p.probs).log1p()
    return p.mean * (p.logits - q.logits) + of_p - q._log_norm() - (-q.probs).log1p()


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _unit_to_uniform(p: Any, q: Any) -> Tensor:
    finite = -p.entropy() + (q.high - q.low).log()
    return _inf_where((q.low > 0) | (q.high < 1), finite)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    logs = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return logs + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Any:
    total = p.concentration1 + p.concentration0
    return _to_gamma(p, q, p.concentration1.digamma() - total.digamma())


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    product, shift = p.rate * q.scale, q.loc / q.scale
    tail = shift.exp() * product / (product + 1)
    return product.log() - 1 - shift + tail + product.reciprocal()


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p: Any, q: Any) -> Any:
    if type(p) is not type(q):
        raise _no_form(p, q)
    normalizer, means = p._normalizer_and_means()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for (of_p, mean), of_q in zip(means, q._natural_params):
        term = (of_q - of_p) * mean
        result = result - sum_rightmost(term, term.dim() - result.dim())
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    logs = q.concentration * (p.rate / q.rate).log()
    logs = logs + q.concentration.lgamma() - p.concentration.lgamma()
    slope = (p.concentration - q.concentration) * p.concentration.digamma()
    return logs + slope + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    a, product, shift = p.concentration, p.rate * q.scale, q.loc / q.scale
    own = (a - 1) * a.digamma() - a.lgamma() - a
    tail = shift.exp() * (1 + product.reciprocal()).pow(-a) - shift
    return own + product.log() + a / product + tail


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    tail = (shift + (1 + ratio).lgamma()).exp()
    return -ratio.log() - shift + ratio * EULER + tail - (1 + EULER)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio, square = (p.scale / q.scale).square(), ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + square - 1 - ratio.log())


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    ratio, shift = (p.scale / q.scale).square(), (p.loc - q.loc) / q.scale
    tail = (0.5 * ratio - shift).exp()
    return -0.5 * ratio.log() + shift + tail - 0.5 * (1 + math.log(2 * math.pi))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    distance = p.loc - q.loc
    shift = distance / p.scale
    spread = math.sqrt(2 / math.pi) * p.scale * (-0.5 * shift.square()).exp()
    mean = spread + distance * (math.sqrt(0.5) * shift).erf()
    return -(p.scale / q.scale).log() + mean / q.scale - 0.5 * (1 + math.log(0.5 * math.pi))


def _same_events(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise refused(q, "event_shape", f"be p's, {p.event_shape}", q.event_shape)


def _trace(matrix: Any) -> Any:
    return matrix.square().sum((-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _to_multivariate_normal(p: Any, q: Any) -> Any:
    _same_events(p, q)
    factor = q._unbroadcasted_scale_tril
    dims = 2 * half_log_det(factor) - _log_det(p) - p.event_shape[0]
    roots = _roots(p)
    solved = [linalg.solve_triangular(factor, root, upper=False) for root in roots]
    return 0.5 * (dims + sum(map(_trace, solved)) + mahalanobis(factor, q.loc - p.loc))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _to_low_rank(p: Any, q: Any) -> Any:
    # `_roots(p)` gives matrices R; the covariance of p is the sum of R R^T. The trace of
    # (covariance of q)^-1 (covariance of p) is the sum of the traces of (D^-1 - A^T A) R R^T, with
    # D = diag(q.cov_diag) and A = q.whitened_factor().
    _same_events(p, q)
    scale, factor = q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1), q.whitened_factor()
    trace = sum(_trace(scale * root) - _trace(factor @ root) for root in _roots(p))
    dims = q.log_det() - _log_det(p) - p.event_shape[0]
    return 0.5 * (dims + trace + q.mahalanobis(q.loc - p.loc))


def _log_det(p: Any) -> Any:
    if isinstance(p, LowRankMultivariateNormal):
        return p.log_det()
    return 2 * half_log_det(p._unbroadcasted_scale_tril)


def _roots(p: Any) -> list[Tensor]:
    """Return matrices R. The sum of R R^T over these matrices is p's covariance."""
    if isinstance(p, LowRankMultivariateNormal):
        return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]
    return [p._unbroadcasted_scale_tril]


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    finite = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _inf_where(p.scale < q.scale, finite)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    finite = ((q.high - q.low) / (p.high - p.low)).log()
    return _inf_where((q.low > p.low) | (q.high < p.high), finite)


def _mean_log(low: Any, high: Any) -> Any:
    """Return the mean of log(x) for x uniform in [low, high]."""
    return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    logs = (a - 1) * _mean_log(p.low, p.high) + (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    log_norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return _inf_where((p.high > 1) | (p.low < 0), log_norm - logs - (p.high - p.low).log())


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    ratio = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return ratio.log() + 0.5 * (high + low) - ratio * ((-high).exp() - (-low).exp())


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    logs = (q.alpha * q.scale.pow(q.alpha) * (p.high - p.low)).log()
    return _inf_where(p.low < q.scale, (q.alpha + 1) * _mean_log(p.low, p.high) - logs)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    square = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return square.log() - (4 * p.scale * q.scale).log()


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise _no_form(p, q)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise _no_form(p, q)
    return kl_divergence(p.base_dist, q.base_dist)


_FORMS: dict[tuple[type, type], Divergence] = {
    (Bernoulli, Poisson): lambda p, q: -p.entropy() - (p.probs * q.rate.log() - q.rate),
    (OneHotCategorical, OneHotCategorical):
        lambda p, q: _categorical(p._categorical, q._categorical),
    (Beta, Beta): lambda p, q: _dirichlet(p._dirichlet, q._dirichlet),
    (Exponential, Gamma): lambda p, q: _to_gamma(p, q, -EULER - p.rate.log()),
    (Geometric, Geometric): lambda p, q: -p.entropy() - (-q.probs).log1p() / p.probs - q.logits,
    (HalfNormal, HalfNormal): lambda p, q: _normal(p.base_dist, q.base_dist),
    (Pareto, Exponential): lambda p, q: _inf_where(p.alpha <= 1, _to_exponential(p, q)),
    (Pareto, Gamma):
        lambda p, q: _inf_where(p.alpha <= 1, _to_gamma(p, q, p.scale.log() + 1 / p.alpha)),
    (Pareto, Normal): lambda p, q: _inf_where(p.alpha <= 2, _to_normal(p, q)),
    (Poisson, Poisson): lambda p, q: p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate),
    (Uniform, ContinuousBernoulli):
        lambda p, q: _inf_where((p.high > 1) | (p.low < 0), _to_continuous_bernoulli(p, q)),
    (Uniform, Exponential): lambda p, q: _inf_where(p.low < 0, _to_exponential(p, q)),
    (Uniform, Gamma): lambda p, q: _inf_where(p.low < 0, _to_gamma(p, q, _mean_log(p.low, p.high))),
}  # fmt: skip
_registry.update(_FORMS)

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
