"""Streams and events of emulated devices: queues of the scheduler, and marks in these queues."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from weakref import WeakValueDictionary, ref

from gputensor.core import errors

from .. import capture, settling
from ..capture import capturing
from ..emulator.queues import Mark, Queue
from . import devices
from .devices import checked, current_device

__tracebackhide__ = errors.is_of_a_kernel

default_streams: list[Stream] = []
_local = threading.local()
# Numbers below 16 are left out, because other libraries use 1 and 2 for the default streams, as
# CUDA does.
_stream_numbers = itertools.count(16)
_by_number: WeakValueDictionary[int, Stream] = WeakValueDictionary()


class Stream:
    """The queue of work of one stream of a device."""

    __slots__ = ("__weakref__", "device_index", "key", "priority", "ptr", "queue")
    key: int
    ptr: int

    def __init__(self, device_index: int, priority: int = 0, *, ptr: int | None = None) -> None:
        if ptr is None:
            checked("Stream", device_index)
        self.device_index: int = device_index
        self.priority: int = priority
        self.key = self.ptr = next(_stream_numbers) if ptr is None else ptr
        self.queue: Queue = Queue(device_index)
        if self.ptr:
            _by_number[self.ptr] = self

    def synchronize(self) -> None:
        """Wait for all work of the stream. Raise the error of failed work."""
        if capturing:
            capture.refuse_wait("synchronize", self)
        devices.scheduler.drain(self.queue)
        devices.scheduler.raise_failure()

    def query(self) -> bool:
        """Return True if all work of the stream is done. Raise the error of failed work."""
        if capturing:
            capture.refuse_wait("query", self)
        devices.scheduler.poll(self.queue)
        devices.scheduler.raise_failure()
        return not self.queue.pending

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let work that is queued after this call wait for the current work of another stream."""
        self.wait_event(stream.record_event())

    def record_event(self) -> Event:
        event = Event()
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<Stream {self.ptr} of emulated cuda:{self.device_index}>"


class Event:
    """A point in a stream's work."""

    __slots__ = ("_by", "_capture", "_mark", "enable_timing")

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self.enable_timing: bool = enable_timing
        self._mark: Mark | None = None
        # A weak reference, so that the event does not keep the stream alive.
        self._by: Callable[[], Stream | None] = lambda: None
        self._capture: capture.Capture | None = None

    def record(self, stream: Stream | None = None) -> None:
        settling.settle("an event is recorded")
        stream = stream or current_stream(current_device())
        self._capture, self._by = capture.of(stream) if capturing else None, ref(stream)
        self._mark = devices.scheduler.record(stream.queue)

    def wait(self, stream: Stream | None = None) -> None:
        """Let work that is queued on the stream after this call wait for this point."""
        if self._mark is not None:
            settling.settle("a stream waits for an event")
            stream = stream or current_stream(current_device())
            if capturing or self._capture is not None:
                capture.before_waiting(self._capture, stream)
            devices.scheduler.wait(stream.queue, self._mark)

    def query(self) -> bool:
        """Return True if all work before this point is done. Raise the error of failed work."""
        if capturing or self._capture is not None:
            capture.refuse_wait("query", self._by(), self._capture)
        if self._mark is not None and not self._mark.done:
            devices.scheduler.poll(self._mark.queue)
            devices.scheduler.raise_failure()
        return self._mark is None or self._mark.done

    def has_passed(self) -> bool:
        """Return True if all work before this point is done. Unlike `query`, run no queued work. A
        call during a capture is allowed."""
        return self._mark is None or self._mark.done

    def synchronize(self) -> None:
        if capturing or self._capture is not None:
            capture.refuse_wait("synchronize", self._by(), self._capture)
        if self._mark is not None:
            devices.scheduler.reach(self._mark)
        devices.scheduler.raise_failure()

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds of emulated work between two events. They do not predict the time
        on a GPU."""
        times = []
        for event in (self, end):
            if not event.enable_timing or event._mark is None or not event._mark.done:
                got = "no timing" if not event.enable_timing else "not passed yet"
                rule = "be events with enable_timing=True that have been passed"
                raise errors.must("elapsed_time", "events", rule, errors.Got(got))
            times.append(event._mark.time_s)
        return (times[1] - times[0]) * 1e3


def default_stream(index: int) -> Stream:
    return default_streams[checked("default_stream", index)]


def current_stream(index: int) -> Stream:
    streams = getattr(_local, "streams", None)
    return (streams and streams.get(index)) or default_streams[checked("current_stream", index)]


def external_stream(index: int, ptr: int) -> Stream:
    """Return the stream with this number; 0 and 1 mean the default stream."""
    found = default_stream(index) if ptr in (0, 1) else _by_number.get(ptr)
    if found is None:
        raise errors.wrong_value("ExternalStream", "stream_ptr", "be that of a stream", ptr)
    return found


def set_stream(stream: Stream) -> Stream:
    """Make a stream current for its device in this thread, and return the previous one."""
    previous = current_stream(stream.device_index)
    try:
        if previous.key != stream.key:
            settling.settle("another stream becomes current")
    finally:
        if not hasattr(_local, "streams"):
            _local.streams = {}
        _local.streams[stream.device_index] = stream
    return previous


def synchronize(index: int) -> None:
    """Wait for all work of a device. Raise the error of failed work."""
    if capturing:
        capture.refuse_device_wait("synchronize", index)
    devices.scheduler.drain_all(checked("synchronize", index))
    devices.scheduler.raise_failure()
    late = devices.machine.check_freed()
    if late:
        raise errors.kernel_failed("an earlier kernel", late)
