"""Cyclic schedulers: a cosine with restarts, one cycle, and repeated triangles."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from typing import Any

from ...core import errors
from ...core.arguments import number
from ...tensor.tensor import Tensor
from ..optimizer import Optimizer
from .base import LRScheduler, for_each_group, set_rate


class CosineAnnealingWarmRestarts(LRScheduler):
    """A cosine from the initial rate to eta_min in T_0 steps, then a restart. Each period is T_mult
    times as long as the previous one.
    """

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

    def step(self, epoch: Any = None) -> None:
        """Compute the next rates and set them. epoch: the number of steps to go to, which may have
        a fraction; by default one more."""
        self._step_count += 1
        if epoch is not None or self.last_epoch < 0:
            self._go_to(epoch or 0)
            return
        self.last_epoch += 1
        self.T_cur += 1
        if self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        self._set(self._computed(self.get_lr))

    def _go_to(self, epoch: Any) -> None:
        if epoch < 0:
            raise errors.must(type(self).__name__, "epoch", "not be negative", epoch)
        first, growth = self.T_0, self.T_mult
        begin, self.T_i = 0.0, first
        if growth == 1:
            begin = epoch // first * first
        elif epoch >= first:
            periods = int(math.log(epoch / first * (growth - 1) + 1, growth))
            begin = first * (growth**periods - 1) / (growth - 1)
            self.T_i = first * growth**periods
        self.T_cur, self.last_epoch = epoch - begin, math.floor(epoch)
        self._set(self._computed(self.get_lr))


class OneCycleLR(LRScheduler):
    """Increase the rate to max_lr, then decrease it, over total_steps. The momentum moves
    inversely.

    pct_start: the fraction of the steps in which the rate increases. anneal_strategy: "cos" or
    "linear".
    """

    total_steps: int
    cycle_momentum: bool

    def __init__(
        self, optimizer: Optimizer, max_lr: float | list[float], total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85, max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0, final_div_factor: float = 1e4,
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
        if not 0 <= pct_start <= 1:
            raise errors.wrong_value("OneCycleLR", "pct_start", "be in [0, 1]", pct_start)
        self.total_steps, self.anneal_strategy = total_steps, anneal_strategy
        up = pct_start * total_steps
        # (last step, start, end) of each phase. start, end: the name of the rate at the start and
        # at the end of the phase, such as "initial" for `initial_lr`.
        if three_phase:
            self._phases = [(up - 1, "initial", "max"), (2 * up - 2, "max", "initial"),
                            (total_steps - 1, "initial", "min")]  # fmt: skip
        else:
            self._phases = [(up - 1, "initial", "max"), (total_steps - 1, "max", "min")]
        groups = optimizer.param_groups
        tops = for_each_group("OneCycleLR", "max_lr", max_lr, optimizer)
        if last_epoch == -1:
            for group, top in zip(groups, tops):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum and any(k in groups[0] for k in ("momentum", "betas"))
        if cycle_momentum and not self.cycle_momentum:
            rule = "be False for an optimizer without momentum or betas"
            raise errors.must("OneCycleLR", "cycle_momentum", rule, True)
        if self.cycle_momentum and last_epoch == -1:
            highs = for_each_group("OneCycleLR", "max_momentum", max_momentum, optimizer)
            lows = for_each_group("OneCycleLR", "base_momentum", base_momentum, optimizer)
            for group, high, low in zip(groups, highs, lows):
                group["max_momentum"], group["base_momentum"] = high, low
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
        for group in self.optimizer.param_groups:
            high, low = group["max_momentum"], group["base_momentum"]
            places = {"initial": high, "max": low, "min": high}
            _set_momentum(group, self._between(places[source], places[target], part))

    def _between(self, start: float, end: float, part: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CyclicLR(LRScheduler):
    """Move the rate between base_lr and max_lr in cycles. The momentum moves inversely.

    Args:
        base_lr, max_lr: a number for all groups, or a list.
        step_size_up, step_size_down: steps of the increase and of the decrease; by default equal.
        mode: factor of the amplitude: 1 ("triangular"), halved at each cycle ("triangular2"), or
            gamma ** step ("exp_range").
        scale_fn: a function that returns this factor instead, for the cycle's number from 1 or,
            with scale_mode="iterations", for the step.
        base_momentum, max_momentum: bounds of a group's `momentum` or `betas[0]`.
    """

    step_size_up: float
    gamma: float
    cycle_momentum: bool

    def __init__(
        self, optimizer: Optimizer, base_lr: float | list[float], max_lr: float | list[float],
        step_size_up: float = 2000, step_size_down: float | None = None, mode: str = "triangular",
        gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle", cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8, max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        name, groups = type(self).__name__, optimizer.param_groups
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise errors.must(name, "mode", "be 'triangular', 'triangular2' or 'exp_range'", mode)
        if scale_mode not in ("cycle", "iterations"):
            raise errors.must(name, "scale_mode", "be 'cycle' or 'iterations'", scale_mode)
        down = step_size_up if step_size_down is None else step_size_down
        for arg, size in (("step_size_up", step_size_up), ("step_size_down", down)):
            if not size > 0:
                raise errors.must(name, arg, "be positive", size)
        if cycle_momentum and not any(k in optimizer.defaults for k in ("momentum", "betas")):
            rule = "be False for an optimizer without momentum or betas"
            raise errors.must(name, "cycle_momentum", rule, True)
        bottoms = for_each_group(name, "base_lr", base_lr, optimizer)
        self.max_lrs: list[float] = for_each_group(name, "max_lr", max_lr, optimizer)
        self.base_momentums: list[float] = for_each_group(
            name, "base_momentum", base_momentum, optimizer
        )
        self.max_momentums: list[float] = for_each_group(
            name, "max_momentum", max_momentum, optimizer
        )
        self.total_size: float = float(step_size_up) + float(down)
        self.step_ratio: float = float(step_size_up) / self.total_size
        self.mode: str = mode
        self.gamma, self.cycle_momentum = gamma, cycle_momentum
        self._scale_fn_custom = scale_fn
        if scale_fn is None:
            scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode
        if last_epoch == -1:
            for group, bottom in zip(groups, bottoms):
                set_rate(group, bottom)
            if cycle_momentum:
                pairs = zip(groups, self.base_momentums, self.max_momentums)
                for group, least, most in pairs:
                    _set_momentum(group, most)
                    group["max_momentum"], group["base_momentum"] = most, least
        super().__init__(optimizer, last_epoch)
        self.base_lrs = bottoms

    def scale_fn(self, x: float) -> float:
        """Return the factor of the amplitude. x: if scale_mode is "cycle", the cycle's number,
        counted from 1; otherwise the number of the step."""
        if self._scale_fn_custom is not None:
            found = self._scale_fn_custom(x)
            if not isinstance(found, Tensor) and number(found) is None:
                raise errors.wrong_type(type(self).__name__, "scale_fn", "give numbers", found)
            return found
        if self.mode == "exp_range":
            return float(self.gamma**x)
        return 1.0 if self.mode == "triangular" else 1 / 2.0 ** (x - 1)

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        part = 1.0 + self.last_epoch / self.total_size - cycle
        ratio = self.step_ratio
        height = part / ratio if part <= ratio else (part - 1) / (ratio - 1)

        def between(start: float, end: float) -> float:
            return start + (end - start) * height * scale

        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.max_momentums, self.base_momentums)
            for group, most, least in momenta:
                _set_momentum(group, between(most, least))
        return [between(low, high) for low, high in zip(self.base_lrs, self.max_lrs)]
