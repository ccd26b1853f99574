"""torch.utils.benchmark: the measured statements, the number of runs, and the tables; the clock is
simulated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.as_torch import benchmark
from gputensor.as_torch.benchmark import Compare, Measurement, TaskSpec, Timer


class Clock:
    """A clock that advances only in `work`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lasts: Iterator[float] = itertools.repeat(0.25)

    def __call__(self) -> float:
        return self.now

    def work(self) -> None:
        self.now += next(self.lasts)


def timed(clock: Clock, **options: Any) -> Timer:
    return Timer("work()", timer=clock, globals={"work": clock.work}, **options)


def test_runs_are_counted_and_timed() -> None:
    clock, threads = Clock(), gt.get_num_threads()
    found = timed(clock).timeit(200)
    assert (found.mean, found.median, found.number_per_run) == (0.25, 0.25, 200)
    assert clock.now == 202 * 0.25 and gt.get_num_threads() == threads
    seen: list[Any] = []
    found = timed(Clock()).blocked_autorange(lambda *of: seen.append(of), min_run_time=2)
    assert seen == [(1, 0.25)] * 8 and found.times == [0.25] * 8 and found.iqr == 0
    clock.lasts = itertools.chain([1.0, 1.0, 3.0, 1.0], itertools.repeat(2.0))
    found = timed(clock).adaptive_autorange(threshold=0.3, max_run_time=100)
    assert len(found.times) > 4 and found.meets_confidence(0.3)
    clock.lasts = itertools.cycle([1.0, 5.0])
    assert len(timed(clock).adaptive_autorange(max_run_time=30).times) == 10


def test_code_sees_its_names_and_torch() -> None:
    names: dict[str, Any] = {"seen": []}
    timer = Timer("seen.append(x + y)", "x = 2", "y = torch.ones(1)", globals=names)
    timer.timeit(1)
    assert [x.item() for x in names["seen"]] == [3.0] * 3
    assert "Median: " in repr(timer.timeit(1)) and "setup: x = 2" in repr(timer.timeit(1))


def test_a_table() -> None:
    made = [
        Measurement(1, [time], TaskSpec(code, "pass", label="sums", sub_label=code,
                                        description=size, num_threads=threads))
        for code, size, time, threads in (
            ("x.sum()", "small", 2e-6, 1), ("x.sum()", "large", 3.0e-3, 1),
            ("x.mean()", "small", 2.5e-6, 1), ("x.sum()", "small", 1e-6, 2),
            ("x.sum()", "small", 4e-6, 1),
        )
    ]  # fmt: skip
    table = Compare(made[:-1])
    table.extend_results(made[-1:])
    assert str(table).splitlines() == [
        "[ sums ]", "           | small |  large", "1 threads: |       |       ",
        "  x.sum()  |   3.0 | 3000.0", "  x.mean() |   2.5 |       ",
        "2 threads: |       |       ", "  x.sum()  |   1.0 |       ", "Times are in us.",
    ]  # fmt: skip
    assert [benchmark.select_unit(t)[0] for t in (2e-10, 3e-8, 4e-6, 5e-2, 60)] == [
        "ns", "ns", "us", "ms", "s"
    ]  # fmt: skip


def test_refused() -> None:
    with pytest.raises(gt.GpuTensorError, match="Timer: 'language' must be python"):
        Timer(language="c++")
    with pytest.raises(gt.GpuTensorError, match="Timer: 'stmt' must be a string"):
        Timer(print)  # type: ignore[arg-type]
    with pytest.raises(gt.GpuTensorError, match="Compare: 'results' must be Measurements"):
        Compare([3])  # type: ignore[list-item]
