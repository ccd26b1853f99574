"""Simulated hardware: memory that the host cannot access, streams that delay their work, and
events.

Only this module contains hardware-specific code; its functions have the names of gputensor's
runtimes (`gputensor.runtime.REQUIRED` and `OPTIONAL`). Work runs only when something waits for its
stream, so a missing wait becomes visible. An access outside the device's memory raises a Fault.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import numpy as np

DEVICES = 2
# An address consists of the allocation's number and, in its lowest OFFSET_BITS bits, the offset in
# the allocation.
OFFSET_BITS = 40
_numbers = count(1)
_memory: WeakValueDictionary[int, Memory] = WeakValueDictionary()
_streams: WeakSet[Stream] = WeakSet()
_lock = threading.RLock()
_thread = threading.local()


class Fault(RuntimeError):
    """An access that real hardware would reject."""


# --- devices ------------------------------------------------------------------------------------


def device_count() -> int:
    return DEVICES


def current_device() -> int:
    return getattr(_thread, "device", 0)


def exchange_device(index: int) -> int:
    """Make a device current for this thread. Return the previous one."""
    if not 0 <= index < DEVICES:
        raise Fault(f"no device {index}; there are {DEVICES}")
    former, _thread.device = current_device(), index
    return former


def synchronize(device_index: int) -> None:
    """Run all work that was submitted to the device."""
    for stream in [s for s in _streams if s.device_index == device_index]:
        stream.synchronize()


# --- memory -------------------------------------------------------------------------------------


class Memory:
    """An allocation. It exists as long as a tensor or submitted work refers to it."""

    def __init__(self, nbytes: int, device_index: int) -> None:
        self.nbytes, self.device_index = nbytes, device_index
        self.bytes = np.full(nbytes, 0xA5, np.uint8)  # makes reads of uninitialised memory visible
        number = next(_numbers)
        self.ptr = number << OFFSET_BITS
        _memory[number] = self


def allocate(nbytes: int, device_index: int) -> Memory:
    return Memory(nbytes, device_index)


def memory_allocated(device_index: int = 0) -> int:
    return sum(m.nbytes for m in list(_memory.values()) if m.device_index == device_index)


def reach(address: int, nbytes: int, device_index: int) -> np.ndarray:
    """Return the bytes at an address in a device's memory, or in host memory if `device_index` is
    -1."""
    if device_index == -1:
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
    memory, begin = _memory.get(address >> OFFSET_BITS), address & ((1 << OFFSET_BITS) - 1)
    if memory is None or memory.device_index != device_index or begin + nbytes > memory.nbytes:
        raise Fault(f"device {device_index} cannot reach {nbytes} bytes at {address:#x}")
    return memory.bytes[begin : begin + nbytes]


def copy_async(
    to: int, to_device: int, source: int, from_device: int, nbytes: int, stream: Stream
) -> None:
    target, origin = reach(to, nbytes, to_device), reach(source, nbytes, from_device)
    stream.submit(lambda: np.copyto(target, origin))


# --- streams and events -------------------------------------------------------------------------


class Stream:
    """A queue of work. The work runs in order when a caller waits for the stream or for an
    event."""

    def __init__(self, device_index: int, priority: int = 0) -> None:
        self.device_index, self.priority = device_index, priority
        self._work: deque[Callable[[], Any]] = deque()
        _streams.add(self)

    def submit(self, work: Callable[[], Any]) -> None:
        self._work.append(work)

    def run_until(self, is_done: Callable[[], Any]) -> None:
        with _lock:
            while not is_done():
                self._work.popleft()()

    def synchronize(self) -> None:
        self.run_until(self.query)

    def query(self) -> bool:
        """Return True if no work is left to run."""
        return not self._work

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Make all later work of this stream wait until the work before `event` has run."""
        event.wait(self)


class Event:
    """A point in a stream. It is an error to use an event that was not recorded, or to read a time
    that was not measured."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing
        self._stream: Stream | None = None
        self._times: list[float] = []  # the time, once the stream has passed the point

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or current_stream()
        if self._stream is not None and self._stream.device_index != stream.device_index:
            own = self._stream.device_index
            raise Fault(f"the event is of device {own}, the stream of {stream.device_index}")
        self._stream, self._times = stream, []
        stream.submit(lambda times=self._times: times.append(time.perf_counter()))

    def _recorded(self) -> tuple[Stream, list[float]]:
        if self._stream is None:
            raise Fault("the event was not recorded")
        return self._stream, self._times

    def query(self) -> bool:
        """Return True if the stream has passed the point."""
        return bool(self._recorded()[1])

    def synchronize(self) -> None:
        stream, times = self._recorded()
        stream.run_until(lambda: times)

    def wait(self, stream: Stream | None = None) -> None:
        source, times = self._recorded()
        (stream or current_stream()).submit(lambda: source.run_until(lambda: times))

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to `end`."""
        if not (self.enable_timing and end.enable_timing and self.query() and end.query()):
            raise Fault("both events must be made with enable_timing=True, and have passed")
        return (end._times[0] - self._times[0]) * 1e3


_default_streams = [Stream(i) for i in range(DEVICES)]


def default_stream(device_index: int) -> Stream:
    return _default_streams[device_index]


def current_stream(device_index: int | None = None) -> Stream:
    """Return the current stream of this thread on a device, by default on the current device."""
    index = current_device() if device_index is None else device_index
    return getattr(_thread, "streams", {}).get(index) or default_stream(index)


def set_stream(stream: Stream) -> Stream:
    """Make a stream current on its device, for this thread. Return the previous one."""
    former = current_stream(stream.device_index)
    _thread.streams = {**getattr(_thread, "streams", {}), stream.device_index: stream}
    return former
