"""gt.cuda's functions about devices and memory, on the emulator or a GPU."""

from __future__ import annotations

import pytest

import gputensor as gt

cuda = gt.cuda


@pytest.fixture(autouse=True)
def _device() -> None:
    if not cuda.is_available():
        pytest.skip(f"no CUDA device ({cuda.unavailable_reason()})")


def test_what_a_device_is() -> None:
    found = cuda.get_device_properties("cuda:0")
    assert (found.major, found.minor) == cuda.get_device_capability(0)
    assert found.name == cuda.get_device_name(0) and found.warp_size == 32
    assert found.total_memory == cuda.mem_get_info(0)[1] and found.multi_processor_count > 0
    assert f"sm_{found.major}{found.minor}" in cuda.get_arch_list()
    assert cuda.is_bf16_supported() and not cuda.is_tf32_supported()
    cuda.init()
    assert cuda.is_initialized()
    with pytest.raises(gt.GpuTensorError, match="get_device_properties: 'device' must be"):
        cuda.get_device_properties("cpu")


def test_figures_of_memory() -> None:
    cuda.reset_peak_memory_stats()
    before = cuda.max_memory_allocated()
    num_ooms = cuda.memory_stats()["num_ooms"]  # earlier tests may have run out of memory
    held = gt.ones(1 << 16, device="cuda")
    assert cuda.max_memory_allocated() >= before + held.nbytes
    peak = cuda.max_memory_allocated()
    del held
    assert cuda.max_memory_allocated() == peak <= cuda.max_memory_reserved()
    nested = cuda.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["peak"] == peak
    assert nested["num_ooms"] == num_ooms
    text = cuda.memory_summary(abbreviated=True)
    assert "memory of cuda:0" in text and f"{peak:,}" in text
    assert ("num_ooms" in text) == (num_ooms > 0)


def test_a_fraction_of_the_memory() -> None:
    assert cuda.get_per_process_memory_fraction() == 1
    try:
        cuda.set_per_process_memory_fraction(1e-6)
        with pytest.raises(cuda.OutOfMemoryError):
            gt.empty(cuda.mem_get_info()[1] // 8, device="cuda")
        assert cuda.get_per_process_memory_fraction() == 1e-6
    finally:
        cuda.set_per_process_memory_fraction(1.0)
        cuda.set_memory_limit(None)
    with pytest.raises(gt.GpuTensorError, match="'fraction' must be in"):
        cuda.set_per_process_memory_fraction(2)


def test_streams_and_devices() -> None:
    x = gt.ones(2, device="cuda")
    with cuda.device_of(x), cuda.device_of(gt.ones(1)):
        assert cuda.current_device() == 0
    stream, before = cuda.Stream(), cuda.current_stream()
    cuda.set_stream(stream)
    cuda.set_stream(None)
    assert cuda.current_stream() == stream
    cuda.set_stream(before)
    assert cuda.ExternalStream(stream.ptr).ptr == stream.ptr
    assert cuda.get_stream_from_external(stream.ptr, 0).ptr == stream.ptr


def test_generators() -> None:
    states = cuda.get_rng_state_all()
    first = gt.rand(3, device="cuda").tolist()
    cuda.set_rng_state_all(states)
    assert gt.rand(3, device="cuda").tolist() == first
    cuda.seed_all()
    assert not gt.equal(cuda.get_rng_state_all()[0], states[0])
    cuda.seed()
    cuda.set_rng_state_all(states)
