"""The base class of schedulers, and functions that schedulers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from ...core import errors
from ...core.arguments import number
from ...dispatch import refusal
from ...dispatch.refusal import declare_constructor
from ...tensor.tensor import Tensor
from ..optimizer import Optimizer

# The prefix of the names of our modules. Only schedulers of these modules check the arguments of
# their constructor and convert arithmetic errors of `get_lr` to errors of gputensor.
_OURS = __name__.partition(".lr_scheduler")[0]


def copied(value: Any) -> Any:
    """Return a number as it is, or a copy of a tensor."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def rate_of(group: dict[str, Any]) -> Any:
    """Return the learning rate of a group: a number, or a copy of a tensor."""
    return copied(group["lr"])


def set_rate(group: dict[str, Any], rate: Any) -> None:
    """Set the learning rate of a group. A tensor is written in place, because a CUDA graph may read
    it."""
    own = group["lr"]
    if isinstance(own, Tensor):
        own.copy_(rate) if isinstance(rate, Tensor) else own.fill_(rate)
    else:
        group["lr"] = rate


class LRScheduler:
    """Base of schedulers, which set `lr` of the optimizer's groups in the constructor and at each
    step.

    last_epoch: the number of steps so far, or -1 to begin. Other values resume a schedule, for
    which the groups need `initial_lr`.
    """

    last_epoch: int
    _step_count = 0  # calls of `step`, the constructor's included
    _is_initial = False  # True within the step of the constructor
    # True if the user's functions compute the rates. Exceptions of these functions are passed on
    # unchanged.
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
        self.base_lrs: list[Any] = [copied(g["initial_lr"]) for g in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[float] = []
        self._begin()

    def _begin(self) -> None:
        """Do the first step. Schedulers that compute a rate from the previous rate keep the rates
        at this step, so that a schedule is resumed at its present rate."""
        self._step_count, self._is_initial = 0, True
        self.step()
        del self._is_initial

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declare_constructor(cls, _OURS, first=True)

    def get_lr(self) -> list[float]:
        """Return the new rates of all groups, from `self.last_epoch` and the present rates."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """Return the rates that the last step set."""
        return self._last_lr

    def step(self, epoch: Any = None) -> None:
        """Compute the next rates and set them. epoch: the number of steps to go to, which PyTorch
        deprecates; by default one more."""
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            self._set(self._computed(self.get_lr))
            return
        message = errors.deprecated(type(self).__name__, "step(epoch) is", "call step()")
        refusal.warn(message, stacklevel=2)
        self._go_to(epoch)

    def _go_to(self, epoch: Any) -> None:
        self.last_epoch = epoch
        self._set(self._computed(getattr(self, "_get_closed_form_lr", self.get_lr)))

    def _computed(self, rates: Callable[[], list[float]]) -> list[float]:
        try:
            return rates()
        except ArithmeticError as error:
            if not type(self).__module__.startswith(_OURS) or self._calls_functions:
                raise  # the exception comes from a user's class or function
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
        """Return all attributes except the optimizer, for `gt.save`. In place of a function there
        is None, and in place of another callable object a dict of its attributes."""
        kept = {name: value for name, value in vars(self).items() if name != "optimizer"}
        return {name: _state_of(v) if _is_code(v) else v for name, v in kept.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        own = vars(self)
        for name, value in state_dict.items():
            if _is_code(own.get(name)):
                _restore(own[name], value)
            else:
                own[name] = value


class FactorLR(LRScheduler):
    """Base of schedulers whose rates are the initial ones times a factor."""

    def _factor(self) -> float:
        """Return the factor at `self.last_epoch`."""
        raise NotImplementedError

    def _get_closed_form_lr(self) -> list[float]:
        factor = self._factor()
        return [base * factor for base in self.base_lrs]


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, list) and any(map(_is_code, value))


def _state_of(code: Any) -> Any:
    """Return what a state dict contains in place of a function, of an object that can be called, or
    of a list of these."""
    if isinstance(code, list):
        return [_state_of(one) for one in code]
    return None if isinstance(code, FunctionType) else dict(getattr(code, "__dict__", {}))


def _restore(code: Any, state: Any) -> None:
    """Give callable objects the attributes that `_state_of` returned."""
    if isinstance(code, list):
        for one, its in zip(code, state or ()):
            _restore(one, its)
    elif state:
        vars(code).update(state)


def for_each_group(op: str, arg: str, value: Any, optimizer: Any) -> list[Any]:
    """Return a list with a number for each group. value: one number for all groups, or a list with
    a number for each group."""
    count = len(optimizer.param_groups)
    found = list(value) if isinstance(value, (list, tuple)) else [value] * count
    found = [copied(one) for one in found]
    if len(found) != count:
        raise errors.must(op, arg, f"be {count} numbers", value)
    for one in found:
        if not isinstance(one, Tensor) and isinstance(number(one), (complex, type(None))):
            raise errors.wrong_type(op, arg, "be a number, or one for each group", value)
    return found
