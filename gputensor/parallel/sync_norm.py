"""`SyncBatchNorm`: batch norm with statistics over the batches of all ranks.

Source: torch/nn/modules/batchnorm.py, torch/nn/modules/_functions.py.
"""

from __future__ import annotations

from typing import Any

from .._generated.functions import cat, full, var_mean
from ..autograd import no_grad
from ..core import errors
from ..core.dtype import float32
from ..distributed.collectives import wait_tensor
from ..distributed.groups import ProcessGroup, group_of, is_initialized
from ..distributed.shapes import operator
from ..tensor.tensor import Tensor
from ..nn.modules.module import Module
from ..nn.modules.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm


class SyncBatchNorm(_BatchNorm):
    """Batch norm of (N, C, *) over the batches of all ranks of a group, on any device.

    In training, all ranks must call forward and backward. Each of these calls makes one collective
    of 2 C + 1 numbers. In evaluation, or if there are no other ranks, it normalizes this rank's
    batch alone.

    process_group: the ranks, by default all.
    """

    process_group: Any

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            rule = "have two dimensions or more"
            raise errors.wrong_shape("SyncBatchNorm", "input", rule, input)

    def forward(self, input: Tensor) -> Tensor:
        group = None
        if self.training and is_initialized():
            group = group_of("SyncBatchNorm", self.process_group)
        if group is None or group.size() < 2:
            return super().forward(input)
        self._check_input_dim(input)
        if input.shape[1] != self.num_features:
            rule = f"have {self.num_features} channels"
            raise errors.wrong_shape("SyncBatchNorm", "input", rule, input)
        x = input.to(float32) if input.dtype.itemsize < 4 else input
        mean, var, total = _statistics(x, group)
        if self.track_running_stats:
            average = self._average()
            with no_grad():
                unbiased = var * (total / (total - 1).clamp(min=1))
                for kept, now in ((self.running_mean, mean), (self.running_var, unbiased)):
                    kept.lerp_(now.to(kept.dtype), average)
        scale = (var + self.eps).rsqrt()
        sizes = (1, -1) + (1,) * (x.ndim - 2)
        scale = scale if self.weight is None else scale * self.weight
        made = (x - mean.view(sizes)) * scale.view(sizes)
        if self.bias is not None:
            made = made + self.bias.view(sizes)
        return made.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """Replace every BatchNorm in a module by a SyncBatchNorm with the same parameters.

        Returns: the module, or its replacement if the module itself is a BatchNorm.
        """
        if not isinstance(module, Module):
            raise errors.wrong_type("convert_sync_batchnorm", "module", "be a Module", module)
        made = module
        if isinstance(module, (BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm)):
            made = cls._like(module, process_group)
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made

    @classmethod
    def _like(cls, norm: Any, process_group: Any) -> SyncBatchNorm:
        made = cls(
            norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats,
            process_group, bias=norm.bias is not None,
        )  # fmt: skip
        for mine, theirs in (
            (made._parameters, norm._parameters), (made._buffers, norm._buffers)
        ):  # fmt: skip
            mine.update(theirs)
        made.training = norm.training
        return made


def _statistics(x: Tensor, group: ProcessGroup) -> tuple[Tensor, Tensor, Tensor]:
    """Return each channel's mean, variance and element count over all ranks, differentiably.

    Each rank first subtracts its own mean, so that large means do not reduce the accuracy.
    """
    channels = x.shape[1]
    dims = [0, *range(2, x.ndim)]
    count = x.numel() // channels if channels else 0
    if count:
        var, mean = var_mean(x, dims, correction=0)
    else:  # These zeros depend on x, so that this rank takes part in the collective of backward.
        mean = var = x.sum(dims)
    own = cat([mean, var, full((1,), float(count), dtype=x.dtype, device=x.device)])
    found = operator("all_gather_into_tensor")(own, group.size(), group.name)
    parts = wait_tensor(found).view(group.size(), -1)
    means, variances, counts = parts.split([channels, channels, 1], 1)
    total = counts.detach().sum()
    weights = counts.detach() / total
    mean = (means * weights).sum(0)
    var = ((variances + (means - mean).square()) * weights).sum(0)
    return mean, var, total
