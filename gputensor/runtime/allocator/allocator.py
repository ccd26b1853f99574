"""The allocator of one device. See the notes in allocator/__init__.py."""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from gputensor.core import errors

from .. import capture
from . import report
from .memory import Memory, Unasked
from .segments import BINNED, LAST, PENDING, STEP, USED, Block, Counts, Pools, segment_size

_NO_BLOCKS: list[Block] = []


class Allocator:
    """The allocator of one device. If `keeps_blocks` is False, dropped blocks return to the backend
    at once."""

    def __init__(self, device_index: int, backend: Any, *, keeps_blocks: bool = True) -> None:
        self.device_index = device_index
        self.backend = backend
        self.keeps_blocks = keeps_blocks
        self.limit: int | None = None
        self.is_closed = False  # True in a forked child, which cannot return memory
        self._lock = threading.RLock()
        self._is_changing = self._is_torn = False
        self._returned: deque[Block] = deque()
        # Maps a stream's key to its dropped blocks that wait for events. Each block has pairs
        # (stream key, event). The first event is on this stream.
        self._waiting: dict[Any, deque[tuple[Block, tuple[tuple[Any, Any], ...]]]] = {}
        self._pools: dict[Any, Pools] = {}
        # The state for Note [Pools of graphs]: pools by handle and stream; reference counts by
        # handle; the previous pools of captured streams; handles that finalisers released.
        self._of_graphs: dict[Any, dict[Any, Pools]] = {}
        self._holders: dict[Any, int] = {}
        self._aside: dict[Any, Pools | None] = {}
        self._let_go: deque[Any] = deque()
        self._alone: dict[Block, None] = {}  # Segments that belong to no pool.
        self._give_back = self._returned.append if keeps_blocks else self._free_now
        # The stream of the last allocation, and its bins: see `taking`.
        self._last: tuple[Any, dict[int, list[Block]]] = (None, {})
        self._counts = Counts()
        self._held_bytes = self._peak_held_bytes = 0
        self._device_allocations = self._device_frees = self._retries = self._failures = 0

    # --- the interface --------------------------------------------------------------------------

    def allocate(self, nbytes: int, stream: Any) -> Memory:
        """Return `nbytes` bytes for work on `stream`. Raises: OutOfMemoryError."""
        if nbytes <= 0:
            if nbytes < 0:
                raise errors.must("allocate", "nbytes", "not be negative", nbytes)
            return Memory.at(0, 0, self.device_index, None)
        memory = Memory()
        memory.block = None
        size = nbytes + STEP - 1 & -STEP
        blocks, rung = _NO_BLOCKS, 0
        if not self._returned and not self._waiting:
            try:
                blocks = self._pools[stream.key].bins[size]
            except KeyError:
                pass
        while True:
            # From here until the counters are updated, no function may be called: see Note
            # [Finalisers and signals].
            try:
                block, blocks[LAST] = blocks[-1], ()
            except IndexError:
                block = None  # Retry outside of the `except` block, so that errors are not chained.
            if block is None:
                found = self._find(size, nbytes, stream)
                if found is None:
                    rung = self._climb(rung, size)
                else:
                    blocks = found
                continue
            block.state = USED
            memory.block = block
            memory.ptr = block.ptr
            memory.nbytes = nbytes
            memory.device_index = self.device_index
            counts = self._counts
            counts.allocations += 1
            in_use = counts.in_use = counts.in_use + block.size
            if in_use > counts.peak:
                counts.peak = in_use
            return memory

    def record_stream(self, memory: Memory, stream: Any) -> None:
        """Delay the reuse of the dropped block until `stream` has finished its current work."""
        block = memory.block
        if block is None:
            return
        is_home = stream.key == block.stream.key and stream.device_index == self.device_index
        if is_home and block.size:
            return
        if block.used_on is None:
            block.used_on = {}
        block.used_on[stream.device_index, stream.key] = self.backend.mark(stream)

    def borrow(self, ptr: int, nbytes: int, stream: Any, give_back: Callable[[], None]) -> Memory:
        """Return memory of another library as a Memory. After the Memory is dropped, `give_back` is
        called: at once if no queued work uses it, otherwise in a later call of this allocator."""
        block = Block(ptr, 0, stream, self._give_up, give_back)
        block.used_on = {(self.device_index, stream.key): self.backend.mark(stream)}
        block.state = USED
        return Memory.at(ptr, nbytes, self.device_index, block)

    def empty_cache(self) -> None:
        """Wait for the device, then return all segments without tensors to the backend."""
        if not (self._held_bytes or self._returned or self._waiting):
            return  # The device is unused. A wait would initialise it.
        if capture.capturing:
            capture.refuse_device_wait("empty_cache", self.device_index)
        self._wait()
        self._release()

    def set_limit(self, nbytes: int | None) -> None:
        """Limit the bytes that the allocator holds to `nbytes`; None removes the limit."""
        self.limit = nbytes

    @property
    def allocated(self) -> int:
        """The number of bytes in tensors, rounded up to whole blocks."""
        with self._lock:
            self._take_back()
            return self._counts.in_use

    @property
    def reserved(self) -> int:
        """The number of bytes in tensors, free blocks and waiting blocks."""
        with self._lock:
            self._take_back()
            return self._held_bytes

    def stats(self) -> dict[str, int]:
        """Return the counters, under the names of PyTorch's `memory_stats` if it has them."""
        with self._lock:
            self._take_back()
            return report.stats(self)

    def reset_peaks(self) -> None:
        with self._lock:
            self._take_back()
            self._counts.peak = self._counts.in_use
            self._peak_held_bytes = self._held_bytes

    def snapshot(self) -> list[dict[str, Any]]:
        """Return a description of each block, in the order of addresses."""
        with self._lock:
            self._take_back()
            return report.snapshot(self)

    # --- graphs: Note [Pools of graphs] ---------------------------------------------------------

    def hold_pool(self, handle: Any) -> None:
        """Keep a graph's pool for replays until `drop_pool` is called."""
        with self._lock:
            self._holders[handle] = self._holders.get(handle, 0) + 1

    def drop_pool(self, handle: Any) -> None:
        """Undo one call of `hold_pool`. A finaliser may call this function."""
        self._let_go.append(handle)

    def enter_pool(self, handle: Any, stream: Any) -> None:
        """Let allocations for `stream` use a graph's pool until `leave_pool` is called."""
        with self._lock:
            of_graph = self._of_graphs.setdefault(handle, {})
            pools = of_graph.get(stream.key)
            if pools is None:
                pools = of_graph[stream.key] = Pools(stream)
            self._aside[stream.key] = self._pools.get(stream.key)
            self._pools[stream.key] = pools
            self._last = (None, {})

    def allocate_outside(self, nbytes: int, handle: Any, stream: Any) -> Memory:
        """Return memory outside of the graph's pool that a captured stream uses. The capture is
        still in progress, so no event is queried and no memory is returned."""
        with self._lock:
            self.leave_pool(stream)
            self._aside[None] = None
            try:
                return self.allocate(nbytes, stream)
            finally:
                self._aside.pop(None, None)  # A finaliser may have called this function, too.
                self.enter_pool(handle, stream)

    def leave_pool(self, stream: Any) -> None:
        """Undo `enter_pool`: the stream uses its previous pools again."""
        with self._lock:
            own, of_graph = self._aside.pop(stream.key), self._pools[stream.key]
            of_graph.adopt(self._alone)
            if own is None:
                del self._pools[stream.key]
            else:
                self._pools[stream.key] = own
            self._last = (None, {})

    def _is_captured(self) -> bool:
        """Return True if drivers may reject a query of this device's events, because the device or
        this thread takes part in a capture."""
        return bool(self._aside) or bool(capture.capturing) and capture.here() is not None

    def _every(self) -> list[Pools]:
        """Return all pools: of streams, of captured streams, and of graphs."""
        own = [pools for pools in self._aside.values() if pools is not None]
        graphs = [pools for each in self._of_graphs.values() for pools in each.values()]
        return [*dict.fromkeys([*self._pools.values(), *own, *graphs])]

    # --- bookkeeping of dropped blocks ------------------------------------------------------------

    def _free_now(self, block: Block) -> None:
        """Free a dropped block at once, in a finaliser, because this allocator keeps no blocks. A
        block that other streams used is freed later. The counters are also updated later."""
        try:
            if not block.used_on and not self.is_closed:
                self.backend.free(block.ptr, block.handle, block.stream)
        finally:
            self._returned.append(block)

    def _give_up(self, block: Block) -> None:
        """Release borrowed memory in a finaliser, without the lock."""
        assert block.used_on is not None
        try:
            if self.is_closed:
                return
            is_done = not self._is_captured()
            events = [*map(self.backend.record, block.used_on.values())] if is_done else ()
            is_done = is_done and all(e is not None and e.query() for e in events)
        except errors.GpuTensorError:  # The next call on the failed device reports the failure.
            is_done = False
        if is_done:
            block.handle()
        else:
            self._returned.append(block)

    def _take_back(self) -> None:
        """Do the bookkeeping of dropped blocks, and poll the events of waiting blocks."""
        if self._is_changing:
            return
        returned = self._returned
        if not returned and not self._waiting:
            return
        is_captured = self._is_captured()  # not in the loop: a finaliser may run in any call
        while True:
            try:
                block = returned[0]
            # The queue is not tested first, because a finaliser may empty it after the test.
            except IndexError:
                break
            if block.used_on:
                if is_captured:
                    return
                self._await(block)
                continue
            del returned[0]
            self._counts.in_use -= block.size
            self._counts.returns += 1
            if block.counts is not None:
                block.state = BINNED
                block.home.append(block)
            else:
                del self._alone[block]
                self._held_bytes -= block.size
                self._device_frees += 1
        if self._waiting and not is_captured:
            self._poll()

    def _await(self, block: Block) -> None:
        """Move the first dropped block to the waiting blocks, with an event for each stream that
        used it."""
        self._is_changing = True
        try:
            assert block.used_on is not None
            events = []
            for key, entry in block.used_on.items():
                event = self.backend.record(entry)
                events.append((key, event) if event is not None else (None, Unasked()))
            queue, left = self._waiting.setdefault(events[0][0], deque()), tuple(events)
            del self._returned[0]
            self._counts.in_use -= block.size
            self._counts.returns += block.size > 0
            block.state, block.used_on = PENDING, None
            queue.append((block, left))
        finally:
            self._is_changing = False

    def _poll(self) -> None:
        """Free the blocks whose events have passed. The events of one stream pass in order."""
        self._is_changing = True
        try:
            for key, queue in [*self._waiting.items()]:
                while queue:
                    block, events = queue[0]
                    passed = 0
                    while passed < len(events) and events[passed][1].query():
                        passed += 1
                    if not passed:
                        break
                    left = events[passed:]
                    if left:
                        following = self._waiting.setdefault(left[0][0], deque())
                        del queue[0]
                        following.append((block, left))
                    elif not block.size:  # A block of size 0 is borrowed memory.
                        del queue[0]
                        block.handle()
                    elif block.counts is not None:
                        del queue[0]
                        block.state = BINNED
                        block.home.append(block)
                    else:
                        del queue[0]
                        del self._alone[block]
                        self._held_bytes -= block.size
                        self._device_frees += 1
                        self.backend.free(block.ptr, block.handle, block.stream)
                if not queue:
                    del self._waiting[key]
        finally:
            self._is_changing = False

    # --- the slow path --------------------------------------------------------------------------

    def _find(self, size: int, nbytes: int, stream: Any) -> list[Block] | None:
        """Return a bin with a free block, or None. Another thread may take the block first."""
        with self._lock:
            if self._returned or self._waiting:
                self._take_back()
            try:
                blocks: list[Block] | None = self._pools[stream.key].bins[size]
            except KeyError:
                blocks = None
            if not blocks:
                blocks = self._miss(size, nbytes, stream)
            return blocks

    def _miss(self, size: int, nbytes: int, stream: Any) -> list[Block] | None:
        """Return a bin whose last block is free and fits, or None if memory has run out."""
        pool: Any = None
        keeps = self.keeps_blocks or stream.key in self._aside
        if self._is_changing or not keeps:
            # A block that will not be reused has the exact size, so that an overrun is detected.
            pool = self._pools[stream.key] if stream.key in self._aside else None
            block = self._segment(size if keeps else nbytes, size, stream, self._alone, pool)
            if block is None:
                return None
            block.home = [block]
            return block.home
        self._is_changing = True
        try:
            self._mend()
            self._is_torn = True
            pools = self._pools_of(stream)
            block = pools.take(size)
            if block is None:
                whole = segment_size(size) if self.keeps_blocks else size
                where, pool = pools.segments, pools.pool(size)
                block = self._segment(whole, whole, stream, where, pool)
                if block is None and size < whole:
                    block = self._segment(size, size, stream, where, pool)
                if block is not None:
                    pools.split(block, size)
            blocks = None if block is None else pools.serve(block, size)
            self._is_torn = False
            return blocks
        finally:
            self._is_changing = False

    def _mend(self) -> None:
        """Prepare the pools for a change: repair them if an earlier change was interrupted, and add
        the free blocks of segments that belong to no pool."""
        if self._is_torn:
            for pools in self._every():
                pools.rebuild()
        for block in [*self._alone] if self.keeps_blocks and not self._aside else ():
            if block.state == BINNED:
                block.home.clear()
                pools = self._pools_of(block.stream)
                block.pool, block.home = pools.pool(block.size), pools.odd
                del self._alone[block]
                pools.segments[block] = None
                pools.odd.append(block)

    def _pools_of(self, stream: Any) -> Pools:
        pools = self._pools.get(stream.key)
        if pools is None:
            pools = self._pools[stream.key] = Pools(stream)
        return pools

    def _segment(
        self, ask: int, size: int, stream: Any, where: dict[Block, None], pool: Any = None
    ) -> Block | None:
        """Get a new block of `ask` bytes from the backend and record it in `where`. Return None if
        there is no memory. size: the number of bytes that the allocator's counters add for this
        block."""
        if self.limit is not None and self._held_bytes + size > self.limit:
            return None
        try:
            ptr, handle = self.backend.malloc(ask, stream)
        except MemoryError:
            return None
        counts = self._counts if self.keeps_blocks or stream.key in self._aside else None
        block = Block(ptr, size, stream, self._give_back, handle, counts)
        block.pool = pool
        where[block] = None
        self._device_allocations += 1
        held = self._held_bytes = self._held_bytes + size
        if held > self._peak_held_bytes:
            self._peak_held_bytes = held
        return block

    def _climb(self, rung: int, size: int) -> int:
        """Free memory by the method with number `rung`, without the lock, and return the next
        number. Raises: OutOfMemoryError if no method is left."""
        ladder = (self._release, self._collect, self.backend.release)
        if rung == len(ladder) or self._is_captured():
            with self._lock:
                self._failures += 1
            raise errors.out_of_memory(f"cuda:{self.device_index}", size, report.figures(self))
        self._retries += 1
        ladder[rung]()
        return rung + 1

    def _collect(self) -> None:
        """Free tensors in reference cycles, and blocks whose work on other streams has ended."""
        gc.collect()
        self._wait()
        self._release()

    def _wait(self) -> None:
        """Wait for the device, so that all recorded events have passed."""
        with self._lock:
            self._take_back()
            unasked = [
                event for queue in self._waiting.values() for _, events in queue
                for key, event in events if key is None
            ]  # fmt: skip
        self.backend.synchronize()
        for event in unasked:
            event.passed = True
        with self._lock:
            self._take_back()

    def _release(self) -> None:
        """Return completely unused segments to the backend."""
        dropped: list[Block] = []
        with self._lock:
            self._take_back()
            if not self._is_changing and not self._is_captured():
                self._take_out_free(dropped)
        for block in dropped:
            handle, block.handle = block.handle, None
            self.backend.free(block.ptr, handle, block.stream)

    def _take_out_free(self, dropped: list[Block]) -> None:
        self._is_changing = True
        try:
            self._mend()
            self._is_torn = True
            for block in () if self.keeps_blocks else [*self._alone]:
                # An allocation was interrupted before the block had an owner.
                if block.state == BINNED:
                    block.home.clear()
                    self._note_free(self._alone, block, dropped)
            self._last = (None, {})
            self._free_from(self._pools, dropped)
            while self._let_go:
                handle = self._let_go.popleft()
                self._holders[handle] -= 1
                if not self._holders[handle]:
                    del self._holders[handle]
            for handle, of_graph in [*self._of_graphs.items()]:
                if handle not in self._holders:
                    self._free_from(of_graph, dropped)
                    if not of_graph:
                        del self._of_graphs[handle]
            self._is_torn = False
        finally:
            self._is_changing = False

    def _free_from(self, by_stream: dict[Any, Pools], dropped: list[Block]) -> None:
        for key, pools in [*by_stream.items()]:
            for block in pools.whole():
                self._note_free(pools.segments, block, dropped)
            if not pools.segments:
                del by_stream[key]  # This may drop the last reference to the stream.

    def _note_free(self, where: dict[Block, None], block: Block, dropped: list[Block]) -> None:
        del where[block]
        self._held_bytes -= block.size
        self._device_frees += 1
        dropped.append(block)
