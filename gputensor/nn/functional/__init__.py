"""`gt.nn.functional`: operators under the signatures of `torch.nn.functional`.

Names instead of numbers for `reduction`, and PyTorch's order of arguments; what is computed is the
operators' business. `size_average` and `reduce`, which PyTorch has deprecated, keep their places
and must be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._generated import calls, functions
from ...core import errors
from ...core.arguments import flag, real
from ...core.dtype import dtype as _dtype
from ...iterator.broadcast import broadcast_sizes
from ...structured import arguments
from ...tensor.tensor import Tensor
from . import activation, attention, dropouts, normalization, pooling, tables
from .activation import *  # noqa: F403
from .attention import *  # noqa: F403
from .dropouts import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pooling import *  # noqa: F403
from .tables import *  # noqa: F403

# Functions of gt, under the same names and with the same arguments.
_OF_GT = (
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_similarity", "pairwise_distance", "pdist",
)  # fmt: skip

__all__ = [
    "bilinear", "channel_shuffle", "cross_entropy", "fold", "linear", "log_softmax", "mse_loss",
    "nll_loss", "pad", "pixel_shuffle", "pixel_unshuffle", "relu", "softmax", "softmin", "unfold",
    *activation.__all__, *attention.__all__, *dropouts.__all__, *normalization.__all__,
    *pooling.__all__, *tables.__all__, *_OF_GT,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _OF_GT:
        return getattr(functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.t() + bias.

    Args:
        input: (..., in_features). weight: (out_features, in_features). bias: (out_features).
    Returns: (..., out_features).
    """
    _tensors("linear", input=input, weight=weight, bias=bias)
    return calls.linear(input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[k] @ input2 for each feature k of the result, plus bias."""
    _tensors("bilinear", input1=input1, input2=input2, weight=weight, bias=bias)
    return calls.bilinear(input1, input2, weight, bias)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Each element, and zero in place of the negative ones."""
    _tensors("relu", input=input)
    return input.relu_() if flag("relu", "inplace", inplace) else calls.relu(input)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """exp of each element over their sum along dim. Raises: ArgumentTypeError without a dim."""
    _tensors("softmax", input=input)
    return calls.softmax_int(input, _given("softmax", dim), dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """Logarithm of softmax along dim. Raises: ArgumentTypeError without a dim."""
    _tensors("log_softmax", input=input)
    return calls.log_softmax_int(input, _given("log_softmax", dim), dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """softmax of -input along dim. Raises: ArgumentTypeError without a dim."""
    _tensors("softmin", input=input)
    return calls.softmax_int(calls.neg(input), _given("softmin", dim), dtype)


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus the log-probability of each target class, weighted; their mean by weight, sum, or each.

    Args:
        input: log-probabilities, (C), (N, C) or (N, C, d1, ...), floating.
        target: classes, (), (N) or (N, d1, ...), int64 or uint8.
        weight: (C), a factor for each class.
        ignore_index: a target that counts nothing.
        reduction: "mean", "sum" or "none".
    Raises: IndexRangeError on the CPU for a target that is no class; on a CUDA device an assertion
        fails there, which the next synchronisation reports.
    """
    _tensors("nll_loss", input=input, target=target, weight=weight)
    number = _reduction("nll_loss", reduction, size_average, reduce)
    return calls.nll_loss_nd(input, target, weight, number, ignore_index)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """nll_loss of log_softmax over the classes.

    Args:
        input: (C), (N, C) or (N, C, d1, ...), any numbers.
        target: as in `nll_loss`, or probabilities of input's sizes and dtype.
        label_smoothing: in [0, 1], the share of the loss that all classes have in equal parts.
    Raises: as `nll_loss`.
    """
    _tensors("cross_entropy", input=input, target=target, weight=weight)
    number = _reduction("cross_entropy", reduction, size_average, reduce)
    return calls.cross_entropy_loss(
        input,
        target,
        weight,
        number,
        ignore_index,
        real("cross_entropy", "label_smoothing", label_smoothing),
    )


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Squared differences; their mean, sum, or each. weight: a factor for each and the mean."""
    _tensors("mse_loss", input=input, target=target, weight=weight)
    number = _reduction("mse_loss", reduction, size_average, reduce)
    x, y = input, target
    sizes = broadcast_sizes(tuple(x.shape), tuple(y.shape))
    if x.ndim != y.ndim and sizes is not None:  # so that a 0-d operand counts in promotion
        x, y = x.expand(sizes), y.expand(sizes)
    if weight is None:
        return calls.mse_loss(x, y, number)
    each = calls.mul_Tensor(calls.mse_loss(x, y, 0), weight)
    if reduction == "none":
        return each
    total = calls.sum(each)
    if reduction == "sum":
        return total
    return total / calls.sum(weight.expand(each.shape))


# --- shape ----------------------------------------------------------------------------------------


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """With elements before and after each of the last dimensions, the last one first.

    Args:
        pad: how many, (before, after) for each dimension; negative numbers cut.
        mode: "constant", "reflect", "replicate" or "circular".
        value: of mode "constant", 0 unless given.
    """
    _tensors("pad", input=input)
    return calls.pad(input, pad, mode, value)


def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of each plane as columns: (N, C, H, W) to (N, C kh kw, L)."""
    _tensors("unfold", input=input)
    return calls.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Tensor:  # fmt: skip
    """Columns added up where `unfold` takes them from: (N, C kh kw, L) to (N, C, H, W)."""
    _tensors("fold", input=input)
    return calls.col2im(input, output_size, kernel_size, dilation, padding, stride)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels spread over the plane: (*, C r r, H, W) to (*, C, H r, W r)."""
    _tensors("pixel_shuffle", input=input)
    return calls.pixel_shuffle(input, upscale_factor)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """The plane gathered into channels: (*, C, H r, W r) to (*, C r r, H, W)."""
    _tensors("pixel_unshuffle", input=input)
    return calls.pixel_unshuffle(input, downscale_factor)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of groups taken in turn, one from each group."""
    _tensors("channel_shuffle", input=input)
    return calls.channel_shuffle(input, groups)


# Operands that may not be left out, where they are not input and target.
_NEEDED = {"linear": ("input", "weight")}


def _tensors(op: str, **operands: Any) -> None:
    for arg, x in operands.items():
        if not isinstance(x, Tensor) and (
            x is not None or arg in _NEEDED.get(op, ("input", "target"))
        ):
            raise errors.not_a_tensor(op, arg, "a Tensor", x)


def _given(op: str, dim: int | None) -> int:
    if dim is None:
        raise errors.not_given(op, "dim")
    return arguments.integer(op, "dim", dim)


def _reduction(op: str, reduction: str, size_average: Any, reduce: Any) -> int:
    for arg, value in (("size_average", size_average), ("reduce", reduce)):
        if value is not None:
            raise errors.must(op, arg, "be left out", value, remedy="use reduction=")
    if not isinstance(reduction, str) or reduction not in _REDUCTIONS:
        raise errors.must(
            op, "reduction", "be 'none', 'mean' or 'sum'", reduction, kind=errors.ArgumentValueError
        )
    return _REDUCTIONS[reduction]
