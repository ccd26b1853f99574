"""Comparison of libraries: the median times of alternating calls in one process.

This is for the demonstration; `python -m bench` writes records.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import median

# The minimum duration of a sample. It makes the errors of the clock and of a GPU's queue small.
_SAMPLE_SECONDS = 0.003


class Contestant:
    """A function to compare. Each call of `work` is timed; `synchronize` runs before the clock is
    read."""

    __slots__ = ("name", "work", "synchronize")

    def __init__(
        self, name: str, work: Callable[[], object], synchronize: Callable[[], None]
    ) -> None:
        self.name, self.work, self.synchronize = name, work, synchronize


def take_turns(contestants: list[Contestant], rounds: int) -> dict[str, float]:
    """Return a dict from contestant to the median seconds of a call. Each round takes one sample of
    each contestant."""
    calls = {
        c.name: max(1, math.ceil(_SAMPLE_SECONDS / max(_sample(c, 1), 1e-7))) for c in contestants
    }
    samples: dict[str, list[float]] = {c.name: [] for c in contestants}
    for i in range(rounds):
        # every second round runs in reverse order
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
