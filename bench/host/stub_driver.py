"""A CUDA driver that does nothing, and CuPy on top of it, to measure host times without a GPU.

CuPy's `driver` loads libcuda.so.1 and finds the library that this process has loaded under this
name: a few functions that return success, compiled by g++ into the kernel cache. So its
`launchKernel` is the real one. CuPy's `runtime` is linked with CUDA's runtime, which needs NVIDIA's
driver, so its functions are replaced here. The functions that every call uses, `getDevice` and
`get_current_stream`, are replaced by methods of built-in types, which are fast.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from itertools import repeat
from typing import Any

from gputensor import runtime
from gputensor.runtime.compilation import kernel_cache
from gputensor.runtime.emulator import toolchain

_TEXT = """
#define API(name) extern "C" __attribute__((visibility("default"))) int name
extern "C" __attribute__((visibility("default"))) unsigned long long launches = 0;
static const char* const text = "an error of the stub";
API(cuInit)(unsigned) { return 0; }
API(cuDriverGetVersion)(int* version) { return *version = 12000, 0; }
API(cuGetErrorName)(int, const char** name) { return *name = text, 0; }
API(cuGetErrorString)(int, const char** name) { return *name = text, 0; }
API(cuFuncGetAttribute)(int* value, int, void*) { return *value = 0, 0; }
API(cuFuncSetAttribute)(void*, int, int) { return 0; }
API(cuLaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    void*, void** parameters, void**) {
  launches += parameters != nullptr;
  return parameters == nullptr;
}
"""
_OPTIONS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1")
_MEMORY = 16 << 30


class Unavailable(Exception):
    """Exception raised if CuPy cannot run on the stub driver. Its text is the reason."""


class _Memory:
    """Class that replaces `cupy.cuda.Memory` and allocates host memory."""

    def __init__(self, size: int) -> None:
        self._bytes = ctypes.create_string_buffer(size + 511)
        self.ptr = ctypes.addressof(self._bytes) + 511 & -512
        self.size = size


class _Module:
    """Class that replaces `cupy.cuda.Module`. Its kernels are never run."""

    ptr = 1

    def load(self, image: bytes) -> None:
        pass

    def get_function(self, name: str) -> _Module:
        return self


def install() -> ctypes.c_ulonglong:
    """Install the stub as this process's only CUDA device. Return the counter of launches.

    Raises: Unavailable if CuPy or g++ is missing, or if CUDA is already in use.
    """
    if "cupy" in sys.modules:
        raise Unavailable("CuPy was imported before the stub of its driver")
    reason = toolchain.unavailable_reason()
    if reason is not None:
        raise Unavailable(reason.replace("the CUDA emulator", "the stub of the driver"))
    driver = ctypes.CDLL(_built(), mode=ctypes.RTLD_GLOBAL)
    try:
        import cupy
    except Exception as error:  # CuPy raises errors of various classes if parts of CUDA are missing
        raise Unavailable(f"CuPy cannot be imported ({error})") from error
    if cupy.cuda.driver.get_build_version() < 0:
        raise Unavailable("this CuPy is built for no CUDA")
    _answer(cupy)
    os.environ["GPUTENSOR_CUDA"] = "required"
    chosen: Any = runtime.cuda()
    chosen.compile = lambda *texts, **options: b"a kernel that nobody runs"
    return ctypes.c_ulonglong.in_dll(driver, "launches")


def _answer(cupy: Any) -> None:
    # the keys are values of the enum cudaDeviceAttr
    attributes = {75: 9, 76: 0, 16: 132, 39: 2048, 81: 233472, 97: 232448}
    asked = cupy.cuda.runtime
    asked.getDevice = repeat(0).__next__
    asked.getDeviceCount = lambda: 1
    asked.memGetInfo = lambda: (_MEMORY, _MEMORY)
    asked.deviceGetAttribute = lambda attribute, device: attributes.get(attribute, 0)
    asked.deviceSynchronize = lambda: None
    cupy.cuda.is_available = lambda: True
    cupy.cuda.get_current_stream = {0: cupy.cuda.Stream.null}.__getitem__
    cupy.cuda.Memory = _Memory
    cupy.cuda.Module = _Module


def _built() -> str:
    def build() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "libcuda.so.1")
            command = [toolchain.compiler(), *_OPTIONS, "-x", "c++", "-", "-o", path]
            subprocess.run(command, input=_TEXT, check=True, capture_output=True, text=True)
            with open(path, "rb") as file:
                return file.read()

    name = kernel_cache.key(_TEXT, _OPTIONS, os.uname().machine)
    return kernel_cache.fetch(name, ".so", build, "stub of the CUDA driver")[1]
