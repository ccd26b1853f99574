"""Timing libraries against each other: one process, taking turns, medians.

For a demonstration, not a record: `python -m bench` writes records.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import median

# One sample lasts at least this long, so that the clock and a GPU's queue do not show in it.
_SAMPLE_SECONDS = 0.003


class Contestant:
    """Something to time: `work` once, and `synchronize` before the clock is read."""

    __slots__ = ("name", "work", "synchronize")

    def __init__(
        self, name: str, work: Callable[[], object], synchronize: Callable[[], None]
    ) -> None:
        self.name, self.work, self.synchronize = name, work, synchronize


def take_turns(contestants: list[Contestant], rounds: int) -> dict[str, float]:
    """Median seconds of one call by name; every round runs each contestant once, in turn."""
    calls = {
        c.name: max(1, math.ceil(_SAMPLE_SECONDS / max(_sample(c, 1), 1e-7))) for c in contestants
    }
    samples: dict[str, list[float]] = {c.name: [] for c in contestants}
    for i in range(rounds):
        # every other round backwards: none always comes after the same one
        for c in contestants if i % 2 == 0 else reversed(contestants):
            samples[c.name].append(_sample(c, calls[c.name]))
    return {name: median(values) for name, values in samples.items()}


def _sample(contestant: Contestant, calls: int) -> float:
    work = contestant.work
    contestant.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        work()
    contestant.synchronize()
    return (time.perf_counter() - begin) / calls
