"""Modules of pooling and unpooling: functions of gt.nn.functional with their options fixed."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...core import errors
from ...tensor.tensor import Tensor
from .. import functional as F
from .functional import REQUIRED, Fixed, kind_of


def per_dimension(op: str, arg: str, value: Any, count: int) -> tuple[Any, ...]:
    """One for each dimension."""
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,) * count
    if len(found) != count:
        raise errors.wrong_value(op, arg, f"be a number or {count} of them", value)
    return found


class _Windows(Fixed):
    """A pool whose stride is its kernel's size unless given."""

    stride: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.stride is None:
            self.stride = self.kernel_size


class _MaxPool(_Windows):
    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


class _AvgPool(_Windows):
    shown = ("kernel_size", "stride", "padding")


class _AvgPool1d(_AvgPool):
    """One dimension's numbers are kept as tuples."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in self.shown or ():
            setattr(self, name, per_dimension("AvgPool1d", name, getattr(self, name), 1))


class _Adaptive(Fixed):
    shown = ("output_size",)


_MAX: dict[str, Any] = {
    "kernel_size": REQUIRED, "stride": None, "padding": 0, "dilation": 1, "return_indices": False,
    "ceil_mode": False,
}  # fmt: skip
_AVG: dict[str, Any] = {
    "kernel_size": REQUIRED, "stride": None, "padding": 0, "ceil_mode": False,
    "count_include_pad": True,
}  # fmt: skip
_LP: dict[str, Any] = {
    "norm_type": REQUIRED, "kernel_size": REQUIRED, "stride": None, "ceil_mode": False,
}  # fmt: skip

MaxPool1d, MaxPool2d, MaxPool3d = (
    kind_of(_MaxPool, f"MaxPool{n}d", f"max_pool{n}d", f"The largest of each window, {n}d.", **_MAX)
    for n in (1, 2, 3)
)
AvgPool1d = kind_of(_AvgPool1d, "AvgPool1d", "avg_pool1d", "The mean of each window, 1d.", **_AVG)
AvgPool2d, AvgPool3d = (
    kind_of(
        _AvgPool, f"AvgPool{n}d", f"avg_pool{n}d", f"The mean of each window, {n}d.", **_AVG,
        divisor_override=None,
    )
    for n in (2, 3)
)  # fmt: skip
_adaptive = partial(kind_of, _Adaptive)
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = (
    _adaptive(
        f"AdaptiveAvgPool{n}d", f"adaptive_avg_pool{n}d", "Means, as many as asked for.",
        output_size=REQUIRED,
    )
    for n in (1, 2, 3)
)  # fmt: skip
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = (
    _adaptive(
        f"AdaptiveMaxPool{n}d", f"adaptive_max_pool{n}d", "Maxima, as many as asked for.",
        output_size=REQUIRED, return_indices=False,
    )
    for n in (1, 2, 3)
)  # fmt: skip


class _LPPool(Fixed):
    shown = tuple(_LP)


LPPool1d, LPPool2d, LPPool3d = (
    kind_of(_LPPool, f"LPPool{n}d", f"lp_pool{n}d", "The root of each window's powers.", **_LP)
    for n in (1, 2, 3)
)


class _MaxUnpool(Fixed):
    """Elements where the indices of a max pool say; a size where the pool may have had several."""

    stride: Any
    shown = ("kernel_size", "stride", "padding")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.stride is None:
            self.stride = self.kernel_size
        count = int(type(self).__name__[-2])
        for name in self.options:
            given = per_dimension(type(self).__name__, name, getattr(self, name), count)
            setattr(self, name, given)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        made: Tensor = getattr(F, self.function)(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )
        return made


_UNPOOL: dict[str, Any] = {"kernel_size": REQUIRED, "stride": None, "padding": 0}
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = (
    kind_of(_MaxUnpool, f"MaxUnpool{n}d", f"max_unpool{n}d", "What max pooling took.", **_UNPOOL)
    for n in (1, 2, 3)
)


class _FractionalMaxPool(Fixed):
    """Maxima of windows at random places, drawn for each plane unless given."""

    shown = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        name, count = type(self).__name__, int(type(self).__name__[-2])
        self.register_buffer("_random_samples", self.__dict__.pop("_random_samples"))
        if (self.output_size is None) is (self.output_ratio is None):
            rule = "be given, or output_ratio instead, and not both"
            raise errors.wrong_value(name, "output_size", rule, self.output_size)
        for arg in ("kernel_size", "output_size", "output_ratio"):
            if getattr(self, arg) is not None:
                setattr(self, arg, per_dimension(name, arg, getattr(self, arg), count))
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise errors.wrong_value(name, "output_ratio", "be between 0 and 1", self.output_ratio)


FractionalMaxPool2d, FractionalMaxPool3d = (
    kind_of(
        _FractionalMaxPool, f"FractionalMaxPool{n}d", f"fractional_max_pool{n}d",
        "Maxima of windows at random places.", kernel_size=REQUIRED, output_size=None,
        output_ratio=None, return_indices=False, _random_samples=None,
    )
    for n in (2, 3)
)  # fmt: skip

__all__ = [
    name for name, value in list(vars().items())
    if isinstance(value, type) and value.__module__ == __name__ and name[0] != "_"
]  # fmt: skip
