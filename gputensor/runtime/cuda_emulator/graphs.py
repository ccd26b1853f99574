"""Graphs of emulated devices: record queued work and queue it again."""

from __future__ import annotations

from gputensor.core import errors

from .. import capture
from ..emulator.queues import Recording
from . import devices
from .memory import allocators
from .streams import Stream, current_stream


class _Capture(capture.Capture):
    def _start(self) -> None:
        self.recording = Recording()

    def take_part(self, stream: Stream) -> None:
        super().take_part(stream)
        stream.queue.recording = self.recording

    def _finish(self) -> Recording:
        for stream in self.streams:
            stream.queue.recording = None
        if not self.recording.is_joined(self.origin.queue):
            raise errors.unjoined_capture()
        return self.recording


def begin_capture(stream: Stream, handle: capture.Handle, mode: str) -> capture.Capture:
    """Begin a capture: until its `end`, work that is queued on the stream is recorded but not
    run."""
    begun = _Capture(allocators, stream, handle, mode)
    begun.begin()
    return begun


def replay(recording: Recording, device_index: int) -> None:
    """Queue a recorded capture on the current stream."""
    devices.scheduler.replay(current_stream(device_index).queue, recording)
