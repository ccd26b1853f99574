"""Use of one cuFFT plan on several streams. CuPy caches plans for each thread and device.

Note [Work area of a plan]
A plan has one work area, which its transforms overwrite on any stream, and CuPy does not order the
transforms. So a transform waits for the transforms that its thread queued on another stream, and
the work area's memory is recorded on each stream that uses it. A graph keeps the plans that its
capture used, and a replay counts as a transform of the thread that captured it. CuPy is an
argument, so this module does not import it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .. import capture

# Maps (device, capture or None) to the stream of the last transform and the event after this
# transform.
Last = dict[tuple[int, Any], tuple[Any, Any]]


class Plans:
    """The order of the Fourier transforms that a thread queues on several streams.

    cache: a function that returns CuPy's plan cache of this thread and the current device. event: a
    function that makes an event. memory_of: a function that returns the memory of a work area, or
    None if our allocator did not make it. keep: a function that records memory on a stream.
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
        self.wait(self._last(), stream, capture.of(stream))

    def end(self, graph: capture.Capture | None) -> None:
        """Record the end of the transforms since `begin`. Keep the memory of their plans until the
        stream has finished its current work.

        graph: the capture in which the transforms took part, if any. It keeps the plans.
        """
        stream = getattr(self._local, "stream", None)
        if stream is None:
            return
        self._local.stream = None
        last = self._last()
        self.record(last, stream, graph)
        for _, node in self._cache():
            if graph is not None:
                graph.kept[id(node.plan)] = node.plan
                graph.kept[id(last)] = last
                continue
            memory = self._memory_of(node.plan.work_area)
            if memory is not None:
                self._keep(memory, stream)

    def wait(self, last: Last, stream: Any, graph: capture.Capture | None = None) -> None:
        """Make a stream wait for the last transform, if this transform ran on another stream.

        Work inside and outside of a capture cannot wait for each other, so each has a last
        transform of its own.
        """
        before, event = last.get((stream.device_index, graph), (stream, None))
        if before.key != stream.key:
            event.wait(stream)

    def record(self, last: Last, stream: Any, graph: capture.Capture | None = None) -> None:
        """Record an event after the stream's current work. The next transform on another stream
        waits for it."""
        event = self._event()
        event.record(stream)
        last[stream.device_index, graph] = stream, event

    @staticmethod
    def order_of(graph: capture.Capture) -> Last | None:
        """Return the last transforms of the thread that captured a graph, or None if the graph has
        no transforms. Replays of the graph read and update this dict."""
        found = next((x for x in graph.kept.values() if type(x) is dict), None)
        if found is not None:
            for key in [key for key in found if key[1] is graph]:
                del found[key]
        return found

    def _last(self) -> Last:
        try:
            found: Last = self._local.last
        except AttributeError:
            found = self._local.last = {}
        return found
