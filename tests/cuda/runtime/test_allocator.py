"""The caching allocator against a model, over this file's backend and the emulator's."""

from __future__ import annotations

import dis
import gc
import os
import random
import sys
import threading
import types
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputensor.core import errors
from gputensor.runtime.allocator import allocator as allocators
from gputensor.runtime.allocator import devices, segments
from gputensor.runtime.allocator import memory as blocks_memory
from gputensor.runtime.allocator import Allocator, allocating, taking
from gputensor.runtime.allocator.segments import LARGE_SEGMENT, SMALL_SEGMENT, STEP
from tests.harness import tier

from .allocator_program import STEPS, Program
from ..support import fresh_emulator, requires_emulator
import itertools

MIB = 1 << 20


class FakeStream:
    device_index = 0

    def __init__(self, ptr):
        self.ptr = self.key = ptr
        self.passed = 0  # events recorded before this many are done
        self.recorded = 0
        self.is_gone = False


class FakeEvent:
    def __init__(self, stream):
        self.stream = stream
        stream.recorded += 1
        self.number = stream.recorded

    def query(self):
        return self.number <= self.stream.passed

    is_done = query


class Handle:
    """Memory that is freed with its handle, like CuPy's."""

    def __init__(self, backend, size):
        self.backend, self.ptr = backend, backend.next
        backend.next += size + STEP
        backend.live[self.ptr] = size

    def give_back(self):
        del self.backend.live[self.ptr]
        self.ptr = None

    def __del__(self):
        if self.ptr is not None:
            self.give_back()


class FakeBackend:
    """Addresses that are never reused, and a capacity."""

    def __init__(self, capacity=1 << 40):
        self.capacity = capacity
        self.live = {}
        self.next = 1 << 20
        self.streams = []
        self.calls = []
        self.others = None

    def malloc(self, size, stream):
        if self.held + size > self.capacity:
            raise MemoryError
        handle = Handle(self, size)
        return handle.ptr, handle

    def free(self, ptr, handle, stream):
        assert handle.ptr == ptr
        handle.give_back()

    @property
    def held(self):
        return sum(self.live.values())

    def mark(self, stream):
        return stream

    def record(self, stream):
        return None if stream.is_gone else FakeEvent(stream)

    def release(self):
        self.calls.append("release")
        if self.others is not None:
            self.others()

    def synchronize(self):
        self.calls.append("synchronize")
        for stream in self.streams:
            stream.passed = stream.recorded

    def mem_get_info(self):
        return self.capacity - self.held, self.capacity


@pytest.fixture
def backend():
    return FakeBackend()


@pytest.fixture
def allocator(backend):
    return Allocator(0, backend)


S, T = FakeStream(0), FakeStream(7)


def test_a_dropped_block_is_reused_on_its_stream_only(allocator):
    first = allocator.allocate(1000, S)
    ptr = first.ptr
    assert (first.nbytes, allocator.allocated, allocator.reserved) == (1000, 1024, SMALL_SEGMENT)
    del first
    assert (allocator.allocated, allocator.reserved) == (0, SMALL_SEGMENT)
    assert allocator.allocate(900, T).ptr != ptr
    assert allocator.allocate(1024, S).ptr == ptr
    assert allocator.stats()["num_device_alloc"] == 2


@pytest.mark.parametrize(
    ("nbytes", "segment"),
    [(1, 2 * MIB), (MIB, 2 * MIB), (MIB + 1, 20 * MIB), (10 * MIB - 512, 20 * MIB),
     (10 * MIB, 10 * MIB), (10 * MIB + 1, 12 * MIB), (33 * MIB, 34 * MIB)],
)  # fmt: skip
def test_segments_have_the_sizes_that_pytorchs_have(allocator, nbytes, segment):
    memory = allocator.allocate(nbytes, S)
    assert allocator.reserved == segment
    sizes = [b["size"] for b in allocator.snapshot()]
    assert sum(sizes) == segment and sizes[0] == memory.block.size
    rest = segment - -(-nbytes // 512) * 512
    assert len(sizes) == 1 + (rest >= 512 if nbytes <= MIB else rest > MIB)


def test_blocks_are_split_and_merged(allocator):
    """Many freed small blocks are used for a large one, and a large one for small ones, without a
    new segment."""
    for sizes in (
        [STEP] * 2048,
        [MIB // 2, MIB // 2, MIB],
        [MIB - 5, 3 * STEP],
        [7777] * 100,
        [MIB, MIB],
    ):
        taken = [allocator.allocate(size, S) for size in sizes]
        assert allocator.reserved == SMALL_SEGMENT
        del taken[::2], taken[::-1], taken
    big = [allocator.allocate(5 * MIB, S) for _ in range(4)]
    assert allocator.reserved == SMALL_SEGMENT + LARGE_SEGMENT
    middle = big[1].ptr
    del big[1:3]
    assert allocator.allocate(9 * MIB, S).ptr == middle
    del big
    assert allocator.allocate(19 * MIB, S).block.size == 20 * MIB, (
        "what is left over is too small to split"
    )
    allocator.empty_cache()
    assert allocator.snapshot() == []


def test_a_size_that_is_not_split_off_is_found_again_without_a_search(allocator, monkeypatch):
    allocator.allocate(13 * MIB + MIB // 2, S)
    monkeypatch.setattr(Allocator, "_miss", lambda *args: pytest.fail("a search"))
    allocator.allocate(13 * MIB + MIB // 2, S)


def test_bins_of_many_sizes_are_forgotten(allocator):
    held = allocator.allocate(STEP, S)
    for step in range(1, 1500):
        allocator.allocate(step * STEP, S)
    (pools,) = allocator._pools.values()
    assert len(pools.bins) < 300
    ptr = held.ptr
    del held
    allocator.allocate(STEP + 1, S)
    assert allocator.allocate(STEP, S).ptr == ptr


def test_repeated_small_requests_find_their_bins(allocator, monkeypatch):
    def step():
        """Make requests of several sizes, as a training step does."""
        kept = [allocator.allocate(n * STEP, S) for n in (1, 2, 3, 4, 1, 2)]
        del kept[2:]
        kept += [allocator.allocate(n * STEP, S) for n in (5, 7, 5)]
        kept.clear()
        return [allocator.allocate(n * STEP, S) for n in (3, 6)]

    for _ in range(3):
        step()
    held = allocator.reserved
    monkeypatch.setattr(Allocator, "_miss", lambda *args: pytest.fail("a search"))
    for _ in range(3):
        step()
    assert allocator.reserved == held


def test_a_recorded_stream_delays_reuse_until_its_event(allocator):
    side = FakeStream(9)
    memory = allocator.allocate(10, S)
    ptr = memory.ptr
    allocator.record_stream(memory, S)  # its own stream: nothing to wait for
    allocator.record_stream(memory, side)
    del memory
    assert [b["state"] for b in allocator.snapshot()] == ["active_pending_free", "inactive"]
    other = allocator.allocate(10, S)
    assert other.ptr != ptr
    side.passed = side.recorded
    assert allocator.allocate(10, S).ptr == ptr


def test_a_block_that_waits_for_two_streams_holds_up_nothing_else(allocator):
    one, two = FakeStream(8), FakeStream(9)
    both, single = allocator.allocate(10, S), allocator.allocate(10, S)
    for stream in (one, two):
        allocator.record_stream(both, stream)
    allocator.record_stream(single, one)
    ptrs = both.ptr, single.ptr
    del both
    del single
    _ = allocator.allocated
    one.passed = one.recorded
    assert allocator.allocate(10, S).ptr == ptrs[1]
    two.passed = two.recorded
    assert {allocator.allocate(10, S).ptr for _ in range(2)} <= set(ptrs)
    assert [b["state"] for b in allocator.snapshot()].count("active_pending_free") == 0


def test_a_stream_that_is_gone_costs_neither_the_allocation_nor_the_block(allocator, backend):
    """Its work may still run. The block is reused after a wait for the whole device."""
    side = FakeStream(9)
    memory = allocator.allocate(10, S)
    ptr = memory.ptr
    allocator.record_stream(memory, side)
    side.is_gone = True
    del memory
    assert allocator.allocate(10, S).ptr != ptr
    assert allocator.allocate(10, S).ptr != ptr
    assert [b["state"] for b in allocator.snapshot()].count("active_pending_free") == 1
    allocator.empty_cache()
    assert backend.calls == ["synchronize"] and allocator.reserved == 0


def test_a_stream_without_memory_is_let_go(allocator):
    stream = FakeStream(11)
    gone = weakref.ref(stream)
    allocator.allocate(10, stream)
    allocator.empty_cache()
    del stream
    assert gone() is None


def test_zero_bytes_need_no_memory(allocator):
    memory = allocator.allocate(0, S)
    assert (memory.ptr, memory.nbytes) == (0, 0)
    allocator.record_stream(memory, T)
    with pytest.raises(
        errors.GpuTensorError, match=r"allocate: 'nbytes' must not be negative \(got -1\)"
    ):
        allocator.allocate(-1, S)


def test_the_ladder_offers_our_own_blocks_then_collects_once_then_asks_others(monkeypatch):
    backend = FakeBackend(capacity=22 * MIB)
    allocator = Allocator(3, backend)
    collections = []
    monkeypatch.setattr(allocators.gc, "collect", lambda: collections.append(list(backend.calls)))
    side = FakeStream(9)
    backend.streams.append(side)
    kept = allocator.allocate(STEP, S)
    allocator.allocate(12 * MIB, S)
    three = allocator.allocate(14 * MIB, T)  # frees the other stream's segment
    assert backend.calls == [] and collections == []
    allocator.record_stream(three, side)
    del three
    again = allocator.allocate(16 * MIB, T)  # once the side stream is done
    assert backend.calls == ["synchronize"] and len(collections) == 1
    with pytest.raises(errors.OutOfMemoryError) as caught:
        allocator.allocate(18 * MIB, S)
    assert len(collections) == 2 and backend.calls == ["synchronize", "synchronize", "release"]
    assert str(caught.value) == (
        "cuda:3: cannot allocate 18.00 MiB (in tensors 16.00 MiB, held 18.00 MiB, "
        "free on the device 4.00 MiB, total 22.00 MiB)"
    )
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, RuntimeError)
    stats = allocator.stats()
    assert (stats["num_ooms"], stats["num_alloc_retries"]) == (1, 6)
    backend.others = lambda: setattr(backend, "capacity", 80 * MIB)
    allocator.allocate(18 * MIB, S)
    assert allocator.stats()["num_ooms"] == 1
    del kept, again


def test_a_device_with_less_than_a_segment_left_serves_what_fits():
    allocator = Allocator(0, FakeBackend(capacity=3 * MIB + 2 * STEP))
    taken = [allocator.allocate(MIB - 1, S), allocator.allocate(MIB + 1, T)]
    assert allocator.reserved == 3 * MIB + STEP
    with pytest.raises(errors.OutOfMemoryError):
        allocator.allocate(MIB, T)
    del taken


def test_the_limit_counts_what_is_held(allocator):
    allocator.set_limit(2 * STEP)
    a, b = allocator.allocate(1, S), allocator.allocate(1, S)
    with pytest.raises(errors.OutOfMemoryError, match=r"limit 1\.00 KiB"):
        allocator.allocate(1, S)
    del a
    allocator.allocate(1, T)  # the other stream's free block goes back first
    allocator.set_limit(None)
    allocator.allocate(5000, S)
    del b


def test_empty_cache_gives_back_what_no_tensor_uses(allocator, backend):
    kept, dropped = allocator.allocate(1, S), allocator.allocate(30 * MIB, S)
    del dropped
    allocator.empty_cache()
    assert list(backend.live) == [kept.ptr]
    assert allocator.reserved == SMALL_SEGMENT and allocator.allocate(1, S).nbytes == 1


def test_peaks(allocator):
    a, b = allocator.allocate(STEP, S), allocator.allocate(STEP, S)
    del a
    assert allocator.stats()["allocated_bytes.all.peak"] == 2 * STEP
    allocator.reset_peaks()
    stats = allocator.stats()
    assert (stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"]) == (
        STEP,
        SMALL_SEGMENT,
    )
    del b


def test_blocks_that_are_not_kept_have_their_exact_size_and_go_at_once(backend):
    allocator = Allocator(0, backend, keeps_blocks=False)
    memory = allocator.allocate(10, S)
    assert backend.live == {memory.ptr: 10} and allocator.allocated == STEP
    del memory
    assert not backend.live and allocator.reserved == 0


@pytest.mark.parametrize("keeps_blocks", [True, False])
def test_memory_in_a_cycle_is_given_back_from_inside_the_allocator(backend, keeps_blocks):
    allocator = Allocator(0, backend, keeps_blocks=keeps_blocks)

    class Node:
        pass

    for _ in range(2000):
        node = Node()
        node.self, node.memory = node, allocator.allocate(10, S)
    del node
    gc.collect()
    assert allocator.allocated == 0


def test_finalisers_that_allocate_run_without_a_lock_when_memory_has_run_out():
    """One of them waits for an allocation by another thread, which would wait for the lock."""
    backend = FakeBackend(capacity=8 * MIB)
    allocator = Allocator(0, backend)
    seen = []

    class Node:
        def __init__(self):
            self.self, self.memory = self, allocator.allocate(3 * MIB, S)

        def __del__(self):
            thread = threading.Thread(target=lambda: seen.append(allocator.allocate(10, T).nbytes))
            thread.start()
            thread.join()
            seen.append(allocator.allocate(10, S).nbytes)

    gc.collect()
    gc.disable()
    try:
        Node()
        Node()
        memory = allocator.allocate(5 * MIB, S)
    finally:
        gc.enable()
    assert seen == [10] * 4 and memory.nbytes == 5 * MIB and allocator.allocated == 5 * MIB


def test_threads_share_an_allocator(allocator):
    def work():
        stream = FakeStream(threading.get_ident())
        for size in range(1, 400):
            allocator.allocate(size * 17, stream)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allocator.allocated == 0
    assert allocator.stats()["allocation.all.allocated"] == 4 * 399


@given(st.lists(st.integers(1, 3 * MIB), min_size=1, max_size=60))
@tier.examples(50)
def test_a_sequence_repeated_needs_no_new_memory(sizes):
    backend = FakeBackend()
    allocator = Allocator(0, backend)
    for turn in range(3):
        taken = [allocator.allocate(size, S) for size in sizes]
        if turn == 1:
            before = allocator.reserved
        del taken
    assert allocator.reserved == before == backend.held


# --- the random program -------------------------------------------------------------------------


class FakeWorld:
    def __init__(self, capacity):
        self.capacity = capacity
        self.backend = FakeBackend(capacity)
        self.allocator = Allocator(0, self.backend)
        self.streams = [FakeStream(n) for n in range(4)]
        self.backend.streams.extend(self.streams)

    def held(self):
        return self.backend.held

    def mark(self, stream):
        return FakeEvent(stream)

    def advance(self, chance):
        stream = chance.choice(self.streams)
        stream.passed = chance.randint(stream.passed, stream.recorded)

    def touch(self, memory, stream):
        pass

    forget = check = order = lambda self, *args: None


class EmulatedWorld:
    """Streams of the emulator; every touch writes a pattern, and reads it back on its stream
    later."""

    def __init__(self, runtime, capacity):
        self.runtime, self.capacity = runtime, capacity
        backend = runtime.memory.allocators[0].backend
        self.allocator = Allocator(0, backend)
        self.backend = backend
        self.streams = [runtime.Stream(0) for _ in range(4)] + [runtime.default_stream(0)]
        self.number, self.reads, self.last = 0, [], {}

    def held(self):
        self.backend.synchronize()  # so that queued frees take effect
        return self.capacity - self.backend.mem_get_info()[0]

    def mark(self, stream):
        mark = self.runtime.devices.scheduler.record(stream.queue)
        return types.SimpleNamespace(is_done=lambda: mark.done)

    def touch(self, memory, stream):
        """Write a number on `stream`, after all earlier writes, and read it."""
        self.number = self.number % 255 + 1
        nbytes = min(memory.nbytes, 256)
        before = self.last.get(id(memory))
        if before is not None and before is not stream:
            stream.wait_stream(before)
        self.last[id(memory)] = stream
        pinned = self.runtime.pinned_allocate(nbytes)
        self.runtime.memset_async(memory.ptr, self.number, nbytes, 0, stream)
        self.runtime.copy_async(pinned.ptr, -1, memory.ptr, 0, nbytes, stream)
        self.reads.append((pinned, self.number))
        if len(self.reads) > 200:
            self.check()

    def forget(self, memory):
        del self.last[id(memory)]

    def check(self):
        self.runtime.synchronize(0)
        for pinned, number in self.reads:
            assert (pinned.array == number).all(), "someone else wrote there"
        self.reads.clear()

    def advance(self, chance):
        stream = chance.choice(self.streams)
        for _ in range(chance.randrange(8)):
            stream.query()

    def order(self, one, two):
        one.wait_stream(two)


@pytest.mark.parametrize(("seed", "capacity"), [(0, 64 * MIB), (1, 400 * MIB), (2, 7 * MIB)])
def test_a_random_program_against_the_model(monkeypatch, seed, capacity):
    monkeypatch.setattr(allocators.gc, "collect", lambda: None)  # there are no cycles
    counts = Program(FakeWorld(capacity), seed).run(STEPS // 2)
    assert counts["reused"] > STEPS // 40 and counts["recorded"] > STEPS // 60
    assert capacity > 300 * MIB or counts["out of memory"] > STEPS // 400


@requires_emulator
@pytest.mark.parametrize("order", ["lazy", "random"])
def test_a_random_program_on_the_emulator(monkeypatch, order):
    """GPUTENSOR_ALLOCATOR_STEPS=100000 runs a long program."""
    capacity = 96 * MIB
    monkeypatch.setattr(allocators.gc, "collect", lambda: None)  # there are no cycles
    runtime = fresh_emulator(monkeypatch, order=order, memory=capacity)
    counts = Program(EmulatedWorld(runtime, capacity), 5).run(STEPS // 2)
    assert counts["reused"] > STEPS // 200 and counts["out of memory"] > 2


# --- interruptions ------------------------------------------------------------------------------


class Interruption:
    """Call a function at the n-th place in the allocator where CPython checks for signals.

    These are the ends of calls, the beginnings of functions and the jumps back. collects: where
    Python 3.11 may run finalisers too, which is where objects are made.
    """

    FILES = tuple(m.__file__ for m in (allocators, devices, blocks_memory, segments))

    PLACES = ("CALL", "RESUME", "JUMP_BACKWARD")

    def __init__(self, number, action, collects=False):
        self.left, self.action = number, action
        self.names = (*self.PLACES, "BUILD") if collects else self.PLACES
        self.after: dict[types.CodeType, set[int]] = {}
        self.previous: dict[int, int] = {}
        self.is_inside = False

    def places(self, code):
        found = self.after.get(code)
        if found is None:
            found = self.after[code] = {
                i.offset for i in dis.get_instructions(code)
                if i.opname.startswith(self.names)
            }  # fmt: skip
        return found

    def trace(self, frame, event, arg):
        if frame.f_code.co_filename not in self.FILES or self.is_inside:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = self.previous.get(id(frame))
            self.previous[id(frame)] = frame.f_lasti
            if before is not None and before in self.places(frame.f_code):
                self.left -= 1
                if self.left == 0:
                    self.is_inside = True
                    try:
                        self.action()
                    finally:
                        self.is_inside = False
        elif event == "return":
            self.previous.pop(id(frame), None)
        return self.trace

    def run(self, program):
        before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 reads it when tracing begins
        sys.settrace(self.trace)
        try:
            # A generator has its own current exception. If a trace function raises at the beginning
            # or end of `except`, CPython may leave an exception behind, which would be the context
            # of every later one.
            next(program() for _ in range(1))
        finally:
            sys.settrace(before)


def interrupted():
    raise KeyboardInterrupt


def as_a_runtime(allocator):
    """Return an `allocate` that uses the thread's current stream, as the runtime does."""
    local = threading.local()

    def current(index):
        return local.stream

    of_runtime = allocating([allocator], current, lambda index, of: of)
    taker = taking([allocator], current, of_runtime)

    def allocate(nbytes, stream):
        local.stream = stream
        return taker(nbytes, 0)()

    return allocate


class Interrupted:
    """A short program that runs all code of the allocator. After an interruption its state must be
    consistent."""

    def __init__(self, keeps_blocks, asks_runtime=False):
        self.backend = FakeBackend(capacity=24 * MIB)
        self.allocator = Allocator(0, self.backend, keeps_blocks=keeps_blocks)
        self.allocate = self.allocator.allocate
        if asks_runtime:
            self.allocate = as_a_runtime(self.allocator)
        self.streams = [FakeStream(n) for n in range(3)]
        self.backend.streams.extend(self.streams)
        self.live = []

    def take(self, nbytes, stream=0):
        self.live.append(self.allocate(nbytes, self.streams[stream]))

    def program(self):
        for size in (700, 5000, MIB, 2 * MIB, 700):
            self.take(size)
        del self.live[1:3]
        self.allocator.record_stream(self.live[0], self.streams[1])
        self.allocator.record_stream(self.live[0], self.streams[2])
        del self.live[0]
        self.take(700)
        self.streams[1].passed = 100
        self.take(600)
        self.streams[2].passed = 100
        del self.live[:2]
        self.take(9000)
        self.take(15 * MIB, 1)
        del self.live[:]
        self.take(3 * MIB, 1)
        self.allocator.empty_cache()

    def check(self):
        allocator = self.allocator
        assert not allocator._lock._is_owned(), "the lock is still held"
        assert not allocator._is_changing
        for nbytes in (1, 700, 700, MIB, 2 * MIB, 5000):
            self.take(nbytes)
        spans = sorted((m.ptr, m.ptr + m.block.size) for m in self.live)
        assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))
        assert allocator.allocated == sum(end - begin for begin, end in spans)
        assert sum(b["size"] for b in allocator.snapshot()) == allocator.reserved
        used = [b for b in allocator.snapshot() if b["state"] == "active_allocated"]
        assert [(b["address"], b["address"] + b["size"]) for b in used] == spans
        self.live.clear()
        allocator.empty_cache()
        assert allocator.reserved == allocator.allocated == 0


# With CHOSEN=1 every place; with 7 every seventh, so that the tests take a second.
CHOSEN = int(os.environ.get("GPUTENSOR_INTERRUPT_EVERY", "7"))


WAYS = [(True, False), (True, True), (False, False)]


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_keyboard_interrupt_anywhere_leaves_the_allocator_whole(way):
    number, places = 1, 0
    while True:
        world = Interrupted(*way)
        interruption = Interruption(number, interrupted)
        try:
            interruption.run(world.program)
        except KeyboardInterrupt:
            pass
        if interruption.left > 0:
            break
        world.check()
        number, places = number + CHOSEN, places + 1
    assert places > 100 // CHOSEN
    assert sys.exception() is None


@pytest.mark.full
@pytest.mark.parametrize("way", tier.pick(WAYS[1:2], WAYS))
def test_a_finaliser_anywhere_may_allocate_drop_and_ask(way):
    number, places = 1, 0
    while True:
        world = Interrupted(*way)

        def finalise(world=world):
            """The finaliser that garbage collection may run at any call."""
            world.allocate(700, world.streams[0])
            world.live.append(world.allocate(3000, world.streams[2]))
            assert world.allocator.allocated > 0 and world.allocator.snapshot()

        interruption = Interruption(number, finalise, collects=True)
        interruption.run(world.program)
        if interruption.left > 0:
            break
        world.check()
        number, places = number + CHOSEN, places + 1
    assert places > 100 // CHOSEN


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("asks_runtime", [False, True])
@pytest.mark.parametrize("bins", [0, 256])
def test_blocks_may_come_and_go_while_pools_are_made_anew(bins, asks_runtime, monkeypatch):
    """This happens after an interruption and when bins are dropped: no block is lost, and none is
    allocated twice."""
    monkeypatch.setattr(segments, "_MOST_BINS", bins)
    number = 1
    while True:
        world = Interrupted(True, asks_runtime)
        for size in (700, 700, 3000, 3000, 700, 3000):
            world.take(size)
        dropped = world.live[:4]
        del world.live[:4]
        dropped[1] = dropped[3] = None  # one block of each size is free, and one will be freed

        def come_and_go(world=world, dropped=dropped):
            world.take(700)
            world.take(3000)
            dropped[0] = dropped[2] = None

        interruption = Interruption(number, come_and_go, collects=True)
        world.allocator._is_torn = bins > 0
        interruption.run(lambda world=world: world.take(5000))
        if interruption.left > 0:
            break
        dropped.clear()
        world.check()
        number += 1
    assert number > 40


@pytest.mark.parametrize("asks_runtime", [False, True])
def test_threads_that_share_a_stream_never_share_a_block(allocator, asks_runtime):
    allocate = as_a_runtime(allocator) if asks_runtime else allocator.allocate
    owners, shared = {}, []
    before = sys.getswitchinterval()

    def work(seed):
        chance, live = random.Random(seed), []
        for _ in range(2000):
            memory = allocate(chance.choice((500, 1000, 40000)), S)
            if owners.setdefault(memory.ptr, seed) != seed or memory.ptr in {m.ptr for m in live}:
                shared.append(memory.ptr)
            live.append(memory)
            del memory
            for _ in range(min(chance.randrange(3), len(live))):
                del owners[live[0].ptr]
                del live[0]
            if chance.random() < 0.02:
                allocator.empty_cache()
        for memory in live:
            del owners[memory.ptr]

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not shared
    stats = allocator.stats()
    assert stats["allocation.all.current"] == stats["allocated_bytes.all.current"] == 0
    allocator.empty_cache()
    assert allocator.reserved == 0


class _Graph:
    """A graph of a random program: the memory ranges of its captures. holders: graphs of its
    pool."""

    def __init__(self, handle):
        self.handle, self.spans, self.holders = handle, [], 1


@pytest.mark.parametrize("keeps_blocks", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_memory_of_graphs_is_nobody_elses(seed, keeps_blocks):
    """Captures on three streams, into separate and shared pools, and other work between them."""
    chance, backend = random.Random(seed), FakeBackend()
    allocator = Allocator(0, backend, keeps_blocks=keeps_blocks)
    streams = [FakeStream(n) for n in (1, 2, 3)]
    backend.streams = streams
    live, graphs, underway = [], [], {}

    def record(stream):
        assert not underway, "a driver refuses events meanwhile"
        return FakeEvent(stream)

    backend.record = record
    sizes = [chance.randrange(1, 40 * STEP) for _ in range(6)] + [2 * MIB, 11 * MIB]

    def overlaps(begin, end, spans):
        return [s for s in spans if s[0] < end and begin < s[1]]

    def allocate():
        stream, nbytes = chance.choice(streams), chance.choice(sizes)
        memory = allocator.allocate(nbytes, stream)
        begin, end = memory.ptr, memory.ptr + nbytes
        assert not overlaps(begin, end, [(m.ptr, m.ptr + m.nbytes) for m in live])
        own = underway.get(stream.key)
        for graph in graphs:
            if graph is not own:
                assert not overlaps(begin, end, graph.spans), "a graph's memory was given away"
        if own is not None:
            own.spans.append((begin, end))
        if chance.random() < 0.2:
            allocator.record_stream(memory, chance.choice(streams))
        live.append(memory)

    def drop():
        if live:
            live.pop(chance.randrange(len(live)))

    def begin():
        stream = chance.choice(streams)
        if stream.key in underway:
            return
        shared = [g for g in graphs if g not in underway.values()]
        if shared and chance.random() < 0.5:
            graph = chance.choice(shared)
            graph.holders += 1
        else:
            graph = _Graph(object())
            graphs.append(graph)
        allocator.hold_pool(graph.handle)
        allocator.enter_pool(graph.handle, stream)
        underway[stream.key] = graph

    def end():
        if underway:
            key = chance.choice([*underway])
            allocator.leave_pool(next(s for s in streams if s.key == key))
            del underway[key]

    def let_go():
        idle = [g for g in graphs if g not in underway.values()]
        if idle:
            graph = chance.choice(idle)
            graph.holders -= 1
            allocator.drop_pool(graph.handle)
            if not graph.holders:
                graphs.remove(graph)

    def rare():
        if not underway:
            allocator.empty_cache()
            for stream in streams:
                stream.passed = stream.recorded
        for graph in graphs:
            for first, last in graph.spans:
                held = [(p, p + size) for p, size in backend.live.items()]
                assert any(p <= first and last <= q for p, q in held), "a graph's memory is gone"

    for _ in range(1500):
        chance.choices((allocate, drop, begin, end, let_go, rare), (40, 38, 4, 6, 3, 3))[0]()
        assert allocator.allocated >= sum(m.nbytes for m in live)
    while underway:
        end()
    live.clear()
    while graphs:
        let_go()
    for stream in streams:
        stream.passed = stream.recorded
    allocator.empty_cache()
    allocator.empty_cache()
    assert allocator.reserved == allocator.allocated == backend.held == 0
    assert not allocator._of_graphs and not allocator._holders


def test_memory_runs_out_within_a_capture():
    """No memory is returned to make room, and the host waits for no device."""
    backend = FakeBackend(capacity=4 * MIB)
    allocator, stream = Allocator(0, backend), FakeStream(1)
    free = allocator.allocate(100, FakeStream(2))
    del free
    allocator.hold_pool("g")
    allocator.enter_pool("g", stream)
    held = allocator.allocate(100, stream)
    with pytest.raises(errors.OutOfMemoryError):
        allocator.allocate(3 * MIB, stream)
    assert backend.calls == [] and held.nbytes == 100
    allocator.leave_pool(stream)
    allocator.drop_pool("g")
    del held
    assert allocator.allocate(3 * MIB, stream).nbytes == 3 * MIB
