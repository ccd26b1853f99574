"""Schedulers that combine others: one after the other, or all at each step."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

from ...core import errors
from ..optimizer import Optimizer
from .base import LRScheduler, set_rate
from .plateau import ReduceLROnPlateau


class _Combined(LRScheduler):
    """Base of schedulers that combine others. The combination's state contains the states of the
    combined schedulers."""

    last_epoch: int
    _schedulers: list[LRScheduler]

    def _go_to(self, epoch: Any) -> None:
        for group in self.optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        self.last_epoch = epoch - 1
        self.step()

    def state_dict(self) -> dict[str, Any]:
        kept = {n: v for n, v in vars(self).items() if n not in ("optimizer", "_schedulers")}
        return {**kept, "_schedulers": [one.state_dict() for one in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        given = dict(state_dict)
        for scheduler, state in zip(self._schedulers, given.pop("_schedulers")):
            scheduler.load_state_dict(state)
        vars(self).update(given)


def _undo(combined: _Combined) -> None:
    """Undo the count of the first step of all schedulers that are combined."""
    for scheduler in combined._schedulers:
        if isinstance(scheduler, _Combined):
            _undo(scheduler)
        else:
            scheduler.last_epoch -= 1


class SequentialLR(_Combined):
    """Schedulers that run one after the other. milestones: the steps at which the next scheduler
    begins."""

    optimizer: Optimizer
    last_epoch: int

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        listed = list(schedulers) if isinstance(schedulers, Sequence) else [schedulers]
        if not all(isinstance(one, LRScheduler) for one in listed):
            raise errors.wrong_type("SequentialLR", "schedulers", "hold schedules", schedulers)
        if len(milestones) != len(listed) - 1:
            rule = "be fewer by one than the schedules"
            raise errors.must("SequentialLR", "milestones", rule, milestones)
        self._schedulers, self._milestones = listed, list(milestones)
        self.optimizer, self.last_epoch = optimizer, last_epoch + 1
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        _undo(self)
        first = self._schedulers[bisect.bisect_right(self._milestones, 0)]
        first._begin()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        self.last_epoch += 1
        at = bisect.bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[at]
        if at > 0 and self._milestones[at - 1] == self.last_epoch:
            scheduler._step_count += 1
            scheduler._go_to(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Several schedulers of one optimizer, all stepped in order at each step."""

    optimizer: Optimizer

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        name = type(self).__name__
        listed = list(schedulers) if isinstance(schedulers, Sequence) else []
        if not listed or not all(isinstance(one, LRScheduler) for one in listed):
            raise errors.wrong_type(name, "schedulers", "hold schedules", schedulers)
        if any(isinstance(one, ReduceLROnPlateau) for one in listed):
            rule = "hold no ReduceLROnPlateau, which is stepped with a figure"
            raise errors.must(name, "schedulers", rule, schedulers)
        if optimizer is None:
            optimizer = listed[0].optimizer
        if any(one.optimizer is not optimizer for one in listed):
            raise errors.must(name, "schedulers", "be of one optimizer", schedulers)
        self._schedulers, self.optimizer = listed, optimizer
        self._last_lr = self._rates

    def step(self) -> None:  # type: ignore[override]
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates
