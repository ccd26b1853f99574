"""The pooling functions of gt.nn.functional that do more than call an operator. All other pooling
functions are operators: rows of native_functions.yaml with a field `nn`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._generated import calls, nn
from ...core import errors
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from ._types import Ints, Reals, Sizes

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


@declares()
def max_pool1d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
    dilation: Ints = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Return the largest element of each window. With return_indices, return its index too."""
    found = nn.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


@declares()
def max_pool2d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
    dilation: Ints = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Return the largest element of each window. With return_indices, return its index too.

    >>> gt.nn.functional.max_pool2d(gt.arange(16.0).view(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    found = nn.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


@declares()
def max_pool3d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
    dilation: Ints = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Return the largest element of each window. With return_indices, return its index too."""
    found = nn.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


def _sizes(op: str, input: Tensor, output_size: Any, count: int) -> Any:
    """Return the output sizes. None stands for the size of the input."""
    if not isinstance(output_size, (list, tuple)):
        output_size = (output_size,) * count
    if len(output_size) != count or input.ndim < count:
        raise errors.must(op, "output_size", f"be one int or {count}", output_size)
    given = tuple(input.shape)[-count:]
    return tuple([n if size is None else size for size, n in zip(output_size, given)])


@declares()
def adaptive_avg_pool2d(input: Tensor, output_size: Sizes) -> Tensor:
    """Return means over output_size windows. None in output_size keeps the input's size."""
    sizes = _sizes("adaptive_avg_pool2d", input, output_size, 2)
    return calls.adaptive_avg_pool2d(input, sizes)


@declares()
def adaptive_avg_pool3d(input: Tensor, output_size: Sizes) -> Tensor:
    """Return means over output_size windows. None in output_size keeps the input's size."""
    sizes = _sizes("adaptive_avg_pool3d", input, output_size, 3)
    return calls.adaptive_avg_pool3d(input, sizes)


@declares()
def adaptive_max_pool1d(input: Tensor, output_size: Ints, return_indices: bool = False) -> Any:
    """Return maxima over output_size windows. With return_indices, return their indices too."""
    found = calls.adaptive_max_pool1d(input, output_size)
    return found if return_indices else found[0]


@declares()
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Ints, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """Return maxima over output_size windows, and their indices."""
    found: tuple[Tensor, Tensor] = adaptive_max_pool1d(input, output_size, True)
    return found


@declares()
def adaptive_max_pool2d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """Return maxima over output_size windows. With return_indices, return their indices too."""
    sizes = _sizes("adaptive_max_pool2d", input, output_size, 2)
    found = calls.adaptive_max_pool2d(input, sizes)
    return found if return_indices else found[0]


@declares()
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Ints, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """Return maxima over output_size windows, and their indices."""
    found: tuple[Tensor, Tensor] = adaptive_max_pool2d(input, output_size, True)
    return found


@declares()
def adaptive_max_pool3d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """Return maxima over output_size windows. With return_indices, return their indices too."""
    sizes = _sizes("adaptive_max_pool3d", input, output_size, 3)
    found = calls.adaptive_max_pool3d(input, sizes)
    return found if return_indices else found[0]


@declares()
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Ints, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """Return maxima over output_size windows, and their indices."""
    found: tuple[Tensor, Tensor] = adaptive_max_pool3d(input, output_size, True)
    return found


def per_dimension(op: str, arg: str, value: Any, count: int) -> tuple[Any, ...]:
    """Return a tuple with one number for each dimension."""
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,) * count
    if len(found) != count:
        raise errors.wrong_value(op, arg, f"be a number or {count} of them", value)
    return found


def _fractional(
    count: int, input: Tensor, kernel_size: Ints, output_size: Any, output_ratio: Any,
    return_indices: bool, samples: Tensor | None,
) -> Any:  # fmt: skip
    op = f"fractional_max_pool{count}d"
    if (output_size is None) is (output_ratio is None):
        rule = "be given, or output_ratio instead, and not both"
        raise errors.wrong_value(op, "output_size", rule, output_size)
    if input.ndim not in (count + 1, count + 2):
        raise errors.wrong_shape(op, "input", f"have {count + 1} or {count + 2} dimensions", input)
    if output_size is None:
        ratios = per_dimension(op, "output_ratio", output_ratio, count)
        if not all(0 < ratio < 1 for ratio in ratios):
            raise errors.wrong_value(op, "output_ratio", "be between 0 and 1", output_ratio)
        output_size = [int(n * ratio) for n, ratio in zip(input.shape[-count:], ratios)]
    if samples is None:
        planes = (1, *input.shape)[-count - 2 : -count]
        samples = calls.rand((*planes, count), input.dtype, None, input.device, None)
    pool = calls.fractional_max_pool2d if count == 2 else calls.fractional_max_pool3d
    found = pool(
        input, per_dimension(op, "kernel_size", kernel_size, count),
        per_dimension(op, "output_size", output_size, count), samples,
    )  # fmt: skip
    return found if return_indices else found[0]


@declares()
def fractional_max_pool2d(
    input: Tensor, kernel_size: Ints, output_size: Sizes | None = None,
    output_ratio: Reals | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Return maxima over windows at random positions. output_size or output_ratio gives the number
    of windows."""
    return _fractional(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


@declares()
def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: Ints, output_size: Sizes | None = None,
    output_ratio: Reals | None = None, return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Return maxima over windows at random positions, and their indices in the input."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


@declares()
def fractional_max_pool3d(
    input: Tensor, kernel_size: Ints, output_size: Sizes | None = None,
    output_ratio: Reals | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Return maxima over windows at random positions. output_size or output_ratio gives the number
    of windows."""
    return _fractional(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


@declares()
def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: Ints, output_size: Sizes | None = None,
    output_ratio: Reals | None = None, return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Return maxima over windows at random positions, and their indices in the input."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)


def _lp(count: int, input: Tensor, p: float, kernel_size: Ints, stride: Any, ceil: bool) -> Tensor:
    kernel = per_dimension(f"lp_pool{count}d", "kernel_size", kernel_size, count)
    if math.isinf(p):
        pool = (max_pool1d, max_pool2d, max_pool3d)[count - 1]
        found: Tensor = pool(input.abs() * (1 if p > 0 else -1), kernel, stride, 0, 1, ceil)
        return found if p > 0 else -found
    mean = getattr(nn, f"avg_pool{count}d")(input**p, kernel, stride, 0, ceil)
    # sign and relu change no value, but they make the gradient 0 where the mean is 0
    mean = calls.sign(mean) * calls.relu(calls.abs(mean))
    made: Tensor = (mean * math.prod(kernel)) ** (1 / p)
    return made


@declares()
def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Return the norm_type-norm of each window."""
    return _lp(1, input, norm_type, kernel_size, stride, ceil_mode)


@declares()
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Return the norm_type-norm of each window."""
    return _lp(2, input, norm_type, kernel_size, stride, ceil_mode)


@declares()
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Return the norm_type-norm of each window."""
    return _lp(3, input, norm_type, kernel_size, stride, ceil_mode)


def _unpooled(
    count: int, input: Tensor, kernel_size: Ints, stride: Any, padding: Ints, output_size: Any
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Return (sizes of the result, stride, padding).

    If output_size is given, max_pool of such an input must produce the sizes of `input`.
    """
    op = f"max_unpool{count}d"
    kernel = per_dimension(op, "kernel_size", kernel_size, count)
    is_given = isinstance(stride, int) or stride is not None and len(stride)
    steps = per_dimension(op, "stride", stride if is_given else kernel, count)
    pads = per_dimension(op, "padding", padding, count)
    if input.ndim not in (count + 1, count + 2):
        raise errors.wrong_shape(op, "input", f"have {count + 1} or {count + 2} dimensions", input)
    least = [
        (n - 1) * s + k - 2 * p for n, s, k, p in zip(input.shape[-count:], steps, kernel, pads)
    ]
    if output_size is None:
        return least, steps, pads
    sizes = [output_size] if isinstance(output_size, int) else list(output_size)
    sizes = sizes[2:] if len(sizes) == count + 2 else sizes
    if len(sizes) != count or not all(m - s < n < m + s for n, m, s in zip(sizes, least, steps)):
        rule = f"be {count} sizes that differ from {least} by less than the stride {steps}"
        raise errors.wrong_value(op, "output_size", rule, output_size)
    return sizes, steps, pads


@declares()
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None = None,
    padding: Ints = 0, output_size: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return zeros, with the elements of input at the indices that max_pool1d returned."""
    sizes, _, _ = _unpooled(1, input, kernel_size, stride, padding, output_size)
    made = calls.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*sizes, 1])
    return made.squeeze(-1)


@declares()
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None = None,
    padding: Ints = 0, output_size: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return zeros, with the elements of input at the indices that max_pool2d returned.

    >>> x, at = gt.tensor([[[5.0]]]), gt.tensor([[[3]]])
    >>> gt.nn.functional.max_unpool2d(x, at, 2)
    tensor([[[0., 0.],
             [0., 5.]]])
    """
    sizes, _, _ = _unpooled(2, input, kernel_size, stride, padding, output_size)
    return calls.max_unpool2d(input, indices, sizes)


@declares()
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None = None,
    padding: Ints = 0, output_size: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return zeros, with the elements of input at the indices that max_pool3d returned."""
    sizes, steps, pads = _unpooled(3, input, kernel_size, stride, padding, output_size)
    return calls.max_unpool3d(input, indices, sizes, steps, pads)
