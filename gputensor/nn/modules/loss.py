"""Losses as modules: functions of gt.nn.functional with their options fixed, and those that have
parameters of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence as Numbers
from typing import Any, NamedTuple

from ..._generated import calls
from ...core import errors
from ...tensor.tensor import Tensor
from .. import functional as F
from .container import ModuleList, Sequential
from .functional import Fixed
from .linear import Linear
from .module import Module


class _Loss(Fixed):
    """A function of what a network gives and of what it should. weight: a buffer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("weight", "pos_weight"):
            if name in self.options:
                self.register_buffer(name, self.__dict__.pop(name))

    def extra_repr(self) -> str:
        return ""


def _loss(name: str, function: str, doc: str, **options: Any) -> type[_Loss]:
    made = {"__doc__": doc, "__module__": __name__, "function": function, "options": options}
    return type(name, (_Loss,), made)


_OLD: dict[str, Any] = {"size_average": None}
_REDUCED: dict[str, Any] = {"size_average": None, "reduce": None, "reduction": "mean"}
MSELoss = _loss("MSELoss", "mse_loss", "Mean of the squared differences.", **_REDUCED)
L1Loss = _loss("L1Loss", "l1_loss", "Mean of the absolute differences.", **_REDUCED)
NLLLoss = _loss(
    "NLLLoss",
    "nll_loss",
    "Minus the log-probability of the classes.",
    weight=None,
    **_OLD,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
)
CrossEntropyLoss = _loss(
    "CrossEntropyLoss",
    "cross_entropy",
    "NLLLoss of log-softmax.",
    weight=None,
    **_OLD,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
)
BCELoss = _loss(
    "BCELoss", "binary_cross_entropy", "Cross entropy of probabilities.", weight=None, **_REDUCED
)
BCEWithLogitsLoss = _loss(
    "BCEWithLogitsLoss",
    "binary_cross_entropy_with_logits",
    "Cross entropy of a sigmoid.",
    weight=None,
    **_REDUCED,
    pos_weight=None,
)
KLDivLoss = _loss(
    "KLDivLoss", "kl_div", "Divergence of distributions.", **_REDUCED, log_target=False
)
HuberLoss = _loss(
    "HuberLoss",
    "huber_loss",
    "Squared near 0, else absolute differences.",
    reduction="mean",
    delta=1.0,
)
SmoothL1Loss = _loss(
    "SmoothL1Loss", "smooth_l1_loss", "Huber's loss over beta.", **_REDUCED, beta=1.0
)
SoftMarginLoss = _loss("SoftMarginLoss", "soft_margin_loss", "log(1 + exp(-y x)).", **_REDUCED)
PoissonNLLLoss = _loss(
    "PoissonNLLLoss",
    "poisson_nll_loss",
    "Of counts.",
    log_input=True,
    full=False,
    **_OLD,
    eps=1e-8,
    reduce=None,
    reduction="mean",
)
MarginRankingLoss = _loss(
    "MarginRankingLoss", "margin_ranking_loss", "Of an order of two inputs.", margin=0.0, **_REDUCED
)
CosineEmbeddingLoss = _loss(
    "CosineEmbeddingLoss", "cosine_embedding_loss", "Of angles.", margin=0.0, **_REDUCED
)
TripletMarginLoss = _loss(
    "TripletMarginLoss",
    "triplet_margin_loss",
    "Of distances to two others.",
    margin=1.0,
    p=2.0,
    eps=1e-6,
    swap=False,
    **_REDUCED,
)
MultiMarginLoss = _loss(
    "MultiMarginLoss",
    "multi_margin_loss",
    "Of one class of each row above the others.",
    p=1,
    margin=1.0,
    weight=None,
    **_REDUCED,
)
MultiLabelMarginLoss = _loss(
    "MultiLabelMarginLoss",
    "multilabel_margin_loss",
    "Of some classes of each row above the others.",
    **_REDUCED,
)
MultiLabelSoftMarginLoss = _loss(
    "MultiLabelSoftMarginLoss",
    "multilabel_soft_margin_loss",
    "Cross entropy of a sigmoid for each class.",
    weight=None,
    **_REDUCED,
)
HingeEmbeddingLoss = _loss(
    "HingeEmbeddingLoss",
    "hinge_embedding_loss",
    "Of distances that should be small or large.",
    margin=1.0,
    **_REDUCED,
)
GaussianNLLLoss = _loss(
    "GaussianNLLLoss",
    "gaussian_nll_loss",
    "Of numbers with a variance.",
    full=False,
    eps=1e-6,
    reduction="mean",
)
TripletMarginWithDistanceLoss = _loss(
    "TripletMarginWithDistanceLoss",
    "triplet_margin_with_distance_loss",
    "TripletMarginLoss by a distance of one's own.",
    distance_function=None,
    margin=1.0,
    swap=False,
    reduction="mean",
)


CTCLoss = _loss(
    "CTCLoss",
    "ctc_loss",
    "Of all alignments of a text to steps in time.",
    blank=0,
    reduction="mean",
    zero_infinity=False,
)


class NLLLoss2d(NLLLoss):  # type: ignore[valid-type, misc]
    """NLLLoss, by an older name."""


# --- with parameters ------------------------------------------------------------------------------


class LinearCrossEntropyLoss(Module):
    """CrossEntropyLoss of a linear layer, `linear`, which is its own."""

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (),
        bias: bool = False, device: Any = None, dtype: Any = None, reduction: str = "mean",
        weight: Tensor | None = None, ignore_index: int | None = None,
        label_smoothing: float = 0.0, options: None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            op = type(self).__name__
            raise errors.wrong_shape(op, "weight", f"have {num_classes} elements", weight)
        self.num_classes, self.out_features, self.reduction = num_classes, out_features, reduction
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.options = options
        self.register_buffer("weight", weight)
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

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
    """What AdaptiveLogSoftmaxWithLoss gives: the log-probability of each target, and the loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of many classes, of which the first are frequent and cheap.

    cutoffs: where clusters of classes begin behind the first, ascending. The cluster i has
        in_features / div_value**(i + 1) features.
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Numbers[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if not div_value >= 1:
            rule = "be at least 1"
            raise errors.must(type(self).__name__, "div_value", rule, div_value)
        bounds = list(cutoffs)
        if not bounds or bounds != sorted({int(c) for c in bounds if 0 < c < n_classes}):
            rule = f"be ascending integers in [1, {n_classes - 1}], at least one"
            op = type(self).__name__
            raise errors.must(op, "cutoffs", rule, bounds, kind=errors.ArgumentValueError)
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs, self.div_value, self.head_bias = [*bounds, n_classes], div_value, head_bias
        self.shortlist_size, self.n_clusters = bounds[0], len(bounds)
        self.head_size = self.shortlist_size + self.n_clusters
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **like)
        self.tail = ModuleList()
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
        """Draw all weights again."""
        self.head.reset_parameters()
        for inner, outer in self.tail:
            inner.reset_parameters()
            outer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> AdaptiveLogSoftmax:
        """input_: (N, in_features). target_: (N), classes; both without N too."""
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
        """It waits for the values, as PyTorch does."""
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
        """(N, n_classes): log-probabilities of all classes."""
        return self._of_all(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """(N): the most probable class; of those behind the first, where their cluster is."""
        head_output = self.head(input)
        first = calls.argmax(head_output, 1)
        return calls.where_self(
            first < self.shortlist_size, first, calls.argmax(self._of_all(input, head_output), 1)
        )


__all__ = [
    name
    for name, value in list(vars().items())
    if isinstance(value, type) and issubclass(value, Module) and value.__module__ == __name__
    and name[0] != "_"
]  # fmt: skip
