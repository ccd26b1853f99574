"""Schedules of learning rates: `gt.optim.lr_scheduler`, one step an epoch or a batch.

A schedule says a rate from the one before and from how many steps there were, as PyTorch's do, so
that several may be stepped side by side. Source: torch/optim/lr_scheduler.py.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..core import errors, lazy
from ..core.arguments import number
from ..dispatch.refusal import declare_constructor
from ..tensor.tensor import Tensor
from .optimizer import Optimizer

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


def _rate(group: dict[str, Any]) -> Any:
    """The rate of a group; of one that is a tensor, what it is now."""
    rate = group["lr"]
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


def _set_rate(group: dict[str, Any], rate: Any) -> None:
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

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise errors.wrong_type(type(self).__name__, "optimizer", "be an Optimizer", optimizer)
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", _rate(group))
            elif "initial_lr" not in group:
                rule = "be -1 unless the groups have 'initial_lr'"
                raise errors.must(type(self).__name__, "last_epoch", rule, last_epoch)
        self.base_lrs: list[Any] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[float] = []
        self.step()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declare_constructor(cls, __name__, first=True)

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
            if type(self).__module__ != __name__ or isinstance(self, _Lambdas):
                raise  # a user's own
            rule = "have numbers that lead to rates"
            raise errors.must(type(self).__name__, "step", rule, errors.Got(str(error))) from None

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            _set_rate(group, rate)
        self._last_lr = self._rates

    @property
    def _rates(self) -> list[float]:
        return [_rate(group) for group in self.optimizer.param_groups]

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


Factor = Callable[[int], float]


class _Lambdas(LRScheduler):
    """A function of the number of steps, or one for each group."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1,
    ) -> None:  # fmt: skip
        count = len(optimizer.param_groups)
        self.lr_lambdas: list[Factor] = (
            list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        )
        if len(self.lr_lambdas) != count or not all(map(callable, self.lr_lambdas)):
            rule = f"be {count} functions"
            raise errors.must(type(self).__name__, "lr_lambda", rule, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def _factors(self) -> list[float]:
        found = [f(self.last_epoch) for f in self.lr_lambdas]
        for factor in found:
            if not isinstance(factor, Tensor) and number(factor) is None:
                raise errors.wrong_type(type(self).__name__, "lr_lambda", "give numbers", factor)
        return found


class LambdaLR(_Lambdas):
    """The first rate times a function of the number of steps."""

    def get_lr(self) -> list[float]:
        return [r * f for f, r in zip(self._factors(), self.base_lrs)]


class MultiplicativeLR(_Lambdas):
    """The rate before times a function of the number of steps."""

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._rates
        return [r * f for f, r in zip(self._factors(), self._rates)]


class StepLR(LRScheduler):
    """The rate times gamma at every step_size-th step."""

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


class MultiStepLR(LRScheduler):
    """The rate times gamma at each of the milestones."""

    milestones: dict[int, int]
    gamma: float

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        listed = list(milestones)
        if not all(isinstance(step, (int, float)) for step in listed):
            raise errors.wrong_type("MultiStepLR", "milestones", "hold numbers", milestones)
        self.milestones, self.gamma = dict(Counter(listed)), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(self.gamma ** self.milestones.get(self.last_epoch, 0))


class ConstantLR(LRScheduler):
    """The rate times a factor for so many steps."""

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


class LinearLR(LRScheduler):
    """A factor that goes from one to another over so many steps."""

    start_factor: float
    end_factor: float

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
        total_iters: float = 5, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self.last_epoch > self.total_iters:
            return self._rates
        span = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * span
        return self._scaled(1.0 + span / before)


class ExponentialLR(LRScheduler):
    """The rate times gamma at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(self.gamma) if self.last_epoch > 0 else self._rates


class PolynomialLR(LRScheduler):
    """To zero over so many steps, by a power of what is left."""

    total_iters: float
    power: float

    def __init__(
        self, optimizer: Optimizer, total_iters: float = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._rates
        now = 1.0 - self.last_epoch / self.total_iters
        return self._scaled((now / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Half a wave of a cosine from the first rate to eta_min over T_max steps, and back."""

    T_max: float
    eta_min: float

    def __init__(
        self, optimizer: Optimizer, T_max: float, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._rates
        low, period = self.eta_min, self.T_max
        if (self.last_epoch - 1 - period) % (2 * period) == 0:
            turn = (1 - math.cos(math.pi / period)) / 2
            return [r + (base - low) * turn for base, r in zip(self.base_lrs, self._rates)]
        now = 1 + math.cos(math.pi * self.last_epoch / period)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / period)
        return [now / before * (rate - low) + low for rate in self._rates]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a wave of a cosine over T_0 steps, again and again, each T_mult times as long."""

    T_mult: float
    eta_min: float
    T_i: float
    T_cur: float
    last_epoch: int

    def __init__(
        self, optimizer: Optimizer, T_0: float, T_mult: float = 1, eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if T_0 < 1 or T_mult < 1:
            arg, got = ("T_0", T_0) if T_0 < 1 else ("T_mult", T_mult)
            raise errors.must(type(self).__name__, arg, "be positive", got)
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_i, self.T_cur = T_0, float(last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        part = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def step(self) -> None:
        self.last_epoch += 1
        self.T_cur += 1
        if self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        self._set(self._next())


class OneCycleLR(LRScheduler):
    """Up to max_lr and down again over total_steps; momentum the other way round.

    pct_start: which part of the steps goes up. anneal_strategy: "cos" or "linear".
    """

    total_steps: int
    cycle_momentum: bool

    def __init__(
        self, optimizer: Optimizer, max_lr: float | list[float], total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: float = 0.85,
        max_momentum: float = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                rule = "be given, or epochs and steps_per_epoch"
                raise errors.must("OneCycleLR", "total_steps", rule, total_steps)
            total_steps = epochs * steps_per_epoch
        if anneal_strategy not in ("cos", "linear"):
            rule = "be 'cos' or 'linear'"
            raise errors.must("OneCycleLR", "anneal_strategy", rule, anneal_strategy)
        self.total_steps, self.anneal_strategy = total_steps, anneal_strategy
        up = pct_start * total_steps
        # end of each phase, and what it goes from and to
        if three_phase:
            self._phases = [(up - 1, "initial", "max"), (2 * up - 2, "max", "initial"),
                            (total_steps - 1, "initial", "min")]  # fmt: skip
        else:
            self._phases = [(up - 1, "initial", "max"), (total_steps - 1, "max", "min")]
        groups = optimizer.param_groups
        tops = list(max_lr) if isinstance(max_lr, (list, tuple)) else [max_lr] * len(groups)
        if len(tops) != len(groups):
            raise errors.must("OneCycleLR", "max_lr", f"be {len(groups)} numbers", max_lr)
        if last_epoch == -1:
            for group, top in zip(groups, tops):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self._momenta = (max_momentum, base_momentum)
        self.cycle_momentum = cycle_momentum and any(k in groups[0] for k in ("momentum", "betas"))
        if cycle_momentum and not self.cycle_momentum:
            rule = "be False for an optimizer without momentum or betas"
            raise errors.must("OneCycleLR", "cycle_momentum", rule, True)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:
            rule = f"be called at most {self.total_steps} times"
            raise errors.must("OneCycleLR", "step", rule, self.last_epoch)
        ends = [end for end, _, _ in self._phases]
        at = min(bisect.bisect_left(ends, self.last_epoch), len(ends) - 1)
        (end, source, target), begin = self._phases[at], ends[at - 1] if at else 0.0
        part = (self.last_epoch - begin) / (end - begin)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            self._cycle(source, target, part)
        return [self._between(g[f"{source}_lr"], g[f"{target}_lr"], part) for g in groups]

    def _cycle(self, source: str, target: str, part: float) -> None:
        high, low = self._momenta
        places = {"initial": high, "max": low, "min": high}
        momentum = self._between(places[source], places[target], part)
        for group in self.optimizer.param_groups:
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum

    def _between(self, start: float, end: float, part: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


class SequentialLR(LRScheduler):
    """One schedule after the other; milestones: the steps at which the next one begins."""

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
            _set_rate(group, group["initial_lr"])
        for scheduler in self._schedulers:
            scheduler.last_epoch -= 1
        self._schedulers[0].step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self) -> None:
        self.last_epoch += 1
        at = bisect.bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[at]
        if at > 0 and self._milestones[at - 1] == self.last_epoch:
            for group in self.optimizer.param_groups:
                _set_rate(group, group["initial_lr"])
            scheduler.last_epoch = -1
        scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        kept = {n: v for n, v in vars(self).items() if n not in ("optimizer", "_schedulers")}
        return {**kept, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        given = dict(state_dict)
        for scheduler, state in zip(self._schedulers, given.pop("_schedulers")):
            scheduler.load_state_dict(state)
        vars(self).update(given)


class ReduceLROnPlateau(LRScheduler):
    """The rate times a factor when a figure has not become better for `patience` steps.

    mode: "min" or "max", what is better. threshold: by how much, threshold_mode "rel" of the best
    or "abs". cooldown: steps to wait after a change. min_lr: where it stops.
    """

    optimizer: Optimizer
    factor: float
    patience: float
    threshold: float
    cooldown: float
    min_lrs: list[float]
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
        count = len(optimizer.param_groups)
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * count
        self.eps, self.best = eps, math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.last_epoch = 0
        self.cooldown_counter: float = 0
        self._last_lr = self._rates

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """metrics: the figure, a number or a tensor of one element."""
        current = float(metrics)
        self.last_epoch += 1
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            pairs = zip(self._rates, self.min_lrs)
            lower = [(rate, max(rate * self.factor, least)) for rate, least in pairs]
            self._set(new if old - new > self.eps else old for old, new in lower)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates

    def _is_better(self, current: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            return sign * current > sign * self.best * (1 + sign * self.threshold)
        return sign * current > sign * self.best + self.threshold


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
