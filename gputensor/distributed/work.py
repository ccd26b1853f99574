"""Work: a handle of a started collective or message.

Waiting polls MPI, which makes progress only when it is polled. From time to time it checks for
ranks that have ended: see Note [Who leaves] in distributed/groups.py.
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

# The number of polls before the clock is read. A small collective needs fewer polls.
_HOT = 200
_LOOK_S = 0.05
# The number of seconds in which messages of an ended process may still arrive.
_GRACE_S = 2.0

_give_way = getattr(os, "sched_yield", lambda: time.sleep(0))
# `wait_until` calls this function while it waits, because other ranks may wait for progress of this
# rank's other collectives. distributed/records.py sets it.
meanwhile: Callable[[], None] = lambda: None  # noqa: E731


def wait_until(
    test: Callable[[], bool], op: str, group: ProcessGroup, timeout_s: float | None = None,
    missing: Callable[[], list[int]] | None = None,
) -> None:  # fmt: skip
    """Poll until `test()` is true.

    missing: returns the ranks that are known not to have made the call. Raises: DistributedError
    after the timeout, or if a participating process has ended. The world cannot be used after that.
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
        if now - began > 1:  # let other processes use the CPU cores
            time.sleep(1e-4)
            next_look = now


def _broken(op: str, error: errors.GpuTensorError) -> errors.GpuTensorError:
    world.broken = world.broken or str(error)
    return error


def check_usable(op: str) -> None:
    """Raise an error if an earlier call failed while other ranks may still wait for this rank."""
    if world.broken:
        raise errors.is_broken(op, world.broken)


# Works that have not finished. They are kept alive even if no code waits for them, because MPI
# writes to their memory.
_under_way: set[Work] = set()


class Work:
    """A started collective or message. Its tensors must not be used before it has finished."""

    __slots__ = ("_test", "_op", "_group", "_finish", "_held", "_results", "__weakref__")

    def __init__(
        self, op: str, group: ProcessGroup, test: Callable[[], bool] | None,
        finish: Callable[[], None] | None, held: Any,
    ) -> None:  # fmt: skip
        self._op, self._group, self._finish = op, group, finish
        self._test: Callable[[], bool] | None = test
        # _held: tensors and arrays whose memory MPI uses. _results: the tensors that a Future of
        # this Work returns.
        self._held: Any = held
        self._results: list[Any] = []
        if test is not None:
            _under_way.add(self)

    def is_completed(self) -> bool:
        """Return True if the work has finished. From then on the tensors are valid."""
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
        """Wait until the work has finished, and return True.

        timeout: seconds or a timedelta; by default the timeout of the group.
        Raises: DistributedError after the timeout, or if a participating process has ended.
        """
        if self._test is not None:
            limit = None if timeout is None else seconds("wait", timeout, 0)
            wait_until(self.is_completed, self._op, self._group, limit)
        return True

    def get_future(self) -> Future:
        """Return a future. Its value is the list of tensors that the collective writes."""
        made = Future()
        made._work = self
        return made

    def _then(self, more: Callable[[], None]) -> Work:
        """Call `more` when the work has finished. Return self."""
        before = self._finish

        def finish() -> None:
            if before is not None:
                before()
            more()

        self._finish = finish
        return self

    def __repr__(self) -> str:
        return f"Work({self._op}, {'ended' if self._test is None else 'under way'})"


class Future:
    """A value that becomes available later: from a Work, from another Future, or from `set_result`.

    No code runs in the background. `wait` and `done` receive a Work's value and call the functions
    passed to `then`, in the thread that calls `wait` or `done`.
    """

    __slots__ = ("_value", "_work", "_before")

    def __init__(self, *, devices: Any = None) -> None:
        from concurrent import futures  # imported here, because it loads many modules

        self._value: Any = futures.Future()
        self._work: Work | None = None
        self._before: Future | None = None  # the Future on which `then` was called to make this one

    def __class_getitem__(cls, item: Any) -> Any:
        return cls  # for annotations such as `Future[Tensor]`

    def done(self) -> bool:
        """Return True if a value or an exception has been set."""
        if self._before is not None:
            self._before.done()
        elif self._work is not None and not self._value.done() and self._work.is_completed():
            self._arrive()
        return bool(self._value.done())

    def wait(self) -> Any:
        """Wait for the value and return it; raise the exception if there is one."""
        self._arrive()
        return self._value.result()

    def value(self) -> Any:
        """Return the value, which must have been set."""
        if not self.done():
            rule, remedy = "be called once the value is there", "call wait()"
            raise errors.must("Future", "value", rule, errors.Got(repr(self)), remedy=remedy)
        return self._value.result()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return a future for the result of `callback(self)`. The callback is called once the value
        is set."""
        made = Future()
        made._before = self
        self._value.add_done_callback(lambda _: made._settle(lambda: callback(self)))
        return made

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call `callback(self)` once the value is set."""
        self._value.add_done_callback(lambda _: callback(self))

    def set_result(self, result: Any) -> None:
        """Set the value. A second call raises an error."""
        self._check_open("set_result")
        self._value.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set an exception instead of a value; `wait` and `value` raise it."""
        self._check_open("set_exception")
        self._value.set_exception(result)

    def _check_open(self, name: str) -> None:
        if self._work is not None or self._before is not None or self._value.done():
            rule = "be called once, on a new Future"
            raise errors.must("Future", name, rule, errors.Got(repr(self)))

    def _arrive(self) -> None:
        """Wait for the Work that produces the value, if there is one."""
        work = self._work
        if self._before is not None:
            self._before._arrive()
        elif work is not None and not self._value.done():
            self._settle(lambda: work.wait() and work._results)

    def _settle(self, compute: Callable[[], Any]) -> None:
        try:
            found = compute()
        except Exception as error:
            self._value.set_exception(error)
        else:
            self._value.set_result(found)

    def __repr__(self) -> str:
        return f"Future({'ended' if self._value.done() else 'under way'})"


def _raising(error: errors.GpuTensorError) -> Callable[[], bool]:
    def test() -> bool:
        raise error

    return test


# Maps the id of a tensor's storage to the Works that operators have started on the storage and for
# which no call has waited yet. The Works are stored here because operators return only tensors.
_started: dict[int, list[Work]] = {}


def started(work: Work, tensor: Any) -> None:
    """Store a Work for a tensor's storage until another call waits for it."""
    storage = tensor._get_storage()
    work._held = (work._held, storage)  # keep the storage, so that no other storage gets its id
    _started.setdefault(id(storage), []).append(work)


def taken(tensor: Any) -> Work:
    """Remove and return the last Work on a tensor's storage, for a caller that waits for it.

    The meta device starts no Work; return a Work that has finished.
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
    """Wait for all Works on a tensor's storage."""
    storage = tensor._storage  # None means that no Work was started on this storage
    works = None if storage is None else _started.pop(id(storage), None)
    for work in works or ():
        work.wait()


def end_all() -> None:
    """End this rank and all others."""
    sys.stdout.flush()
    sys.stderr.flush()
    _wait_until_read()
    world.mpi.COMM_WORLD.Abort(1)
    os._exit(1)


def _wait_until_read() -> None:
    """Give the launcher time to read this rank's output.

    A launcher under load may react to the abort before it reads the pipes of the ranks. Unread
    output, including the error's message, would then be lost.
    """
    until = time.monotonic() + _GRACE_S
    for stream in (1, 2):
        while _unread(stream) and time.monotonic() < until:
            time.sleep(0.001)


def _unread(stream: int) -> int:
    """Return the number of unread bytes in the pipe of a stream; 0 if the stream is not a pipe."""
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
    """Wait for all Works of one group, or of all groups."""
    for work in [*_under_way]:
        if group is None or work._group is group:
            work.wait()
    for key, works in [*_started.items()]:
        left = [work for work in works if work._test is not None]
        if left:
            _started[key] = left
        else:
            del _started[key]
