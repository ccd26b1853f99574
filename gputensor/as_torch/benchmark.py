"""`torch.utils.benchmark`: measures the time of a statement, and prints tables of times.

A statement runs on `num_threads` threads, by default one. Times include the work of the device.
Statements in C++ and counts of instructions are not supported. Source: torch/utils/benchmark/utils.
"""

from __future__ import annotations

import contextlib
import statistics
import textwrap
import timeit
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import gputensor as gt
from gputensor.core import errors

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
# The share of the whole time that one block of runs takes. In a block of this length, the time of
# the loop itself is negligible.
_BLOCK = 1e-3


def timer() -> float:
    """Wait for the work queued on the device, then return the clock's time in seconds."""
    if gt.cuda.is_available():
        gt.cuda.synchronize()
    return perf_counter()


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit in which a time in seconds is printed, and the length of the unit in
    seconds."""
    return next((unit for unit in reversed(_UNITS) if t >= unit[1]), _UNITS[0])


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Use n threads for computations in the block."""
    before = gt.get_num_threads()
    gt.set_num_threads(n)
    try:
        yield
    finally:
        gt.set_num_threads(before)


@dataclass(frozen=True)
class TaskSpec:
    """The measured statement, and its labels in tables."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, followed by the sub label if there is one. Without a label, the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else f"stmt:\n{textwrap.indent(self.stmt, '  ')}"

    def summarize(self) -> str:
        """Return title, setup and description, one on each line."""
        lines = [self.title, self.description or ""]
        if self.setup != "pass":
            lines.append(f"setup: {self.setup}")
        return "\n".join(line for line in lines if line)


@dataclass
class Measurement:
    """Times of a statement, in seconds. raw_times: the time of each block of `number_per_run`
    runs."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(name)

    @property
    def times(self) -> list[float]:
        """The times of one run, in seconds."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median time of a run."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean time of a run."""
        return statistics.fmean(self.times)

    def _quartiles(self) -> tuple[float, float]:
        found = gt.tensor(self.times, dtype=gt.float64)
        return found.quantile(0.25).item(), found.quantile(0.75).item()

    @property
    def iqr(self) -> float:
        """The distance between the first and the third quartile."""
        low, high = self._quartiles()
        return high - low

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Return True if the distance between the quartiles is less than `threshold` times the
        median."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        """True if the times differ much."""
        return not self.meets_confidence()

    @property
    def title(self) -> str:
        """The title of the measured statement."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """The name of the row in a table."""
        return self.sub_label or self.stmt or "[Unknown]"

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Merge the measurements of equal statements."""
        groups: dict[TaskSpec, list[float]] = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).extend(one.times)
        return [Measurement(1, times, spec) for spec, times in groups.items()]

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        count, low, high = len(self.times), *self._quartiles()
        lines = [f"<{type(self).__name__} of {self.task_spec.summarize()}"]
        lines.append(f"  Median: {self.median / scale:.2f} {unit}")
        if count >= 4:
            ends = f"{low / scale:.2f} to {high / scale:.2f}"
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({ends})")
        runs = f"{self.number_per_run} runs per measurement"
        lines.append(f"  {count} measurements, {runs}, {self.num_threads} threads>")
        return "\n".join(lines)


class Timer:
    """A timer for one statement, like timeit.Timer.

    Args:
        stmt, setup, global_setup: code. setup runs before each measurement. globals: the names
            that the code can use.
        timer: a clock. num_threads: threads to compute on.
        label, sub_label, description, env: names of the measurement in a table.
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = timer, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: Any = "py",
    ) -> None:  # fmt: skip
        if not isinstance(stmt, str):
            raise errors.wrong_type("Timer", "stmt", "be a string of code", stmt)
        if str(language).lower() not in ("py", "python"):
            raise errors.must(
                "Timer", "language", "be python: nothing is compiled against PyTorch", language,
                kind=errors.AbsentError,
            )  # fmt: skip
        names = {"torch": gt, **(globals or {})}
        stmt, setup = (textwrap.dedent(code).strip() for code in (stmt, setup))
        exec(textwrap.dedent(global_setup), names)
        self._timer: timeit.Timer = timeit.Timer(stmt, setup, timer, names)
        self._spec: TaskSpec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )

    def _time(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Measure `number` runs of the statement, after a warm-up with a hundredth of that
        number."""
        with set_torch_threads(self._spec.num_threads):
            self._time(max(number // 100, 2))
            return Measurement(number, [self._time(number)], self._spec)

    def _block(self, min_run_time: float) -> int:
        """Return the number of runs in a block."""
        number = 1
        while self._time(number) < min_run_time * _BLOCK and number < 1_000_000_000:
            number *= 10
        return number

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Run blocks of the statement for at least `min_run_time` seconds.

        callback: called with the number of runs and the seconds of each block.
        """
        return self._measure(min_run_time, min_run_time, lambda found: True, callback)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """Run blocks until the quartiles differ by less than `threshold` times the median.

        min_run_time, max_run_time: bounds of the whole time, in seconds.
        """

        def is_enough(found: Measurement) -> bool:
            return len(found.raw_times) > 3 and found.meets_confidence(threshold)

        return self._measure(min_run_time, max_run_time, is_enough, callback)

    def _measure(
        self, least: float, most: float, is_enough: Callable[[Measurement], bool], callback: Any
    ) -> Measurement:
        with set_torch_threads(self._spec.num_threads):
            found = Measurement(self._block(least), [], self._spec)
            while True:
                taken = self._time(found.number_per_run)
                found.raw_times.append(taken)
                if callback is not None:
                    callback(found.number_per_run, taken)
                whole = sum(found.raw_times)
                if whole >= most or whole >= least and is_enough(found):
                    return found


class Compare:
    """A table of medians for each label. Its rows are the sub labels, its columns the
    descriptions."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._rounds = False
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        for one in (listed := [*results]):
            if not isinstance(one, Measurement):
                raise errors.wrong_type("Compare", "results", "be Measurements", one)
        self._results += listed

    def trim_significant_figures(self) -> None:
        """Print three figures of each time."""
        self._rounds = True

    def colorize(self, rowwise: bool = False) -> None:
        """Do nothing, because tables have no colours."""

    def highlight_warnings(self) -> None:
        """Do nothing: times with a large spread are not marked."""

    def print(self) -> None:
        """Print the tables."""
        print(self)

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(one.label for one in merged)
        return "\n\n".join(self._table(label, [m for m in merged if m.label == label])
                           for label in labels)  # fmt: skip

    def _table(self, label: str | None, found: list[Measurement]) -> str:
        unit, scale = select_unit(min(one.median for one in found))
        columns = [*dict.fromkeys(one.description for one in found)]
        rows: dict[Any, dict[Any, str]] = {}
        for one in found:
            name = f"{one.as_row_name}{f' ({one.env})' if one.env else ''}"
            time = one.median / scale
            text = f"{time:.3g}" if self._rounds else f"{time:.1f}"
            rows.setdefault((one.num_threads, name), {})[one.description] = text
        lines = [["", *[column or "" for column in columns]]]
        for threads in dict.fromkeys(key[0] for key in rows):
            lines.append([f"{threads} threads:", *[""] * len(columns)])
            lines += [[f"  {name}", *[row.get(column, "") for column in columns]]
                      for (number, name), row in rows.items() if number == threads]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*lines)]
        shown = [
            " | ".join(
                [line[0].ljust(widths[0])] + [t.rjust(w) for t, w in zip(line[1:], widths[1:])]
            )
            for line in lines
        ]
        return "\n".join([f"[ {label or 'times'} ]", *shown, f"Times are in {unit}."])


OF_BENCHMARK: dict[str, Any] = {
    "Compare": Compare, "Measurement": Measurement, "TaskSpec": TaskSpec, "Timer": Timer,
    "select_unit": select_unit, "set_torch_threads": set_torch_threads, "timer": timer,
}  # fmt: skip
