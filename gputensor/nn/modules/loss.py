"""Loss modules: functions of gt.nn.functional with fixed options, and losses that have
parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence as Numbers
from typing import Any, NamedTuple

from ..._generated import calls
from ...core import arguments, errors
from ...tensor.tensor import Tensor
from .. import functional as F
from ..functional.linear_loss import LinearCrossEntropyOptions
from .container import ModuleList, Sequential
from .functional import Fixed
from .linear import Linear
from .module import Module


class _WithOptions(Fixed):
    """Base class of losses with fixed options. Their weights are buffers. The deprecated options
    `size_average` and `reduce` become a `reduction`."""

    def _complete(self) -> None:
        old = [self.__dict__.get(name) for name in ("size_average", "reduce")]
        if any(x is not None for x in old):
            found = arguments.old_reduction(type(self).__name__, *old)
            vars(self).update(reduction=found, size_average=None, reduce=None)
        for name in ("weight", "pos_weight"):
            if name in self.options:
                self.register_buffer(name, self.__dict__.pop(name))

    def extra_repr(self) -> str:
        return ""


class _Loss(_WithOptions):
    """Base class of losses with the option `reduction` and PyTorch's deprecated options
    `size_average` and `reduce`."""

    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"


class _WeightedLoss(_WithOptions):
    """Base class of losses with a weight for each class or element."""

    weight: Tensor | None = None
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"


class _MarginLoss(_WithOptions):
    """Base class of losses with the option `margin`."""

    margin: float = 0.0
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"


class MSELoss(_Loss, function="mse_loss"):
    """Mean of the squared differences."""


class L1Loss(_Loss, function="l1_loss"):
    """Mean of the absolute differences."""


class _ClassLoss(_WithOptions):
    """Base class of losses whose targets are classes. One class may be ignored."""

    weight: Tensor | None = None
    size_average: bool | None = None
    ignore_index: int = -100
    reduce: bool | None = None
    reduction: str = "mean"


class NLLLoss(_ClassLoss, function="nll_loss"):
    """Negative log-likelihood of the target classes."""


class CrossEntropyLoss(_ClassLoss, function="cross_entropy"):
    """NLLLoss of log-softmax."""

    label_smoothing: float = 0.0


class BCELoss(_WeightedLoss, function="binary_cross_entropy"):
    """Binary cross entropy of probabilities."""


class BCEWithLogitsLoss(_WeightedLoss, function="binary_cross_entropy_with_logits"):
    """Binary cross entropy of the sigmoid of the input."""

    pos_weight: Tensor | None = None


class KLDivLoss(_Loss, function="kl_div"):
    """Kullback-Leibler divergence; the input contains log-probabilities."""

    log_target: bool = False


class HuberLoss(_WithOptions, function="huber_loss"):
    """Half the squared difference where the absolute difference is below delta, and a linear
    function of the absolute difference elsewhere."""

    reduction: str = "mean"
    delta: float = 1.0


class SmoothL1Loss(_Loss, function="smooth_l1_loss"):
    """HuberLoss with delta=beta, divided by beta."""

    beta: float = 1.0


class SoftMarginLoss(_Loss, function="soft_margin_loss"):
    """log(1 + exp(-y x)) for each input x and target y."""


class PoissonNLLLoss(_WithOptions, function="poisson_nll_loss"):
    """Negative log-likelihood of Poisson counts."""

    log_input: bool = True
    full: bool = False
    size_average: bool | None = None
    eps: float = 1e-8
    reduce: bool | None = None
    reduction: str = "mean"

    def forward(self, log_input: Tensor, target: Tensor) -> Any:
        return super().forward(log_input, target)


class MarginRankingLoss(_MarginLoss, function="margin_ranking_loss"):
    """max(0, -y (x1 - x2) + margin): x1 should rank above x2 for target y = 1, and below x2 for y =
    -1."""


class CosineEmbeddingLoss(_MarginLoss, function="cosine_embedding_loss"):
    """1 - cos for target 1, and max(0, cos - margin) for target -1; cos is the cosine of the angle
    between two inputs."""


class TripletMarginLoss(_WithOptions, function="triplet_margin_loss"):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), with d the p-norm distance."""

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"


class MultiMarginLoss(_WithOptions, function="multi_margin_loss"):
    """Multi-class hinge loss: the score of the target should exceed the other scores by margin."""

    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"


class MultiLabelMarginLoss(_Loss, function="multilabel_margin_loss"):
    """Multi-label hinge loss: the scores of the targets should exceed the other scores by 1."""


class MultiLabelSoftMarginLoss(_WeightedLoss, function="multilabel_soft_margin_loss"):
    """Binary cross entropy of the sigmoid of each class, averaged over the classes."""


class HingeEmbeddingLoss(_MarginLoss, function="hinge_embedding_loss"):
    """x for target 1, max(0, margin - x) for target -1; x is a distance."""

    margin: float = 1.0


class GaussianNLLLoss(_WithOptions, function="gaussian_nll_loss"):
    """Negative log-likelihood of Gaussian targets with a given variance."""

    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"


class TripletMarginWithDistanceLoss(_WithOptions, function="triplet_margin_with_distance_loss"):
    """TripletMarginLoss with a given distance function."""

    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"


class CTCLoss(_WithOptions, function="ctc_loss"):
    """Connectionist temporal classification loss over all alignments of a target sequence."""

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False


class NLLLoss2d(NLLLoss):
    """The older name of NLLLoss."""


# --- with parameters ------------------------------------------------------------------------------


class LinearCrossEntropyLoss(Module):
    """CrossEntropyLoss of the output of a linear layer. The layer is the module's attribute
    `linear`."""

    num_classes: int
    out_features: tuple[int, ...]
    reduction: str
    ignore_index: int | None
    label_smoothing: float

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (),
        bias: bool = False, device: Any = None, dtype: Any = None, reduction: str = "mean",
        weight: Tensor | None = None, ignore_index: int | None = None,
        label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            op = type(self).__name__
            raise errors.wrong_shape(op, "weight", f"have {num_classes} elements", weight)
        self.num_classes, self.out_features, self.reduction = num_classes, out_features, reduction
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.options: LinearCrossEntropyOptions | None = options
        self.register_buffer("weight", weight)
        rows = math.prod(out_features, start=num_classes)
        self.linear: Linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        linear, outer = self.linear, (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            linear.weight.reshape(*outer, linear.in_features),
            target,
            linear_bias=None if linear.bias is None else linear.bias.reshape(outer),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class AdaptiveLogSoftmax(NamedTuple):
    """The result of AdaptiveLogSoftmaxWithLoss: the log-probability of each target, and the
    loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Adaptive softmax: log-probabilities of many classes. Frequent classes must have the lowest
    indices, and they take the least time.

    cutoffs: the first class of each cluster after the shortlist, in ascending order. Cluster i has
        in_features / div_value**(i + 1) features.
    """

    in_features: int
    n_classes: int
    shortlist_size: int
    n_clusters: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Numbers[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if not div_value >= 1:
            raise errors.must(type(self).__name__, "div_value", "be at least 1", div_value)
        bounds = list(cutoffs)
        if not bounds or bounds != sorted({int(c) for c in bounds if 0 < c < n_classes}):
            rule = f"be ascending integers in [1, {n_classes - 1}], at least one"
            op = type(self).__name__
            raise errors.must(op, "cutoffs", rule, bounds, kind=errors.ArgumentValueError)
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs, self.div_value, self.head_bias = [*bounds, n_classes], div_value, head_bias
        self.shortlist_size, self.n_clusters = bounds[0], len(bounds)
        self.head_size: int = self.shortlist_size + self.n_clusters
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head: Linear = Linear(in_features, self.head_size, bias=head_bias, **like)
        self.tail: ModuleList = ModuleList()
        for i in range(self.n_clusters):
            inner = int(in_features // div_value ** (i + 1))
            outer = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, inner, bias=False, **like),
                    Linear(inner, outer, bias=False, **like),
                )
            )

    def reset_parameters(self) -> None:
        """Initialise all weights anew."""
        self.head.reset_parameters()
        for inner, outer in self.tail:
            inner.reset_parameters()
            outer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> AdaptiveLogSoftmax:
        """Return the log-probability of each target, and the loss. input_: (N, in_features) or
        (in_features). target_: classes, (N) or ()."""
        op, ndim = type(self).__name__, target_.ndim
        if ndim > 1 or input_.ndim != ndim + 1 or ndim and len(input_) != len(target_):
            rule = "be (N) for an input (N, in_features), or 0-d for one without N"
            raise errors.wrong_shape(op, "target_", rule, target_)
        if ndim == 0:
            output, loss = self(input_.unsqueeze(0), target_.unsqueeze(0))
            return AdaptiveLogSoftmax(output.squeeze(0), loss)
        self._check(target_)
        output, places = input_.new_zeros(len(target_)), target_
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            inside = (target_ >= low) & (target_ < high)
            rows = inside.nonzero().squeeze(1)
            if not rows.numel():
                continue
            logs = F.log_softmax(self.tail[i](input_.index_select(0, rows)), dim=1)
            chosen = (target_.index_select(0, rows) - low).unsqueeze(1)
            output = output.index_copy(0, rows, logs.gather(1, chosen).squeeze(1))
            places = places.masked_fill(inside, self.shortlist_size + i)
        head = F.log_softmax(self.head(input_), dim=1)
        output = output + head.gather(1, places.unsqueeze(1)).squeeze(1)
        return AdaptiveLogSoftmax(output, (-output).mean())

    def _check(self, target: Tensor) -> None:
        """Raise an error for a target outside the classes. The call waits for the values of the
        targets, as in PyTorch."""
        outside = target[(target < 0) | (target >= self.n_classes)]
        if outside.numel():
            rule, got = f"hold classes in [0, {self.n_classes - 1}]", str(outside[0].item())
            op = type(self).__name__
            raise errors.must(op, "target_", rule, errors.Got(got), kind=errors.IndexRangeError)

    def _of_all(self, input: Tensor, head_output: Tensor) -> Tensor:
        head, parts = F.log_softmax(head_output, dim=1), []
        for i in range(self.n_clusters):
            place = self.shortlist_size + i
            parts.append(F.log_softmax(self.tail[i](input), dim=1) + head[:, place : place + 1])
        return calls.cat([head[:, : self.shortlist_size], *parts], 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, (N, n_classes)."""
        return self._of_all(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each sample, (N)."""
        head_output = self.head(input)
        first = calls.argmax(head_output, 1)
        return calls.where_self(
            first < self.shortlist_size, first, calls.argmax(self._of_all(input, head_output), 1)
        )


__all__ = [
    "MSELoss", "L1Loss", "NLLLoss", "CrossEntropyLoss", "BCELoss", "BCEWithLogitsLoss",
    "KLDivLoss", "HuberLoss", "SmoothL1Loss", "SoftMarginLoss", "PoissonNLLLoss",
    "MarginRankingLoss", "CosineEmbeddingLoss", "TripletMarginLoss", "MultiMarginLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "HingeEmbeddingLoss", "GaussianNLLLoss",
    "TripletMarginWithDistanceLoss", "CTCLoss", "NLLLoss2d", "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions",
    "AdaptiveLogSoftmaxWithLoss",
]  # fmt: skip
