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


class Block:
    """One piece of device memory, in use or in a free list; `used_on` are the recorded streams."""

    __slots__ = ("handle", "ptr", "size", "state", "stream", "used_on")

    def __init__(self, ptr: int, size: int, handle: Any, stream: Any) -> None:
        self.ptr = ptr
        self.size = size
        self.handle = handle
        self.stream = stream
        self.used_on: dict[int, Any] | None = None
        self.state = "active_allocated"


class Memory:
    """Device memory that goes back to its allocator when the last reference is dropped."""

    __slots__ = ("__weakref__", "_give_back", "block", "device_index", "nbytes", "ptr")

    def __init__(self, block: Block | None, nbytes: int, device_index: int, give_back: Any) -> None:
        self.ptr = 0 if block is None else block.ptr
        self.nbytes = nbytes
        self.device_index = device_index
        self.block = block
        self._give_back = give_back

    def __del__(self) -> None:
        if self.block is not None:
            self._give_back(self.block)


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
        self._counters = dict.fromkeys(COUNTERS, 0)

    # --- the interface --------------------------------------------------------------------------

    def allocate(self, nbytes: int, stream: Any) -> Memory:
        """`nbytes` bytes for work on `stream`; raises OutOfMemoryError with the figures."""
        if nbytes <= 0:
            if nbytes < 0:
                raise errors.must("allocate", "nbytes", "not be negative", nbytes)
            return Memory(None, 0, self.device_index, None)
        size = nbytes + STEP - 1 & -STEP
        with self._lock:
            if self._returned or self._waiting:
                self._take_back()
            blocks = self._free.get((stream.ptr, size))
            block = blocks.pop() if blocks else self._miss(size, nbytes, stream)
            block.state = "active_allocated"
            self._count_in(block.size)
        return Memory(block, nbytes, self.device_index, self._give_back)

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
            return self._counters["allocated_bytes.all.current"]

    @property
    def reserved(self) -> int:
        """Bytes held: in tensors, in free lists and waiting for events."""
        with self._lock:
            self._take_back()
            return self._counters["reserved_bytes.all.current"]

    def stats(self) -> dict[str, int]:
        """The counters, named as PyTorch's `memory_stats` names them where it has them."""
        with self._lock:
            self._take_back()
            return dict(self._counters)

    def reset_peaks(self) -> None:
        with self._lock:
            self._take_back()
            for counted in ("allocated_bytes", "reserved_bytes", "allocation"):
                current = self._counters[f"{counted}.all.current"]
                self._counters[f"{counted}.all.peak"] = current

    def snapshot(self) -> list[dict[str, Any]]:
        """Every block held, by address."""
        with self._lock:
            self._take_back()
            return [
                {
                    "device": self.device_index,
                    "address": ptr,
                    "size": block.size,
                    "stream": block.stream.ptr,
                    "state": block.state,
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
            self._count_out(block.size)
            if block.used_on is None:
                self._put(block)
            else:
                events = [self.backend.record(stream) for stream in block.used_on.values()]
                block.state = "active_pending_free"
                self._waiting.append((block, events))
        waiting = self._waiting
        for _ in range(len(waiting)):
            block, events = waiting.popleft()
            if all(event.query() for event in events):
                block.used_on = None
                self._put(block)
            else:
                waiting.append((block, events))

    def _put(self, block: Block) -> None:
        if not self.keeps_blocks:
            self._free_block(block)
            return
        block.state = "inactive"
        key = (block.stream.ptr, block.size)
        blocks = self._free.get(key)
        if blocks is None:
            blocks = self._free[key] = []
            insort(self._sizes.setdefault(key[0], []), key[1])
        blocks.append(block)

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
                self._counters["num_alloc_retries"] += 1
                rung()
                self.backend.release()
            block = self._new_block(size, nbytes, stream)
            if block is not None:
                return block
        self._counters["num_ooms"] += 1
        raise errors.out_of_memory(f"cuda:{self.device_index}", size, self._figures())

    def _new_block(self, size: int, nbytes: int, stream: Any) -> Block | None:
        counters = self._counters
        if self.limit is not None and counters["reserved_bytes.all.current"] + size > self.limit:
            return None
        try:
            # a block that is never reused has its exact size, so that an overrun is seen
            ptr, handle = self.backend.malloc(size if self.keeps_blocks else nbytes, stream)
        except MemoryError:
            return None
        counters["num_device_alloc"] += 1
        counters["reserved_bytes.all.current"] += size
        if counters["reserved_bytes.all.current"] > counters["reserved_bytes.all.peak"]:
            counters["reserved_bytes.all.peak"] = counters["reserved_bytes.all.current"]
        block = self._blocks[ptr] = Block(ptr, size, handle, stream)
        return block

    def _release_free_blocks(self) -> None:
        for blocks in self._free.values():
            while blocks:
                self._free_block(blocks.pop())
        self._free.clear()
        self._sizes.clear()

    def _wait_for_all(self) -> None:
        """The last rung: collect garbage cycles and let pending work finish, then release again."""
        gc.collect()
        self.backend.synchronize()
        self._take_back()
        self._release_free_blocks()

    def _free_block(self, block: Block) -> None:
        del self._blocks[block.ptr]
        self._counters["num_device_free"] += 1
        self._counters["reserved_bytes.all.current"] -= block.size
        handle, block.handle = block.handle, None
        self.backend.free(block.ptr, handle, block.stream)

    # --- figures --------------------------------------------------------------------------------

    def _figures(self) -> dict[str, int]:
        free, total = self.backend.mem_get_info()
        figures = {
            "in tensors": self._counters["allocated_bytes.all.current"],
            "held": self._counters["reserved_bytes.all.current"],
            "free on the device": free,
            "total": total,
        }
        if self.limit is not None:
            figures["limit"] = self.limit
        return figures

    def _count_in(self, size: int) -> None:
        counters = self._counters
        allocated = counters["allocated_bytes.all.current"] + size
        counters["allocated_bytes.all.current"] = allocated
        if allocated > counters["allocated_bytes.all.peak"]:
            counters["allocated_bytes.all.peak"] = allocated
        count = counters["allocation.all.current"] + 1
        counters["allocation.all.current"] = count
        if count > counters["allocation.all.peak"]:
            counters["allocation.all.peak"] = count
        counters["allocation.all.allocated"] += 1

    def _count_out(self, size: int) -> None:
        self._counters["allocated_bytes.all.current"] -= size
        self._counters["allocation.all.current"] -= 1


COUNTERS = (
    "allocated_bytes.all.current",
    "allocated_bytes.all.peak",
    "allocation.all.current",
    "allocation.all.peak",
    "allocation.all.allocated",
    "reserved_bytes.all.current",
    "reserved_bytes.all.peak",
    "num_device_alloc",
    "num_device_free",
    "num_alloc_retries",
    "num_ooms",
)
