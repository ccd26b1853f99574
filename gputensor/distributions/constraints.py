"""Constraints: the regions of valid parameters and samples, and tests of values against them.

Source: torch/distributions/constraints.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import linalg
from .._generated.functions import cat as _cat, full, isclose, stack as _stack
from ..core import lazy
from ..core.dtype import bool_
from ..tensor.tensor import Tensor
from ..tensor.type_info import finfo
from .utils import absent, all_instances, quantity, refused

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
    "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector",
    "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A region of values.

    is_discrete: True if the region consists of isolated values. event_dim: the number of rightmost
    dimensions that form one value.
    """

    is_discrete: bool = False
    event_dim: int = 0
    _shown: tuple[str, ...] = ()

    def check(self, value: Tensor) -> Tensor:
        """Test each value and return a bool tensor, without the last event_dim dimensions."""
        raise absent(self, "check")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__.removeprefix('_')}({shown})"


class _Dependent(Constraint):
    """A region that depends on the values of an instance, such as the parameters of a distribution.
    `check` raises, because the values are unknown."""

    def __init__(self, *, is_discrete: Any = None, event_dim: Any = None) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    is_discrete: bool = quantity(lambda self: self._known(self._is_discrete, "static is_discrete"))
    event_dim: int = quantity(lambda self: self._known(self._event_dim, "static event_dim"))

    def _known(self, value: Any, what: str) -> Any:
        if value is None:
            raise absent(self, what)
        return value

    def __call__(self, *, is_discrete: Any = None, event_dim: Any = None) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is None else is_discrete,
            event_dim=self._event_dim if event_dim is None else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise refused(self, "value", "be checked against a constraint that is not dependent", value)


class dependent_property(property, _Dependent):
    """A property of a distribution or a transform. Its value is a constraint.

    Values that are equal for all instances of the class may be given:
    `@dependent_property(is_discrete=..., event_dim=...)`.
    """

    def __init__(
        self, fn: Callable[..., Any] | None = None, *, is_discrete: Any = None,
        event_dim: Any = None,
    ) -> None:  # fmt: skip
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> dependent_property:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Return True for a constraint that depends on the values of an instance."""
    return isinstance(constraint, _Dependent)


class _Wrapped(Constraint):
    """Base of constraints that modify another constraint, `base_constraint`."""

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise refused(self, "base_constraint", "be a Constraint", base_constraint)
        self.base_constraint = base_constraint

    is_discrete: bool = quantity(lambda self: self.base_constraint.is_discrete)
    event_dim: int = quantity(lambda self: self.base_constraint.event_dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class independent(_Wrapped):
    """The region of `base_constraint`, whose last batch dimensions count as event dimensions."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        super().__init__(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            rule = "be an int of at least 0"
            raise refused(self, "reinterpreted_batch_ndims", rule, reinterpreted_batch_ndims)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    event_dim: int = quantity(
        lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims
    )

    def check(self, value: Tensor) -> Tensor:
        if value.dim() < self.event_dim:
            raise refused(self, "value", f"have at least {self.event_dim} dimensions", value)
        return _all_of_last(self.base_constraint.check(value), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        inner = f"{self.base_constraint!r}, {self.reinterpreted_batch_ndims}"
        return f"{type(self).__name__}({inner})"


def _all_of_last(valid: Tensor, dims: int) -> Tensor:
    for _ in range(dims):
        valid = valid.all(-1)
    return valid


class MixtureSameFamilyConstraint(_Wrapped):
    """The intersection of the regions of all components. The last batch dimension of
    `base_constraint` is the dimension of the components."""

    def check(self, value: Tensor) -> Tensor:
        if value.dim() < self.event_dim:
            raise refused(self, "value", f"have at least {self.event_dim} dimensions", value)
        valid = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return _all_of_last(valid, valid.dim() - (value.dim() - self.event_dim))


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # only NaN differs from itself


class interval(Constraint):
    """Numbers from lower_bound to upper_bound, both included; bounds are numbers or tensors."""

    # Functions that compare a value with the bounds.
    _lower: Any = operator.ge
    _upper: Any = operator.le
    lower_bound: Any
    upper_bound: Any

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        given = {"lower_bound": lower_bound, "upper_bound": upper_bound}
        self._shown = tuple(name for name, bound in given.items() if bound is not None)

    def check(self, value: Tensor) -> Tensor:
        bounds = (self._lower, self.lower_bound), (self._upper, self.upper_bound)
        valid = [compare(value, bound) for compare, bound in bounds if bound is not None]
        made: Tensor = functools.reduce(operator.and_, valid)
        return made


class half_open_interval(interval):
    """Numbers from lower_bound to upper_bound, without upper_bound."""

    _upper = operator.lt


class greater_than_eq(interval):
    """Numbers greater than or equal to lower_bound."""

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound, None)


class greater_than(greater_than_eq):
    """Numbers greater than lower_bound."""

    _lower = operator.gt


class less_than(interval):
    """Numbers less than upper_bound."""

    _upper = operator.lt

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)


class integer_interval(interval):
    """Integers from lower_bound to upper_bound, both included."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _IntegerGreaterThan(integer_interval):
    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound, None)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class multinomial(less_than):
    """Counts that add up to at most upper_bound."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        made: Tensor = (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)
        return made


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _all_of_last(value.tril() == value, 2)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        most = finfo(value.dtype).eps * value.shape[-1] * 10
        norms = value.detach().square().sum(-1).sqrt()
        return super().check(value) & ((norms - 1).abs() <= most).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        is_square = value.shape[-2] == value.shape[-1]
        return full(value.shape[:-2], is_square, dtype=bool_, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return _all_of_last(isclose(value, value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return symmetric & (linalg.eigvalsh(value) >= 0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return linalg.cholesky_ex(value).info == 0 if symmetric.all() else symmetric


class _Sequence(Constraint):
    """One constraint for each part of a value along `dim`. A subclass defines the parts."""

    cseq: list[Constraint]
    dim: int

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        if not all_instances(cseq, Constraint):
            raise refused(self, "cseq", "be a sequence of Constraints", cseq)
        self.cseq, self.dim = list(cseq), dim

    is_discrete: bool = quantity(lambda self: any(c.is_discrete for c in self.cseq))
    event_dim: int = quantity(lambda self: max(c.event_dim for c in self.cseq))


class cat(_Sequence):
    """One constraint for each part of a value that `gt.cat` joins. lengths: the sizes of the
    parts."""

    lengths: list[int]

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise refused(self, "lengths", f"be {len(self.cseq)} numbers", self.lengths)

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return _cat([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


class stack(_Sequence):
    """One constraint for each slice of a value that `gt.stack` joins."""

    event_dim: int = quantity(lambda self: self._dims(max(c.event_dim for c in self.cseq)))

    def _dims(self, dim: int) -> int:
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        slices = value.unbind(self.dim)
        return _stack([c.check(part) for c, part in zip(self.cseq, slices)], self.dim)


dependent: _Dependent = _Dependent()
boolean: Constraint = _Boolean()
one_hot: Constraint = _OneHot()
nonnegative_integer: Constraint = _IntegerGreaterThan(0)
positive_integer: Constraint = _IntegerGreaterThan(1)
real: Constraint = _Real()
real_vector: Constraint = independent(real, 1)
positive: Constraint = greater_than(0.0)
nonnegative: Constraint = greater_than_eq(0.0)
unit_interval: Constraint = interval(0.0, 1.0)
simplex: Constraint = _Simplex()
lower_triangular: Constraint = _LowerTriangular()
lower_cholesky: Constraint = _LowerCholesky()
corr_cholesky: Constraint = _CorrCholesky()
square: Constraint = _Square()
symmetric: Constraint = _Symmetric()
positive_semidefinite: Constraint = _PositiveSemidefinite()
positive_definite: Constraint = _PositiveDefinite()

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
