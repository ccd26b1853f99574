"""A `cupy` on the emulator, so that runtime/cuda and all modules above it run without a GPU.

It replaces the real one if this folder's parent is on the path before site-packages; see
tests/cuda/test_whole_over_cupy.py. It has the names of CuPy 14.2 that runtime/cuda uses, and CUDA's
rules that our emulator runtime does not need: modules are loaded from bytes, a function is a
number, more than 48 KiB of shared memory must be requested, streams are handles, current device and
stream are CuPy's. fake_cupy.py checks argument types against the real CuPy.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import sys
import threading
import types
import weakref
from typing import Any

import numpy as np

from gputensor.core.errors import GpuTensorError
from gputensor.cuda import text as layouts
from gputensor.runtime import cuda_emulator as emulator
from gputensor.runtime.emulator.queues import Recording

# Of cuBLAS and cuSOLVER: see tests/kernels/cuda_libraries.
BLAS_HANDLE, HANDLE = 0x6000, 0x5000

emulator.start()
__version__ = "14.2.0"

_local = threading.local()


NAMES = {
    2: "cudaErrorMemoryAllocation: out of memory",
    400: "cudaErrorInvalidResourceHandle: invalid resource handle",
    900: "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing",
    904: "cudaErrorStreamCaptureUnjoined: capture has not been joined",
    704: "cudaErrorPeerAccessAlreadyEnabled: peer access is already enabled",
    719: "cudaErrorLaunchFailure: unspecified launch failure",
}


class CUDARuntimeError(RuntimeError):
    """An error of the runtime API."""

    def __init__(self, status: int, more: str = "") -> None:
        super().__init__(NAMES[status] + more)
        self.status = status


class CUDADriverError(CUDARuntimeError):
    """An error of the driver API."""


class NVRTCError(RuntimeError):
    """An error of NVRTC."""


def _as(kind: type[Exception], call: Any, *arguments: Any) -> Any:
    """Convert the emulator's errors to CuPy's."""
    try:
        return call(*arguments)
    except GpuTensorError as error:
        raise kind(719, f": {error}") from error


# --- streams and events ---------------------------------------------------------------------------


class Stream:
    """A handle; 0 is the default stream of whichever device is current."""

    def __init__(
        self,
        null: bool = False,
        non_blocking: bool = False,
        ptds: bool = False,
        priority: int | None = None,
    ) -> None:
        self._own = None if null or ptds else emulator.Stream(emulator.current_device())
        self.ptr = self._own.ptr if self._own is not None else 2 if ptds else 0
        self.device_id = -1 if self._own is None else emulator.current_device()

    @classmethod
    def from_external(cls, theirs: Any) -> Stream:
        version, ptr = theirs.__cuda_stream__()
        assert version == 0 and ptr not in (0, 1)
        stream = cls(null=True)
        stream.ptr, stream.foreign = ptr, theirs
        return stream

    def use(self) -> Stream:
        if self.device_id not in (-1, emulator.current_device()):
            raise RuntimeError("the stream's device does not match with the current device")
        _streams()[emulator.current_device()] = self
        emulator.set_stream(_handle(self.ptr))
        return self

    def synchronize(self) -> None:
        _as(CUDARuntimeError, _handle(self.ptr).synchronize)

    def wait_event(self, event: Event) -> None:
        handle = _handle(self.ptr)
        if event.recording is not None:
            handle.queue.recording = event.recording
        event.of.wait(handle)

    def begin_capture(self, mode: int | None = None) -> None:
        """The emulator records. runtime/cuda checks which calls are allowed during the capture."""
        handle = _handle(self.ptr)
        assert mode in (0, 1, 2) and handle.queue.recording is None
        handle.queue.recording = Recording()
        _modes[threading.get_ident()] = mode

    def end_capture(self) -> Graph:
        recording = _handle(self.ptr).queue.recording
        is_joined = recording.is_joined(_handle(self.ptr).queue)
        for queue in [*recording.last, _handle(self.ptr).queue]:
            queue.recording = None
        del _modes[threading.get_ident()]
        if not is_joined:
            raise CUDARuntimeError(904)
        return Graph(recording)


class Graph:
    def __init__(self, recording: Recording) -> None:
        self._recording, self._device = recording, emulator.current_device()
        self.debug_dot_str = recording.debug_dot_str

    def launch(self, stream: Stream) -> None:
        assert self._device == emulator.current_device()
        _as(
            CUDARuntimeError,
            emulator.devices.scheduler.replay,
            _handle(stream.ptr).queue,
            self._recording,
        )


# Thread -> the mode of its capture, and its interaction mode with captures, which is global by
# default.
_modes: dict[int, int] = {}
_deals: dict[int, int] = {}


def _exchange_mode(mode: Any) -> int:
    me = threading.get_ident()
    mode._obj.value, _deals[me] = _deals.get(me, 0), mode._obj.value
    return 0


def _is_unsafe() -> bool:
    """True if the driver would now reject an allocation by this thread; see
    cuThreadExchangeStreamCaptureMode."""
    me = threading.get_ident()
    deals = _deals.get(me, 0)
    return deals != 2 and (_modes.get(me, 2) != 2 or deals == 0 and 0 in _modes.values())


def _load(name: Any, *rest: Any, **named: Any) -> Any:
    if name == "libcuda.so.1":
        return types.SimpleNamespace(cuThreadExchangeStreamCaptureMode=_exchange_mode)
    return _CDLL(name, *rest, **named)


_CDLL, ctypes.CDLL = ctypes.CDLL, _load  # type: ignore[misc]


def _handle(ptr: int) -> Any:
    """The emulator's stream for a handle, which must be of the current device."""
    device = emulator.current_device()
    if ptr == 2:
        return _per_thread(device)
    try:
        stream = emulator.external_stream(device, ptr)
    except KeyError:  # it was destroyed
        raise CUDARuntimeError(400) from None
    if stream.device_index != device:
        raise CUDARuntimeError(400)
    return stream


def _per_thread(device: int) -> Any:
    """Return the thread's default stream of a device. All threads use one handle for their own
    streams."""
    if not hasattr(_local, "defaults"):
        _local.defaults = {}
    if device not in _local.defaults:
        _local.defaults[device] = emulator.Stream(device)
    return _local.defaults[device]


def _streams() -> dict[int, Stream]:
    if not hasattr(_local, "streams"):
        _local.streams = {}
    return _local.streams


def _current_stream(device_id: int = -1) -> Stream:
    device = emulator.current_device() if device_id == -1 else device_id
    return _streams().get(device, Stream.ptds if _is_per_thread else Stream.null)


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)
_is_per_thread = os.environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM") == "1"


class Event:
    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ) -> None:
        self.of = emulator.Event(not disable_timing)
        self._device = emulator.current_device()
        self.recording: Recording | None = None
        self.ptr = id(self)
        _events[self.ptr] = self

    def record(self, stream: Stream) -> None:
        assert self._device == emulator.current_device(), "an event belongs to a device"
        self.of.record(_handle(stream.ptr))
        self.recording = _handle(stream.ptr).queue.recording

    def synchronize(self) -> None:
        _as(CUDARuntimeError, self.of.synchronize)


_events: weakref.WeakValueDictionary[int, Event] = weakref.WeakValueDictionary()


def _event_query(ptr: int) -> int:
    return _status(_events[ptr].of)


def _stream_query(ptr: int) -> int:
    return _status(_handle(ptr))


def _status(asked: Any) -> int:
    try:
        return 0 if asked.query() else 600
    except GpuTensorError:
        return 719


# --- memory ---------------------------------------------------------------------------------------


class Memory:
    """A segment. When it is dropped, it is freed after the queued work of all streams."""

    def __init__(self, size: int) -> None:
        self._device, self._size = emulator.current_device(), 0
        if _is_unsafe():
            raise CUDARuntimeError(900)
        if _used[self._device] + size > emulator.devices.total_bytes:
            raise CUDARuntimeError(2)
        self.ptr = emulator.devices.machine.allocate(size, self._device)
        self._size = size
        _used[self._device] += size

    def __del__(self) -> None:
        if self._size:
            emulator.devices.scheduler.drain_all(self._device)
            emulator.devices.machine.drop(self.ptr)
            emulator.devices.machine.free(self.ptr)
            _used[self._device] -= self._size


_used = [0] * emulator.device_count()
_peers: set[tuple[int, int]] = set()


def _mem_get_info() -> tuple[int, int]:
    return emulator.devices.total_bytes - _used[
        emulator.current_device()
    ], emulator.devices.total_bytes


def _enable_peer_access(peer: int) -> None:
    pair = emulator.current_device(), peer
    if pair in _peers:
        raise CUDARuntimeError(704)
    _peers.add(pair)


def get_default_memory_pool() -> Any:
    """Memory that no stream owns."""

    def malloc(nbytes: int) -> MemoryPointer:
        owner = Memory(nbytes)
        return MemoryPointer(UnownedMemory(owner.ptr, nbytes, owner, owner._device), 0)

    return types.SimpleNamespace(free_all_blocks=lambda: None, malloc=malloc)


class _Pinned(np.ndarray):
    """A buffer with an address."""

    @property
    def ptr(self) -> int:
        return int(self.ctypes.data)


def _alloc_pinned_memory(size: int) -> Any:
    return emulator.pinned_allocate(size).array.view(_Pinned)


def _pointer_get_attributes(ptr: int) -> Any:
    found = emulator.devices.machine.find(ptr)
    if found is None:
        raise CUDARuntimeError(400)
    return types.SimpleNamespace(device=found.device, type=2)


def _memcpy_async(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    device = emulator.current_device()
    if dst in _symbols:
        emulator.write_symbol(dst, ctypes.string_at(src, size), _handle(stream))
        return
    to, of = {1: (device, -1), 2: (-1, device), 3: (device, device)}[kind]
    emulator.copy_async(dst, to, src, of, size, _handle(stream))


def _memcpy_peer_async(
    dst: int, dst_device: int, src: int, src_device: int, size: int, stream: int
) -> None:
    emulator.copy_async(dst, dst_device, src, src_device, size, _handle(stream))


def _memset_async(ptr: int, value: int, size: int, stream: int) -> None:
    emulator.memset_async(ptr, value, size, emulator.current_device(), _handle(stream))


# --- arrays ---------------------------------------------------------------------------------------


class UnownedMemory:
    """Memory that another object owns."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset


class ndarray(np.ndarray):
    """An ndarray over emulated memory. Work of the device that was queued earlier is finished
    first, and NumPy's operations run at once. A GPU may choose this order."""

    memory: MemoryPointer | None = None

    def __new__(cls, shape: Any, dtype: Any, memptr: MemoryPointer, strides: Any = None) -> ndarray:
        assert memptr.mem.device_id in (-1, emulator.current_device()), "the wrong device"
        _as(CUDARuntimeError, emulator.synchronize, emulator.current_device())
        size = memptr.mem.size
        room = (ctypes.c_char * size).from_address(memptr.ptr) if size else bytearray()
        made = np.ndarray.__new__(cls, shape, dtype, room, 0, strides)
        made.memory = memptr
        return made

    @property
    def data(self) -> Any:  # type: ignore[override]
        mem = _holder(self).memory.mem
        return types.SimpleNamespace(mem=mem, ptr=self.ctypes.data if self.size else mem.ptr)


def _holder(x: Any) -> Any:
    """Return the device array of which x is a view; another object if x is in host memory."""
    while isinstance(x, ndarray) and x.memory is None:
        x = x.base
    return x


@contextlib.contextmanager
def _using_allocator(allocator: Any = None) -> Any:
    before, _local.allocator = getattr(_local, "allocator", None), allocator
    try:
        yield
    finally:
        _local.allocator = before


def asarray(x: Any, dtype: Any = None) -> Any:
    if isinstance(_holder(x), ndarray) and dtype in (None, x.dtype):
        return x
    return _placed(np.asarray(x, dtype))


def array(x: Any, dtype: Any = None, copy: bool = True, order: str = "K") -> Any:
    made = np.array(x, dtype, order=order)
    return _placed(made, made.strides if order == "F" else None)


def _placed(x: Any, strides: Any = None) -> Any:
    """Move NumPy's result to memory of the device; row-major unless strides are given."""
    if isinstance(x, tuple):
        return tuple([_placed(part) for part in x])
    if not isinstance(x, (np.ndarray, np.generic)):
        return x
    made = ndarray(np.shape(x), np.asarray(x).dtype, _local.allocator(x.nbytes), strides)
    made[...] = x
    return made


class _Part(types.ModuleType):
    """A module of NumPy whose results are moved to the device."""

    def __init__(self, name: str, of: Any) -> None:
        super().__init__(name)
        self._of = of

    def __getattr__(self, name: str) -> Any:
        return _on_device(getattr(self._of, name))


def _on_device(found: Any) -> Any:
    if not callable(found) or isinstance(found, type):
        return found

    def call(*args: Any, **named: Any) -> Any:
        with np.errstate(all="ignore"):  # a GPU gives no warnings
            return _placed(found(*args, **named))

    if hasattr(found, "at"):  # a ufunc's
        call.at = found.at
    return call


linalg, fft = _Part("cupy.linalg", np.linalg), _Part("cupy.fft", np.fft)
fft.config = types.SimpleNamespace(get_plan_cache=lambda: ())  # no transform has a plan


def __getattr__(name: str) -> Any:
    return _on_device(getattr(np, name))


# --- kernels --------------------------------------------------------------------------------------

_functions: weakref.WeakValueDictionary[int, _Function] = weakref.WeakValueDictionary()
_numbers = itertools.count(0x7000, 16)
_symbols: set[int] = set()  # addresses of __constant__ and __device__ variables
_DEFAULT_SHARED = 48 * 1024


class _Function:
    def __init__(self, of: Any) -> None:
        self.of, self.ptr, self.shared_bytes = of, next(_numbers), _DEFAULT_SHARED
        _functions[self.ptr] = self


class Module:
    def load(self, cubin: bytes) -> None:
        assert type(cubin) is bytes and cubin.endswith(b"\0"), "CuPy takes no subclass"
        self._image, self._device = cubin[:-1], emulator.current_device()

    def get_function(self, name: str) -> _Function:
        of = _as(CUDADriverError, emulator.load, self._image, name, self._device)
        self._any = of
        return _Function(of)

    def get_global_var(self, name: str) -> int:
        address = self._any.symbol(name.removeprefix("&"))[0]
        _symbols.add(address)
        return address


def _launch_kernel(
    f: int,
    gx: int,
    gy: int,
    gz: int,
    bx: int,
    by: int,
    bz: int,
    shared: int,
    stream: int,
    params: int,
    extra: int,
) -> None:
    function = _functions[f]
    if shared > function.shared_bytes:
        raise CUDADriverError(400)
    assert extra == 0 and function.of.device_index == emulator.current_device(), "the wrong context"
    places = function.of.places
    given = (ctypes.c_void_p * max(len(places), 1)).from_address(params)
    data = bytearray(function.of.loaded.params_size)
    for address, (offset, size) in zip(given, places):
        data[offset : offset + size] = ctypes.string_at(address, size)
    offsets = tuple(offset for offset, _ in places)
    _as(
        CUDADriverError, emulator.launch, function.of, (gx, gy, gz), (bx, by, bz), shared,
        _handle(stream), bytes(data), offsets,
    )  # fmt: skip


def _func_set_attribute(f: int, attribute: int, value: int) -> None:
    if attribute == 8:
        _functions[f].shared_bytes = value
    else:
        assert attribute == 9 and 0 < value <= 100
        _functions[f].carveout = value


class _Nvrtc:
    """g++ with the interface of NVRTC."""

    NVRTCError = NVRTCError

    def __init__(self) -> None:
        self._programs: dict[int, dict[str, Any]] = {}

    def getVersion(self) -> tuple[int, int]:
        return (0, 7)  # so that no cache confuses its results with NVRTC's

    def getSupportedArchs(self) -> list[int]:
        return [70, 80, 90]

    def createProgram(self, src: str, name: str, headers: Any, include_names: Any) -> int:
        number = len(self._programs) + 1
        included = {n.decode(): h.decode() for n, h in zip(include_names, headers)}
        self._programs[number] = {"text": src, "headers": included, "entries": [], "log": ""}
        return number

    def addNameExpression(self, program: int, name: str) -> None:
        self._programs[program]["entries"].append(name)

    def getLoweredName(self, program: int, name: str) -> str:
        return name

    def compileProgram(self, program: int, options: tuple[str, ...]) -> None:
        made = self._programs[program]
        assert not any("ftz" in option for option in options)
        given = [option[2:].partition("=") for option in options if option.startswith("-D")]
        defines = {name: value for name, _, value in given}
        headers = {
            name: text for name, text in made["headers"].items() if name in layouts.headers()
        }
        entries = made["entries"] or re.findall(r'extern "C" __global__ \w+ (\w+)', made["text"])
        try:
            if made["headers"]:  # a user's text
                names = [name for name in entries if not name.startswith("&")]
                image = emulator.compile(made["text"], [defines], entries=names, headers=headers)
            else:
                image = emulator.compile(made["text"], [defines])
            made["image"] = image
        except GpuTensorError as error:
            made["log"] = str(error)
            raise NVRTCError("NVRTC_ERROR_COMPILATION (6)") from error

    def getProgramLog(self, program: int) -> str:
        return self._programs[program]["log"]

    def getPTX(self, program: int) -> bytes:
        return b""

    def getCUBIN(self, program: int) -> bytes:
        return self._programs[program]["image"]

    def destroyProgram(self, program: int) -> None:
        del self._programs[program]


# Results of cudaDeviceGetAttribute, by the numbers of cudaDevAttr*.
_ATTRIBUTES = {75: 7, 76: 0} | dict(
    zip((16, 39, 106, 82, 81, 97, 111, 38, 13, 36, 37), emulator.limits(0))
)

# --- the names ------------------------------------------------------------------------------------

_runtime = types.SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    getDeviceCount=emulator.device_count, getDevice=emulator.current_device,
    setDevice=emulator.set_device,
    memGetInfo=_mem_get_info, streamQuery=_stream_query, eventQuery=_event_query,
    deviceSynchronize=lambda: _as(CUDARuntimeError, emulator.synchronize,
    emulator.current_device()),
    deviceGetAttribute=lambda attribute, device: _ATTRIBUTES[attribute],
    getDeviceProperties=lambda device: {"name": b"CuPy over the emulator"},
    pointerGetAttributes=_pointer_get_attributes,
    deviceCanAccessPeer=lambda device, peer: int(emulator.can_access_peer(device, peer)),
    deviceEnablePeerAccess=_enable_peer_access,
    memcpyAsync=_memcpy_async, memcpyPeerAsync=_memcpy_peer_async, memsetAsync=_memset_async,
    memcpyHostToDevice=1, memcpyDeviceToHost=2, memcpyDeviceToDevice=3,
)  # fmt: skip
_driver = types.SimpleNamespace(
    CUDADriverError=CUDADriverError, launchKernel=_launch_kernel,
    funcGetAttribute=lambda attribute, f: {1: 0}[attribute], CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES=1,
    funcSetAttribute=_func_set_attribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT=9,
)  # fmt: skip
cuda = types.ModuleType("cupy.cuda")
cuda.__dict__.update(
    runtime=_runtime, driver=_driver, nvrtc=_Nvrtc(), is_available=lambda: True, Stream=Stream,
    Event=Event, Memory=Memory, Module=Module, get_current_stream=_current_stream,
    get_elapsed_time=lambda begin, end: begin.of.elapsed_time(end.of),
    alloc_pinned_memory=_alloc_pinned_memory, UnownedMemory=UnownedMemory,
    MemoryPointer=MemoryPointer, using_allocator=_using_allocator,
    device=types.SimpleNamespace(
        get_cublas_handle=lambda: BLAS_HANDLE, get_cusolver_handle=lambda: HANDLE
    ),
)  # fmt: skip
sys.modules["cupy.cuda"] = cuda
