"""gt.distributions: samples against moments, gradients of samples, shapes, errors. Values:
tests/oracle/random_numbers/test_distributions_oracle.py."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors

from ..harness import tier

D = gt.distributions


@pytest.fixture(autouse=True)
def seeded() -> None:
    gt.manual_seed(0)


def t(*values: Any) -> gt.Tensor:
    return gt.tensor(list(values), dtype=gt.float64)


COV = [[2.0, 0.5], [0.5, 1.0]]
SAMPLED: list[Any] = [
    D.Normal(t(0.5, -1.0), t(1.0, 2.5)), D.Laplace(t(0.5), t(2.5)), D.Uniform(t(-1.0), t(3.0)),
    D.Gumbel(t(0.5), t(2.5)), D.StudentT(t(6.0), t(0.5), t(2.0)), D.HalfNormal(t(1.5)),
    D.LogNormal(t(0.1), t(0.4)), D.Exponential(t(0.5, 3.0)), D.Gamma(t(0.05, 0.7, 4.0), t(2.0)),
    D.Chi2(t(3.0)), D.InverseGamma(t(6.0), t(2.0)), D.FisherSnedecor(t(3.0), t(14.0)),
    D.Pareto(t(1.0), t(6.0)), D.Weibull(t(2.0), t(1.5)), D.Beta(t(0.02, 2.0), t(0.03, 3.0)),
    D.Kumaraswamy(t(2.0), t(3.0)), D.ContinuousBernoulli(t(0.2, 0.5)), D.Bernoulli(t(0.3)),
    D.Dirichlet(t([0.02, 0.03, 0.01], [1.0, 2.0, 3.0])), D.Geometric(t(0.3)),
    D.Binomial(t(3.0, 40.0, 1000.0), t(0.3, 0.05, 0.6)), D.NegativeBinomial(t(2.5), t(0.6)),
    D.Poisson(t(0.0, 0.01, 3.0, 400.0)), D.OneHotCategorical(t([0.2, 0.5, 0.3])),
    D.Multinomial(5, t(0.2, 0.5, 0.3)), D.MultivariateNormal(t(1.0, 2.0), t(*COV)),
    D.MultivariateNormal(t(1.0, 2.0), precision_matrix=t(*COV)),
    D.LowRankMultivariateNormal(t(1.0, 2.0), t([1.0], [0.5]), t(0.3, 0.7)),
    D.Wishart(gt.tensor(4.0), t(*COV)), D.GeneralizedPareto(t(1.0), t(2.0), t(0.1, 0.0, -0.5)),
    D.MixtureSameFamily(D.Categorical(t(0.3, 0.7)), D.Normal(t(-2.0, 1.0), t(1.0, 0.5))),
    D.Independent(D.Laplace(t([0.5, 1.0]), t([1.0, 2.0])), 1),
]  # fmt: skip


@pytest.mark.parametrize("p", SAMPLED, ids=lambda p: type(p).__name__)
def test_samples_have_the_stated_moments(p: Any) -> None:
    count = 20_000
    x = p.sample((count,)).to(gt.float64)
    assert p.support.check(x).all() and not x.requires_grad
    mean, var = x.mean(0), x.var(0)
    error = (p.variance.to(gt.float64) / count).sqrt()
    assert ((mean - p.mean).abs() <= 5 * error).all()
    kurtosis = ((x - mean) ** 4).mean(0) / var.square().clamp(min=1e-300)
    spread = p.variance * (kurtosis.clamp(min=1.0) / count).sqrt()
    assert ((var - p.variance).abs() <= 6 * spread + 1e-12).all()


@pytest.mark.parametrize("p", [
    D.Gamma(t(0.4, 3.0), t(2.0, 0.5)), D.Normal(t(0.4), t(3.0)), D.Cauchy(t(0.4), t(3.0)),
    D.Gumbel(t(0.4), t(3.0)), D.HalfCauchy(t(3.0)), D.Weibull(t(2.0), t(1.5)),
    D.Kumaraswamy(t(2.0), t(3.0)), D.ContinuousBernoulli(t(0.2)), D.Laplace(t(0.4), t(3.0)),
    D.GeneralizedPareto(t(1.0), t(2.0), t(0.1)),
], ids=lambda p: type(p).__name__)  # fmt: skip
def test_the_cdf_of_samples_is_uniform(p: Any) -> None:
    u, _ = p.cdf(p.sample((5_000,))).sort(0)
    steps = gt.arange(5_000, dtype=gt.float64).unsqueeze(-1) / 5_000
    assert (u - steps).abs().max() < 0.03


def test_angles_have_the_stated_circular_moments() -> None:
    p = D.VonMises(t(0.5, -3.0), t(1e-6, 4.0))
    x = p.sample((20_000,))
    assert (x.abs() <= math.pi).all()
    length = gt.hypot(x.sin().mean(0), x.cos().mean(0))
    assert (1 - length - p.variance).abs().max() < 0.02
    assert abs(gt.atan2(x[:, 1].sin().mean(), x[:, 1].cos().mean()) + 3.0) < 0.03


def test_correlation_factors_are_as_dense_as_stated() -> None:
    p = D.LKJCholesky(3, t(1.5))
    x = p.sample((20_000,))
    assert p.support.check(x).all()
    correlations = (x @ x.mT)[:, 0, 1, 0]  # 2 * Beta(a, a) - 1, a = concentration + (dim - 2) / 2
    assert abs(correlations.mean()) < 0.03 and abs(correlations.var() - 1 / 5) < 0.01


def test_relaxed_samples_round_to_unrelaxed_ones() -> None:
    ones = D.RelaxedBernoulli(0.3, probs=t(0.2)).sample((20_000,)) > 0.5
    assert abs(ones.to(gt.float64).mean() - 0.2) < 0.02
    p = D.RelaxedOneHotCategorical(t(0.3), probs=t(0.2, 0.5, 0.3))
    x = p.sample((20_000,))
    counts = gt.nn.functional.one_hot(x.argmax(-1), 3).to(gt.float64).mean(0)
    assert (counts - t(0.2, 0.5, 0.3)).abs().max() < 0.02 and p.support.check(x).all()


def derivative(make: Any, function: Any, *params: float) -> list[float]:
    leaves = [t(p).requires_grad_() for p in params]
    x = make(*leaves).rsample((40_000,))
    return [float(g) for g in gt.autograd.grad(function(x).mean(), leaves)]


# Functions of samples, and the derivatives of their means with respect to the parameters.
GRADIENTS: list[Any] = [
    (lambda a, b: D.Normal(a, b), lambda x: x.square(), (0.5, 2.0), (1.0, 4.0)),
    (lambda a, b: D.Gamma(a, b), lambda x: x, (0.3, 2.0), (0.5, -0.075)),
    (lambda a, b: D.Gamma(a, b), lambda x: x, (30.0, 2.0), (0.5, -7.5)),
    (lambda a, b: D.Beta(a, b), lambda x: x, (0.5, 1.5), (0.375, -0.125)),
    (lambda a, b: D.Beta(a, b), lambda x: x, (5.0, 15.0), (0.0375, -0.0125)),
    (lambda a: D.Chi2(a), lambda x: x, (3.0,), (1.0,)),
    (lambda a: D.Exponential(a), lambda x: x, (2.0,), (-0.25,)),
    (lambda a, b: D.Laplace(a, b), lambda x: x.square(), (0.5, 2.0), (1.0, 8.0)),
    (lambda a, b: D.StudentT(t(9.0), a, b), lambda x: x.square(), (0.5, 2.0), (1.0, 36 / 7)),
    (lambda a: D.Dirichlet(gt.cat([a, t(2.0, 3.0)])), lambda x: x[..., 0], (1.0,), (5 / 36,)),
]  # fmt: skip


@pytest.mark.parametrize("make, function, params, expected", GRADIENTS[:: tier.pick(3, 1)])
def test_gradients_pass_through_samples(
    make: Any, function: Any, params: Any, expected: Any
) -> None:
    assert derivative(make, function, *params) == pytest.approx(expected, rel=0.05)


def test_gamma_gradients_are_finite_where_samples_underflow() -> None:
    a = gt.tensor([1e-5, 1e-3, 1e6], requires_grad=True)
    x = D.Gamma(a, 1.0).rsample((50,))
    assert x.dtype == gt.float32 and (x > 0).all()
    x.sum().backward()
    assert a.grad.isfinite().all()
    probs = D.Dirichlet(a[:2]).rsample((50,))
    assert (probs.sum(-1) - 1).abs().max() < 1e-6
    probs[:, 0].sum().backward()
    assert a.grad.isfinite().all()


def test_straight_through_samples_pass_gradients_to_probabilities() -> None:
    probs = t(0.2, 0.5, 0.3).requires_grad_()
    x = D.OneHotCategoricalStraightThrough(probs).rsample((4,))
    assert x.detach().sum(-1).tolist() == pytest.approx([1.0] * 4)
    x[:, 0].sum().backward()
    assert probs.grad.tolist() == pytest.approx([3.2, -0.8, -0.8])


@pytest.mark.parametrize("p", SAMPLED, ids=lambda p: type(p).__name__)
def test_shapes_of_samples_and_of_the_expanded(p: Any) -> None:
    whole = p.batch_shape + p.event_shape
    assert p.sample().shape == whole and p.sample((2, 3)).shape == (2, 3) + whole
    assert p.log_prob(p.sample((2, 3))).shape == (2, 3) + p.batch_shape
    wide = p.expand((7, *p.batch_shape))
    assert wide.batch_shape == (7, *p.batch_shape) and wide.event_shape == p.event_shape
    assert wide.sample((2,)).shape == (2, 7) + whole and wide.mean.shape == (7,) + whole
    assert type(wide) is type(p) and p.batch_shape + p.event_shape == whole
    if p.has_rsample:
        assert p.rsample((2,)).shape == (2,) + whole


REFUSED: list[Any] = [
    (lambda: D.Normal(0.0, -1.0),
     "Normal: 'scale' must satisfy greater_than(lower_bound=0.0) (got -1.0 in f32[] cpu)"),
    (lambda: D.Normal("0", 1.0), "broadcast_all: 'values' must be Tensors or numbers (got '0')"),
    (lambda: D.Uniform(1.0, 0.0),
     "Uniform: 'low' must satisfy less_than(upper_bound=0.0) (got 1.0 in f32[] cpu)"),
    (lambda: D.Bernoulli(1.5),
     "Bernoulli: 'probs' must satisfy interval(lower_bound=0.0, upper_bound=1.0) (got 1.5 in "
     "f32[] cpu)"),
    (lambda: D.Bernoulli(),
     "Bernoulli: 'probs' must be given, or 'logits', but not both (got neither)"),
    (lambda: D.Geometric(0.0),
     "Geometric: 'probs' must satisfy greater_than(lower_bound=0.0) (got 0.0 in f32[] cpu)"),
    (lambda: D.Categorical(t(0.5, -0.5, 1.0)),
     "Categorical: 'probs' must satisfy Simplex() (got f64[3] cpu)"),
    (lambda: D.Categorical(0.5),
     "Categorical: 'probs' must be a Tensor of at least one dimension (got 0.5)"),
    (lambda: D.Dirichlet(t(0.5, -0.5)),
     "Dirichlet: 'concentration' must satisfy independent(greater_than(lower_bound=0.0), 1) "
     "(got f64[2] cpu)"),
    (lambda: D.Multinomial(2.5, t(0.5, 0.5)),
     "Multinomial: 'total_count' must be an int (got 2.5)"),
    (lambda: D.MultivariateNormal(t(0.0)),
     "MultivariateNormal: 'covariance_matrix' must be given, or 'precision_matrix' or "
     "'scale_tril', and only one of them (got none)"),
    (lambda: D.MultivariateNormal(t(0.0, 0.0), t([1.0, 2.0], [2.0, 1.0])),
     "MultivariateNormal: 'covariance_matrix' must satisfy PositiveDefinite() (got f64[2,2] "
     "cpu)"),
    (lambda: D.Wishart(0.5, t(*COV)), "Wishart: 'df' must be above 1 (got f64[] cpu)"),
    (
        lambda: D.MultivariateNormal(t(0.0), t(*COV)),
        "MultivariateNormal: 'covariance_matrix' must be matrices of 1 x 1 (got f64[2,2] cpu)",
    ),
    (lambda: D.Chi2("3"), "broadcast_all: 'values' must be Tensors or numbers (got '3')"),
    (
        lambda: D.Independent(t(0.0), 1),
        "Independent: 'base_distribution' must be a Distribution (got f64[1] cpu)",
    ),
    (lambda: D.LKJCholesky(1), "LKJCholesky: 'dim' must be an int of at least 2 (got 1)"),
    (lambda: D.Independent(D.Normal(0.0, 1.0), 1),
     "Independent: 'reinterpreted_batch_ndims' must be in [0, 0] (got 1)"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), "exp"),
     "TransformedDistribution: 'transforms' must be a Transform or a list of them (got 'exp')"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.SoftmaxTransform()),
     "TransformedDistribution: 'base_distribution' must have batch and event of at least 1 "
     "dimensions (got gputensor.Size([]))"),
    (lambda: D.MixtureSameFamily(D.Categorical(t(0.5, 0.5)), D.Normal(t(0.0), t(1.0))),
     "MixtureSameFamily: 'component_distribution' must have a batch (*, 2) (got "
     "gputensor.Size([1]))"),
    (lambda: D.Gamma(1.0, 1.0).log_prob(t(-1.0)),
     "Gamma: 'value' must lie in the support, greater_than_eq(lower_bound=0.0) (got -1.0 in "
     "f64[1] cpu)"),
    (lambda: D.Normal(t(0.0, 1.0), 1.0).log_prob(t(0.0, 0.0, 0.0)),
     "Normal: 'value' must broadcast with gputensor.Size([2]) (got f64[3] cpu)"),
    (lambda: D.Normal(0.0, 1.0).log_prob(0.5), "Normal: 'value' must be a Tensor (got 0.5)"),
    (lambda: D.OneHotCategorical(t(0.5, 0.5)).log_prob(t(1.0)),
     "OneHotCategorical: 'value' must end in the event's shape, gputensor.Size([2]) (got "
     "f64[1] cpu)"),
    (lambda: D.ExpTransform(cache_size=2), "ExpTransform: 'cache_size' must be 0 or 1 (got 2)"),
    (lambda: D.ReshapeTransform((2,), (3,)),
     "ReshapeTransform: 'out_shape' must have 2 elements (got (3,))"),
    (lambda: D.constraints.independent(D.constraints.real, -1),
     "independent: 'reinterpreted_batch_ndims' must be an int of at least 0 (got -1)"),
    (lambda: D.utils.vec_to_tril_matrix(t(1.0, 2.0)),
     "vec_to_tril_matrix: 'vec' must fill the triangle of a square matrix (got f64[2] cpu)"),
]  # fmt: skip


@pytest.mark.parametrize("call, sentence", REFUSED)
def test_bad_input_is_refused_in_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(errors.ArgumentValueError) as caught:
        call()
    assert str(caught.value) == sentence


@pytest.mark.parametrize("call, sentence", [
    (lambda: D.Poisson(1.0).rsample(), "Poisson: has no rsample"),
    (lambda: D.Beta(1.0, 1.0).cdf(t(0.5)), "Beta: has no cdf"),
    (lambda: D.kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0)),
     "kl_divergence: no closed form for Cauchy and Normal"),
    (lambda: D.biject_to(D.constraints.boolean),
     "constraint_registry: no transform leads to Boolean()"),
    (lambda: D.Binomial(t(2.0, 3.0), 0.5).entropy(),
     "Binomial: has no common support: its total_count varies"),
])  # fmt: skip
def test_what_a_class_lacks_is_said(call: Any, sentence: str) -> None:
    with pytest.raises(NotImplementedError) as caught:
        call()
    assert isinstance(caught.value, errors.AbsentError) and str(caught.value) == sentence


@pytest.mark.parametrize("call", [D.Normal(0.0, 1.0).sample, D.Categorical(t(1.0)).sample])
@pytest.mark.parametrize("shape, got", [(3, "3"), ((2.5,), "(2.5,)"), ([-1], "[-1]")])
def test_sizes_are_a_sequence(call: Any, shape: Any, got: str) -> None:
    with pytest.raises(errors.ArgumentTypeError) as caught:
        call(shape)
    assert str(caught.value).endswith(f": 'sample_shape' must be a sequence of sizes (got {got})")


@pytest.mark.parametrize("make", [
    lambda p: D.Gamma(p, 1.0, False), lambda p: D.Chi2(p, False),
    lambda p: D.VonMises(0.0, p, False), lambda p: D.Binomial(p, 0.5, validate_args=False),
])  # fmt: skip
def test_samples_of_unchecked_parameters_end(make: Any) -> None:
    drawn = make(t(math.nan, math.inf, -1.0, 2.0)).sample((3,))
    assert drawn.shape == (3, 4) and not drawn[:, 3].isnan().any()
    assert make(t()).sample((3,)).shape == (3, 0)


@pytest.mark.parametrize("make", [
    lambda p: D.Poisson(p, False), lambda p: D.NegativeBinomial(p, 0.5, validate_args=False),
])  # fmt: skip
def test_rates_below_zero_are_refused_unchecked_too(make: Any) -> None:
    for wrong in (math.nan, -1.0):
        with pytest.raises(errors.ArgumentError, match="poisson: 'input' must hold rates"):
            make(t(wrong, 2.0)).sample((3,))
    assert make(t()).sample((3,)).shape == (3, 0)


def test_icdf_takes_numbers() -> None:
    assert D.Normal(1.0, 2.0).icdf(0.5) == 1.0 and D.Uniform(0.0, 2.0).icdf(0.5) == 1.0


def test_checks_can_be_left_out() -> None:
    assert D.Normal(0.0, -1.0, validate_args=False).scale == -1.0
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Exponential(1.0).log_prob(t(-1.0)) == 1.0
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(errors.ArgumentValueError, match="'value' must be a bool"):
        D.Distribution.set_default_validate_args(2)


def on(device: str, p: Any) -> Any:
    """Return a copy of a distribution with all its tensors, and those of its parts, on `device`."""
    made = type(p).__new__(type(p))
    for name, value in vars(p).items():
        if isinstance(value, gt.Tensor):
            value = value.to(device)
        elif isinstance(value, D.Distribution):
            value = on(device, value)
        setattr(made, name, value)
    return made


@pytest.mark.gputensor_cuda
@pytest.mark.full
@pytest.mark.parametrize("p", [
    D.Normal(t(0.5, -1.0), t(1.0, 2.5)), D.Gamma(t(0.05, 4.0), t(2.0)), D.Beta(t(0.2), t(3.0)),
    D.Binomial(t(3.0, 1000.0), t(0.3, 0.6)), D.Poisson(t(0.0, 400.0)), D.VonMises(t(0.5), t(4.0)),
    D.Multinomial(5, t(0.2, 0.5, 0.3)), D.MultivariateNormal(t(1.0, 2.0), t(*COV)),
    D.MixtureSameFamily(D.Categorical(t(0.3, 0.7)), D.Normal(t(-2.0, 1.0), t(1.0, 0.5))),
], ids=lambda p: type(p).__name__)  # fmt: skip
def test_samples_and_densities_on_cuda(p: Any) -> None:
    q = on("cuda", p)
    x = q.rsample((40,)) if q.has_rsample else q.sample((40,))
    assert x.device.type == "cuda" and q.support.check(x).all()
    gt.testing.assert_close(q.log_prob(x).cpu(), p.log_prob(x.cpu()))


@pytest.mark.parametrize("p", [
    *[D.Poisson(t(rate)) for rate in (0.2, 9.99, 10.0, 35.0)],
    *[D.Binomial(t(n), t(p)) for n, p in ((4, 0.5), (30, 0.33), (30, 0.34), (80, 0.9), (300, 0.5))],
], ids=str)  # fmt: skip
def test_counts_are_as_frequent_as_their_densities_say(p: Any) -> None:
    """Checks the sum of squared deviations divided by expectations. Its mean is 1, and 2 is too
    improbable to occur."""
    gt.manual_seed(5)
    count = 200_000
    found = gt.bincount(p.sample((count,)).reshape(-1).to(gt.int64), minlength=400)
    support = gt.arange(400.0, dtype=gt.float64)
    if isinstance(p, D.Binomial):
        assert found[int(p.total_count.item()) + 1 :].sum().item() == 0
        support = support.clamp(max=p.total_count)
        found = found[: int(p.total_count.item()) + 1]
    expected = (p.log_prob(support).exp() * count)[: found.numel()]
    off = ((found - expected).square() / expected)[expected > 20]
    assert off.numel() > 2 and off.mean().item() < 2


def test_divergences_of_batches_of_matrices_keep_the_batch() -> None:
    matrix, df = t(*COV), t(3.5, 4.5)
    p, q = D.Wishart(df, matrix), D.Wishart(t(5.0), 2 * matrix)
    alone = [D.kl_divergence(D.Wishart(d, matrix), q) for d in df]
    gt.testing.assert_close(D.kl_divergence(p, q), gt.cat(alone))


def test_divergences_are_finite_where_supports_are_equal() -> None:
    p, q = D.ContinuousBernoulli(t(0.3)), D.Uniform(t(0.0), t(1.0))
    gt.testing.assert_close(D.kl_divergence(p, q), -p.entropy())
    x = (gt.arange(4000, dtype=gt.float64) + 0.5) / 4000
    gt.testing.assert_close(D.kl_divergence(q, p), -p.log_prob(x).mean().reshape(1))


def test_a_cached_transform_returns_the_very_input() -> None:
    f, x = D.SigmoidTransform(cache_size=1), t(30.0)
    assert f.inv(f(x)) is x and f.inv.inv is f and f.with_cache(0).inv(f(x)) is not x


def test_a_class_of_ones_own_has_divergences_and_expands() -> None:
    class Shifted(D.Normal):
        pass

    p, q = Shifted(t(1.0), t(2.0)), D.Normal(t(0.0), t(1.0))
    assert D.kl_divergence(p, q) == D.kl_divergence(D.Normal(t(1.0), t(2.0)), q)
    assert type(p.expand((3,))) is Shifted

    @D.register_kl(Shifted, D.Normal)
    def divergence(p: Any, q: Any) -> str:
        return "found"

    try:
        assert D.kl_divergence(p, q) == "found"
    finally:
        del D.kl._registry[Shifted, D.Normal]
        D.kl._found.clear()


def test_the_package_is_imported_when_it_is_named() -> None:
    text = "import sys, gputensor as gt; a = 'gputensor.distributions' in sys.modules; "
    text += "gt.distributions.Normal; print(a, 'gputensor.distributions' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
