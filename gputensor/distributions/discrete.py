"""Distributions of integers, of classes and of counts.

Source: torch/distributions, a module for each class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._generated.functions import (
    arange, bernoulli, binomial, eye, full, gather, multinomial, ones_like, poisson,
    where, zeros_like,
)  # fmt: skip
from ..autograd import no_grad
from ..core import errors
from ..core.dtype import int64
from ..core.geometry import Size
from ..functional import broadcast_tensors
from ..nn import functional as F
from ..tensor.tensor import Tensor
from ..tensor.type_info import finfo
from . import constraints
from .constraints import Constraint
from .distribution import Check, Distribution, ExponentialFamily, Parameter, Regions
from .sampling import log_standard_gamma
from .utils import (
    absent, broadcast_all, computed, logits_to_probs, probs_to_logits, quantity,
    refused, tiny,
)  # fmt: skip


def _given(owner: Distribution, probs: Any, logits: Any) -> tuple[str, Any]:
    """Return the name and the value of the argument that is not None."""
    if (probs is None) == (logits is None):
        got = errors.Got("neither" if probs is None else "both")
        raise refused(owner, "probs", "be given, or 'logits', but not both", got)
    return ("logits", logits) if probs is None else ("probs", probs)


class ByOdds(Distribution):
    """Base of distributions with the parameter `probs` or `logits`. The parameter that was not
    given is computed when it is read."""

    arg_constraints: Regions = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Check = None) -> None:
        self._set_odds(probs, logits, validate_args)

    def _set_odds(self, probs: Any, logits: Any, validate_args: Check, **others: Any) -> None:
        name, value = _given(self, probs, logits)
        value, *rest = broadcast_all(value, *others.values())
        rest = [x.type_as(value) for x in rest]
        self._broadcast(validate_args, **{name: value}, **dict(zip(others, rest)))

    logits: Tensor = computed(lambda self: probs_to_logits(self.probs, is_binary=True))
    probs: Tensor = computed(lambda self: logits_to_probs(self.logits, is_binary=True))
    _param: Tensor = quantity(lambda self: self.__dict__.get("probs", self.__dict__.get("logits")))
    param_shape: Size = quantity(lambda self: self._param.shape)


class Bernoulli(ByOdds, ExponentialFamily):
    """Bernoulli distribution: 1 with probability probs, 0 otherwise."""

    support: Constraint = constraints.boolean
    has_enumerate_support = True
    mean: Tensor = quantity(lambda self: self.probs)
    variance: Tensor = quantity(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self) -> Tensor:
        return where(self.probs == 0.5, math.nan, (self.probs > 0.5).type_as(self.probs))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(2, dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)


class Geometric(ByOdds):
    """Geometric distribution: number of failures before the first success."""

    support: Constraint = constraints.nonnegative_integer
    mean: Tensor = quantity(lambda self: 1.0 / self.probs - 1.0)
    mode: Tensor = quantity(lambda self: zeros_like(self.probs))
    variance: Tensor = quantity(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if "probs" in self.__dict__:
            self._check_within("probs", self.probs, constraints.positive, "satisfy")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            u: Tensor = self._empty(sample_shape, self.probs).uniform_(tiny(self.probs), 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def _log_prob(self, value: Tensor) -> Tensor:
        value, probs = broadcast_all(value, self.probs)
        failing = where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-failing).log1p() + probs.log()

    def entropy(self) -> Tensor:
        cross = F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return cross / self.probs


class Binomial(ByOdds):
    """Binomial distribution: number of successes in total_count trials."""

    arg_constraints: Regions = {
        "total_count": constraints.nonnegative_integer,
        **ByOdds.arg_constraints,
    }
    has_enumerate_support = True
    total_count: Tensor

    def __init__(
        self, total_count: Parameter = 1, probs: Any = None, logits: Any = None,
        validate_args: Check = None,
    ) -> None:  # fmt: skip
        self._set_odds(probs, logits, validate_args, total_count=total_count)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self.total_count)

    mean: Tensor = quantity(lambda self: self.total_count * self.probs)
    variance: Tensor = quantity(lambda self: self.total_count * self.probs * (1 - self.probs))

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        n, logits = self.total_count, self.logits
        # log(1 + exp(logits)), written such that the derivative at 0 is 1/2
        positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        log_norm = n * positive + n * (-logits.abs()).exp().log1p() - (n + 1).lgamma()
        return value * logits - (value + 1).lgamma() - (n - value + 1).lgamma() - log_norm

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        most = self.total_count.max()
        if self.total_count.min() != most:
            raise absent(self, "common support: its total_count varies")
        param = self._param
        values = arange(1 + int(most), dtype=param.dtype, device=param.device)
        return self._enumerated(values, expand)


class NegativeBinomial(ByOdds):
    """Negative binomial distribution: number of successes before total_count failures.

    total_count: any positive number, not only integers.
    """

    arg_constraints: Regions = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real,
    }  # fmt: skip
    support: Constraint = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(
        self, total_count: Parameter, probs: Any = None, logits: Any = None,
        validate_args: Check = None,
    ) -> None:  # fmt: skip
        self._set_odds(probs, logits, validate_args, total_count=total_count)

    mean: Tensor = quantity(lambda self: self.total_count * self.logits.exp())
    mode: Tensor = quantity(
        lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)
    )
    variance: Tensor = quantity(lambda self: self.mean / (-self.logits).sigmoid())

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            total = self.total_count.expand(self._extended_shape(sample_shape))
            rate = (log_standard_gamma(total) + self.logits).exp()
            return poisson(rate).to(self.total_count.dtype)

    def _log_prob(self, value: Tensor) -> Tensor:
        n, logits = self.total_count, self.logits
        powers = n * F.logsigmoid(-logits) + value * F.logsigmoid(logits)
        log_norm = -(n + value).lgamma() + (1.0 + value).lgamma() + n.lgamma()
        return powers - log_norm.masked_fill(n + value == 0.0, 0.0)


class Poisson(ExponentialFamily):
    """Poisson distribution with mean rate."""

    arg_constraints: Regions = {"rate": constraints.nonnegative}
    support: Constraint = constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Parameter, validate_args: Check = None) -> None:
        self._broadcast(validate_args, rate=rate)

    mean: Tensor = quantity(lambda self: self.rate)
    mode: Tensor = quantity(lambda self: self.rate.floor())
    variance: Tensor = quantity(lambda self: self.rate)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()


class Categorical(Distribution):
    """Distribution of classes 0 to k - 1 with probabilities `probs` or log probabilities `logits`:
    (*, k).

    The given parameter is normalized along the last dimension.
    """

    arg_constraints: Regions = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Check = None) -> None:
        name, value = _given(self, probs, logits)
        if not isinstance(value, Tensor) or value.dim() < 1:
            raise refused(self, name, "be a Tensor of at least one dimension", value)
        if name == "probs":
            self.probs = value / value.sum(-1, keepdim=True)
        else:
            self.logits = value - value.logsumexp(-1, keepdim=True)
        self._num_events = value.shape[-1]
        super().__init__(value.shape[:-1], (), validate_args)

    logits: Tensor = computed(lambda self: probs_to_logits(self.probs))
    probs: Tensor = computed(lambda self: logits_to_probs(self.logits))
    _param: Tensor = quantity(lambda self: self.__dict__.get("probs", self.__dict__.get("logits")))
    param_shape: Size = quantity(lambda self: self._param.shape)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN, because classes have no mean."""
        probs = self.probs
        return full(self._batch_shape, math.nan, dtype=probs.dtype, device=probs.device)

    mode: Tensor = quantity(lambda self: self.probs.argmax(-1))
    variance: Tensor = quantity(lambda self: self.mean)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = multinomial(rows, self._sizes("sample_shape", sample_shape).numel(), True)
            return drawn.t().reshape(self._extended_shape(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        index, logits = broadcast_tensors(value.to(int64).unsqueeze(-1), self.logits)
        return gather(logits, -1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(arange(self._num_events, device=self._param.device), expand)


class ByCategorical(Distribution):
    """Base of distributions with the parameters of a Categorical. Their samples are vectors of k
    elements."""

    arg_constraints: Regions = Categorical.arg_constraints
    _categorical: Categorical
    probs: Tensor = quantity(lambda self: self._categorical.probs)
    logits: Tensor = quantity(lambda self: self._categorical.logits)
    _param: Tensor = quantity(lambda self: self._categorical._param)
    param_shape: Size = quantity(lambda self: self._categorical.param_shape)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Check = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)


class OneHotCategorical(ByCategorical):
    """Categorical distribution whose samples are one-hot vectors."""

    support: Constraint = constraints.one_hot
    has_enumerate_support = True
    mean: Tensor = quantity(lambda self: self.probs)
    mode: Tensor = quantity(lambda self: self._one_hot(self.probs.argmax(-1)))
    variance: Tensor = quantity(lambda self: self.probs * (1 - self.probs))

    def _one_hot(self, index: Tensor) -> Tensor:
        return F.one_hot(index, self._event_shape[0]).type_as(self._param)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count, like = self._event_shape[0], self._param
        return self._enumerated(eye(count, dtype=like.dtype, device=like.device), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot distribution. Gradients of its samples pass unchanged to the probabilities.

    Source: Bengio et al., Estimating or propagating gradients through stochastic neurons, 2013.
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(ByCategorical):
    """Multinomial distribution: the number of times that each class occurs in total_count draws."""

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None,
        validate_args: Check = None,
    ) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise refused(self, "total_count", "be an int", total_count)
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return constraints.multinomial(self.total_count)

    mean: Tensor = quantity(lambda self: self.probs * self.total_count)
    variance: Tensor = quantity(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, drawn, ones_like(drawn)).type_as(self._param)

    def entropy(self) -> Tensor:
        counts = Binomial(self.total_count, probs=self.probs, validate_args=False)
        support = counts.enumerate_support(expand=False)[1:]
        weighted = counts.log_prob(support).exp() * (support + 1).lgamma()
        log_factorial = math.lgamma(self.total_count + 1)
        of_draws = self.total_count * self._categorical.entropy()
        return of_draws - log_factorial + weighted.sum((0, -1))

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        logits = where((value == 0) & (logits == -math.inf), 0.0, logits)
        factorials = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return factorials + (logits * value).sum(-1)
