"""`biject_to` and `transform_to`: transforms from real vectors to the region of a constraint.

`biject_to` returns bijections with a log_abs_det_jacobian. `transform_to` may return a transform
that maps several inputs to one output, for optimization. Source:
torch/distributions/constraint_registry.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core import errors, lazy
from . import constraints, transforms
from .constraints import Constraint
from .transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """A table that maps the class of a constraint to a factory of transforms. Calling the table
    with a constraint returns the constraint's transform."""

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Register `factory` for a constraint's class. Without `factory`, return a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise errors.wrong_type("register", "constraint", "be a Constraint or a class of them",
                                    constraint)  # fmt: skip
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Return the transform from real vectors to the region of `constraint`. Raises: AbsentError
        if none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise errors.AbsentError(f"constraint_registry: no transform leads to {constraint!r}")
        return factory(constraint)


biject_to: ConstraintRegistry = ConstraintRegistry()
transform_to: ConstraintRegistry = ConstraintRegistry()


def _above(constraint: Any) -> Transform:
    affine = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), affine])


def _below(constraint: Any) -> Transform:
    affine = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), affine])


def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    affine = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), affine])


def _of_parts(registry: ConstraintRegistry) -> dict[Any, Factory]:
    """Return factories for constraints that are composed of other constraints. The factories get
    the transforms of the parts from `registry`."""
    return {
        constraints.independent: lambda c: transforms.IndependentTransform(
            registry(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        constraints.cat: lambda c: transforms.CatTransform(
            [registry(part) for part in c.cseq], c.dim, c.lengths
        ),
        constraints.stack: lambda c: transforms.StackTransform(
            [registry(part) for part in c.cseq], c.dim
        ),
    }


_BOTH: dict[Any, Factory] = {
    constraints.real: lambda c: transforms.identity_transform,
    constraints.greater_than: _above, constraints.greater_than_eq: _above,
    constraints.less_than: _below,
    constraints.interval: _between, constraints.half_open_interval: _between,
    constraints.corr_cholesky: lambda c: transforms.CorrCholeskyTransform(),
}  # fmt: skip
_BIJECTIONS: dict[Any, Factory] = {
    constraints.simplex: lambda c: transforms.StickBreakingTransform(),
}
_OTHERS: dict[Any, Factory] = {
    constraints.simplex: lambda c: transforms.SoftmaxTransform(),
    constraints.lower_cholesky: lambda c: transforms.LowerCholeskyTransform(),
    constraints.positive_definite: lambda c: transforms.PositiveDefiniteTransform(),
    constraints.positive_semidefinite: lambda c: transforms.PositiveDefiniteTransform(),
}
for _registry, _own in ((biject_to, _BIJECTIONS), (transform_to, _OTHERS)):
    for _constraint, _factory in {**_BOTH, **_own, **_of_parts(_registry)}.items():
        _registry.register(_constraint, _factory)

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
