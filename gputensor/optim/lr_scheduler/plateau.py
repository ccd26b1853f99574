"""A scheduler that depends on a metric, such as a validation loss."""

from __future__ import annotations

import math
from typing import Any

from ...core import errors
from ..optimizer import Optimizer
from .base import LRScheduler, for_each_group


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by `factor` if a metric has not improved for `patience` steps.

    mode: "min" if smaller metrics are better, "max" if larger ones are. threshold: the least
    improvement, relative to the best value (threshold_mode "rel") or absolute ("abs"). cooldown:
    the number of steps to wait after a change. min_lr: lower bound of the rate.
    """

    optimizer: Optimizer
    factor: float
    patience: float
    threshold: float
    cooldown: float
    min_lrs: list[float]
    default_min_lr: float | None
    eps: float
    best: float
    num_bad_epochs: int
    last_epoch: int

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: float = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: float = 0,
        min_lr: float | list[float] = 0.0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if factor >= 1.0:
            raise errors.must(name, "factor", "be below 1", factor)
        if mode not in ("min", "max"):
            raise errors.must(name, "mode", "be 'min' or 'max'", mode)
        if threshold_mode not in ("rel", "abs"):
            raise errors.must(name, "threshold_mode", "be 'rel' or 'abs'", threshold_mode)
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lrs = for_each_group(name, "min_lr", min_lr, optimizer)
        # the bound of all groups, also of later ones; None if each group has a bound of its own
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.eps, self.best = eps, math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.last_epoch = 0
        self.cooldown_counter: float = 0
        self._last_lr = self._rates

    def step(self, metrics: Any, epoch: Any = None) -> None:  # type: ignore[override]
        """Reduce the rate if the metric has not improved for `patience` steps. metrics: the metric
        of this step, which is a number or a tensor of one element. epoch: the number of this step;
        PyTorch deprecates it."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            pairs = zip(self._rates, self._bounds())
            lower = [(rate, max(rate * self.factor, least)) for rate, least in pairs]
            self._set(new if old - new > self.eps else old for old, new in lower)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates

    def _bounds(self) -> list[float]:
        """Return the lower bound of each group's rate. Raises: ArgumentError if a group was added
        after the construction and there is no bound for all groups."""
        count = len(self.optimizer.param_groups)
        if count != len(self.min_lrs):
            if self.default_min_lr is None:
                rule = f"be one number, or {count}, as the optimizer has {count} groups"
                raise errors.must(type(self).__name__, "min_lr", rule, self.min_lrs)
            self.min_lrs = [self.default_min_lr] * count
        return self.min_lrs

    def _is_better(self, current: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            return sign * current > sign * self.best * (1 + sign * self.threshold)
        return sign * current > sign * self.best + self.threshold
