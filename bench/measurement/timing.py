"""Alternating timing of callables in one process, and comparison of their medians.

The speed of a shared machine changes, so absolute times are not reproducible. The ratio of two
medians of alternating rounds does not depend on the machine's speed.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
# type of functions that time calls: (callable, number of calls) -> nanoseconds of all calls
Clock = Callable[[Callable[[], Any], int], float]

# After its work, a thread of OpenMP waits in a loop for 4 to 5 ms, by libgomp's default, and takes
# a CPU from whatever runs next. A thread that wakes may share a CPU with its caller until Linux
# moves it, for some milliseconds too.
REST_S, WARM_S = 0.008, 0.005


class Sample:
    """The times of one callable. ns: for each round, the nanoseconds per call."""

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
        """The quartiles [lower, upper], in the form of a record."""
        if len(self.ns) < 2:
            return [self.ns[0], self.ns[0]]
        low, _, high = statistics.quantiles(self.ns, n=4)
        return [low, high]


def alternate(
    sides: Sequence[Callable[[], Any]], rounds: int = 101, round_ms: float = 1.0,
    finish: Callable[[], None] | None = None, clock: Clock | None = None,
    until: Callable[[list[Sample]], bool] | None = None, is_fair: Callable[[], bool] | None = None,
    counts: Sequence[int] = (), rest_s: float = 0.0,
) -> list[Sample]:  # fmt: skip
    """Time each callable `rounds` times, in shuffled turns: A B C, B A C, A C B, …

    So no callable always runs after the same other callable, or directly after itself, with caches
    that it has filled.

    round_ms: approximate time of a callable's round; if rounds are short, other processes disturb
    only a few of them. finish: called at the end of each round, within the measured time, to wait
    for a device. clock: a function that times a round, for example by a device's events. until:
    called with the samples after each round; True ends the measurement. is_fair: called after each
    round; False repeats the round, at most `rounds` times in total. counts: the number of calls of
    each callable in a round; by default it is measured. rest_s: seconds of rest before a callable's
    calls, in which threads of the one before fall asleep; then WARM_S seconds of calls that are not
    timed wake its own. A round of a single call of more than WARM_S needs no such calls.
    """
    counts = counts or [_calls_for(side, round_ms, finish) for side in sides]
    samples = [Sample() for _ in sides]
    turns = list(zip(sides, counts, samples))
    shuffle, last = random.Random(0).shuffle, None
    done = unfair = 0
    while done < rounds and not (until is not None and done and until(samples)):
        taken = []
        while len(turns) > 1 and turns[0] is last:
            shuffle(turns)
        last = turns[-1]
        for side, count, sample in turns:
            if rest_s:
                time.sleep(rest_s)
                end = time.perf_counter() + WARM_S
                while (count > 1 or round_ms < 1e3 * WARM_S) and time.perf_counter() < end:
                    _time(side, 1, finish)
            ns = _time(side, count, finish) if clock is None else clock(side, count)
            taken.append((sample, ns / count))
        shuffle(turns)
        if is_fair is not None and not is_fair() and unfair < rounds:
            unfair += 1
            continue
        for sample, ns_per_call in taken:
            sample.ns.append(ns_per_call)
        done += 1
    return samples


# The minimum number of rounds of a case.
LEAST_ROUNDS = 10


def steady(noise: float, limit_s: float) -> Callable[[list[Sample]], bool]:
    """Return a function for the argument `until` of `alternate`. It returns True when the ratio of
    each callable's time to the first callable's time is accurate, or when `limit_s` seconds have
    passed.

    noise: the accuracy, as half the width of the 99 % confidence interval of the median ratio,
    relative to the ratio.
    """
    end = time.monotonic() + limit_s

    def until(samples: list[Sample]) -> bool:
        first, *others = samples
        if len(first.ns) < LEAST_ROUNDS:
            return False
        if time.monotonic() > end:
            return True
        known = (median_interval([b / a for a, b in zip(first.ns, s.ns)]) for s in others)
        return all(high - low <= 2 * noise * middle for low, middle, high in known)

    return until


def call_s(side: Callable[[], Any], finish: Callable[[], None] | None = None) -> float:
    """Return the seconds that one call takes."""
    return _time(side, 1, finish) / 1e9


def _calls_for(
    side: Callable[[], Any], round_ms: float, finish: Callable[[], None] | None = None
) -> int:
    """Return the number of calls that fill a round. The first calls, which compile, are not
    counted."""
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


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return (low, median, high), where low and high bound the median's 99 % confidence interval.

    The interval follows from order statistics, without an assumption on the distribution. Fewer
    than 8 values give no bounds.
    """
    ordered = sorted(values)
    n = len(ordered)
    if n < _LEAST:
        return 0.0, statistics.median(ordered), math.inf
    reach = math.ceil(_Z99 * math.sqrt(n) / 2)
    middle = statistics.median(ordered)
    return ordered[max(0, n // 2 - reach)], middle, ordered[min(n - 1, (n - 1) // 2 + reach)]


_Z99 = 2.576
# The probability that all n values are on one side of the median is 2 * 2**-n: above 1 % for n < 8.
_LEAST = 8


def ratio(peer: Sample, ours: Sample) -> float:
    """Return the peer's time / ours: the median of the ratios of all rounds. Slow drift of the
    machine's speed cancels in the ratio of a round."""
    return statistics.median(b / a for a, b in zip(ours.ns, peer.ns))


def geomean(values: Iterable[float]) -> float:
    return statistics.geometric_mean(list(values))


def progress(items: Sequence[T], label: Callable[[T], str]) -> Iterator[T]:
    """Iterate over the items, with a progress bar on standard error if that is a terminal."""
    shown = sys.stderr.isatty()
    for number, item in enumerate(items):
        if shown:
            done = 24 * number // len(items)
            bar = "#" * done + "-" * (24 - done)
            print(
                f"\r[{bar}] {number}/{len(items)} {label(item):<40.40}",
                end="",
                file=sys.stderr,
                flush=True,
            )
        yield item
    if shown:
        print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)
