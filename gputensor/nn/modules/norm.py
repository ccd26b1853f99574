"""Normalization modules: over the batch, over groups of channels, and over the last dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from ..._generated.functions import empty, ones, zeros
from ...core import errors
from ...core.arguments import real
from ...core.dtype import int64
from ...tensor.tensor import Tensor
from .. import functional as F, init
from ..functional._types import Ints
from ..parameter import Parameter
from .module import Module


def _sizes(given: Ints) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)


class _Affine(Module):
    """Base class of norms with a weight and a bias for each feature. Both are None if `affine` is
    False."""

    def _register(self, wanted: bool, sizes: Any, bias: bool, device: Any, dtype: Any) -> None:
        made: Any = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(empty(sizes, **made)) if wanted else None)
        with_bias = wanted and bias
        self.register_parameter("bias", Parameter(empty(sizes, **made)) if with_bias else None)

    def reset_parameters(self) -> None:
        """Set weight to ones and bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _BatchNorm(_Affine):
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel. Training uses the batch's
    statistics, evaluation the running statistics. momentum: the weight of a batch in the running
    averages; None means a cumulative average."""

    ndims: ClassVar[tuple[int, ...]]
    _version = 2  # states of version 1 had no num_batches_tracked
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if momentum is not None:
            momentum = real(type(self).__name__, "momentum", momentum)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._register(affine, (num_features,), bias, device, dtype)
        made: Any = {"device": device, "dtype": dtype}
        tracks = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **made) if tracks else None)
        self.register_buffer("running_var", ones(num_features, **made) if tracks else None)
        count = zeros((), dtype=int64, device=device) if tracks else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any
    ) -> None:
        """Load a state. A state of version 1 has no `num_batches_tracked`, so this entry is
        added."""
        name = prefix + "num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats:
            count = self.num_batches_tracked
            count = zeros((), dtype=int64) if count is None or count.is_meta else count
            state_dict.setdefault(name, count)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def _check_input_dim(self, input: Tensor) -> None:
        """Check the number of dimensions. Subclasses in PyTorch's programs override this method, or
        call it."""
        if input.ndim not in self.ndims:
            rule = f"have {' or '.join(map(str, self.ndims))} dimensions"
            raise errors.wrong_shape(type(self).__name__, "input", rule, input)

    def _average(self) -> float:
        """Return the weight of this batch in the running averages. In training, also count the
        batch."""
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                return 1.0 / float(self.num_batches_tracked)
        return self.momentum or 0.0

    def reset_running_stats(self) -> None:
        """Reset the running statistics to their initial values."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        average = self._average()
        of_batch = self.training or self.running_mean is None
        looks = not self.training or self.track_running_stats
        return F.batch_norm(
            input, self.running_mean if looks else None, self.running_var if looks else None,
            self.weight, self.bias, of_batch, average, self.eps,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (N, C) or (N, C, L)."""

    ndims: ClassVar[tuple[int, ...]] = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of (N, C, H, W)."""

    ndims: ClassVar[tuple[int, ...]] = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of (N, C, D, H, W)."""

    ndims: ClassVar[tuple[int, ...]] = (5,)


class _InstanceNorm(_BatchNorm):
    """Normalization of each channel of each sample."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        is_alone = input.ndim == min(self.ndims)
        batch = input.unsqueeze(0) if is_alone else input
        of_input = self.training or not self.track_running_stats
        made: Tensor = F.instance_norm(
            batch, self.running_mean, self.running_var, self.weight, self.bias, of_input,
            self.momentum or 0.0, self.eps,
        )  # fmt: skip
        return made.squeeze(0) if is_alone else made


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of (N, C, L) or (C, L)."""

    ndims: ClassVar[tuple[int, ...]] = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of (N, C, H, W) or (C, H, W)."""

    ndims: ClassVar[tuple[int, ...]] = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (N, C, D, H, W) or (C, D, H, W)."""

    ndims: ClassVar[tuple[int, ...]] = (4, 5)


class GroupNorm(_Affine):
    """Group normalization: each group of channels of each sample is normalized."""

    num_groups: int
    num_channels: int
    eps: float

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            rule = f"be a multiple of num_groups, {num_groups}"
            raise errors.must("GroupNorm", "num_channels", rule, num_channels)
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.affine = affine
        self._register(affine, (num_channels,), bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"
        return f"{text}, bias={self.bias is not None}"


class LayerNorm(_Affine):
    """Layer normalization over the last dimensions, whose sizes are `normalized_shape`."""

    eps: float
    elementwise_affine: bool

    def __init__(
        self, normalized_shape: Ints, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _sizes(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._register(elementwise_affine, self.normalized_shape, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.normalized_shape}, eps={self.eps}"
        text += f", elementwise_affine={self.elementwise_affine}"
        return f"{text}, bias={self.bias is not None}"


class RMSNorm(_Affine):
    """Divide x by its root mean square over the last dimensions, then multiply it by weight."""

    eps: float | None
    elementwise_affine: bool

    def __init__(
        self, normalized_shape: Ints, eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _sizes(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._register(elementwise_affine, self.normalized_shape, False, device, dtype)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.normalized_shape}, eps={self.eps}"
        return f"{text}, elementwise_affine={self.elementwise_affine}"


__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "GroupNorm", "LayerNorm", "RMSNorm",
]  # fmt: skip
