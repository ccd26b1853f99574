"""gt.layout on CuPy arrays and on the CUDA array interface: devices, streams, flags.

Run by test_whole_over_cupy.py. Source of the rules: Numba's specification of the interface, version
3: `stream` is None (nothing to wait for), 1 (the legacy default stream), 2 (the per-thread one) or
an address, never 0; the consumer orders its work after the producer's.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

import gputensor as gt
from bench.copies import bandwidth, layout as layout_bench, memcpy, pack
from bench.measurement import peers
from gputensor import runtime
from gputensor.core import errors
from gputensor.layout import copying


class Theirs:
    """An array over a tensor's memory that has only the CUDA array interface."""

    def __init__(self, x: gt.Tensor, **changes: Any) -> None:
        self.x = x
        self.__cuda_array_interface__ = x.__cuda_array_interface__ | {"stream": None} | changes


class CupyArray:
    """An array with the attributes of CuPy's arrays: the interface with CuPy's current stream, a
    device, a dtype."""

    def __init__(self, x: gt.Tensor) -> None:
        self.x, self.dtype, self.shape = x, x.dtype.np, tuple(x.shape)
        self.device = cupy.cuda.Device(x.device.index)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        stream = cupy.cuda.get_current_stream().ptr or 1
        return self.x.__cuda_array_interface__ | {"stream": stream}

    def transpose(self, order: list[int]) -> CupyArray:
        return CupyArray(self.x.permute(*order))


class Device:
    def __init__(self, index: int) -> None:
        self.id = index

    def __enter__(self) -> None:
        self.before = runtime.cuda().exchange_device(self.id)

    def __exit__(self, *exc: object) -> None:
        runtime.cuda().set_device(self.before)


@pytest.fixture(autouse=True)
def cupys_arrays(monkeypatch):
    def empty(shape, dtype):
        element = gt.from_numpy(np.empty(0, dtype)).dtype
        return CupyArray(gt.empty(*shape, dtype=element, device=f"cuda:{gt.cuda.current_device()}"))

    monkeypatch.setattr(cupy, "ndarray", CupyArray)
    monkeypatch.setattr(cupy, "empty", empty, raising=False)
    monkeypatch.setattr(cupy.cuda, "Device", Device, raising=False)


@pytest.fixture
def events(monkeypatch):
    """("launch", device, stream) and ("wait", stream, for stream), in order; the host may not
    wait."""
    cuda, seen = runtime.cuda(), []
    launch, wait = cuda.kernels._launch_kernel, cuda.Stream.wait_stream

    def launched(function, *sizes_and_stream):
        seen.append(("launch", cuda.current_device(), sizes_and_stream[7]))
        launch(function, *sizes_and_stream)

    def waited(self, stream):
        seen.append(("wait", self.ptr, stream.ptr))
        wait(self, stream)

    def never(*args):
        pytest.fail("the host waited")

    with monkeypatch.context() as patch:
        patch.setattr(cuda.kernels, "_launch_kernel", launched)
        patch.setattr(cuda.Stream, "wait_stream", waited)
        patch.setattr(cuda.Stream, "synchronize", never)
        patch.setattr(cuda.Event, "synchronize", never)
        patch.setattr(copying, "launches", {})
        yield seen, patch.undo


def values(*sizes):
    return np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)


def on(device, *sizes):
    x = gt.from_numpy(values(*sizes)).to(device)
    gt.cuda.synchronize(device)
    return x


def test_cupys_arrays_come_back_on_cupys_current_stream(events):
    seen, undo = events
    x = CupyArray(on("cuda:0", 40, 30).t())
    made = gt.layout.contiguous(x)
    assert type(made) is CupyArray and made.x.is_contiguous() and seen == [("launch", 0, 0)]
    side = gt.cuda.Stream()
    with gt.cuda.stream(side):
        out = CupyArray(gt.zeros(30, 40, device="cuda:0"))
        seen.clear()
        assert gt.layout.contiguous(x, out=out) is out
        assert seen == [("launch", 0, side.ptr)]
    undo()
    side.synchronize()
    for found in (made, out):
        np.testing.assert_array_equal(found.x.cpu().numpy(), values(40, 30).T)


def test_cupys_arrays_of_another_device_stay_there(events):
    seen, undo = events
    x = CupyArray(on("cuda:1", 6, 40, 30))
    made = gt.layout.pack(x, dtype=np.float16, scale=2, memory_format="contiguous_format")
    assert made.x.device == gt.device("cuda:1") and gt.cuda.current_device() == 0
    assert seen == [("launch", 1, 0)] and made.dtype == np.float16
    undo()
    np.testing.assert_array_equal(made.x.cpu().numpy(), (values(6, 40, 30) * 2).astype(np.float16))


def test_an_array_without_a_stream_is_not_waited_for(events):
    seen, undo = events
    made = gt.layout.contiguous(Theirs(on("cuda:0", 40, 30).t()))
    assert type(made) is gt.Tensor and seen == [("launch", 0, 0)]
    undo()
    np.testing.assert_array_equal(made.cpu().numpy(), values(40, 30).T)


def test_the_device_is_that_of_the_memory(events):
    """The interface does not contain the device, and another device may be current."""
    seen, undo = events
    made = gt.layout.contiguous(Theirs(on("cuda:1", 40, 30).t()))
    assert made.device == gt.device("cuda:1") and seen == [("launch", 1, 0)]
    undo()
    np.testing.assert_array_equal(made.cpu().numpy(), values(40, 30).T)


def test_a_producers_stream_comes_first_and_goes_on_after(events):
    seen, undo = events
    theirs = gt.cuda.Stream()
    x = on("cuda:0", 40, 30)
    made = gt.layout.contiguous(Theirs(x.t(), stream=theirs.ptr))
    assert seen == [("wait", 0, theirs.ptr), ("launch", 0, 0), ("wait", theirs.ptr, 0)]
    undo()
    np.testing.assert_array_equal(made.cpu().numpy(), values(40, 30).T)


def test_stream_one_is_the_default_stream(events):
    seen, undo = events
    x, side = on("cuda:0", 40, 30), gt.cuda.Stream()
    gt.layout.contiguous(Theirs(x.t(), stream=1))
    assert [kind for kind, *_ in seen if kind == "launch"] == ["launch"]
    assert all(event == ("wait", 0, 0) for event in seen if event[0] == "wait")
    seen.clear()
    with gt.cuda.stream(side):
        made = gt.layout.contiguous(Theirs(x.t(), stream=1))
    assert seen == [("wait", side.ptr, 0), ("launch", 0, side.ptr), ("wait", 0, side.ptr)]
    undo()
    side.synchronize()
    np.testing.assert_array_equal(made.cpu().numpy(), values(40, 30).T)


def test_two_arrays_of_one_stream_are_copied_on_it(events):
    seen, undo = events
    theirs, x, to = gt.cuda.Stream(), on("cuda:0", 40, 30), on("cuda:0", 30, 40)
    gt.layout.copy(Theirs(to, stream=theirs.ptr), Theirs(x.t(), stream=theirs.ptr))
    assert seen == [("launch", 0, theirs.ptr)]
    undo()
    theirs.synchronize()
    np.testing.assert_array_equal(to.cpu().numpy(), values(40, 30).T)


def test_two_streams_of_two_libraries_are_ordered(events):
    seen, undo = events
    one, two, x, to = gt.cuda.Stream(), gt.cuda.Stream(), on("cuda:0", 40, 30), on("cuda:0", 30, 40)
    gt.layout.copy(Theirs(to, stream=one.ptr), Theirs(x.t(), stream=two.ptr))
    assert seen == [("wait", one.ptr, two.ptr), ("launch", 0, one.ptr), ("wait", two.ptr, one.ptr)]
    undo()
    one.synchronize()
    np.testing.assert_array_equal(to.cpu().numpy(), values(40, 30).T)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"stream": 0},
            r"'x' must name its stream as the CUDA array interface does: .* \(got stream 0\)",
        ),
        ({"mask": object()}, r"'x' must have no mask \(got a mask\)"),
        ({"typestr": "|O8"}, r"'x' must have a dtype that tensors have \(got \|O\)"),
        (
            {"strides": (6, 12)},
            r"'x' must have every element at a multiple of 4 bytes \(got address",
        ),
    ],
)
def test_what_the_interface_does_not_allow(changes, message):
    with pytest.raises(gt.GpuTensorError, match=message) as caught:
        gt.layout.contiguous(Theirs(on("cuda:0", 4, 3).t(), **changes))
    assert "\n" not in str(caught.value)


def test_elements_that_a_gpu_cannot_reach_are_refused():
    x = on("cuda:0", 4, 3)
    with pytest.raises(
        gt.GpuTensorError, match=r"'x' must have every element at a multiple of 4 bytes"
    ):
        gt.layout.contiguous(Theirs(x, data=(x.data_ptr() + 2, False)))


def test_read_only_memory_is_read_and_not_written():
    x = on("cuda:0", 40, 30)
    frozen = Theirs(x, data=(x.data_ptr(), True))
    with pytest.raises(gt.GpuTensorError, match="'dst' must be writable"):
        gt.layout.copy(frozen, on("cuda:0", 40, 30))
    turned = Theirs(x.t(), data=(x.data_ptr(), True))
    np.testing.assert_array_equal(gt.layout.contiguous(turned).cpu().numpy(), values(40, 30).T)


def test_negative_strides_and_an_empty_array():
    x = on("cuda:0", 40, 30)
    backwards = Theirs(x, data=(x.data_ptr() + 4 * 29, False), strides=(120, -4))
    np.testing.assert_array_equal(
        gt.layout.contiguous(backwards).cpu().numpy(), values(40, 30)[:, ::-1]
    )
    empty = Theirs(gt.empty(0, 3, device="cuda:0"), data=(0, False))
    assert gt.layout.copy(empty, Theirs(gt.empty(0, 3, device="cuda:0"), data=(0, False))) is empty


def test_devices_are_not_mixed():
    with pytest.raises(errors.DeviceError):
        gt.layout.copy(Theirs(on("cuda:0", 4, 3)), Theirs(on("cuda:1", 4, 3)))


def test_the_benchmark_of_copies_runs_as_on_a_gpu(monkeypatch):
    """It uses events as clock, three pairs of buffers, and memcpy by driver and kernel; there is no
    peer."""
    monkeypatch.setattr(peers, "cupy", lambda device: None)
    found = layout_bench.run("cuda:0", rounds=1, only=(11, 12), libraries=())
    assert not found["is_emulated"] and found["peers"] == []
    first = found["cases"][0]
    assert (
        set(first["ns"]) == {"gputensor", "again", "memcpy", "memcpy_kernel"}
        and first["kernel"]["name"] == "tile"
    )


@pytest.mark.parametrize(("module", "scale"), [(memcpy, 16), (bandwidth, 128), (pack, 64)])
def test_the_other_benchmarks_of_bytes_run_as_on_a_gpu(monkeypatch, module, scale):
    """Without CuPy no copy is recorded in a graph, and results are compared on the host."""
    monkeypatch.setattr(peers, "cupy", lambda device: None)
    found = module.run("cuda:0", rounds=1, only=(1,), libraries=(), scale=scale)
    (case,) = found["cases"]
    assert not found["is_emulated"] and not found["failed"] and case["verified"]
    assert case["pairs"] > 3 and case["bound_by"].startswith(
        "a launch, since its copies are in no graph"
    )
