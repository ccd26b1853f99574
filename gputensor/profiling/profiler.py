"""Profiler: number of calls, host time and device time by operator and dispatch key.

    with gt.profiler.profile() as prof:
        (a @ b).sum()
    print(prof.table())

Starting a profile wraps every kernel in every dispatch table with a clock (`dispatcher.add_wraps`),
for all threads. Without a profile, none of this code runs. A hop is one run of a kernel, so keys
that fall through do not appear. A device time is the time between two events on the current stream.
It is read at the end of the profile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from .. import runtime
from ..core import errors, lazy
from ..core.arguments import flag
from ..dispatch import dispatcher
from ..dispatch.backend_select import BACKEND_OF_TYPE
from ..dispatch.keys import DispatchKey
from ..dispatch.operator import Table

__all__ = ["Row", "profile"]

Kernel = Callable[..., Any]


@dataclass(slots=True, eq=False, repr=False)
class Row:
    """The times of one operator at one dispatch key. Self times exclude the kernels that the
    operator calls."""

    op: str
    key: str
    calls: int = 0
    host_us: float = 0.0
    host_self_us: float = 0.0
    device_us: float = 0.0
    device_self_us: float = 0.0

    def __repr__(self) -> str:
        return f"Row({self.op} [{self.key}]: {self.calls} calls, {self.host_us:.1f} us)"


class _Hop:
    """A running kernel, with the time of the kernels that it called, and its _Mark."""

    __slots__ = ("below_ns", "mark")

    def __init__(self, mark: _Mark | None) -> None:
        self.below_ns, self.mark = 0, mark


class _Mark:
    """Two events around a kernel on a device, and the mark of the calling kernel."""

    __slots__ = ("row", "above", "events", "device")

    def __init__(self, row: Row, above: _Mark | None, device: tuple[Any, int]) -> None:
        self.row, self.above, self.device = row, above, device
        self.events = [self._now()]

    def _now(self) -> Any:
        module, index = self.device
        event = module.Event(enable_timing=True)
        event.record(module.current_stream(index))
        return event

    def end(self) -> None:
        self.events.append(self._now())

    def microseconds(self) -> float:
        begin, end = self.events
        return float(begin.elapsed_time(end)) * 1000.0


class profile:
    """A context manager that measures the calls within the block. Blocks may be nested, and each
    block measures all calls inside it.

    device_time: also record events on the devices that have them. nvtx: also push an NVTX range for
    every hop, which Nsight shows; needs the package nvtx (`pip install gputensor[nvtx]`).
    """

    def __init__(self, *, device_time: bool = True, nvtx: bool = False) -> None:
        self._device_time = device_time
        self._nvtx = _nvtx_module() if flag("profile", "nvtx", nvtx) else None
        self._rows: dict[tuple[str, str], Row] = {}
        self._marks: list[_Mark] = []
        self._lock = threading.Lock()
        self._hop: ContextVar[_Hop | None] = ContextVar("gputensor_profile_hop", default=None)
        self._handle: dispatcher.Handle | None = None
        self._began = self._elapsed_ns = 0

    def __enter__(self) -> profile:
        self._handle = dispatcher.add_wraps(self._wrap, self._wrap)
        self._began = perf_counter_ns()
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._handle is not None
        self._elapsed_ns += perf_counter_ns() - self._began
        self._handle.remove()
        self._read_marks()

    def _wrap(self, table: Table, key: DispatchKey, kernel: Kernel) -> Kernel:
        op = table.operator.qualified_name
        row = self._rows.setdefault((op, key.name), Row(op, key.name))
        is_host = key.functionality != "Dense" or key.backend in ("CPU", "Meta")
        on_device = self._device_time and not is_host
        current, nvtx, lock, text = self._hop, self._nvtx, self._lock, f"{op} [{key.name}]"

        def measured(key_set: int, *args: Any) -> Any:
            above = current.get()
            mark = above.mark if above is not None else None
            device = _device(key, args) if on_device else None
            if device is not None:
                mark = _Mark(row, mark, device)
            hop = _Hop(mark)
            token = current.set(hop)
            if nvtx is not None:
                nvtx.push_range(text)
            begin = perf_counter_ns()
            try:
                return kernel(key_set, *args)
            finally:
                took = perf_counter_ns() - begin
                if nvtx is not None:
                    nvtx.pop_range()
                current.reset(token)
                if above is not None:
                    above.below_ns += took
                with lock:
                    row.calls += 1
                    row.host_us += took / 1000
                    row.host_self_us += (took - hop.below_ns) / 1000
                    if device is not None and mark is not None:
                        mark.end()
                        self._marks.append(mark)

        return measured

    def _read_marks(self) -> None:
        for module, index in {mark.device for mark in self._marks}:
            module.synchronize(index)
        for mark in self._marks:
            took = mark.microseconds()
            mark.row.device_us += took
            mark.row.device_self_us += took
            if mark.above is not None:
                mark.above.row.device_self_us -= took
        self._marks.clear()

    # --- results --------------------------------------------------------------------------------

    def rows(self, sort_by: str = "host_self_us") -> list[Row]:
        """Return the rows, sorted by `sort_by`. Numbers are sorted with the largest first, texts in
        alphabetical order.

        sort_by: calls, host_us, host_self_us, device_us, device_self_us, or op.
        """
        if sort_by not in Row.__slots__:
            raise errors.must("rows", "sort_by", f"be one of {', '.join(Row.__slots__)}", sort_by)
        called = [row for row in self._rows.values() if row.calls]
        is_text = sort_by in ("op", "key")
        return sorted(called, key=lambda row: getattr(row, sort_by), reverse=not is_text)

    def table(self, sort_by: str = "host_self_us", limit: int | None = None) -> str:
        """Return a table of at most `limit` rows, followed by the sums of all rows."""
        rows = self.rows(sort_by)
        has_device = any(row.device_us for row in rows)
        head = ["op", "key", "calls", "host self us", "host us", "host us/call"]
        head += ["device self us", "device us"] if has_device else []
        lines = [head]
        for row in rows[:limit]:
            line = [
                row.op, row.key, str(row.calls), f"{row.host_self_us:.1f}", f"{row.host_us:.1f}",
            ]  # fmt: skip
            line.append(f"{row.host_us / row.calls:.2f}")
            line += [f"{row.device_self_us:.1f}", f"{row.device_us:.1f}"] if has_device else []
            lines.append(line)
        total = f"{sum(r.calls for r in rows)} hops, "
        total += f"{sum(r.host_self_us for r in rows):.1f} us in kernels"
        total += f" of {self._elapsed_ns / 1000:.1f} us"
        if has_device:
            total += f", {sum(r.device_self_us for r in rows):.1f} us on devices"
        return f"{columns(lines, left=2)}\n{total}"

    def __str__(self) -> str:
        return self.table()


def columns(lines: list[list[str]], left: int) -> str:
    """Format rows of cells as a table. The first `left` columns are aligned left, the others
    right."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    text = []
    for line in lines:
        numbered = enumerate(zip(line, widths))
        cells = [c.ljust(w) if n < left else c.rjust(w) for n, (c, w) in numbered]
        text.append("  ".join(cells).rstrip())
    text.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(text)


def _device(key: DispatchKey, args: tuple[Any, ...]) -> tuple[Any, int] | None:
    """Return (runtime, index) of the device on which a kernel at `key` runs, or None if the device
    has no events."""
    for value in args:
        for x in value if isinstance(value, (list, tuple)) else (value,):
            place = getattr(x, "_device", None)
            if place is not None and BACKEND_OF_TYPE.get(place.type) == key.backend:
                return _timed(place.type, place.index)
    kinds = reversed(BACKEND_OF_TYPE.items())
    kind = next((k for k, backend in kinds if backend == key.backend), None)
    return None if kind is None else _timed(kind, None)


def _timed(kind: str, index: int | None) -> tuple[Any, int] | None:
    try:
        module = runtime.of(kind)
    except errors.DeviceError:
        return None
    if not hasattr(module, "Event"):
        return None
    return module, module.current_device() if index is None else index


def _nvtx_module() -> Any:
    try:
        import nvtx
    except ImportError:
        raise errors.extra_missing("profile", "nvtx") from None
    return nvtx


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
