"""Bookkeeping of pinned host memory that queued copies still use. It allocates no memory.

A copy from or to pinned memory continues after the call, so the memory may return to its pool only
when the stream has finished the copy. Entries are removed under a reentrant lock, because a
finaliser can run meanwhile. A finaliser that interrupts a removal changes nothing (`_is_busy`).
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from typing import Any


class Staging:
    """A table of pinned memory by address, and of the copies in flight by stream. The copies of one
    stream finish in the order of their start."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_busy = False
        self._begins: list[int] = []
        # Maps the first address of pinned memory to (owner, number of bytes).
        self._owners: dict[int, tuple[Any, int]] = {}
        # The first addresses of dropped memory. A finaliser only appends to this deque.
        self.gone: deque[int] = deque()
        self.in_flight: dict[Any, deque[tuple[Any, Any]]] = {}

    def __len__(self) -> int:
        return len(self._begins)

    def add(self, begin: int, nbytes: int, owner: Any) -> None:
        with self._lock:
            self._owners[begin] = owner, nbytes
            self._begins.insert(bisect_right(self._begins, begin), begin)

    def settle(self) -> None:
        """Remove the entries of dropped memory and of finished copies."""
        with self._lock:
            if self._is_busy:
                return
            self._is_busy = True
            try:
                while self.gone:
                    begin = self.gone.popleft()
                    self._begins.remove(begin)
                    del self._owners[begin]
                for key, queue in [*self.in_flight.items()]:
                    _drop_passed(queue)
                    if not queue:
                        del self.in_flight[key]
            finally:
                self._is_busy = False

    def keep(self, ptr: int, stream: Any) -> None:
        """Keep the memory at `ptr` alive until `stream` has finished its current work."""
        with self._lock:
            was_busy, self._is_busy = self._is_busy, True
            try:
                at = bisect_right(self._begins, ptr)
                begin = self._begins[at - 1] if at else ptr
                owner, nbytes = self._owners.get(begin, (None, 0))
                if ptr < begin + nbytes:
                    event, key = stream.record_event(), (stream.device_index, stream.key)
                    queue = self.in_flight.setdefault(key, deque())
                    if not was_busy:  # Otherwise, this call interrupts a call that drops entries.
                        _drop_passed(queue)
                    queue.append((event, owner))
            finally:
                self._is_busy = was_busy


def _drop_passed(queue: deque[tuple[Any, Any]]) -> None:
    while queue and queue[0][0].query():
        del queue[0]
