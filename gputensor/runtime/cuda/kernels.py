"""CUDA devices through CuPy 14: the only module that imports it.

CuPy is the only truth for the current device and the current stream, so that `with stream:` of
CuPy and of gputensor mean the same. Every entry takes a device index, switches where that is not
the current device, and switches back. Memory is cached by allocator.py, which asks the driver for
segments; kernels are compiled by NVRTC with our own options, since CuPy appends `-ftz=true`, and
launched with one by-value struct through `cupy.cuda.driver.launchKernel` (102 ns where
`RawKernel.__call__` costs microseconds). A launch asks the driver nothing else.

Note [Failures of a device]
What a kernel did wrong is reported by whichever call comes next, as an error of CuPy. Each entry
makes it a KernelError; after an error that ends the context, every later one names the first.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import cupy
import numpy as np

from gputensor.core import errors

from . import capture, no_cuda, nvrtc, settling
from .allocator import Allocator, Allocators, Memory, allocating, taking
from .capture import capturing
from .device_limits import Limits
from .libraries import Array, Compute, Library, as_results, has_layout
from .pinned import Staging
from .plans import Last, Plans

name = "cuda"
is_emulated = False

_runtime: Any = cupy.cuda.runtime
_driver: Any = cupy.cuda.driver
_get_device: Callable[[], int] = _runtime.getDevice
_set_device: Callable[[int], None] = _runtime.setDevice
_launch_kernel = _driver.launchKernel
_cupy_stream = cupy.cuda.get_current_stream

_MAX_PARAMS = 4096
_ONE = (0,)  # where the one parameter of our own kernels lies
_DEFAULT_SHARED = 48 * 1024
_COMPUTE_MAJOR, _COMPUTE_MINOR = 75, 76  # cudaDevAttrComputeCapability*

# Errors after which a context is of no use, by their numbers in cudaError and CUresult.
_ENDS_CONTEXT = frozenset((214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999))
_OUT_OF_MEMORY, _BAD_HANDLE, _NOT_READY, _HAS_PEER, _UNJOINED = 2, 400, 600, 704, 904
_LIBCUDA = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
_MOST_LAUNCHERS = 1024  # of a kernel that are kept
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED; modes are numbered as capture.MODES lists them
_PER_THREAD = 2  # the handle that stands for another stream in each thread
_STREAMS_IN_POOL = 32  # for each device and priority, as PyTorch has them
# The attributes of `Limits`, in its order: MultiProcessorCount, MaxThreadsPerMultiProcessor,
# MaxBlocksPerMultiprocessor, MaxRegistersPerMultiprocessor, MaxSharedMemoryPerMultiprocessor,
# MaxSharedMemoryPerBlockOptin, ReservedSharedMemoryPerBlock, L2CacheSize, ClockRate,
# MemoryClockRate, GlobalMemoryBusWidth. Source: driver_types.h, cudaDeviceAttr.
_LIMITS = (16, 39, 106, 82, 81, 97, 111, 38, 13, 36, 37)

_lock = threading.Lock()
_local = threading.local()
_allocators = Allocators(lambda op, index: _checked(op, index))
# By device: the CuPy stream seen last, and ours for it.
_streams: dict[int, tuple[Any, Stream]] = {}
_stream_pools: dict[tuple[int, int], deque[Any]] = {}  # by device and priority, CuPy's
_thread_keys = itertools.count(-1, -1)
_peers: set[tuple[int, int]] = set()
_modules: dict[tuple[bytes, int], Any] = {}
_archs: dict[int, str] = {}
_limits: dict[int, Limits] = {}


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


# --- failures -----------------------------------------------------------------------------------

_CudaError = (_runtime.CUDARuntimeError, _driver.CUDADriverError)
_first_failure: str | None = None


def first_failure() -> str | None:
    """The error that ended a device's context; None while all are of use."""
    return _first_failure


def _failed(device_index: int, what: str, error: Any) -> Exception:
    """Our error for one of CuPy's, or for a status: Note [Failures of a device]."""
    if isinstance(error, int):
        error = _runtime.CUDARuntimeError(error)
    return errors.kernel_failed(f"cuda:{device_index}", _told(what, error))


def _told(what: str, error: Exception) -> str:
    global _first_failure
    if getattr(error, "status", 0) not in _ENDS_CONTEXT:
        return f"{what} failed: {error}"
    if _first_failure is None:
        _first_failure = str(error)
        return f"a kernel or copy before this point failed: {error} (seen by {what})"
    return f"{what} failed, as all does after the first failure of this process: {_first_failure}"


def _reporting(device_index: int, what: str, call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except _CudaError as error:
        raise _failed(device_index, what, error) from error


def _is_done(device_index: int, what: str, status: int) -> bool:
    """What a query returned; CuPy's own `done` takes a failure for work that goes on."""
    if status in (0, _NOT_READY):
        return status == 0
    raise _failed(device_index, what, status)


class _Relaxed:
    """While a graph is captured, let this thread call what the driver else refuses in all threads:
    take memory, load modules, wait for what is not captured. A capture records none of that. CuPy
    does not offer the driver's function for it."""

    __slots__ = ("_mode",)

    def __enter__(self) -> None:
        self._mode = ctypes.c_int(_RELAXED) if capturing else None
        self._exchange()

    def __exit__(self, *exception: object) -> None:
        self._exchange()

    def _exchange(self) -> None:
        if self._mode is None:
            return
        # By the name that the loader knows libcuda by: the library that CuPy has loaded.
        exchange = ctypes.CDLL(_LIBCUDA).cuThreadExchangeStreamCaptureMode
        status = exchange(ctypes.byref(self._mode))
        if status:
            raise _failed(_get_device(), "an allocation within a capture", status)


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
    index = _get_device()
    if not ptr:
        return index
    return int(_reporting(index, "asking an address", _runtime.pointerGetAttributes, ptr).device)


def _checked(op: str, index: int) -> int:
    if not 0 <= index < device_count():
        raise errors.device_index_out_of_range(op, index, device_count())
    return index


def device_name(index: int) -> str:
    _checked("device_name", index)
    properties = _reporting(index, "device_name", _runtime.getDeviceProperties, index)
    given = properties["name"]
    return given.decode() if isinstance(given, bytes) else given


def capability(index: int) -> tuple[int, int]:
    _checked("capability", index)
    attributes = (_COMPUTE_MAJOR, _COMPUTE_MINOR)
    ask = _runtime.deviceGetAttribute
    major, minor = [_reporting(index, "capability", ask, a, index) for a in attributes]
    return major, minor


def limits(index: int) -> Limits:
    """What the device has of what plans count with; asked once."""
    found = _limits.get(index)
    if found is None:
        _checked("limits", index)
        ask = _runtime.deviceGetAttribute
        found = Limits(*[_reporting(index, "limits", ask, a, index) for a in _LIMITS])
        _limits[index] = found
    return found


def mem_get_info(index: int) -> tuple[int, int]:
    with _On(_checked("mem_get_info", index)):
        free, total = _reporting(index, "mem_get_info", _runtime.memGetInfo)
    return free, total


def can_access_peer(device_index: int, peer_index: int) -> bool:
    if device_index == peer_index:
        return True
    ask = _runtime.deviceCanAccessPeer
    return bool(_reporting(device_index, "can_access_peer", ask, device_index, peer_index))


# --- memory -------------------------------------------------------------------------------------


class _Backend:
    """The driver's memory (Note [Allocator backend]).

    A handle frees its memory when it is dropped, after all work of the device. CuPy's pool is not
    asked: it collects garbage twice before it reports that memory has run out.
    """

    def __init__(self, device_index: int) -> None:
        self._device_index = device_index

    def malloc(self, size: int, stream: Stream) -> tuple[int, Any]:
        with _On(self._device_index), _Relaxed():
            try:
                handle = cupy.cuda.Memory(size)
            except OverflowError as error:  # more bytes than there are addresses
                raise MemoryError from error
            except _CudaError as error:
                if error.status == _OUT_OF_MEMORY:
                    raise MemoryError from error
                raise _failed(self._device_index, "an allocation", error) from error
        return handle.ptr, handle

    def free(self, ptr: int, handle: Any, stream: Stream) -> None:
        """The caller drops the handle."""

    def mark(self, stream: Stream) -> Stream | Event:
        """A stream that nobody keeps alive for us may be gone later; its work of now counts."""
        return stream.record_event() if stream.is_borrowed else stream

    def record(self, entry: Stream | Event) -> Event | None:
        if isinstance(entry, Event):
            return entry
        if entry.ptr == _PER_THREAD and entry is not _per_thread_stream(entry.device_index):
            return None  # here its handle means the stream of this thread
        event = Event()
        try:
            event.record_or_fail(entry)
        except _CudaError as error:
            if error.status == _BAD_HANDLE:
                return None
            raise _failed(self._device_index, "recording an event", error) from error
        return event

    def release(self) -> None:
        """What arrays of CuPy have left behind in its default pool."""
        with _On(self._device_index):
            cupy.get_default_memory_pool().free_all_blocks()

    def synchronize(self) -> None:
        synchronize(self._device_index)

    def mem_get_info(self) -> tuple[int, int]:
        return mem_get_info(self._device_index)


memory_allocated = _allocators.memory_allocated
memory_reserved = _allocators.memory_reserved
memory_stats = _allocators.memory_stats
reset_peak_memory_stats = _allocators.reset_peak_memory_stats
memory_snapshot = _allocators.memory_snapshot
empty_cache = _allocators.empty_cache
set_memory_limit = _allocators.set_memory_limit
record_stream = _allocators.record_stream


def borrow(ptr: int, nbytes: int, device_index: int, give_back: Callable[[], None]) -> Memory:
    """Memory of another library, for work on the current stream.

    give_back: called when it is dropped and what our streams have queued by then is done.
    """
    allocator = _allocators[_checked("borrow", device_index)]
    return allocator.borrow(ptr, nbytes, current_stream(device_index), give_back)


# --- streams and events -------------------------------------------------------------------------


class Stream:
    """A CuPy stream together with its device; does not synchronise with the default stream.

    One that is made here is one of 32 that a device has for each priority, in turn, as in PyTorch:
    what is cached for them is found again. key: what tells it from others of its device.
    is_borrowed: it is known by its handle, and nothing here keeps it from being destroyed.
    """

    __slots__ = ("__weakref__", "cupy", "device_index", "is_borrowed", "key", "priority", "ptr")

    def __init__(
        self, device_index: int, priority: int = 0, *, of: Any = None, is_borrowed: bool = False
    ) -> None:
        if of is None:
            of = _pooled(_checked("Stream", device_index), priority)
        self.cupy: Any = of
        self.key: int = of.ptr
        self.ptr: int = of.ptr
        self.device_index: int = device_index
        self.priority: int = priority
        self.is_borrowed: bool = is_borrowed

    def synchronize(self) -> None:
        if capturing:
            capture.refuse_wait("synchronize", self)
        with _On(self.device_index), _Relaxed():
            _reporting(self.device_index, "waiting for a stream", self.cupy.synchronize)

    def query(self) -> bool:
        """Whether all its work is done; raises what the device did wrong."""
        if capturing:
            capture.refuse_wait("query", self)
        with _On(self.device_index), _Relaxed():
            return _is_done(self.device_index, "asking a stream", _runtime.streamQuery(self.ptr))

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


def _pooled(device_index: int, priority: int) -> Any:
    priority = max(-5, min(priority, 0))  # the driver's range is within this one
    with _lock:
        streams = _stream_pools.setdefault((device_index, priority), deque())
        if len(streams) == _STREAMS_IN_POOL:
            streams.rotate(-1)
        else:
            with _On(device_index):
                try:
                    made = cupy.cuda.Stream(non_blocking=True, priority=priority or None)
                except _CudaError as error:
                    raise _failed(device_index, "making a stream", error) from error
                streams.append(made)
        return streams[-1]


class Event:
    """A point in a stream's work; CuPy's event is made when first recorded, on that device."""

    __slots__ = ("_by", "_capture", "_device_index", "cupy", "enable_timing")

    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing: bool = enable_timing
        self.cupy: Any = None
        self._device_index = -1
        self._by: Stream | None = None
        self._capture: capture.Capture | None = None

    def record(self, stream: Stream | None = None) -> None:
        settling.settle("an event is recorded")
        stream = stream or current_stream(_get_device())
        try:
            self.record_or_fail(stream)
        except _CudaError as error:
            raise _failed(stream.device_index, "recording an event", error) from error

    def record_or_fail(self, stream: Stream) -> None:
        """The same, with CuPy's errors."""
        with _On(stream.device_index):
            if self._device_index != stream.device_index:
                self.cupy = cupy.cuda.Event(disable_timing=not self.enable_timing)
                self._device_index = stream.device_index
            self.cupy.record(stream.cupy)
        self._capture, self._by = capture.of(stream) if capturing else None, stream

    def wait(self, stream: Stream | None = None) -> None:
        """Work added to the stream from now on runs after this point."""
        if self.cupy is not None:
            settling.settle("a stream waits for an event")
            stream = stream or current_stream(_get_device())
            if capturing or self._capture is not None:
                capture.before_waiting(self._capture, stream)
            with _On(stream.device_index):
                wait, index = stream.cupy.wait_event, stream.device_index
                _reporting(index, "waiting for an event", wait, self.cupy)

    def query(self) -> bool:
        """Whether the work before it is done; raises what the device did wrong."""
        if self.cupy is None:
            return True
        if capturing or self._capture is not None:
            capture.refuse_wait("query", self._by, self._capture)
            return self.has_passed()
        return _is_done(self._device_index, "asking an event", _runtime.eventQuery(self.cupy.ptr))

    def has_passed(self) -> bool:
        """As `query`, for a thread that only watches: no capture minds it."""
        if self.cupy is None:
            return True
        index = self._device_index
        with _On(index), _Relaxed():
            return _is_done(index, "asking an event", _runtime.eventQuery(self.cupy.ptr))

    def synchronize(self) -> None:
        if capturing or self._capture is not None:
            capture.refuse_wait("synchronize", self._by, self._capture)
        if self.cupy is not None:
            with _Relaxed():
                _reporting(self._device_index, "waiting for an event", self.cupy.synchronize)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds between two points."""
        for event in (self, end):
            if not event.enable_timing or not event.cupy or not event.query():
                got = "no timing" if not event.enable_timing else "not passed yet"
                rule = "be events with enable_timing=True that have been passed"
                raise errors.must("elapsed_time", "events", rule, errors.Got(got))
        ask = cupy.cuda.get_elapsed_time
        return float(_reporting(self._device_index, "elapsed_time", ask, self.cupy, end.cupy))


def default_stream(index: int) -> Stream:
    _checked("default_stream", index)
    return _of_cupy(index, cupy.cuda.Stream.null)


def current_stream(index: int) -> Stream:
    """CuPy's current stream of a device in this thread."""
    return _stream_of(index, _cupy_stream(index))


def _of_cupy(index: int, of: Any) -> Stream:
    if of.ptr == _PER_THREAD:
        return _per_thread_stream(index)
    stream = Stream(index, of=of)
    _streams[index] = (of, stream)
    return stream


def _per_thread_stream(index: int) -> Stream:
    """This thread's default stream. All threads have one handle for it, so the key is our own."""
    try:
        streams: dict[int, Stream] = _local.streams
    except AttributeError:
        streams = _local.streams = {}
    if index not in streams:
        stream = streams[index] = Stream(index, of=cupy.cuda.Stream.ptds)
        stream.key = next(_thread_keys)
    return streams[index]


def _stream_of(index: int, of: Any) -> Stream:
    """Ours for a CuPy stream that is current."""
    seen = _streams.get(index)
    return seen[1] if seen is not None and seen[0] is of else _of_cupy(index, of)


allocate = allocating(_allocators, _cupy_stream, _stream_of)
taker = taking(_allocators, _cupy_stream, lambda *given: allocate(*given))


def set_stream(stream: Stream) -> Stream:
    """Make a stream current for its device in this thread; returns the one that was."""
    previous = current_stream(stream.device_index)
    try:
        if previous.key != stream.key:
            settling.settle("another stream becomes current")
    finally:
        with _On(stream.device_index):
            stream.cupy.use()
    return previous


class _External:
    """Another library's stream, as CuPy takes one (`ExternalStream` is deprecated in CuPy 14)."""

    __slots__ = ("owner", "ptr")

    def __init__(self, ptr: int, owner: Any) -> None:
        self.ptr, self.owner = ptr, owner

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr


def external_stream(index: int, ptr: int, owner: Any = None) -> Stream:
    """The stream of another library; 0 and 1 are the legacy default stream, 2 is this thread's.

    owner: what keeps the handle alive, and is kept as long as memory is used there.
    """
    if ptr in (0, 1):
        return default_stream(index)
    if ptr == _PER_THREAD:
        return _per_thread_stream(index)
    if owner is not None:
        return Stream(index, of=cupy.cuda.Stream.from_external(_External(ptr, owner)))
    found = _external.get((index, ptr))
    if found is None:
        of = cupy.cuda.Stream.from_external(_External(ptr, None))
        found = _external[index, ptr] = Stream(index, of=of, is_borrowed=True)
    return found


_external: dict[tuple[int, int], Stream] = {}


def synchronize(index: int) -> None:
    """Wait for all work of a device; raises what that work did wrong."""
    if capturing:
        capture.refuse_device_wait("synchronize", index)
    with _On(_checked("synchronize", index)):
        _reporting(index, "synchronize", _runtime.deviceSynchronize)


# --- copies -------------------------------------------------------------------------------------


def copy_async(
    dst_ptr: int, dst_device: int, src_ptr: int, src_device: int, nbytes: int, stream: Stream
) -> None:
    """Queue a copy; device -1 is the host, which must be pinned for the copy to be asynchronous."""
    if nbytes == 0:
        return
    if capturing and (dst_device < 0 or src_device < 0):
        capture.refuse_host("copy", stream)
    if dst_device != src_device and dst_device >= 0 and src_device >= 0:
        _reach(dst_device, src_device)
    with _On(stream.device_index):
        try:
            if 0 <= dst_device != src_device >= 0:
                places = dst_ptr, dst_device, src_ptr, src_device
                _runtime.memcpyPeerAsync(*places, nbytes, stream.ptr)
            else:
                kind = _runtime.memcpyDeviceToDevice
                if dst_device < 0:
                    kind = _runtime.memcpyDeviceToHost
                elif src_device < 0:
                    kind = _runtime.memcpyHostToDevice
                _runtime.memcpyAsync(dst_ptr, src_ptr, nbytes, kind, stream.ptr)
        except _CudaError as error:
            raise _failed(stream.device_index, f"a copy of {nbytes} bytes", error) from error
        if dst_device < 0:
            _staging.keep(dst_ptr, stream)
        elif src_device < 0:
            _staging.keep(src_ptr, stream)


def _reach(one: int, other: int) -> None:
    """Let two devices reach each other's memory, once, where they can; else the host is between."""
    if (one, other) in _peers:
        return
    for device, peer in ((one, other), (other, one)):
        with _On(device):
            try:
                if _runtime.deviceCanAccessPeer(device, peer):
                    _runtime.deviceEnablePeerAccess(peer)
            except _CudaError as error:
                if error.status != _HAS_PEER:  # another library was first
                    raise _failed(device, f"peer access to cuda:{peer}", error) from error
        _peers.add((device, peer))


def memset_async(ptr: int, value: int, nbytes: int, device_index: int, stream: Stream) -> None:
    """Queue a fill with one byte value."""
    if nbytes:
        with _On(device_index):
            try:
                _runtime.memsetAsync(ptr, value, nbytes, stream.ptr)
            except _CudaError as error:
                raise _failed(device_index, f"a fill of {nbytes} bytes", error) from error


_staging = Staging()


class PinnedMemory:
    """`nbytes` bytes of page-locked host memory; `array` is a view that keeps them alive."""

    __slots__ = ("__weakref__", "_begin", "_owner", "array", "nbytes", "ptr")

    def __init__(self, nbytes: int) -> None:
        self._begin = 0
        ask = cupy.cuda.alloc_pinned_memory
        what = "an allocation of pinned memory"
        self._owner = _reporting(_get_device(), what, ask, max(nbytes, 1))
        self.ptr: int = int(self._owner.ptr)
        self.nbytes: int = nbytes
        self.array = np.frombuffer(self._owner, np.uint8, max(nbytes, 1))[:nbytes]
        _staging.add(self.ptr, nbytes, self._owner)
        self._begin = self.ptr

    def __del__(self) -> None:
        if self._begin:
            _staging.gone.append(self._begin)


def pinned_allocate(nbytes: int) -> PinnedMemory:
    if capturing:
        capture.refuse_unsafe("pinned_allocate", "it takes pinned memory of the host")
    _staging.settle()
    return PinnedMemory(nbytes)


# --- kernels ------------------------------------------------------------------------------------


class Function:
    """One kernel, for one device; `shared_bytes` is what it may be launched with as it stands."""

    __slots__ = (
        "carveout", "device_index", "function", "image", "launchers", "module", "name", "ptr",
        "shared_bytes",
    )  # fmt: skip
    launchers: dict[tuple[Any, ...], Callable[[bytes], None]]  # by grid, block and shared memory
    image: bytes
    module: Any

    def __init__(
        self, function: Any, name: str, device_index: int, module: Any = None, image: bytes = b""
    ) -> None:
        self.module, self.image, self.launchers = module, image, {}
        self.function: Any = function  # keeps the module loaded
        self.ptr: int = function.ptr
        self.name: str = name
        self.device_index: int = device_index
        # per cent of a multiprocessor's shared memory; 0 leaves it to the driver
        self.carveout: int = 0
        # What the kernel declares itself counts into the 48 KiB that need no leave.
        own = _driver.funcGetAttribute(_driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, self.ptr)
        self.shared_bytes: Any = max(_DEFAULT_SHARED - own, 0)

    def symbol(self, name: str) -> tuple[int, int | None]:
        """Address of a __constant__ or __device__ variable; CuPy does not tell its bytes."""
        mangled = getattr(self.image, "names", {}).get(f"&{name}", name)
        with _On(self.device_index):
            try:
                _give_context()
                return self.module.get_global_var(mangled), None
            except _CudaError as error:
                raise errors.kernel_failed(self.name, _told(f"finding {name}", error)) from error


def arch(device_index: int) -> str:
    """The architecture to compile for: the device's, or the newest that NVRTC knows below it."""
    found = _archs.get(device_index)
    if found is None:
        major, minor = capability(device_index)
        found = _archs[device_index] = nvrtc.nearest_arch(cupy.cuda.nvrtc, major * 10 + minor)
    return found


def compile(
    text: str, variants: Sequence[Mapping[str, object]], arch: str, *,
    entries: Sequence[str] | None = None, headers: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> bytes:  # fmt: skip
    """A cubin of one variant; needs NVRTC and no GPU.

    entries, headers, options: for a text of a user, the C++ names wanted, what it may include, and
    what NVRTC is told beside our own options.
    """
    (defines,) = variants
    if entries is not None:
        from .nvrtc_users import compile_text

        own = headers or {}
        return compile_text(cupy.cuda.nvrtc, text, defines, arch, entries, own, options)
    return nvrtc.compile_cubin(cupy.cuda.nvrtc, text, defines, arch)


def load(image: bytes, entry: str, device_index: int, variant: int = 0) -> Function:
    """A kernel of a cubin, on one device; the module is loaded once per device."""
    mangled = getattr(image, "names", {}).get(entry, entry)
    if capturing:
        capture.refuse_unsafe(entry, "its kernel is loaded, which a call before the capture does")
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
        except _CudaError as error:
            what = _told(f"loading it on cuda:{device_index}", error)
            raise errors.kernel_failed(entry, what) from error


def prefer_shared(function: Function, nbytes: int) -> None:
    """Ask for so much of each multiprocessor's memory to be shared memory rather than L1."""
    index = function.device_index
    percent = min(100, -(-100 * nbytes // limits(index).shared_bytes))
    if percent > function.carveout:
        with _On(index):
            _reporting(index, "prefer_shared", _prefer_shared, function.ptr, percent)
        function.carveout = percent


def _prefer_shared(ptr: int, percent: int) -> None:
    _give_context()
    attribute = _driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    _driver.funcSetAttribute(ptr, attribute, percent)


def _give_context() -> None:
    """The current device's context for this thread: the driver's own calls make none."""
    _runtime.memGetInfo()


class _Launcher:
    """What a thread launches with: a parameter block at a fixed address; where it has contexts."""

    __slots__ = ("address", "array", "begin", "block", "lists", "ready", "view")

    def __init__(self) -> None:
        self.block = ctypes.create_string_buffer(_MAX_PARAMS + 64)
        begin = ctypes.addressof(self.block)
        skip = -begin % 64
        self.begin = begin + skip
        self.array = (ctypes.c_void_p * 1)(self.begin)
        self.address = ctypes.addressof(self.array)
        self.lists: dict[tuple[int, ...], tuple[Any, int]] = {}
        self.view = memoryview(self.block).cast("B")[skip : skip + _MAX_PARAMS]
        # By device where it has a context: `view` and `address`.
        self.ready: dict[int, tuple[memoryview, int]] = {}

    def list_of(self, offsets: tuple[int, ...]) -> int:
        """Address of an array with the address of each parameter in the block."""
        found = self.lists.get(offsets)
        if found is None:
            array = (ctypes.c_void_p * max(len(offsets), 1))(*(self.begin + at for at in offsets))
            found = self.lists[offsets] = array, ctypes.addressof(array)
        return found[1]


def launch(
    function: Function, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int,
    stream: Stream, params: bytes, offsets: tuple[int, ...] = _ONE,
) -> None:  # fmt: skip
    """Queue a launch; `params` are the parameters' bytes, each parameter at its offset."""
    try:
        launcher = _local.launcher
    except AttributeError:
        launcher = _local.launcher = _Launcher()
        _local.ready = launcher.ready
    device = function.device_index
    previous = _get_device()
    if previous != device:
        _set_device(device)
    try:
        if device not in launcher.ready or shared_bytes > function.shared_bytes:
            _prepare(launcher, function, shared_bytes)
        address = launcher.address if offsets is _ONE else launcher.list_of(offsets)
        (gx, gy, gz), (bx, by, bz) = grid, block
        launcher.view[: len(params)] = params  # no call between this and the launch
        _launch_kernel(function.ptr, gx, gy, gz, bx, by, bz, shared_bytes, stream.ptr, address, 0)
    except Exception as error:
        raise _launch_error(error, function, grid, block, shared_bytes, stream, params) from error
    finally:
        if previous != device:
            _set_device(previous)


def launcher(
    function: Function, grid: tuple[int, int, int], block: tuple[int, int, int],
    shared_bytes: int = 0,
) -> Callable[[bytes], None]:  # fmt: skip
    """What launches one kernel again and again: `run(params)`, on the current stream.

    It does what `launch` does in one frame, where nothing has to be prepared or switched. Layouts
    that launch alike share one.
    """
    key = grid, block, shared_bytes
    known = function.launchers.get(key)
    if known is not None:
        return known
    ptr, device = function.ptr, function.device_index
    (gx, gy, gz), (bx, by, bz) = grid, block

    def run(params: bytes) -> None:
        try:
            view, address = _local.ready[device]
            is_ready = _get_device() == device
        except (AttributeError, KeyError):
            is_ready = False
        if not is_ready or shared_bytes and shared_bytes > function.shared_bytes:
            launch(function, grid, block, shared_bytes, current_stream(device), params)
            return
        try:
            stream, n = _cupy_stream(device).ptr, len(params)
            view[:n] = params  # no call between this and the launch
            _launch_kernel(ptr, gx, gy, gz, bx, by, bz, shared_bytes, stream, address, 0)
        except Exception as error:
            failed = function, grid, block, shared_bytes, current_stream(device), params
            raise _launch_error(error, *failed) from error

    if len(function.launchers) >= _MOST_LAUNCHERS:
        function.launchers.clear()
    function.launchers[key] = run
    return run


def _prepare(launcher: _Launcher, function: Function, shared_bytes: int) -> None:
    """Once per thread and device: a context. Beyond 48 KiB of shared memory: the driver's leave."""
    _give_context()
    launcher.ready[function.device_index] = launcher.view, launcher.address
    if shared_bytes > function.shared_bytes:
        attribute = _driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _driver.funcSetAttribute(function.ptr, attribute, shared_bytes)
        function.shared_bytes = shared_bytes


def _launch_error(
    error: Exception, function: Function, grid: Any, block: Any, shared: int, stream: Stream,
    params: bytes,
) -> Exception:  # fmt: skip
    if len(params) > _MAX_PARAMS:
        rule, got = f"have at most {_MAX_PARAMS} bytes", f"{len(params)} bytes"
        return errors.cannot_launch(function.name, "params", rule, got)
    if stream.device_index != function.device_index:
        rule = f"be of cuda:{function.device_index}"
        return errors.cannot_launch(function.name, "stream", rule, stream)
    if shared > _DEFAULT_SHARED:
        most = limits(function.device_index).block_shared_bytes
        if shared > most:
            return errors.cannot_launch(function.name, "shared_bytes", f"be in [0, {most}]", shared)
    given = f"grid {grid}, block {block}, {shared} bytes of shared memory"
    return errors.kernel_failed(function.name, _told(f"launch with {given}", error))


# --- libraries ----------------------------------------------------------------------------------

# Bytes of constants that a device keeps; what is beyond them is copied in each call.
_MOST_CONSTANTS = 16 << 20


class _OnGpu(Library):
    """CuPy. Its transforms are ordered: Note [Work area of a plan]."""

    def __init__(self) -> None:
        super().__init__(cupy, "cupyx.scipy", is_gpu=True)
        self._constants: dict[tuple[Any, ...], Any] = {}
        self._constant_bytes: dict[int, int] = {}

    def constant(self, array: np.ndarray) -> Any:
        """Raises: DeviceError within a capture, unless a call before it has copied the array."""
        index = _get_device()
        key = index, array.dtype.str, array.shape, array.tobytes()
        found = self._constants.get(key)
        if found is not None:
            return found
        if capturing and capture.of(current_stream(index)) is not None:
            why = "it copies a table to the device, which a call before the capture does"
            raise errors.capture_refused(capture.operator() or "a library", why)
        if self._constant_bytes.get(index, 0) + array.nbytes > _MOST_CONSTANTS:
            return cupy.asarray(array)
        # Not our allocator's memory, which belongs to a stream: graphs and other streams use it.
        with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc):
            found = cupy.asarray(array)
        cupy.cuda.get_current_stream().synchronize()  # once, so that no stream has to wait for it
        with _lock:
            self._constant_bytes[index] = self._constant_bytes.get(index, 0) + array.nbytes
            self._constants[key] = found
        return found

    def scipy(self, part: str) -> Any:
        if part == "fft":
            _plans.begin(current_stream(_get_device()))
        return super().scipy(part)

    def cusolver(self) -> tuple[Any, int]:
        """CuPy's functions for cuSOLVER, and the handle of this thread and the current device."""
        from cupy_backends.cuda.libs import cusolver

        return cusolver, cupy.cuda.device.get_cusolver_handle()


_library = _OnGpu()


def nccl() -> Any:
    """CuPy's module of NCCL. Raises: ImportError where the library is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is missing is said below
        from cupy.cuda import nccl as found
    if not found.available:
        return import_module("cupy_backends.cuda.libs.nccl")
    return found


class _Temporary(cupy.cuda.UnownedMemory):  # type: ignore[misc]
    """Memory of our allocator, as CuPy takes it."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory.ptr, memory.nbytes, memory, memory.device_index)
        self.memory = memory


def _for_cupy(nbytes: int) -> Any:
    """CuPy's allocator inside a call of a library: ours, on the current device and stream."""
    return cupy.cuda.MemoryPointer(_Temporary(allocate(nbytes, _get_device())), 0)


def _memory_of_area(area: Any) -> Memory | None:
    held = getattr(area, "mem", None)
    return held.memory if type(held) is _Temporary else None


_plans = Plans(lambda: cupy.fft.config.get_plan_cache(), Event, _memory_of_area, record_stream)


def call_library(
    op: str, function: Compute, operands: Sequence[Array], results: Sequence[Array] | None,
    device_index: int,
) -> Any:  # fmt: skip
    """Queue `function(CuPy, *operands)` on the current stream of the device; returns the memory of
    each of its results, which is the function's own where it lies as wanted.

    results: None returns what the function returned. It is the function that waits, where it looks
    at values.
    """
    # CuPy loads a kernel, and makes a plan, when it first needs one: also within a capture.
    with _On(_checked(op, device_index)), cupy.cuda.using_allocator(_for_cupy), _Relaxed():
        own = capture.of(current_stream(device_index)) if capturing else None
        if own is not None:
            if results is None:
                raise errors.capture_refused(op, "it waits for the device")
        try:
            arrays = [_array_over(x, x.ptr, device_index) for x in operands]
            try:
                returned = function(_library, *arrays)
            finally:
                _plans.end(own)
            if results is None:
                return returned
            taken: set[int] = set()
            made = zip(results, as_results(returned, len(results)) if results else ())
            return [_memory_of(array, wanted, device_index, taken) for wanted, array in made]
        except errors.GpuTensorError:
            raise
        except _CudaError as error:
            raise errors.kernel_failed(op, _told("a library", error)) from error
        except Exception as error:
            raise errors.library_failed(op, error) from error


def _array_over(of: Array, ptr: int, device_index: int, owner: Any = None) -> Any:
    memory = cupy.cuda.UnownedMemory(ptr, of.extent_bytes, owner, device_index)
    place = cupy.cuda.MemoryPointer(memory, 0)
    return cupy.ndarray(of.sizes, of.dtype, place, strides=of.stride_bytes)


def _memory_of(array: Any, wanted: Array, device_index: int, taken: set[int]) -> Memory:
    """The memory of a result: the array's own, unless another has it or it lies otherwise."""
    array = cupy.asarray(array)
    held = array.data.mem
    if (
        type(held) is _Temporary and array.data.ptr == held.ptr and held.ptr not in taken
        and has_layout(array, wanted)
    ):  # fmt: skip
        taken.add(held.ptr)
        memory: Memory = held.memory
        return memory
    made = allocate(wanted.extent_bytes, device_index)
    _array_over(wanted, made.ptr, device_index, made)[...] = array
    return made


# --- graphs -------------------------------------------------------------------------------------


class Graph:
    """What a capture recorded: CuPy's graph. order: where its transforms stand among others, of
    Note [Work area of a plan]; None without transforms."""

    __slots__ = ("_index", "_order", "cupy")

    def __init__(self, graph: Any, device_index: int, order: Last | None) -> None:
        self.cupy: Any = graph
        self._index, self._order = device_index, order

    def launch(self, stream: Any) -> None:
        if self._order is None:
            self.cupy.launch(stream)
            return
        own = _stream_of(self._index, stream)
        _plans.wait(self._order, own)
        self.cupy.launch(stream)
        _plans.record(self._order, own)

    def __del__(self) -> None:
        if capturing:
            capture.dropped.append(self.cupy)


class _Capture(capture.Capture):
    def _start(self) -> None:
        with _On(self.origin.device_index):
            what, mode = "beginning a capture", capture.MODES.index(self.mode)
            _reporting(self.origin.device_index, what, self.origin.cupy.begin_capture, mode)

    def _finish(self) -> Any:
        index = self.origin.device_index
        with _On(index):
            order = _plans.order_of(self)
            try:
                made = self.origin.cupy.end_capture()
            except _CudaError as error:
                if error.status == _UNJOINED:
                    raise errors.unjoined_capture() from error
                raise _failed(index, "the capture of a graph", error) from error
            return Graph(made, index, order)


def begin_capture(stream: Stream, handle: capture.Handle, mode: str) -> capture.Capture:
    """Record what is queued on a stream, instead of running it, until the capture's `end`."""
    begun = _Capture(_allocators, stream, handle, mode)
    begun.begin()
    return begun


def check_stream(stream: Stream) -> None:
    """Raise where this thread captures, and goes over to the default stream."""
    if capturing:
        capture.refuse_entering("stream", stream)


def replay(recorded: Graph, device_index: int) -> None:
    """Queue what a capture recorded on the current stream."""
    previous = _get_device()
    if previous != device_index:
        _set_device(device_index)
    try:
        recorded.launch(_cupy_stream(device_index))
    except _CudaError as error:
        raise _failed(device_index, "the replay of a graph", error) from error
    finally:
        if previous != device_index:
            _set_device(previous)


def reset_after_fork() -> None:
    """In a forked child nothing of the parent's CUDA state can be used or given back."""
    global _get_device, allocate
    _allocators.close()
    # Short cuts hold this module, and every launch asks for the device first.
    _get_device = allocate = no_cuda._absent
