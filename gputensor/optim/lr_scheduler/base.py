"""The base of schedules, and what a list of schedules shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core import errors
from ...core.arguments import number
from ...dispatch.refusal import declare_constructor
from ...tensor.tensor import Tensor
from ..optimizer import Optimizer

# Schedules of this package, whose constructors say which argument they fail with.
_OURS = __name__.partition(".lr_scheduler")[0]


def rate_of(group: dict[str, Any]) -> Any:
    """The rate of a group; of one that is a tensor, what it is now."""
    rate = group["lr"]
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


def set_rate(group: dict[str, Any], rate: Any) -> None:
    """A rate that is a tensor stays the same tensor, which a CUDA graph may read."""
    own = group["lr"]
    if isinstance(own, Tensor):
        own.copy_(rate) if isinstance(rate, Tensor) else own.fill_(rate)
    else:
        group["lr"] = rate


class LRScheduler:
    """Base of schedules: sets `lr` of the optimizer's groups when made, and at each step.

    last_epoch: how many steps there were; -1 begins, anything else resumes, which needs the groups'
    `initial_lr`.
    """

    last_epoch: int
    # Whether functions of users say the rates: what they raise is passed on.
    _calls_functions = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise errors.wrong_type(type(self).__name__, "optimizer", "be an Optimizer", optimizer)
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", rate_of(group))
            elif "initial_lr" not in group:
                rule = "be -1 unless the groups have 'initial_lr'"
                raise errors.must(type(self).__name__, "last_epoch", rule, last_epoch)
        self.base_lrs: list[Any] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[float] = []
        self.step()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declare_constructor(cls, _OURS, first=True)

    def get_lr(self) -> list[float]:
        """The rates of all groups, from `self.last_epoch` and the groups' rates before."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates that the last step set."""
        return self._last_lr

    def step(self) -> None:
        """Set the next rates."""
        self.last_epoch += 1
        self._set(self._next())

    def _next(self) -> list[float]:
        try:
            return self.get_lr()
        except ArithmeticError as error:
            if not type(self).__module__.startswith(_OURS) or self._calls_functions:
                raise  # a user's own
            rule = "have numbers that lead to rates"
            raise errors.must(type(self).__name__, "step", rule, errors.Got(str(error))) from None

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            set_rate(group, rate)
        self._last_lr = self._rates

    @property
    def _rates(self) -> list[float]:
        return [rate_of(group) for group in self.optimizer.param_groups]

    def _scaled(self, factor: float) -> list[float]:
        return [rate * factor for rate in self._rates]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions, for `gt.save`."""
        kept = {name: value for name, value in vars(self).items() if name != "optimizer"}
        return {name: value for name, value in kept.items() if not _is_code(value)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, list) and any(map(_is_code, value))


def for_each_group(op: str, arg: str, value: Any, optimizer: Any) -> list[Any]:
    """A number for each group: one for all, or a list of as many."""
    count = len(optimizer.param_groups)
    found = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(found) != count:
        raise errors.must(op, arg, f"be {count} numbers", value)
    for one in found:
        if not isinstance(one, Tensor) and isinstance(number(one), (complex, type(None))):
            raise errors.wrong_type(op, arg, "be a number, or one for each group", value)
    return found
