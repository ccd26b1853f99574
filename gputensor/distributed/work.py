"""Work: what was started and has not ended, and how one waits for it.

Waiting asks MPI again and again, which is how MPI goes on at all, and looks from time to time
whether it is still worth it: see Note [Who leaves] in distributed/groups.py.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable
from typing import Any

from ..core import errors
from .groups import ProcessGroup, Timeout, seconds, world

# How often MPI is asked before a clock is read: a small collective ends within them.
_HOT = 200
_LOOK_S = 0.05
# How long what a process that ended has sent may still be on its way.
_GRACE_S = 2.0

_give_way = getattr(os, "sched_yield", lambda: time.sleep(0))
# What whoever waits does for others who may wait for this rank (distributed/records.py).
meanwhile: Callable[[], None] = lambda: None  # noqa: E731


def wait_until(
    test: Callable[[], bool], op: str, group: ProcessGroup, timeout_s: float | None = None,
    missing: Callable[[], list[int]] | None = None,
) -> None:  # fmt: skip
    """Return when `test()` is true.

    missing: who has not come, if that can be told.
    Raises: DistributedError after the group's time limit, and when a process that takes part is no
    more. The world is of no use from then on.
    """
    for _ in range(_HOT):
        if test():
            return
    limit = group.timeout_s if timeout_s is None else timeout_s
    began = next_look = time.monotonic()
    first_gone = None
    while not test():
        meanwhile()
        now = time.monotonic()
        if now < next_look:
            _give_way()
            continue
        next_look = now + _LOOK_S
        world.look_who_left()
        gone = sorted(world.gone.intersection(group.ranks))
        if missing is not None:
            gone = [rank for rank in gone if rank in missing()]
        if gone:
            first_gone = first_gone or now
            if now - first_gone > _GRACE_S:
                raise _broken(op, errors.ranks_left(op, group.ranks[group.rank()], gone))
        if now - began > limit:
            whom = None if missing is None else missing()
            rank = group.ranks[group.rank()]
            raise _broken(op, errors.timed_out(op, rank, limit, whom))
        if now - began > 1:  # the others compute: leave them the cores
            time.sleep(1e-4)
            next_look = now


def _broken(op: str, error: errors.GpuTensorError) -> errors.GpuTensorError:
    world.broken = world.broken or str(error)
    return error


def check_usable(op: str) -> None:
    """Raise if a call before has failed in a way that others may wait for."""
    if world.broken:
        raise errors.is_broken(op, world.broken)


# Held until they have ended, also where nobody waits: MPI writes into their memory.
_under_way: set[Work] = set()


class Work:
    """A collective that has been started. Its tensors are others' until it has ended."""

    __slots__ = ("_test", "_op", "_group", "_finish", "_held", "__weakref__")

    def __init__(
        self, op: str, group: ProcessGroup, test: Callable[[], bool] | None,
        finish: Callable[[], None] | None, held: Any,
    ) -> None:  # fmt: skip
        self._op, self._group, self._finish = op, group, finish
        self._test: Callable[[], bool] | None = test
        self._held: Any = held  # tensors and arrays whose memory MPI uses
        if test is not None:
            _under_way.add(self)

    def is_completed(self) -> bool:
        """Whether it has ended; its tensors are there then."""
        test = self._test
        if test is None:
            return True
        try:
            if not test():
                return False
        except errors.GpuTensorError as error:
            self._held = self._finish = None
            self._test = _raising(error)
            _under_way.discard(self)
            raise
        except world.mpi.Exception as reason:
            self._test = self._held = None
            _under_way.discard(self)
            raise _broken(self._op, errors.mpi_failed(self._op, reason)) from None
        self._test = None
        _under_way.discard(self)
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        self._held = None
        return True

    def wait(self, timeout: Timeout = None) -> bool:
        """Return True when it has ended.

        timeout: seconds or a timedelta; the group's by default.
        Raises: DistributedError when the time is over, or a process that takes part is no more.
        """
        if self._test is not None:
            limit = None if timeout is None else seconds("wait", timeout, 0)
            wait_until(self.is_completed, self._op, self._group, limit)
        return True

    def _then(self, more: Callable[[], None]) -> Work:
        """This, which does `more` at its end."""
        before = self._finish

        def finish() -> None:
            if before is not None:
                before()
            more()

        self._finish = finish
        return self

    def __repr__(self) -> str:
        return f"Work({self._op}, {'ended' if self._test is None else 'under way'})"


def _raising(error: errors.GpuTensorError) -> Callable[[], bool]:
    def test() -> bool:
        raise error

    return test


# What operators have started on a storage and nobody has waited for: they return tensors alone.
_started: dict[int, list[Work]] = {}


def started(work: Work, tensor: Any) -> None:
    """Keep what was started on a tensor's storage, until it is waited for."""
    storage = tensor._get_storage()
    work._held = (work._held, storage)  # so that no other storage gets its id
    _started.setdefault(id(storage), []).append(work)


def taken(tensor: Any) -> Work:
    """What was last started on a tensor's storage, for a caller who will wait for it himself.

    On the meta device nothing is started, and the work has ended.
    """
    key = id(tensor._storage)
    works = _started.get(key)
    if works is None:
        return Work("", world.groups[next(iter(world.groups))], None, None, None)
    work = works.pop()
    if not works:
        del _started[key]
    return work


def wait_for(tensor: Any) -> None:
    """Wait for all that was started on a tensor's storage."""
    storage = tensor._storage  # None: nothing was started on it
    works = None if storage is None else _started.pop(id(storage), None)
    for work in works or ():
        work.wait()


def end_all() -> None:
    """End this rank, and all others with it."""
    sys.stdout.flush()
    sys.stderr.flush()
    _wait_until_read()
    world.mpi.COMM_WORLD.Abort(1)
    os._exit(1)


def _wait_until_read() -> None:
    """Give the launcher time to read what this rank has written.

    A launcher under load may see the abort before it reads the ranks' pipes, and what is left in
    them is lost then, with the sentence that says what went wrong.
    """
    until = time.monotonic() + _GRACE_S
    for stream in (1, 2):
        while _unread(stream) and time.monotonic() < until:
            time.sleep(0.001)


def _unread(stream: int) -> int:
    """Bytes in the pipe behind a file descriptor; 0 where it is none or cannot tell."""
    count = bytearray(4)
    try:
        import fcntl
        import termios

        if stat.S_ISFIFO(os.fstat(stream).st_mode):
            fcntl.ioctl(stream, termios.FIONREAD, count)
    except (ImportError, OSError):
        return 0
    return int.from_bytes(count, sys.byteorder)


def finish_all(group: ProcessGroup | None) -> None:
    """Wait for all that was started, on one group or on all."""
    for work in [*_under_way]:
        if group is None or work._group is group:
            work.wait()
    for key, works in [*_started.items()]:
        left = [work for work in works if work._test is not None]
        if left:
            _started[key] = left
        else:
            del _started[key]
