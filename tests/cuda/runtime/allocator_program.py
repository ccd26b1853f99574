"""Random programs of allocations, frees, streams, events and failures, checked by a model.

The model knows address ranges and when work on them ends, but not how the allocator works: a range
may be reused only by the stream that used it, or after all streams that used it have finished.
"""

from __future__ import annotations

import os
import random
from bisect import bisect_left, insort
from collections import Counter

from gputensor.core import errors
from gputensor.runtime.allocator import Allocator
from gputensor.runtime.allocator.segments import SMALL, SMALL_SEGMENT, STEP
import itertools

STEPS = int(os.environ.get("GPUTENSOR_ALLOCATOR_STEPS", "4000"))


class Program:
    """world: has `allocator`, `streams`, `capacity`, and functions of the streams: `mark(stream)`
    returns an object whose `is_done()` does not call the allocator; `touch(memory, stream)`,
    `check()`, `advance(chance)`.
    """

    def __init__(self, world, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        self.allocator: Allocator = world.allocator
        self.live: list = []
        self.spans: list[tuple[int, int]] = []  # of live memory
        self.past: list[tuple[int, int, object, list]] = []  # begin, end, home stream, other marks
        self.counts: Counter[str] = Counter()
        self.sizes = [self.chance.randrange(1, 40 * STEP) for _ in range(12)]

    def run(self, steps: int) -> Counter[str]:
        kinds = (
            self.allocate,
            self.drop,
            self.record,
            self.touch,
            self.advance,
            self.order,
            self.rare,
        )
        weights = (40, 38, 8, 16, 8, 4, 1)
        for step in range(steps):
            self.chance.choices(kinds, weights)[0]()
            if step % 97 == 0:
                self.check_snapshot()
        while self.live:
            self.drop()
        self.world.check()
        self.allocator.empty_cache()
        assert self.allocator.reserved == self.allocator.allocated == 0
        return self.counts

    # --- events -----------------------------------------------------------------------------------

    def a_size(self) -> int:
        chance = self.chance.random()
        if chance < 0.6:
            return self.chance.choice(self.sizes)
        if chance < 0.9:
            return self.chance.randrange(1, SMALL)
        return self.chance.randrange(1, self.world.capacity // 4)

    def allocate(self) -> None:
        nbytes, stream = self.a_size(), self.chance.choice(self.world.streams)
        try:
            memory = self.allocator.allocate(nbytes, stream)
        except errors.OutOfMemoryError:
            self.counts["out of memory"] += 1
            self.check_out_of_memory(nbytes, stream)
            return
        self.counts["allocated"] += 1
        begin, end = memory.ptr, memory.ptr + memory.block.size
        assert memory.nbytes == nbytes <= memory.block.size < nbytes + STEP + SMALL + 1
        at = bisect_left(self.spans, (begin, 0))
        assert at == len(self.spans) or end <= self.spans[at][0], "two live memories share bytes"
        assert at == 0 or self.spans[at - 1][1] <= begin, "two live memories share bytes"
        kept = []
        for past in self.past:
            low, high, home, marks = past
            if low < end and begin < high:
                late = [s for s, mark in marks if s.key != stream.key and not mark.is_done()]
                assert not late, f"given to {stream} while {late} still use it"
                self.counts["reused"] += 1
                # the remaining ends are still past ranges
                kept += [(a, b, home, marks) for a, b in ((low, begin), (end, high)) if a < b]
            else:
                kept.append(past)
        self.past = kept
        insort(self.spans, (begin, end))
        self.live.append([memory, stream, {stream.key: stream}])
        self.world.touch(memory, stream)
        self.check_counters()

    def drop(self) -> None:
        if not self.live:
            return
        memory, home, users = self.live.pop(self.chance.randrange(len(self.live)))
        begin, end = memory.ptr, memory.ptr + memory.block.size
        self.past = [p for p in self.past if not all(mark.is_done() for _, mark in p[3])]
        self.past.append((begin, end, home, [(s, self.world.mark(s)) for s in users.values()]))
        self.spans.remove((begin, end))
        self.world.forget(memory)
        del memory
        self.check_counters()

    def record(self) -> None:
        if self.live:
            entry = self.chance.choice(self.live)
            stream = self.chance.choice(self.world.streams)
            self.allocator.record_stream(entry[0], stream)
            entry[2][stream.key] = stream
            self.counts["recorded"] += 1

    def touch(self) -> None:
        if self.live:
            memory, _, users = self.chance.choice(self.live)
            self.world.touch(memory, self.chance.choice([*users.values()]))

    def advance(self) -> None:
        self.world.advance(self.chance)

    def order(self) -> None:
        self.world.order(*self.chance.sample(self.world.streams, 2))

    def rare(self) -> None:
        if self.chance.random() < 0.2:
            self.allocator.empty_cache()
            self.counts["emptied"] += 1
        else:
            self.sizes[self.chance.randrange(12)] = self.chance.randrange(1, 40 * STEP)

    # --- invariants -------------------------------------------------------------------------------

    def check_counters(self) -> None:
        sizes = sum(end - begin for begin, end in self.spans)
        stats = self.allocator.stats()
        assert self.allocator.allocated == sizes == stats["allocated_bytes.all.current"]
        assert stats["allocation.all.current"] == len(self.live)
        assert stats["num_device_alloc"] - stats["num_device_free"] == stats["segment.all.current"]
        assert self.allocator.reserved <= self.world.capacity

    def check_snapshot(self) -> None:
        blocks = self.allocator.snapshot()
        assert sum(b["size"] for b in blocks) == self.allocator.reserved == self.world.held()
        used = [
            (b["address"], b["address"] + b["size"])
            for b in blocks
            if b["state"] == "active_allocated"
        ]
        assert used == self.spans
        for one, two in itertools.pairwise(blocks):
            assert one["address"] + one["size"] <= two["address"]
            if one["segment"] == two["segment"]:
                assert (
                    one["address"] + one["size"] == two["address"]
                    and one["stream"] == two["stream"]
                )

    def check_out_of_memory(self, nbytes: int, stream) -> None:
        """Check that the failure was correct: no free range of this stream is large enough, and no
        segment is unused."""
        size = -(-nbytes // STEP) * STEP
        blocks = self.allocator.snapshot()
        used = {b["segment"] for b in blocks if b["state"] != "inactive"}
        assert used == {b["segment"] for b in blocks}
        assert sum(b["size"] for b in blocks) + size > self.world.capacity
        whole = Counter()
        for b in blocks:
            whole[b["segment"]] += b["size"]
        runs, before = [0], None  # free neighbours, which a request merges, of one pool
        for b in blocks:
            is_small = whole[b["segment"]] <= SMALL_SEGMENT
            if b["state"] != "inactive" or b["stream"] != stream.ptr or is_small != (size <= SMALL):
                before = None
                continue
            if before != b["segment"]:
                runs.append(0)
            runs[-1] += b["size"]
            before = b["segment"]
        if size <= SMALL or size > SMALL_SEGMENT:  # others may be in either pool
            assert max(runs) < size, (size, runs)
