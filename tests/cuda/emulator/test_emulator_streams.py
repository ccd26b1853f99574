"""Streams of the emulator run in orders that a GPU may choose, to detect a missing wait."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from gputensor.core import errors
from gputensor.runtime.emulator import queues

from ..support import Device, fresh_emulator, requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]

ORDERS = ("eager", "lazy", "random")

TEXT = """
struct P { float* out; float value; int n; };
extern "C" __global__ void put(const __grid_constant__ P p) {
  for (int i = threadIdx.x; i < p.n; i += blockDim.x) p.out[i] = p.value;
}
extern "C" __global__ void add(const __grid_constant__ P p) {
  for (int i = threadIdx.x; i < p.n; i += blockDim.x) p.out[i] += p.value;
}
extern "C" __global__ void wrong(const __grid_constant__ P p) { p.out[p.n] = p.value; }
"""


def device_with(monkeypatch, order, **settings):
    device = Device(fresh_emulator(monkeypatch, order=order, **settings))
    kernels = {name: device.kernel(TEXT, name) for name in ("put", "add", "wrong")}

    def run(name, memory, value, stream=None, n=16):
        device.launch(kernels[name], 1, 32, "Qfi", memory, value, n, stream=stream)

    return device, run


@pytest.mark.parametrize("order", ORDERS)
def test_one_stream_keeps_its_order(monkeypatch, order):
    device, run = device_with(monkeypatch, order)
    memory = device.runtime.allocate(64, 0)
    run("put", memory, 1)
    for _ in range(5):
        run("add", memory, 2)
    assert (device.get(memory) == 11).all()


@pytest.mark.parametrize("order", ORDERS)
def test_an_event_orders_two_streams(monkeypatch, order):
    device, run = device_with(monkeypatch, order)
    runtime = device.runtime
    first, second = runtime.Stream(0), runtime.Stream(0, priority=-1)
    for _ in range(20):
        memory = runtime.allocate(64, 0)
        first.wait_stream(device.stream)
        run("put", memory, 1, first)
        event = runtime.Event()
        event.record(first)
        second.wait_event(event)
        run("add", memory, 2, second)
        first.wait_stream(second)
        run("add", memory, 4, first)
        assert (device.get(memory, stream=first) == 7).all()


def test_a_missing_wait_shows_when_lazy(monkeypatch):
    device, run = device_with(monkeypatch, "lazy")
    runtime = device.runtime
    side = runtime.Stream(0)
    memory = runtime.allocate(64, 0)
    run("put", memory, 1)
    runtime.synchronize(0)
    run("add", memory, 1, side)  # and the host does not wait for it
    assert (device.get(memory) == 1).all()
    side.synchronize()
    assert (device.get(memory) == 2).all()


def test_a_missing_wait_shows_under_some_seed(monkeypatch):
    seen = set()
    for seed in range(12):
        device, run = device_with(monkeypatch, "random", seed=seed)
        side = device.runtime.Stream(0)
        memory = device.runtime.allocate(64, 0)
        run("put", memory, 1)
        run("put", memory, 2, side)
        device.runtime.synchronize(0)
        seen.add(device.get(memory)[0])
    assert seen == {1.0, 2.0}


def test_a_copy_to_pageable_memory_is_waited_for_and_one_to_pinned_is_not(monkeypatch):
    device, run = device_with(monkeypatch, "lazy")
    runtime, stream = device.runtime, device.stream
    memory = runtime.allocate(64, 0)
    pinned = runtime.pinned_allocate(64)
    pinned.array[:] = 0
    run("put", memory, 3)
    runtime.copy_async(pinned.ptr, -1, memory.ptr, 0, 64, stream)
    assert (pinned.array == 0).all()
    stream.synchronize()
    assert (pinned.array.view(np.float32) == 3).all()
    assert (device.get(memory) == 3).all()


def test_pageable_memory_may_change_after_a_copy_from_it_and_pinned_may_not(monkeypatch):
    device, _ = device_with(monkeypatch, "lazy")
    runtime, stream = device.runtime, device.stream
    pageable, pinned = np.ones(16, np.float32), runtime.pinned_allocate(64)
    pinned.array.view(np.float32)[:] = 1
    a, b = runtime.allocate(64, 0), runtime.allocate(64, 0)
    runtime.copy_async(a.ptr, 0, pageable.ctypes.data, -1, 64, stream)
    runtime.copy_async(b.ptr, 0, pinned.ptr, -1, 64, stream)
    pageable[:] = 2
    pinned.array.view(np.float32)[:] = 2
    assert (device.get(a) == 1).all()
    assert (device.get(b) == 2).all()


def test_pinned_memory_outlives_the_copies_queued_from_it(monkeypatch):
    device, _ = device_with(monkeypatch, "lazy")
    runtime = device.runtime
    memory = runtime.allocate(64, 0)
    pinned = runtime.pinned_allocate(64)
    pinned.array.view(np.float32)[:] = 5
    runtime.copy_async(memory.ptr, 0, pinned.ptr + 32, -1, 32, device.stream)
    address = pinned.ptr
    view = pinned.array[32:]
    del pinned
    assert view.view(np.float32)[0] == 5  # a view keeps it
    del view
    gc.collect()
    assert runtime.devices.machine.find(address) is not None
    assert (device.get(memory)[:8] == 5).all()
    assert runtime.devices.machine.find(address) is None


@pytest.mark.parametrize("order", ORDERS)
def test_memory_dropped_with_work_queued_on_its_stream(monkeypatch, order):
    device, run = device_with(monkeypatch, order)
    runtime = device.runtime
    result = runtime.allocate(64, 0)
    for value in range(10):
        temporary = runtime.allocate(64, 0)
        run("put", temporary, value)
        runtime.copy_async(result.ptr, 0, temporary.ptr, 0, 64, device.stream)
        del temporary
        other = runtime.allocate(64, 0)
        run("put", other, -1)
        assert (device.get(result) == value).all()


def test_memory_used_on_a_second_stream(monkeypatch):
    device, run = device_with(monkeypatch, "lazy")
    runtime = device.runtime
    side = runtime.Stream(0)
    result = runtime.allocate(64, 0)
    for recorded in (True, False):
        temporary = runtime.allocate(64, 0)
        run("put", temporary, 4)
        side.wait_stream(device.stream)
        runtime.copy_async(result.ptr, 0, temporary.ptr, 0, 64, side)
        if recorded:
            runtime.record_stream(temporary, side)
        del temporary
        device.stream.synchronize()
        got = device.get(result, stream=side)
        # without record_stream the bytes would be those of freed memory
        assert (got == 4).all() if recorded else (got.view(np.uint32) == 0xDDDDDDDD).all()
    run("put", result, 1)
    runtime.synchronize(0)


def test_a_late_write_to_freed_memory_is_named(monkeypatch):
    device, run = device_with(monkeypatch, "lazy")
    side = device.runtime.Stream(0)
    memory = device.runtime.allocate(64, 0)
    run("put", memory, 4, side)
    del memory
    device.stream.synchronize()
    with pytest.raises(
        errors.KernelError,
        match="written to after it was freed; a stream used it without record_stream",
    ):
        device.runtime.synchronize(0)


@pytest.mark.parametrize("order", ORDERS)
def test_a_failure_surfaces_at_the_next_synchronisation(monkeypatch, order):
    device, run = device_with(monkeypatch, order)
    memory = device.runtime.allocate(64, 0)
    sentence = "wrong: wrote out of bounds: 0 bytes past the end"
    if order == "eager":
        with pytest.raises(errors.KernelError, match=sentence):
            run("wrong", memory, 1)
    else:
        side = device.runtime.Stream(0)
        if order == "lazy":
            run("wrong", memory, 1, side)
        with pytest.raises(errors.KernelError, match=sentence):
            if order == "random":
                run("wrong", memory, 1, side)
            side.synchronize()
    device.runtime.synchronize(0)


def test_queries_come_to_an_end(monkeypatch):
    device, run = device_with(monkeypatch, "lazy")
    memory = device.runtime.allocate(64, 0)
    assert device.runtime.Event().query()
    for _ in range(3):
        run("put", memory, 1)
    event = device.stream.record_event()
    run("put", memory, 2)
    polls = 0
    while not event.query():
        polls += 1
    assert polls == 3
    run("put", memory, 3)
    assert not device.stream.query()
    assert device.stream.query()


@pytest.mark.parametrize("what", ["stream", "event"])
def test_a_query_raises_what_the_work_did_wrong(monkeypatch, what):
    device, run = device_with(monkeypatch, "lazy")
    memory = device.runtime.allocate(64, 0)
    run("wrong", memory, 1)
    event = device.stream.record_event()
    asked = device.stream if what == "stream" else event
    with pytest.raises(errors.KernelError, match="wrong: wrote out of bounds"):
        while not asked.query():
            pass
    assert asked.query() or asked.query()


def test_event_times(monkeypatch):
    device, run = device_with(monkeypatch, "eager")
    memory = device.runtime.allocate(64, 0)
    begin, end = (device.runtime.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(errors.GpuTensorError, match="elapsed_time"):
        begin.elapsed_time(end)
    begin.record()
    run("put", memory, 1)
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) > 0
    with pytest.raises(errors.GpuTensorError, match="got no timing"):
        begin.elapsed_time(device.stream.record_event())


def test_current_streams_belong_to_a_device_and_a_thread(monkeypatch):
    import threading

    runtime = fresh_emulator(monkeypatch, devices=2)
    side = runtime.Stream(1)
    assert runtime.set_stream(side) is runtime.default_stream(1)
    assert runtime.current_stream(1) is side
    assert runtime.current_stream(0) is runtime.default_stream(0)
    assert runtime.exchange_device(1) == 0
    seen = []
    thread = threading.Thread(
        target=lambda: seen.extend((runtime.current_stream(1), runtime.current_device()))
    )
    thread.start()
    thread.join()
    assert seen == [runtime.default_stream(1), 0]
    assert runtime.current_device() == 1
    with pytest.raises(
        errors.DeviceError, match=r"set_device: 'device' must be in \[0, 1\] \(got 2\)"
    ):
        runtime.set_device(2)


def test_out_of_memory_has_the_figures_and_waits_for_queued_frees(monkeypatch):
    device, run = device_with(monkeypatch, "lazy", memory=4096)
    runtime = device.runtime
    first = runtime.allocate(3000, 0)
    run("put", first, 1)
    with pytest.raises(
        errors.OutOfMemoryError, match=r"cuda:0: cannot allocate 2\.00 KiB \(in tensors 3\.00 KiB"
    ):
        runtime.allocate(2000, 0)
    assert runtime.mem_get_info(0) == (1096, 4096)
    del first
    assert runtime.memory_allocated(0) == 0
    second = runtime.allocate(4000, 0)  # runs the queue that contains the free
    runtime.set_memory_limit(0, 4096)
    with pytest.raises(MemoryError, match="limit 4.00 KiB"):
        runtime.allocate(10, 0)
    runtime.set_memory_limit(0, None)
    assert runtime.memory_stats(0)["num_ooms"] == 2
    assert [block["size"] for block in runtime.memory_snapshot()] == [4096]
    del second


def test_a_thousand_streams_that_wait_for_each_other(monkeypatch):
    device, run = device_with(monkeypatch, "lazy")
    memory = device.runtime.allocate(64, 0)
    run("put", memory, 0)
    streams = [device.runtime.Stream(0) for _ in range(100)]
    last = device.stream
    for stream in streams * 10:
        stream.wait_stream(last)
        run("add", memory, 1, stream)
        last = stream
    assert (device.get(memory, stream=last) == 1000).all()


FORK = """
import os
from gputensor import runtime
module = runtime.cuda()
memory = module.allocate(64, 0)
child = os.fork()
if child == 0:
    del memory
    try:
        runtime.cuda().allocate(64, 0)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
module.synchronize(0)
"""

FORK_WITH_PLANS = """
import os
import gputensor as gt
a, b = gt.ones(4, device="cuda"), gt.ones(4, device="cuda")
calls = [lambda: a.add_(b), lambda: a + b, lambda: a.sum(), lambda: gt.empty(4, device="cuda")]
for call in calls * 3:
    call()
gt.cuda.synchronize()
child = os.fork()
if child == 0:
    for call in calls:
        try:
            call()
        except RuntimeError as error:
            print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
os._exit(0)
"""


FORK_IN_A_LAUNCH = """
import os, threading
from gputensor import runtime
module = runtime.cuda()
pinned = module.pinned_allocate(64)
lock = module.devices.machine.lock
threading.Thread(target=lock.acquire).start()  # as a launch does, in the parent
child = os.fork()
if child == 0:
    del pinned
    print("dropped", flush=True)
    os._exit(0)
os.waitpid(child, 0)
os._exit(0)
"""


def test_a_forked_child_drops_pinned_memory_while_a_kernel_ran_in_its_parent():
    answer = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_IN_A_LAUNCH],
        env={**os.environ, "GPUTENSOR_CUDA": "emulator"},
        capture_output=True,
        text=True,
    )
    assert (answer.stdout, answer.stderr) == ("dropped\n", "")


def test_cuda_in_a_forked_child_names_spawn():
    answer = subprocess.run(
        [sys.executable, "-c", FORK],
        env={**os.environ, "GPUTENSOR_CUDA": "emulator"},
        capture_output=True,
        text=True,
    )
    assert answer.stderr == ""
    assert answer.stdout.count("\n") == 1
    assert "this process was forked after its parent used CUDA" in answer.stdout
    assert "multiprocessing.get_context('spawn')" in answer.stdout


def test_in_a_forked_child_calls_that_came_before_say_so_too():
    answer = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_WITH_PLANS],
        env={**os.environ, "GPUTENSOR_CUDA": "emulator"},
        capture_output=True,
        text=True,
    )
    assert answer.stderr == ""
    lines = answer.stdout.splitlines()
    assert len(lines) == 4 and all("this process was forked" in line for line in lines), lines


@pytest.mark.parametrize("order", ORDERS)
def test_a_finaliser_in_a_thread_that_work_waits_for_does_not_wait(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library function uses several threads, and Python collects garbage in one of them."""
    monkeypatch.setenv("GPUTENSOR_EMULATOR_ORDER", order)
    scheduler, queue = queues.Scheduler(), queues.Queue(0)
    done: list[str] = []

    def work() -> None:
        free = threading.Thread(
            target=scheduler.add_quietly, args=(queue, lambda: done.append("freed")), daemon=True
        )
        free.start()
        free.join(10)
        done.append("waits" if free.is_alive() else "goes on")

    scheduler.add(queue, work)
    scheduler.drain_all()
    assert done == ["goes on", "freed"]
