"""gt.distributions against torch.distributions: densities, moments, divergences, transforms."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore:Singular sample", "ignore:Low df values"),  # PyTorch's
]


class Library:
    """One of the two libraries: `D`, and `t`, which makes leaves and stores them."""

    def __init__(self, module: Any, dtype: str = "float64") -> None:
        self.module, self.D, self.dtype = module, module.distributions, getattr(module, dtype)
        self.leaves: list[Any] = []

    def t(self, values: Any) -> Any:
        x = self.plain(values).requires_grad_()
        self.leaves.append(x)
        return x

    def plain(self, values: Any) -> Any:
        return self.module.tensor(values, dtype=self.dtype)


COV = [[2.0, 0.5], [0.5, 1.0]]
TRIL = [[1.5, 0.0], [-0.3, 0.8]]
REAL, POSITIVE, UNIT = [[-1.5], [0.3], [2.0]], [[0.2], [1.5], [3.0]], [[0.1], [0.5], [0.9]]
COUNTS = [[0.0], [1.0], [3.0]]
SIMPLEX = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]
ONE_HOT = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
P3 = [[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]]
Make = Callable[[Library], Any]
CASES: dict[str, tuple[Make, Any]] = {
    "Normal": (lambda L: L.D.Normal(L.t([0.5, -1.0]), L.t([1.0, 2.5])), REAL),
    "Normal numbers": (lambda L: L.D.Normal(0.5, L.t(2.0)), [0.5, -1.0]),
    "Laplace": (lambda L: L.D.Laplace(L.t([0.5, -1.0]), L.t([1.0, 2.5])), REAL),
    "Cauchy": (lambda L: L.D.Cauchy(L.t([0.5, -1.0]), L.t([1.0, 2.5])), REAL),
    "Gumbel": (lambda L: L.D.Gumbel(L.t([0.5, -1.0]), L.t([1.0, 2.5])), REAL),
    "Uniform": (lambda L: L.D.Uniform(L.t([-2.0, -3.0]), L.t([2.5, 4.0])), REAL),
    "StudentT": (
        lambda L: L.D.StudentT(L.t([0.7, 1.5, 4.0]), L.t(0.3), L.t([1.0, 2.0, 0.5])),
        REAL,
    ),
    "VonMises": (lambda L: L.D.VonMises(L.t([0.5, -1.0]), L.t([0.7, 9.0])), REAL),
    "GeneralizedPareto": (
        lambda L: L.D.GeneralizedPareto(L.t(0.1), L.t([1.0, 2.0, 0.5]), L.t([0.0, 0.4, 2.0])),
        POSITIVE,
    ),
    "HalfNormal": (lambda L: L.D.HalfNormal(L.t([1.0, 2.5])), POSITIVE),
    "HalfCauchy": (lambda L: L.D.HalfCauchy(L.t([1.0, 2.5])), POSITIVE),
    "LogNormal": (lambda L: L.D.LogNormal(L.t([0.5, -1.0]), L.t([1.0, 0.5])), POSITIVE),
    "LogisticNormal": (lambda L: L.D.LogisticNormal(L.t([0.5, -1.0]), L.t([1.0, 0.5])), SIMPLEX),
    "Exponential": (lambda L: L.D.Exponential(L.t([0.5, 3.0])), POSITIVE),
    "Gamma": (lambda L: L.D.Gamma(L.t([0.5, 3.0]), L.t([1.5, 0.7])), POSITIVE),
    "Chi2": (lambda L: L.D.Chi2(L.t([0.5, 3.0])), POSITIVE),
    "InverseGamma": (lambda L: L.D.InverseGamma(L.t([0.5, 3.0]), L.t([1.5, 0.7])), POSITIVE),
    "FisherSnedecor": (lambda L: L.D.FisherSnedecor(L.t([1.5, 3.0]), L.t([1.5, 5.0])), POSITIVE),
    "Pareto": (lambda L: L.D.Pareto(L.t([0.1, 0.2]), L.t([1.5, 3.0])), POSITIVE),
    "Weibull": (lambda L: L.D.Weibull(L.t([1.5, 0.7]), L.t([1.5, 3.0])), POSITIVE),
    "Beta": (lambda L: L.D.Beta(L.t([0.5, 3.0]), L.t([1.5, 0.7])), UNIT),
    "Kumaraswamy": (lambda L: L.D.Kumaraswamy(L.t([0.5, 3.0]), L.t([1.5, 1.7])), UNIT),
    "ContinuousBernoulli": (lambda L: L.D.ContinuousBernoulli(L.t([0.1, 0.5, 0.7])), UNIT),
    "ContinuousBernoulli logits": (
        lambda L: L.D.ContinuousBernoulli(logits=L.t([0.1, -2.0])),
        UNIT,
    ),
    "Dirichlet": (lambda L: L.D.Dirichlet(L.t([[0.5, 2.0, 3.0], [0.5, 0.2, 0.3]])), SIMPLEX),
    "Bernoulli": (lambda L: L.D.Bernoulli(L.t([0.1, 0.5, 0.7])), [[0.0], [1.0]]),
    "Bernoulli logits": (lambda L: L.D.Bernoulli(logits=L.t([0.1, -2.0])), [[0.0], [1.0]]),
    "Geometric": (lambda L: L.D.Geometric(L.t([0.1, 0.7])), COUNTS),
    "Geometric logits": (lambda L: L.D.Geometric(logits=L.t([0.1, 0.7])), COUNTS),
    "Binomial": (lambda L: L.D.Binomial(5, L.t([0.1, 0.7])), COUNTS),
    "Binomial logits": (lambda L: L.D.Binomial(5, logits=L.t([0.1, 0.0])), COUNTS),
    "NegativeBinomial": (lambda L: L.D.NegativeBinomial(L.t([5.0, 2.5]), L.t([0.1, 0.7])), COUNTS),
    "Poisson": (lambda L: L.D.Poisson(L.t([0.5, 3.2])), COUNTS),
    "Categorical": (lambda L: L.D.Categorical(L.t(P3)), [[0], [2], [1]]),
    "Categorical logits": (lambda L: L.D.Categorical(logits=L.t(P3)), [[0], [2], [1]]),
    "OneHotCategorical": (lambda L: L.D.OneHotCategorical(L.t(P3)), ONE_HOT),
    "OneHotCategoricalStraightThrough": (
        lambda L: L.D.OneHotCategoricalStraightThrough(logits=L.t(P3)),
        ONE_HOT,
    ),
    "Multinomial": (lambda L: L.D.Multinomial(4, L.t(P3)), [[1.0, 1.0, 2.0], [0.0, 4.0, 0.0]]),
    "RelaxedBernoulli": (lambda L: L.D.RelaxedBernoulli(L.t(0.7), L.t([0.1, 0.7])), UNIT),
    "RelaxedOneHotCategorical": (
        lambda L: L.D.RelaxedOneHotCategorical(L.t(0.7), logits=L.t(P3)),
        SIMPLEX,
    ),
    "MultivariateNormal": (
        lambda L: L.D.MultivariateNormal(L.t([[0.5, -1.0], [0.0, 1.0]]), L.t(COV)),
        [[[0.1, 0.2]], [[1.0, -2.0]]],
    ),
    "MultivariateNormal tril": (
        lambda L: L.D.MultivariateNormal(L.t([0.5, -1.0]), scale_tril=L.t([TRIL, TRIL])),
        [[[0.1, 0.2]], [[1.0, -2.0]]],
    ),
    "MultivariateNormal precision": (
        lambda L: L.D.MultivariateNormal(L.t([0.5, -1.0]), precision_matrix=L.t(COV)),
        [[0.1, 0.2], [1.0, -2.0]],
    ),
    "LowRankMultivariateNormal": (
        lambda L: L.D.LowRankMultivariateNormal(
            L.t([0.5, -1.0]), L.t([[[1.0], [0.5]]]), L.t([0.3, 0.7])
        ),
        [[[0.1, 0.2]], [[1.0, -2.0]]],
    ),
    "Wishart": (
        lambda L: L.D.Wishart(L.t([3.5, 2.5]), L.t(COV)),
        [[COV], [[[1.0, 0.2], [0.2, 3.0]]]],
    ),
    "Wishart tril": (lambda L: L.D.Wishart(L.t(3.5), scale_tril=L.t(TRIL)), [COV]),
    "LKJCholesky": (
        lambda L: L.D.LKJCholesky(3, L.t([0.5, 2.0])),
        [[[1.0, 0, 0], [0.6, 0.8, 0], [0.0, 0.6, 0.8]]],
    ),
    "Independent": (
        lambda L: L.D.Independent(L.D.Normal(L.t([[0.5, -1.0]]), L.t([[1.0, 2.5]])), 1),
        [[0.1, 0.2], [1.0, -2.0]],
    ),
    "TransformedDistribution": (
        lambda L: L.D.TransformedDistribution(
            L.D.Normal(L.t([0.5, -1.0]), L.t([1.0, 2.5])),
            [L.D.AffineTransform(L.t(0.5), -2.0), L.D.SigmoidTransform()],
        ),
        UNIT,
    ),
    "MixtureSameFamily": (
        lambda L: L.D.MixtureSameFamily(
            L.D.Categorical(L.t([0.3, 0.7])), L.D.Normal(L.t([0.5, -1.0]), L.t([1.0, 2.5]))
        ),
        [-1.0, 0.5],
    ),
    "MixtureSameFamily of vectors": (
        lambda L: L.D.MixtureSameFamily(
            L.D.Categorical(L.t([0.3, 0.7])),
            L.D.Independent(L.D.Laplace(L.t([[0.5, -1.0], [2.0, 1.0]]), L.t([1.0, 2.5])), 1),
        ),
        [[0.1, 0.2], [1.0, -2.0]],
    ),
}
# PyTorch computes with a float32 constant: GeneralizedPareto fails in float64, the entropy of
# Multinomial is rounded.
SINGLE = {"GeneralizedPareto", "Multinomial"}


def name_of(dtype: Any) -> str:
    return str(dtype).partition(".")[2]


def same(ours: Any, theirs: Any, rtol: float = 1e-9) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert name_of(ours.dtype) == name_of(theirs.dtype)
    expected = gt.from_numpy(theirs.detach().numpy().copy())
    is_single = expected.dtype == gt.float32
    rtol, atol = (max(rtol, 1e-5), 1e-5) if is_single else (rtol, 1e-12)
    gt.testing.assert_close(ours.detach(), expected, rtol=rtol, atol=atol, equal_nan=True)


def both(name: str) -> tuple[Library, Any, Library, Any]:
    dtype = "float32" if name in SINGLE else "float64"
    ours, theirs = Library(gt, dtype), Library(torch, dtype)
    make = CASES[name][0]
    return ours, make(ours), theirs, make(theirs)


def outcome(compute: Callable[[], Any]) -> Any:
    """Return a value, or NotImplementedError; PyTorch raises AttributeError if a base lacks a
    method."""
    try:
        return compute()
    except (NotImplementedError, AttributeError):
        return NotImplementedError


def agree(ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
    a, b = outcome(ours), outcome(theirs)
    if b is NotImplementedError:
        assert a is NotImplementedError
    else:
        same(a, b)


@pytest.mark.parametrize("name", CASES)
def test_densities_and_their_gradients(name: str) -> None:
    L, p, T, q = both(name)
    values = CASES[name][1]
    ours, theirs = p.log_prob(L.plain(values)), q.log_prob(T.plain(values))
    same(ours, theirs)
    assert len(L.leaves) == len(T.leaves)
    ours.sum().backward()
    theirs.sum().backward()
    for a, b in zip(L.leaves, T.leaves):
        if b.grad is not None:
            is_triangle = name == "Wishart tril"  # above the bound PyTorch's gradient is not 0
            same(*(x.grad.tril() if is_triangle and x.dim() else x.grad for x in (a, b)), rtol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_shapes_moments_and_entropy(name: str) -> None:
    _, p, _, q = both(name)
    assert tuple(p.batch_shape) == tuple(q.batch_shape)
    assert tuple(p.event_shape) == tuple(q.event_shape)
    assert (p.has_rsample, p.has_enumerate_support) == (q.has_rsample, q.has_enumerate_support)
    for what in ("mean", "variance", "stddev", "mode"):
        agree(lambda: getattr(p, what), lambda: getattr(q, what))
    for method in ("entropy", "perplexity", "enumerate_support"):
        agree(lambda: getattr(p, method)(), lambda: getattr(q, method)())
    if q.has_enumerate_support:
        agree(lambda: p.enumerate_support(False), lambda: q.enumerate_support(False))
    for sample_shape in ((), (4,), (2, 3)):
        assert tuple(p.sample(sample_shape).shape) == tuple(q.sample(sample_shape).shape)
        assert name_of(p.sample().dtype) == name_of(q.sample().dtype)


@pytest.mark.parametrize("name", CASES)
def test_cdf_and_its_inverse(name: str) -> None:
    L, p, T, q = both(name)
    values = CASES[name][1]
    agree(lambda: p.cdf(L.plain(values)), lambda: q.cdf(T.plain(values)))
    if not q.event_shape:
        agree(lambda: p.icdf(L.plain(UNIT)), lambda: q.icdf(T.plain(UNIT)))


@pytest.mark.parametrize("name", CASES)
def test_the_support(name: str) -> None:
    L, p, T, q = both(name)
    values = CASES[name][1]
    for scale in (1.0, -1.5, 0.0, math.nan):
        agree(lambda: p.support.check(L.plain(values) * scale),
              lambda: q.support.check(T.plain(values) * scale))  # fmt: skip
    assert p.support.event_dim == q.support.event_dim
    assert p.support.is_discrete == q.support.is_discrete
    assert set(p.arg_constraints) == set(q.arg_constraints)


@pytest.mark.parametrize("name", CASES)
def test_expanded(name: str) -> None:
    L, p, T, q = both(name)
    values = CASES[name][1]
    shape = (3, *q.batch_shape)
    p, q = p.expand(shape), q.expand(shape)
    assert tuple(p.batch_shape) == tuple(q.batch_shape) and type(p).__name__ == type(q).__name__
    assert tuple(p.sample((5,)).shape) == tuple(q.sample((5,)).shape)
    for what in ("mean", "variance"):
        agree(lambda: getattr(p, what), lambda: getattr(q, what))
    if name != "Multinomial":  # PyTorch's entropy loses precision for it
        agree(lambda: p.entropy(), lambda: q.entropy())
    if len(values) == 1 or not q.batch_shape:
        agree(lambda: p.log_prob(L.plain(values[:1])), lambda: q.log_prob(T.plain(values[:1])))


# Parameters of p and q for each pair of classes; PyTorch's whole registry is compared.
PAIRED: dict[str, tuple[Make, Make]] = {
    "Bernoulli": (
        lambda L: L.D.Bernoulli(L.t([0.1, 0.6, 0.0])),
        lambda L: L.D.Bernoulli(L.t([0.3, 0.0, 1.0])),
    ),
    "Beta": (
        lambda L: L.D.Beta(L.t([0.5, 3.0]), L.t([1.5, 0.7])),
        lambda L: L.D.Beta(L.t([1.5, 2.0]), L.t([0.5, 1.7])),
    ),
    "Binomial": (
        lambda L: L.D.Binomial(L.t([5.0, 6.0]), L.t([0.1, 0.7])),
        lambda L: L.D.Binomial(L.t([5.0, 4.0]), L.t([0.3, 0.2])),
    ),
    "Categorical": (
        lambda L: L.D.Categorical(L.t([[0.2, 0.8, 0.0], [0.5, 0.3, 0.2]])),
        lambda L: L.D.Categorical(L.t([[0.5, 0.3, 0.2], [0.0, 0.6, 0.4]])),
    ),
    "OneHotCategorical": (
        lambda L: L.D.OneHotCategorical(L.t(P3)),
        lambda L: L.D.OneHotCategorical(logits=L.t(P3)),
    ),
    "Cauchy": (
        lambda L: L.D.Cauchy(L.t([0.5, -1.0]), L.t([1.0, 2.5])),
        lambda L: L.D.Cauchy(L.t([1.5, 0.0]), L.t([0.7, 3.0])),
    ),
    "ContinuousBernoulli": (
        lambda L: L.D.ContinuousBernoulli(L.t([0.1, 0.5])),
        lambda L: L.D.ContinuousBernoulli(L.t([0.3, 0.8])),
    ),
    "Dirichlet": (
        lambda L: L.D.Dirichlet(L.t([0.5, 2.0, 3.0])),
        lambda L: L.D.Dirichlet(L.t([1.5, 0.2, 0.3])),
    ),
    "Exponential": (
        lambda L: L.D.Exponential(L.t([0.5, 3.0])),
        lambda L: L.D.Exponential(L.t([1.5, 2.0])),
    ),
    "Gamma": (
        lambda L: L.D.Gamma(L.t([0.5, 3.0]), L.t([1.5, 0.7])),
        lambda L: L.D.Gamma(L.t([1.5, 2.0]), L.t([0.5, 1.7])),
    ),
    "Geometric": (
        lambda L: L.D.Geometric(L.t([0.1, 0.7])),
        lambda L: L.D.Geometric(L.t([0.3, 0.2])),
    ),
    "Gumbel": (
        lambda L: L.D.Gumbel(L.t([0.5, -1.0]), L.t([1.0, 2.5])),
        lambda L: L.D.Gumbel(L.t([1.5, 0.0]), L.t([0.7, 3.0])),
    ),
    "HalfNormal": (
        lambda L: L.D.HalfNormal(L.t([1.0, 2.5])),
        lambda L: L.D.HalfNormal(L.t([0.7, 3.0])),
    ),
    "Independent": (
        lambda L: L.D.Independent(L.D.Normal(L.t([[0.5, -1.0]]), 1.0), 1),
        lambda L: L.D.Independent(L.D.Normal(L.t([[1.5, 0.0]]), 2.0), 1),
    ),
    "Laplace": (
        lambda L: L.D.Laplace(L.t([0.5, -1.0]), L.t([1.0, 2.5])),
        lambda L: L.D.Laplace(L.t([1.5, 0.0]), L.t([0.7, 3.0])),
    ),
    "LowRankMultivariateNormal": (
        lambda L: L.D.LowRankMultivariateNormal(
            L.t([[0.5, -1.0]]), L.t([[1.0], [0.5]]), L.t([0.3, 0.7])
        ),
        lambda L: L.D.LowRankMultivariateNormal(
            L.t([[1.5, 0.0], [0.0, 1.0]]), L.t([[0.2], [0.8]]), L.t([0.9, 0.4])
        ),
    ),
    "MultivariateNormal": (
        lambda L: L.D.MultivariateNormal(L.t([0.5, -1.0]), L.t(COV)),
        lambda L: L.D.MultivariateNormal(L.t([[1.5, 0.0], [0.0, 1.0]]), scale_tril=L.t(TRIL)),
    ),
    "Normal": (
        lambda L: L.D.Normal(L.t([0.5, -1.0]), L.t([1.0, 2.5])),
        lambda L: L.D.Normal(L.t([1.5, 0.0]), L.t([0.7, 3.0])),
    ),
    "Pareto": (
        lambda L: L.D.Pareto(L.t([0.5, 1.0]), L.t([2.5, 3.0])),
        lambda L: L.D.Pareto(L.t([0.2, 2.0]), L.t([0.7, 3.0])),
    ),
    "Poisson": (lambda L: L.D.Poisson(L.t([0.5, 3.0])), lambda L: L.D.Poisson(L.t([1.5, 2.0]))),
    "TransformedDistribution": (
        lambda L: L.D.LogNormal(L.t([0.5, -1.0]), 1.0),
        lambda L: L.D.LogNormal(L.t([1.5, 0.0]), 2.0),
    ),
    "Uniform": (
        lambda L: L.D.Uniform(L.t([0.5, -1.0]), L.t([0.9, 0.7])),
        lambda L: L.D.Uniform(L.t([-0.5, -2.0]), L.t([2.0, 0.6])),
    ),
    "ExponentialFamily": (
        lambda L: L.D.Wishart(L.t(3.5), L.t(COV)),
        lambda L: L.D.Wishart(L.t(4.5), scale_tril=L.t(TRIL)),
    ),
}
PAIRS = sorted((p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY)
# The first parameter of Poisson broadcasts with Bernoulli's.
SIZES = {("Bernoulli", "Poisson"), ("Poisson", "Bernoulli")}


def test_classes_are_where_pytorch_has_them() -> None:
    places = {p.stem for p in Path(torch.distributions.__file__).parent.glob("*.py")} - {"__init__"}
    for place in places:
        theirs = importlib.import_module(f"torch.distributions.{place}")
        ours = importlib.import_module(f"gputensor.distributions.{place}")
        for name in theirs.__all__:
            assert getattr(ours, name), f"{place}.{name}"


def test_the_pairs_are_pytorchs() -> None:
    from gputensor.distributions import kl

    assert sorted((p.__name__, q.__name__) for p, q in kl._registry) == PAIRS


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_divergences(names: tuple[str, str]) -> None:
    results = []
    for L in (Library(gt), Library(torch)):
        p, q = PAIRED[names[0]][0](L), PAIRED[names[1]][1](L)
        if names in SIZES:
            p, q = type(p)(L.t([0.1, 0.7])), type(q)(L.t([0.2, 0.9]))
        results.append(L.D.kl_divergence(p, q))
    same(*results, rtol=1e-7)


TRANSFORMS: dict[str, tuple[Make, Any]] = {
    "Abs": (lambda L: L.D.AbsTransform(), [[-1.0, 2.0]]),
    "Affine": (lambda L: L.D.AffineTransform(L.t([0.5, 1.0]), L.t([-2.0, 3.0])), [[-1.0, 2.0]]),
    "Affine of vectors": (lambda L: L.D.AffineTransform(0.5, -2.0, event_dim=1), [[-1.0, 2.0]]),
    "Cat": (
        lambda L: L.D.CatTransform([L.D.ExpTransform(), L.D.TanhTransform()], 1, [1, 2]),
        [[-1.0, 2.0, 0.5]],
    ),
    "Compose": (
        lambda L: L.D.ComposeTransform(
            [L.D.AffineTransform(0.5, 2.0), L.D.StickBreakingTransform()]
        ),
        [[-1.0, 2.0]],
    ),
    "CorrCholesky": (lambda L: L.D.CorrCholeskyTransform(), [[-1.0, 2.0, 0.3], [0.1, 0.2, 0.3]]),
    "CumulativeDistribution": (
        lambda L: L.D.CumulativeDistributionTransform(L.D.Normal(L.t(0.5), L.t(2.0))),
        [[-1.0, 2.0]],
    ),
    "Exp": (lambda L: L.D.ExpTransform(), [[-1.0, 2.0]]),
    "Exp inverse": (lambda L: L.D.ExpTransform().inv, [[1.0, 2.0]]),
    "Independent": (lambda L: L.D.IndependentTransform(L.D.ExpTransform(), 1), [[-1.0, 2.0]]),
    "LowerCholesky": (lambda L: L.D.LowerCholeskyTransform(), [[[-1.0, 0.0], [0.5, 0.3]]]),
    "PositiveDefinite": (lambda L: L.D.PositiveDefiniteTransform(), [[[-1.0, 0.0], [0.5, 0.3]]]),
    "Power": (lambda L: L.D.PowerTransform(L.t([0.5, -2.0])), [[1.0, 2.0]]),
    "Reshape": (lambda L: L.D.ReshapeTransform((2, 2), (4,)), [[[-1.0, 0.0], [0.5, 0.3]]]),
    "Sigmoid": (lambda L: L.D.SigmoidTransform(), [[-1.0, 2.0]]),
    "Softmax": (lambda L: L.D.SoftmaxTransform(), [[-1.0, 2.0, 0.0]]),
    "Softplus": (lambda L: L.D.SoftplusTransform(), [[-1.0, 2.0]]),
    "Stack": (
        lambda L: L.D.StackTransform([L.D.ExpTransform(), L.D.SigmoidTransform()], 1),
        [[-1.0, 2.0], [0.0, 1.0]],
    ),
    "StickBreaking": (lambda L: L.D.StickBreakingTransform(), [[-1.0, 2.0], [0.0, 0.5]]),
    "Tanh": (lambda L: L.D.TanhTransform(), [[-1.0, 2.0]]),
    "identity": (lambda L: L.D.identity_transform, [[-1.0, 2.0]]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    make, values = TRANSFORMS[name]
    L, T = Library(gt), Library(torch)
    f, g = make(L), make(T)
    x, u = L.t(values), T.t(values)
    y, v = f(x), g(u)
    same(y, v)
    same(f.inv(y), g.inv(v))
    agree(lambda: f.log_abs_det_jacobian(x, y), lambda: g.log_abs_det_jacobian(u, v))
    y.sum().backward()
    v.sum().backward()
    same(x.grad, u.grad, rtol=1e-7)
    assert tuple(f.forward_shape(x.shape)) == tuple(g.forward_shape(u.shape)) == tuple(y.shape)
    assert tuple(f.inverse_shape(y.shape)) == tuple(g.inverse_shape(v.shape))
    for region in ("domain", "codomain"):
        assert getattr(f, region).event_dim == getattr(g, region).event_dim
    assert f.bijective == g.bijective
    cached = f.with_cache(1)
    same(cached.inv(cached(x)), u)


CONSTRAINTS: dict[str, tuple[Make, Any]] = {
    "real": (lambda L: L.D.constraints.real, [0.5, -1.0]),
    "real_vector": (lambda L: L.D.constraints.real_vector, [0.5, -1.0]),
    "positive": (lambda L: L.D.constraints.positive, [0.5, -1.0]),
    "greater_than": (lambda L: L.D.constraints.greater_than(0.7), [0.5, -1.0]),
    "greater_than_eq": (lambda L: L.D.constraints.greater_than_eq(0.7), [0.5, -1.0]),
    "less_than": (lambda L: L.D.constraints.less_than(0.7), [0.5, -1.0]),
    "unit_interval": (lambda L: L.D.constraints.unit_interval, [0.5, -1.0]),
    "interval": (lambda L: L.D.constraints.interval(-1.0, 3.0), [0.5, -1.0]),
    "half_open_interval": (lambda L: L.D.constraints.half_open_interval(-1.0, 3.0), [0.5, -1.0]),
    "simplex": (lambda L: L.D.constraints.simplex, [0.5, -1.0]),
    "lower_cholesky": (lambda L: L.D.constraints.lower_cholesky, COV),
    "positive_definite": (lambda L: L.D.constraints.positive_definite, COV),
    "positive_semidefinite": (lambda L: L.D.constraints.positive_semidefinite, COV),
    "corr_cholesky": (lambda L: L.D.constraints.corr_cholesky, [0.5, -1.0, 0.1]),
    "cat": (
        lambda L: L.D.constraints.cat(
            [L.D.constraints.positive, L.D.constraints.unit_interval], -1, [1, 2]
        ),
        [0.5, -1.0, 0.1],
    ),
    "stack": (
        lambda L: L.D.constraints.stack([L.D.constraints.positive, L.D.constraints.real], -1),
        [0.5, -1.0],
    ),
    "multinomial": (lambda L: L.D.constraints.multinomial(3), [1.0, 2.0]),
    "square": (lambda L: L.D.constraints.square, COV),
    "symmetric": (lambda L: L.D.constraints.symmetric, TRIL),
    "lower_triangular": (lambda L: L.D.constraints.lower_triangular, TRIL),
    "positive_integer": (lambda L: L.D.constraints.positive_integer, [1.0, 0.5, 0.0]),
}


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_transforms_to_constraints(name: str, registry: str) -> None:
    make, values = CONSTRAINTS[name]
    L, T = Library(gt), Library(torch)
    ours, theirs = make(L), make(T)
    if name != "corr_cholesky":  # values are vectors for the transform
        agree(lambda: ours.check(L.plain(values)), lambda: theirs.check(T.plain(values)))
    agree(lambda: getattr(L.D, registry)(ours)(L.plain(values)),
          lambda: getattr(T.D, registry)(theirs)(T.plain(values)))  # fmt: skip


@pytest.mark.parametrize("concentration", [1e-3, 0.05, 0.5, 1.0, 3.0, 30.0, 1e4])
def test_the_derivative_of_gamma_samples(concentration: float) -> None:
    from gputensor.distributions.sampling import _log_gamma_slope

    a = torch.full((200,), concentration, dtype=torch.float64)
    x = torch.distributions.Gamma(a, 1.0).sample().clamp(min=1e-300)
    theirs = torch._standard_gamma_grad(a, x) / x
    ours = _log_gamma_slope(gt.from_numpy(x.log().numpy()), gt.from_numpy(a.numpy()))
    # PyTorch's approximation has an error of about 1e-3.
    same(ours, theirs, rtol=3e-3)
