"""Distributions built from other distributions: transformed, independent, mixtures.

Source: torch/distributions/transformed_distribution.py, independent.py, mixture_same_family.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._generated.functions import gather
from ..autograd import no_grad
from ..tensor.tensor import Tensor
from .discrete import Categorical
from .constraints import Constraint, MixtureSameFamilyConstraint, dependent_property, independent
from .distribution import Distribution, Regions, need_distribution
from .transforms import ComposeTransform, Transform
from .utils import absent, all_instances, quantity, refused, sum_rightmost


class Independent(Distribution):
    """`base_distribution`, with its last batch dimensions as event dimensions.

    Args:
        reinterpreted_batch_ndims: the number of batch dimensions to convert. log_prob and entropy
        sum over them.
    """

    arg_constraints: Regions = {}
    base_dist: Distribution
    reinterpreted_batch_ndims: int

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        need_distribution(self, "base_distribution", base_distribution)
        batch = base_distribution.batch_shape
        if not 0 <= reinterpreted_batch_ndims <= len(batch):
            rule = f"be in [0, {len(batch)}]"
            raise refused(self, "reinterpreted_batch_ndims", rule, reinterpreted_batch_ndims)
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = (
            base_distribution, reinterpreted_batch_ndims,
        )  # fmt: skip
        event = batch[cut:] + base_distribution.event_shape
        super().__init__(batch[:cut], event, validate_args)

    has_rsample: bool = quantity(lambda self: self.base_dist.has_rsample)

    has_enumerate_support: bool = quantity(
        lambda self: self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support
    )

    @dependent_property
    def support(self) -> Constraint:
        return independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    mean: Tensor = quantity(lambda self: self.base_dist.mean)
    mode: Tensor = quantity(lambda self: self.base_dist.mode)
    variance: Tensor = quantity(lambda self: self.base_dist.variance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise absent(self, "enumeration of a product of supports")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """Distribution of `transforms` applied to samples of `base_distribution`.

    Raises: ArgumentValueError if the base has fewer dimensions than the transforms need.
    """

    arg_constraints: Regions = {}
    base_dist: Distribution

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ) -> None:
        need_distribution(self, "base_distribution", base_distribution)
        transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not all_instances(transforms, Transform):
            raise refused(self, "transforms", "be a Transform or a list of them", transforms)
        self.transforms: list[Transform] = transforms
        whole = ComposeTransform(transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        taken, given = whole.domain.event_dim, whole.codomain.event_dim
        if len(shape) < taken:
            rule = f"have batch and event of at least {taken} dimensions"
            raise refused(self, "base_distribution", rule, shape)
        made = whole.forward_shape(shape)
        broadcast, events = whole.inverse_shape(made), len(base_distribution.event_shape)
        if broadcast != shape:
            base_distribution = base_distribution.expand(broadcast[: len(broadcast) - events])
        if taken > events:
            base_distribution = Independent(base_distribution, taken - events)
        self.base_dist = base_distribution
        cut = len(made) - max(given, events + given - taken)
        super().__init__(made[:cut], made[cut:], validate_args)

    @dependent_property(is_discrete=False)
    def support(self) -> Constraint:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return independent(support, more) if more > 0 else support

    has_rsample: bool = quantity(lambda self: self.base_dist.has_rsample)

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        total: Any = 0.0
        dim = len(self.event_shape)
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            dim += transform.domain.event_dim - transform.codomain.event_dim
            log_det = transform.log_abs_det_jacobian(x, value)
            total = total - sum_rightmost(log_det, dim - transform.domain.event_dim)
            value = x
        of_base = self.base_dist.log_prob(value)
        made: Tensor = total + sum_rightmost(of_base, dim - len(self.base_dist.event_shape))
        return made

    def _monotonized(self, cdf: Tensor) -> Tensor:
        """Return cdf where the transforms increase, and 1 - cdf where they decrease."""
        sign = ComposeTransform(self.transforms).sign
        return cdf if isinstance(sign, int) and sign == 1 else sign * (cdf - 0.5) + 0.5

    def _cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotonized(self.base_dist.cdf(value))

    def _icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._monotonized(value)))


class MixtureSameFamily(Distribution):
    """Mixture of distributions of one class. The last batch dimension counts the components.

    Args:
        mixture_distribution: probabilities of the components; its batch broadcasts with *batch.
        component_distribution: the components, of batch_shape (*batch, components).
    """

    arg_constraints: Regions = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(mixture_distribution, Categorical):
            raise refused(self, "mixture_distribution", "be a Categorical", mixture_distribution)
        need_distribution(self, "component_distribution", component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        batch, count = component_distribution.batch_shape, mixture_distribution._num_events
        if batch[-1:] != (count,):
            raise refused(self, "component_distribution", f"have a batch (*, {count})", batch)
        for size, other in zip(reversed(mixture_distribution.batch_shape), reversed(batch[:-1])):
            if 1 not in (size, other) and size != other:
                rule = f"have a batch that broadcasts with {batch[:-1]}"
                raise refused(self, "mixture_distribution", rule, mixture_distribution.batch_shape)
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args)

    mixture_distribution: Categorical = quantity(lambda self: self._mixture_distribution)
    component_distribution: Distribution = quantity(lambda self: self._component_distribution)

    @dependent_property
    def support(self) -> Constraint:
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    def _weights(self) -> Tensor:
        """Return the probabilities of the components. Shape: (*batch, components), then one
        dimension of size 1 for each event dimension."""
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1 for _ in self._event_shape))

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        means = self._weights() * self._component_distribution.mean
        return means.sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        component = self._component_distribution
        deviations = component.variance + (component.mean - self._pad(self.mean)).square()
        return (self._weights() * deviations).sum(-1 - self._event_ndims)

    def _cdf(self, value: Tensor) -> Tensor:
        cdfs = self._component_distribution.cdf(self._pad(value))
        return (cdfs * self._mixture_distribution.probs).sum(-1)

    def _log_prob(self, value: Tensor) -> Tensor:
        log_probs = self._component_distribution.log_prob(self._pad(value))
        return (log_probs + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            samples = self._component_distribution.sample(sample_shape)
            index = drawn.reshape(*drawn.shape, 1, *(1 for _ in self._event_shape))
            index = index.expand(*drawn.shape, 1, *self._event_shape)
            return gather(samples, drawn.dim(), index).squeeze(drawn.dim())

    def __repr__(self) -> str:
        parts = self._mixture_distribution, self._component_distribution
        return f"MixtureSameFamily(\n  {parts[0]},\n  {parts[1]})"
