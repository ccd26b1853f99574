"""CUDA graphs: capture queued work and replay it."""

from __future__ import annotations

from typing import Any

from gputensor.core import errors

from .. import capture
from ..capture import capturing
from .driver import CudaError, On, failed, get_device, reporting, use_device
from .library import transforms
from .memory import allocators
from .plans import Last
from .streams import Stream, cupy_stream, stream_of

_UNJOINED = 904


class Graph:
    """A recorded capture: a CuPy graph. order: the order of its Fourier transforms (Note [Work area
    of a plan]), or None without transforms."""

    __slots__ = ("_index", "_order", "cupy")

    def __init__(self, graph: Any, device_index: int, order: Last | None) -> None:
        self.cupy: Any = graph
        self._index, self._order = device_index, order

    def launch(self, stream: Any) -> None:
        if self._order is None:
            self.cupy.launch(stream)
            return
        own = stream_of(self._index, stream)
        transforms.wait(self._order, own)
        self.cupy.launch(stream)
        transforms.record(self._order, own)

    def __del__(self) -> None:
        if capturing:
            capture.dropped.append(self.cupy)


class _Capture(capture.Capture):
    def _start(self) -> None:
        with On(self.origin.device_index):
            what, mode = "beginning a capture", capture.MODES.index(self.mode)
            reporting(self.origin.device_index, what, self.origin.cupy.begin_capture, mode)

    def _finish(self) -> Any:
        index = self.origin.device_index
        with On(index):
            order = transforms.order_of(self)
            try:
                made = self.origin.cupy.end_capture()
            except CudaError as error:
                if error.status == _UNJOINED:
                    raise errors.unjoined_capture() from error
                raise failed(index, "the capture of a graph", error) from error
            return Graph(made, index, order)


def begin_capture(stream: Stream, handle: capture.Handle, mode: str) -> capture.Capture:
    """Begin a capture: until its `end`, work that is queued on the stream is recorded but not
    run."""
    begun = _Capture(allocators, stream, handle, mode)
    begun.begin()
    return begun


def replay(recorded: Graph, device_index: int) -> None:
    """Queue a recorded capture on the current stream."""
    previous = get_device()
    if previous != device_index:
        use_device(device_index)
    try:
        recorded.launch(cupy_stream(device_index))
    except CudaError as error:
        raise failed(device_index, "the replay of a graph", error) from error
    finally:
        if previous != device_index:
            use_device(previous)
