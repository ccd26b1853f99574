"""CUDA devices emulated on the CPU: the same kernel text, built by g++, behind the same interface.

A launch, a copy or a fill goes to the queue of its stream (emulator/queues.py), whose order
`GPUTENSOR_EMULATOR_ORDER` chooses; it runs there on the engine (emulator/launch.h). Every
allocation has pages and guard bytes of its own (emulator/arena.h). What a kernel does wrong is a
KernelError at the next synchronisation, or at the launch itself where the order is eager.
`GPUTENSOR_EMULATOR_DEVICES` and `GPUTENSOR_EMULATOR_MEMORY` (bytes per device) say what there is;
`GPUTENSOR_EMULATOR_CHECK=0` leaves out guards and poison; emulator/settings.py says what else can
be checked, and in which order threads run and for how long. It shows no memory model, no timing and
not libdevice's last bits.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np

from gputensor.core import errors

from . import capture, no_cuda, settling
from .compilation import kernel_cache, nvrtc
from .allocator import Allocator, Allocators, allocating, taking
from .capture import capturing
from .emulator import findings, nvrtc_options, settings, toolchain
from .emulator.machine import Loaded, Machine
from .emulator.pinned import PinnedAllocator, PinnedMemory
from .emulator.queues import Mark, Queue, Recording, Scheduler
from .device_limits import H200, Limits
from .libraries import HOST, Array, Compute, as_results

name = "cuda_emulator"
is_emulated = True
__tracebackhide__ = errors.is_of_a_kernel

_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)

_machine: Machine
_scheduler: Scheduler
_pinned: PinnedAllocator
_allocators = Allocators(lambda op, index: _checked(op, index))
_default_streams: list[Stream] = []
_peers: list[int] = []  # per device: a bit for each device that its kernels may reach
_total_bytes = 0
_paths: dict[bytes, str] = {}
_local = threading.local()
_stream_numbers = itertools.count(16)  # to others 1 and 2 mean the default streams, as in CUDA
_by_number: WeakValueDictionary[int, Stream] = WeakValueDictionary()


def is_available() -> bool:
    return toolchain.unavailable_reason() is None


def unavailable_reason() -> str | None:
    return toolchain.unavailable_reason()


def start() -> None:
    """Build what the devices consist of; called once, by whoever chose this module."""
    global _machine, _scheduler, _pinned, _total_bytes
    if _allocators:
        return
    count = _positive("GPUTENSOR_EMULATOR_DEVICES", 2)
    _total_bytes = _positive("GPUTENSOR_EMULATOR_MEMORY", 4 << 30)
    _scheduler = Scheduler()
    _machine = Machine()
    _pinned = PinnedAllocator(_machine)
    _default_streams.extend(Stream(i, ptr=0) for i in range(count))
    _peers.extend(1 << i for i in range(count))
    _allocators.extend(Allocator(i, _Backend(i), keeps_blocks=False) for i in range(count))
    atexit.register(_stop_at_exit)


def _stop_at_exit() -> None:
    """A kernel that a daemon thread runs for ever must not keep the process: it holds the locks."""
    if not _machine.stop(wait_s=2.0):
        _let_go()


def _positive(setting: str, default: int) -> int:
    given = os.environ.get(setting)
    if not given:
        return default
    if not given.isdecimal() or int(given) == 0:
        raise errors.wrong_setting(setting, "be a positive integer", given)
    return int(given)


# --- devices ------------------------------------------------------------------------------------


def device_count() -> int:
    return len(_allocators)


def current_device() -> int:
    return getattr(_local, "device", 0)


def set_device(index: int) -> None:
    exchange_device(index)


def exchange_device(index: int) -> int:
    """Make a device current; returns the one that was."""
    previous = current_device()
    _local.device = _checked("set_device", index)
    return previous


def _checked(op: str, index: int) -> int:
    if not 0 <= index < len(_allocators):
        raise errors.device_index_out_of_range(op, index, len(_allocators))
    return index


def device_name(index: int) -> str:
    _checked("device_name", index)
    return "CUDA emulator"


def capability(index: int) -> tuple[int, int]:
    """The architecture whose rules the emulator follows."""
    _checked("capability", index)
    return (7, 0)


def limits(index: int) -> Limits:
    """An H200's, for plans to be those of a large GPU."""
    _checked("limits", index)
    return H200


def mem_get_info(index: int) -> tuple[int, int]:
    free, total = _allocators[_checked("mem_get_info", index)].backend.mem_get_info()
    return free, total


def can_access_peer(device_index: int, peer_index: int) -> bool:
    """Whether kernels of one device may use memory of another; off until `enable_peer_access`."""
    _checked("can_access_peer", peer_index)
    return bool(_peers[_checked("can_access_peer", device_index)] >> peer_index & 1)


def enable_peer_access(device_index: int, peer_index: int, enabled: bool = True) -> None:
    """Let kernels of one device use memory of another. Only the emulator needs to be told."""
    bit = 1 << _checked("enable_peer_access", peer_index)
    _checked("enable_peer_access", device_index)
    if enabled:
        _peers[device_index] |= bit
    elif device_index != peer_index:
        _peers[device_index] &= ~bit


# --- memory -------------------------------------------------------------------------------------


class _Backend:
    """The system's memory for one device (Note [Allocator backend])."""

    def __init__(self, device_index: int) -> None:
        self._device_index = device_index
        self._used_bytes = 0

    def malloc(self, size: int, stream: Stream) -> tuple[int, int]:
        if self._used_bytes + size > _total_bytes:
            raise MemoryError
        address = _machine.allocate(size, self._device_index)
        self._used_bytes += size
        return address, size

    def free(self, ptr: int, size: int, stream: Stream) -> None:
        def run() -> None:
            self._used_bytes -= size
            wrong = _machine.free(ptr)
            if wrong:
                raise errors.kernel_failed("an earlier kernel", wrong)

        _machine.drop(ptr)
        _scheduler.add_quietly(stream.queue, run)

    def mark(self, stream: Stream) -> Stream:
        return stream

    def record(self, stream: Stream) -> Mark:
        return _scheduler.record(stream.queue)

    def release(self) -> None:
        """Frees that wait in a queue hold memory, as they do on a GPU."""
        _scheduler.drain_all(self._device_index)

    def synchronize(self) -> None:
        _scheduler.drain_all(self._device_index)

    def mem_get_info(self) -> tuple[int, int]:
        return _total_bytes - self._used_bytes, _total_bytes


memory_allocated = _allocators.memory_allocated
memory_reserved = _allocators.memory_reserved
memory_stats = _allocators.memory_stats
reset_peak_memory_stats = _allocators.reset_peak_memory_stats
memory_snapshot = _allocators.memory_snapshot
empty_cache = _allocators.empty_cache
set_memory_limit = _allocators.set_memory_limit
record_stream = _allocators.record_stream


def pinned_allocate(nbytes: int) -> PinnedMemory:
    if capturing:
        capture.refuse_unsafe("pinned_allocate", "it takes pinned memory of the host")
    return _pinned.allocate(nbytes)


# --- streams and events -------------------------------------------------------------------------


class Stream:
    """A queue of work for one device."""

    __slots__ = ("__weakref__", "device_index", "key", "priority", "ptr", "queue")
    key: int
    ptr: int

    def __init__(self, device_index: int, priority: int = 0, *, ptr: int | None = None) -> None:
        if ptr is None:
            _checked("Stream", device_index)
        self.device_index: int = device_index
        self.priority: int = priority
        self.key = self.ptr = next(_stream_numbers) if ptr is None else ptr
        self.queue: Queue = Queue(device_index)
        if self.ptr:
            _by_number[self.ptr] = self

    def synchronize(self) -> None:
        """Wait for all its work; raises what that work did wrong."""
        if capturing:
            capture.refuse_wait("synchronize", self)
        _scheduler.drain(self.queue)
        _scheduler.raise_failure()

    def query(self) -> bool:
        """Whether all its work is done; raises what that work did wrong."""
        if capturing:
            capture.refuse_wait("query", self)
        _scheduler.poll(self.queue)
        _scheduler.raise_failure()
        return not self.queue.pending

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
        return f"<Stream {self.ptr} of emulated cuda:{self.device_index}>"


class Event:
    """A point in a stream's work."""

    __slots__ = ("_by", "_capture", "_mark", "enable_timing")

    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing: bool = enable_timing
        self._mark: Mark | None = None
        self._by: Callable[[], Stream | None] = lambda: None  # it keeps no stream alive
        self._capture: capture.Capture | None = None

    def record(self, stream: Stream | None = None) -> None:
        settling.settle("an event is recorded")
        stream = stream or current_stream(current_device())
        self._capture, self._by = capture.of(stream) if capturing else None, ref(stream)
        self._mark = _scheduler.record(stream.queue)

    def wait(self, stream: Stream | None = None) -> None:
        """Work added to the stream from now on runs after this point."""
        if self._mark is not None:
            settling.settle("a stream waits for an event")
            stream = stream or current_stream(current_device())
            if capturing or self._capture is not None:
                capture.before_waiting(self._capture, stream)
            _scheduler.wait(stream.queue, self._mark)

    def query(self) -> bool:
        """Whether the work before it is done; raises what that work did wrong."""
        if capturing or self._capture is not None:
            capture.refuse_wait("query", self._by(), self._capture)
        if self._mark is not None and not self._mark.done:
            _scheduler.poll(self._mark.queue)
            _scheduler.raise_failure()
        return self._mark is None or self._mark.done

    def has_passed(self) -> bool:
        """As `query`, for a thread that only watches: it runs no work, and minds no capture."""
        return self._mark is None or self._mark.done

    def synchronize(self) -> None:
        if capturing or self._capture is not None:
            capture.refuse_wait("synchronize", self._by(), self._capture)
        if self._mark is not None:
            _scheduler.reach(self._mark)
        _scheduler.raise_failure()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds between two points; of the emulator, which says nothing about a GPU."""
        times = []
        for event in (self, end):
            if not event.enable_timing or event._mark is None or not event._mark.done:
                got = "no timing" if not event.enable_timing else "not passed yet"
                rule = "be events with enable_timing=True that have been passed"
                raise errors.must("elapsed_time", "events", rule, errors.Got(got))
            times.append(event._mark.time_s)
        return (times[1] - times[0]) * 1e3


def default_stream(index: int) -> Stream:
    return _default_streams[_checked("default_stream", index)]


def current_stream(index: int) -> Stream:
    streams = getattr(_local, "streams", None)
    return (streams and streams.get(index)) or _default_streams[_checked("current_stream", index)]


allocate = allocating(_allocators, current_stream, lambda index, stream: stream)
taker = taking(_allocators, current_stream, lambda *given: allocate(*given))


def external_stream(index: int, ptr: int) -> Stream:
    """The stream with that number; 0 and 1 are the default stream."""
    found = default_stream(index) if ptr in (0, 1) else _by_number.get(ptr)
    if found is None:
        raise errors.wrong_value("ExternalStream", "stream_ptr", "be that of a stream", ptr)
    return found


def set_stream(stream: Stream) -> Stream:
    """Make a stream current for its device in this thread; returns the one that was."""
    previous = current_stream(stream.device_index)
    try:
        if previous.key != stream.key:
            settling.settle("another stream becomes current")
    finally:
        if not hasattr(_local, "streams"):
            _local.streams = {}
        _local.streams[stream.device_index] = stream
    return previous


def synchronize(index: int) -> None:
    """Wait for all work of a device; raises what that work did wrong."""
    if capturing:
        capture.refuse_device_wait("synchronize", index)
    _scheduler.drain_all(_checked("synchronize", index))
    _scheduler.raise_failure()
    late = _machine.check_freed()
    if late:
        raise errors.kernel_failed("an earlier kernel", late)


# --- copies -------------------------------------------------------------------------------------


def copy_async(
    dst_ptr: int, dst_device: int, src_ptr: int, src_device: int, nbytes: int, stream: Stream
) -> None:
    """Queue a copy; device -1 is the host, whose pageable memory is done with before return."""
    if nbytes == 0:
        return
    if capturing and (dst_device < 0 or src_device < 0):
        capture.refuse_host("copy", stream)
    is_captured = stream.queue.recording is not None

    def check() -> None:
        for arg, ptr, device in (("dst", dst_ptr, dst_device), ("src", src_ptr, src_device)):
            if device >= 0:
                _check_range("copy", arg, ptr, nbytes, device)

    check()
    places = ((dst_ptr, dst_device), (src_ptr, src_device))
    keep = [_pinned.owner_of(ptr, nbytes) for ptr, device in places if device < 0]
    if src_device < 0 and keep[-1] is None:
        data = ctypes.create_string_buffer(ctypes.string_at(src_ptr, nbytes), nbytes)
        keep.append(data)
        src_ptr = ctypes.addressof(data)

    def run(keep: Sequence[Any] = keep) -> None:
        if is_captured:
            check()
        ctypes.memmove(dst_ptr, src_ptr, nbytes)

    _scheduler.add(stream.queue, run)
    if dst_device < 0 and keep[0] is None:
        stream.synchronize()


def memset_async(ptr: int, value: int, nbytes: int, device_index: int, stream: Stream) -> None:
    """Queue a fill with one byte value."""
    if nbytes:
        _check_range("memset", "ptr", ptr, nbytes, device_index)
        is_captured = stream.queue.recording is not None

        def run() -> None:
            if is_captured:
                _check_range("memset", "ptr", ptr, nbytes, device_index)
            ctypes.memset(ptr, value, nbytes)

        _scheduler.add(stream.queue, run)


def _check_range(op: str, arg: str, ptr: int, nbytes: int, device_index: int) -> None:
    found = _machine.find(ptr)
    rule = f"be {nbytes} bytes of memory of cuda:{device_index}"
    if found is None:
        raise errors.wrong_pointer(op, arg, rule, f"{ptr:#x}, which is no device memory")
    if found.device != device_index or found.state or ptr + nbytes > found.begin + found.nbytes:
        at = ptr - found.begin
        raise errors.wrong_pointer(op, arg, rule, f"byte {at} of {found}")


# --- kernels ------------------------------------------------------------------------------------


class Function:
    """One kernel of one variant, for one device.

    places: offset and size of each parameter. arguments: what a finding needs to name a pointer
    parameter (findings.Arguments); whoever knows the signature may set it.
    """

    __slots__ = ("arguments", "carveout", "device_index", "loaded", "name", "places")

    def __init__(self, loaded: Loaded, device_index: int) -> None:
        self.loaded: Loaded = loaded
        self.device_index: int = device_index
        self.name: Any = loaded.name
        self.places: tuple[tuple[Any, Any], ...] = loaded.places
        self.carveout: int = 0
        self.arguments: findings.Arguments = ()

    def symbol(self, name: str) -> tuple[int, int]:
        """Address and bytes of a __constant__ or __device__ variable."""
        symbols = self.loaded.symbols()
        if name not in symbols:
            known = ", ".join(symbols) or "none"
            rule = f"be a variable of the text ({known})"
            raise errors.cannot_launch(self.name, "name", rule, name)
        return symbols[name]


def arch(device_index: int) -> str:
    return "emulator"


def compile(
    text: str, variants: Sequence[Mapping[str, object]], arch: str = "emulator", *,
    entries: Sequence[str] | None = None, headers: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> bytes:  # fmt: skip
    """One shared object with every variant of a `.cu` text.

    entries, headers: for a text of a user, the kernels wanted and what it may include. options are
    NVRTC's, of which some mean something here (emulator/nvrtc_options.py).
    """
    title = nvrtc.title_of(text)
    asked = nvrtc_options.parse(options)
    nvrtc_options.check(asked, entries[0] if entries else title)
    defines = [nvrtc_options.with_macros(dict(one), asked) for one in variants]
    more = entries, headers, asked.folders, asked.standard
    image, path = toolchain.compile_kernels(text, defines, title, *more)
    _paths[image] = path
    return image


def load(image: bytes, entry: str, device_index: int, variant: int = 0) -> Function:
    """A kernel of an image that `compile` returned, here or in another process."""
    _checked("load", device_index)
    if capturing:
        capture.refuse_unsafe(entry, "its kernel is loaded, which a call before the capture does")
    path = _paths.get(image)
    if path is None:
        key = kernel_cache.key("loaded", image)
        path = _paths[image] = kernel_cache.fetch(key, ".so", lambda: image, "loaded image")[1]
    elif not os.path.exists(path):  # another process keeps the cache small
        kernel_cache.restore(path, image)
    return Function(_machine.load(path, entry, variant, device_index), device_index)


def prefer_shared(function: Function, nbytes: int) -> None:
    """Noted, as on a GPU; here it changes nothing."""
    percent = min(100, -(-100 * nbytes // limits(function.device_index).shared_bytes))
    function.carveout = max(function.carveout, percent)


def launch(
    function: Function, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int,
    stream: Stream, params: bytes, offsets: tuple[int, ...] = (0,),
) -> None:  # fmt: skip
    """Queue a launch; `params` are the parameters' bytes, each parameter at its offset."""
    kernel, device = function.loaded, function.device_index
    _check_launch(function, grid, block, shared_bytes, stream, params, offsets)
    params, peers = bytes(params), _peers[device]
    is_captured = stream.queue.recording is not None

    def check() -> None:
        found = _machine.scan(params, device, peers)
        if found is not None:
            at, memory = found
            rule = f"point to memory that cuda:{device} may use"
            raise errors.wrong_pointer(kernel.name, f"params[{at}:{at + 8}]", rule, str(memory))

    check()
    options = settings.current().options(device, peers)

    def run() -> None:
        if is_captured:
            check()
        named = function.arguments
        wrong = _machine.launch(kernel, grid, block, shared_bytes, params, options, named)
        if wrong is not None:
            raise errors.kernel_finding(wrong)

    if is_captured:
        run.what = kernel.name  # type: ignore[attr-defined]
    _scheduler.add(stream.queue, run)


def launcher(
    function: Function, grid: tuple[int, int, int], block: tuple[int, int, int],
    shared_bytes: int = 0,
) -> Callable[[bytes], None]:  # fmt: skip
    """What launches one kernel again and again: `run(params)`, on the current stream."""
    device = function.device_index

    def run(params: bytes) -> None:
        launch(function, grid, block, shared_bytes, current_stream(device), params)

    return run


def write_symbol(address: int, data: bytes, stream: Stream) -> None:
    """Queue a write to a variable of a text, whose address `Function.symbol` told."""

    def run() -> None:
        ctypes.memmove(address, data, len(data))

    _scheduler.add(stream.queue, run)


def _check_launch(
    function: Function, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int,
    stream: Stream, params: bytes, offsets: tuple[int, ...],
) -> None:  # fmt: skip
    kernel, fail = function.loaded, errors.cannot_launch
    if stream.device_index != function.device_index:
        raise fail(kernel.name, "stream", f"be of cuda:{function.device_index}", stream)
    if not _within(grid, _MAX_GRID):
        raise fail(kernel.name, "grid", f"be in [1, {_MAX_GRID}]", grid)
    if not _within(block, _MAX_BLOCK):
        raise fail(kernel.name, "block", f"be in [1, {_MAX_BLOCK}]", block)
    if block[0] * block[1] * block[2] > kernel.max_threads:
        raise fail(kernel.name, "block", f"have at most {kernel.max_threads} threads", block)
    most = limits(function.device_index).block_shared_bytes
    if not 0 <= shared_bytes <= most:
        raise fail(kernel.name, "shared_bytes", f"be in [0, {most}]", shared_bytes)
    if len(params) != kernel.params_size:
        rule, got = f"have {kernel.params_size} bytes", f"{len(params)} bytes"
        raise fail(kernel.name, "params", rule, got)
    if offsets != kernel.offsets:
        rule = f"be {list(kernel.offsets)}, as the text declares"
        raise fail(kernel.name, "offsets", rule, list(offsets))


def _within(dims: tuple[int, int, int], most: tuple[int, int, int]) -> bool:
    (x, y, z), (a, b, c) = dims, most
    return 1 <= x <= a and 1 <= y <= b and 1 <= z <= c


# --- libraries ----------------------------------------------------------------------------------


def call_library(
    op: str, function: Compute, operands: Sequence[Array], results: Sequence[Array] | None,
    device_index: int,
) -> Any:  # fmt: skip
    """Queue `function(NumPy and SciPy, *operands)`; returns the memory of each of its results.

    results: None waits for the stream and returns what the function returned.
    """
    stream = current_stream(device_index)
    if results is None and capturing:
        capture.refuse_wait(op, stream)
    is_captured = stream.queue.recording is not None

    def arrays() -> list[np.ndarray]:
        return [_array_over(x, x.ptr, op, device_index) for x in operands]

    given = arrays()
    made = [allocate(x.extent_bytes, device_index) for x in results or ()]
    into = [
        _array_over(x._replace(is_written=True), memory.ptr, op, device_index)
        for x, memory in zip(results or (), made)
    ]
    found: list[Any] = []

    def run() -> None:
        try:
            with np.errstate(all="ignore"):
                returned = function(HOST, *(arrays() if is_captured else given))
                if results is None:
                    found.append(returned)
                    return
                for array, value in zip(into, as_results(returned, len(into)) if into else ()):
                    array[...] = value
        except errors.GpuTensorError:
            raise
        except Exception as error:
            raise errors.library_failed(op, error) from error

    _scheduler.add(stream.queue, run)
    if results is None:
        stream.synchronize()
        return found.pop()
    return made


def _array_over(of: Array, ptr: int, op: str, device_index: int) -> np.ndarray:
    """An ndarray over emulated memory; inputs are read-only, so that a wrong write is noticed."""
    if not of.extent_bytes:
        return np.empty(of.sizes, of.dtype)
    _check_range(op, "memory", ptr, of.extent_bytes, device_index)
    room: Any = (ctypes.c_char * of.extent_bytes).from_address(ptr)
    array: np.ndarray = np.ndarray(of.sizes, of.dtype, room, 0, of.stride_bytes)
    array.flags.writeable = of.is_written
    return array


def nccl() -> Any:
    """None: emulated devices have no NCCL, and MPI works on their memory in its place."""


# --- graphs -------------------------------------------------------------------------------------


class _Capture(capture.Capture):
    def _start(self) -> None:
        self.recording = Recording()

    def take_part(self, stream: Stream) -> None:
        super().take_part(stream)
        stream.queue.recording = self.recording

    def _finish(self) -> Recording:
        for stream in self.streams:
            stream.queue.recording = None
        if not self.recording.is_joined(self.origin.queue):
            raise errors.unjoined_capture()
        return self.recording


def begin_capture(stream: Stream, handle: capture.Handle, mode: str) -> capture.Capture:
    """Record what is queued on a stream, instead of running it, until the capture's `end`."""
    begun = _Capture(_allocators, stream, handle, mode)
    begun.begin()
    return begun


def check_stream(stream: Stream) -> None:
    """Raise where this thread captures, and goes over to the default stream."""
    if capturing:
        capture.refuse_entering("stream", stream)


def replay(recording: Recording, device_index: int) -> None:
    """Queue what a capture recorded on the current stream."""
    _scheduler.replay(current_stream(device_index).queue, recording)


def reset_after_fork() -> None:
    """In a forked child nothing is launched any more, also by what was bound before."""
    global allocate, launch
    _let_go()
    allocate = launch = no_cuda._absent


def _let_go() -> None:
    """Give nothing back to what has locks that may be held for ever."""
    _machine.is_closed = True
    _allocators.close()
