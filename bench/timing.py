"""Times callables against each other in one process: they take turns, medians are kept.

A machine drifts and is shared, so an absolute time says little; the ratio of two medians from
alternating rounds says what the difference is.
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
    until: Callable[[list[Sample]], bool] | None = None, is_fair: Callable[[], bool] | None = None,
    counts: Sequence[int] = (),
) -> list[Sample]:  # fmt: skip
    """Time each callable `rounds` times, in turns that are shuffled anew: A B C, B A C, A C B, …

    Nobody follows himself, into caches that he filled, and nobody always follows the same one.

    round_ms: about how long a round of one callable takes; short rounds keep most of them free of
    what else runs on the machine. finish: called at the end of each round
    inside the timing, to wait for a device. clock: times a round by a device's events instead.
    until: looks at the samples after each round and may end it all sooner. is_fair: asked after
    each round; one that was not is measured again, but at most `rounds` of them are: then they
    count. counts: how often a round calls each, where that is known; nothing is called before.
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


# Rounds that every case gets, before it may be called steady.
LEAST_ROUNDS = 10


def steady(noise: float, limit_s: float) -> Callable[[list[Sample]], bool]:
    """For `until`: how all compare with the first is known to `noise`, or `limit_s` are over.

    noise: of half the interval in which the median ratio lies with 99 % confidence, relatively.
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
    """Seconds of one call."""
    return _time(side, 1, finish) / 1e9


def _calls_for(
    side: Callable[[], Any], round_ms: float, finish: Callable[[], None] | None = None
) -> int:
    """How many calls take about a round; the first ones, which plan and compile, do not count."""
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
    """(low, median, high): the median lies between low and high with 99 % confidence.

    By order statistics, so no distribution is assumed; fewer than 8 values bound nothing with as
    much.
    """
    ordered = sorted(values)
    n = len(ordered)
    if n < _LEAST:
        return 0.0, statistics.median(ordered), math.inf
    reach = math.ceil(_Z99 * math.sqrt(n) / 2)
    middle = statistics.median(ordered)
    return ordered[max(0, n // 2 - reach)], middle, ordered[min(n - 1, (n - 1) // 2 + reach)]


_Z99 = 2.576
_LEAST = 8  # all of fewer lie on one side of the median with 2 * 2**-n, more than 1 %


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
            print(
                f"\r[{bar}] {number}/{len(items)} {label(item):<40.40}",
                end="",
                file=sys.stderr,
                flush=True,
            )
        yield item
    if shown:
        print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)
