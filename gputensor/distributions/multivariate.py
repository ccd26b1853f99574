"""Distributions of vectors and matrices: multivariate normal, Wishart, LKJ.

Source: torch/distributions, a module for each class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import linalg
from .._generated.functions import (
    arange, cat, cholesky_inverse, cholesky_solve, eye, mvlgamma, where,
)  # fmt: skip
from ..autograd import no_grad
from ..core import errors
from ..core.geometry import Size
from ..structured.facts import broadcast_shapes
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Check, Distribution, ExponentialFamily, Parameter, Regions
from .positive import Beta, Gamma
from .utils import broadcast_all, computed, quantity, refused, tiny


def _need_dims(owner: Distribution, arg: str, value: Any, dims: int) -> None:
    if not isinstance(value, Tensor) or value.dim() < dims:
        raise refused(owner, arg, f"be a Tensor of at least {dims} dimensions", value)


def times_vector(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return the products of matrices (*, m, n) and vectors (*, n)."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """Return |L^-1 x|^2 for the lower triangular L = `factor`, (*, n, n), and vectors x, (*, n)."""
    batch = factor.dim() - 2
    lead = x.dim() - 1 - batch
    if lead <= 0 or x.shape[lead:-1] != factor.shape[:-2]:
        solved = linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False)
        return solved.square().sum((-2, -1))
    # All samples become columns of one right-hand side, because a batch of solves would copy the
    # factor.
    columns = x.reshape(x.shape[:lead].numel(), *x.shape[lead:]).movedim(0, -1)
    squares = linalg.solve_triangular(factor, columns, upper=False).square().sum(-2)
    return squares.movedim(-1, 0).reshape(x.shape[:-1])


def half_log_det(factor: Tensor) -> Tensor:
    """Return half the log determinant of L L^T, for the lower triangular L = `factor`."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _factor_of_inverse(matrix: Tensor) -> Tensor:
    flipped = linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT
    unit = eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return linalg.solve_triangular(flipped, unit, upper=False)


class ByCovariance(Distribution):
    """Base of distributions that take one of covariance_matrix, precision_matrix and scale_tril.
    Each of the other two matrices is computed when it is read."""

    _of_matrices: Regions = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    _unbroadcasted_scale_tril: Tensor

    def _given(self, **matrices: Any) -> tuple[str, Tensor]:
        found = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(found) != 1:
            rule = "be given, or 'precision_matrix' or 'scale_tril', and only one of them"
            got = errors.Got(", ".join(name for name, _ in found) or "none")
            raise refused(self, "covariance_matrix", rule, got)
        _need_dims(self, *found[0], 2)
        return found[0]

    def _set_matrix(
        self, name: str, matrix: Tensor, batch: Size, event: Size, validate_args: Check
    ) -> None:
        self.__dict__[name] = matrix.expand(batch + matrix.shape[-2:])
        Distribution.__init__(self, batch, event, validate_args)
        if name == "covariance_matrix":
            matrix = linalg.cholesky(matrix)
        elif name == "precision_matrix":
            matrix = _factor_of_inverse(matrix)
        self._unbroadcasted_scale_tril = matrix

    def _expanded(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    scale_tril: Tensor = computed(lambda self: self._expanded(self._unbroadcasted_scale_tril))
    covariance_matrix: Tensor = computed(lambda self: self._expanded(
        self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT
    ))  # fmt: skip
    precision_matrix: Tensor = computed(
        lambda self: self._expanded(cholesky_inverse(self._unbroadcasted_scale_tril))
    )


class MultivariateNormal(ByCovariance):
    """Multivariate normal distribution. loc: (*, n); the given matrix: (*, n, n)."""

    arg_constraints: Regions = {"loc": constraints.real_vector, **ByCovariance._of_matrices}
    support: Constraint = constraints.real_vector
    has_rsample = True
    loc: Tensor

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
        validate_args: Check = None,
    ) -> None:  # fmt: skip
        _need_dims(self, "loc", loc, 1)
        name, matrix = self._given(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )  # fmt: skip
        size = loc.shape[-1]
        if matrix.shape[-2:] != (size, size):
            raise refused(self, name, f"be matrices of {size} x {size}", matrix)
        batch = Size(broadcast_shapes(matrix.shape[:-2], loc.shape[:-1]))
        self.loc = loc.expand(batch + loc.shape[-1:])
        self._set_matrix(name, matrix, batch, loc.shape[-1:], validate_args)

    mean: Tensor = quantity(lambda self: self.loc)
    mode: Tensor = quantity(lambda self: self.loc)

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self.loc.shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise: Tensor = self._empty(sample_shape, self.loc).normal_()
        return self.loc + times_vector(self._unbroadcasted_scale_tril, noise)

    def _log_prob(self, value: Tensor) -> Tensor:
        square = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        log_norm = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (log_norm + square) - half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Tensor:
        of_noise = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (of_noise + half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Multivariate normal distribution with covariance W W^T + D.

    Args:
        loc: (*, n). cov_factor: W, (*, n, m). cov_diag: the diagonal of D, (*, n).
    """

    arg_constraints: Regions = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Constraint = constraints.real_vector
    has_rsample = True
    loc: Tensor
    cov_factor: Tensor
    cov_diag: Tensor

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: Check = None
    ) -> None:
        _need_dims(self, "loc", loc, 1)
        _need_dims(self, "cov_factor", cov_factor, 2)
        event = loc.shape[-1:]
        if cov_factor.shape[-2:-1] != event:
            raise refused(self, "cov_factor", f"be matrices of {event[0]} rows", cov_factor)
        if cov_diag.shape[-1:] != event:
            raise refused(self, "cov_diag", f"be vectors of {event[0]} elements", cov_diag)
        shapes = loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
        batch = Size(broadcast_shapes(*shapes))
        self.loc, self.cov_diag = loc.expand(batch + event), cov_diag.expand(batch + event)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        super().__init__(batch, event, validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        # Cholesky factor of I + W^T D^-1 W, m x m. The determinant and the inverse of the
        # covariance are computed from this factor.
        self._unbroadcasted_capacitance_tril = _with_unit(self._scaled_factor() @ cov_factor)

    def _scaled_factor(self) -> Tensor:
        """Return W^T D^-1."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def whitened_factor(self) -> Tensor:
        """Return a matrix A such that D^-1 - A^T A is the inverse of the covariance."""
        factor = self._unbroadcasted_capacitance_tril
        return linalg.solve_triangular(factor, self._scaled_factor(), upper=False)

    def log_det(self) -> Tensor:
        """Log determinant of the covariance."""
        log_diag = self._unbroadcasted_cov_diag.log().sum(-1)
        return 2 * half_log_det(self._unbroadcasted_capacitance_tril) + log_diag

    def mahalanobis(self, x: Tensor) -> Tensor:
        """Return x^T covariance^-1 x."""
        scaled = (x.square() / self._unbroadcasted_cov_diag).sum(-1)
        inner = times_vector(self._scaled_factor(), x)
        return scaled - mahalanobis(self._unbroadcasted_capacitance_tril, inner)

    mean: Tensor = quantity(lambda self: self.loc)
    mode: Tensor = quantity(lambda self: self.loc)
    variance: Tensor = quantity(lambda self: self.cov_factor.square().sum(-1) + self.cov_diag)
    covariance_matrix: Tensor = quantity(
        lambda self: self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()
    )

    @property
    def scale_tril(self) -> Tensor:
        root = self.cov_diag.sqrt().unsqueeze(-1)
        scaled = self.cov_factor / root
        return root * _with_unit(scaled @ scaled.mT)

    @property
    def precision_matrix(self) -> Tensor:
        factor = self.whitened_factor()
        return self.cov_diag.reciprocal().diag_embed() - factor.mT @ factor

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        own: Tensor = self.cov_diag.sqrt() * self._empty(sample_shape, self.loc).normal_()
        noise = own.new_empty(own.shape[:-1] + self.cov_factor.shape[-1:]).normal_()
        return self.loc + times_vector(self._unbroadcasted_cov_factor, noise) + own

    def _log_prob(self, value: Tensor) -> Tensor:
        log_norm = self._event_shape[0] * math.log(2 * math.pi) + self.log_det()
        return -0.5 * (log_norm + self.mahalanobis(value - self.loc))

    def entropy(self) -> Tensor:
        of_noise = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (of_noise + self.log_det())).expand(self._batch_shape)


def _with_unit(matrix: Tensor) -> Tensor:
    """Return the Cholesky factor of I + matrix."""
    unit = eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return linalg.cholesky(matrix + unit)


class Wishart(ByCovariance, ExponentialFamily):
    """Wishart distribution of positive definite matrices with mean df * covariance_matrix.

    Args:
        df: degrees of freedom, above n - 1. The given matrix: (*, n, n).
    """

    support: Constraint = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    df: Tensor

    def __init__(
        self, df: Parameter, covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
        validate_args: Check = None,
    ) -> None:  # fmt: skip
        name, matrix = self._given(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )  # fmt: skip
        df = df if isinstance(df, Tensor) else matrix.new_full((), df)
        batch = Size(broadcast_shapes(matrix.shape[:-2], df.shape))
        self.df = df.to(matrix.dtype).expand(batch)
        if (self.df <= matrix.shape[-1] - 1).any():
            raise refused(self, "df", f"be above {matrix.shape[-1] - 1}", df)
        self._set_matrix(name, matrix, batch, matrix.shape[-2:], validate_args)

    @property
    def arg_constraints(self) -> Regions:
        least = constraints.greater_than(self._event_shape[-1] - 1)
        return {**ByCovariance._of_matrices, "df": least}

    _df: Tensor = quantity(lambda self: self.df.unsqueeze(-1).unsqueeze(-1))
    mean: Tensor = quantity(lambda self: self._df * self.covariance_matrix)

    @property
    def mode(self) -> Tensor:
        factor = self._df - self._event_shape[-1] - 1
        return where(factor <= 0, math.nan, factor) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        matrix: Tensor = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        return self._df * (matrix.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _lower(self) -> Tensor:
        """Return the row numbers 0, 1 .. n - 1."""
        return arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Bartlett decomposition: roots of chi-squared samples on the diagonal, normal samples below
        # it.
        degrees = self.df.unsqueeze(-1) - self._lower()
        diagonal = Gamma(0.5 * degrees, 0.5, False).rsample(sample_shape).sqrt()
        noise: Tensor = self._empty(sample_shape, diagonal).normal_().tril(-1)
        factor = self._unbroadcasted_scale_tril @ (noise + diagonal.diag_embed())
        return factor @ factor.mT

    def _log_volume(self) -> Tensor:
        size = self._event_shape[-1]
        return size * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)

    def _log_prob(self, value: Tensor) -> Tensor:
        df, size = self.df, self._event_shape[-1]
        trace = cholesky_solve(value, self.scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        log_norm = df * self._log_volume() + mvlgamma(df / 2, size)
        return (df - size - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2 - log_norm

    def entropy(self) -> Tensor:
        df, size = self.df, self._event_shape[-1]
        slope = (df.unsqueeze(-1) / 2 - self._lower() / 2).digamma().sum(-1)
        log_norm = (size + 1) * self._log_volume() + mvlgamma(df / 2, size)
        return log_norm - (df - size - 1) / 2 * slope + df * size / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        size, half_df = self._event_shape[-1], natural_params[1] + (self._event_shape[-1] + 1) / 2
        log_det = linalg.slogdet(-2 * natural_params[0]).logabsdet
        return half_df * (math.log(2) * size - log_det) + mvlgamma(half_df, size)


class LKJCholesky(Distribution):
    """Distribution of Cholesky factors of dim x dim correlation matrices.

    Args:
        concentration: a matrix has a density proportional to determinant ** (concentration - 1).
    """

    arg_constraints: Regions = {"concentration": constraints.positive}
    support: Constraint = constraints.corr_cholesky
    concentration: Tensor

    def __init__(
        self, dim: int, concentration: Parameter = 1.0, validate_args: Check = None
    ) -> None:
        if not isinstance(dim, int) or dim < 2:
            raise refused(self, "dim", "be an int of at least 2", dim)
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Onion method: each row has a uniform direction and a length from a beta distribution.
        with no_grad():
            like = self.concentration
            steps = arange(self.dim - 1, dtype=like.dtype, device=like.device)
            steps = cat([steps.new_zeros((1,)), steps])
            other = like.unsqueeze(-1) + 0.5 * (self.dim - 2) - 0.5 * steps
            squares = Beta(steps + 0.5, other, False).sample(sample_shape).unsqueeze(-1)
            noise: Tensor = self._empty(sample_shape, like).normal_().tril(-1)
            lengths = noise.square().sum(-1, True).sqrt()
            rows = squares.sqrt() * noise / where(lengths == 0, 1.0, lengths)
            diagonal = (1 - rows.square().sum(-1)).clamp(min=tiny(rows)).sqrt()
            return rows + diagonal.diag_embed()

    def _log_prob(self, value: Tensor) -> Tensor:
        less, like = self.dim - 1, self.concentration
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = self.dim - arange(2, self.dim + 1, dtype=like.dtype, device=like.device)
        powers = 2 * (like - 1).unsqueeze(-1) + order
        top = like + 0.5 * less
        log_norm = 0.5 * less * math.log(math.pi) + mvlgamma(top - 0.5, less) - top.lgamma() * less
        return (powers * diagonal.log()).sum(-1) - log_norm
