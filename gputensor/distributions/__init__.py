"""Probability distributions, transforms and divergences with the names of `torch.distributions`.

The module calls public operators only. Random numbers come from the generators of `gt.manual_seed`:
samples have PyTorch's distributions but not PyTorch's values.
"""

import sys
from typing import TYPE_CHECKING

from ..core import lazy
from . import constraint_registry, constraints, kl, transforms, utils
from .constraint_registry import biject_to, transform_to
from .discrete import (
    Bernoulli, Binomial, Categorical, Geometric, Multinomial, NegativeBinomial,
    OneHotCategorical, OneHotCategoricalStraightThrough, Poisson,
)  # fmt: skip
from .distribution import Distribution, ExponentialFamily
from .kl import kl_divergence, register_kl
from .location_scale import Cauchy, GeneralizedPareto, Laplace, Normal, StudentT, Uniform, VonMises
from .multivariate import LKJCholesky, LowRankMultivariateNormal, MultivariateNormal, Wishart
from .positive import Beta, Chi2, ContinuousBernoulli, Dirichlet, Exponential, FisherSnedecor, Gamma
from .transformed import Independent, MixtureSameFamily, TransformedDistribution
from .transformed_families import (
    ExpRelaxedCategorical as ExpRelaxedCategorical, LogitRelaxedBernoulli as LogitRelaxedBernoulli,
    Gumbel, HalfCauchy, HalfNormal, InverseGamma, Kumaraswamy, LogisticNormal, LogNormal, Pareto,
    RelaxedBernoulli, RelaxedOneHotCategorical, Weibull,
)  # fmt: skip
from .transforms import (
    AbsTransform, AffineTransform, CatTransform, ComposeTransform, CorrCholeskyTransform,
    CumulativeDistributionTransform, ExpTransform, IndependentTransform, LowerCholeskyTransform,
    PositiveDefiniteTransform, PowerTransform, ReshapeTransform, SigmoidTransform,
    SoftmaxTransform, SoftplusTransform, StackTransform, StickBreakingTransform, TanhTransform,
    Transform, identity_transform,
)  # fmt: skip

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform",
    "Categorical", "Cauchy", "Chi2", "ComposeTransform", "ContinuousBernoulli",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet", "Distribution",
    "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal",
    "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily",
    "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "constraint_registry", "constraints",
    "identity_transform", "kl", "kl_divergence", "register_kl", "transform_to", "transforms",
    "utils",
]  # fmt: skip

# PyTorch has one module for each class, and programs import from these modules. Here all these
# module names refer to this package.
for _name in (
    "bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet exp_family "
    "exponential fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy half_normal "
    "independent inverse_gamma kumaraswamy laplace lkj_cholesky log_normal logistic_normal "
    "lowrank_multivariate_normal mixture_same_family multinomial multivariate_normal "
    "negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli "
    "relaxed_categorical studentT transformed_distribution uniform von_mises weibull wishart"
).split():
    sys.modules[f"{__name__}.{_name}"] = sys.modules[__name__]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
