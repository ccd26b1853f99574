"""`gt.optim.swa_utils`: averages of a model's weights during training.

Source: torch/optim/swa_utils.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any

from .._generated.functions import full
from ..autograd import no_grad
from ..core import errors, lazy
from ..core.arguments import flag
from ..core.dtype import int64
from ..dispatch.refusal import declares
from ..nn.modules.module import Module
from ..nn.modules.norm import _BatchNorm
from ..tensor.tensor import Tensor
from .lr_scheduler.base import LRScheduler, for_each_group
from .optimizer import Optimizer

__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip

Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def _check_decay(op: str, decay: float) -> None:
    if not 0 <= decay <= 1:
        raise errors.wrong_value(op, "decay", "be in [0, 1]", decay)


@declares()
def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return a function (average, new, count) -> decay * average + (1 - decay) * new.

    decay: in [0, 1].
    """
    _check_decay("get_ema_avg_fn", decay)

    def ema(average: Tensor, new: Tensor, count: Any) -> Tensor:
        with no_grad():
            return decay * average + (1 - decay) * new

    return ema


@declares()
def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """Return a function (averages, new, count) that updates exponential averages in place.

    See `get_ema_avg_fn`.
    """
    _check_decay("get_ema_multi_avg_fn", decay)

    def ema(averages: Sequence[Tensor], new: Sequence[Tensor], count: Any) -> None:
        with no_grad():
            for average, one in zip(averages, new, strict=True):
                if average.is_floating_point() or average.is_complex():
                    average.lerp_(one, 1 - decay)
                else:
                    average.copy_(average * decay + one * (1 - decay))

    return ema


def get_swa_avg_fn() -> Average:
    """Return a function (average, new, count) that computes the mean of count + 1 tensors from the
    mean of the first `count` tensors and the new tensor."""

    def swa(average: Tensor, new: Tensor, count: Any) -> Tensor:
        with no_grad():
            found: Tensor = average + (new - average) / (count + 1)
            return found

    return swa


def get_swa_multi_avg_fn() -> Averages:
    """Return a function (averages, new, count) that updates means in place.

    See `get_swa_avg_fn`.
    """

    def swa(averages: Sequence[Tensor], new: Sequence[Tensor], count: Any) -> None:
        with no_grad():
            for average, one in zip(averages, new, strict=True):
                average.copy_(average + (one - average) / (count + 1))

    return swa


class AveragedModel(Module):
    """A copy of a model. The parameters of the copy are averages of the model's parameters.

    Each call of `update_parameters` adds the model's present parameters to the averages; the first
    call copies them. Buffers are copied. With use_buffers=True they are averaged. If the model has
    batch norms, call `update_bn` to compute the statistics again.

    Args:
        device: the copy's device; None for the model's.
        avg_fn: a function of (average, new, count) that returns the new average.
        multi_avg_fn: a function of (averages, new, count) that writes to the averages, lists of
            tensors of one dtype and device. The default is the mean.
    """

    module: Module
    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if not isinstance(model, Module):
            raise errors.wrong_type("AveragedModel", "model", "be a Module", model)
        for name, function in (("avg_fn", avg_fn), ("multi_avg_fn", multi_avg_fn)):
            if function is not None and not callable(function):
                raise errors.wrong_type("AveragedModel", name, "be a function", function)
        if avg_fn is not None and multi_avg_fn is not None:
            raise errors.must("AveragedModel", "multi_avg_fn", "not come with avg_fn", multi_avg_fn)
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", full((), 0, dtype=int64, device=device))
        self.avg_fn: Average | None = avg_fn
        self.multi_avg_fn: Averages | None = multi_avg_fn
        self.use_buffers: bool = flag("AveragedModel", "use_buffers", use_buffers)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Add the parameters of a model to the averages. The model must have the same modules."""
        pairs = [
            (mine.detach(), new.detach().to(mine.device))
            for mine, new in zip(self._averaged(self.module), self._averaged(model))
        ]
        if self.n_averaged.item() == 0:
            for mine, new in pairs:
                mine.copy_(new)
        elif self.avg_fn is not None:
            for mine, new in pairs:
                mine.copy_(self.avg_fn(mine, new, self.n_averaged.to(mine.device)))
        else:
            average = self.multi_avg_fn or get_swa_multi_avg_fn()
            kinds: dict[Any, list[tuple[Tensor, Tensor]]] = {}
            for mine, new in pairs:
                kinds.setdefault((mine.device, mine.dtype), []).append((mine, new))
            for (device, _), alike in kinds.items():
                means, news = [mine for mine, _ in alike], [new for _, new in alike]
                average(means, news, self.n_averaged.to(device))
        if not self.use_buffers:
            for mine, new in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(new.detach().to(mine.device))
        self.n_averaged.add_(1)

    def _averaged(self, model: Module) -> Iterator[Tensor]:
        return chain(model.parameters(), model.buffers() if self.use_buffers else ())


@declares(loader="Iterable")
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the statistics of a model's batch norms anew, as means over one pass through the
    data.

    Args:
        loader: batches. If a batch is a list or tuple, its first element is the model's input.
        device: the device to which batches are moved, if not None.
    """
    if not isinstance(model, Module):
        raise errors.wrong_type("update_bn", "model", "be a Module", model)
    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    try:
        for module in momenta:
            module.reset_running_stats()
            module.momentum = None
        with no_grad():
            for batch in loader:
                x = batch[0] if isinstance(batch, (list, tuple)) and batch else batch
                if device is not None and not isinstance(x, Tensor):
                    raise errors.wrong_type("update_bn", "loader", "hold Tensors", x)
                model(x if device is None else x.to(device))
    finally:
        for module, momentum in momenta.items():
            module.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Move the rate of each group to swa_lr over anneal_epochs steps, and keep it there.

    Args:
        swa_lr: a number for all groups, or a list.
        anneal_epochs: number of steps.
        anneal_strategy: "cos" or "linear".
    """

    anneal_epochs: int

    def __init__(
        self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10,
        anneal_strategy: str = "cos", last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if anneal_strategy not in ("cos", "linear"):
            raise errors.must("SWALR", "anneal_strategy", "be 'cos' or 'linear'", anneal_strategy)
        if anneal_epochs < 0:
            raise errors.must("SWALR", "anneal_epochs", "not be negative", anneal_epochs)
        rates = for_each_group("SWALR", "swa_lr", swa_lr, optimizer)
        for group, rate in zip(optimizer.param_groups, rates):
            group["swa_lr"] = rate
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        # The change begins with this scheduler's first step, whatever the value of last_epoch.
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        found = []
        for group, rate in zip(self.optimizer.param_groups, self._rates):
            end: Any = group["swa_lr"]
            start = end if before == 1 else (rate - before * end) / (1 - before)
            found.append(end * now + start * (1 - now))
        return found

    def _part(self, step: int) -> float:
        """Return the fraction of the change, from 0 to 1, that is complete after a step."""
        part = max(0, min(1, step / max(1, self.anneal_epochs)))
        return part if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * part)) / 2


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
