"""Plans of cuFFT, which CuPy caches for each thread and device, on several streams.

Note [Work area of a plan]
A plan has one work area, which its transforms overwrite on whatever stream they run. CuPy orders
nothing between them. So a transform waits for the transforms that its thread queued on another
stream, and the memory of the area is recorded on each stream that uses it. A graph keeps the plans
that its capture used; they leave the cache, since a replay may run beside later transforms.
CuPy is handed in: this module imports none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from . import capture


class Plans:
    """The order of the transforms of each thread.

    cache: returns CuPy's plan cache of this thread and the current device. event: makes an event.
    memory_of: the memory of a work area; None where our allocator has not made it. keep: records
    memory on a stream.
    """

    def __init__(
        self, cache: Callable[[], Any], event: Callable[[], Any], memory_of: Callable[[Any], Any],
        keep: Callable[[Any, Any], None],
    ) -> None:  # fmt: skip
        self._cache, self._event, self._memory_of, self._keep = cache, event, memory_of, keep
        self._local = threading.local()

    def begin(self, stream: Any) -> None:
        """Make a stream wait for the transforms that this thread queued on another stream."""
        self._local.stream = stream
        last, event, graph = self._last().get(stream.device_index, (stream, None, None))
        # Work inside a capture and work outside it cannot wait for each other.
        if last.key != stream.key and graph is capture.of(stream):
            event.wait(stream)

    def end(self, graph: capture.Capture | None) -> None:
        """Record the end of the transforms since `begin`, and the streams of the plans' memory.

        graph: the capture that the transforms were part of. It gets the plans.
        """
        stream = getattr(self._local, "stream", None)
        if stream is None:
            return
        self._local.stream = None
        event = self._event()
        event.record(stream)
        self._last()[stream.device_index] = stream, event, graph
        for _, node in self._cache():
            memory = self._memory_of(node.plan.work_area)
            if memory is not None:
                self._keep(memory, stream)
            if graph is not None:
                graph.kept[id(node.plan)] = node.plan

    def forget(self) -> None:
        """Empty the cache of this thread and the current device."""
        self._cache().clear()

    def _last(self) -> dict[int, tuple[Any, Any, Any]]:
        """By device: this thread's last stream with transforms, the event after them, the graph."""
        try:
            found: dict[int, tuple[Any, Any, Any]] = self._local.last
        except AttributeError:
            found = self._local.last = {}
        return found
