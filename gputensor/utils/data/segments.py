"""Shared memory, by which workers pass batches to the main process without a copy.

Note [How a batch travels]
A worker puts each large storage of a batch into a segment: an unnamed file in memory, which the
kernel frees when no process has it open any more. `default_collate` makes batches directly in
segments; other storages are copied into a segment. The files' descriptors are sent through the
worker's socket before the pickled batch is sent through the queue. The main process receives them
in that order, maps and closes them, so it can keep any number of batches. When it drops a batch, it
notifies the worker through the socket, and the worker reuses the segment, because new pages would
cost more than the copy. A segment that two processes own after a fork is not reused. On systems
without such files, the whole batch is pickled.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import pickle
import socket
import threading
import weakref
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from ...core.device import CPU
from ...core.dtype import dtype
from ...core.geometry import contiguous_geometry
from ...tensor.pickling import over, reduce_storage
from ...tensor.storage import ExposedStorage, SharedStorage, Storage
from ...tensor.tensor import Tensor

# Smaller storages are pickled, because a segment costs about 60 us.
LEAST_BYTES = 1 << 18
# The maximum number of file descriptors in one message. The kernel accepts at most 253.
_MOST = 128
# Number of unused segments that a worker keeps.
_MOST_SPARE = 4

is_available = hasattr(os, "memfd_create") and hasattr(socket, "send_fds")
_forks = [0]  # number of forks by this process and its ancestors
if is_available:
    os.register_at_fork(before=lambda: _forks.__setitem__(0, _forks[0] + 1))


class _Segment:
    """A mapped segment. users: the number of arrays over the segment, plus one for each time that
    it was sent and not returned. told: in the main process, a function that reports to the worker
    that the segment is unused."""

    __slots__ = ("descriptor", "address", "nbytes", "users", "forks", "told")

    def __init__(self, descriptor: int, nbytes: int, told: Any = None) -> None:
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        address = _library().mmap(None, nbytes, protection, mmap.MAP_SHARED, descriptor, 0)
        if address is None or address == ctypes.c_void_p(-1).value:
            raise _failed(ctypes.get_errno())
        self.descriptor, self.address, self.nbytes = descriptor, address, nbytes
        self.users, self.forks, self.told = 0, _forks[0], told

    def storage(self, nbytes: int) -> Storage:
        """Return a storage over the first `nbytes` bytes. It counts as a user until it is freed."""
        memory: Any = (ctypes.c_uint8 * nbytes).from_address(self.address)
        self.users += 1
        # do not run the finalizer at exit, because other threads may still read arrays
        weakref.finalize(memory, self.left).atexit = False
        return Storage.over(np.frombuffer(memory, np.uint8), nbytes, CPU)

    def left(self) -> None:
        """Subtract one user.

        After the last user, a worker keeps the segment for reuse, and the main process returns it
        to its worker.
        """
        self.users -= 1
        if self.users:
            return
        is_own = self.forks == _forks[0]
        if is_own and self.told is None:
            _spare.append(self)
            return
        self.close()
        if is_own and self.told is not None:
            self.told()

    def close(self) -> None:
        _library().munmap(self.address, self.nbytes)
        if self.told is None:
            os.close(self.descriptor)


# These tables are used in a worker. `_spare`: unused segments. `_sent`: segments that the main
# process has. `_segments`: storage -> its segment. `_sent` lists a segment once for each time that
# it was sent and not returned.
_spare: list[_Segment] = []
_sent: dict[int, list[_Segment]] = {}
_segments: weakref.WeakKeyDictionary[Storage, _Segment] = weakref.WeakKeyDictionary()
_received = threading.local()  # .storages: the storages of the batch that this thread unpickles


@cache
def _library() -> ctypes.CDLL:
    """Return the C library. Its `mmap` is used because Python's `mmap` would keep a descriptor open
    for each mapping."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def _failed(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def _allocate(nbytes: int) -> Storage:
    """Return a storage in an unused or new segment. Raises: OSError if there is no memory for a new
    one."""
    fit = [x for x in _spare if nbytes <= x.nbytes <= 2 * nbytes and x.forks == _forks[0]]
    if fit:
        segment = fit[0]
        _spare.remove(segment)
    else:
        _close_spare(0)  # no unused segment has this size
        segment = _made(nbytes)
    made = segment.storage(nbytes)
    _segments[made] = segment
    return made


def _close_spare(kept: int) -> None:
    while len(_spare) > kept:
        _spare.pop(0).close()


def _made(nbytes: int) -> _Segment:
    descriptor = os.memfd_create("gputensor batch")
    try:
        # Reserve all pages now: if memory were exhausted at a later write, a signal would end the
        # process.
        os.posix_fallocate(descriptor, 0, nbytes)
        return _Segment(descriptor, nbytes)
    except BaseException:
        os.close(descriptor)
        raise


def empty(sizes: Sequence[int], element: dtype) -> Tensor | None:
    """Return an uninitialised contiguous tensor in a segment. Return None if the tensor is too
    small for a segment, or if the system does not support segments."""
    shape = contiguous_geometry(tuple(sizes), element)
    nbytes = shape.numel * element.itemsize
    if not is_available or nbytes < LEAST_BYTES:
        return None
    return over(_allocate(nbytes), shape)


def dumps(batch: Any, channel: Any) -> bytes:
    """Pickle a batch. Send its segments through `channel`, a connection over a socket.

    channel: None means that all of the batch is pickled.
    """
    written = BytesIO()
    pickler = ForkingPickler(written, pickle.HIGHEST_PROTOCOL)
    sent: list[Storage] = []
    if channel is not None:

        def reduce(storage: Storage) -> tuple[Any, ...]:
            # Pickle storages that are small, not on the CPU, or beyond the first _MOST.
            if storage.device is not CPU or storage._nbytes < LEAST_BYTES or len(sent) == _MOST:
                return reduce_storage(storage)
            if storage not in _segments:
                copied = _allocate(storage._nbytes)
                copied.data[:] = storage.data[: storage._nbytes]
                storage = copied
            sent.append(storage)
            return _take, (len(sent) - 1,)

        for kind in (Storage, SharedStorage, ExposedStorage):
            pickler.dispatch_table[kind] = reduce
    pickler.dump(batch)
    if sent:
        segments = [_segments[storage] for storage in sent]
        for segment in segments:
            segment.users += 1
            _sent.setdefault(segment.descriptor, []).append(segment)
        what = [(x._nbytes, segment.descriptor) for x, segment in zip(sent, segments)]
        with _socket(channel) as through:
            numbers = np.array(what, np.int64).tobytes()
            socket.send_fds(through, [numbers], [segment.descriptor for segment in segments])
        written.write(b"+")
    return written.getvalue()


def take_back(channel: Any) -> None:
    """Receive the numbers of the segments that the main process has dropped. Subtract one user from
    each of these segments."""
    if channel is None or not _sent:
        return
    with _socket(channel) as through:
        while True:
            try:
                told = through.recv(8 * _MOST, socket.MSG_DONTWAIT)
            except OSError:  # no message, or the main process has ended
                return
            if not told:
                return
            for number in np.frombuffer(told, np.int64).tolist():
                _sent[number].pop().left()
                if not _sent[number]:
                    del _sent[number]
            _close_spare(_MOST_SPARE)


def loads(pickled: bytes, channel: Any) -> Any:
    """Unpickle a result of `dumps`. channel: the other end of the connection to `dumps`. Batches
    must be loaded in the order in which they were dumped."""
    storages: list[Storage] = []
    # `dumps` appends "+" if segments follow; a pickle itself ends with "."
    if pickled[-1:] == b"+":
        with _socket(channel) as through:
            numbers, descriptors, _, _ = socket.recv_fds(through, 16 * _MOST, _MOST)
        try:
            what = np.frombuffer(numbers, np.int64).reshape(-1, 2).tolist()
            if len(what) != len(descriptors):  # the process has no free file descriptors
                raise _failed(errno.EMFILE)
            for descriptor, (nbytes, number) in zip(descriptors, what):
                told = _Told(channel, number)
                storages.append(_Segment(descriptor, nbytes, told).storage(nbytes))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
    _received.storages = storages
    try:
        return ForkingPickler.loads(pickled)
    finally:
        del _received.storages


def _take(number: int) -> Storage:
    storage: Storage = _received.storages[number]
    return storage


class _Told:
    """A function that reports to a worker that one of its segments is unused."""

    __slots__ = ("_channel", "_number")

    def __init__(self, channel: Any, number: int) -> None:
        self._channel, self._number = channel, number

    def __call__(self) -> None:
        if self._channel.closed:
            return
        try:
            with _socket(self._channel) as through:
                through.send(self._number.to_bytes(8, "little"), socket.MSG_DONTWAIT)
        except OSError:
            # The worker has ended, or its socket is full. In the second case, the segment is not
            # reused, and the worker makes a new one.
            pass


class _socket:
    """The socket of a connection, as a context manager. The connection's descriptor stays open."""

    def __init__(self, channel: Any) -> None:
        self._socket = socket.socket(fileno=channel.fileno())

    def __enter__(self) -> socket.socket:
        return self._socket

    def __exit__(self, *of_exception: object) -> None:
        self._socket.detach()
