"""Pooling of gt.nn.functional."""

from __future__ import annotations

from typing import Any

from ..._generated import calls
from ...core import errors
from ...tensor.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices",
]  # fmt: skip


def _given(stride: Any) -> Any:
    return () if stride is None else stride


def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window, and where it is with return_indices."""
    found = max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest element of each window, and where it is."""
    return calls.max_pool1d_with_indices(
        input, kernel_size, _given(stride), padding, dilation, ceil_mode
    )


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window, and where it is with return_indices.

    >>> gt.nn.functional.max_pool2d(gt.arange(16.0).view(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    found = max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


def max_pool2d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest element of each window, and where in its image it is."""
    return calls.max_pool2d_with_indices(
        input, kernel_size, _given(stride), padding, dilation, ceil_mode
    )


def max_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window, and where it is with return_indices."""
    found = max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


def max_pool3d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest element of each window, and where in its volume it is."""
    return calls.max_pool3d_with_indices(
        input, kernel_size, _given(stride), padding, dilation, ceil_mode
    )


def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window."""
    return calls.avg_pool1d(
        input, kernel_size, _given(stride), padding, ceil_mode, count_include_pad
    )


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window."""
    return calls.avg_pool2d(
        input, kernel_size, _given(stride), padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window."""
    return calls.avg_pool3d(
        input, kernel_size, _given(stride), padding, ceil_mode, count_include_pad, divisor_override
    )


def _sizes(op: str, input: Tensor, output_size: Any, count: int) -> Any:
    """The sizes asked for; None is the input's own."""
    if isinstance(output_size, int) or output_size is None:
        output_size = (output_size,) * count
    if len(output_size) != count or input.ndim < count:
        raise errors.must(op, "output_size", f"be one int or {count}", output_size)
    given = tuple(input.shape)[-count:]
    return tuple([n if size is None else size for size, n in zip(output_size, given)])


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows as output_size says."""
    return calls.adaptive_avg_pool1d(input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows as output_size says; None keeps a size."""
    sizes = _sizes("adaptive_avg_pool2d", input, output_size, 2)
    return calls.adaptive_avg_pool2d(input, sizes)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows as output_size says; None keeps a size."""
    sizes = _sizes("adaptive_avg_pool3d", input, output_size, 3)
    return calls.adaptive_avg_pool3d(input, sizes)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of as many windows as output_size says, and where they are with return_indices."""
    found = calls.adaptive_max_pool1d(input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of as many windows as output_size says, and where they are with return_indices."""
    sizes = _sizes("adaptive_max_pool2d", input, output_size, 2)
    found = calls.adaptive_max_pool2d(input, sizes)
    return found if return_indices else found[0]


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of as many windows as output_size says, and where they are with return_indices."""
    sizes = _sizes("adaptive_max_pool3d", input, output_size, 3)
    found = calls.adaptive_max_pool3d(input, sizes)
    return found if return_indices else found[0]
