"""Modules that move elements of images: other sizes, padding, windows as columns, shuffles."""

from __future__ import annotations

from typing import Any, ClassVar

from ...core.arguments import real
from ...tensor.tensor import Tensor
from .. import functional as F
from ..functional._types import Ints, Reals
from .functional import Fixed
from .pooling import per_dimension


class _Plain(Fixed):
    """Shows all its options."""

    def extra_repr(self) -> str:
        return self._valued(self.options)


# --- other sizes ----------------------------------------------------------------------------------


class Upsample(Fixed, function="interpolate"):
    """Another size, by the mode of `gt.nn.functional.interpolate`."""

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
    """`Upsample` by the nearest element."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """`Upsample` by bilinear interpolation, corners aligned."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


# --- shuffles, columns ----------------------------------------------------------------------------


class PixelShuffle(_Plain, function="pixel_shuffle"):
    """Channels to a finer grid."""

    upscale_factor: int


class PixelUnshuffle(_Plain, function="pixel_unshuffle"):
    """A finer grid to channels."""

    downscale_factor: int


class ChannelShuffle(_Plain, function="channel_shuffle"):
    """Channels of groups in turn."""

    groups: int


class Unfold(_Plain, function="unfold"):
    """Windows as columns."""

    kernel_size: Ints
    dilation: Ints = 1
    padding: Ints = 0
    stride: Ints = 1


class Fold(_Plain, function="fold"):
    """Columns added up as windows."""

    output_size: Ints
    kernel_size: Ints
    dilation: Ints = 1
    padding: Ints = 0
    stride: Ints = 1


# --- padding --------------------------------------------------------------------------------------


class _Pad(Fixed, function="pad"):
    """padding: how many before and after, the last dimension first; one number for all."""

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
    """A value around."""


class ConstantPad2d(_ConstantPad):
    """A value around."""


class ConstantPad3d(_ConstantPad):
    """A value around."""


class _ZeroPad(_Pad):
    mode: ClassVar[str] = "constant"
    value: ClassVar[float] = 0.0


class _ReflectionPad(_Pad):
    mode: ClassVar[str] = "reflect"


class _ReplicationPad(_Pad):
    mode: ClassVar[str] = "replicate"


class _CircularPad(_Pad):
    mode: ClassVar[str] = "circular"


class ZeroPad1d(_ZeroPad):
    """Zeros around."""


class ZeroPad2d(_ZeroPad):
    """Zeros around."""


class ZeroPad3d(_ZeroPad):
    """Zeros around."""


class ReflectionPad1d(_ReflectionPad):
    """Elements around, mirrored at the ends."""


class ReflectionPad2d(_ReflectionPad):
    """Elements around, mirrored at the ends."""


class ReflectionPad3d(_ReflectionPad):
    """Elements around, mirrored at the ends."""


class ReplicationPad1d(_ReplicationPad):
    """The outermost elements around."""


class ReplicationPad2d(_ReplicationPad):
    """The outermost elements around."""


class ReplicationPad3d(_ReplicationPad):
    """The outermost elements around."""


class CircularPad1d(_CircularPad):
    """Elements of the other end around."""


class CircularPad2d(_CircularPad):
    """Elements of the other end around."""


class CircularPad3d(_CircularPad):
    """Elements of the other end around."""


__all__ = [
    "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d", "PixelShuffle", "PixelUnshuffle",
    "ChannelShuffle", "Unfold", "Fold", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "CircularPad1d", "CircularPad2d", "CircularPad3d",
]  # fmt: skip
