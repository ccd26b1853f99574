"""Segments of device memory, which are split into blocks for tensors and merged again.

The sizes and rules come from PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp). Small
requests share segments of 2 MiB, medium requests share segments of 20 MiB, and each large request
has its own segment. A request gets the smallest sufficient free block of its stream, and the
remainder becomes a free block. Counting, locking and device calls are in allocator.py.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

STEP = 512
SMALL = 1 << 20  # Requests of up to this size share a small segment.
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
OWN_SEGMENT = 10 << 20  # A request of at least this size has its own segment.
OWN_STEP = 2 << 20
_MOST_BINS = 256

USED, PENDING, BINNED, POOLED, TORN = range(5)
_NAMES = ("active_allocated", "active_pending_free", "inactive", "inactive", "inactive")
# `blocks[-1:]` would create a slice object. In Python 3.11 this may run finalisers, which drop
# blocks.
LAST = slice(-1, None)


class Counts:
    """Counters that are updated without a lock: bytes in use and their peak, allocations and
    frees."""

    __slots__ = ("allocations", "in_use", "peak", "returns")
    allocations: int
    in_use: int
    peak: int
    returns: int

    def __init__(self) -> None:
        self.allocations = self.in_use = self.peak = self.returns = 0


class Block:
    """A part of a segment. `before` and `after` are the neighbouring blocks.

    home: the bin to which the block goes when it is dropped. used_on: by stream, the recorded work
    of other streams that used the block. counts: the counters to update; None for borrowed memory,
    for which `give_back` is called. state: in a Memory, waiting for events, in a bin, merged into a
    pool, or unknown while pools are rebuilt.
    """

    __slots__ = (
        "after", "before", "counts", "give_back", "handle", "home", "pool", "ptr", "size", "state",
        "stream", "used_on",
    )  # fmt: skip
    counts: Counts | None
    give_back: Any
    handle: Any
    ptr: int
    size: int
    stream: Any

    def __init__(
        self, ptr: int, size: int, stream: Any, give_back: Any, handle: Any = None,
        counts: Counts | None = None,
    ) -> None:  # fmt: skip
        self.ptr, self.size, self.stream, self.handle = ptr, size, stream, handle
        self.give_back, self.counts = give_back, counts
        self.home: list[Block] = []
        self.pool: list[tuple[int, int, Block]] | Any = None
        self.state: int = BINNED
        self.before: Block | None = None
        self.after: Block | None = None
        self.used_on: dict[tuple[int, Any], Any] | None = None

    def walk(self) -> Iterator[Block]:
        """Yield the blocks of a segment, starting at its first block, `self`."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.after

    def described(self, device_index: int, first: Block) -> dict[str, Any]:
        """Return a description of this block for a snapshot. first: the first block of its
        segment."""
        return {
            "device": device_index, "address": self.ptr, "size": self.size,
            "stream": self.stream.ptr, "segment": first.ptr, "state": _NAMES[self.state],
        }  # fmt: skip


def segment_size(size: int) -> int:
    """Return the number of bytes to request from the backend if no free block is large enough."""
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < OWN_SEGMENT:
        return LARGE_SEGMENT
    return size + OWN_STEP - 1 & -OWN_STEP


class Pools:
    """The free memory of one stream.

    bins: dropped blocks by requested size. The next request of a size takes a block of its bin
    without a search. `gather` moves the bins' blocks into the pools, where neighbours are merged.
    If a request of more than SMALL bytes finds its bin empty, it first calls `gather`, so it finds
    the same blocks as PyTorch, which merges at every free. A block is gathered at most once per
    free. A small request calls `gather` only if no block in the pool is large enough. So the bins
    keep their blocks, and a program that repeats its small requests finds all of them in bins.
    """

    __slots__ = ("bins", "large", "odd", "segments", "small", "stream")

    def __init__(self, stream: Any) -> None:
        self.stream: Any = stream
        self.bins: dict[int, list[Block]] = {}
        self.odd: list[Block] = []  # Blocks that belong to no bin return to this list.
        self.small: list[tuple[int, int, Block]] = []
        self.large: list[tuple[int, int, Block]] = []
        self.segments: dict[Block, None] = {}  # The keys are the first blocks of the segments.

    def pool(self, size: int) -> list[tuple[int, int, Block]]:
        return self.small if size <= SMALL else self.large

    def gather(self) -> None:
        # Most bins are empty, and `filter` skips them at 10 ns each.
        self._empty(*filter(None, self.bins.values()), self.odd)
        if len(self.bins) > _MOST_BINS:
            forgotten = [*self.bins.values()]
            for first in self.segments:
                for block in first.walk():
                    block.home = self.odd
            self.bins.clear()
            # Another thread may have dropped blocks into these bins in the meantime, so merge these
            # blocks too. Blocks that are dropped later go to `odd`.
            self._empty(*forgotten)

    def _empty(self, *bins: list[Block]) -> None:
        """Merge the blocks in these bins. Other threads may take blocks from the bins at the same
        time."""
        for blocks in bins:
            while True:
                try:
                    block, blocks[LAST] = blocks[-1], ()
                # `blocks` is not tested first: another thread may take the block after the test.
                except IndexError:
                    break
                _merge(block)

    def take(self, size: int) -> Block | None:
        """Return the smallest merged block of at least `size` bytes, split to that size."""
        pool = self.pool(size)
        self._empty(self.odd)
        at = bisect_left(pool, (size,))
        if size > SMALL or at == len(pool) or len(self.bins) > _MOST_BINS:
            self.gather()
            at = bisect_left(pool, (size,))
        if at == len(pool):
            return None
        block = pool[at][2]
        del pool[at]
        block.state = BINNED
        self.split(block, size)
        return block

    def serve(self, block: Block, size: int) -> list[Block]:
        """Move a block to the bin for requests of `size` bytes, and return this bin."""
        blocks = self.bins.setdefault(size, [])
        block.state, block.home = BINNED, blocks
        blocks.append(block)
        return blocks

    def split(self, block: Block, size: int) -> None:
        """Shrink a block to `size` bytes. The remainder becomes a free block if it is large
        enough."""
        left = block.size - size
        if left < (STEP if block.pool is self.small else SMALL + 1):
            return
        rest = Block(block.ptr + size, left, block.stream, block.give_back, counts=block.counts)
        rest.pool, rest.home = block.pool, self.odd
        rest.before, rest.after = block, block.after
        if rest.after is not None:
            rest.after.before = rest
        block.after, block.size = rest, size
        _put(rest)

    def adopt(self, alone: dict[Block, None]) -> None:
        """Move this stream's segments from `alone` to these pools. A finaliser allocated them
        during a change."""
        for block in [*alone]:
            if block.pool is self:
                block.pool, block.home = self.pool(block.size), self.odd
                del alone[block]
                self.segments[block] = None
                if block.state == BINNED:
                    self.odd.append(block)

    def whole(self) -> list[Block]:
        """Remove unused segments from the pools and return them, each as one block."""
        self.gather()
        found = []
        for pool in (self.small, self.large):
            found += [e[2] for e in pool if e[2].before is None and e[2].after is None]
            pool[:] = [e for e in pool if e[2].before is not None or e[2].after is not None]
        return found

    def rebuild(self) -> None:
        """Rebuild bins and pools from the states of the blocks.

        Other threads may take and drop blocks meanwhile. The steps are: give every block a new
        home, empty the old bins, put each free block into its pool.
        """
        bins, self.odd = [*self.bins.values(), self.odd], []
        blocks = [block for first in self.segments for block in first.walk()]
        for block in blocks:
            block.home = self.odd
            # No object may be created between this test and the change of state: see Note
            # [Finalisers and signals].
            if block.state > PENDING:
                block.state = TORN
        for old in bins:
            old.clear()
        self.bins.clear()
        self.small.clear()
        self.large.clear()
        for block in blocks:
            if block.state == TORN:
                block.state = BINNED
                self.odd.append(block)


def _merge(block: Block) -> None:
    """Merge a free block with its free neighbours, and put the result into its pool."""
    before, after = block.before, block.after
    if after is not None and after.state == POOLED:
        _take_out(after)
        _join(block, after)
    if before is not None and before.state == POOLED:
        _take_out(before)
        _join(before, block)
        block = before
    _put(block)


def _join(first: Block, second: Block) -> None:
    after = second.after
    first.after = after
    if after is not None:
        after.before = first
    first.size += second.size
    second.state = USED  # USED: the block is in no bin and in no pool.
    second.before = second.after = None


def _put(block: Block) -> None:
    block.state = POOLED
    insort(block.pool, (block.size, block.ptr, block))


def _take_out(block: Block) -> None:
    at = bisect_left(block.pool, (block.size, block.ptr))
    assert block.pool[at][2] is block, (block.ptr, block.size)
    del block.pool[at]
    block.state = BINNED
