"""CUDA devices through CuPy 14: the only module that imports it.

CuPy is the only truth for the current device and the current stream, so that `with stream:` of
CuPy and of gputensor mean the same. Every entry takes a device index, switches where that is not
the current device, and switches back. Memory comes from our free lists (allocator.py) over one
`cupy.cuda.MemoryPool` per device; kernels are compiled by NVRTC with our own options, since CuPy
appends `-ftz=true`, and launched with one by-value struct through `cupy.cuda.driver.launchKernel`
(102 ns where `RawKernel.__call__` costs microseconds). A launch asks the driver nothing else.
"""

from __future__ import annotations

import ctypes
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import cupy
import numpy as np

from gputensor.core import errors

from . import nvrtc
from .allocator import Allocator, Memory

name = "cuda"
is_emulated = False

_runtime: Any = cupy.cuda.runtime
_driver: Any = cupy.cuda.driver
_get_device = _runtime.getDevice
_set_device = _runtime.setDevice
_launch_kernel = _driver.launchKernel
_cupy_stream = cupy.cuda.get_current_stream

_MAX_PARAMS = 4096
_ONE = (0,)  # where the one parameter of our own kernels lies
_DEFAULT_SHARED = 48 * 1024
_COMPUTE_MAJOR, _COMPUTE_MINOR = 75, 76  # cudaDevAttrComputeCapability*

_lock = threading.Lock()
_local = threading.local()
_allocators: list[Allocator] = []
_streams: dict[int, tuple[Any, Stream]] = {}  # by device: the CuPy stream seen last, and ours for it
_modules: dict[tuple[bytes, int], Any] = {}
_archs: dict[int, str] = {}


def is_available() -> bool:
    return bool(cupy.cuda.is_available())


def unavailable_reason() -> str | None:
    """The driver's own words where there are any."""
    try:
        count = _runtime.getDeviceCount()
    except Exception as error:  # CUDARuntimeError, or a RuntimeError where libcuda is missing
        return str(error)
    return None if count else "the driver sees no GPU"


def device_count() -> int:
    return len(_allocators) or _start()


def _start() -> int:
    """Make the allocators, once: the number of devices cannot change in a process."""
    with _lock:
        if not _allocators:
            count = _runtime.getDeviceCount()
            _allocators.extend(Allocator(i, _Backend(i)) for i in range(count))
    return len(_allocators)


class _On:
    """`with _On(index)`: the device is current inside. The hot path does it inline."""

    __slots__ = ("_index", "_previous")

    def __init__(self, index: int) -> None:
        self._index = index

    def __enter__(self) -> None:
        self._previous = _get_device()
        if self._previous != self._index:
            _set_device(self._index)

    def __exit__(self, *exception: object) -> None:
        if self._previous != self._index:
            _set_device(self._previous)


# --- devices ------------------------------------------------------------------------------------


def current_device() -> int:
    return _get_device()


def set_device(index: int) -> None:
    exchange_device(index)


def exchange_device(index: int) -> int:
    """Make a device current; returns the one that was."""
    previous = _get_device()
    if index != previous:
        _set_device(_checked("set_device", index))
    return previous


def device_of(ptr: int) -> int:
    """The device of an address; the current one for null, which an empty array may have."""
    return int(_runtime.pointerGetAttributes(ptr).device) if ptr else _get_device()


def _checked(op: str, index: int) -> int:
    if not 0 <= index < device_count():
        raise errors.device_index_out_of_range(op, index, device_count())
    return index


def device_name(index: int) -> str:
    properties = _runtime.getDeviceProperties(_checked("device_name", index))
    given = properties["name"]
    return given.decode() if isinstance(given, bytes) else given


def capability(index: int) -> tuple[int, int]:
    _checked("capability", index)
    attribute = _runtime.deviceGetAttribute
    return attribute(_COMPUTE_MAJOR, index), attribute(_COMPUTE_MINOR, index)


def mem_get_info(index: int) -> tuple[int, int]:
    with _On(_checked("mem_get_info", index)):
        free, total = _runtime.memGetInfo()
    return free, total


def can_access_peer(device_index: int, peer_index: int) -> bool:
    if device_index == peer_index:
        return True
    return bool(_runtime.deviceCanAccessPeer(device_index, peer_index))


# --- memory -------------------------------------------------------------------------------------


class _Backend:
    """One CuPy pool (Note [Allocator backend]).

    CuPy's pool keeps an arena per stream, and a chunk goes back to the arena of the stream that
    was current when it was allocated. So each block is allocated with its own stream current, and
    giving it back early is safe in the same way as in our own free lists.
    """

    def __init__(self, device_index: int) -> None:
        self._device_index = device_index
        self._pool = cupy.cuda.MemoryPool()

    def malloc(self, size: int, stream: Stream) -> tuple[int, Any]:
        with _On(self._device_index):
            previous = _cupy_stream(self._device_index)
            stream.cupy.use()
            try:
                memory = self._pool.malloc(size)  # raises a MemoryError of CuPy
            finally:
                previous.use()
        return memory.ptr, memory

    def free(self, ptr: int, handle: Any, stream: Stream) -> None:
        """CuPy takes the chunk back when the caller drops the handle."""

    def record(self, stream: Stream) -> Event:
        return stream.record_event()

    def release(self) -> None:
        with _On(self._device_index):
            self._pool.free_all_blocks()

    def synchronize(self) -> None:
        with _On(self._device_index):
            _runtime.deviceSynchronize()

    def mem_get_info(self) -> tuple[int, int]:
        return mem_get_info(self._device_index)


def allocate(nbytes: int, device_index: int) -> Memory:
    """Memory for work on the current stream of the device."""
    try:
        allocator = _allocators[device_index]
    except IndexError:  # no such device, or the first call of the process
        allocator = _allocators[_checked("allocate", device_index)]
    of = _cupy_stream(device_index)
    seen = _streams.get(device_index)
    stream = seen[1] if seen is not None and seen[0] is of else _of_cupy(device_index, of)
    return allocator.allocate(nbytes, stream)


def memory_allocated(index: int) -> int:
    return _allocators[_checked("memory_allocated", index)].allocated


def memory_reserved(index: int) -> int:
    return _allocators[_checked("memory_reserved", index)].reserved


def memory_stats(index: int) -> dict[str, int]:
    return _allocators[_checked("memory_stats", index)].stats()


def reset_peak_memory_stats(index: int) -> None:
    _allocators[_checked("reset_peak_memory_stats", index)].reset_peaks()


def memory_snapshot() -> list[dict[str, Any]]:
    return [block for allocator in _allocators for block in allocator.snapshot()]


def empty_cache() -> None:
    for allocator in _allocators:
        allocator.empty_cache()


def set_memory_limit(index: int, nbytes: int | None) -> None:
    _allocators[_checked("set_memory_limit", index)].set_limit(nbytes)


def record_stream(memory: Memory, stream: Stream) -> None:
    """Say that work on `stream` uses memory that was allocated for another one.

    Memory of another library has no block of ours; its library reuses it.
    """
    if memory.block is not None:
        _allocators[memory.device_index].record_stream(memory, stream)


# --- streams and events -------------------------------------------------------------------------


class Stream:
    """A CuPy stream together with its device; does not synchronise with the default stream."""

    __slots__ = ("__weakref__", "cupy", "device_index", "priority", "ptr")

    def __init__(self, device_index: int, priority: int = 0, *, of: Any = None) -> None:
        if of is None:
            with _On(_checked("Stream", device_index)):
                of = cupy.cuda.Stream(non_blocking=True, priority=priority or None)
        self.cupy = of
        self.ptr: int = of.ptr
        self.device_index = device_index
        self.priority = priority

    def synchronize(self) -> None:
        with _On(self.device_index):
            _reporting(self.device_index, self.cupy.synchronize)

    def query(self) -> bool:
        with _On(self.device_index):
            return bool(self.cupy.done)

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Work added from now on runs after what the other stream has."""
        self.wait_event(stream.record_event())

    def record_event(self) -> Event:
        event = Event()
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<Stream {self.ptr:#x} of cuda:{self.device_index}>"


class Event:
    """A point in a stream's work; CuPy's event is made when first recorded, on that device."""

    __slots__ = ("_device_index", "cupy", "enable_timing")

    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing
        self.cupy: Any = None
        self._device_index = -1

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or current_stream(_get_device())
        with _On(stream.device_index):
            if self._device_index != stream.device_index:
                self.cupy = cupy.cuda.Event(disable_timing=not self.enable_timing)
                self._device_index = stream.device_index
            self.cupy.record(stream.cupy)

    def wait(self, stream: Stream | None = None) -> None:
        """Work added to the stream from now on runs after this point."""
        if self.cupy is not None:
            stream = stream or current_stream(_get_device())
            with _On(stream.device_index):
                stream.cupy.wait_event(self.cupy)

    def query(self) -> bool:
        return self.cupy is None or bool(self.cupy.done)

    def synchronize(self) -> None:
        if self.cupy is not None:
            _reporting(self._device_index, self.cupy.synchronize)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds between two points."""
        for event in (self, end):
            if not event.enable_timing or not event.cupy or not event.query():
                got = "no timing" if not event.enable_timing else "not passed yet"
                rule = "be events with enable_timing=True that have been passed"
                raise errors.must("elapsed_time", "events", rule, errors.Got(got))
        return cupy.cuda.get_elapsed_time(self.cupy, end.cupy)


def _reporting(device_index: int, wait: Any) -> None:
    """Wait, and report what the device did wrong meanwhile: the one place where that surfaces."""
    try:
        wait()
    except (_runtime.CUDARuntimeError, _driver.CUDADriverError) as error:
        what = f"a kernel or copy before this point failed: {error}"
        raise errors.kernel_failed(f"cuda:{device_index}", what) from error


def default_stream(index: int) -> Stream:
    _checked("default_stream", index)
    return _of_cupy(index, cupy.cuda.Stream.null)


def current_stream(index: int) -> Stream:
    """CuPy's current stream of a device in this thread."""
    of = _cupy_stream(index)
    seen = _streams.get(index)
    return seen[1] if seen is not None and seen[0] is of else _of_cupy(index, of)


def _of_cupy(index: int, of: Any) -> Stream:
    stream = Stream(index, of=of)
    _streams[index] = (of, stream)
    return stream


def set_stream(stream: Stream) -> Stream:
    """Make a stream current for its device in this thread; returns the one that was."""
    previous = current_stream(stream.device_index)
    with _On(stream.device_index):
        stream.cupy.use()
    return previous


class _External:
    """A stream of another library, as CuPy takes one (`ExternalStream` is deprecated in CuPy 14)."""

    __slots__ = ("ptr",)

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr


def external_stream(index: int, ptr: int) -> Stream:
    """The stream of another library, which keeps it alive; 0 and 1 are the legacy default stream."""
    if ptr in (0, 1):
        return default_stream(index)
    found = _external.get((index, ptr))
    if found is None:
        found = Stream(index, of=cupy.cuda.Stream.from_external(_External(ptr)))
        _external[index, ptr] = found
    return found


_external: dict[tuple[int, int], Stream] = {}


def synchronize(index: int) -> None:
    """Wait for all work of a device; raises what that work did wrong."""
    with _On(_checked("synchronize", index)):
        _reporting(index, _runtime.deviceSynchronize)


# --- copies -------------------------------------------------------------------------------------


def copy_async(
    dst_ptr: int, dst_device: int, src_ptr: int, src_device: int, nbytes: int, stream: Stream
) -> None:
    """Queue a copy; device -1 is the host, which must be pinned for the copy to be asynchronous."""
    if nbytes == 0:
        return
    with _On(stream.device_index):
        if dst_device < 0:
            _runtime.memcpyAsync(dst_ptr, src_ptr, nbytes, _runtime.memcpyDeviceToHost, stream.ptr)
            _keep_pinned(dst_ptr, stream)
        elif src_device < 0:
            _runtime.memcpyAsync(dst_ptr, src_ptr, nbytes, _runtime.memcpyHostToDevice, stream.ptr)
            _keep_pinned(src_ptr, stream)
        elif dst_device == src_device:
            kind = _runtime.memcpyDeviceToDevice
            _runtime.memcpyAsync(dst_ptr, src_ptr, nbytes, kind, stream.ptr)
        else:
            _runtime.memcpyPeerAsync(dst_ptr, dst_device, src_ptr, src_device, nbytes, stream.ptr)


def memset_async(ptr: int, value: int, nbytes: int, device_index: int, stream: Stream) -> None:
    """Queue a fill with one byte value."""
    if nbytes:
        with _On(device_index):
            _runtime.memsetAsync(ptr, value, nbytes, stream.ptr)


_pinned_begins: list[int] = []
_pinned: dict[int, tuple[Any, int]] = {}  # by begin: what keeps the bytes alive, how many
_in_flight: deque[tuple[Event, Any]] = deque()


class PinnedMemory:
    """`nbytes` bytes of page-locked host memory; `array` is a view that keeps them alive."""

    __slots__ = ("__weakref__", "_begin", "_owner", "array", "nbytes", "ptr")

    def __init__(self, nbytes: int) -> None:
        self._begin = 0
        self._owner = cupy.cuda.alloc_pinned_memory(max(nbytes, 1))
        self.ptr = int(self._owner.ptr)
        self.nbytes = nbytes
        self.array = np.frombuffer(self._owner, np.uint8, max(nbytes, 1))[:nbytes]
        with _lock:
            _pinned[self.ptr] = self._owner, nbytes
            _pinned_begins.insert(bisect_right(_pinned_begins, self.ptr), self.ptr)
        self._begin = self.ptr

    def __del__(self) -> None:
        if self._begin:
            del _pinned[self._begin]
            _pinned_begins.remove(self._begin)


def pinned_allocate(nbytes: int) -> PinnedMemory:
    while _in_flight and _in_flight[0][0].query():
        _in_flight.popleft()
    return PinnedMemory(nbytes)


def _keep_pinned(ptr: int, stream: Stream) -> None:
    """Keep the pinned memory that a copy uses from reuse until the stream has passed the copy."""
    at = bisect_right(_pinned_begins, ptr)
    if at:
        begin = _pinned_begins[at - 1]
        owner, nbytes = _pinned[begin]
        if ptr < begin + nbytes:
            _in_flight.append((stream.record_event(), owner))


# --- kernels ------------------------------------------------------------------------------------


class Function:
    """One kernel, for one device; `shared_bytes` is what it may be launched with as it stands."""

    __slots__ = ("device_index", "function", "image", "module", "name", "ptr", "shared_bytes")

    def __init__(
        self, function: Any, name: str, device_index: int, module: Any = None, image: bytes = b""
    ) -> None:
        self.module, self.image = module, image
        self.function = function  # keeps the module loaded
        self.ptr: int = function.ptr
        self.name = name
        self.device_index = device_index
        # What the kernel declares itself counts into the 48 KiB that need no leave.
        own = _driver.funcGetAttribute(_driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, self.ptr)
        self.shared_bytes = max(_DEFAULT_SHARED - own, 0)

    def symbol(self, name: str) -> tuple[int, int | None]:
        """Address of a __constant__ or __device__ variable; CuPy does not tell its bytes."""
        mangled = getattr(self.image, "names", {}).get(f"&{name}", name)
        with _On(self.device_index):
            _give_context()
            return self.module.get_global_var(mangled), None


def arch(device_index: int) -> str:
    """The architecture to compile for: the device's, or the newest that NVRTC knows below it."""
    found = _archs.get(device_index)
    if found is None:
        major, minor = capability(device_index)
        found = _archs[device_index] = nvrtc.nearest_arch(cupy.cuda.nvrtc, major * 10 + minor)
    return found


def compile(
    text: str,
    variants: Sequence[Mapping[str, object]],
    arch: str,
    *,
    entries: Sequence[str] | None = None,
    headers: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> bytes:
    """A cubin of one variant; needs NVRTC and no GPU.

    entries, headers, options: for a text of a user, the C++ names wanted, what it may include, and
    what NVRTC is told beside our own options.
    """
    (defines,) = variants
    if entries is not None:
        from . import nvrtc_users

        return nvrtc_users.compile_text(
            cupy.cuda.nvrtc, text, defines, arch, entries, headers or {}, options
        )
    return nvrtc.compile_cubin(cupy.cuda.nvrtc, text, defines, arch)


def load(image: bytes, entry: str, device_index: int, variant: int = 0) -> Function:
    """A kernel of a cubin, on one device; the module is loaded once per device."""
    mangled = getattr(image, "names", {}).get(entry, entry)
    with _On(_checked("load", device_index)):
        key = (image, device_index)
        module = _modules.get(key)
        try:
            _give_context()
            if module is None:
                module = cupy.cuda.Module()
                module.load(bytes(image))  # CuPy takes no subclass of bytes
                _modules[key] = module
            return Function(module.get_function(mangled), entry, device_index, module, image)
        except (_runtime.CUDARuntimeError, _driver.CUDADriverError) as error:
            what = f"cannot be loaded on cuda:{device_index}: {error}"
            raise errors.kernel_failed(entry, what) from error


def _give_context() -> None:
    """The current device's context for this thread: the driver's own calls make none by themselves."""
    _runtime.memGetInfo()


class _Launcher:
    """What a thread launches with: a parameter block at a fixed address; where it has contexts."""

    __slots__ = ("address", "array", "begin", "block", "devices", "lists", "view")

    def __init__(self) -> None:
        self.block = ctypes.create_string_buffer(_MAX_PARAMS + 64)
        begin = ctypes.addressof(self.block)
        skip = -begin % 64
        self.begin = begin + skip
        self.array = (ctypes.c_void_p * 1)(self.begin)
        self.address = ctypes.addressof(self.array)
        self.lists: dict[tuple[int, ...], tuple[Any, int]] = {}
        self.view = memoryview(self.block).cast("B")[skip : skip + _MAX_PARAMS]
        self.devices: set[int] = set()

    def list_of(self, offsets: tuple[int, ...]) -> int:
        """Address of an array with the address of each parameter in the block."""
        found = self.lists.get(offsets)
        if found is None:
            array = (ctypes.c_void_p * max(len(offsets), 1))(*(self.begin + at for at in offsets))
            found = self.lists[offsets] = array, ctypes.addressof(array)
        return found[1]


def launch(
    function: Function,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    stream: Stream,
    params: bytes,
    offsets: tuple[int, ...] = _ONE,
) -> None:
    """Queue a launch; `params` are the parameters' bytes, each parameter at its offset."""
    try:
        launcher = _local.launcher
    except AttributeError:
        launcher = _local.launcher = _Launcher()
    device = function.device_index
    previous = _get_device()
    if previous != device:
        _set_device(device)
    try:
        if device not in launcher.devices or shared_bytes > function.shared_bytes:
            _prepare(launcher, function, shared_bytes)
        launcher.view[: len(params)] = params
        address = launcher.address if offsets is _ONE else launcher.list_of(offsets)
        _launch_kernel(function.ptr, *grid, *block, shared_bytes, stream.ptr, address, 0)
    except Exception as error:
        raise _launch_error(error, function, grid, block, shared_bytes, stream, params) from error
    finally:
        if previous != device:
            _set_device(previous)


def _prepare(launcher: _Launcher, function: Function, shared_bytes: int) -> None:
    """Once per thread and device: a context. Beyond 48 KiB of shared memory: the driver's leave."""
    _give_context()
    launcher.devices.add(function.device_index)
    if shared_bytes > function.shared_bytes:
        attribute = _driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _driver.funcSetAttribute(function.ptr, attribute, shared_bytes)
        function.shared_bytes = shared_bytes


def _launch_error(
    error: Exception,
    function: Function,
    grid: Any,
    block: Any,
    shared: int,
    stream: Stream,
    params: bytes,
) -> Exception:
    if len(params) > _MAX_PARAMS:
        got = f"{len(params)} bytes"
        return errors.cannot_launch(
            function.name, "params", f"have at most {_MAX_PARAMS} bytes", got
        )
    if stream.device_index != function.device_index:
        rule = f"be of cuda:{function.device_index}"
        return errors.cannot_launch(function.name, "stream", rule, stream)
    given = f"grid {grid}, block {block}, {shared} bytes of shared memory"
    what = f"launch with {given} failed: {error}"
    return errors.kernel_failed(function.name, what)


def reset_after_fork() -> None:
    """In a forked child nothing of the parent's CUDA state can be used or given back."""
    for allocator in _allocators:
        allocator.is_closed = True
