"""The CuPy runtime over a fake CuPy: devices are switched and restored, with no other calls."""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib.util
import itertools
from pathlib import Path
import sys
import types
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gputensor import runtime
from gputensor.core import errors
from gputensor.runtime import capture, device_limits
from gputensor.runtime.compilation import kernel_cache
from gputensor.runtime.current import stream_given
from gputensor.runtime.libraries import Array

from ...conftest import stop_where_a_device_is_lost
from ..support import fresh_module
from ..fake_cupy import ATTRIBUTES, NAMED, REAL, DriverFailure, FakeCupy, RuntimeFailure


@pytest.fixture
def fake():
    return FakeCupy()


@pytest.fixture
def cuda(fake, monkeypatch, tmp_path):
    """A newly imported module, so that the first call of each test is the first call of the
    process."""
    monkeypatch.setitem(sys.modules, "cupy", fake.module)
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "_known", {})
    module = fresh_module("gputensor.runtime.cuda")
    return module


def calls(fake):
    taken = list(fake.calls)
    fake.calls.clear()
    return taken


def test_devices(cuda, fake):
    assert cuda.device_count() == 2
    assert cuda.is_available() and cuda.unavailable_reason() is None
    assert (cuda.device_name(1), cuda.capability(1), cuda.arch(1)) == ("Fake", (9, 0), "sm_90")
    assert cuda.exchange_device(1) == 0 and cuda.current_device() == 1 == fake.device
    cuda.set_device(0)
    assert cuda.mem_get_info(1) == (1 << 30, 1 << 30) and fake.device == 0
    assert cuda.can_access_peer(0, 1) and cuda.can_access_peer(1, 1)
    with pytest.raises(
        errors.DeviceError, match=r"device_name: 'device' must be in \[0, 1\] \(got 2\)"
    ):
        cuda.device_name(2)
    with pytest.raises(
        errors.DeviceError, match=r"allocate: 'device' must be in \[0, 1\] \(got 7\)"
    ):
        cuda.allocate(4, 7)


def test_the_reason_is_the_drivers(cuda, fake, monkeypatch):
    monkeypatch.setattr(cuda.driver._runtime, "getDeviceCount", lambda: 0)
    assert cuda.unavailable_reason() == "the driver sees no GPU"

    def fails():
        raise RuntimeFailure("cudaErrorInsufficientDriver: too old")

    monkeypatch.setattr(cuda.driver._runtime, "getDeviceCount", fails)
    assert cuda.unavailable_reason() == "cudaErrorInsufficientDriver: too old"


def test_memory_belongs_to_the_stream_that_is_current_on_its_device(cuda, fake):
    side = cuda.Stream(1)
    previous = cuda.set_stream(side)
    assert previous.ptr == 0 and cuda.current_stream(1).ptr == side.ptr and fake.device == 0
    calls(fake)
    memory = cuda.allocate(1000, 1)
    assert calls(fake) == [("malloc", 1, 2 << 20)] and fake.device == 0
    cuda.set_stream(previous)
    assert cuda.allocate(1000, 1).ptr != memory.ptr
    assert calls(fake) == [("malloc", 1, 2 << 20)]
    ptr = memory.ptr
    cuda.set_stream(side)
    del memory
    assert cuda.allocate(1000, 1).ptr == ptr and calls(fake) == []
    assert cuda.memory_allocated(1) == 0 and cuda.memory_reserved(1) == 4 << 20
    cuda.empty_cache()
    assert fake.in_use == 0 and calls(fake) == [("deviceSynchronize", 1)], "the other is not used"


def test_streams_come_from_a_pool(cuda, fake):
    """As in PyTorch. So memory cached for a stream is reused, however many streams a program
    makes."""
    ptrs = [cuda.Stream(0).ptr for _ in range(100)]
    assert len(set(ptrs)) == 32 and ptrs[:32] == ptrs[32:64]
    for priority in (-1, -5, -9, 7):
        high = [cuda.Stream(0, priority).ptr for _ in range(40)]
        assert len(set(high)) == 32 and (priority == 7) == bool(set(high) & set(ptrs))
    assert not {cuda.Stream(1).ptr for _ in range(40)} & set(ptrs)
    for _ in range(100):
        cuda.set_stream(cuda.Stream(0))
        cuda.allocate(100, 0)
    assert cuda.memory_reserved(0) <= 32 * (2 << 20)


def test_per_thread_default_streams_share_a_handle_and_no_memory(cuda, fake):
    fake.default = fake.module.cuda.Stream.ptds
    memory = cuda.allocate(1000, 0)
    ptr = memory.ptr
    del memory
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(cuda.allocate, 1000, 0).result()
        assert theirs.ptr != ptr, "work on the first thread's stream may still use it"
        assert (
            other.submit(lambda: cuda.current_stream(0).key).result() != cuda.current_stream(0).key
        )
    assert cuda.allocate(1000, 0).ptr == ptr
    assert cuda.current_stream(0) is cuda.current_stream(0) is cuda.external_stream(0, 2)
    calls(fake)
    cuda.record_stream(theirs, cuda.current_stream(0))
    ptr = theirs.ptr
    with ThreadPoolExecutor(1) as other:
        # It is dropped when its handle belongs to another stream, so no event can order its work.
        holder = [theirs]
        del theirs
        other.submit(lambda: (holder.clear(), cuda.memory_allocated(0))).result()
    assert [c[0] for c in calls(fake)] == []
    states = {b["address"]: b["state"] for b in cuda.memory_snapshot()}
    assert states[ptr] == "active_pending_free"
    cuda.empty_cache()
    assert ptr not in {b["address"] for b in cuda.memory_snapshot()}


def test_a_stream_that_is_destroyed_costs_no_later_allocation(cuda, fake):
    """A stream that is only a handle is checked as long as it has work; a stream with an owner is
    kept alive."""
    memory, owned = cuda.allocate(8, 0), cuda.allocate(8, 0)
    borrowed = cuda.external_stream(0, 0x77)
    calls(fake)
    cuda.record_stream(memory, borrowed)
    assert calls(fake) == [("eventRecord", 0, 0x77)]
    owner = types.ModuleType("a stream of another library")
    gone = weakref.ref(owner)
    cuda.record_stream(owned, cuda.external_stream(0, 0x99, owner))
    del owner
    assert gone() is not None
    fake.destroyed.add(0x77)
    del memory
    del owned
    cuda.allocate(8, 0)
    assert calls(fake) == [("eventRecord", 0, 0x99)] and cuda.memory_allocated(0) == 0
    assert gone() is None
    third, stream = cuda.allocate(8, 0), cuda.Stream(0)
    cuda.record_stream(third, stream)
    fake.destroyed.add(stream.ptr)
    del third
    cuda.allocate(8, 0)
    assert [b["state"] for b in cuda.memory_snapshot()].count("active_pending_free") == 1
    cuda.empty_cache()
    assert cuda.memory_reserved(0) == 0


def test_borrowed_memory_goes_back_once_work_on_it_is_done(cuda, fake):
    given = []
    memory = cuda.borrow(0x5000, 64, 1, lambda: given.append(1))
    assert (memory.ptr, memory.nbytes, memory.device_index) == (0x5000, 64, 1)
    assert cuda.memory_allocated(1) == 0
    del memory
    assert given == [1], "nothing is queued"
    memory = cuda.borrow(0x5000, 64, 1, lambda: given.append(2))
    side = cuda.Stream(1)
    cuda.record_stream(memory, side)
    fake.status = 600
    calls(fake)
    del memory
    assert given == [1] and {c[2] for c in calls(fake)} == {0, side.ptr}
    cuda.allocate(1, 1)
    assert given == [1]
    fake.status = 0
    cuda.allocate(1, 1)
    assert given == [1, 2] and cuda.memory_stats(1)["allocation.all.current"] == 0


def test_the_current_stream_is_cupys(cuda, fake):
    theirs = fake.module.cuda.Stream()
    theirs.use()
    ours = cuda.current_stream(0)
    assert ours.ptr == theirs.ptr and ours.cupy is theirs
    assert cuda.current_stream(0) is ours
    assert cuda.default_stream(0).ptr == 0


def test_out_of_memory_climbs_the_ladder(cuda, fake, monkeypatch):
    fake.capacity = 4096
    monkeypatch.setattr(gc, "collect", lambda: fake.calls.append(("collect",)))
    first = cuda.allocate(4096, 0)
    calls(fake)
    with pytest.raises(
        errors.OutOfMemoryError, match=r"cuda:0: cannot allocate 512 bytes \(in tensors 4\.00 KiB"
    ):
        cuda.allocate(1, 0)
    names = [c[0] for c in calls(fake)]
    asked = ["malloc"] * 2  # one segment, no larger than needed
    wanted = [*asked, *asked, "collect", "deviceSynchronize", *asked, "free_all_blocks", *asked]
    assert names == wanted, "our own blocks, one collection, and CuPy's pool last"
    del first
    cuda.set_memory_limit(0, 100)
    with pytest.raises(errors.OutOfMemoryError, match="limit 100 bytes"):
        cuda.allocate(8192, 0)


def test_record_stream_waits_for_an_event_of_that_stream(cuda, fake):
    side = cuda.Stream(0)
    memory = cuda.allocate(8, 0)
    cuda.record_stream(memory, side)
    calls(fake)
    del memory
    cuda.memory_allocated(0)
    assert calls(fake) == [("eventRecord", 0, side.ptr)]


def test_streams_are_there_before_any_memory_is(cuda):
    """The first call of a process may use an array of another library, on that library's stream."""
    assert cuda.current_stream(1).ptr == 0 and cuda.current_stream(1).device_index == 1
    assert cuda.external_stream(0, 0x77).ptr == 0x77 and cuda.external_stream(0, 1).ptr == 0
    previous = cuda.set_stream(cuda.external_stream(1, 0x77))
    assert cuda.current_stream(1).ptr == 0x77 and cuda.set_stream(previous).ptr == 0x77
    theirs = types.SimpleNamespace(block=None, device_index=1)
    cuda.record_stream(theirs, cuda.current_stream(0))


def test_streams_and_events_switch_to_their_device(cuda, fake):
    a, b = cuda.Stream(0), cuda.Stream(1, priority=-1)
    calls(fake)
    b.wait_stream(a)
    recorded, waited = calls(fake)
    assert recorded == ("eventRecord", 0, a.ptr) and waited[:3] == ("streamWaitEvent", 1, b.ptr)
    b.synchronize()
    assert calls(fake) == [("streamSynchronize", 1, b.ptr)] and fake.device == 0
    event, never = cuda.Event(enable_timing=True), cuda.Event()
    event.record(b)
    event.record(a)  # on another device: a new event of CuPy
    assert event.query() and event.elapsed_time(event) == 2.5 and event.cupy.disable_timing is False
    assert never.query()
    never.wait(a)
    never.synchronize()
    with pytest.raises(errors.GpuTensorError, match="got no timing"):
        event.elapsed_time(never)


ILLEGAL = "cudaErrorIllegalAddress: an illegal memory access was encountered"


def test_failures_of_the_device_are_ours_at_every_entry_and_name_the_first(cuda, fake):
    stream, event, memory = cuda.Stream(1), cuda.Event(), cuda.allocate(8, 1)
    side = cuda.Stream(1)
    event.record(stream)
    pinned = cuda.pinned_allocate(8)
    entries = {
        "synchronize": lambda: cuda.synchronize(1),
        "waiting for a stream": stream.synchronize,
        "asking a stream": stream.query,
        "asking an event": event.query,
        "waiting for an event": lambda: (event.synchronize(), stream.wait_event(event)),
        "recording an event": lambda: (event.record(stream), stream.wait_stream(side)),
        "an allocation": lambda: cuda.allocate(99 << 20, 1),
        "a copy of 8 bytes": lambda: cuda.copy_async(memory.ptr, 1, pinned.ptr, -1, 8, stream),
        "a fill of 8 bytes": lambda: cuda.memset_async(memory.ptr, 0, 8, 1, stream),
        "an allocation of pinned memory": lambda: cuda.pinned_allocate(8),
        "mem_get_info": lambda: cuda.mem_get_info(1),
    }
    assert cuda.first_failure() is None
    for what, entry in entries.items():
        for later in (False, True):
            fake.fail, fake.status = RuntimeFailure(700), 700
            with pytest.raises(errors.KernelError) as caught:
                entry()
            where = f"cuda:{0 if 'pinned' in what else 1}"
            if later:
                assert str(caught.value) == (
                    f"{where}: {what} failed, as all does after the first failure of this process: "
                    f"{ILLEGAL}"
                )
            else:
                assert str(caught.value) == (
                    f"{where}: a kernel or copy before this point failed: {ILLEGAL} (seen by "
                    f"{what})"
                )
                assert cuda.first_failure() == ILLEGAL
        fake.fail, fake.status = None, 0
        cuda.driver._first_failure = None
    assert fake.device == 0
    fake.fail = RuntimeFailure("cudaErrorInvalidValue: invalid argument")
    with pytest.raises(
        errors.KernelError, match="cuda:1: a copy of 8 bytes failed: cudaErrorInvalidValue"
    ):
        entries["a copy of 8 bytes"]()
    assert cuda.first_failure() is None, "the context goes on"


def test_a_library_gets_our_memory_and_device(cuda, fake):
    """The second result is another array of the first one's memory, so it gets a copy."""
    given = cuda.allocate(48, 1)
    operand = Array(given.ptr, (3, 2), (4, 12), np.dtype(np.float32), 24, is_written=True)
    wanted = Array(0, (4,), (4,), np.dtype(np.float32), 16)
    held, seen = cuda.memory_allocated(1), []

    def double(library, x):
        made = fake.module.ndarray((4,), np.float32, fake.allocator(16))
        seen.append((fake.device, library.np, x.data.ptr, x.strides, made.data.ptr))
        assert cuda.memory_allocated(1) == held + 512, "its temporaries are our memory"
        return made, made

    results = cuda.call_library("double", double, [operand], [wanted, wanted], 1)
    ((device, module, ptr, strides, made),) = seen
    assert (device, module, ptr, strides) == (1, fake.module, given.ptr, (4, 12))
    assert fake.device == 0 and fake.allocator is None
    assert results[0].ptr == made != results[1].ptr
    assert cuda.call_library("double", lambda library: 7, [], None, 1) == 7
    with pytest.raises(errors.KernelError, match="double: a library failed: no way") as caught:
        cuda.call_library("double", lambda library: exec("raise ValueError('no way')"), [], (), 1)
    assert isinstance(caught.value.__cause__, ValueError) and fake.device == 0
    with pytest.raises(errors.OutOfMemoryError):
        cuda.call_library("double", lambda library: fake.allocator(1 << 40), [], (), 1)
    assert fake.allocator is None


@pytest.fixture
def modes(cuda, monkeypatch):
    """Return the capture modes that the driver was told to set in a capturing thread."""
    asked = []

    def exchange(mode):
        asked.append(mode._obj.value)
        mode._obj.value = 0
        return 0

    library = types.SimpleNamespace(cuThreadExchangeStreamCaptureMode=exchange)
    monkeypatch.setattr(cuda.driver.ctypes, "CDLL", lambda name: {"libcuda.so.1": library}[name])
    return asked


@pytest.mark.usefixtures("modes")
def test_a_constant_of_a_library_is_copied_once_and_not_within_a_capture(cuda, fake, monkeypatch):
    copied = []
    monkeypatch.setattr(fake.module, "asarray", lambda x: copied.append(x) or x)

    def constant(value):
        def compute(library):
            return (library.constant(np.full(3, value)),)

        compute.__name__ = "compute"
        return lambda: cuda.call_library("pool", compute, (), None, 0)

    constant(7)(), constant(7)(), constant(8)()
    assert [x.tolist() for x in copied] == [[7, 7, 7], [8, 8, 8]]
    begun = cuda.begin_capture(cuda.Stream(0), (9, 0), "relaxed")
    cuda.set_stream(begun.origin)
    place = Array(1 << 20, (1,), (8,), np.dtype("f8"), 8)

    def call(value):
        return lambda library, x: (library.constant(np.full(3, value)), x)[1:]

    cuda.call_library("pool", call(8), (place,), (place,), 0)
    with pytest.raises(errors.DeviceError, match="a call before the capture does"):
        cuda.call_library("pool", call(9), (place,), (place,), 0)
    begun.end()
    assert len(copied) == 2 + 1  # of the result


def test_a_graph_that_is_dropped_while_another_is_captured_goes_after_it(cuda, fake):
    stream = cuda.Stream(0)
    first = cuda.begin_capture(stream, (7, 0), "global").end()
    gone = weakref.ref(first.cupy)
    begun = cuda.begin_capture(stream, (8, 0), "global")
    del first
    gc.collect()
    assert gone() is not None, "to destroy it would end the capture"
    begun.end()
    gc.collect()
    assert gone() is None


class Transforms:
    """CuPy's transforms and its cache of their plans: one plan, made by the first transform."""

    def __init__(self, cuda, fake, monkeypatch):
        self.cuda, self.fake, self.cached = cuda, fake, {}
        config = types.SimpleNamespace(get_plan_cache=lambda: self)
        fake.module.fft = types.SimpleNamespace(config=config)
        monkeypatch.setitem(sys.modules, "cupyx.scipy.fft", types.ModuleType("cupyx.scipy.fft"))

    def __iter__(self):
        return iter(self.cached.items())

    def on(self, stream):
        """Run a transform. Return the calls of the driver."""
        self.cuda.set_stream(stream)
        calls(self.fake)
        self.cuda.call_library("fft", self._transform, (), (), 0)
        return [call for call in calls(self.fake) if call[0] != "malloc"]

    def _transform(self, library):
        library.scipy("fft")
        if not self.cached:
            plan = types.SimpleNamespace(work_area=self.fake.allocator(4096))
            self.cached["key"] = types.SimpleNamespace(plan=plan)
        self.fake.calls.append(("exec", 0))
        return ()


@pytest.mark.skipif(REAL is None, reason="needs CuPy, and no driver")
def test_plans_of_cupy_are_cached_as_the_stand_in_does():
    cache = sys.modules["cupy_without_driver"].fft._cache
    real = cache.PlanCache(2, -1, 0)
    assert [*real] == []
    assert hasattr(cache._Node, "plan")


def test_transforms_that_share_a_plan_wait_for_each_other(cuda, fake, monkeypatch):
    one, other = cuda.Stream(0), cuda.Stream(0)
    transforms = Transforms(cuda, fake, monkeypatch)
    ran = [("exec", 0), ("eventRecord", 0, one.ptr)]
    assert transforms.on(one) == transforms.on(one) == ran
    wait, run, _ = transforms.on(other)
    assert wait[:3] == ("streamWaitEvent", 0, other.ptr) and run == ("exec", 0)
    assert [name for name, *_ in transforms.on(other)] == ["exec", "eventRecord"]
    # The plan is removed from the cache. Its memory waits for the other stream on which it was
    # used.
    ptr = transforms.cached["key"].plan.work_area.ptr
    transforms.cached.clear()
    cuda.set_stream(one)
    calls(fake)
    fake.status = 600
    assert cuda.allocate(4096, 0).ptr != ptr
    assert ("eventRecord", 0, other.ptr) in calls(fake)


def test_a_stream_that_is_gone_is_not_asked_after_its_transforms(cuda, fake, monkeypatch):
    transforms = Transforms(cuda, fake, monkeypatch)
    transforms.on(cuda.external_stream(0, 0x77))
    fake.destroyed.add(0x77)
    names = [name for name, *_ in transforms.on(cuda.Stream(0))]
    assert names == ["streamWaitEvent", "exec", "eventRecord"]


def test_another_thread_waits_while_a_graph_is_captured(cuda, fake, modes):
    stream, other = cuda.Stream(0), cuda.Stream(0)
    event = other.record_event()
    begun = cuda.begin_capture(stream, (11, 0), "global")
    seen = []

    def waits():
        for call in (other.synchronize, event.synchronize, other.query, event.query):
            call()
            seen.append([*modes])
            modes.clear()
        with pytest.raises(errors.DeviceError, match="it waits for the device"):
            cuda.synchronize(0)

    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(waits).result()
    finally:
        begun.end()
    assert seen == [[2, 0]] * 4, "relaxed meanwhile, and as before"
    modes.clear()
    assert other.query() and event.query() and modes == []


@pytest.mark.parametrize("handle", [-1, -(2**63), 1 << 56, 2**62, 2**63, 10**400])
def test_no_address_of_a_stream_reaches_the_driver(cuda, fake, handle):
    calls(fake)
    with pytest.raises(errors.GpuTensorError, match="'stream' must be the address of a stream"):
        stream_given("record_stream", cuda, 0, handle)
    assert not calls(fake)
    assert stream_given("record_stream", cuda, 0, 0x7F0012345600).ptr == 0x7F0012345600


def test_a_replay_counts_as_a_transform(cuda, fake, modes, monkeypatch):
    stream, side, eager = cuda.Stream(0), cuda.Stream(0), cuda.Stream(0)
    transforms = Transforms(cuda, fake, monkeypatch)
    transforms.on(eager)
    begun = cuda.begin_capture(stream, (9, 0), "global")
    seen = []
    cuda.call_library("sort", lambda library: seen.append([*modes]), (), (), 0)
    assert seen == [[2]] and modes == [2, 0], "a kernel of CuPy's is loaded in relaxed mode"
    names = [name for name, *_ in transforms.on(stream)]
    assert names == ["exec", "eventRecord"], "what is outside of it is not waited for"
    side.wait_stream(stream)
    wait, *_ = transforms.on(side)
    assert wait[:3] == ("streamWaitEvent", 0, side.ptr), "within it, other streams are"
    stream.wait_stream(side)
    recorded = begun.end()
    assert transforms.cached["key"].plan in begun.kept.values()
    cuda.set_stream(stream)
    calls(fake)
    cuda.replay(recorded, 0)
    names = [call[:3] for call in calls(fake)]
    assert names == [
        ("streamWaitEvent", 0, stream.ptr), ("graphLaunch", 0, stream.ptr),
        ("eventRecord", 0, stream.ptr),
    ]  # fmt: skip
    cuda.replay(recorded, 0)
    assert [name for name, *_ in calls(fake)] == ["graphLaunch", "eventRecord"]
    assert [name for name, *_ in transforms.on(eager)][:1] == ["streamWaitEvent"]


def test_a_graph_without_transforms_is_cupys(cuda, fake):
    graph = cuda.begin_capture(cuda.Stream(0), (10, 0), "global").end()
    assert type(graph).__name__ == "Graph"


# Functions that do not call the driver, call it only at the start, or need no device.
SILENT = (
    "name is_emulated is_available unavailable_reason device_count current_device set_device "
    "exchange_device memory_allocated memory_reserved memory_stats memory_snapshot "
    "reset_peak_memory_stats set_memory_limit Event current_stream default_stream set_stream "
    "external_stream compile check_stream nccl reset_after_fork"
).split()


def test_no_entry_lets_an_error_of_cupy_out(cuda, fake, monkeypatch):
    """Add a new entry to one of the two lists; also add methods of objects that entries return."""
    stream, event, memory = cuda.Stream(0), cuda.Event(enable_timing=True), cuda.allocate(8, 0)
    pinned, function = cuda.pinned_allocate(8), cuda.load(b"image", "k", 0)
    borrowed = cuda.external_stream(0, 0x77)
    event.record(stream)
    launched = function, (1, 1, 1), (1, 1, 1), 0, stream, bytes(8)
    run = cuda.launcher(*launched[:4])
    run(bytes(8))
    graph = cuda.begin_capture(stream, (1, 0), "global").end()
    libs = types.ModuleType("cupy_backends.cuda.libs")
    libs.cublas = fake
    monkeypatch.setitem(sys.modules, libs.__name__, libs)

    def call_cublas():
        with cuda.blas("mm", 0) as (routines, _handle):
            routines._check()

    entries = {
        "device_name": lambda: cuda.device_name(0),
        "capability": lambda: cuda.capability(0),
        "arch": lambda: cuda.arch(0),
        "limits": lambda: cuda.limits(0),
        "prefer_shared": lambda: cuda.prefer_shared(function, 1 << 10),
        "mem_get_info": lambda: cuda.mem_get_info(0),
        "can_access_peer": lambda: cuda.can_access_peer(0, 1),
        "allocate": lambda: cuda.allocate(99 << 20, 0),
        "empty_cache": cuda.empty_cache,
        "record_stream": lambda: cuda.record_stream(memory, borrowed),
        "Stream": lambda: cuda.Stream(1, -3),
        "copy_async": lambda: cuda.copy_async(memory.ptr, 0, pinned.ptr, -1, 8, stream),
        "copy_async between devices": lambda: cuda.copy_async(memory.ptr, 0, 4096, 1, 8, stream),
        "memset_async": lambda: cuda.memset_async(memory.ptr, 0, 8, 0, stream),
        "pinned_allocate": lambda: cuda.pinned_allocate(8),
        "synchronize": lambda: cuda.synchronize(0),
        "load": lambda: cuda.load(b"another", "k", 0),
        "launch": lambda: cuda.launch(*launched),
        "launcher": lambda: run(bytes(8)),
        "taker": cuda.taker(1 << 40, 0),
        "call_library": lambda: cuda.call_library("sort", lambda library: fake._check(), (), (), 0),
        "blas": call_cublas,
        "begin_capture": lambda: cuda.begin_capture(stream, (1, 0), "global"),
        "replay": lambda: cuda.replay(graph, 0),
        "device_of": lambda: cuda.device_of(memory.ptr),
        "symbol": lambda: function.symbol("table"),
        **{
            f"stream.{name}": getattr(stream, name)
            for name in ("synchronize", "query", "record_event")
        },
        "stream.wait_event": lambda: stream.wait_event(event),
        "stream.wait_stream": lambda: stream.wait_stream(cuda.default_stream(0)),
        **{
            f"event.{name}": getattr(event, name)
            for name in ("synchronize", "query", "has_passed", "record", "wait")
        },
        "event.elapsed_time": lambda: event.elapsed_time(event),
    }
    assert set(runtime.INTERFACE) == {name for name in entries if name in runtime.INTERFACE} | set(
        SILENT
    )
    for made in (stream, event):
        public = {
            n for n in dir(type(made)) if callable(getattr(made, n)) and not n.startswith("_")
        }
        assert public - {"record_or_fail"} <= {name.partition(".")[2] for name in entries}, public
    for failure in (RuntimeFailure(700), DriverFailure(700), RuntimeFailure(1)):
        for name, entry in entries.items():
            fake.fail, fake.status = failure, failure.status
            try:
                with pytest.raises(errors.GpuTensorError) as caught:
                    entry()
            finally:
                fake.fail, fake.status = None, 0
            assert "cudaError" in str(caught.value) and "\n" not in str(caught.value), name
            assert fake.device == 0, name
    assert cuda.first_failure() == ILLEGAL
    memory = None
    assert cuda.allocate(8, 0).nbytes == 8, "the allocator has come through it"


def test_a_capture_is_the_drivers_and_a_replay_one_call_of_it(cuda, fake, monkeypatch):
    """The driver allocates memory in relaxed mode; no other call of the driver is made during a
    capture."""
    modes = []

    def exchange(mode):
        modes.append(mode._obj.value)
        mode._obj.value = 2 - mode._obj.value
        return 0

    library = types.SimpleNamespace(cuThreadExchangeStreamCaptureMode=exchange)
    monkeypatch.setattr(cuda.driver.ctypes, "CDLL", lambda name: {"libcuda.so.1": library}[name])
    stream = cuda.Stream(1)
    cuda.device_count()
    fake.device = 1
    cuda.set_stream(stream)
    fake.device = 0
    calls(fake)
    begun = cuda.begin_capture(stream, (7, 0), "thread_local")
    memory = cuda.allocate(100, 1)
    assert memory.block.stream.key == stream.key and modes == [2, 0]
    graph = begun.end()
    names = ["streamBeginCapture", "malloc", "streamEndCapture"]
    assert [(name, device) for name, device, *_ in fake.calls] == [(name, 1) for name in names]
    assert calls(fake)[0][2:] == (stream.ptr, 1) and not capture.capturing
    held = memory.ptr
    del memory
    assert cuda.allocate(100, 1).ptr != held, "it is the graph's"
    calls(fake)
    cuda.replay(graph, 1)
    assert calls(fake) == [("graphLaunch", 1, stream.ptr)] and fake.device == 0


def relaxed(cuda, monkeypatch):
    library = types.SimpleNamespace(cuThreadExchangeStreamCaptureMode=lambda mode: 0)
    monkeypatch.setattr(cuda.driver.ctypes, "CDLL", lambda name: library)


@pytest.mark.parametrize("is_marked_before", [True, False])
def test_the_first_draw_of_a_capture_asks_for_no_event(cuda, fake, monkeypatch, is_marked_before):
    """Memory of a draw is outside of the graph's pool, but the capture is still in progress."""
    relaxed(cuda, monkeypatch)
    stream, side = cuda.Stream(0), cuda.Stream(0)
    cuda.set_stream(stream)
    dropped, later = cuda.allocate(100, 0), cuda.allocate(100, 0)
    cuda.record_stream(dropped, side)
    if is_marked_before:
        fake.status = 600  # Events have not passed.
        dropped = None
        cuda.allocate(1 << 20, 0)  # This records the event.
    calls(fake)
    begun = cuda.begin_capture(stream, (7, 0), "global")
    dropped = None
    place, first = capture.draw(cuda, "generator", 3, 0)
    assert type(place) is capture.Place and first == 0
    memory = begun.draws["generator", 0].memory
    begun.end()
    names = [name for name, *_ in calls(fake)]
    assert names == ["streamBeginCapture", "streamEndCapture"], "the driver rejects other calls"
    assert memory.block.stream.key == stream.key and later.ptr != memory.ptr
    assert memory.block.pool is not None and not cuda.memory.allocators[0]._aside


def test_a_thread_that_captures_asks_for_no_event_of_another_device(cuda, fake, monkeypatch):
    relaxed(cuda, monkeypatch)
    stream, side = cuda.Stream(0), cuda.Stream(1)
    cuda.set_stream(stream)
    dropped, kept = cuda.allocate(100, 1), cuda.allocate(100, 1)
    cuda.record_stream(dropped, side)
    begun = cuda.begin_capture(stream, (7, 0), "global")
    calls(fake)
    del dropped, kept
    assert cuda.allocate(100, 1).nbytes == 100
    assert not calls(fake)
    begun.end()


def test_other_threads_know_of_a_capture_before_the_driver(cuda, fake, monkeypatch):
    stream, seen = cuda.Stream(0), []
    begin = stream.cupy.begin_capture
    monkeypatch.setattr(
        stream.cupy,
        "begin_capture",
        lambda mode: (seen.append([*capture.capturing]), begin(mode)),
    )
    begun = cuda.begin_capture(stream, (12, 0), "global")
    begun.end()
    assert seen == [[begun]]
    fake.fail = RuntimeFailure(1)
    with pytest.raises(errors.KernelError):
        cuda.begin_capture(stream, (12, 0), "global")
    assert not capture.capturing and not cuda.memory.allocators[0]._aside


def test_a_capture_that_the_driver_ends_leaves_nothing_behind(cuda, fake):
    stream = cuda.Stream(0)
    cuda.set_stream(stream)
    for status, words in ((904, "has not waited for"), (901, "StreamCaptureInvalidated")):
        begun = cuda.begin_capture(stream, (8, 0), "global")
        fake.fail = RuntimeFailure(status)
        with pytest.raises(errors.GpuTensorError, match=words):
            begun.end()
        fake.fail = None
        assert not capture.capturing and not cuda.memory.allocators[0]._aside


def test_a_run_of_tests_stops_where_a_device_is_lost(cuda, fake, monkeypatch):
    session = types.SimpleNamespace(shouldstop=False)
    monkeypatch.setattr(runtime, "_chosen", cuda)
    stop_where_a_device_is_lost(session)
    assert not session.shouldstop
    fake.status = 700
    with pytest.raises(errors.KernelError):
        cuda.default_stream(0).query()
    stop_where_a_device_is_lost(session)
    assert session.shouldstop == f"a GPU is of no more use to this process: {ILLEGAL}"


def test_a_query_tells_work_that_goes_on_from_a_failure(cuda, fake):
    stream, event = cuda.Stream(0), cuda.Event()
    event.record(stream)
    assert stream.query() and event.query()
    fake.status = 600
    assert not stream.query() and not event.query()
    fake.status = 700
    with pytest.raises(errors.KernelError, match="IllegalAddress"):
        stream.query()
    with pytest.raises(errors.KernelError, match="IllegalAddress"):
        event.query()


def test_peer_access_is_enabled_once_for_each_pair(cuda, fake):
    fake.reachable.add((1, 0))  # another library enabled it first
    for _ in range(2):
        cuda.copy_async(10, 0, 20, 1, 5, cuda.default_stream(1))
    cuda.copy_async(10, 1, 20, 0, 5, cuda.default_stream(0))
    assert [c[:3] for c in calls(fake) if "Peer" in c[0] and "memcpy" not in c[0]] == [
        ("deviceEnablePeerAccess", 0, 1),
        ("deviceEnablePeerAccess", 1, 0),
    ]
    assert fake.reachable == {(0, 1), (1, 0)} and fake.device == 0


def test_copies(cuda, fake):
    stream = cuda.Stream(1)
    calls(fake)
    cuda.copy_async(10, 1, 20, 1, 5, stream)
    cuda.copy_async(10, 1, 20, -1, 5, stream)
    cuda.copy_async(10, -1, 20, 1, 5, stream)
    cuda.copy_async(10, 0, 20, 1, 5, stream)
    del fake.calls[-3:-1]  # peer access, which another test covers
    cuda.copy_async(10, 0, 20, 1, 0, stream)
    cuda.memset_async(10, 255, 5, 1, stream)
    assert calls(fake) == [
        ("memcpyAsync", 1, 10, 20, 5, 3, stream.ptr),
        ("memcpyAsync", 1, 10, 20, 5, 1, stream.ptr),
        ("memcpyAsync", 1, 10, 20, 5, 2, stream.ptr),
        ("memcpyPeerAsync", 1, 10, 0, 20, 1, 5, stream.ptr),
        ("memsetAsync", 1, 10, 255, 5, stream.ptr),
    ]


def test_pinned_memory_lives_until_its_stream_has_passed_it(cuda, fake):
    stream = cuda.Stream(0)
    pinned = cuda.pinned_allocate(10)
    pinned.array[:] = 7
    assert (
        pinned.nbytes == 10 and pinned.array.dtype == np.uint8 and pinned._owner[:10] == b"\7" * 10
    )
    cuda.copy_async(1, 0, pinned.ptr + 3, -1, 5, stream)
    (((event, owner),),) = cuda.memory._staging.in_flight.values()
    event.cupy.done = False
    assert owner is pinned._owner
    cuda.copy_async(1, 0, pinned.ptr + 64, -1, 5, stream)  # not ours
    assert [len(queue) for queue in cuda.memory._staging.in_flight.values()] == [1]
    del pinned
    assert cuda.pinned_allocate(0).array.size == 0 and len(cuda.memory._staging.in_flight) == 1
    event.cupy.done = True
    cuda.pinned_allocate(1)
    cuda.memory._staging.settle()
    assert not cuda.memory._staging.in_flight and len(cuda.memory._staging) == 0


def test_copies_from_one_pinned_buffer_keep_no_more_than_is_in_flight(cuda, fake):
    pinned, stream = cuda.pinned_allocate(8), cuda.Stream(0)
    for _ in range(100):
        cuda.copy_async(1, 0, pinned.ptr, -1, 8, stream)
    (queue,) = cuda.memory._staging.in_flight.values()
    assert len(queue) == 1
    queue[0][0].cupy.done = False
    cuda.copy_async(1, 0, pinned.ptr, -1, 8, stream)
    assert len(queue) == 2


def test_a_thread_that_finds_a_copy_done_drops_no_other(cuda, fake):
    """Two threads examine the first entry at once; neither may remove the second entry instead."""
    first, second, stream = cuda.pinned_allocate(8), cuda.pinned_allocate(8), cuda.Stream(0)
    for pinned in (first, second):
        cuda.copy_async(1, 0, pinned.ptr, -1, 8, stream)
        (queue,) = cuda.memory._staging.in_flight.values()
        queue[-1][0].cupy.done = False
    first_event, second_event = [event for event, _ in queue]
    first_event.cupy.done = True
    query, nested = cuda.driver._runtime.eventQuery, []

    def asked(ptr):
        if not nested:  # the simultaneous action of another thread
            nested.append(other.submit(cuda.pinned_allocate, 8))
            with contextlib.suppress(TimeoutError):
                nested[0].result(0.05)
        return query(ptr)

    with ThreadPoolExecutor(1) as other:
        cuda.driver._runtime.eventQuery = asked
        cuda.pinned_allocate(8)
        nested[0].result()
    assert [event for event, _ in queue] == [second_event]


def test_a_finaliser_that_stages_a_copy_drops_no_other(cuda, fake):
    """The same happens in one thread if garbage collection runs a finaliser inside an event's
    query."""
    first, second, stream = cuda.pinned_allocate(8), cuda.pinned_allocate(8), cuda.Stream(0)
    cuda.copy_async(1, 0, first.ptr, -1, 8, stream)
    (queue,) = cuda.memory._staging.in_flight.values()
    query, nested = cuda.driver._runtime.eventQuery, []

    def asked(ptr):
        if not nested:
            nested.append(cuda.pinned_allocate(8))
            cuda.copy_async(1, 0, second.ptr, -1, 8, stream)
            queue[-1][0].cupy.done = False
        return query(ptr)

    cuda.driver._runtime.eventQuery = asked
    cuda.pinned_allocate(8)
    assert [owner for _, owner in queue] == [second._owner]
    assert list(cuda.memory._staging.in_flight.values()) == [queue]


TEXT = '#line 1 "family.cu"\nextern "C" __global__ void k(P p) {}'


def test_compile_goes_through_nvrtc_with_our_options_and_the_cache(cuda, fake, monkeypatch):
    image = cuda.compile(TEXT, [{"OP": "add", "N": 3}], "sm_90")
    assert image.endswith(b"\0")
    options = "('--std=c++17', '-fmad=false', '-arch=sm_90', '-DOP=add', '-DN=3')"
    assert f"'family.cu', {options}]".encode() in image
    monkeypatch.setattr(kernel_cache, "_known", {})
    assert cuda.compile(TEXT, [{"OP": "add", "N": 3}], "sm_90") == image
    assert fake.module.cuda.nvrtc.compiled == 1
    assert cuda.compile(TEXT, [{}], "compute_90") == b"PTX\0"
    (entry, *_) = [e for e in kernel_cache.entries() if "OP" in e.label]
    assert entry.label == "family.cu -arch=sm_90 -DOP=add -DN=3"
    with pytest.raises(
        errors.KernelError,
        match=r"family\.cu: does not compile with -DOP=add\nfamily\.cu\(3\): error",
    ):
        cuda.compile(TEXT + "\n#error", [{"OP": "add"}], "sm_90")


@pytest.mark.parametrize(
    ("number", "arch"),
    [(90, "sm_90"), (89, "sm_86"), (88, "sm_86"), (100, "compute_90"), (75, "sm_75")],
)
def test_the_nearest_architecture(fake, number, arch):
    from gputensor.runtime.compilation import nvrtc

    assert nvrtc.nearest_arch(fake.module.cuda.nvrtc, number) == arch


@pytest.mark.parametrize(
    ("supported", "number", "least"), [(None, 70, 75), ((50, 60, 61, 70, 80), 61, 70)]
)
def test_an_architecture_that_is_too_old(fake, monkeypatch, supported, number, least):
    from gputensor.runtime.compilation import nvrtc

    binding = fake.module.cuda.nvrtc
    if supported:
        monkeypatch.setattr(binding, "getSupportedArchs", lambda: supported)
    what = rf"sm_{number} is too old: NVRTC 12\.9 compiles our kernels for sm_{least} and newer"
    with pytest.raises(errors.DeviceError, match=what):
        nvrtc.nearest_arch(binding, number)


def test_limits_are_the_devices_attributes_and_asked_once(cuda, fake, monkeypatch):
    asked = []
    monkeypatch.setattr(
        fake.module.cuda.runtime, "deviceGetAttribute",
        lambda attribute, device: asked.append((attribute, device)) or ATTRIBUTES[attribute],
    )  # fmt: skip
    assert cuda.limits(1) == device_limits.H100 == cuda.limits(1)
    assert len(asked) == len(device_limits.Limits._fields)
    assert {device for _, device in asked} == {1}
    with pytest.raises(errors.DeviceError, match="limits: 'device' must be in"):
        cuda.limits(2)


@pytest.mark.skipif(REAL is None, reason="CuPy is not there, or has a driver")
def test_the_numbers_of_attributes_are_cupys():
    known = {
        n: getattr(REAL.runtime, f"cudaDevAttr{n}", number) for n, (number, _) in NAMED.items()
    }
    assert known == {name: number for name, (number, _) in NAMED.items()}


def test_shared_memory_is_preferred_once_and_never_less(cuda, fake):
    function = cuda.load(b"image", "k", 1)
    calls(fake)
    for nbytes in (100 << 10, 100 << 10, 50 << 10, 300 << 10):
        cuda.prefer_shared(function, nbytes)
    wanted = [("funcSetAttribute", 1, 0xF01, 9, percent) for percent in (44, 100)]
    assert calls(fake) == wanted and fake.device == 0


def test_more_shared_memory_than_a_block_may_have_is_said_in_bytes(cuda, fake):
    function, stream = cuda.load(b"image", "k", 0), cuda.Stream(0)
    assert cuda.limits(0).block_shared_bytes == 232448
    fake.fail = DriverFailure("CUDA_ERROR_INVALID_VALUE")
    with pytest.raises(errors.GpuTensorError, match=r"'shared_bytes' must be in \[0, 232448\]"):
        cuda.launch(function, (1, 1, 1), (1, 1, 1), 232449, stream, bytes(8))


def test_launch_packs_the_struct_and_switches_the_device(cuda, fake):
    function = cuda.load(b"image", "k", 1)
    assert cuda.load(b"image", "other", 1).device_index == 1
    assert [c[:2] for c in calls(fake)] == [
        ("moduleLoadData", 1),
        ("moduleGetFunction", 1),
        ("moduleGetFunction", 1),
    ]
    stream = cuda.Stream(1)
    cuda.launch(function, (2, 3, 4), (32, 2, 1), 0, stream, b"abcdefgh")
    cuda.launch(function, (1, 1, 1), (1, 1, 1), 60000, stream, b"hgfedcba")
    cuda.launch(function, (1, 1, 1), (1, 1, 1), 60000, stream, b"hgfedcba")
    assert calls(fake) == [
        ("launchKernel", 1, 0xF01, (2, 3, 4), (32, 2, 1), 0, stream.ptr, b"abcdefgh"),
        ("funcSetAttribute", 1, 0xF01, 8, 60000),
        ("launchKernel", 1, 0xF01, (1, 1, 1), (1, 1, 1), 60000, stream.ptr, b"hgfedcba"),
        ("launchKernel", 1, 0xF01, (1, 1, 1), (1, 1, 1), 60000, stream.ptr, b"hgfedcba"),
    ]
    assert fake.device == 0


def test_shared_memory_that_a_kernel_declares_counts_into_what_needs_no_leave(cuda, fake):
    fake.static_shared = 20 << 10
    function, stream = cuda.load(b"image", "k", 0), cuda.Stream(0)
    calls(fake)
    cuda.launch(function, (1, 1, 1), (1, 1, 1), 28 << 10, stream, bytes(8))
    cuda.launch(function, (1, 1, 1), (1, 1, 1), 40 << 10, stream, bytes(8))
    names = ["launchKernel", "funcSetAttribute", "launchKernel"]
    assert [c[0] for c in calls(fake)] == names


def test_a_thread_that_never_used_the_device_has_a_context_for_modules_of_others(cuda, fake):
    cuda.load(b"image", "k", 0)
    with ThreadPoolExecutor(1) as other:
        function = other.submit(cuda.load, b"image", "another", 0).result()
    with ThreadPoolExecutor(1) as other:
        assert other.submit(function.symbol, "table").result() == (0xC000, None)
    with ThreadPoolExecutor(1) as other:
        stream = cuda.Stream(0)
        other.submit(cuda.launch, function, (1, 1, 1), (1, 1, 1), 0, stream, bytes(8)).result()


def test_a_launcher_does_what_launch_does_on_the_current_stream(cuda, fake):
    """The thread may have another current device or stream, or no context."""
    function, side = cuda.load(b"image", "k", 1), cuda.Stream(1)
    run = cuda.launcher(function, (2, 3, 4), (32, 2, 1))
    large = cuda.launcher(function, (1, 1, 1), (1, 1, 1), 60000)
    fake.calls.clear()
    run(b"abcdefgh")
    cuda.exchange_device(1)
    run(b"hgfedcba")
    before = cuda.set_stream(side)
    run(b"bcdefghi")
    large(b"bcdefghi")
    large(b"bcdefghi")
    with ThreadPoolExecutor(1) as other:
        other.submit(run, b"cdefghij").result()
    kinds = ("launchKernel", "funcSetAttribute")
    made = [call[:1] + call[6:] for call in fake.calls if call[0] in kinds]
    null, ptr = before.ptr, side.ptr
    assert made == [
        ("launchKernel", null, b"abcdefgh"), ("launchKernel", null, b"hgfedcba"),
        ("launchKernel", ptr, b"bcdefghi"), ("funcSetAttribute",),
        ("launchKernel", ptr, b"bcdefghi"), ("launchKernel", ptr, b"bcdefghi"),
        ("launchKernel", ptr, b"cdefghij"),
    ]  # fmt: skip
    assert fake.device == 1 and all(call[1] == 1 for call in fake.calls)
    cuda.set_stream(before)
    with pytest.raises(errors.GpuTensorError, match="k: 'params' must have at most 4096 bytes"):
        run(bytes(5000))
    with pytest.raises(errors.GpuTensorError, match=r"k: launch with grid \(2, 3, 4\).* failed"):
        fake.fail = DriverFailure("CUDA_ERROR_INVALID_VALUE: invalid argument")
        run(bytes(8))


def test_a_launcher_of_before_a_fork_asks_the_driver_for_nothing(cuda, fake):
    run = cuda.launcher(cuda.load(b"image", "k", 0), (1, 1, 1), (1, 1, 1))
    run(bytes(8))
    cuda.reset_after_fork()
    fake.calls.clear()
    with pytest.raises(errors.GpuTensorError, match="cuda: no device"):
        run(bytes(8))
    assert not fake.calls


def test_a_launch_that_fails_names_its_grid(cuda, fake):
    function, stream = cuda.load(b"image", "k", 0), cuda.Stream(0)
    with pytest.raises(errors.KernelError, match="k: 'params' must have at most 4096 bytes"):
        cuda.launch(function, (1, 1, 1), (1, 1, 1), 0, stream, bytes(5000))
    fake.fail = DriverFailure("CUDA_ERROR_INVALID_VALUE: invalid argument")
    what = r"k: launch with grid \(0, 1, 1\), block \(1, 1, 1\), "
    what += r"0 bytes of shared memory failed: CUDA_ERROR_INV"
    with pytest.raises(errors.KernelError, match=what):
        cuda.launch(function, (0, 1, 1), (1, 1, 1), 0, stream, bytes(8))
    with pytest.raises(errors.KernelError, match="k: 'stream' must be of cuda:0"):
        fake.fail = None
        other = cuda.Stream(1)
        fake.fail = DriverFailure("CUDA_ERROR_INVALID_HANDLE")
        cuda.launch(function, (1, 1, 1), (1, 1, 1), 0, other, bytes(8))
    with pytest.raises(errors.KernelError, match="k: loading it on cuda:1 failed: CUDA_ERROR"):
        cuda.load(b"other image", "k", 1)
    assert fake.device == 0


LIBRARIES = ("cusolver", "nccl")


def test_every_name_used_of_cupy_exists_there():
    cupy = pytest.importorskip("cupy")
    spec = importlib.util.find_spec("gputensor.runtime.cuda")
    files = Path(spec.origin).parent.glob("*.py")
    trees = [ast.parse(file.read_text()) for file in files]
    aliases = {"_runtime": cupy.cuda.runtime, "_driver": cupy.cuda.driver}
    used = set()
    for node in itertools.chain(*map(ast.walk, trees)):
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node).split(".")
            if text[0] in aliases and len(text) == 2:
                used.add((aliases[text[0]].__name__, text[1]))
                assert hasattr(aliases[text[0]], text[1]), text
            elif text[:2] == ["cupy", "cuda"] and len(text) == 3:
                used.add(("cupy.cuda", text[2]))
                # A library is loaded on first use; some machines lack some of them.
                assert text[2] in LIBRARIES or hasattr(cupy.cuda, text[2]), text
    assert len(used) > 20
