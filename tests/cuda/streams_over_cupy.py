"""Streams of other libraries, of threads, and destroyed ones: a missing wait is detected.

Run by test_whole_over_cupy.py in the orders `lazy` and `random`, in which work may be as late as on
a GPU. Other libraries' streams are handles and, like PyTorch's, do not synchronise with other
streams or the legacy default stream.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import types
from typing import Any

import cupy
import numpy as np
import pytest

import gputensor as gt
from gputensor.exchange import foreign
from gputensor import runtime
from gputensor.runtime import cuda_emulator as emulator

from .runtime.allocator_program import STEPS, Program

N = 4096
IS_LAZY = os.environ["GPUTENSOR_EMULATOR_ORDER"] == "lazy"  # otherwise events may be done
TEXT = """
extern "C" __global__ void sum_of(float* y, const float* a, const float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a[i] + b[i];
}
"""


@pytest.fixture(autouse=True)
def nothing_is_queued():
    yield
    gc.collect()
    for device in (0, 1):
        gt.cuda.synchronize(device)
    gt.cuda.empty_cache()
    assert gt.cuda.memory_reserved(0) == 0, "memory was lost"


def ready(value: float) -> gt.Tensor:
    x = gt.full((N,), float(value), device="cuda")
    gt.cuda.synchronize()
    return x


def add() -> gt.cuda.Kernel:
    return gt.cuda.Kernel(TEXT, "sum_of")


def grid() -> tuple[int, int]:
    return N // 256, 256


class Theirs:
    """A library with its own stream and arrays on it."""

    def __init__(self) -> None:
        self.of = emulator.Stream(0)
        self.handle = self.of.ptr
        self.stream = runtime.cuda().external_stream(0, self.handle, self)

    def fill(self, x: gt.Tensor, other: gt.Tensor) -> None:
        """Queue a copy of `other` to `x` on its stream."""
        runtime.cuda().copy_async(x.data_ptr(), 0, other.data_ptr(), 0, 4 * N, self.stream)

    def read(self, x: gt.Tensor) -> Any:
        """Queue a copy to the host on its stream. The result is valid after a wait for the
        stream."""
        pinned = runtime.cuda().pinned_allocate(4 * N)
        runtime.cuda().copy_async(pinned.ptr, -1, x.data_ptr(), 0, 4 * N, self.stream)
        return pinned


class TorchTensor:
    is_cpu, is_cuda = False, True


def torch_tensor(x: gt.Tensor) -> Any:
    """The attributes of a torch tensor that `Kernel` reads."""
    made = TorchTensor()
    made.x, made.shape, made.dtype = x, tuple(x.shape), "torch.float32"
    made.device = types.SimpleNamespace(type="cuda", index=0)
    made.data_ptr, made.element_size, made.stride = x.data_ptr, lambda: 4, x.stride
    made.is_conj = made.is_neg = lambda: False
    return made


def interface(x: gt.Tensor, stream: int | None) -> Any:
    return types.SimpleNamespace(
        x=x, __cuda_array_interface__=x.__cuda_array_interface__ | {"stream": stream}
    )


def torch_on(monkeypatch: pytest.MonkeyPatch, handle: int) -> None:
    torch = types.ModuleType("torch")
    torch.Tensor, torch.float32 = TorchTensor, "torch.float32"
    monkeypatch.setattr(foreign, "_torch_dtypes", {})
    torch.cuda = types.SimpleNamespace(
        current_stream=lambda device: types.SimpleNamespace(cuda_stream=handle)
    )
    torch.autograd = types.SimpleNamespace(
        graph=types.SimpleNamespace(increment_version=lambda x: None)
    )
    monkeypatch.setitem(sys.modules, "torch", torch)


@pytest.mark.parametrize("own", ["legacy", "side"])
@pytest.mark.parametrize("library", ["torch", "interface"])
@pytest.mark.parametrize("is_ours_last", [True, False])
def test_a_kernel_on_arrays_of_two_streams_is_after_and_before_both(
    monkeypatch, own, library, is_ours_last
):
    theirs, side = Theirs(), gt.cuda.Stream()
    torch_on(monkeypatch, theirs.handle)
    a, b, y, one, ten = ready(-1), ready(-1), ready(-1), ready(1), ready(10)
    kernel = add()
    as_theirs = torch_tensor if library == "torch" else lambda x: interface(x, theirs.handle)
    with gt.cuda.stream(side if own == "side" else gt.cuda.default_stream()):
        theirs.fill(a, one)  # the work queued on their stream
        b.copy_(ten)  # the work queued on our stream
        kernel[grid()](as_theirs(y), as_theirs(a), b, N)
        if is_ours_last:
            found = y.cpu().numpy()
        else:
            pinned = theirs.read(y)
            theirs.of.synchronize()
            found = pinned.array.view(np.float32)
    assert (found == 11).all()


@pytest.mark.parametrize("library", ["torch", "interface"])
def test_a_kernel_on_arrays_of_one_library_goes_to_its_stream(monkeypatch, library):
    theirs = Theirs()
    torch_on(monkeypatch, theirs.handle)
    a, y, one = ready(-1), ready(-1), ready(1)
    as_theirs = torch_tensor if library == "torch" else lambda x: interface(x, theirs.handle)
    launched, launch = [], runtime.cuda().launch
    monkeypatch.setattr(
        runtime.cuda(), "launch", lambda *args: (launched.append(args[4].ptr), launch(*args))
    )
    theirs.fill(a, one)
    add()[grid()](as_theirs(y), as_theirs(a), as_theirs(a), N)
    pinned = theirs.read(y)
    theirs.of.synchronize()
    assert (pinned.array.view(np.float32) == 2).all() and launched == [theirs.handle]


def test_stream_zero_is_refused_by_kernels_too():
    x = ready(1)
    with pytest.raises(
        gt.GpuTensorError, match=r"sum_of: 'a' must name its stream .* \(got stream 0\)"
    ):
        add()[grid()](x, interface(x, 0), x, N)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_record_stream_keeps_memory_until_the_other_stream_has_passed(is_recorded):
    """Without it the next tensor of the first stream gets the memory; the test shows that too."""
    side, ones = gt.cuda.Stream(), ready(1)
    x = ready(5)
    with gt.cuda.stream(side):
        y = x + ones
    if is_recorded:
        x.record_stream(side)
    ptr = x.data_ptr()
    del x
    z = gt.full((N,), 9.0, device="cuda")
    assert (z.data_ptr() == ptr) == (not is_recorded) or not IS_LAZY
    gt.cuda.default_stream().synchronize()
    side.synchronize()
    if is_recorded or IS_LAZY:
        assert (y.cpu().numpy() == (6 if is_recorded else 10)).all()
    assert (z.cpu().numpy() == 9).all()


def test_record_stream_takes_streams_of_other_libraries():
    theirs = Theirs()
    for stream in (
        theirs.stream,
        types.SimpleNamespace(cuda_stream=theirs.handle),
        cupy.cuda.Stream(),
    ):
        x = ready(5)
        pinned = theirs.read(x)
        x.record_stream(stream)
        ptr = x.data_ptr()
        del x
        z = gt.full((N,), 9.0, device="cuda")
        is_cupys = isinstance(stream, cupy.cuda.Stream)  # this stream has no work
        assert is_cupys or z.data_ptr() != ptr or not IS_LAZY
        theirs.of.synchronize()
        if not is_cupys:
            assert (pinned.array.view(np.float32) == 5).all()
        gt.cuda.synchronize()


@pytest.mark.parametrize("how", ["object", "handle"])
def test_a_stream_that_is_gone_before_the_memory(how):
    """Its handle is not queried again, nothing else fails, and the memory is reused."""
    kernel, ones, y = add(), ready(1), ready(0)
    for _ in range(3):
        x = ready(5)
        stream = cupy.cuda.Stream(non_blocking=True)
        kernel[(*grid(), 0, stream if how == "object" else stream.ptr)](y, x, ones, N)
        handle = stream.ptr
        del stream
        ptr = x.data_ptr()
        del x
        z = gt.full((N,), 9.0, device="cuda")
        assert z.data_ptr() != ptr or not IS_LAZY
        gt.cuda.synchronize()
        assert (y.cpu().numpy() == 6).all() and (z.cpu().numpy() == 9).all()
        gt.zeros(N, device="cuda")
        if how == "handle":
            with pytest.raises(ValueError, match="be that of a stream"):  # no other reference
                emulator.external_stream(0, handle)


def test_memory_that_dlpack_gave_away_waits_for_the_consumers_stream():
    theirs = Theirs()
    x = gt.full((N,), 5.0, device="cuda")
    capsule = x.__dlpack__(stream=theirs.handle)
    pinned, ptr = theirs.read(x), x.data_ptr()
    del x, capsule
    z = gt.full((N,), 9.0, device="cuda")
    assert z.data_ptr() != ptr or not IS_LAZY
    gt.cuda.default_stream().synchronize()
    theirs.of.synchronize()
    assert (pinned.array.view(np.float32) == 5).all()


def test_memory_that_dlpack_lent_goes_back_once_our_work_on_it_is_done():
    class Producer:
        """A producer whose memory can be reused on its own stream as soon as the deleter has
        run."""

        def __init__(self, x):
            self.x = x

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

        def __dlpack__(self, **keywords):
            return self.x.__dlpack__(**keywords | {"stream": -1})

    side, ones, x = gt.cuda.Stream(), ready(1), ready(5)
    ptr = x.data_ptr()
    with gt.cuda.stream(side):
        taken = gt.from_dlpack(Producer(x))
        y = taken + ones
    del x, taken
    z = gt.full((N,), 9.0, device="cuda")
    assert z.data_ptr() != ptr or not IS_LAZY
    gt.cuda.default_stream().synchronize()
    side.synchronize()
    assert (y.cpu().numpy() == 6).all()
    gt.empty(N, device="cuda")
    taken = gt.from_dlpack(Producer(ready(5)))
    gt.cuda.synchronize()
    ptr = taken.data_ptr()
    del taken
    assert gt.empty(N, device="cuda").data_ptr() == ptr, "at once where nothing is queued"


class World:
    """The environment of a random program: the real allocator of cuda:0, and streams of every
    kind."""

    capacity = 64 << 20

    def __init__(self) -> None:
        cuda = self.cuda = runtime.cuda()
        self.allocator = cuda.memory.allocators[0]
        own = [cuda.Stream(0), cuda.Stream(0, -1), cuda.default_stream(0)]
        self.streams = [
            *own,
            Theirs().stream,
            cuda.streams._of_cupy(0, cupy.cuda.Stream(non_blocking=True)),
        ]
        self.reads: list[Any] = []
        self.last: dict[int, Any] = {}

    def held(self) -> int:
        return cupy._used[0]

    def mark(self, stream: Any) -> Any:
        mark = emulator.devices.scheduler.record(emulator.external_stream(0, stream.ptr).queue)
        return types.SimpleNamespace(is_done=lambda: mark.done)

    def touch(self, memory: Any, stream: Any) -> None:
        before, number = self.last.get(id(memory)), len(self.reads) % 250 + 1
        if before is not None:
            stream.wait_stream(before)
        self.last[id(memory)] = stream
        nbytes = min(memory.nbytes, 64)
        pinned = self.cuda.pinned_allocate(nbytes)
        self.cuda.memset_async(memory.ptr, number, nbytes, 0, stream)
        self.cuda.copy_async(pinned.ptr, -1, memory.ptr, 0, nbytes, stream)
        self.reads.append((pinned, number))
        if len(self.reads) > 200:
            self.check()

    def forget(self, memory: Any) -> None:
        del self.last[id(memory)]

    def check(self) -> None:
        self.cuda.synchronize(0)
        assert all((pinned.array == number).all() for pinned, number in self.reads)
        self.reads.clear()

    def advance(self, chance: Any) -> None:
        for _ in range(chance.randrange(8)):
            chance.choice(self.streams).query()

    def order(self, one: Any, two: Any) -> None:
        one.wait_stream(two)


def test_a_random_program_against_the_model(monkeypatch):
    monkeypatch.setattr(gc, "collect", lambda: None)  # there are no cycles
    cuda = runtime.cuda()
    gt.cuda.reset_peak_memory_stats()
    live = gt.cuda.memory_stats()["allocation.all.current"]
    assert live == 0
    gt.cuda.set_memory_limit(World.capacity)
    try:
        counts = Program(World(), 3).run(STEPS // 4)
    finally:
        gt.cuda.set_memory_limit(None)
    assert counts["reused"] > STEPS // 1000 and counts["out of memory"] > STEPS // 2000
    cuda.memory._staging.settle()
    assert (
        not cuda.memory._staging.in_flight
        and cuda.memory_stats(0)["reserved_bytes.all.peak"] <= World.capacity
    )


def test_threads_with_default_streams_of_their_own():
    """Runs in a separate process, because CuPy reads the setting when it is imported."""
    if os.environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM") != "1":
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k",
            "of_their_own"],
            env=os.environ | {"CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:]
        return
    here, there, answers = threading.Semaphore(0), threading.Semaphore(0), []

    def other() -> None:
        here.acquire()
        z = gt.zeros(N, device="cuda")
        gt.cuda.current_stream().synchronize()
        there.release()
        here.acquire()
        answers.append(z.cpu().numpy())

    thread = threading.Thread(target=other)
    thread.start()
    assert gt.cuda.current_stream().ptr == 2
    x = gt.full((N,), 7.0, device="cuda")
    del x  # the fill is still queued on this thread's stream
    here.release()
    there.acquire()
    gt.cuda.current_stream().synchronize()
    here.release()
    thread.join()
    assert (answers[0] == 0).all()
