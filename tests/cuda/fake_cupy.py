"""A small `cupy` module: host memory, streams that run at once, and a record of calls.

It has the signatures of CuPy 14.2 for the names that `runtime/cuda` uses. If CuPy is installed
without a driver, every call also goes to the real one, which converts its arguments before it fails
without a driver. So an argument that CuPy would reject fails here.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import types
import warnings
import weakref
from functools import reduce
from typing import Any


def _without_driver() -> Any:
    try:
        import cupy
    except Exception:  # errors of any class, if parts of CUDA are missing
        return None
    sys.modules["cupy_without_driver"] = cupy
    return None if cupy.cuda.is_available() or cupy.cuda.runtime.driverGetVersion() else cupy.cuda


REAL = _without_driver()


def as_real(path: str, *arguments: Any, **named: Any) -> Any:
    """Call the function of real CuPy at `path`. Return its result, or None if it needed the
    driver."""
    if REAL is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return reduce(getattr, path.split("."), REAL)(*arguments, **named)
    except RuntimeError as error:
        assert any(word in str(error) for word in ("libcuda", "InsufficientDriver")), error
        return None


NAMES = {
    1: "cudaErrorInvalidValue: invalid argument",
    2: "cudaErrorMemoryAllocation: out of memory",
    400: "cudaErrorInvalidResourceHandle: invalid resource handle",
    700: "cudaErrorIllegalAddress: an illegal memory access was encountered",
    901: "cudaErrorStreamCaptureInvalidated: operation failed due to a previous error",
    904: "cudaErrorStreamCaptureUnjoined: capture was not ended in the same stream",
    704: "cudaErrorPeerAccessAlreadyEnabled: peer access is already enabled",
}


class RuntimeFailure(RuntimeError):
    """An error made from a status, like CuPy's."""

    def __init__(self, status: int | str) -> None:
        super().__init__(NAMES.get(status, status))
        self.status = status if isinstance(status, int) else 1


class DriverFailure(RuntimeFailure):
    pass


class NVRTCFailure(RuntimeError):
    pass


# Results of cudaDeviceGetAttribute for an H100, by the names of cudaDevAttr*.
NAMED = {
    "ComputeCapabilityMajor": (75, 9), "ComputeCapabilityMinor": (76, 0),
    "MultiProcessorCount": (16, 132), "MaxThreadsPerMultiProcessor": (39, 2048),
    "MaxBlocksPerMultiprocessor": (106, 32), "MaxRegistersPerMultiprocessor": (82, 65536),
    "MaxSharedMemoryPerMultiprocessor": (81, 233472), "MaxSharedMemoryPerBlockOptin": (97, 232448),
    "ReservedSharedMemoryPerBlock": (111, 1024), "L2CacheSize": (38, 52428800),
    "ClockRate": (13, 1980000), "MemoryClockRate": (36, 2619000), "GlobalMemoryBusWidth": (37,
    5120),
}  # fmt: skip
ATTRIBUTES = dict(NAMED.values())


class FakeCupy:
    """The state of the fake, and the module over it (`.module`)."""

    def __init__(self, devices: int = 2, capacity: int = 1 << 30) -> None:
        self.devices = devices
        self.device = 0
        self.calls: list[tuple[Any, ...]] = []
        self.current: dict[int, Any] = {}
        self.default: Any = None  # CuPy's Stream.ptds if CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=1
        self.fail: Exception | None = None
        self.capacity = capacity
        self.in_use = 0
        self.status = 0  # the results of streamQuery and eventQuery
        self.destroyed: set[int] = set()  # handles of streams
        self.reachable: set[tuple[int, int]] = set()
        self.contexts: set[tuple[int, int]] = set()  # (thread, device)
        self.static_shared = 0
        self.allocator: Any = None  # the allocator of arrays, set by using_allocator
        self.module = types.ModuleType("cupy")
        self.module.cuda = self._cuda()  # type: ignore[attr-defined]
        self.module.ndarray = _Array  # type: ignore[attr-defined]
        self.module.asarray = lambda x: x  # type: ignore[attr-defined]
        pool = types.SimpleNamespace(
            free_all_blocks=lambda: self._call("free_all_blocks"), malloc=None
        )
        self.module.get_default_memory_pool = lambda: pool  # type: ignore[attr-defined]

    def _call(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, self.device, *arguments))
        self._check()

    def _check(self) -> None:
        if self.fail is not None:
            raise self.fail

    def _make_context(self) -> None:
        """Make the thread's context, as any call of the runtime does."""
        self.contexts.add((threading.get_ident(), self.device))

    def _need_context(self) -> None:
        if (threading.get_ident(), self.device) not in self.contexts:
            raise DriverFailure("CUDA_ERROR_INVALID_CONTEXT: invalid device context")

    def _cuda(self) -> types.SimpleNamespace:
        fake = self

        class Stream:
            count = 0

            def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
                if not null:
                    fake._check()
                Stream.count += not null
                self.ptr = 0 if null else 0x1000 + Stream.count
                self.device_id = -1 if null else fake.device

            @classmethod
            def from_external(cls, theirs):
                _, ptr = theirs.__cuda_stream__()
                stream = cls(null=True)
                stream.ptr, stream._foreign_stream_ref = ptr, theirs
                if REAL is not None:
                    real = as_real("Stream.from_external", theirs)
                    assert (real.ptr, real.device_id) == (ptr, -1)
                return stream

            def use(self):
                if self.device_id not in (-1, fake.device):
                    raise RuntimeError("device mismatch")
                fake.current[fake.device] = self

            def synchronize(self):
                fake._call("streamSynchronize", self.ptr)

            def wait_event(self, event):
                fake._call("streamWaitEvent", self.ptr, event)

            def begin_capture(self, mode=None):
                fake._call("streamBeginCapture", self.ptr, mode)

            def end_capture(self):
                fake._call("streamEndCapture", self.ptr)
                return Graph()

        Stream.null = Stream(null=True)
        Stream.ptds = Stream(null=True)
        Stream.ptds.ptr = 2

        events = weakref.WeakValueDictionary()

        class Event:
            def __init__(self, block=False, disable_timing=False, interprocess=False):
                as_real("Event", block, disable_timing, interprocess)
                self.device, self.disable_timing, self.done = fake.device, disable_timing, True
                self.ptr = id(self)
                events[self.ptr] = self

            def record(self, stream):
                assert self.device == fake.device
                if stream.ptr in fake.destroyed:
                    raise RuntimeFailure(400)
                fake._call("eventRecord", stream.ptr)

            def synchronize(self):
                fake._call("eventSynchronize")

        class Graph:
            def launch(self, stream=None):
                fake._call("graphLaunch", stream.ptr)

        class Memory:
            def __init__(self, size):
                self.size = 0
                as_real("Memory", size)
                fake._call("malloc", size)
                if fake.in_use + size > fake.capacity:
                    raise RuntimeFailure(2)
                self.buffer = ctypes.create_string_buffer(size)
                self.ptr = ctypes.addressof(self.buffer)
                self.size = size
                fake.in_use += size

            def __del__(self):
                fake.in_use -= self.size

        class Pinned(bytearray):
            @property
            def ptr(self):
                return ctypes.addressof((ctypes.c_char * len(self)).from_buffer(self))

        class Function:
            def __init__(self, ptr):
                self.ptr = ptr

        class Module:
            def __init__(self):
                self.real = as_real("Module")

            def load(self, image):
                assert type(image) is bytes, "CuPy takes no subclass"
                as_real("Module.load", self.real, image)
                fake._make_context()
                fake._call("moduleLoadData", image)

            def get_function(self, name):
                as_real("Module.get_function", self.real, name)
                fake._need_context()
                fake._call("moduleGetFunction", name)
                return Function(0xF00 + fake.device)

            def get_global_var(self, name):
                as_real("Module.get_global_var", self.real, name)
                fake._need_context()
                fake._call("moduleGetGlobal", name)
                return 0xC000 + fake.device

        def launch_kernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
            as_real("driver.launchKernel", f, gx, gy, gz, bx, by, bz, shared, stream, params, extra)
            fake._need_context()
            address = ctypes.c_void_p.from_address(params).value
            fake._call(
                "launchKernel",
                f,
                (gx, gy, gz),
                (bx, by, bz),
                shared,
                stream,
                ctypes.string_at(address, 8),
            )
            assert extra == 0

        class UnownedMemory:
            def __init__(self, ptr, size, owner, device_id=-1):
                as_real("UnownedMemory", ptr, size, owner, device_id)
                assert device_id == fake.device, "CuPy would ask the driver"
                self.ptr, self.size, self.owner = ptr, size, owner

        class MemoryPointer:
            def __init__(self, mem, offset):
                self.mem, self.ptr = mem, mem.ptr + offset

        def set_device(index):
            fake.device = index

        def alloc_pinned(size):
            fake._check()
            return Pinned(max(64, size))

        def enable_peer(peer):
            fake._call("deviceEnablePeerAccess", peer)
            if (fake.device, peer) in fake.reachable:
                raise RuntimeFailure(704)
            fake.reachable.add((fake.device, peer))

        def mem_get_info():
            fake._make_context()
            fake._check()
            return fake.capacity - fake.in_use, fake.capacity

        def func_get_attribute(attribute, f):
            fake._need_context()
            return {1: fake.static_shared}[attribute]

        runtime = types.SimpleNamespace(
            CUDARuntimeError=RuntimeFailure,
            getDeviceCount=lambda: fake.devices,
            getDevice=lambda: fake.device,
            setDevice=set_device,
            memGetInfo=mem_get_info,
            deviceSynchronize=lambda: fake._call("deviceSynchronize"),
            deviceGetAttribute=lambda attribute, device: fake._check() or ATTRIBUTES[attribute],
            getDeviceProperties=lambda device: fake._check() or {"name": b"Fake"},
            deviceCanAccessPeer=lambda a, b: fake._check() or 1,
            pointerGetAttributes=lambda ptr: fake._check() or types.SimpleNamespace(device=0),
            deviceEnablePeerAccess=enable_peer,
            streamQuery=lambda ptr: fake.status,
            eventQuery=lambda ptr: fake.status or (0 if events[ptr].done else 600),
            memcpyAsync=lambda *a: fake._call("memcpyAsync", *a),
            memcpyPeerAsync=lambda *a: fake._call("memcpyPeerAsync", *a),
            memsetAsync=lambda *a: fake._call("memsetAsync", *a),
            memcpyDeviceToHost=2,
            memcpyHostToDevice=1,
            memcpyDeviceToDevice=3,
        )
        driver = types.SimpleNamespace(
            CUDADriverError=DriverFailure,
            launchKernel=launch_kernel,
            funcSetAttribute=lambda f, attribute, value: fake._call(
                "funcSetAttribute", f, attribute, value
            ),
            funcGetAttribute=func_get_attribute,
            CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES=1,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT=9,
        )
        for path, names in (("runtime", runtime), ("driver", driver)):
            for name, fakes in list(vars(names).items()):
                if isinstance(fakes, types.FunctionType) and name != "launchKernel":
                    setattr(names, name, _both(f"{path}.{name}", fakes))
        return types.SimpleNamespace(
            runtime=runtime,
            driver=driver,
            nvrtc=FakeNvrtc(),
            is_available=lambda: fake.devices > 0,
            Stream=Stream,
            Event=Event,
            Memory=Memory,
            Module=Module,
            get_current_stream=_both("get_current_stream", fake.get_current_stream),
            get_elapsed_time=lambda a, b: fake._check() or 2.5,
            alloc_pinned_memory=_both("alloc_pinned_memory", alloc_pinned),
            UnownedMemory=UnownedMemory,
            MemoryPointer=MemoryPointer,
            using_allocator=self._using_allocator,
            device=types.SimpleNamespace(get_cublas_handle=lambda: 1),
        )

    @contextlib.contextmanager
    def _using_allocator(self, allocator: Any = None) -> Any:
        before, self.allocator = self.allocator, allocator
        try:
            yield
        finally:
            self.allocator = before

    def get_current_stream(self, device_id: int = -1) -> Any:
        device = self.device if device_id == -1 else device_id
        return self.current.get(device, self.default or self.module.cuda.Stream.null)


class _Array:
    """An argument or result of a library: it has no elements, and records writes."""

    def __init__(self, shape: Any, dtype: Any, memptr: Any, strides: Any = None) -> None:
        import numpy as np

        if REAL is not None:  # check the arguments by the real class
            real = REAL.MemoryPointer(REAL.UnownedMemory(memptr.ptr, memptr.mem.size, None, 0), 0)
            made = sys.modules["cupy_without_driver"].ndarray(shape, dtype, real, strides=strides)
            assert made.strides == strides or strides is None
        self.shape, self.dtype, self.data = tuple(shape), np.dtype(dtype), memptr
        self.size = int(np.prod(shape))
        self.strides = strides or np.empty(shape, dtype).strides
        self.written: list[Any] = []

    def __setitem__(self, key: Any, value: Any) -> None:
        self.written.append(value)


def _both(path: str, fake: Any) -> Any:
    def call(*arguments: Any) -> Any:
        as_real(path, *arguments)
        return fake(*arguments)

    return call


class FakeNvrtc:
    """A fake NVRTC: a program is its source text, and a source with `#error` does not compile."""

    NVRTCError = NVRTCFailure

    def __init__(self) -> None:
        self.programs: dict[int, list[Any]] = {}
        self.compiled = 0

    def getVersion(self):
        return (12, 9)

    def getSupportedArchs(self):
        return (75, 80, 86, 90)

    def createProgram(self, source, name, headers, include_names):
        self.programs[len(self.programs) + 1] = [source, name]
        return len(self.programs)

    def compileProgram(self, program, options):
        self.compiled += 1
        self.programs[program].append(options)
        if "#error" in self.programs[program][0]:
            raise NVRTCFailure("NVRTC_ERROR_COMPILATION (6)")

    def getProgramLog(self, program):
        return f"{self.programs[program][1]}(3): error: #error\n"

    def getCUBIN(self, program):
        return b"CUBIN" + repr(self.programs[program]).encode()

    def getPTX(self, program):
        return b"PTX"

    def destroyProgram(self, program):
        self.programs[program] = [None]
