"""Streams in backward: a derivative runs on the stream of its forward call. This stream first waits
for the streams of the incoming gradients.

This applies to every device whose runtime has selectable streams (`runtime.with_streams`). Source:
torch/csrc/autograd/input_buffer.cpp and engine.cpp, "stream logic".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import runtime
from ..runtime import capture
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from .node import Node


def current_stream(device: Any) -> Any:
    """Return the current stream of a device in this thread. Return None if the device has only one
    stream."""
    module = runtime.with_streams(device.type)
    return None if module is None else module.current_stream(device.index)


def identity(stream: Any) -> Any:
    """Return the identity of a stream: its key, its handle, or the object itself.

    The key comes first, because the per-thread default streams of all threads have the same handle.
    """
    return getattr(stream, "key", getattr(stream, "ptr", stream))


def device_of(node: Node) -> Any:
    """Return the device of a node's stream: the device of its first output on a device with
    streams."""
    for made in node.outputs:
        if made is not None and runtime.with_streams(made[1].type) is not None:
            return made[1]
    raise AssertionError(f"{node!r} has a stream and no output on its device")


class on_stream:
    """A block in which the stream of a node's forward call is current, if there is one."""

    __slots__ = ("_runtime", "_stream", "_before")

    def __init__(self, node: Node | Any) -> None:
        self._stream = None if node is None else node.stream
        if self._stream is not None:
            self._runtime = runtime.of(device_of(node).type)

    def __enter__(self) -> None:
        if self._stream is not None:
            if capture.capturing:
                capture.refuse_entering("backward", self._stream, strict=True)
            self._before = self._runtime.set_stream(self._stream)

    def __exit__(self, *exc: object) -> None:
        if self._stream is not None:
            self._runtime.set_stream(self._before)


def wait(node: Node, source: Node | Any, g: Tensor) -> None:
    """Let the stream of `node` wait for a gradient of `source`. The allocator keeps the gradient's
    memory until the stream no longer uses it.

    If the gradient is on another type of device than the node's stream, the current stream of the
    gradient's device waits. A gradient that was not made on the stream of `source` counts as made
    on the current stream of the gradient's device.
    """
    module = runtime.with_streams(g._device.type)
    if module is None:
        return
    stream, producer = node.stream, None if source is None else source.stream
    if device_of(node).type != g._device.type:
        stream = module.current_stream(g._device.index)
    if producer is None or device_of(source) is not g._device:
        producer = module.current_stream(g._device.index)
    if identity(producer) != identity(stream):
        stream.wait_event(producer.record_event())
        if hasattr(module, "record_stream"):
            module.record_stream(g._get_storage().data, stream)
