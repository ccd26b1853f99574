"""Schedulers without cycles. The rates follow a function, steps, a constant or linear factor, a
power or a cosine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

from ...core import errors
from ...core.arguments import number
from ...tensor.tensor import Tensor
from ..optimizer import Optimizer
from .base import FactorLR, LRScheduler

Factor = Callable[[int], float]


class _Lambdas(LRScheduler):
    """Base of schedulers that take a function of the number of steps, or one function for each
    group.
    """

    _calls_functions = True

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1,
    ) -> None:  # fmt: skip
        count = len(optimizer.param_groups)
        self.lr_lambdas: list[Factor] = (
            list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        )
        if len(self.lr_lambdas) != count or not all(map(callable, self.lr_lambdas)):
            raise errors.must(type(self).__name__, "lr_lambda", f"be {count} functions", lr_lambda)
        super().__init__(optimizer, last_epoch)

    def _factors(self) -> list[float]:
        found = [f(self.last_epoch) for f in self.lr_lambdas]
        for factor in found:
            if not isinstance(factor, Tensor) and number(factor) is None:
                raise errors.wrong_type(type(self).__name__, "lr_lambda", "give numbers", factor)
        return found


class LambdaLR(_Lambdas):
    """The initial rate times a function of the number of steps."""

    def get_lr(self) -> list[float]:
        return [r * f for f, r in zip(self._factors(), self.base_lrs)]


class MultiplicativeLR(_Lambdas):
    """The previous rate times a function of the number of steps."""

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._rates
        return [r * f for f, r in zip(self._factors(), self._rates)]


class StepLR(FactorLR):
    """Multiply the rate by gamma after every step_size steps."""

    step_size: float
    gamma: float

    def __init__(
        self, optimizer: Optimizer, step_size: float, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        turns = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma) if turns else self._rates

    def _factor(self) -> float:
        return float(self.gamma ** (self.last_epoch // self.step_size))


class MultiStepLR(FactorLR):
    """Multiply the rate by gamma at each milestone."""

    milestones: dict[int, int]
    gamma: float

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        listed = [number(step) for step in milestones]
        if not all(isinstance(step, (int, float)) for step in listed):
            raise errors.wrong_type("MultiStepLR", "milestones", "hold numbers", milestones)
        self.milestones, self.gamma = dict(Counter(listed)), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(self.gamma ** self.milestones.get(self.last_epoch, 0))

    def _factor(self) -> float:
        passed = [count for at, count in self.milestones.items() if at <= self.last_epoch]
        return float(self.gamma ** sum(passed))


class ConstantLR(FactorLR):
    """Multiply the initial rate by `factor` for the first total_iters steps."""

    factor: float
    total_iters: float

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: float = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return (
            self._scaled(1.0 / self.factor) if self.last_epoch == self.total_iters else self._rates
        )

    def _factor(self) -> float:
        return self.factor if self.last_epoch < self.total_iters else 1.0


class LinearLR(FactorLR):
    """Multiply the initial rate by a factor that goes linearly from start_factor to end_factor in
    total_iters steps."""

    start_factor: float
    end_factor: float

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
        total_iters: float = 5, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 < start_factor <= 1:
            raise errors.wrong_value("LinearLR", "start_factor", "be in (0, 1]", start_factor)
        if not 0 <= end_factor <= 1:
            raise errors.wrong_value("LinearLR", "end_factor", "be in [0, 1]", end_factor)
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates
        span = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * span
        return self._scaled(1.0 + span / before)

    def _factor(self) -> float:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * part


class ExponentialLR(FactorLR):
    """Multiply the rate by gamma at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._rates if self._is_initial else self._scaled(self.gamma)

    def _factor(self) -> float:
        return float(self.gamma**self.last_epoch)


class PolynomialLR(FactorLR):
    """The initial rate times (1 - step / total_iters) ** power."""

    total_iters: float
    power: float

    def __init__(
        self, optimizer: Optimizer, total_iters: float = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates
        now = 1.0 - self.last_epoch / self.total_iters
        return self._scaled((now / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power)

    def _factor(self) -> float:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        return float((1.0 - part) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """A cosine from the initial rate to eta_min over T_max steps, and back."""

    T_max: float
    eta_min: float

    def __init__(
        self, optimizer: Optimizer, T_max: float, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._rates
        low, period = self.eta_min, self.T_max
        if (self.last_epoch - 1 - period) % (2 * period) == 0:
            turn = (1 - math.cos(math.pi / period)) / 2
            return [r + (base - low) * turn for base, r in zip(self.base_lrs, self._rates)]
        now = 1 + math.cos(math.pi * self.last_epoch / period)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / period)
        return [now / before * (rate - low) + low for rate in self._rates]

    def _get_closed_form_lr(self) -> list[float]:
        part = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]
