"""Rules for every runtime with devices, on the emulator and, if there is one, a GPU."""

from __future__ import annotations

import importlib
import os

import numpy as np
import pytest

from gputensor.core import errors

from ..support import Device, fresh_emulator, requires_emulator


def _gpu_or_skip():
    try:
        module = importlib.import_module("gputensor.runtime.cuda")
        reason = module.unavailable_reason()
    except Exception as error:
        reason = f"cupy does not import: {error}"
    if reason is None:
        return module
    if os.environ.get("GPUTENSOR_REQUIRE_CUDA") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(
    params=[
        pytest.param("eager", marks=[requires_emulator, pytest.mark.emulator]),
        pytest.param("lazy", marks=[requires_emulator, pytest.mark.emulator]),
        pytest.param("random", marks=[requires_emulator, pytest.mark.emulator]),
        pytest.param("gpu", marks=pytest.mark.gpu),
    ]
)
def device(request, monkeypatch):
    if request.param == "gpu":
        yield Device(_gpu_or_skip())
    else:
        yield Device(fresh_emulator(monkeypatch, order=request.param))


TEXT = """
struct P { float* out; const float* in; int n; };
extern "C" __global__ void __launch_bounds__(256) reverse(const __grid_constant__ P p) {
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < p.n; i += blockDim.x) tile[i] = p.in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < p.n; i += blockDim.x) p.out[i] = FACTOR * tile[p.n - 1 - i];
}
"""


@pytest.mark.parametrize("count", [100, "most"])
def test_launch(device, count):
    if count == "most":  # the limit of a block: on every GPU it is above the default of 48 KiB
        count = device.runtime.limits(0).block_shared_bytes // 4
        assert 4 * count > 48 << 10
    kernel = device.kernel(TEXT, "reverse", FACTOR="2.0f")
    x = np.arange(count, dtype=np.float32)
    source, target = device.put(x), device.runtime.allocate(x.nbytes, 0)
    for _ in range(3):
        device.launch(kernel, 1, 256, "QQi", target, source, count, shared=4 * count)
    np.testing.assert_array_equal(device.get(target), 2 * x[::-1])


def test_denormals_and_separate_rounding(device):
    text = """
    struct P { float* out; float a, b, c; };
    extern "C" __global__ void k(const __grid_constant__ P p) {
      p.out[0] = p.a * p.b + p.c;
      p.out[1] = p.c * 1e-42f;
    }"""
    target = device.runtime.allocate(8, 0)
    a, b, c = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(-1)
    device.launch(device.kernel(text, "k"), 1, 1, "Qfff", target, a, b, c)
    got = device.get(target)
    assert got[0] == np.float32(a * b) + c  # no fused multiply-add
    assert got[1] == np.float32(-1e-42) and got[1] != 0


def test_copies_and_fills(device):
    x = np.arange(64, dtype=np.uint8)
    a, b = device.put(x), device.runtime.allocate(64, 0)
    device.runtime.memset_async(b.ptr, 7, 64, 0, device.stream)
    device.runtime.copy_async(b.ptr + 8, 0, a.ptr, 0, 16, device.stream)
    expected = np.full(64, 7, np.uint8)
    expected[8:24] = x[:16]
    np.testing.assert_array_equal(device.get(b, np.uint8), expected)


def test_pinned_memory(device):
    runtime = device.runtime
    pinned, memory = runtime.pinned_allocate(100), runtime.allocate(100, 0)
    assert (
        pinned.nbytes == 100
        and pinned.array.shape == (100,)
        and pinned.array.ctypes.data == pinned.ptr
    )
    pinned.array[:] = np.arange(100)
    runtime.copy_async(memory.ptr, 0, pinned.ptr, -1, 100, device.stream)
    back = runtime.pinned_allocate(100)
    runtime.copy_async(back.ptr, -1, memory.ptr, 0, 100, device.stream)
    device.stream.synchronize()
    np.testing.assert_array_equal(back.array, np.arange(100))


def test_streams_events_and_reuse_of_memory(device):
    runtime = device.runtime
    kernel = device.kernel(TEXT, "reverse", FACTOR="1.0f")
    side = runtime.Stream(0)
    x = np.arange(1000, dtype=np.float32)
    source, result = device.put(x), runtime.allocate(x.nbytes, 0)
    for step in range(10):
        temporary = runtime.allocate(x.nbytes, 0)
        device.launch(kernel, 1, 256, "QQi", temporary, source, 1000, shared=4000)
        event = runtime.Event()
        event.record(device.stream)
        side.wait_event(event)
        device.launch(kernel, 1, 256, "QQi", result, temporary, 1000, shared=4000, stream=side)
        runtime.record_stream(temporary, side)
        del temporary
        trash = runtime.allocate(x.nbytes, 0)
        runtime.memset_async(trash.ptr, step, x.nbytes, 0, device.stream)
        del trash
        device.stream.wait_stream(side)
        np.testing.assert_array_equal(device.get(result), x)
    runtime.synchronize(0)
    assert side.query() and event.query()


def test_current_stream_and_device(device):
    runtime = device.runtime
    side = runtime.Stream(0, priority=-1)
    previous = runtime.set_stream(side)
    try:
        assert runtime.current_stream(0).ptr == side.ptr
    finally:
        runtime.set_stream(previous)
    assert runtime.current_stream(0).ptr == runtime.default_stream(0).ptr == 0
    assert runtime.exchange_device(0) == runtime.current_device() == 0
    free, total = runtime.mem_get_info(0)
    assert 0 < free <= total and runtime.device_count() >= 1 and runtime.device_name(0)
    assert len(runtime.capability(0)) == 2


def test_memory_figures(device):
    runtime = device.runtime
    before = runtime.memory_allocated(0)
    memory = runtime.allocate(1000, 0)
    assert runtime.memory_allocated(0) == before + 1024
    assert runtime.memory_reserved(0) >= before + 1024
    assert memory.ptr % 512 == 0 and memory.nbytes == 1000 and memory.device_index == 0
    assert any(block["address"] == memory.ptr for block in runtime.memory_snapshot())
    del memory
    assert runtime.memory_allocated(0) == before
    runtime.empty_cache()
    runtime.reset_peak_memory_stats(0)
    assert runtime.memory_stats(0)["allocated_bytes.all.peak"] == before
    with pytest.raises(errors.OutOfMemoryError, match=r"cuda:0: cannot allocate .* \(in tensors "):
        runtime.allocate(1 << 50, 0)


def test_event_timing(device):
    begin, end = (device.runtime.Event(enable_timing=True) for _ in range(2))
    begin.record()
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) >= 0


def test_errors_of_compile_load_and_launch(device):
    with pytest.raises(
        errors.KernelError, match=r"kernel\.cu: does not compile with -DFACTOR=oops\n"
    ):
        device.kernel(TEXT, "reverse", FACTOR="oops")
    with pytest.raises(errors.KernelError, match="absent"):
        device.kernel(TEXT, "absent", FACTOR="1")
    kernel = device.kernel(TEXT, "reverse", FACTOR="1")
    with pytest.raises(errors.KernelError, match="reverse: .*grid"):
        device.runtime.launch(kernel, (0, 1, 1), (1, 1, 1), 0, device.stream, bytes(24))
