"""Protocols of real CUDA tensors for other libraries, with a replaced runtime and no GPU."""

from __future__ import annotations

import gc
import weakref

import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.core import dtype as dt
from gputensor.core.geometry import geometry
from gputensor.dispatch.backend_select import TENSOR_KEYS
from gputensor.tensor import dlpack
from gputensor.tensor.storage import Storage
from gputensor.tensor.make import from_storage


class Stream:
    def __init__(self, ptr=0):
        self.ptr, self.waits = ptr, []

    @property
    def key(self):
        return self.ptr

    def wait_stream(self, other):
        self.waits.append(other.ptr)


class Runtime:
    """The functions of a CUDA runtime that an exchange needs."""

    is_emulated = False

    def __init__(self):
        self.stream, self.theirs = Stream(), Stream()
        self.recorded = []

    def external_stream(self, index, ptr, owner):
        assert owner, "a consumer's stream may be asked later"
        self.theirs.ptr = 0 if ptr == 1 else ptr
        return self.theirs

    def is_available(self):
        return True

    def device_count(self):
        return 2

    def current_stream(self, index):
        assert index == 1
        return self.stream

    def record_stream(self, memory, stream):
        self.recorded.append((memory.ptr, stream.ptr))

    def borrow(self, ptr, nbytes, index, give_back):
        memory = Memory()
        memory.ptr, memory.nbytes, memory.give_back = ptr, nbytes, give_back
        weakref.finalize(memory, give_back)
        return memory


class Memory:
    ptr, nbytes, device_index = 0x10000, 1024, 1


@pytest.fixture
def cuda(monkeypatch):
    stand_in = Runtime()
    monkeypatch.setattr(runtime, "cuda", lambda: stand_in)
    return stand_in


def tensor(element=dt.float32, sizes=(2, 3), strides=(4, 1), offset=5):
    storage = Storage.over(Memory(), 1024, gt.device("cuda:1"))
    return from_storage(storage, offset, geometry(sizes, strides, element), TENSOR_KEYS["cuda"])


def test_cuda_array_interface(cuda):
    assert tensor().__cuda_array_interface__ == {
        "shape": (2, 3), "typestr": "<f4", "data": (0x10000 + 20, False), "strides": (16, 4),
        "stream": 1, "version": 3,
    }  # fmt: skip
    cuda.stream.ptr = 77
    assert tensor(strides=(3, 1)).__cuda_array_interface__["strides"] is None
    assert tensor().__cuda_array_interface__["stream"] == 77
    assert tensor(sizes=(0, 3)).__cuda_array_interface__["data"] == (0, False)
    assert [
        tensor(d).__cuda_array_interface__["typestr"] for d in (dt.bfloat16, dt.bool_, dt.complex64)
    ] == ["<V2", "|b1", "<c8"]
    assert not hasattr(gt.arange(3), "__cuda_array_interface__")


@pytest.mark.parametrize("version", [None, (1, 0)], ids=str)
@pytest.mark.parametrize("element", dt.ALL, ids=lambda d: d.name)
def test_dlpack_round_trip(cuda, element, version):
    x = tensor(element)
    assert x.__dlpack_device__() == (2, 1)
    y = gt.from_dlpack(x.__dlpack__(max_version=version))
    assert (y.device, y.dtype, y.shape, y.stride()) == (x.device, x.dtype, x.shape, x.stride())
    assert y.data_ptr() == x.data_ptr()
    memory = weakref.ref(x._get_storage().data)
    del x
    gc.collect()
    assert memory() is not None
    del y
    gc.collect()
    assert memory() is None


@pytest.mark.parametrize("current, asked, waits", [
    (0, None, 0), (0, 1, 0), (0, -1, 0), (0, 9, 1), (9, 9, 0), (9, None, 1), (9, 1, 1), (9, -1, 0),
    (9, 2, 1),
])  # fmt: skip
def test_the_consumers_stream_waits_and_the_host_does_not(cuda, current, asked, waits):
    cuda.stream.ptr = current
    tensor().__dlpack__(stream=asked)
    assert cuda.theirs.waits == [current] * waits and not cuda.stream.waits
    used_on = 0 if asked in (None, 1) else asked
    assert cuda.recorded == ([] if asked == -1 else [(0x10000, used_on)])


def test_our_stream_is_named_to_the_producer(cuda):
    asked = []

    class Producer:
        def __dlpack_device__(self):
            return (2, 1)

        def __dlpack__(self, *, stream=None, max_version=None):
            asked.append((stream, max_version))
            return tensor().__dlpack__(stream=-1, max_version=max_version)

    gt.from_dlpack(Producer())
    cuda.stream.ptr = 9
    gt.from_dlpack(Producer())
    assert asked == [(1, dlpack.VERSION), (9, dlpack.VERSION)]


def test_elements_that_a_gpu_cannot_reach_are_refused(cuda, monkeypatch):
    monkeypatch.setattr(Memory, "ptr", 0x10002)
    assert gt.from_dlpack(tensor(dt.float16).__dlpack__()).data_ptr() == 0x1000C
    with pytest.raises(
        BufferError, match=r"begin at a multiple of 4 bytes \(got address 0x10016\)"
    ):
        gt.from_dlpack(tensor().__dlpack__())
    gt.from_dlpack(tensor(sizes=(0, 3)).__dlpack__())


def test_cuda_memory_needs_a_cuda_runtime(cuda):
    capsule = tensor().__dlpack__()
    cuda.is_emulated = True
    with pytest.raises(BufferError, match="device of this process"):
        gt.from_dlpack(capsule)
