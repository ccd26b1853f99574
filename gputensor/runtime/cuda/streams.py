"""CuPy's streams and events, each with its device."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from typing import Any

import cupy

from gputensor.core import errors

from .. import capture, settling
from ..capture import capturing
from .driver import CudaError, On, Relaxed, checked, failed, get_device, is_done, reporting

_runtime: Any = cupy.cuda.runtime
cupy_stream = cupy.cuda.get_current_stream

# The per-thread default stream has this handle.
PER_THREAD = 2
_STREAMS_IN_POOL = 32  # As in PyTorch, there are this many streams per device and priority.

_lock = threading.Lock()
_local = threading.local()
# Maps a device's index to the CuPy stream that was current last, and our Stream for it.
_streams: dict[int, tuple[Any, Stream]] = {}
_stream_pools: dict[tuple[int, int], deque[Any]] = {}  # The keys are (device, priority).
_thread_keys = itertools.count(-1, -1)


class Stream:
    """A CuPy stream together with its device. It does not synchronise with the default stream.

    As in PyTorch, a new Stream takes the next of 32 CuPy streams per device and priority, so that
    cached memory is reused. key: identifies the stream on its device. is_borrowed: another library
    owns the handle and may destroy it.
    """

    __slots__ = ("__weakref__", "cupy", "device_index", "is_borrowed", "key", "priority", "ptr")

    def __init__(
        self, device_index: int, priority: int = 0, *, of: Any = None, is_borrowed: bool = False
    ) -> None:
        if of is None:
            of = _pooled(checked("Stream", device_index), priority)
        self.cupy: Any = of
        self.key: int = of.ptr
        self.ptr: int = of.ptr
        self.device_index: int = device_index
        self.priority: int = priority
        self.is_borrowed: bool = is_borrowed

    def synchronize(self) -> None:
        if capturing:
            capture.refuse_wait("synchronize", self)
        with On(self.device_index), Relaxed():
            reporting(self.device_index, "waiting for a stream", self.cupy.synchronize)

    def query(self) -> bool:
        """Return True if all work of the stream is done. Raise the error of failed work."""
        if capturing:
            capture.refuse_wait("query", self)
        with On(self.device_index), Relaxed():
            return is_done(self.device_index, "asking a stream", _runtime.streamQuery(self.ptr))

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
        return f"<Stream {self.ptr:#x} of cuda:{self.device_index}>"


def _pooled(device_index: int, priority: int) -> Any:
    # The driver's range of priorities is inside this range.
    priority = max(-5, min(priority, 0))
    with _lock:
        streams = _stream_pools.setdefault((device_index, priority), deque())
        if len(streams) == _STREAMS_IN_POOL:
            streams.rotate(-1)
        else:
            with On(device_index):
                try:
                    made = cupy.cuda.Stream(non_blocking=True, priority=priority or None)
                except CudaError as error:
                    raise failed(device_index, "making a stream", error) from error
                streams.append(made)
        return streams[-1]


class Event:
    """A point in a stream's work. CuPy's event is created at the first recording, on the stream's
    device. blocking: a thread that waits for the event sleeps instead of polling."""

    __slots__ = ("_by", "_capture", "_device_index", "blocking", "cupy", "enable_timing")

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self.enable_timing: bool = enable_timing
        self.blocking: bool = blocking
        self.cupy: Any = None
        self._device_index = -1
        self._by: Stream | None = None
        self._capture: capture.Capture | None = None

    def record(self, stream: Stream | None = None) -> None:
        settling.settle("an event is recorded")
        stream = stream or current_stream(get_device())
        try:
            self.record_or_fail(stream)
        except CudaError as error:
            raise failed(stream.device_index, "recording an event", error) from error

    def record_or_fail(self, stream: Stream) -> None:
        """Record the event. A failure is raised as CuPy's error."""
        with On(stream.device_index):
            if self._device_index != stream.device_index:
                self.cupy = cupy.cuda.Event(self.blocking, not self.enable_timing)
                self._device_index = stream.device_index
            self.cupy.record(stream.cupy)
        self._capture, self._by = capture.of(stream) if capturing else None, stream

    def wait(self, stream: Stream | None = None) -> None:
        """Let work that is queued on the stream after this call wait for this point."""
        if self.cupy is not None:
            settling.settle("a stream waits for an event")
            stream = stream or current_stream(get_device())
            if capturing or self._capture is not None:
                capture.before_waiting(self._capture, stream)
            with On(stream.device_index):
                wait, index = stream.cupy.wait_event, stream.device_index
                reporting(index, "waiting for an event", wait, self.cupy)

    def query(self) -> bool:
        """Return True if all work before this point is done. Raise the error of failed work."""
        if self.cupy is None:
            return True
        if capturing or self._capture is not None:
            capture.refuse_wait("query", self._by, self._capture)
            return self.has_passed()
        return is_done(self._device_index, "asking an event", _runtime.eventQuery(self.cupy.ptr))

    def has_passed(self) -> bool:
        """Return the same result as `query`. A call during a capture is allowed."""
        if self.cupy is None:
            return True
        index = self._device_index
        with On(index), Relaxed():
            return is_done(index, "asking an event", _runtime.eventQuery(self.cupy.ptr))

    def synchronize(self) -> None:
        if capturing or self._capture is not None:
            capture.refuse_wait("synchronize", self._by, self._capture)
        if self.cupy is not None:
            with Relaxed():
                reporting(self._device_index, "waiting for an event", self.cupy.synchronize)

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds between this event and `end`."""
        for event in (self, end):
            if not event.enable_timing or not event.cupy or not event.query():
                got = "no timing" if not event.enable_timing else "not passed yet"
                rule = "be events with enable_timing=True that have been passed"
                raise errors.must("elapsed_time", "events", rule, errors.Got(got))
        ask = cupy.cuda.get_elapsed_time
        return float(reporting(self._device_index, "elapsed_time", ask, self.cupy, end.cupy))


def default_stream(index: int) -> Stream:
    checked("default_stream", index)
    return _of_cupy(index, cupy.cuda.Stream.null)


def current_stream(index: int) -> Stream:
    """Return the Stream for CuPy's current stream of a device in this thread."""
    return stream_of(index, cupy_stream(index))


def _of_cupy(index: int, of: Any) -> Stream:
    if of.ptr == PER_THREAD:
        return per_thread_stream(index)
    stream = Stream(index, of=of)
    _streams[index] = (of, stream)
    return stream


def per_thread_stream(index: int) -> Stream:
    """Return this thread's default stream. CUDA's handle for it is equal in all threads, so `key`
    is a number that differs between threads."""
    try:
        streams: dict[int, Stream] = _local.streams
    except AttributeError:
        streams = _local.streams = {}
    if index not in streams:
        stream = streams[index] = Stream(index, of=cupy.cuda.Stream.ptds)
        stream.key = next(_thread_keys)
    return streams[index]


def stream_of(index: int, of: Any) -> Stream:
    """Return the Stream for `of`, a CuPy stream that is current."""
    seen = _streams.get(index)
    return seen[1] if seen is not None and seen[0] is of else _of_cupy(index, of)


def set_stream(stream: Stream) -> Stream:
    """Make a stream current for its device in this thread, and return the previous one."""
    previous = current_stream(stream.device_index)
    try:
        if previous.key != stream.key:
            settling.settle("another stream becomes current")
    finally:
        with On(stream.device_index):
            stream.cupy.use()
    return previous


class _External:
    """A stream of another library, wrapped for CuPy (`ExternalStream` is deprecated in CuPy 14)."""

    __slots__ = ("owner", "ptr")

    def __init__(self, ptr: int, owner: Any) -> None:
        self.ptr, self.owner = ptr, owner

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr


def external_stream(index: int, ptr: int, owner: Any = None) -> Stream:
    """Return a Stream for another library's handle. Handles 0 and 1 are the legacy default stream;
    handle 2 is this thread's default stream.

    owner: an object that keeps the handle alive. It is kept as long as memory is in use on the
    stream.
    """
    if ptr in (0, 1):
        return default_stream(index)
    if ptr == PER_THREAD:
        return per_thread_stream(index)
    if owner is not None:
        return Stream(index, of=cupy.cuda.Stream.from_external(_External(ptr, owner)))
    found = _external.get((index, ptr))
    if found is None:
        of = cupy.cuda.Stream.from_external(_External(ptr, None))
        found = _external[index, ptr] = Stream(index, of=of, is_borrowed=True)
    return found


_external: dict[tuple[int, int], Stream] = {}


def synchronize(index: int) -> None:
    """Wait for all work of a device. Raise the error of failed work."""
    if capturing:
        capture.refuse_device_wait("synchronize", index)
    with On(checked("synchronize", index)):
        reporting(index, "synchronize", _runtime.deviceSynchronize)
