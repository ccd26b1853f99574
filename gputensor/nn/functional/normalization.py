"""The normalization functions of gt.nn.functional."""

from __future__ import annotations

import math
from typing import Any

from ..._generated import calls, functions
from ...core import errors
from ...structured import arguments
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "local_response_norm", "normalize",
]  # fmt: skip


@declares()
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalize each group of channels of each sample, then multiply by weight and add bias.

    Raises: ArgumentValueError if a group has only one value.
    """
    sizes = tuple(input.shape)
    if len(sizes) > 1 and isinstance(num_groups, int) and num_groups > 0:
        _more_than_one("group_norm", input, sizes[0] * sizes[1] // num_groups, *sizes[2:])
    return calls.group_norm(input, num_groups, weight, bias, eps, False)


@declares()
def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalize each channel to mean 0 and variance 1. Training uses the batch's statistics and
    updates the running statistics by momentum; evaluation uses the running statistics.

    Raises: ArgumentValueError in training if a channel has only one value.
    """
    sizes = tuple(input.shape)
    if training and len(sizes) > 1:
        _more_than_one("batch_norm", input, sizes[0], *sizes[2:])
    return calls.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
    )


@declares()
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalize each channel of each sample to mean 0 and variance 1.

    Raises: ArgumentValueError if a channel has only one value.
    """
    if use_input_stats:
        _more_than_one("instance_norm", input, *tuple(input.shape)[2:])
    return calls.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False
    )


@declares()
def normalize(
    input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Divide input by its p-norms along dim. Norms below eps are replaced by eps.

    >>> gt.nn.functional.normalize(gt.tensor([3.0, 4.0]), dim=0)
    tensor([0.6000, 0.8000])
    """
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor("normalize", "input", "a Tensor", input)
    dims = arguments.dims("normalize", dim, input.ndim)
    size = calls.clamp_min(calls.linalg_vector_norm(input, p, dims, True), eps)
    return functions.div(input, size, out=out)


@declares()
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide each element by (k + alpha * m) ** beta, where m is the mean square of `size`
    neighbouring channels.

    Args: input: (N, C, ...).
    """
    op = "local_response_norm"
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor(op, "input", "a Tensor", input)
    if input.ndim < 3:
        raise errors.wrong_shape(op, "input", "have three dimensions or more", input)
    if arguments.integer(op, "size", size) < 1:
        raise errors.must(op, "size", "be positive", size)
    if not input._geometry.numel:
        return input
    squares = calls.movedim_int(calls.mul_Tensor(input, input), 1, -1)
    padded = calls.constant_pad_nd(squares, (size // 2, (size - 1) // 2), 0)
    means = calls.mean_dim(calls.unfold(padded, -1, size, 1), (-1,))
    around: Any = calls.movedim_int(means, -1, 1)
    made: Tensor = input / (around * alpha + k) ** beta
    return made


def _more_than_one(op: str, input: Tensor, *counts: int) -> None:
    if math.prod(counts) == 1:
        rule = "have more than one value to normalise together"
        raise errors.must(op, "input", rule, input, kind=errors.ArgumentValueError)
