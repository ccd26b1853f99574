"""CUDA streams in backward: a derivative runs on the stream of its forward call, and waits for others.

Source: torch/csrc/autograd/input_buffer.cpp and engine.cpp, "stream logic".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import runtime
from ..tensor import Tensor

if TYPE_CHECKING:
    from .node import Node


def current_stream(device: Any) -> Any:
    return runtime.cuda().current_stream(device.index)


class on_stream:  # noqa: N801
    """Makes the stream of a node's forward call the current one, where it has one."""

    __slots__ = ("_stream", "_before")

    def __init__(self, node: Node | None) -> None:
        self._stream = None if node is None else node.stream

    def __enter__(self) -> None:
        if self._stream is not None:
            self._before = runtime.cuda().set_stream(self._stream)

    def __exit__(self, *exc: object) -> None:
        if self._stream is not None:
            runtime.cuda().set_stream(self._before)


def wait(stream: Any, producer: Any, g: Tensor) -> None:
    """Let `stream` wait for a gradient that another stream makes, and keep its memory till then."""
    if g._device.type != "cuda":
        return
    if producer is None or producer.device_index != g._device.index:
        producer = current_stream(g._device)
    if producer.ptr != stream.ptr:
        stream.wait_event(producer.record_event())
        runtime.cuda().record_stream(g._get_storage().data, stream)
