"""Streams as queues of pending work, and the scheduler that runs this work.

`GPUTENSOR_EMULATOR_ORDER` selects the order. `eager` runs a stream as far as possible at every
call. `lazy` runs a stream only when a call waits for it. `random` runs a few steps of random
streams at every call (`GPUTENSOR_EMULATOR_SEED`). A GPU may choose any of these orders. If a
program's result depends on the order, the program lacks a wait. The entries of a queue run in
order. An entry that waits for an event blocks its queue until the event's own entry has run.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from gputensor.core import errors

ORDERS = ("eager", "lazy", "random")
__tracebackhide__ = errors.is_of_a_kernel


class Mark:
    """One recording of an event. The mark is done when its queue has reached it."""

    __slots__ = ("after", "done", "queue", "time_s")

    def __init__(self, queue: Queue) -> None:
        self.queue: Queue = queue
        # In a recording: the indices of the calls that come before the mark.
        self.after: tuple[int, ...] = ()
        self.done = False
        self.time_s = 0.0

    def query(self) -> bool:
        return self.done

    def pass_by(self) -> None:
        self.time_s = time.perf_counter()
        self.done = True


class Queue:
    """The pending work of one stream: calls, and marks that must be waited for.

    recording: if the stream is captured, the recording that receives the calls.
    """

    __slots__ = ("device_index", "pending", "recording", "running")

    def __init__(self, device_index: int) -> None:
        self.device_index: int = device_index
        self.pending: deque[Callable[[], None] | Mark] = deque()
        self.running: bool = False
        self.recording: Recording | None = None


class Recording:
    """Recorded calls and their dependencies."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.checks: list[Callable[[], object]] = []
        self.after: list[tuple[int, ...]] = []
        self.last: dict[Queue, tuple[int, ...]] = {}

    def add(
        self, queue: Queue, call: Callable[[], None], check: Callable[[], object] | None
    ) -> None:
        self.after.append(self.last.get(queue, ()))
        self.last[queue] = (len(self.calls),)
        self.calls.append(call)
        if check is not None:
            self.checks.append(check)

    def wait(self, queue: Queue, after: tuple[int, ...]) -> None:
        self.last[queue] = (*dict.fromkeys(self.last.get(queue, ()) + after),)

    def is_joined(self, queue: Queue) -> bool:
        """Return True if the next entry of this queue would run after all recorded calls."""
        seen, open_ = set(self.last.get(queue, ())), [*self.last.get(queue, ())]
        while open_:
            new = {n for n in self.after[open_.pop()] if n not in seen}
            seen |= new
            open_ += new
        return len(seen) == len(self.calls)

    def debug_dot_str(self, flags: int = 0) -> str:
        """Return nodes and edges in the DOT language, as CuPy's graphs do. flags: ignored."""
        lines = ["digraph recorded {"]
        for n, (call, after) in enumerate(zip(self.calls, self.after)):
            what = getattr(call, "what", call.__qualname__.partition(".")[0])
            lines.append(f'  n{n} [label="{n}: {what}"];')
            lines += [f"  n{before} -> n{n};" for before in after]
        return "\n".join([*lines, "}", ""])

    def order(self, chance: random.Random | None) -> Iterator[Callable[[], None]]:
        """Yield the calls in the recorded order or, with `chance`, in a random order that respects
        the waits."""
        if chance is None:
            yield from self.calls
            return
        left, done = [*range(len(self.calls))], set[int]()
        while left:
            ready = [n for n in left if all(before in done for before in self.after[n])]
            number = chance.choice(ready)
            left.remove(number)
            done.add(number)
            yield self.calls[number]


class Scheduler:
    """All queues of the process. Only one thread at a time runs work."""

    def __init__(self) -> None:
        order = os.environ.get("GPUTENSOR_EMULATOR_ORDER") or "eager"
        if order not in ORDERS:
            rule = f"be one of {', '.join(ORDERS)}"
            raise errors.wrong_setting("GPUTENSOR_EMULATOR_ORDER", rule, order)
        self.order = order
        self.lock = threading.RLock()
        self.failures: list[Exception] = []
        # The queues with pending work, the oldest first.
        self._busy: dict[Queue, None] = {}
        self._chance = random.Random(os.environ.get("GPUTENSOR_EMULATOR_SEED", "0"))

    # --- adding work ------------------------------------------------------------------------------

    def add(
        self, queue: Queue, call: Callable[[], None], check: Callable[[], object] | None = None
    ) -> None:
        """Append a call to a queue. If the call runs at once and fails, its error is raised here.

        check: raises if the call's memory cannot be used. The caller has run it. If the call is
        recorded, each replay runs it again when it is requested: the call itself may run later,
        when a program has already dropped the memory.
        """
        if queue.recording is not None:
            queue.recording.add(queue, call, check)
            return
        with self.lock:
            queue.pending.append(call)
            self._busy[queue] = None
            self._after_adding(queue)

    def add_quietly(self, queue: Queue, call: Callable[[], None]) -> None:
        """Append a call to a queue, in a finaliser. If the call fails, a later call of the
        scheduler raises the error.

        It never waits, because the thread that runs work may itself be waiting for this thread,
        which collects garbage. In that case the entry stays in the queue until the other thread
        continues.
        """
        if not self.lock.acquire(blocking=False):
            queue.pending.append(call)
            self._busy[queue] = None
            return
        try:
            if self.order == "eager" and not queue.pending and not queue.running:
                self._guarded(queue, call)
            else:
                queue.pending.append(call)
                self._busy[queue] = None
        finally:
            self.lock.release()

    def record(self, queue: Queue) -> Mark:
        mark = Mark(queue)
        if queue.recording is not None:
            mark.after = queue.recording.last.get(queue, ())
        else:
            self.add(queue, mark.pass_by)
        return mark

    def replay(self, queue: Queue, recording: Recording) -> None:
        """Check the memory of a recording's calls, and append the calls to a queue as one entry."""
        for check in recording.checks:
            check()
        chance = self._chance if self.order == "random" else None

        def run() -> None:
            for call in recording.order(chance):
                call()

        self.add(queue, run)

    def wait(self, queue: Queue, mark: Mark) -> None:
        """Let later entries of the queue wait for the mark."""
        if queue.recording is not None:
            queue.recording.wait(queue, mark.after)
            return
        if mark.queue is queue or mark.done:
            return
        with self.lock:
            queue.pending.append(mark)
            self._busy[queue] = None
            self._after_adding(queue)

    def _after_adding(self, queue: Queue) -> None:
        if self.order == "eager":
            self.drain(queue)
        elif self.order == "random":
            while self._chance.random() < 0.5:
                self._step_of_some_queue()
        self.raise_failure()

    # --- running work -----------------------------------------------------------------------------

    def drain(self, queue: Queue) -> None:
        """Run all entries of a queue, and the entries of other queues for which they wait."""
        with self.lock:
            while queue.pending and not queue.running:
                if self.order == "random" and self._chance.random() < 0.5:
                    self._step_of_some_queue()
                else:
                    self._step(queue)

    def reach(self, mark: Mark) -> None:
        """Run the mark's queue until the mark is done."""
        with self.lock:
            while not mark.done and mark.queue.pending:
                self._step(mark.queue)

    def drain_all(self, device_index: int | None = None) -> None:
        """Run all entries of all queues of a device, or of all devices if `device_index` is
        None."""
        with self.lock:
            queues = list(self._busy)
            if self.order == "random":
                self._chance.shuffle(queues)
            for queue in queues:
                if device_index is None or queue.device_index == device_index:
                    self.drain(queue)

    def poll(self, queue: Queue) -> None:
        """Run one step for a query, so that a loop of queries makes progress and ends."""
        with self.lock:
            if queue.pending:
                self._step(queue)

    def _step(self, queue: Queue) -> None:
        head = queue.pending[0]
        if isinstance(head, Mark):
            if not head.done:
                self.reach(head)
            if queue.pending and queue.pending[0] is head:
                queue.pending.popleft()
        else:
            queue.pending.popleft()
            self._guarded(queue, head)
        if not queue.pending:
            self._busy.pop(queue, None)
            # `pending` is tested again, because another thread may have added work without the
            # lock.
            if queue.pending:
                self._busy[queue] = None

    def _step_of_some_queue(self) -> None:
        ready = [q for q in list(self._busy) if q.pending and self._can_step(q)]
        if ready:
            self._step(self._chance.choice(ready))

    def _can_step(self, queue: Queue) -> bool:
        head = queue.pending[0]
        return type(head) is not Mark or head.done

    def _guarded(self, queue: Queue, call: Callable[[], None]) -> None:
        queue.running = True
        try:
            call()
        except Exception as error:
            self.failures.append(error)
        finally:
            queue.running = False

    def raise_failure(self) -> None:
        """Raise the first failure of the work that has run. Later failures are consequences of the
        first."""
        if self.failures:
            first = self.failures[0]
            self.failures.clear()
            try:
                raise first
            finally:
                # The error's traceback refers to this frame, so delete the error to break the
                # cycle.
                del first
