"""Convolutions Conv1d to Conv3d, and their transposed forms. Weights have PyTorch's layout."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..._generated.functions import empty
from ...core import errors
from ...tensor.tensor import Tensor
from .. import functional as F, init
from ..functional._types import Ints, Padding
from ..parameter import Parameter
from .module import Module

_PADDINGS = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """Base class of all convolutions.

    weight: (out_channels, in_channels / groups, *kernel_size); for a transposed form
    (in_channels, out_channels / groups, *kernel_size). bias: (out_channels).
    padding: ints, or "same" or "valid". padding_mode: the values around the input.
    """

    ndim: ClassVar[int]
    transposed: ClassVar[bool] = False
    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Ints, stride: Ints = 1,
        padding: Padding = 0, dilation: Ints = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._build(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                    padding_mode)  # fmt: skip
        first, second = in_channels, out_channels
        if not self.transposed:
            first, second = second, first
        made: Any = {"device": device, "dtype": dtype}
        self.weight: Parameter = Parameter(
            empty(first, second // groups, *self.kernel_size, **made)
        )
        self.register_parameter("bias", Parameter(empty(out_channels, **made)) if bias else None)
        self.reset_parameters()

    def _build(
        self, in_channels: int, out_channels: int, kernel_size: Ints, stride: Ints, padding: Any,
        dilation: Ints, groups: int, padding_mode: str,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if groups < 1:
            raise errors.must(name, "groups", "be positive", groups)
        for arg, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if count % groups:
                raise errors.must(name, arg, f"be a multiple of groups, {groups}", count)
        if padding_mode not in _PADDINGS:
            rule = f"be one of {', '.join(_PADDINGS)}"
            raise errors.must(name, "padding_mode", rule, padding_mode)
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise errors.must(name, "padding", "be ints, 'same' or 'valid'", padding)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = self._each(kernel_size), self._each(stride)
        self.dilation, self.padding_mode = self._each(dilation), padding_mode
        self.output_padding = self._each(0)
        is_named = isinstance(padding, str)
        self.padding: str | tuple[int, ...] = padding if is_named else self._each(padding)
        if padding == "same" and any(step != 1 for step in self.stride):
            raise errors.must(name, "padding", "not be 'same' with a stride", self.stride)

    def _each(self, value: Any) -> tuple[int, ...]:
        """Return a tuple with one number for each dimension."""
        return tuple(value) if isinstance(value, (tuple, list)) else (value,) * self.ndim

    def reset_parameters(self) -> None:
        """Fill weight and bias with uniform numbers in [-b, b], where b is 1 / sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            bound = 1 / math.sqrt(fan_in) if fan_in else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        x, padding = input, self.padding
        if self.padding_mode != "zeros":
            x, padding = F.pad(x, self._around(), mode=self.padding_mode), (0,) * self.ndim
        convolve: Any = getattr(F, f"conv{self.ndim}d")
        rest = (self.stride, padding, self.dilation, self.groups)
        made: Tensor = convolve(x, self.weight, self.bias, *rest)
        return made

    def _around(self) -> list[int]:
        """Return the padding on both sides of each dimension, the last dimension first, as `pad`
        takes it."""
        found: list[int] = []
        for n in reversed(range(self.ndim)):
            if self.padding == "same":
                total = self.dilation[n] * (self.kernel_size[n] - 1)
                found += [total // 2, total - total // 2]
            else:
                found += [0, 0] if self.padding == "valid" else [int(self.padding[n])] * 2
        return found

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        usual = {
            "padding": (0,) * self.ndim, "dilation": (1,) * self.ndim,
            "output_padding": (0,) * self.ndim, "groups": 1, "bias": True, "padding_mode": "zeros",
        }  # fmt: skip
        shown = {name: getattr(self, name, value) for name, value in usual.items()}
        shown["bias"] = self.bias is not None
        return text + "".join([f", {n}={x}" for n, x in shown.items() if x != usual[n]])


class Conv1d(_Conv):
    """Convolution of (N, C, L)."""

    ndim = 1


class Conv2d(_Conv):
    """Convolution of (N, C, H, W)."""

    ndim = 2


class Conv3d(_Conv):
    """Convolution of (N, C, D, H, W)."""

    ndim = 3


class _ConvTranspose(_Conv):
    """A transposed convolution, which computes the gradient of a convolution with respect to its
    input."""

    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Ints, stride: Ints = 1,
        padding: Ints = 0, output_padding: Ints = 0, groups: int = 1, bias: bool = True,
        dilation: Ints = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros" or isinstance(padding, str):
            given = padding_mode if padding_mode != "zeros" else padding
            raise errors.must(type(self).__name__, "padding", "be numbers of zeros", given)
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         bias, padding_mode, device, dtype)  # fmt: skip
        self.output_padding: tuple[int, ...] = self._each(output_padding)

    def forward(self, input: Tensor, output_size: Ints | None = None) -> Tensor:
        """Compute the transposed convolution. output_size: selects one of the possible sizes of the
        result's last dimensions."""
        convolve: Any = getattr(F, f"conv_transpose{self.ndim}d")
        left_open = self._open(input, output_size)
        rest = (self.stride, self.padding, left_open, self.groups, self.dilation)
        made: Tensor = convolve(input, self.weight, self.bias, *rest)
        return made

    def _open(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        if output_size is None:
            return self.output_padding
        wanted, found = self._each(output_size)[-self.ndim :], []
        if len(wanted) != self.ndim or not all(isinstance(n, int) for n in wanted):
            rule = f"be sizes of {self.ndim} dimensions"
            raise errors.must(type(self).__name__, "output_size", rule, output_size)
        for n in range(self.ndim):
            span = self.dilation[n] * (self.kernel_size[n] - 1) + 1
            least = (input.shape[n - self.ndim] - 1) * self.stride[n] + span
            found.append(wanted[n] - (least - 2 * int(self.padding[n])))
            if not 0 <= found[n] < max(self.stride[n], self.dilation[n]):
                rule = "hold sizes from which the layer's stride gives the input's size"
                raise errors.must(type(self).__name__, "output_size", rule, wanted)
        return tuple(found)


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of (N, C, L)."""

    ndim = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of (N, C, H, W)."""

    ndim = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of (N, C, D, H, W)."""

    ndim = 3


__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
