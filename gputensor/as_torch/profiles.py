"""`torch.profiler` and `torch.autograd.profiler` for PyTorch's programs, based on
gt.profiler.profile.

The result has sums for each operator; there is no timeline. Source: torch/profiler/profiler.py,
torch/autograd/profiler_util.py.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import gputensor as gt
from gputensor.core import errors
from gputensor.profiling import profiler

_running: list[profile] = []


class ProfilerAction(enum.Enum):
    """The action of a profile in one step of a schedule."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """Make a function that returns the action for a step's number. A cycle has `wait` steps that
    are not measured, `warmup` steps, and `active` steps that are measured.

    repeat: the number of cycles; 0 means no end. skip_first: steps before the first cycle.
    skip_first_wait: if it is not 0, the first cycle begins with its warm-up steps.
    """
    for name, value in {"wait": wait, "warmup": warmup, "repeat": repeat}.items():
        if value < 0:
            raise errors.must("schedule", name, "not be negative", value)
    if active < 1:
        raise errors.must("schedule", "active", "be at least 1", active)
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        step += wait if skip_first_wait else 0
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        is_last = place == length - 1
        return ProfilerAction.RECORD_AND_SAVE if is_last else ProfilerAction.RECORD

    return action


@dataclass(eq=False, repr=False)
class Average:
    """The number of calls and the total times of one operator, or of one block of
    `record_function`. Times are in microseconds."""

    key: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0

    @property
    def cpu_time(self) -> float:
        """Mean CPU time of a call."""
        return self.cpu_time_total / max(self.count, 1)

    @property
    def device_time(self) -> float:
        """Mean device time of a call."""
        return self.device_time_total / max(self.count, 1)

    def add(self, row: profiler.Row) -> None:
        """Add the row of one dispatch key.

        Calls at several keys are nested, so only the time of each key itself is added up.
        """
        self.count = max(self.count, row.calls)
        self.cpu_time_total = max(self.cpu_time_total, row.host_us)
        self.self_cpu_time_total += row.host_self_us
        self.device_time_total = max(self.device_time_total, row.device_us)
        self.self_device_time_total += row.device_self_us

    def __repr__(self) -> str:
        return f"<Average {self.key}: {self.count} calls, {self.cpu_time_total:.1f} us>"


class Averages(list[Average]):
    """Result of `key_averages`: the sums of each operator."""

    @property
    def self_cpu_time_total(self) -> float:
        """Time of all operators."""
        return self.total_average().self_cpu_time_total

    def total_average(self) -> Average:
        """The sums over all operators."""
        found = Average("Total")
        for x in self:
            found.count += x.count
            found.cpu_time_total += x.cpu_time_total
            found.self_cpu_time_total += x.self_cpu_time_total
            found.device_time_total += x.device_time_total
            found.self_device_time_total += x.self_device_time_total
        return found

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, *args: Any, **options: Any
    ) -> str:
        """Return a table of the rows as text. sort_by: an attribute of the rows; `cuda` in its name
        is read as `device`."""
        rows = list(self)
        if sort_by is not None:
            name = sort_by.replace("cuda", "device")
            if not hasattr(Average(""), name):
                raise errors.wrong_value("table", "sort_by", "be an attribute of rows", sort_by)
            rows.sort(key=lambda x: getattr(x, name), reverse=True)
        has_device = any(x.device_time_total for x in rows)
        lines = [["Name", "Self CPU us", "CPU total us", "CPU time avg us", "# of Calls"]]
        lines[0] += ["Self CUDA us", "CUDA total us"] if has_device else []
        for x in rows[: None if row_limit < 0 else row_limit]:
            times = [x.self_cpu_time_total, x.cpu_time_total, x.cpu_time]
            line = [x.key, *[f"{t:.1f}" for t in times], str(x.count)]
            if has_device:
                line += [f"{x.self_device_time_total:.1f}", f"{x.device_time_total:.1f}"]
            lines.append(line)
        text = profiler.columns(lines, left=1)
        return f"{text}\nSelf CPU time total: {self.self_cpu_time_total:.1f}us"


class profile:
    """A profile of the operators in a block, or between `start` and `stop`, in steps of a schedule.

    Args:
        activities: CPU, CUDA or both; both by default.
        schedule: see `schedule`; by default every step is measured. `step()` ends a step.
        on_trace_ready: called with the profile whenever measured steps end.
        record_shapes, profile_memory, with_stack, with_flops, with_modules, ...: accepted; they
        have no effect, because only sums by operator are recorded.
    """

    step_num: int

    def __init__(
        self, activities: Any = None, schedule: Any = None, on_trace_ready: Any = None,
        record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False,
        with_flops: bool = False, with_modules: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self._action = schedule or (lambda step: ProfilerAction.RECORD)
        self._ready, self.step_num = on_trace_ready, 0
        names = None if activities is None else [x.name for x in activities]
        self._device_time: bool = names is None or "CUDA" in names
        self._measured: profiler.profile | None = None
        self._found: list[profiler.Row] = []
        self._marked: dict[str, Average] = {}

    def _is_recording(self) -> bool:
        return self._measured is not None

    def _begin(self) -> None:
        wanted = self._action(self.step_num)
        records = wanted in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if records and self._measured is None:
            self._found, self._marked = [], {}
            self._measured = profiler.profile(device_time=self._device_time)
            self._measured.__enter__()

    def _end(self) -> None:
        if self._measured is not None:
            self._measured.__exit__(None, None, None)
            self._found, self._measured = self._measured.rows(), None
            if self._ready is not None:
                self._ready(self)

    def start(self) -> None:
        """Begin the profile."""
        _running.append(self)
        self._begin()

    def stop(self) -> None:
        """End the profile."""
        self._end()
        if self in _running:
            _running.remove(self)

    def step(self) -> None:
        """End a step of the schedule."""
        is_last = self._action(self.step_num) is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        if is_last:
            self._end()
        self._begin()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def key_averages(self, *args: Any, **options: Any) -> Averages:
        """Return the sums of each operator and of each `record_function` block."""
        found = dict(self._marked)
        rows = self._found if self._measured is None else self._measured.rows()
        for row in rows:
            found.setdefault(row.op, Average(row.op)).add(row)
        return Averages(found.values())

    # `events` returns sums as well, because single calls are not recorded.
    events = key_averages

    def add_metadata(self, key: str, value: str) -> None:
        """Do nothing: metadata belongs to a timeline, which this profiler does not write."""

    add_metadata_json = add_metadata

    def export_chrome_trace(self, path: Any) -> None:
        """Raise an error, because there is no timeline."""
        raise _no_timeline("export_chrome_trace", path)

    def export_stacks(self, path: Any, *args: Any, **options: Any) -> None:
        """Raise an error, because single calls and their Python stacks are not recorded."""
        raise _no_timeline("export_stacks", path)

    def export_memory_timeline(self, path: Any, *args: Any, **options: Any) -> None:
        """Raise an error, because there is no timeline."""
        raise _no_timeline("export_memory_timeline", path)


def _no_timeline(name: str, path: Any) -> Exception:
    return errors.must(
        "profile", name, "not be called, as there is no timeline", path,
        remedy="key_averages().table() has the sums", kind=errors.AbsentError,
    )  # fmt: skip


class autograd_profile(profile):
    """`torch.autograd.profiler.profile`: a profile without a schedule. enabled=False disables
    it."""

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: Any = None,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self._is_enabled, self._device_time = enabled, use_cuda or use_device is not None

    def __enter__(self) -> autograd_profile:
        if self._is_enabled:
            self.start()
        return self

    def table(self, *args: Any, **options: Any) -> str:
        """Return `key_averages().table(...)`."""
        return self.key_averages().table(*args, **options)

    def total_average(self) -> Average:
        """The sums of all operators."""
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Time of all operators."""
        return self.key_averages().self_cpu_time_total


class record_function(contextlib.ContextDecorator):
    """A block, or a decorated function, whose time the running profiles record under `name`."""

    name: str

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._began: list[int] = []

    def __enter__(self) -> record_function:
        self._began.append(perf_counter_ns())
        return self

    def __exit__(self, *exc: object) -> None:
        took = (perf_counter_ns() - self._began.pop()) / 1000
        for running in _running:
            if running._is_recording():
                found = running._marked.setdefault(self.name, Average(self.name))
                found.count += 1
                found.cpu_time_total += took


class ProfilerActivity(enum.Enum):
    """The kinds of activity that PyTorch's profiler measures."""

    CPU, XPU, CUDA, HPU, MTIA, PrivateUse1 = range(6)


def supported_activities() -> set[ProfilerActivity]:
    """Return the CPU, and CUDA if there is a device."""
    cuda = {ProfilerActivity.CUDA} if gt.cuda.is_available() else set()
    return {ProfilerActivity.CPU, *cuda}


def tensorboard_trace_handler(dir_name: Any, *args: Any, **options: Any) -> Callable[[Any], None]:
    """Return a handler that raises an error when a trace is ready, because profiles contain no
    timeline."""
    return lambda running: running.export_chrome_trace(dir_name)


OF_PROFILER: dict[str, Any] = {
    "profile": profile, "record_function": record_function, "schedule": schedule,
    "ProfilerAction": ProfilerAction, "ProfilerActivity": ProfilerActivity,
    "supported_activities": supported_activities, "kineto_available": lambda: False,
    "tensorboard_trace_handler": tensorboard_trace_handler,
}  # fmt: skip
OF_AUTOGRAD: dict[str, Any] = {
    "profile": autograd_profile, "record_function": record_function,
    "ProfilerActivity": ProfilerActivity, "kineto_available": lambda: False,
    "EventList": Averages, "emit_nvtx": lambda enabled=True, record_shapes=False: (
        profiler.profile(nvtx=True) if enabled else contextlib.nullcontext()
    ),
}  # fmt: skip
