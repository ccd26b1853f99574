"""Context managers for a thread's current device and stream, for all device types."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from gputensor import runtime as runtimes
from gputensor.core import errors
from gputensor.core.guard import Guard


_NO_ADDRESS = 1 << 56  # Larger than every address of a process on x86-64 and Arm.


def stream_given(op: str, runtime: Any, device_index: int, given: Any) -> Any:
    """Return the runtime's stream for a stream of any library, or for a stream's handle. The result
    keeps the given object alive.

    Raises: ArgumentTypeError for other objects, and for a kind of stream that the runtime does not
    support.
    """
    if getattr(given, "device_index", None) is not None and hasattr(given, "wait_event"):
        return given
    handle = getattr(given, "ptr", getattr(given, "cuda_stream", given))
    is_real = not getattr(runtime, "is_emulated", True)
    if not is_real or type(handle) is not int:
        rule = "be a stream" if is_real else "be a stream of gputensor"
        raise errors.wrong_type(op, "stream", rule, given)
    # The driver would read memory at an invalid address, and the process would crash.
    if not 0 <= handle < _NO_ADDRESS:
        raise errors.must(op, "stream", "be the address of a stream", handle)
    return runtime.external_stream(device_index, handle, None if handle is given else given)


class CurrentDevice(Guard):
    """A context manager and decorator that makes a device current in this thread: within a block,
    or within the calls of a function. idx: the device's index."""

    idx: int

    def __init__(self, runtime: Any, index: int) -> None:
        self.idx, self._runtime = index, runtime
        self._before: list[int] = []

    def _again(self) -> Guard:
        return CurrentDevice(self._runtime, self.idx)

    def _enter(self) -> None:
        self._before.append(int(self._runtime.current_device()))
        try:
            self._runtime.exchange_device(self.idx)
        except BaseException:
            self.__exit__()
            raise

    def _found(self) -> Any:
        return self._before[-1], len(self._before) - 1

    def _put_back(self, found: Any) -> None:
        self._runtime.exchange_device(found[0])
        del self._before[found[1] :]


class CurrentStream(Guard):
    """A context manager and decorator that makes a stream and its device current in this thread:
    within a block, or within the calls of a function."""

    stream: Any

    def __init__(self, runtime: Any, stream: Any) -> None:
        self.stream, self._runtime = stream, runtime
        if stream is None:
            return
        index = getattr(stream, "device_index", None)
        if type(index) is not int:
            got = errors.Got(type(stream).__name__)
            raise errors.wrong_type("stream", "stream", "have a device_index", got)
        self._device = CurrentDevice(runtime, index)
        self._before: list[Any] = []

    def _again(self) -> Guard:
        return CurrentStream(self._runtime, self.stream)

    def __enter__(self) -> Any:
        self._enter()
        return self.stream

    def _enter(self) -> None:
        if self.stream is None:
            return
        self._before.append(self._runtime.current_stream(self._device.idx))
        self._device._enter()
        try:
            check = getattr(self._runtime, "check_stream", None)
            if check is not None:
                check(self.stream)
            self._runtime.set_stream(self.stream)
        except BaseException:
            self.__exit__()
            raise

    def _found(self) -> Any:
        if self.stream is None:
            return ()
        return self._before[-1], len(self._before) - 1, self._device._found()

    def _put_back(self, found: Any) -> None:
        if found:
            try:
                self._runtime.set_stream(found[0])  # This may run recorded work, which may raise.
            finally:
                self._device._put_back(found[2])
                del self._before[found[1] :]


# --- a call on a new thread ---------------------------------------------------------------------


R = TypeVar("R")


def on_a_new_thread(function: Callable[..., R], *args: Any) -> R:
    """Call a function in a new thread, whose stack is empty, and wait for it. The new thread has
    the context variables, devices and streams of this thread."""
    places = [(module, module.current_device(), _streams(module)) for module in runtimes.in_use()]
    context = contextvars.copy_context()
    made: list[R] = []
    failed: list[BaseException] = []

    def work() -> None:
        for module, index, streams in places:
            for stream in streams:
                module.set_stream(stream)
            module.exchange_device(index)
        try:
            made.append(context.run(function, *args))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="gputensor-nested", daemon=True)
    thread.start()
    try:
        thread.join()
    # Wait even after an interrupt, because work on the device uses the caller's tensors.
    except BaseException:
        thread.join()
        raise
    if failed:
        raise failed.pop()  # `pop` avoids a reference cycle of exception, frame and list.
    return made[0]


def _streams(module: Any) -> list[Any]:
    if not hasattr(module, "set_stream"):
        return []
    return [module.current_stream(n) for n in range(module.device_count())]
