"""The caching allocator against a simple model, over a backend of this file."""

from __future__ import annotations

import gc
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gputensor.core import errors
from gputensor.runtime.allocator import STEP, Allocator


class FakeStream:
    def __init__(self, ptr):
        self.ptr = ptr
        self.passed = 0  # events recorded before this many are done
        self.recorded = 0


class FakeEvent:
    def __init__(self, stream):
        self.stream = stream
        stream.recorded += 1
        self.number = stream.recorded

    def query(self):
        return self.number <= self.stream.passed


class FakeBackend:
    """Addresses that are never reused, and a capacity."""

    def __init__(self, capacity=1 << 40):
        self.capacity = capacity
        self.live = {}
        self.next = 1 << 20
        self.streams = []
        self.calls = []

    def malloc(self, size, stream):
        if sum(self.live.values()) + size > self.capacity:
            raise MemoryError
        ptr = self.next
        self.next += size + STEP
        self.live[ptr] = size
        return ptr, ("handle", ptr)

    def free(self, ptr, handle, stream):
        assert handle == ("handle", ptr)
        del self.live[ptr]

    def record(self, stream):
        return FakeEvent(stream)

    def release(self):
        self.calls.append("release")

    def synchronize(self):
        self.calls.append("synchronize")
        for stream in self.streams:
            stream.passed = stream.recorded

    def mem_get_info(self):
        return self.capacity - sum(self.live.values()), self.capacity


@pytest.fixture
def backend():
    return FakeBackend()


@pytest.fixture
def allocator(backend):
    return Allocator(0, backend)


S, T = FakeStream(0), FakeStream(7)


def test_a_dropped_block_is_reused_on_its_stream_only(allocator, backend):
    first = allocator.allocate(1000, S)
    ptr = first.ptr
    assert (first.nbytes, allocator.allocated, allocator.reserved) == (1000, 1024, 1024)
    del first
    assert (allocator.allocated, allocator.reserved) == (0, 1024)
    assert allocator.allocate(900, T).ptr != ptr
    assert allocator.allocate(1024, S).ptr == ptr
    assert allocator.stats()["num_device_alloc"] == 2


def test_a_free_block_up_to_a_quarter_larger_is_taken(allocator):
    large = allocator.allocate(5 * STEP, S)
    ptr = large.ptr
    del large
    assert allocator.allocate(3 * STEP, S).ptr != ptr
    block = allocator.allocate(4 * STEP, S)
    assert block.ptr == ptr and block.nbytes == 4 * STEP
    assert allocator.allocated == 5 * STEP


def test_a_recorded_stream_delays_reuse_until_its_event(allocator):
    side = FakeStream(9)
    memory = allocator.allocate(10, S)
    ptr = memory.ptr
    allocator.record_stream(memory, S)  # its own stream: nothing to wait for
    allocator.record_stream(memory, side)
    del memory
    assert [b["state"] for b in allocator.snapshot()] == ["active_pending_free"]
    other = allocator.allocate(10, S)
    assert other.ptr != ptr
    side.passed = side.recorded
    assert allocator.allocate(10, S).ptr == ptr


def test_zero_bytes_need_no_memory(allocator):
    memory = allocator.allocate(0, S)
    assert (memory.ptr, memory.nbytes) == (0, 0)
    allocator.record_stream(memory, T)
    with pytest.raises(
        errors.GpuTensorError, match=r"allocate: 'nbytes' must not be negative \(got -1\)"
    ):
        allocator.allocate(-1, S)


def test_the_ladder_releases_then_waits_then_raises_with_figures():
    backend = FakeBackend(capacity=4 * STEP)
    allocator = Allocator(3, backend)
    side = FakeStream(9)
    backend.streams.append(side)
    kept = allocator.allocate(STEP, S)
    free = allocator.allocate(STEP, S)
    del free
    three = allocator.allocate(3 * STEP, S)  # only once the free block went back
    assert backend.calls == ["release"]
    allocator.record_stream(three, side)
    del three
    again = allocator.allocate(2 * STEP + 1, T)  # only once the side stream is done
    assert backend.calls == ["release", "release", "synchronize", "release"]
    with pytest.raises(errors.OutOfMemoryError) as caught:
        allocator.allocate(10, S)
    assert str(caught.value) == (
        "cuda:3: cannot allocate 512 bytes (in tensors 2.00 KiB, held 2.00 KiB, "
        "free on the device 0 bytes, total 2.00 KiB)"
    )
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, RuntimeError)
    stats = allocator.stats()
    assert (stats["num_ooms"], stats["num_alloc_retries"]) == (1, 5)
    del kept, again


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
    kept, dropped = allocator.allocate(1, S), allocator.allocate(1, S)
    del dropped
    allocator.empty_cache()
    assert list(backend.live) == [kept.ptr]
    assert allocator.reserved == STEP and allocator.allocate(1, S).nbytes == 1


def test_peaks(allocator):
    a, b = allocator.allocate(STEP, S), allocator.allocate(STEP, S)
    del a
    assert allocator.stats()["allocated_bytes.all.peak"] == 2 * STEP
    allocator.reset_peaks()
    stats = allocator.stats()
    assert (stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"]) == (STEP, 2 * STEP)
    del b


def test_blocks_that_are_not_kept_have_their_exact_size_and_go_at_once(backend):
    allocator = Allocator(0, backend, keeps_blocks=False)
    memory = allocator.allocate(10, S)
    assert backend.live == {memory.ptr: 10} and allocator.allocated == STEP
    del memory
    assert not backend.live and allocator.reserved == 0


def test_memory_in_a_cycle_is_given_back_from_inside_the_allocator(allocator):
    class Node:
        pass

    for _ in range(2000):
        node = Node()
        node.self, node.memory = node, allocator.allocate(10, S)
    del node
    gc.collect()
    assert allocator.allocated == 0


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


class AllocatorModel(RuleBasedStateMachine):
    """Whatever happens: no two live memories share a byte, no block is reused too early, sums agree."""

    def __init__(self):
        super().__init__()
        self.backend = FakeBackend(capacity=64 * STEP)
        self.allocator = Allocator(0, self.backend)
        self.streams = [FakeStream(n) for n in range(3)]
        self.backend.streams.extend(self.streams)
        self.live = []
        self.forbidden = {}  # ptr -> events that must have passed before it may be seen again

    @rule(nbytes=st.integers(1, 9 * STEP), stream=st.integers(0, 2))
    def allocate(self, nbytes, stream):
        stream = self.streams[stream]
        try:
            memory = self.allocator.allocate(nbytes, stream)
        except errors.OutOfMemoryError:
            assert sum(-(-m.nbytes // STEP) * STEP for m in self.live) + nbytes > 64 * STEP // 2
            return
        assert memory.block.stream is stream
        assert memory.nbytes == nbytes <= memory.block.size
        for stream_, number in self.forbidden.pop(memory.ptr, ()):
            assert stream_.passed >= number
        self.live.append(memory)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def drop(self, data):
        memory = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        used_on = list((memory.block.used_on or {}).values())
        self.forbidden[memory.ptr] = [(s, s.recorded + 1) for s in used_on]
        ptr = memory.ptr
        del memory
        _ = self.allocator.allocated  # records the events
        assert all(s.recorded >= number for s, number in self.forbidden[ptr])

    @precondition(lambda self: self.live)
    @rule(data=st.data(), stream=st.integers(0, 2))
    def record(self, data, stream):
        memory = self.live[data.draw(st.integers(0, len(self.live) - 1))]
        self.allocator.record_stream(memory, self.streams[stream])

    @rule(stream=st.integers(0, 2))
    def pass_events(self, stream):
        self.streams[stream].passed = self.streams[stream].recorded

    @rule()
    def empty_cache(self):
        self.allocator.empty_cache()

    @invariant()
    def sums_agree(self):
        snapshot = self.allocator.snapshot()
        assert (
            sum(b["size"] for b in snapshot)
            == self.allocator.reserved
            == sum(self.backend.live.values())
        )
        in_use = {b["address"]: b["size"] for b in snapshot if b["state"] == "active_allocated"}
        assert in_use == {m.ptr: m.block.size for m in self.live}
        assert self.allocator.allocated == sum(in_use.values())
        spans = sorted((m.ptr, m.ptr + m.nbytes) for m in self.live)
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:]))


TestAllocatorModel = AllocatorModel.TestCase
TestAllocatorModel.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@given(st.lists(st.integers(1, 1 << 16), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_a_sequence_repeated_needs_no_new_memory(sizes):
    backend = FakeBackend()
    allocator = Allocator(0, backend)
    for _ in range(2):
        taken = [allocator.allocate(size, S) for size in sizes]
        before = allocator.reserved
        del taken
    assert allocator.reserved == before == sum(backend.live.values())
    assert allocator.stats()["num_device_alloc"] == len(sizes)
