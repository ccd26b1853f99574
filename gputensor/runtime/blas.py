"""Limits on the threads of OpenBLAS in NumPy and SciPy, because many threads make small matrices
slower.

LAPACK calls BLAS for every few columns, and each call waits for all BLAS threads. For a small
matrix the threads gain nothing. If another program uses one of the CPUs, each wait lasts a time
slice of the scheduler: on a busy machine with two CPUs, the eigenvectors of 256 rows took 1,150 ms
with two threads and 9 ms with one thread. Only OpenBLAS is limited, no other BLAS.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import cpu

# The maximum number of rows and of columns of a small matrix.
SMALL = 512

# The bytes of one OpenBLAS buffer, including its alignment.
_BUFFER = 64 << 20

_lock = threading.RLock()  # The lock is reentrant, because a signal handler may compute too.
_users = 0
_wanted = 0  # The number that set_num_threads received last; 0 without a call.
_kept: list[tuple[Callable[[int], object], int]] = []
# Maps a package to the getter and the setter of the thread count of its OpenBLAS, or to None if the
# package has another BLAS.
_found: dict[str, tuple[Callable[[], int], Callable[[int], object]] | None] = {}


def take_memory() -> None:
    """Let NumPy's OpenBLAS allocate its buffer for products while memory is available.

    OpenBLAS ends the process if it cannot allocate a buffer, and never frees its buffers. The
    product of a matrix and its transpose needs a buffer at every size. If there is no memory for a
    buffer now, this function does nothing.
    """
    try:
        mmap.mmap(-1, _BUFFER).close()
    except (OSError, MemoryError):
        return
    a = np.ones((2, 2))
    np.matmul(a, a.T)


class one_thread:
    """A context manager that limits OpenBLAS to one thread while any caller is inside it."""

    __slots__ = ("_is_inside",)

    def __enter__(self) -> None:
        global _users
        self._is_inside = False
        try:
            with _lock:
                _users += 1
                self._is_inside = True
                if _users == 1:
                    _limit()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        global _users
        with _lock:
            # The count may be 0 here, because a child that was forked inside the context resets it.
            _users = max(_users - self._is_inside, 0)
            if not _users:
                for to, count in _kept:
                    to(count)
                _kept.clear()


def is_limited() -> bool:
    """Return True if BLAS is limited to one thread. If so, also limit a BLAS library that was
    imported inside the context."""
    with _lock:
        if _users:
            _limit()
        return _users > 0


def set_threads(count: int) -> None:
    """Let OpenBLAS use `count` threads, as soon as no caller is inside `one_thread`. The number is
    limited to the number of CPUs, because OpenBLAS's threads wait for each other."""
    global _wanted
    count = min(count, os.cpu_count() or 1)
    with _lock:
        _wanted = count
        for place, (_, to) in enumerate(_loaded()):
            if place < len(_kept):
                _kept[place] = (to, count)
            else:
                to(count)


def _limit() -> None:
    loaded = _loaded()
    while len(_kept) < len(loaded):
        known = len(_kept)
        count, to = loaded[known]
        threads = count()
        if len(_kept) == known:  # Otherwise a signal handler has limited this library.
            _kept.append((to, threads))
            to(1)


def _loaded() -> list[Any]:
    for name in ("numpy", "scipy"):
        if name not in _found and name in sys.modules:
            functions = _found[name] = _functions(Path(sys.modules[name].__path__[0]))
            if _wanted and functions is not None:
                functions[1](_wanted)
    return [functions for functions in _found.values() if functions is not None]


def _functions(package: Path) -> Any:
    """Return the getter and the setter of the thread count of OpenBLAS in a package's wheel, or
    None."""
    library, end = _openblas(package)
    if library is None:
        return None
    return (
        getattr(library, f"scipy_openblas_get_num_threads{end}"),
        getattr(library, f"scipy_openblas_set_num_threads{end}"),
    )


def _openblas(package: Path) -> tuple[ctypes.CDLL | None, str]:
    """Return the OpenBLAS library in a package's wheel, and the suffix of its function names: "64_"
    if its integers have 64 bits."""
    for path in package.parent.glob(f"{package.name}.libs/libscipy_openblas*"):
        library = ctypes.CDLL(str(path))
        for end in ("64_", ""):
            if hasattr(library, f"scipy_openblas_set_num_threads{end}"):
                return library, end
    return None, ""


@functools.cache
def gemm(letter: str) -> tuple[int, bool] | None:
    """Return the address of NumPy's `sgemm`, `dgemm`, … for compiled code, and True if its integers
    have 64 bits. Return None if NumPy's BLAS is not OpenBLAS."""
    library, end = _openblas(Path(sys.modules["numpy"].__path__[0]))
    found = getattr(library, f"scipy_{letter}gemm_{end}", None)
    address = found and ctypes.cast(found, ctypes.c_void_p).value
    return (address, bool(end)) if address else None


def reset_after_fork() -> None:
    """Reset the state in a forked child. There, no caller is inside a context, and a thread of the
    parent may hold the lock for ever."""
    global _lock, _users
    if _users:
        for to, count in _kept:
            to(count)
    _lock, _users = threading.RLock(), 0


os.register_at_fork(after_in_child=reset_after_fork)
cpu.on_num_threads(set_threads)
