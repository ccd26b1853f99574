"""`linear_cross_entropy`: the cross entropy of a linear layer's output, computed at once or in
chunks of samples.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

from ..._generated import calls
from ...autograd.function import Function
from ...core import dtype as dtypes, errors
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from .loss import cross_entropy

__all__ = ["linear_cross_entropy"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_ACC_DTYPES = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
_OP = "LinearCrossEntropyOptions"


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Options of `linear_cross_entropy` for computing in chunks of samples. The logits of all
    samples then never exist at the same time. Backward computes the logits again, also in chunks.

    allow_retain_graph: accepted; any number of backward passes is allowed.
    batch_chunk_size: samples of a chunk, or None.
    chunking_method: "aspect_ratio" makes the logits of a chunk as large as the input,
        "aspect_ratio:N" an N-th of that. "auto" means "aspect_ratio" for 16-bit floats on the CPU,
        "aspect_ratio:2" otherwise. Ignored with a batch_chunk_size.
    acc_policy: "auto", "accurate", "balanced" or "compact"; in gputensor each of them uses
    acc_dtype.
    acc_dtype: the dtype of the arithmetic; by default float32 for 16-bit floats, otherwise the
        input's.
    Source: torch/nn/modules/linear_cross_entropy_options.py.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise errors.wrong_value(_OP, "acc_policy", f"be one of {_POLICIES}", self.acc_policy)
        method = self.chunking_method
        if method not in (None, "auto"):
            name, colon, factor = str(method).partition(":")
            if name != "aspect_ratio" or colon and not (factor.isdigit() and int(factor)):
                rule = "be None, 'auto', 'aspect_ratio' or 'aspect_ratio:N'"
                raise errors.wrong_value(_OP, "chunking_method", rule, method)
        size = self.batch_chunk_size
        if size is not None and (type(size) is not int or size < 1):
            raise errors.wrong_value(_OP, "batch_chunk_size", "be positive, or None", size)
        if self.acc_dtype is not None and self.acc_dtype not in _ACC_DTYPES:
            rule = "be None or a floating dtype of 16, 32 or 64 bits"
            raise errors.wrong_value(_OP, "acc_dtype", rule, self.acc_dtype)

    def _samples(self, input: Tensor, classes: int) -> int:
        """Return the number of samples in a chunk."""
        count, features = input.shape
        method, size = self.chunking_method, self.batch_chunk_size
        if method == "auto" and size is not None:
            method = None
        if method == "auto":
            is_small = input.device.type == "cpu" and input.dtype.itemsize == 2
            method = "aspect_ratio" if is_small else "aspect_ratio:2"
        if method is None:
            return min(size or count, count)
        target = -(-count // max(-(-classes // max(features, 1)), 1))
        power = 1 << max(target - 1, 0).bit_length()
        made = min(power // int(method.partition(":")[2] or 1), count)
        if size is not None and size != made:
            rule = f"be left out, or {made}, as chunking_method says"
            raise errors.wrong_value(_OP, "batch_chunk_size", rule, size)
        return made


@declares()
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
) -> Tensor:  # fmt: skip
    """Return cross_entropy of input @ linear_weight.t() + linear_bias.

    Args:
        input: (in_features) or (N, in_features).
        linear_weight: (C, in_features), or (C, d1, ..., in_features) for targets (N, d1, ...).
        options: compute in chunks of samples. Ignored, with a warning, for targets with further
            dimensions, for probabilities and with label_smoothing.
    """
    op = "linear_cross_entropy"
    named = {"input": input, "linear_weight": linear_weight, "target": target}
    for arg, x in named.items():
        if not isinstance(x, Tensor):
            raise errors.not_a_tensor(op, arg, "a Tensor", x)
    if linear_bias is not None and not isinstance(linear_bias, Tensor):
        raise errors.not_a_tensor(op, "linear_bias", "a Tensor", linear_bias)
    if options is not None and not isinstance(options, LinearCrossEntropyOptions):
        raise errors.wrong_type(op, "options", f"be None or {_OP}", options)
    if input.ndim not in (1, 2):
        raise errors.wrong_shape(op, "input", "have one or two dimensions", input)
    outer = tuple(linear_weight.shape[:-1])
    if linear_weight.ndim < 2 or linear_weight.shape[-1] != input.shape[-1]:
        rule = f"have two dimensions or more, the last of size {input.shape[-1]}, as input's"
        raise errors.wrong_shape(op, "linear_weight", rule, linear_weight)
    if linear_bias is not None and tuple(linear_bias.shape) != outer:
        raise errors.wrong_shape(op, "linear_bias", f"have sizes {list(outer)}", linear_bias)
    if len(outer) > 1 and input.ndim == 1:
        raise errors.wrong_shape(op, "input", "have samples beside this linear_weight", input)
    sizes = (*input.shape[:-1], *outer)
    if ignore_index is not None and tuple(target.shape) == sizes:
        rule = "be left out where target holds probabilities"
        raise errors.must(op, "ignore_index", rule, ignore_index)
    ignored = -100 if ignore_index is None else ignore_index
    if options is not None:
        of_classes = len(outer) == 1 and target.dtype is dtypes.int64
        if of_classes and not label_smoothing and reduction in ("mean", "sum", "none"):
            given = input, linear_weight, target, linear_bias, weight
            return _chunked(options, reduction, ignored, *given)
        warnings.warn(errors.linear_loss_is_whole(), UserWarning, stacklevel=2)
    rows = linear_weight.reshape(math.prod(outer), input.shape[-1])
    bias = None if linear_bias is None else linear_bias.reshape(math.prod(outer))
    return cross_entropy(
        calls.linear(input, rows, bias).reshape(sizes), target, weight, reduction=reduction,
        ignore_index=ignored, label_smoothing=label_smoothing,
    )  # fmt: skip


def _chunked(
    options: LinearCrossEntropyOptions, reduction: str, ignored: int, input: Tensor, rows: Tensor,
    target: Tensor, bias: Tensor | None, weight: Tensor | None,
) -> Tensor:  # fmt: skip
    """Compute the losses, one chunk of samples after the other."""
    if input.ndim == 1:
        each = input.unsqueeze(0), rows, target.unsqueeze(0), bias, weight
        made = _chunked(options, reduction, ignored, *each)
        return made.squeeze(0) if reduction == "none" else made
    acc = options.acc_dtype
    if acc is None:
        acc = dtypes.float32 if input.dtype.itemsize == 2 else input.dtype
    size, count = max(options._samples(input, len(rows)), 1), len(input)
    x, rows = input.to(acc), rows.to(acc)
    bias, weight = (None if p is None else p.to(acc) for p in (bias, weight))
    parts = [
        _Chunk.apply(x[n : n + size], rows, bias, target[n : n + size], weight, ignored)
        for n in range(0, max(count, 1), size)
    ]
    found: Tensor = calls.cat(parts, 0) if len(parts) > 1 else parts[0]
    if reduction == "sum":
        found = found.sum()
    elif reduction == "mean":
        found = found.sum() / _weights(target, weight, ignored, acc).sum()
    return found.to(input.dtype)


def _weights(target: Tensor, weight: Tensor | None, ignored: int, of: Any) -> Any:
    """Return the factor of each sample: the weight of its class, or 0 if the class is ignored."""
    kept = (target != ignored).to(of)
    if weight is None:
        return kept
    return weight[calls.where_self(target != ignored, target, 0)] * kept


class _Chunk(Function):
    """The losses of a chunk of samples. Logits are not saved; backward computes them again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor, rows: Tensor, bias: Tensor | None, target: Tensor, weight: Tensor | None,
        ignored: int,
    ) -> Any:  # fmt: skip
        logits = calls.linear(x, rows, bias)
        return cross_entropy(logits, target, weight, reduction="none", ignore_index=ignored)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:5])
        ctx.save_for_forward(*inputs[:5])
        ctx.ignored = inputs[5]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, rows, bias, _, _ = ctx.saved_tensors
        slope = _slope(ctx) * grad.unsqueeze(1)
        needed = ctx.needs_input_grad
        return (
            slope @ rows if needed[0] else None,
            slope.mT @ x if needed[1] else None,
            slope.sum(0) if bias is not None and needed[2] else None,
            None, None, None,
        )  # fmt: skip

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        x, rows, *_ = ctx.saved_tensors
        s, t, b = tangents[:3]
        moved = s @ rows.mT + x @ t.mT
        moved = moved if b is None else moved + b
        return (_slope(ctx) * moved).sum(1)


def _slope(ctx: Any) -> Any:
    """Return the derivative of each sample's loss with respect to its logits."""
    x, rows, bias, target, weight = ctx.saved_tensors
    classes = calls.where_self(target != ctx.ignored, target, 0).unsqueeze(1)
    shares = calls.linear(x, rows, bias).softmax(1)
    ones = shares.new_ones(()).expand(classes.shape)
    apart = shares.scatter_add(1, classes, -ones)
    return apart * _weights(target, weight, ctx.ignored, shares.dtype).unsqueeze(1)
