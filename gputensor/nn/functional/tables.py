"""The embeddings of gt.nn.functional, and one_hot."""

from __future__ import annotations

from ..._generated import calls
from ...core import errors
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor

__all__ = ["embedding", "embedding_bag", "one_hot"]


@declares()
def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Return the rows of weight at the indices in input. The result has input's sizes, then the
    size of a row.

    padding_idx: a row that gets no gradient. max_norm: the rows that are looked up are scaled down
    to this norm, in place. scale_grad_by_freq: a row's gradient is divided by the number of times
    it is looked up.
    """
    padding = _padding("embedding", padding_idx, weight)
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    return calls.embedding(weight, input, padding, scale_grad_by_freq, sparse)


@declares()
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean, sum or max of the rows of weight in each bag of indices. Bags are the rows
    of a 2-d input, or the parts of a 1-d input that begin at offsets."""
    op = "embedding_bag"
    modes = {"sum": 0, "mean": 1, "max": 2}
    if mode not in modes:
        raise errors.must(op, "mode", "be 'sum', 'mean' or 'max'", mode)
    if input._geometry.ndim == 2:
        if offsets is not None:
            raise errors.must(op, "offsets", "be left out of a 2-d input", offsets)
        rows, each = input._geometry.sizes
        offsets = calls.mul_Tensor(calls.arange(rows, None, None, input._device, None), each)
        if per_sample_weights is not None:
            if per_sample_weights.shape != input.shape:
                rule = "have input's sizes"
                raise errors.wrong_shape(op, "per_sample_weights", rule, per_sample_weights)
            per_sample_weights = calls.reshape(per_sample_weights, (rows * each,))
    elif offsets is None:
        raise errors.must(op, "offsets", "be given for a 1-d input", offsets)
    flat = calls.reshape(input, (input._geometry.numel,))
    rest = (
        scale_grad_by_freq, modes[mode], sparse, per_sample_weights, include_last_offset,
        padding_idx,
    )  # fmt: skip
    if max_norm is not None:
        # this call raises the errors for wrong arguments before anything is written
        calls.embedding_bag_padding_idx(weight, flat, offsets, *rest)
        _renorm(weight, flat, max_norm, norm_type)
    return calls.embedding_bag_padding_idx(weight, flat, offsets, *rest)[0]


def _padding(op: str, padding_idx: int | None, weight: Tensor) -> int:
    if padding_idx is None:
        return -1
    rows = weight._geometry.sizes[0] if weight._geometry.ndim else 0
    if not -rows <= padding_idx < rows:
        raise errors.wrong_index(op, "padding_idx", f"be in [{-rows}, {rows - 1}]", padding_idx)
    return padding_idx % rows


def _renorm(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    calls.embedding_renorm_(weight.detach(), input, max_norm, norm_type)


@declares()
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return, for each index, a row of num_classes zeros with a 1 at the index. By default
    num_classes is the largest index plus one.

    With num_classes=-1, the host waits for the device, which computes the largest index.

    >>> gt.nn.functional.one_hot(gt.tensor([2, 0]))
    tensor([[0, 0, 1],
            [1, 0, 0]])
    """
    return calls.one_hot(tensor, num_classes)
