"""Modules that move elements of images: other sizes, padding, windows as columns, shuffles."""

from __future__ import annotations

from typing import Any, ClassVar

from ...core.arguments import real
from ...tensor.tensor import Tensor
from .. import functional as F
from .functional import REQUIRED, Fixed, kind_of
from .pooling import per_dimension


class _Plain(Fixed):
    """Shows all its options."""

    def __init_subclass__(cls) -> None:
        cls.shown = tuple(cls.options)


# --- other sizes ----------------------------------------------------------------------------------


class Upsample(Fixed):
    """Another size, by the mode of `gt.nn.functional.interpolate`."""

    scale_factor: Any
    function = "interpolate"
    options: ClassVar[dict[str, Any]] = {
        "size": None, "scale_factor": None, "mode": "nearest", "align_corners": None,
        "recompute_scale_factor": None,
    }  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
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

PixelShuffle = kind_of(
    _Plain, "PixelShuffle", "pixel_shuffle", "Channels to a finer grid.", upscale_factor=REQUIRED
)
PixelUnshuffle = kind_of(
    _Plain, "PixelUnshuffle", "pixel_unshuffle", "A finer grid to channels.",
    downscale_factor=REQUIRED,
)  # fmt: skip
ChannelShuffle = kind_of(
    _Plain, "ChannelShuffle", "channel_shuffle", "Channels of groups in turn.", groups=REQUIRED
)
_WINDOW: dict[str, Any] = {"kernel_size": REQUIRED, "dilation": 1, "padding": 0, "stride": 1}
Unfold = kind_of(_Plain, "Unfold", "unfold", "Windows as columns.", **_WINDOW)
Fold = kind_of(
    _Plain, "Fold", "fold", "Columns added up as windows.", output_size=REQUIRED, **_WINDOW
)

# --- padding --------------------------------------------------------------------------------------


class _Pad(Fixed):
    """padding: how many before and after, the last dimension first; one number for all."""

    function = "pad"
    padding: Any
    mode: ClassVar[str]
    value: float | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        name = type(self).__name__
        self.padding = per_dimension(name, "padding", self.padding, 2 * int(name[-2]))

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"
    shown = ("padding", "value")

    def extra_repr(self) -> str:
        return Fixed.extra_repr(self)


class _ZeroPad(_Pad):
    mode, value = "constant", 0.0


class _ReflectionPad(_Pad):
    mode = "reflect"


class _ReplicationPad(_Pad):
    mode = "replicate"


class _CircularPad(_Pad):
    mode = "circular"


def _pads(base: type[_Pad], name: str, doc: str, **more: Any) -> Any:
    return [kind_of(base, f"{name}{n}d", "pad", doc, padding=REQUIRED, **more) for n in (1, 2, 3)]


ConstantPad1d, ConstantPad2d, ConstantPad3d = _pads(
    _ConstantPad, "ConstantPad", "A value around.", value=REQUIRED
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = _pads(_ZeroPad, "ZeroPad", "Zeros around.")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _pads(
    _ReflectionPad, "ReflectionPad", "Elements around, mirrored at the ends."
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _pads(
    _ReplicationPad, "ReplicationPad", "The outermost elements around."
)
CircularPad1d, CircularPad2d, CircularPad3d = _pads(
    _CircularPad, "CircularPad", "Elements of the other end around."
)

__all__ = [
    name for name, value in list(vars().items())
    if isinstance(value, type) and value.__module__ == __name__ and name[0] != "_"
]  # fmt: skip
