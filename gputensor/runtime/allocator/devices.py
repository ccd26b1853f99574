"""The allocators of all devices of a runtime, and fast paths for allocations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import capture
from .allocator import Allocator
from .memory import Memory
from .segments import LAST, STEP, USED


def allocating(
    allocators: Allocators, current: Callable[[int], Any], stream_of: Callable[[int, Any], Any]
) -> Callable[[int, int], Memory]:
    """Return a runtime's function `allocate(nbytes, device_index)`, which returns memory for work
    on the current stream.

    current(index) returns an object that identifies the current stream. stream_of(index, object)
    returns this stream.
    """

    def allocate(nbytes: int, device_index: int) -> Memory:
        allocator, of = _of_device(allocators, device_index), current(device_index)
        stream = stream_of(device_index, of)
        memory = allocator.allocate(nbytes, stream)
        pools = allocator._pools.get(stream.key)
        # `key` and `ptr` differ only for the per-thread stream, which is not cached.
        if pools is not None and stream.key == stream.ptr:
            allocator._last = (of, pools.bins)
        return memory

    return allocate


def taking(
    allocators: Allocators, current: Callable[[int], Any], allocate: Callable[[int, int], Memory]
) -> Callable[[int, int], Callable[[], Memory]]:
    """Return a runtime's function `taker(nbytes, device_index)`. A call of `taker` makes a function
    for repeated allocations of one size.

    That function does the work of allocate(nbytes, device_index) in one frame if a block is free
    and the current stream has not changed since the last call. It allocates all results of short
    cuts (bench/host/host_cuda.py).
    """

    def taker(nbytes: int, device_index: int) -> Callable[[], Memory]:
        allocator, size = _of_device(allocators, device_index), nbytes + STEP - 1 & -STEP
        counts = allocator._counts

        def take() -> Memory:
            seen, bins = allocator._last
            if seen is current(device_index) and not allocator._returned and not allocator._waiting:
                memory = Memory()
                try:
                    blocks = bins[size]
                    # From here until the counters are updated, no function may be called: see Note
                    # [Finalisers and signals].
                    block, blocks[LAST] = blocks[-1], ()
                except (KeyError, IndexError):
                    memory.block = None
                else:
                    block.state = USED
                    memory.block = block
                    memory.ptr = block.ptr
                    memory.nbytes = nbytes
                    memory.device_index = device_index
                    counts.allocations += 1
                    in_use = counts.in_use = counts.in_use + block.size
                    if in_use > counts.peak:
                        counts.peak = in_use
                    return memory
            return allocate(nbytes, device_index)

        return take

    return taker


def _of_device(allocators: Allocators, device_index: int) -> Allocator:
    try:
        return allocators[device_index]
    except IndexError:  # The device is unknown, or this is the first call of the process.
        pass
    return allocators[allocators.checked("allocate", device_index)]


class Allocators(list[Allocator]):
    """The allocators of a runtime's devices, with the memory functions of its interface.

    checked: a function (op, device index) that returns the index, or raises for an unknown device.
    """

    def __init__(self, checked: Callable[[str, int], int]) -> None:
        super().__init__()
        self.checked = checked

    def memory_allocated(self, index: int) -> int:
        return self[self.checked("memory_allocated", index)].allocated

    def memory_reserved(self, index: int) -> int:
        return self[self.checked("memory_reserved", index)].reserved

    def memory_stats(self, index: int) -> dict[str, int]:
        return self[self.checked("memory_stats", index)].stats()

    def reset_peak_memory_stats(self, index: int) -> None:
        self[self.checked("reset_peak_memory_stats", index)].reset_peaks()

    def memory_snapshot(self) -> list[dict[str, Any]]:
        return [block for allocator in self for block in allocator.snapshot()]

    def empty_cache(self) -> None:
        if capture.capturing:
            capture.refuse_unsafe("empty_cache", "it gives memory back to the driver")
        for allocator in self:
            allocator.empty_cache()

    def set_memory_limit(self, index: int, nbytes: int | None) -> None:
        self[self.checked("set_memory_limit", index)].set_limit(nbytes)

    def record_stream(self, memory: Memory, stream: Any) -> None:
        """Record that work on `stream` uses memory that belongs to another stream."""
        self[memory.device_index].record_stream(memory, stream)

    def close(self) -> None:
        """In a forked child: stop returning memory to the device, and disable the fast path."""
        for allocator in self:
            allocator.is_closed = True
            allocator._last = (None, {})
