"""Base classes of distributions: shapes, validation and expansion.

Source: torch/distributions/distribution.py and exp_family.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ..autograd import grad, no_grad
from ..core import errors
from ..core.geometry import Size
from ..tensor.tensor import Tensor
from .constraints import Constraint, is_dependent
from .utils import absent, broadcast_all, lazy_property, refused, sum_rightmost

D = TypeVar("D", bound="Distribution")
Parameter = Tensor | float
Check = bool | None
Regions = dict[str, Constraint]


class Distribution:
    """A batch of probability distributions.

    Args:
        batch_shape: shape of the batch of distributions in this object.
        event_shape: shape of one sample of one distribution.
        validate_args: True checks parameters and values; None takes the default of
            `set_default_validate_args`, which is True except under `python -O`.
    Raises: ArgumentValueError for a parameter outside its constraint.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    # Names of attributes that `expand` copies unchanged, besides `_unbroadcasted…`.
    _kept: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of `validate_args`."""
        if value not in (True, False):
            raise errors.wrong_value("set_default_validate_args", "value", "be a bool", value)
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _broadcast(self, validate_args: bool | None, /, **parameters: Parameter) -> None:
        """Broadcast the parameters and store them. Their common shape becomes batch_shape."""
        made = broadcast_all(*parameters.values())
        self.__dict__.update(zip(parameters, made))
        Distribution.__init__(self, made[0].shape, validate_args=validate_args)

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            is_lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if is_dependent(constraint) or (is_lazy and name not in self.__dict__):
                continue
            self._check_within(name, getattr(self, name), constraint, "satisfy")

    def _check_within(self, arg: str, value: Tensor, constraint: Constraint, verb: str) -> None:
        valid = constraint.check(value)
        if not valid.all():
            got = errors.describe(value)
            if valid.shape == value.shape:
                got = f"{value[~valid].flatten()[0].item()} in {got}"
            raise refused(self, arg, f"{verb} {constraint!r}", errors.Got(got))

    @property
    def arg_constraints(self) -> Regions:
        """Constraints of the parameters, as a dict by name."""
        return {}

    @property
    def support(self) -> Constraint:
        """The region of all samples."""
        raise absent(self, "support")

    @property
    def batch_shape(self) -> Size:
        """Shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one sample of one distribution."""
        return self._event_shape

    def expand(self: D, batch_shape: Sequence[int], _instance: Any = None) -> D:
        """Return this distribution with its parameters expanded to `batch_shape`, as views."""
        new: D = self._get_checked_instance(type(self), _instance)
        shape, count = self._sizes("batch_shape", batch_shape), len(self._batch_shape)
        for name, value in self.__dict__.items():
            if name in self._kept or name.startswith("_unbroadcasted"):
                pass
            elif isinstance(value, Distribution):
                value = value.expand(shape + value.batch_shape[count:])
            elif isinstance(value, Tensor) and value.shape[:count] == self._batch_shape:
                value = value.expand(shape + value.shape[count:])
            new.__dict__.setdefault(name, value)
        new._batch_shape = shape
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        return type(self).__new__(type(self)) if _instance is None else _instance

    @property
    def mean(self) -> Tensor:
        """Mean: (*batch, *event)."""
        raise absent(self, "mean")

    @property
    def mode(self) -> Tensor:
        """Most probable value: (*batch, *event)."""
        raise absent(self, "mode")

    @property
    def variance(self) -> Tensor:
        """Variance of each element: (*batch, *event)."""
        raise absent(self, "variance")

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each element: (*batch, *event)."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples without gradients: (*sample_shape, *batch, *event)."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples that are differentiable functions of the parameters.

        Raises: AbsentError where `has_rsample` is False.
        """
        raise absent(self, "rsample")

    def sample_n(self, n: int) -> Tensor:
        """Draw n samples: the same as `sample((n,))`."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density or probability at `value`.

        value: (*, *batch, *event). Returns: (*, *batch).

        Raises: ArgumentValueError for a value outside the support.
        """
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob(value)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability that a sample is at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._cdf(value)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the number at which the cdf is `value`, a number in [0, 1]."""
        return self._icdf(broadcast_all(value)[0])

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution: (cardinality, *batch, *event).

        expand: False leaves the batch dimensions at size 1.
        """
        raise absent(self, "enumerate_support")

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Return `values`, (cardinality, *event), with batch dimensions inserted after the first
        dimension. expand: give these dimensions their sizes instead of 1."""
        event = values.shape[1:]
        values = values.reshape(-1, *(1 for _ in self._batch_shape), *event)
        return values.expand(-1, *self._batch_shape, *event) if expand else values

    def entropy(self) -> Tensor:
        """Return the entropy in nats: (*batch)."""
        raise absent(self, "entropy")

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy: (*batch)."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return self._sizes("sample_shape", sample_shape) + self._batch_shape + self._event_shape

    def _sizes(self, arg: str, value: Any) -> Size:
        is_sequence = isinstance(value, (tuple, list))
        if not is_sequence or not all(isinstance(size, int) and size >= 0 for size in value):
            op, rule = type(self).__name__, "be a sequence of sizes"
            raise errors.wrong_type(op, arg, rule, value)
        return Size(value)

    def _empty(self, sample_shape: Sequence[int], like: Tensor) -> Any:
        """Return an uninitialized tensor for samples, with dtype and device of `like`."""
        return like.new_empty(self._extended_shape(sample_shape))

    # Subclasses define the next three methods. The callers have already checked `value`.

    def _log_prob(self, value: Tensor) -> Tensor:
        raise absent(self, "log_prob")

    def _cdf(self, value: Tensor) -> Tensor:
        raise absent(self, "cdf")

    def _icdf(self, value: Tensor) -> Tensor:
        raise absent(self, "icdf")

    def _validate_sample(self, value: Tensor) -> None:
        """Raise an error unless `value` broadcasts with the shapes and lies in the support."""
        if not isinstance(value, Tensor):
            raise refused(self, "value", "be a Tensor", value)
        wanted = self._batch_shape + self._event_shape
        events = value.shape[max(value.dim() - len(self._event_shape), 0) :]
        if events != self._event_shape:
            raise refused(self, "value", f"end in the event's shape, {self._event_shape}", value)
        for size, other in zip(reversed(value.shape), reversed(wanted)):
            if 1 not in (size, other) and size != other:
                raise refused(self, "value", f"broadcast with {wanted}", value)
        try:
            support = self.support
        except NotImplementedError:
            return  # a user's class without a support
        self._check_within("value", value, support, "lie in the support,")

    def __repr__(self) -> str:
        shown = {
            name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__
        }
        texts = [f"{n}: {v if v.numel() == 1 else v.shape}" for n, v in shown.items()]
        return f"{type(self).__name__}({', '.join(texts)})"


def need_distribution(owner: Distribution, arg: str, value: Any) -> None:
    if not isinstance(value, Distribution):
        raise refused(owner, arg, "be a Distribution", value)


class ExponentialFamily(Distribution):
    """Base of exponential families.

    A subclass defines natural parameters, a log normalizer and a mean carrier measure. This class
    computes entropy and KL divergence from them, as Bregman divergences of the log normalizer.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise absent(self, "_natural_params")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise absent(self, "_log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise absent(self, "_mean_carrier_measure")

    def _normalizer_and_means(self) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Return the log normalizer, and pairs of a natural parameter and the normalizer's
        derivative with respect to the parameter."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        means: Any = grad(normalizer.sum(), params, create_graph=True)
        return normalizer, list(zip(params, means))

    def entropy(self) -> Tensor:
        carrier = self._mean_carrier_measure
        normalizer, means = self._normalizer_and_means()
        for param, mean in means:
            product = param * mean
            normalizer = normalizer - sum_rightmost(product, product.dim() - len(self._batch_shape))
        entropy: Tensor = normalizer - carrier
        return entropy
