"""Modules for images: resampling, padding, conversion of windows to columns, and shuffles of
channels."""

from __future__ import annotations

from typing import Any, ClassVar

from ...core.arguments import real
from ...tensor.tensor import Tensor
from .. import functional as F
from ..functional._types import Ints, Reals
from ..functional.pooling import per_dimension
from .functional import Fixed


class _Plain(Fixed):
    """Base class of modules whose `repr` shows all options."""

    def extra_repr(self) -> str:
        return self._valued(self.options)


# --- other sizes ----------------------------------------------------------------------------------


class Upsample(Fixed, function="interpolate"):
    """Resample to another size by `gt.nn.functional.interpolate`."""

    size: Ints | None = None
    scale_factor: Reals | None = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def _complete(self) -> None:
        given = self.scale_factor
        name = type(self).__name__
        if isinstance(given, (list, tuple)):
            self.scale_factor = tuple([real(name, "scale_factor", x) for x in given])
        elif given is not None:
            self.scale_factor = real(name, "scale_factor", given)

    def extra_repr(self) -> str:
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` by the value of the nearest element."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """`Upsample` by bilinear interpolation with aligned corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


# --- shuffles, columns ----------------------------------------------------------------------------


class PixelShuffle(_Plain, function="pixel_shuffle"):
    """Rearrange (*, C * r * r, H, W) to (*, C, H * r, W * r), where r is `upscale_factor`."""

    upscale_factor: int


class PixelUnshuffle(_Plain, function="pixel_unshuffle"):
    """Rearrange (*, C, H * r, W * r) to (*, C * r * r, H, W), where r is `downscale_factor`.
    Inverse of PixelShuffle."""

    downscale_factor: int


class ChannelShuffle(_Plain, function="channel_shuffle"):
    """Divide the channels into groups and interleave the groups."""

    groups: int


class Unfold(_Plain, function="unfold"):
    """Copy each sliding window of an image to one column of the result."""

    kernel_size: Ints
    dilation: Ints = 1
    padding: Ints = 0
    stride: Ints = 1


class Fold(_Plain, function="fold"):
    """Add the elements of each column to the output image, at the position of the column's
    window."""

    output_size: Ints
    kernel_size: Ints
    dilation: Ints = 1
    padding: Ints = 0
    stride: Ints = 1


# --- padding --------------------------------------------------------------------------------------


class _Pad(Fixed, function="pad"):
    """Base class of padding modules. padding: the numbers of elements before and after each
    dimension, beginning with the last dimension, or one number for all sides."""

    padding: Ints
    mode: ClassVar[str]

    def _complete(self) -> None:
        name = type(self).__name__
        self.padding = per_dimension(name, "padding", self.padding, 2 * int(name[-2]))

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self._padding(), self.mode)

    def _padding(self) -> tuple[int, ...]:
        assert isinstance(self.padding, tuple)
        return self.padding

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad, shown=("padding", "value")):
    mode: ClassVar[str] = "constant"
    value: float

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self._padding(), self.mode, self.value)

    def extra_repr(self) -> str:
        return Fixed.extra_repr(self)


class ConstantPad1d(_ConstantPad):
    """Pad the last dimension with a value."""


class ConstantPad2d(_ConstantPad):
    """Pad the last 2 dimensions with a value."""


class ConstantPad3d(_ConstantPad):
    """Pad the last 3 dimensions with a value."""


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Ints) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPad(_Pad):
    mode: ClassVar[str] = "reflect"


class _ReplicationPad(_Pad):
    mode: ClassVar[str] = "replicate"


class _CircularPad(_Pad):
    mode: ClassVar[str] = "circular"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pad the last dimension with zeros."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pad the last 2 dimensions with zeros."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pad the last 3 dimensions with zeros."""


class ReflectionPad1d(_ReflectionPad):
    """Pad the last dimension by reflection at its ends."""


class ReflectionPad2d(_ReflectionPad):
    """Pad the last 2 dimensions by reflection at the ends."""


class ReflectionPad3d(_ReflectionPad):
    """Pad the last 3 dimensions by reflection at the ends."""


class ReplicationPad1d(_ReplicationPad):
    """Pad the last dimension with the outermost elements."""


class ReplicationPad2d(_ReplicationPad):
    """Pad the last 2 dimensions with the outermost elements."""


class ReplicationPad3d(_ReplicationPad):
    """Pad the last 3 dimensions with the outermost elements."""


class CircularPad1d(_CircularPad):
    """Pad the last dimension with the elements of the opposite end."""


class CircularPad2d(_CircularPad):
    """Pad the last 2 dimensions with the elements of the opposite end."""


class CircularPad3d(_CircularPad):
    """Pad the last 3 dimensions with the elements of the opposite end."""


__all__ = [
    "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d", "PixelShuffle", "PixelUnshuffle",
    "ChannelShuffle", "Unfold", "Fold", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "CircularPad1d", "CircularPad2d", "CircularPad3d",
]  # fmt: skip
