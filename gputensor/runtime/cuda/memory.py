"""Device memory, pinned host memory, and copies between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from .. import capture
from ..allocator import Allocator, Allocators, Memory, allocating, taking
from ..capture import capturing
from . import driver
from .driver import CudaError, On, Relaxed, failed, get_device, mem_get_info, reporting
from .pinned import Staging
from .streams import (
    PER_THREAD, Event, Stream, cupy_stream, current_stream, per_thread_stream, stream_of,
    synchronize,
)  # fmt: skip

_runtime: Any = cupy.cuda.runtime
_OUT_OF_MEMORY, _BAD_HANDLE, _HAS_PEER = 2, 400, 704
_peers: set[tuple[int, int]] = set()


class _Backend:
    """The allocator's backend for the CUDA driver's memory: see Note [Allocator backend].

    A handle frees its memory when it is dropped, after all work of the device. CuPy's pool is not
    used, because it collects garbage twice before it reports that memory has run out.
    """

    def __init__(self, device_index: int) -> None:
        self._device_index = device_index

    def malloc(self, size: int, stream: Stream) -> tuple[int, Any]:
        with On(self._device_index), Relaxed():
            try:
                handle = cupy.cuda.Memory(size)
            except OverflowError as error:  # The request may exceed the address space.
                raise MemoryError from error
            except CudaError as error:
                if error.status == _OUT_OF_MEMORY:
                    raise MemoryError from error
                raise failed(self._device_index, "an allocation", error) from error
        return handle.ptr, handle

    def free(self, ptr: int, handle: Any, stream: Stream) -> None:
        """Do nothing: the memory is freed when the caller drops the handle."""

    def mark(self, stream: Stream) -> Stream | Event:
        """Return the stream. For a borrowed stream, return an event after its current work, because
        the owner may destroy the stream."""
        return stream.record_event() if stream.is_borrowed else stream

    def record(self, entry: Stream | Event) -> Event | None:
        if isinstance(entry, Event):
            return entry
        if entry.ptr == PER_THREAD and entry is not per_thread_stream(entry.device_index):
            return None  # In this thread, the handle means a different stream.
        event = Event()
        try:
            event.record_or_fail(entry)
        except CudaError as error:
            if error.status == _BAD_HANDLE:
                return None
            raise failed(self._device_index, "recording an event", error) from error
        return event

    def release(self) -> None:
        """Free the unused blocks of CuPy's default pool."""
        with On(self._device_index):
            cupy.get_default_memory_pool().free_all_blocks()

    def synchronize(self) -> None:
        synchronize(self._device_index)

    def mem_get_info(self) -> tuple[int, int]:
        return mem_get_info(self._device_index)


allocators = Allocators(driver.checked)
driver.at_start.append(
    lambda count: allocators.extend(Allocator(i, _Backend(i)) for i in range(count))
)
allocate = allocating(allocators, cupy_stream, stream_of)
taker = taking(allocators, cupy_stream, lambda *given: allocate(*given))
memory_allocated = allocators.memory_allocated
memory_reserved = allocators.memory_reserved
memory_stats = allocators.memory_stats
reset_peak_memory_stats = allocators.reset_peak_memory_stats
memory_snapshot = allocators.memory_snapshot
empty_cache = allocators.empty_cache
set_memory_limit = allocators.set_memory_limit
record_stream = allocators.record_stream


def borrow(ptr: int, nbytes: int, device_index: int, give_back: Callable[[], None]) -> Memory:
    """Return memory of another library as a Memory, for work on the current stream.

    give_back: called after the memory was dropped, when the work that our streams had queued by
    then is done.
    """
    allocator = allocators[driver.checked("borrow", device_index)]
    return allocator.borrow(ptr, nbytes, current_stream(device_index), give_back)


def copy_async(
    dst_ptr: int, dst_device: int, src_ptr: int, src_device: int, nbytes: int, stream: Stream
) -> None:
    """Queue a copy. Device -1 is the host, whose memory must be pinned for the copy to be
    asynchronous."""
    if nbytes == 0:
        return
    if capturing and (dst_device < 0 or src_device < 0):
        capture.refuse_host("copy", stream)
    if dst_device != src_device and dst_device >= 0 and src_device >= 0:
        _reach(dst_device, src_device)
    with On(stream.device_index):
        try:
            if 0 <= dst_device != src_device >= 0:
                places = dst_ptr, dst_device, src_ptr, src_device
                _runtime.memcpyPeerAsync(*places, nbytes, stream.ptr)
            else:
                kind = _runtime.memcpyDeviceToDevice
                if dst_device < 0:
                    kind = _runtime.memcpyDeviceToHost
                elif src_device < 0:
                    kind = _runtime.memcpyHostToDevice
                _runtime.memcpyAsync(dst_ptr, src_ptr, nbytes, kind, stream.ptr)
        except CudaError as error:
            raise failed(stream.device_index, f"a copy of {nbytes} bytes", error) from error
        if dst_device < 0:
            _staging.keep(dst_ptr, stream)
        elif src_device < 0:
            _staging.keep(src_ptr, stream)


def _reach(one: int, other: int) -> None:
    """Enable peer access between two devices, once, if they support it. Without peer access, copies
    go through the host."""
    if (one, other) in _peers:
        return
    for device, peer in ((one, other), (other, one)):
        with On(device):
            try:
                if _runtime.deviceCanAccessPeer(device, peer):
                    _runtime.deviceEnablePeerAccess(peer)
            except CudaError as error:
                if error.status != _HAS_PEER:  # Otherwise, another library has enabled peer access.
                    raise failed(device, f"peer access to cuda:{peer}", error) from error
        _peers.add((device, peer))


def memset_async(ptr: int, value: int, nbytes: int, device_index: int, stream: Stream) -> None:
    """Queue a fill with a byte value."""
    if nbytes:
        with On(device_index):
            try:
                _runtime.memsetAsync(ptr, value, nbytes, stream.ptr)
            except CudaError as error:
                raise failed(device_index, f"a fill of {nbytes} bytes", error) from error


_staging = Staging()


class PinnedMemory:
    """`nbytes` bytes of page-locked host memory. `array` is a view that keeps the memory alive."""

    __slots__ = ("__weakref__", "_begin", "_owner", "array", "nbytes", "ptr")

    def __init__(self, nbytes: int) -> None:
        self._begin = 0
        ask = cupy.cuda.alloc_pinned_memory
        what = "an allocation of pinned memory"
        self._owner = reporting(get_device(), what, ask, max(nbytes, 1))
        self.ptr: int = int(self._owner.ptr)
        self.nbytes: int = nbytes
        self.array = np.frombuffer(self._owner, np.uint8, max(nbytes, 1))[:nbytes]
        _staging.add(self.ptr, nbytes, self._owner)
        self._begin = self.ptr

    def __del__(self) -> None:
        if self._begin:
            _staging.gone.append(self._begin)


def pinned_allocate(nbytes: int) -> PinnedMemory:
    if capturing:
        capture.refuse_unsafe("pinned_allocate", "it takes pinned memory of the host")
    _staging.settle()
    return PinnedMemory(nbytes)
