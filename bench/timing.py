"""Times callables against each other in one process: rounds alternate, medians are kept.

A machine drifts and is shared, so an absolute time says little; the ratio of two medians from
alternating rounds says what the difference is.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
# (callable, how often it is called) -> nanoseconds in all.
Clock = Callable[[Callable[[], Any], int], float]


class Sample:
    """Times of one callable: `ns` holds nanoseconds per call, a figure per round."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns: list[float] = []

    @property
    def median_ns(self) -> float:
        return statistics.median(self.ns)

    @property
    def best_ns(self) -> float:
        return min(self.ns)

    @property
    def quartiles_ns(self) -> list[float]:
        """[lower, upper], as a record holds them."""
        if len(self.ns) < 2:
            return [self.ns[0], self.ns[0]]
        low, _, high = statistics.quantiles(self.ns, n=4)
        return [low, high]


def alternate(
    sides: Sequence[Callable[[], Any]], rounds: int = 101, round_ms: float = 1.0,
    finish: Callable[[], None] | None = None, clock: Clock | None = None,
) -> list[Sample]:  # fmt: skip
    """Time each callable `rounds` times, in turns: A B C, C B A, A B C, …

    round_ms: about how long a round of one callable takes; short rounds keep most of them free of
    what else runs on the machine. finish: called at the end of each round
    inside the timing, to wait for a device. clock: times a round by a device's events instead.
    """
    counts = [_calls_for(side, round_ms, finish) for side in sides]
    samples = [Sample() for _ in sides]
    turns = list(zip(sides, counts, samples))
    for _ in range(rounds):
        for side, count, sample in turns:
            taken = _time(side, count, finish) if clock is None else clock(side, count)
            sample.ns.append(taken / count)
        turns.reverse()  # nobody always runs in the caches that the same one leaves behind
    return samples


def _calls_for(side: Callable[[], Any], round_ms: float, finish: Callable[[], None] | None = None) -> int:
    """How many calls take about a round; the first calls of all, which plan and compile, do not count."""
    _time(side, 1, finish)
    if _time(side, 1, finish) > round_ms * 1e6:
        return 1
    _time(side, 8, finish)
    count = 1
    while True:
        taken = _time(side, count, finish)
        if taken > round_ms * 1e6 / 4:
            return max(1, int(count * round_ms * 1e6 / taken))
        count *= 4


def _time(side: Callable[[], Any], count: int, finish: Callable[[], None] | None) -> int:
    repeat = [None] * count
    begin = time.perf_counter_ns()
    for _ in repeat:
        side()
    if finish is not None:
        finish()
    return time.perf_counter_ns() - begin


def ratio(peer: Sample, ours: Sample) -> float:
    """How many times as long the peer takes: the median over rounds, so drift cancels out."""
    return statistics.median(b / a for a, b in zip(ours.ns, peer.ns))


def geomean(values: Iterable[float]) -> float:
    return statistics.geometric_mean(list(values))


def progress(items: Sequence[T], label: Callable[[T], str]) -> Iterator[T]:
    """Iterate with a bar on standard error, if that is a terminal."""
    shown = sys.stderr.isatty()
    for number, item in enumerate(items):
        if shown:
            done = 24 * number // len(items)
            bar = "#" * done + "-" * (24 - done)
            print(f"\r[{bar}] {number}/{len(items)} {label(item):<40.40}", end="", file=sys.stderr, flush=True)
        yield item
    if shown:
        print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)
