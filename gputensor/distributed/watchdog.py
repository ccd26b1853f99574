"""The list of NCCL collectives in progress, and a thread that ends all processes if one hangs.

A collective between GPUs blocks a stream, not the host. If a rank is lost, the host could wait
inside the driver for that stream for ever. So a thread polls the events of running collectives.
After the group's timeout, an NCCL error, or the end of a participating rank, the thread aborts the
communicator, prints the reason and ends all ranks, because their tensors hold no valid results.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import runtime
from ..core import errors
from ..tensor.tensor import Tensor
from .groups import ProcessGroup, Timeout, seconds, world
from .work import Work, _GRACE_S, _broken, end_all, wait_until

_LOOK_S = 0.05
# The collectives in progress, in the order of their start. This list also keeps the memory alive
# that NCCL uses.
_pending: list[OnStream] = []
_lock = threading.Lock()
_wake = threading.Event()
_thread: threading.Thread | None = None


class OnStream(Work):
    """A collective on NCCL's stream. `wait` blocks the current stream, but not the host.

    held: tensors that NCCL reads and writes. finish: unpacks the results on the waiting stream.
    """

    __slots__ = ("by", "event", "began", "is_taken", "stream")

    def __init__(
        self, op: str, group: ProcessGroup, finish: Callable[[], None] | None, held: Any, by: Any
    ) -> None:
        super().__init__(op, group, None, finish, held)
        self.by: Any = by
        self.stream: Any = runtime.cuda().current_stream(by.index)
        self.event: Any = None
        self.began: float = time.monotonic()
        self.is_taken: bool = False

    def is_completed(self) -> bool:
        """Return True if the GPU has finished. From then on the tensors are valid."""
        if self.event.query():
            self._take()
            return True
        return False

    def wait(self, timeout: Timeout = None) -> bool:
        """Make the current stream wait and return True. With a timeout, the host waits, too.

        timeout: seconds or a timedelta. Raises: DistributedError after that time.
        """
        if timeout is not None:
            self.wait_here(seconds("wait", timeout, 0))
        self._take()
        return True

    def has_passed(self) -> bool:
        return self.event is not None and self.event.has_passed()

    def wait_here(self, limit_s: float | None = None) -> None:
        """Make the host wait until the collective has finished. Raises: DistributedError after
        `limit_s` seconds, or if another rank has ended."""
        wait_until(self.event.query, self._op, self._group, limit_s)

    def _take(self) -> None:
        if self.is_taken:
            return
        self.is_taken = True
        current = runtime.cuda().current_stream(self.by.index)
        current.wait_event(self.event)
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
            # record the use, because the allocation belongs to another stream
            if current.key != self.stream.key:
                for x in _tensors(self._held):
                    x.record_stream(current)

    def __repr__(self) -> str:
        return f"Work({self._op}, {'ended' if self.has_passed() else 'under way'})"


def _tensors(held: Any) -> list[Tensor]:
    if isinstance(held, tuple):
        return [x for part in held for x in _tensors(part)]
    is_there = isinstance(held, Tensor) and held.is_cuda and held._geometry.numel
    return [held] if is_there else []


@contextmanager
def watching(works: Sequence[OnStream], stream: Any) -> Iterator[None]:
    """Watch the collectives that the block launches on a stream, and the launch itself, which may
    hang."""
    global _thread
    with _lock:
        _forget_passed()
        _pending.extend(works)
        if _thread is None:
            _thread = threading.Thread(target=_watch, name="gputensor.distributed", daemon=True)
            _thread.start()
    _wake.set()
    event = runtime.cuda().Event()
    try:
        yield
        event.record(stream)
    except BaseException:
        with _lock:
            _pending[:] = [work for work in _pending if work not in works]
        raise
    for work in works:
        work.event = event


def _forget_passed() -> None:
    _pending[:] = [work for work in _pending if not work.has_passed()]


def finish_pending(group: ProcessGroup | None) -> None:
    """Wait, on the host, for the NCCL collectives of one group or of all groups."""
    for work in [*_pending]:
        if group is None or work._group is group:
            work.wait_here()
    with _lock:
        _forget_passed()


def _watch() -> None:
    gone_since: float | None = None
    while True:
        _wake.wait()
        time.sleep(_LOOK_S)
        with _lock:
            _forget_passed()
            under_way = [*_pending]
            if not under_way:
                _wake.clear()
        if world.mpi.Is_finalized():
            return
        if world.mpi.Query_thread() == world.mpi.THREAD_MULTIPLE:
            world.look_who_left()
        now, error = time.monotonic(), None
        for work in under_way:
            group = work._group
            here = group.ranks[group.rank()]
            gone = sorted(world.gone.intersection(group.ranks))
            if gone:
                gone_since = gone_since or now
            if gone and gone_since is not None and now - gone_since > _GRACE_S:
                error = errors.ranks_left(work._op, here, gone)
            elif now - work.began > group.timeout_s:
                error = errors.timed_out(work._op, here, group.timeout_s, None)
            else:
                error = _failure(work)
            if error is not None:
                _end(work, error)


def _failure(work: OnStream) -> errors.GpuTensorError | None:
    try:
        work.by.nccl.check_async_error()
    except work.by.library.NcclError as reason:
        return errors.nccl_failed(work._op, reason)
    return None


def _end(work: OnStream, error: errors.GpuTensorError) -> None:
    """Print the error and end all ranks."""
    _broken(work._op, error)
    work.by.nccl.abort()
    said = f"{error}\n{errors.rank_ended(world.base.rank, 'an error')}\n"
    sys.stderr.flush()
    os.write(2, said.encode())
    end_all()
