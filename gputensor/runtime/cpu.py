"""CPU memory, aligned where it pays, and the threads that kernels split their work over.

Memory is a uint8 ndarray. From 64 KiB up it begins at a multiple of 64 bytes, so that rows of a
copy share no cache line; smaller arrays are NumPy's own, whose small-block cache is faster than
any alignment. Nothing here is cleared.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gputensor.core import errors

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

ALIGNMENT = 64
ALIGNED_FROM = 1 << 16

_uint8 = np.dtype(np.uint8)


def allocate(nbytes: int) -> np.ndarray:
    """`nbytes` bytes of uninitialised memory. Raises: OutOfMemoryError."""
    try:
        if nbytes < ALIGNED_FROM:
            return np.empty(nbytes, _uint8)
        array = np.empty(nbytes + ALIGNMENT, _uint8)
    except (MemoryError, ValueError):  # NumPy's word for more bytes than there are addresses
        raise errors.out_of_memory("cpu", nbytes, {}) from None
    begin = -array.ctypes.data % ALIGNMENT
    return array[begin : begin + nbytes]


# --- threads ------------------------------------------------------------------------------------

# Elements that a thread takes at a time where rows are shared, which four times as many are.
_ROWS = 1 << 16

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_num_threads = 0
_inside = threading.local()


def get_num_threads() -> int:
    """How many threads a kernel may use: `GPUTENSOR_NUM_THREADS`, else the process's CPUs."""
    global _num_threads
    if not _num_threads:
        given = os.environ.get("GPUTENSOR_NUM_THREADS")
        if given is None:
            _num_threads = os.cpu_count() or 1
            if hasattr(os, "sched_getaffinity"):
                _num_threads = len(os.sched_getaffinity(0))
        elif given.isdecimal() and int(given):
            _num_threads = int(given)
        else:
            raise errors.wrong_setting("GPUTENSOR_NUM_THREADS", "be a positive integer", given)
    return _num_threads


def set_num_threads(count: int) -> None:
    """Let kernels use `count` threads from now on, the calling one included."""
    global _num_threads, _pool
    if type(count) is not int or count < 1:
        raise errors.must("set_num_threads", "count", "be a positive integer", count)
    with _lock:
        _num_threads = count
        old, _pool = _pool, None
    if old is not None:
        old.shutdown(wait=False)


def parallel_for(begin: int, end: int, grain: int, work: Callable[[int, int], object]) -> None:
    """Call `work(first, last)` over parts of [begin, end), none shorter than `grain` but the last.

    The calling thread takes a part itself. Inside a part, a nested call runs in its own thread:
    waiting for the pool from within the pool would wait for ever.
    """
    length = end - begin
    parts = min(get_num_threads(), length // grain if grain > 0 else length)
    if parts <= 1 or getattr(_inside, "part", False):
        if length > 0:
            work(begin, end)
        return
    step = -(-length // parts)
    pool = _the_pool()
    firsts = range(begin + step, end, step)
    futures = [pool.submit(_part, work, first, min(first + step, end)) for first in firsts]
    try:
        _part(work, begin, begin + step)
    finally:
        failures = [failure for f in futures if (failure := f.exception()) is not None]
    if failures:
        raise failures[0]


def share(count: int, threads: int, make: Callable[[], Callable[[int], object]]) -> None:
    """Do pieces 0 to count - 1 on up to `threads` threads, each taking the next one when it is
    free.

    make: called once in each thread that takes part, gives the function of a piece. Where pieces
    are small this loses nothing on a machine whose other CPUs are busy: a thread of the pool that
    does not come in time finds no piece left, and nobody waits for it.
    """
    threads = min(threads, get_num_threads(), count)
    if threads <= 1 or getattr(_inside, "part", False):
        work = make()
        for index in range(count):
            work(index)
        return
    following = itertools.count().__next__  # one C call, so no two threads get the same number

    def take(first: int, last: int) -> None:
        index = following()
        if index < count:
            work = make()
            while index < count:
                work(index)
                index = following()

    pool = _the_pool()
    futures = [pool.submit(_part, take, 0, 0) for _ in range(threads - 1)]
    try:
        _part(take, 0, 0)
    finally:
        failures = [
            failure for f in futures if not f.cancel() and (failure := f.exception()) is not None
        ]
    if failures:
        raise failures[0]


def share_rows(
    shape: tuple[int, ...], axis: int, work: Callable[[tuple[slice, ...]], object]
) -> None:
    """Call `work` with indices of parts of a shape that are whole along `axis`, on all threads."""
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


def _part(work: Callable[[int, int], object], first: int, last: int) -> None:
    _inside.part = True
    try:
        work(first, last)
    finally:
        _inside.part = False


def _the_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            from concurrent.futures import ThreadPoolExecutor  # 8 ms, not on the import path

            _pool = ThreadPoolExecutor(get_num_threads() - 1, "gputensor")
        return _pool


def reset_after_fork() -> None:
    """In a forked child: the parent's threads are not there, and its lock may be held for ever."""
    global _lock, _pool, _inside
    _lock = threading.Lock()
    _pool = None
    _inside = threading.local()


os.register_at_fork(after_in_child=reset_after_fork)
