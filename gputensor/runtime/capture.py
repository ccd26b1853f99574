"""The common part of CUDA graph captures: the streams that take part, and the calls that are
rejected during a capture.

Work on a captured stream is recorded but not run. A runtime begins a `Capture` on a stream. Another
stream joins when it waits for an event of the capture, and the first stream must wait for that
stream before the capture ends. Calls that need a result, and calls that the driver rejects during a
capture, are rejected here first, with the operator's name; the capture then continues. Other code
only tests whether `capturing` is empty.

Note [Random numbers of a graph] A call within a capture does not advance the generator. Its kernel
receives the address of {seed, position}, and the number of blocks that earlier calls of the capture
used. Each replay first writes the generator's state to this address and advances the generator by
the blocks of all calls. So a replay draws the numbers that the calls would draw without a capture.
"""

from __future__ import annotations

import sys
import threading
from itertools import count
from typing import Any

from ..core import errors

# The captures in progress, of all threads.
capturing: list[Capture] = []
# Graphs that were dropped during a capture. They are destroyed when the capture ends, because
# the destruction of a graph would end the capture.
dropped: list[Any] = []

MODES = ("global", "thread_local", "relaxed")
_numbers = count(1)

# The handle of a pool, as in PyTorch: (number of a graph, 0), or (0, number from
# `graph_pool_handle`).
Handle = tuple[int, int]


def new_handle(*, is_of_graph: bool = False) -> Handle:
    """Return the handle of a new pool."""
    number = next(_numbers)
    return (number, 0) if is_of_graph else (0, number)


class Capture:
    """A capture, in progress or ended. Each runtime implements `_start` and `_finish`.

    streams: the streams that take part, the first one first. draws: the random draws by generator
    and device. kept: objects that the graph keeps alive.
    """

    def __init__(self, allocators: Any, stream: Any, handle: Handle, mode: str) -> None:
        self.allocators, self.handle, self.mode = allocators, handle, mode
        self.thread: int = threading.get_ident()
        self.streams: list[Any] = []
        self.draws: dict[tuple[Any, int], Draws] = {}
        self.kept: dict[int, Any] = {}
        self.is_over = False
        self.origin = stream

    def begin(self) -> None:
        """Begin the capture. If the stream cannot be captured, raise an error and change
        nothing."""
        self.allocators.checked("capture_begin", self.origin.device_index)
        if self.origin.ptr in (0, 1):
            raise errors.capture_refused("capture_begin", "the default stream cannot be captured")
        if of(self.origin) is not None:
            raise errors.capture_refused("capture_begin", f"{self.origin} is captured already")
        # Append before the start, because other threads read this list before they make calls that
        # the driver rejects during a capture.
        capturing.append(self)
        try:
            self._start()
        except BaseException:
            capturing.remove(self)
            raise
        self.take_part(self.origin)

    def end(self) -> Any:
        """End the capture and return the recording. Streams and allocators are restored even if
        this fails."""
        try:
            return self._finish()
        finally:
            self.is_over = True
            capturing.remove(self)
            if not capturing:
                dropped.clear()
            for stream in self.streams:
                self.allocators[stream.device_index].leave_pool(stream)

    def take_part(self, stream: Any) -> None:
        self.allocators[stream.device_index].enter_pool(self.handle, stream)
        self.streams.append(stream)

    def _start(self) -> None:
        raise NotImplementedError

    def _finish(self) -> Any:
        raise NotImplementedError


class Draws:
    """The random draws of a capture from one generator. memory: contains {seed, position}. blocks:
    the number of drawn blocks."""

    __slots__ = ("blocks", "memory")

    def __init__(self, memory: Any) -> None:
        self.memory, self.blocks = memory, 0


class Place(int):
    """The address of {seed, position}, which a kernel receives in place of a seed."""


def of(stream: Any) -> Capture | None:
    """Return the capture in which a stream takes part, or None."""
    for capture in tuple(capturing):  # A copy is needed, because other threads change the list.
        for own in capture.streams:
            if own.key == stream.key and own.device_index == stream.device_index:
                return capture
    return None


def here() -> Capture | None:
    """Return the capture that this thread has begun, or None."""
    me = threading.get_ident()
    return next((c for c in tuple(capturing) if c.thread == me), None)


# --- rejected calls -------------------------------------------------------------------------------


def refuse_wait(what: str, stream: Any = None, after: Capture | None = None) -> None:
    """Raise if a wait would never end. This is so if the stream takes part in a capture, or if the
    event was recorded in a capture. after: that capture.

    Except in relaxed mode, a capturing thread may not wait for other work either.
    """
    own = here()
    is_refused = after is not None or own is not None and own.mode != "relaxed"
    if is_refused or stream is not None and of(stream) is not None:
        raise errors.capture_refused(operator() or what, "it waits for the device")


def refuse_device_wait(what: str, device_index: int) -> None:
    """Raise if any thread captures a stream of the device, in any mode, because a wait for the
    device would end the capture (CUDA Programming Guide, Prohibited and Unhandled Operations)."""
    streams = [stream for capture in tuple(capturing) for stream in capture.streams]
    own = here()
    is_refused = own is not None and own.mode != "relaxed"
    if is_refused or any(stream.device_index == device_index for stream in streams):
        raise errors.capture_refused(operator() or what, "it waits for the device")


def refuse_unsafe(what: str, why: str) -> None:
    """Raise for a call that the driver rejects during a capture, because it may affect the
    capture's memory."""
    me = threading.get_ident()
    if any(c.mode == "global" or c.mode != "relaxed" and c.thread == me for c in tuple(capturing)):
        raise errors.capture_refused(operator() or what, why)


def refuse_host(what: str, stream: Any) -> None:
    """Raise for a copy from or to the host on a captured stream."""
    if of(stream) is not None:
        why = "it copies between the device and the host"
        raise errors.capture_refused(operator() or what, why)


def refuse_entering(what: str, stream: Any, *, strict: bool = False) -> None:
    """Raise if this thread captures and is about to use a stream that takes no part in the capture.
    Work on that stream would run at once and would be missing from replays. With strict=False,
    raise only for a default stream."""
    if here() is not None and (stream.ptr in (0, 1) or strict) and of(stream) is None:
        why = f"it works on {stream}, which takes no part in the capture"
        raise errors.capture_refused(operator() or what, why)


def check_stream(stream: Any) -> None:
    """Raise if this thread captures and `stream` is a default stream, because a default stream must
    not become current during a capture."""
    if capturing:
        refuse_entering("stream", stream)


def before_waiting(after: Capture | None, stream: Any) -> None:
    """Let a stream join the capture `after` if it is about to wait for an event of that capture."""
    own = of(stream)
    if after is own:
        return
    if after is None:
        raise errors.capture_refused(
            "wait_event", "a stream under capture cannot wait for what is not captured"
        )
    if after.is_over:
        raise errors.capture_refused("wait_event", "the event belongs to a capture that is over")
    if own is not None:
        raise errors.capture_refused("wait_event", "a stream takes part in one capture at a time")
    if stream.ptr in (0, 1):
        raise errors.capture_refused("wait_event", "the default stream cannot be captured")
    after.take_part(stream)


def operator() -> str | None:
    """Return the name of the operator that this thread runs, for an error message. The name is
    found in the stack frames."""
    frame: Any = sys._getframe(1)
    found: str | None = None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("gputensor.") or module.startswith("gputensor.autograd.engine"):
            if found:
                break
        elif module.startswith("gputensor._generated.families"):
            found = frame.f_code.co_name.removeprefix("Tensor_").removeprefix("call_")
        frame = frame.f_back
    return found


# --- random numbers -------------------------------------------------------------------------------


def refuse_drawing() -> None:
    """Raise if this thread captures. Operators that draw random numbers on the host call this."""
    if here() is not None:
        why = "its random numbers would be the same in every replay"
        raise errors.capture_refused(operator() or "take", why)


def draw(cuda: Any, generator: Any, blocks: int, device_index: int) -> tuple[int, int] | None:
    """Return (Place, block) for a call in a capture, otherwise None: see Note [Random numbers of a
    graph]."""
    stream = cuda.current_stream(device_index)
    capture = of(stream)
    if capture is None:
        return None
    draws = capture.draws.get((generator, device_index))
    if draws is None:
        # This memory is outside the graph's pool, because kernels that come earlier in the graph
        # may write to memory of the pool.
        allocator = capture.allocators[device_index]
        memory = allocator.allocate_outside(16, capture.handle, stream)
        draws = capture.draws[generator, device_index] = Draws(memory)
    first = draws.blocks
    draws.blocks += blocks
    return Place(draws.memory.ptr), first
