"""Memory of emulated devices, pinned host memory, and copies between them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

from gputensor.core import errors

from .. import capture
from ..allocator import Allocators, allocating, taking
from ..capture import capturing
from ..emulator.pinned import PinnedMemory
from ..emulator.queues import Mark
from . import devices
from .devices import checked
from .streams import Stream, current_stream

__tracebackhide__ = errors.is_of_a_kernel

allocators = Allocators(checked)


class Backend:
    """Memory of the system as a backend for one device (Note [Allocator backend]).

    It keeps references to all objects that `free` needs, because at exit the interpreter sets
    module variables to None before it drops the last tensors.
    """

    def __init__(self, device_index: int) -> None:
        self._device_index = device_index
        self._machine, self._scheduler = devices.machine, devices.scheduler
        self._used_bytes = 0

    def malloc(self, size: int, stream: Stream) -> tuple[int, int]:
        if self._used_bytes + size > devices.total_bytes:
            raise MemoryError
        address = self._machine.allocate(size, self._device_index)
        self._used_bytes += size
        return address, size

    def free(self, ptr: int, size: int, stream: Stream) -> None:
        def run() -> None:
            self._used_bytes -= size
            wrong = self._machine.free(ptr)
            if wrong:
                raise errors.kernel_failed("an earlier kernel", wrong)

        self._machine.drop(ptr)
        self._scheduler.add_quietly(stream.queue, run)

    def mark(self, stream: Stream) -> Stream:
        return stream

    def record(self, stream: Stream) -> Mark:
        return self._scheduler.record(stream.queue)

    def release(self) -> None:
        """Run the device's queued work, which includes frees of memory. Memory counts as used until
        its queued free has run, as on a GPU."""
        self._scheduler.drain_all(self._device_index)

    def synchronize(self) -> None:
        self._scheduler.drain_all(self._device_index)

    def mem_get_info(self) -> tuple[int, int]:
        return devices.total_bytes - self._used_bytes, devices.total_bytes


allocate = allocating(allocators, current_stream, lambda index, stream: stream)
taker = taking(allocators, current_stream, lambda *given: allocate(*given))
memory_allocated = allocators.memory_allocated
memory_reserved = allocators.memory_reserved
memory_stats = allocators.memory_stats
reset_peak_memory_stats = allocators.reset_peak_memory_stats
memory_snapshot = allocators.memory_snapshot
empty_cache = allocators.empty_cache
set_memory_limit = allocators.set_memory_limit
record_stream = allocators.record_stream


def mem_get_info(index: int) -> tuple[int, int]:
    free, total = allocators[checked("mem_get_info", index)].backend.mem_get_info()
    return free, total


def pinned_allocate(nbytes: int) -> PinnedMemory:
    if capturing:
        capture.refuse_unsafe("pinned_allocate", "it takes pinned memory of the host")
    return devices.pinned.allocate(nbytes)


def copy_async(
    dst_ptr: int, dst_device: int, src_ptr: int, src_device: int, nbytes: int, stream: Stream
) -> None:
    """Queue a copy. Device -1 is the host. After this call, the caller may change pageable host
    memory."""
    if nbytes == 0:
        return
    if capturing and (dst_device < 0 or src_device < 0):
        capture.refuse_host("copy", stream)

    def check() -> None:
        for arg, ptr, device in (("dst", dst_ptr, dst_device), ("src", src_ptr, src_device)):
            if device >= 0:
                check_range("copy", arg, ptr, nbytes, device)

    check()
    places = ((dst_ptr, dst_device), (src_ptr, src_device))
    keep = [devices.pinned.owner_of(ptr, nbytes) for ptr, device in places if device < 0]
    if src_device < 0 and keep[-1] is None:
        data = ctypes.create_string_buffer(ctypes.string_at(src_ptr, nbytes), nbytes)
        keep.append(data)
        src_ptr = ctypes.addressof(data)

    def run(keep: Sequence[Any] = keep) -> None:
        ctypes.memmove(dst_ptr, src_ptr, nbytes)

    devices.scheduler.add(stream.queue, run, check)
    if dst_device < 0 and keep[0] is None:
        stream.synchronize()


def memset_async(ptr: int, value: int, nbytes: int, device_index: int, stream: Stream) -> None:
    """Queue a fill with a byte value."""
    if nbytes:
        check = partial(check_range, "memset", "ptr", ptr, nbytes, device_index)
        check()

        def run() -> None:
            ctypes.memset(ptr, value, nbytes)

        devices.scheduler.add(stream.queue, run, check)


def check_range(op: str, arg: str, ptr: int, nbytes: int, device_index: int) -> None:
    found = devices.machine.find(ptr)
    rule = f"be {nbytes} bytes of memory of cuda:{device_index}"
    if found is None:
        raise errors.wrong_pointer(op, arg, rule, f"{ptr:#x}, which is no device memory")
    if found.device != device_index or found.state or ptr + nbytes > found.begin + found.nbytes:
        at = ptr - found.begin
        raise errors.wrong_pointer(op, arg, rule, f"byte {at} of {found}")
