"""Caching free lists for one device: per stream, in steps of 512 bytes, over a slower backend.

A block that a tensor drops goes to the free list of the stream it was allocated on, at once and
without a driver call: whoever takes it next on that stream queues behind the work that used it.
`record_stream` covers the other case, a block used on a second stream: when dropped it waits for
an event on each such stream, polled by later allocations. A request takes a block of its own size
or one at most a quarter larger, else asks the backend, which splits and merges (CuPy's pool).

Dropping is one `deque.append`, the only thing that is safe to do in a finaliser (it can run
inside any of the functions below); the next call that takes the lock does the bookkeeping.

Note [Allocator backend]
A backend has
  malloc(size, stream) -> (ptr, handle)   raises MemoryError where there is none
  free(ptr, handle, stream)               the block was allocated on `stream`; work queued on it
                                          before this call may still use the block
  record(stream) -> event                 `event.query()`: all work queued so far is done
  release()                               give back to the system what the backend itself keeps
  synchronize()                           wait for all work of the device
  mem_get_info() -> (free, total)
where a stream is any object with `.ptr`.
"""

from __future__ import annotations

import gc
import threading
from bisect import bisect_left, insort
from collections import deque
from typing import Any

from gputensor.core import errors

STEP = 512

_new = object.__new__


class Block:
    """One piece of device memory; `home` is its free list, `used_on` are the recorded streams."""

    __slots__ = ("give_back", "handle", "home", "ptr", "size", "stream", "used_on")

    def __init__(self, ptr: int, size: int, handle: Any, stream: Any, give_back: Any) -> None:
        self.ptr = ptr
        self.size = size
        self.handle = handle
        self.stream = stream
        self.home: list[Block] = []
        self.give_back = give_back
        self.used_on: dict[int, Any] | None = None


class Memory:
    """Device memory that goes back to its allocator when the last reference is dropped."""

    __slots__ = ("__weakref__", "block", "device_index", "nbytes", "ptr")

    def __init__(self, ptr: int, nbytes: int, device_index: int, block: Block | None) -> None:
        self.ptr = ptr
        self.nbytes = nbytes
        self.device_index = device_index
        self.block = block

    def __del__(self) -> None:
        block = self.block
        if block is not None:
            block.give_back(block)


class Allocator:
    """The allocator of one device; `keeps_blocks=False` hands blocks straight to the backend."""

    def __init__(self, device_index: int, backend: Any, *, keeps_blocks: bool = True) -> None:
        self.device_index = device_index
        self.backend = backend
        self.keeps_blocks = keeps_blocks
        self.limit: int | None = None
        self.is_closed = False  # in a forked child there is no device to give anything back to
        self._lock = threading.Lock()
        self._returned: deque[Block] = deque()
        self._waiting: deque[tuple[Block, list[Any]]] = deque()
        self._free: dict[tuple[int, int], list[Block]] = {}
        self._sizes: dict[int, list[int]] = {}
        self._blocks: dict[int, Block] = {}
        self._give_back = self._returned.append if keeps_blocks else self._give_back_now
        self._in_use_bytes = self._peak_bytes = self._allocations = self._returns = 0
        self._held_bytes = self._peak_held_bytes = 0
        self._device_allocations = self._device_frees = self._retries = self._failures = 0

    # --- the interface --------------------------------------------------------------------------

    def allocate(self, nbytes: int, stream: Any) -> Memory:
        """`nbytes` bytes for work on `stream`; raises OutOfMemoryError with the figures."""
        if nbytes <= 0:
            if nbytes < 0:
                raise errors.must("allocate", "nbytes", "not be negative", nbytes)
            return Memory(0, 0, self.device_index, None)
        size = nbytes + STEP - 1 & -STEP
        with self._lock:
            if self._returned or self._waiting:
                self._take_back()
            blocks = self._free.get((stream.ptr, size))
            block = blocks.pop() if blocks else self._miss(size, nbytes, stream)
            self._allocations += 1
            in_use = self._in_use_bytes = self._in_use_bytes + block.size
            if in_use > self._peak_bytes:
                self._peak_bytes = in_use
        memory = _new(Memory)
        memory.ptr, memory.nbytes, memory.device_index = block.ptr, nbytes, self.device_index
        memory.block = block
        return memory

    def record_stream(self, memory: Memory, stream: Any) -> None:
        """Keep the block from reuse until the work that `stream` has when it is dropped is done."""
        block = memory.block
        if block is None or stream.ptr == block.stream.ptr:
            return
        if block.used_on is None:
            block.used_on = {}
        block.used_on[stream.ptr] = stream

    def empty_cache(self) -> None:
        """Give every block that no tensor uses back to the system."""
        with self._lock:
            self._take_back()
            self._release_free_blocks()
            self.backend.release()

    def set_limit(self, nbytes: int | None) -> None:
        """At most this many bytes are held from now on; None lifts the limit."""
        self.limit = nbytes

    @property
    def allocated(self) -> int:
        """Bytes in tensors, rounded to whole blocks."""
        with self._lock:
            self._take_back()
            return self._in_use_bytes

    @property
    def reserved(self) -> int:
        """Bytes held: in tensors, in free lists and waiting for events."""
        with self._lock:
            self._take_back()
            return self._held_bytes

    def stats(self) -> dict[str, int]:
        """The counters, named as PyTorch's `memory_stats` names them where it has them."""
        with self._lock:
            self._take_back()
            return {
                "allocated_bytes.all.current": self._in_use_bytes,
                "allocated_bytes.all.peak": self._peak_bytes,
                "allocation.all.current": self._allocations - self._returns,
                "allocation.all.allocated": self._allocations,
                "reserved_bytes.all.current": self._held_bytes,
                "reserved_bytes.all.peak": self._peak_held_bytes,
                "num_device_alloc": self._device_allocations,
                "num_device_free": self._device_frees,
                "num_alloc_retries": self._retries,
                "num_ooms": self._failures,
            }

    def reset_peaks(self) -> None:
        with self._lock:
            self._take_back()
            self._peak_bytes = self._in_use_bytes
            self._peak_held_bytes = self._held_bytes

    def snapshot(self) -> list[dict[str, Any]]:
        """Every block held, by address."""
        with self._lock:
            self._take_back()
            # PyTorch's words for the states.
            states = {id(block): "inactive" for blocks in self._free.values() for block in blocks}
            states |= {id(block): "active_pending_free" for block, _ in self._waiting}
            return [
                {
                    "device": self.device_index,
                    "address": ptr,
                    "size": block.size,
                    "stream": block.stream.ptr,
                    "state": states.get(id(block), "active_allocated"),
                }
                for ptr, block in sorted(self._blocks.items())
            ]

    # --- taking back ----------------------------------------------------------------------------

    def _give_back_now(self, block: Block) -> None:
        """Free at once (blocks are not kept), unless this finaliser interrupted the allocator."""
        self._returned.append(block)
        if self.is_closed:
            return
        if self._lock.acquire(blocking=False):
            try:
                self._take_back()
            finally:
                self._lock.release()

    def _take_back(self) -> None:
        """Do the bookkeeping of dropped blocks and poll the events of those that waited."""
        returned = self._returned
        while returned:
            block = returned.popleft()
            self._in_use_bytes -= block.size
            self._returns += 1
            if block.used_on is None and self.keeps_blocks:
                block.home.append(block)
            elif block.used_on is None:
                self._free_block(block)
            else:
                events = [self.backend.record(stream) for stream in block.used_on.values()]
                self._waiting.append((block, events))
        if self._waiting:
            self._poll()

    def _poll(self) -> None:
        waiting = self._waiting
        for _ in range(len(waiting)):
            block, events = waiting.popleft()
            if not all(event.query() for event in events):
                waiting.append((block, events))
                continue
            block.used_on = None
            if self.keeps_blocks:
                block.home.append(block)
            else:
                self._free_block(block)

    # --- the slow path --------------------------------------------------------------------------

    def _miss(self, size: int, nbytes: int, stream: Any) -> Block:
        """A slightly larger free block, else a new one; climbs the ladder when memory runs out."""
        sizes = self._sizes.get(stream.ptr, ())
        at = bisect_left(sizes, size)
        while at < len(sizes) and sizes[at] <= size + (size >> 2):
            blocks = self._free[(stream.ptr, sizes[at])]
            if blocks:
                return blocks.pop()
            at += 1
        for rung in (None, self._release_free_blocks, self._wait_for_all):
            if rung is not None:
                self._retries += 1
                rung()
                self.backend.release()
            block = self._new_block(size, nbytes, stream)
            if block is not None:
                return block
        self._failures += 1
        raise errors.out_of_memory(f"cuda:{self.device_index}", size, self._figures())

    def _new_block(self, size: int, nbytes: int, stream: Any) -> Block | None:
        if self.limit is not None and self._held_bytes + size > self.limit:
            return None
        try:
            # a block that is never reused has its exact size, so that an overrun is seen
            ptr, handle = self.backend.malloc(size if self.keeps_blocks else nbytes, stream)
        except MemoryError:
            return None
        self._device_allocations += 1
        self._held_bytes += size
        self._peak_held_bytes = max(self._peak_held_bytes, self._held_bytes)
        block = self._blocks[ptr] = Block(ptr, size, handle, stream, self._give_back)
        if self.keeps_blocks:
            key = (stream.ptr, size)
            if key not in self._free:
                self._free[key] = []
                insort(self._sizes.setdefault(stream.ptr, []), size)
            block.home = self._free[key]
        return block

    def _release_free_blocks(self) -> None:
        for blocks in self._free.values():
            while blocks:
                self._free_block(blocks.pop())

    def _wait_for_all(self) -> None:
        """The last rung: collect garbage cycles and let pending work finish, then release again."""
        gc.collect()
        self.backend.synchronize()
        self._take_back()
        self._release_free_blocks()

    def _free_block(self, block: Block) -> None:
        del self._blocks[block.ptr]
        self._device_frees += 1
        self._held_bytes -= block.size
        handle, block.handle = block.handle, None
        self.backend.free(block.ptr, handle, block.stream)

    def _figures(self) -> dict[str, int]:
        free, total = self.backend.mem_get_info()
        figures = {
            "in tensors": self._in_use_bytes,
            "held": self._held_bytes,
            "free on the device": free,
            "total": total,
        }
        if self.limit is not None:
            figures["limit"] = self.limit
        return figures
