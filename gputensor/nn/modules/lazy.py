"""Lazy modules: the first input determines the sizes of parameters. After this, the module's class
is the one without "Lazy" in its name.

Source: torch/nn/modules/lazy.py, and the Lazy classes in linear.py, conv.py and batchnorm.py.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ...core import errors
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from . import conv, linear, norm
from .module import Module


class LazyModuleMixin(Module):
    """A mixin for lazy modules: the first input determines the sizes of the parameters. A lazy
    class lists the mixin first among its base classes.

    A subclass assigns an UninitializedParameter or UninitializedBuffer to each attribute whose size
    is unknown, and its `initialize_parameters` materializes them. `cls_to_become` is the module's
    class after the first input; with None, the module keeps its class.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(_infer, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters and buffers. The arguments are those of the first forward.

        Raises: NotImplementedError unless a subclass defines it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no initialize_parameters")

    def has_uninitialized_params(self) -> bool:
        """Return True if a parameter or buffer of this module has no sizes yet."""
        own = [*self._parameters.values(), *self._buffers.values()]
        return any(is_lazy(x) for x in own)


def _infer(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        rule = "materialize all parameters and buffers"
        raise errors.must(type(module).__name__, "initialize_parameters", rule, module)
    module._initialize_hook.remove()
    del module._initialize_hook
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


class _Lazy(LazyModuleMixin):
    """Base class of the lazy modules below.

    _size: the name of the attribute that the first input determines. `_shaped` returns the sizes of
    uninitialized parameters.
    """

    _size: ClassVar[str]
    _channel: ClassVar[int] = 1  # the dimension of the input whose size is read

    def _postpone(self, device: Any, dtype: Any, *names: str) -> None:
        """Make these parameters and buffers uninitialized; the first forward determines their
        sizes.
        """
        for name in names:
            if name in self._buffers:
                self._buffers[name] = UninitializedBuffer(device=device, dtype=dtype)
            else:
                self._parameters[name] = UninitializedParameter(device=device, dtype=dtype)

    @declares(input="Tensor", first=True)
    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give uninitialized parameters sizes that fit the input, and initial values."""
        if not input.ndim:
            raise errors.wrong_shape(type(self).__name__, "input", "have a dimension", input)
        size = input.shape[-1 if self._channel == -1 else self._channel_of(input)]
        setattr(self, self._size, size)
        if self.has_uninitialized_params():
            kinds: Any = (self._parameters, self._buffers)
            for kind in kinds:
                for name, value in kind.items():
                    if is_lazy(value):
                        value.materialize(self._shaped(name))
            self.reset_parameters()
            if hasattr(self, "reset_running_stats"):
                self.reset_running_stats()

    def reset_parameters(self) -> None:
        """Fill the parameters as the module's later class does. Do nothing while their sizes are
        unknown."""
        if getattr(self, self._size) and not self.has_uninitialized_params():
            later: Any = super()
            later.reset_parameters()

    def _channel_of(self, input: Tensor) -> int:
        return self._channel

    def _shaped(self, name: str) -> tuple[int, ...]:
        raise NotImplementedError


class LazyLinear(_Lazy, linear.Linear):
    """Linear that reads in_features from its first input."""

    cls_to_become: ClassVar[Any] = linear.Linear
    _size = "in_features"
    _channel = -1

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, bias, device, dtype)
        self.out_features = out_features
        self._postpone(device, dtype, "weight", *(["bias"] if bias else []))

    def _shaped(self, name: str) -> tuple[int, ...]:
        return (self.out_features, self.in_features)[: 2 if name == "weight" else 1]


class _LazyConv(_Lazy, conv._Conv):
    """A convolution that reads in_channels from its first input."""

    _size = "in_channels"

    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        rest: Any = (stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        super().__init__(0, 0, kernel_size, *rest)
        self._begin(out_channels)

    def _begin(self, out_channels: int) -> None:
        if type(out_channels) is not int or out_channels < 1:
            rule = "be a positive int"
            raise errors.wrong_value(type(self).__name__, "out_channels", rule, out_channels)
        self.out_channels = out_channels
        like = self.weight
        names = ["weight", "bias"] if self.bias is not None else ["weight"]
        self._postpone(like.device, like.dtype, *names)

    def _channel_of(self, input: Tensor) -> int:
        if input.ndim not in (self.ndim + 1, self.ndim + 2):
            rule = f"have {self.ndim + 1} or {self.ndim + 2} dimensions"
            raise errors.wrong_shape(type(self).__name__, "input", rule, input)
        return input.ndim - self.ndim - 1

    def _shaped(self, name: str) -> tuple[int, ...]:
        if name == "bias":
            return (self.out_channels,)
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)


class _LazyConvTranspose(_LazyConv):
    """A transposed convolution that reads in_channels from its first input."""

    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        rest: Any = (
            stride, padding, output_padding, groups, bias, dilation, padding_mode, device, dtype
        )  # fmt: skip
        super(_LazyConv, self).__init__(0, 0, kernel_size, *rest)
        self._begin(out_channels)


class _LazyNorm(_Lazy, norm._BatchNorm):
    """A norm that reads num_features from its first input."""

    _size = "num_features"

    def __init__(
        self, eps: float = 1e-5, momentum: Any = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        rest: Any = (eps, momentum, affine, track_running_stats, device, dtype)
        super().__init__(0, *rest, bias=bias)
        own = {**self._parameters, **self._buffers}
        names = [n for n, x in own.items() if x is not None and n != "num_batches_tracked"]
        self._postpone(device, dtype, *names)

    def _channel_of(self, input: Tensor) -> int:
        self._check_input_dim(input)
        is_alone = isinstance(self, norm._InstanceNorm) and input.ndim == min(self.ndims)
        return 0 if is_alone else 1

    def _shaped(self, name: str) -> tuple[int, ...]:
        return (self.num_features,)


class LazyConv1d(_LazyConv, conv.Conv1d):
    cls_to_become: ClassVar[Any] = conv.Conv1d


class LazyConv2d(_LazyConv, conv.Conv2d):
    cls_to_become: ClassVar[Any] = conv.Conv2d


class LazyConv3d(_LazyConv, conv.Conv3d):
    cls_to_become: ClassVar[Any] = conv.Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, conv.ConvTranspose1d):
    cls_to_become: ClassVar[Any] = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, conv.ConvTranspose2d):
    cls_to_become: ClassVar[Any] = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, conv.ConvTranspose3d):
    cls_to_become: ClassVar[Any] = conv.ConvTranspose3d


class LazyBatchNorm1d(_LazyNorm, norm.BatchNorm1d):
    cls_to_become: ClassVar[Any] = norm.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, norm.BatchNorm2d):
    cls_to_become: ClassVar[Any] = norm.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, norm.BatchNorm3d):
    cls_to_become: ClassVar[Any] = norm.BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, norm.InstanceNorm1d):
    cls_to_become: ClassVar[Any] = norm.InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, norm.InstanceNorm2d):
    cls_to_become: ClassVar[Any] = norm.InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, norm.InstanceNorm3d):
    cls_to_become: ClassVar[Any] = norm.InstanceNorm3d


__all__ = [
    "LazyLinear", *(f"LazyConv{kind}{n}d" for kind in ("", "Transpose") for n in (1, 2, 3)),
    *(f"Lazy{kind}Norm{n}d" for kind in ("Batch", "Instance") for n in (1, 2, 3)),
]  # fmt: skip
