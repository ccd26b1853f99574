"""Pooling and unpooling modules: functions of gt.nn.functional with fixed options."""

from __future__ import annotations

from typing import Any

from ...core import errors
from ...tensor.tensor import Tensor
from .. import functional as F
from ..functional._types import Ints, Reals, Sizes
from ..functional.pooling import per_dimension
from .functional import Fixed


class _Windows(Fixed):
    """Base class of pools. The default stride is the size of the kernel."""

    kernel_size: Ints
    stride: Ints | None = None

    def _complete(self) -> None:
        if self.stride is None:
            self.stride = self.kernel_size


class _MaxPool(_Windows, shown=("kernel_size", "stride", "padding", "dilation", "ceil_mode")):
    padding: Ints = 0
    dilation: Ints = 1
    return_indices: bool = False
    ceil_mode: bool = False


class MaxPool1d(_MaxPool, function="max_pool1d"):
    """Maxima over windows of 1 dimension."""


class MaxPool2d(_MaxPool, function="max_pool2d"):
    """Maxima over windows of 2 dimensions."""


class MaxPool3d(_MaxPool, function="max_pool3d"):
    """Maxima over windows of 3 dimensions."""


class _AvgPool(_Windows, shown=("kernel_size", "stride", "padding")):
    padding: Ints = 0
    ceil_mode: bool = False
    count_include_pad: bool = True


class AvgPool1d(_AvgPool, function="avg_pool1d"):
    """Means over windows of 1 dimension. kernel_size, stride and padding are stored as tuples."""

    def _complete(self) -> None:
        super()._complete()
        for name in self.shown or ():
            setattr(self, name, per_dimension("AvgPool1d", name, getattr(self, name), 1))


class AvgPool2d(_AvgPool, function="avg_pool2d"):
    """Means over windows of 2 dimensions."""

    divisor_override: int | None = None


class AvgPool3d(_AvgPool, function="avg_pool3d"):
    """Means over windows of 3 dimensions."""

    divisor_override: int | None = None


class _Adaptive(Fixed, shown=("output_size",)):
    output_size: Sizes


class AdaptiveAvgPool1d(_Adaptive, function="adaptive_avg_pool1d"):
    """Means over output_size windows of 1 dimension."""


class AdaptiveAvgPool2d(_Adaptive, function="adaptive_avg_pool2d"):
    """Means over output_size windows of 2 dimensions."""


class AdaptiveAvgPool3d(_Adaptive, function="adaptive_avg_pool3d"):
    """Means over output_size windows of 3 dimensions."""


class AdaptiveMaxPool1d(_Adaptive, function="adaptive_max_pool1d"):
    """Maxima over output_size windows of 1 dimension."""

    return_indices: bool = False


class AdaptiveMaxPool2d(_Adaptive, function="adaptive_max_pool2d"):
    """Maxima over output_size windows of 2 dimensions."""

    return_indices: bool = False


class AdaptiveMaxPool3d(_Adaptive, function="adaptive_max_pool3d"):
    """Maxima over output_size windows of 3 dimensions."""

    return_indices: bool = False


class _LPPool(Fixed, shown=("norm_type", "kernel_size", "stride", "ceil_mode")):
    norm_type: float
    kernel_size: Ints
    stride: Ints | None = None
    ceil_mode: bool = False


class LPPool1d(_LPPool, function="lp_pool1d"):
    """The p-norm of each window of 1 dimension."""


class LPPool2d(_LPPool, function="lp_pool2d"):
    """The p-norm of each window of 2 dimensions."""


class LPPool3d(_LPPool, function="lp_pool3d"):
    """The p-norm of each window of 3 dimensions."""


class _MaxUnpool(_Windows, shown=("kernel_size", "stride", "padding")):
    """Base class of max unpooling modules, which place elements at the indices that a max pool
    returned. output_size selects one of the possible sizes of the result."""

    padding: Ints = 0

    def _complete(self) -> None:
        super()._complete()
        count = int(type(self).__name__[-2])
        for name in self.options:
            given = per_dimension(type(self).__name__, name, getattr(self, name), count)
            setattr(self, name, given)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        made: Tensor = getattr(F, self.function)(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )
        return made


class MaxUnpool1d(_MaxUnpool, function="max_unpool1d"):
    """Inverse of MaxPool1d: zeros except at the indices of maxima."""


class MaxUnpool2d(_MaxUnpool, function="max_unpool2d"):
    """Inverse of MaxPool2d: zeros except at the indices of maxima."""


class MaxUnpool3d(_MaxUnpool, function="max_unpool3d"):
    """Inverse of MaxPool3d: zeros except at the indices of maxima."""


class _FractionalMaxPool(Fixed, shown=()):
    """Maxima over windows at random positions. The positions are random for each plane, unless
    _random_samples gives them."""

    kernel_size: Ints
    output_size: Ints | None = None
    output_ratio: Reals | None = None
    return_indices: bool = False
    _random_samples: Tensor | None = None

    def _complete(self) -> None:
        name, count = type(self).__name__, int(type(self).__name__[-2])
        self.register_buffer("_random_samples", self.__dict__.pop("_random_samples"))
        if (self.output_size is None) is (self.output_ratio is None):
            rule = "be given, or output_ratio instead, and not both"
            raise errors.wrong_value(name, "output_size", rule, self.output_size)
        for arg in ("kernel_size", "output_size", "output_ratio"):
            if getattr(self, arg) is not None:
                setattr(self, arg, per_dimension(name, arg, getattr(self, arg), count))
        ratios: Any = self.output_ratio
        if ratios is not None and not all(0 < r < 1 for r in ratios):
            raise errors.wrong_value(name, "output_ratio", "be between 0 and 1", ratios)


class FractionalMaxPool2d(_FractionalMaxPool, function="fractional_max_pool2d"):
    """Maxima over windows at random positions."""


class FractionalMaxPool3d(_FractionalMaxPool, function="fractional_max_pool3d"):
    """Maxima over windows at random positions."""


__all__ = [
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxUnpool1d",
    "MaxUnpool2d", "MaxUnpool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
]  # fmt: skip
