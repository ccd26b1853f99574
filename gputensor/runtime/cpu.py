"""CPU memory, aligned for large arrays, and the thread pool for kernels.

Memory is an uninitialised uint8 ndarray. Arrays of 64 KiB or more begin at a multiple of 64 bytes,
so that a copy's rows share no cache line. The compiled library keeps their freed memory for later
arrays (kernels/compiled/engine/python/blocks.cpp). Smaller arrays are allocated by NumPy, whose
cache of small blocks saves more time than alignment would.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gputensor.core import errors
from gputensor.core.arguments import number

if TYPE_CHECKING:
    from _queue import SimpleQueue

ALIGNMENT = 64
ALIGNED_FROM = 1 << 16

_CACHES = "/sys/devices/system/cpu/cpu0/cache"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_uint8 = np.dtype(np.uint8)


def allocate(nbytes: int) -> np.ndarray:
    """Return `nbytes` bytes of uninitialised memory. Raises: OutOfMemoryError."""
    try:
        return np.empty(nbytes, _uint8) if nbytes < ALIGNED_FROM else _allocate_large(nbytes)
    except (MemoryError, ValueError, OverflowError):  # The request may exceed the address space.
        raise errors.out_of_memory("cpu", nbytes, {}) from None


def _by_interface(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


# Returns the address of an array's first element.
address_of: Callable[[np.ndarray], int] = _by_interface


def _by_numpy(nbytes: int) -> np.ndarray:
    array = np.empty(nbytes + ALIGNMENT, _uint8)
    begin = -address_of(array) % ALIGNMENT
    return array[begin : begin + nbytes]


_allocate_large: Callable[[int], np.ndarray] = _by_numpy
# Returns an uninitialised row-major array for (sizes, dtype). It is for arrays that may be large.
# For small arrays, NumPy's own `empty` is faster.
empty: Callable[[tuple[int, ...], np.dtype], np.ndarray] = np.empty


def allocate_by(
    allocate: Callable[[int], np.ndarray],
    of_shape: Callable[[tuple[int, ...], np.dtype], np.ndarray],
    address: Callable[[np.ndarray], int],
) -> None:
    """Let the compiled library allocate arrays of 64 KiB or more and read arrays' addresses. The
    library needs a tenth of NumPy's time for this."""
    global _allocate_large, empty, address_of
    _allocate_large, empty, address_of = allocate, of_shape, address


@functools.cache
def cache_nbytes() -> int:
    """Return the size in bytes of the largest cache of the first CPU; 32 MiB if Linux reports
    none."""
    sizes = [32 << 20]
    for index in range(8):
        with contextlib.suppress(OSError), open(f"{_CACHES}/index{index}/size") as file:
            given = file.read().strip()
            if given[:-1].isdecimal() and given[-1:] in _UNITS:
                sizes.append(int(given[:-1]) * _UNITS[given[-1]])
    return max(sizes[1:] or sizes)


# --- threads ------------------------------------------------------------------------------------
#
# Note [Standing threads]
# For each thread that may help, a caller puts a ticket into a queue. It then works itself and
# finally removes the tickets that no thread has claimed. So a caller never waits for a thread that
# is busy, late or gone; concurrent callers, a busy machine or the interpreter's exit only cost
# time. Helpers are daemon threads. They sleep in the queue's lock and hold no references
# meanwhile. A piece does not inherit its caller's context variables or modes, which loops do not
# read. A call with two pieces that wait for each other takes 9 us; with an executor's futures it
# took 14 to 100 us. Compiled loops have a similar pool in C++
# (kernels/compiled/engine/threads.cpp), which runs without the GIL. A helper of the pool in this
# module waits 20 to 40 us for the GIL.

# The number of elements that a thread processes at a time. Rows are divided among threads only if
# there are at least four times as many elements.
_ROWS = 1 << 16

_lock = threading.RLock()  # The lock is reentrant, because a signal handler may compute too.
_pool: _Pool | None = None
_num_threads = 0
_is_set = False  # This is True after a call of set_num_threads.
_told: list[Callable[[int], object]] = []
_inside = threading.local()


def get_num_threads() -> int:
    """Return the number of threads that a kernel may use: `GPUTENSOR_NUM_THREADS`, or the number of
    CPUs that the process may use."""
    global _num_threads
    if not _num_threads:
        given = os.environ.get("GPUTENSOR_NUM_THREADS")
        if given is None:
            from . import cpu_count

            _num_threads = cpu_count.available()
        elif given.isdecimal() and int(given):
            _num_threads = int(given)
        else:
            raise errors.wrong_setting("GPUTENSOR_NUM_THREADS", "be a positive integer", given)
    return _num_threads


def free_threads() -> int:
    """Return the number of threads that a call made now may use. Inside a piece of another call,
    this is 1."""
    return 1 if getattr(_inside, "part", False) else get_num_threads()


def set_num_threads(count: int) -> None:
    """Let kernels and OpenBLAS use `count` threads from now on. The calling thread is one of
    them."""
    global _num_threads, _pool, _is_set
    plain = number(count)
    if type(plain) is not int or plain < 1:
        raise errors.must("set_num_threads", "count", "be a positive integer", count)
    count = plain
    with _lock:
        if count == _num_threads and _is_set:
            return
        _num_threads, _is_set = count, True
        old, _pool = _pool, None
        for told in _told:
            told(count)
    if old is not None:
        old.close()


def on_num_threads(told: Callable[[int], object]) -> None:
    """Call `told(count)` each time the number of threads is set, so that other pools can use the
    same number. If the number was set before, also call `told` now."""
    with _lock:
        _told.append(told)
        if _is_set:
            told(_num_threads)


def parallel_for(begin: int, end: int, grain: int, work: Callable[[int, int], object]) -> None:
    """Call `work(first, last)` for parts of [begin, end). Each part except the last has at least
    `grain` elements.

    The calling thread takes a part too. A nested call inside a part runs in the thread of that
    part.
    """
    length = end - begin
    parts = min(free_threads(), length // grain if grain > 0 else length)
    if parts <= 1:
        if length > 0:
            work(begin, end)
        return
    step = -(-length // parts)

    def part(index: int) -> None:
        first = begin + index * step
        work(first, min(first + step, end))

    share(-(-length // step), parts, lambda: part)


def share(count: int, threads: int, make: Callable[[], Callable[[int], object]]) -> None:
    """Run the pieces 0 to count - 1 on up to `threads` threads. Each thread first runs the pieces
    of its own contiguous part, whose memory may still be in its cache. It then runs remaining
    pieces of other parts.

    make: called once in each thread that takes part; it returns the function that runs a piece. A
    thread may start so late, because other programs use the CPUs, that it finds no piece left; the
    caller does not wait for it. If a piece raises an exception, this function raises it after all
    running pieces have ended; pieces that have not begun are skipped. Ctrl-C is handled in the same
    way.
    """
    threads = min(threads, free_threads(), count)
    if threads <= 1:
        work = make()
        for index in range(count):
            work(index)
        return
    # Each `next` is a single C call, so no two threads get the same number.
    nexts = [itertools.count(count * n // threads).__next__ for n in range(threads)]
    ends = [count * (n + 1) // threads for n in range(threads)]

    def take(first: int) -> None:
        work = None
        try:
            for which in (*range(first, threads), *range(first)):
                following = nexts[which]
                while (index := following()) < ends[which]:
                    if work is None:
                        work = make()
                    work(index)
        except BaseException:
            ends[:] = [0] * threads
            raise

    tickets = [_Ticket(functools.partial(take, n)) for n in range(1, threads)]
    failure: BaseException | None = None
    interruption: BaseException | None = None
    try:
        _the_pool().ask(tickets)
        _inside.part = True
        take(0)
    except BaseException as error:
        failure = error
    finally:
        while True:  # Wait until no piece runs, even after a second Ctrl-C.
            try:
                _inside.part = False
                for ticket in tickets:
                    ticket.end()
                break
            except BaseException as error:
                ends[:], interruption = [0] * threads, error
    if interruption is not None:
        failure = interruption
    for ticket in tickets:
        if failure is None:
            failure = ticket.failure
    if failure is not None:
        try:
            raise failure
        finally:
            # The error's traceback refers to this frame, so delete the error to break the cycle.
            del failure, interruption, ticket, tickets


def share_rows(
    shape: tuple[int, ...], axis: int, work: Callable[[tuple[slice, ...]], object]
) -> None:
    """Divide a shape into parts, and call `work` with the indices of each part, on all threads.
    Each part contains all indices of the dimension `axis`."""
    size = math.prod(shape)
    split = next((d for d, n in enumerate(shape) if d != axis and n > 1), None)
    if split is None or size < 4 * _ROWS:
        work((slice(None),) * len(shape))
        return
    step = max(1, _ROWS * shape[split] // size)
    lead = (slice(None),) * split

    def part(number: int) -> None:
        work((*lead, slice(number * step, (number + 1) * step)))

    share(-(-shape[split] // step), get_num_threads(), lambda: part)


class _Ticket:
    """The right to run one thread's share of a call. A helper or the caller claims the ticket.
    owner: contains the name of the first claimant, "helper" or "caller"."""

    __slots__ = ("ended", "failure", "is_over", "owner", "work")

    def __init__(self, work: Callable[[], object]) -> None:
        self.work: Callable[[], object] | None = work
        self.owner: dict[str, str] = {}
        self.is_over = False
        self.failure: BaseException | None = None
        self.ended = threading.Lock()
        self.ended.acquire()

    def run(self) -> None:
        """Claim the ticket as a helper and do its work."""
        if self.owner.setdefault("is", "helper") == "caller":
            return
        work, self.work = self.work, None
        assert work is not None
        try:
            work()
        except BaseException as error:
            self.failure = error
        del work  # The operands must be dropped before the caller continues.
        self.is_over = True
        self.ended.release()

    def end(self) -> None:
        """Claim the ticket as the caller or, if a helper has claimed it, wait for the helper. After
        an interruption this is called again."""
        if self.owner.setdefault("is", "caller") == "caller":
            self.work = None
            return
        while not self.is_over:
            self.ended.acquire()


class _Pool:
    """Threads that wait for tickets. There are as many threads as the largest request so far."""

    __slots__ = ("_count", "_is_closed", "_tickets")

    def __init__(self) -> None:
        self._count = 0
        self._is_closed = False

    def ask(self, tickets: list[_Ticket]) -> None:
        if self._count < len(tickets):
            self._start(len(tickets))
        for ticket in tickets[: self._count]:
            queue = self._tickets
            # If as many tickets wait as there are threads, another ticket would not be claimed in
            # time.
            if queue.qsize() < self._count:
                queue.put(ticket)

    def _start(self, count: int) -> None:
        with _lock:
            # Otherwise Python 3.11 would wait for a thread that never starts.
            if sys.is_finalizing():
                return
            if not hasattr(self, "_tickets"):
                from _queue import SimpleQueue

                self._tickets: SimpleQueue[_Ticket | None] = SimpleQueue()
            while self._count < count and not self._is_closed:
                name = f"gputensor-cpu-{self._count}"
                arguments = (self._tickets,)
                thread = threading.Thread(target=_help, args=arguments, name=name, daemon=True)
                try:
                    thread.start()
                # The system allows no more threads, so the existing ones do the work.
                except RuntimeError:
                    return
                self._count += 1

    def close(self) -> None:
        """End each thread after its current piece. Tickets that are added later are not claimed."""
        with _lock:
            self._is_closed = True
            count, self._count = self._count, 0
        for _ in range(count):
            self._tickets.put(None)


def _help(tickets: SimpleQueue[_Ticket | None]) -> None:
    _inside.part = True
    while (ticket := tickets.get()) is not None:
        ticket.run()
        del ticket


def _the_pool() -> _Pool:
    global _pool
    pool = _pool
    if pool is None:
        with _lock:
            pool = _pool = _pool or _Pool()
    return pool


def reset_after_fork() -> None:
    """Make new pools in a forked child, where the parent's threads do not exist and its lock may be
    held for ever."""
    global _lock, _pool, _inside
    _lock = threading.RLock()
    _pool = None
    _inside = threading.local()


os.register_at_fork(after_in_child=reset_after_fork)
