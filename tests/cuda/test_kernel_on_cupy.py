"""Kernel over the CuPy runtime with a fake CuPy: parameters, devices and streams of arguments.

bench/gpu_check.sh tests it on a GPU.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import types

import numpy as np
import pytest

from gputensor.exchange import foreign
from gputensor import runtime
from gputensor.core import errors
from gputensor.cuda import Kernel
from gputensor.runtime.compilation import kernel_cache, nvrtc_users

from .support import fresh_module
from .fake_cupy import FakeCupy

TEXT = """
#include <gputensor/layout.cuh>
__constant__ float weights[2];
__global__ void k(const float* x, char c, double d, __nv_bfloat16* y, int n) {}
extern "C" __global__ void named(float* x, Layout x_layout) {}
"""
SIZES = (8, 1, 8, 8, 4)


class Array:
    """An array with the attributes that CuPy's and Numba's arrays share."""

    def __init__(
        self,
        ptr: int,
        shape: tuple[int, ...],
        kind: str,
        device: int,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.dtype = np.dtype(kind)
        self.device = types.SimpleNamespace(id=device)
        self.__cuda_array_interface__ = {
            "data": (ptr, False), "shape": shape, "typestr": self.dtype.str, "strides": strides,
            "version": 3,
        }  # fmt: skip


class TorchTensor:
    """The attributes of a torch tensor that `Kernel` reads."""

    dtype = "torch.bfloat16"
    is_cpu, is_cuda = False, True

    def __init__(self, ptr: int, device: int) -> None:
        self.ptr, self.shape = ptr, (4,)
        self.device = types.SimpleNamespace(type="cuda", index=device)

    def data_ptr(self) -> int:
        return self.ptr

    def element_size(self) -> int:
        return 2

    def stride(self) -> tuple[int, ...]:
        return (1,)

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj


@pytest.fixture
def launches(monkeypatch, tmp_path):
    """The CuPy runtime over a fake; returns the launches: (device, grid, block, shared, stream,
    bytes each)."""
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake.module)
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "_known", {})
    module = fresh_module("gputensor.runtime.cuda")

    def compiled(text, variants, arch, *, entries, headers, options):
        image = nvrtc_users.Image(b"cubin")
        image.names = {name: f"_Z1{name}" for name in entries}
        return image

    def launched(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        sizes = found.sizes
        places = (ctypes.c_void_p * len(sizes)).from_address(params)
        values = [ctypes.string_at(place, size) for place, size in zip(places, sizes)]
        found.append((fake.device, (gx, gy, gz), (bx, by, bz), shared, stream, values))

    class Found(list):
        sizes = SIZES

    found = Found()
    monkeypatch.setattr(module, "compile", compiled)
    monkeypatch.setattr(module.kernels, "_launch_kernel", launched)
    monkeypatch.setattr(runtime, "_chosen", module)
    found.fake, found.cuda = fake, module
    return found


def arguments(device: int = 1):
    return Array(0x1000, (4,), "f4", device), -3, 0.5, TorchTensor(0x2000, device), 7


def with_torch(monkeypatch, stream: int) -> None:
    torch = types.ModuleType("torch")
    torch.Tensor, torch.bfloat16 = TorchTensor, TorchTensor.dtype
    monkeypatch.setattr(foreign, "_torch_dtypes", {})
    torch.cuda = types.SimpleNamespace(
        current_stream=lambda device: types.SimpleNamespace(cuda_stream=stream)
    )
    torch.autograd = types.SimpleNamespace(
        graph=types.SimpleNamespace(increment_version=lambda tensor: None)
    )
    monkeypatch.setitem(sys.modules, "torch", torch)


def test_a_parameter_list_goes_to_the_arguments_device(launches, monkeypatch):
    with_torch(monkeypatch, 0)
    kernel = Kernel(TEXT, "k")
    kernel[(2, 3), 64, 1000](*arguments())
    device, grid, block, shared, _, values = launches[0]
    assert (device, grid, block, shared) == (
        1,
        (2, 3, 1),
        (64, 1, 1),
        1000,
    ) and launches.fake.device == 0
    assert values == [
        struct.pack("Q", 0x1000),
        b"\xfd",
        struct.pack("d", 0.5),
        struct.pack("Q", 0x2000),
        struct.pack("i", 7),
    ]
    kernel[1, 1](*arguments(0))
    assert launches[1][0] == 0 and ("moduleGetFunction", 1, "_Z1k") in launches.fake.calls


def test_a_constant_is_written_where_cupy_says_that_it_lies(launches):
    values = np.array([1, 2], np.float32)
    Kernel(TEXT, "k").set("weights", values, "cuda:1")
    calls = launches.fake.calls
    assert ("moduleGetGlobal", 1, "_Z1&weights") in calls
    (copy,) = [c for c in calls if c[0] == "memcpyAsync"]
    assert copy[1:3] == (1, 0xC001) and copy[4] == 8, "8 bytes to the address on that device"


def test_a_layout_is_passed_coalesced(launches):
    launches.sizes = (8, 136)
    Kernel(TEXT, "named")[1, 1](Array(0x1000, (2, 3, 4), "f4", 0, (4, 8, 24)))
    _, packed = launches[0][-1]
    values = struct.unpack("iI16q", packed)
    assert values[0] == 1 and values[2] == 24 and values[10] == 4


def test_the_stream_is_torchs_for_torch_tensors(launches, monkeypatch):
    x, c, d, y, n = arguments()
    with_torch(monkeypatch, 0x77)
    Kernel(TEXT, "k")[1, 1](None, c, d, y, n)
    assert launches[0][4] == 0x77
    mine = types.SimpleNamespace(cuda_stream=0x99)
    Kernel(TEXT, "k")[1, 1, 0, mine](x, c, d, y, n)
    assert launches[1][4] == 0x99


def test_host_memory_and_mixed_devices_are_refused(launches, monkeypatch):
    with_torch(monkeypatch, 0)
    x, c, d, y, n = arguments()
    with pytest.raises(
        errors.DeviceError,
        match=r"k: 'x' must be on a CUDA device \(got f32\[4\] host\); copy it there first",
    ):
        Kernel(TEXT, "k")[1, 1](np.ones(4, np.float32), c, d, y, n)
    with pytest.raises(errors.DeviceError, match="'y' must be on the device of 'x', cuda:1"):
        Kernel(TEXT, "k")[1, 1](x, c, d, TorchTensor(0x2000, 0), n)
    with pytest.raises(errors.ArgumentValueError, match="'x' must be contiguous"):
        Kernel(TEXT, "k")[1, 1](Array(0x1000, (4,), "f4", 1, (8,)), c, d, y, n)
    assert not launches
