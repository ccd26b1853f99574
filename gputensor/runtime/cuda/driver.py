"""The CUDA driver: devices, the current device, and errors of failed calls.

Note [Failures of a device] CUDA reports a kernel's fault in a later call, as a CuPy error. The
functions here convert it to a KernelError. After an error that destroys the context, every later
error names this first error.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

import cupy

from gputensor.core import errors

from ..capture import capturing
from ..device_limits import Limits

_runtime: Any = cupy.cuda.runtime
_driver: Any = cupy.cuda.driver
get_device: Callable[[], int] = _runtime.getDevice
use_device: Callable[[int], None] = _runtime.setDevice

# cudaDevAttrComputeCapabilityMajor and cudaDevAttrComputeCapabilityMinor.
_COMPUTE_MAJOR, _COMPUTE_MINOR = 75, 76
_LIBCUDA = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
_RELAXED = 2  # This is CU_STREAM_CAPTURE_MODE_RELAXED; capture.MODES has the same order.
_NOT_READY = 600
# The numbers, in cudaError and CUresult, of errors that destroy a context.
_ENDS_CONTEXT = frozenset((214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999))
# The attributes of `Limits`, in the order of its fields: MultiProcessorCount,
# MaxThreadsPerMultiProcessor, MaxBlocksPerMultiprocessor, MaxRegistersPerMultiprocessor,
# MaxSharedMemoryPerMultiprocessor, MaxSharedMemoryPerBlockOptin, ReservedSharedMemoryPerBlock,
# L2CacheSize, ClockRate, MemoryClockRate, GlobalMemoryBusWidth. Source: driver_types.h,
# cudaDeviceAttr.
_LIMITS = (16, 39, 106, 82, 81, 97, 111, 38, 13, 36, 37)
_limits: dict[int, Limits] = {}
_lock = threading.Lock()
_count = 0
# Functions that are called once with the number of devices, when it is known.
at_start: list[Callable[[int], object]] = []


def is_available() -> bool:
    return bool(cupy.cuda.is_available())


def unavailable_reason() -> str | None:
    """Return the driver's error message, or None if devices can be used."""
    try:
        count = _runtime.getDeviceCount()
    except Exception as error:  # CUDARuntimeError, or RuntimeError if libcuda is missing.
        return str(error)
    return None if count else "the driver sees no GPU"


class On:
    """A context manager: `with On(index)` makes the device current inside the block. Code on the
    hot path repeats the steps of this class inline."""

    __slots__ = ("_index", "_previous")

    def __init__(self, index: int) -> None:
        self._index = index

    def __enter__(self) -> None:
        self._previous = get_device()
        if self._previous != self._index:
            use_device(self._index)

    def __exit__(self, *exception: object) -> None:
        if self._previous != self._index:
            use_device(self._previous)


CudaError = (_runtime.CUDARuntimeError, _driver.CUDADriverError)
_first_failure: str | None = None


def first_failure() -> str | None:
    """Return the error that destroyed a device's context; None if all contexts are usable."""
    return _first_failure


def failed(device_index: int, what: str, error: Any) -> Exception:
    """Convert an error of CuPy, or a status number, to an error of gputensor. See Note [Failures of
    a device]."""
    if isinstance(error, int):
        error = _runtime.CUDARuntimeError(error)
    return errors.kernel_failed(f"cuda:{device_index}", told(what, error))


def told(what: str, error: Exception) -> str:
    global _first_failure
    if getattr(error, "status", 0) not in _ENDS_CONTEXT:
        return f"{what} failed: {error}"
    if _first_failure is None:
        _first_failure = str(error)
        return f"a kernel or copy before this point failed: {error} (seen by {what})"
    return f"{what} failed, as all does after the first failure of this process: {_first_failure}"


def reporting(device_index: int, what: str, call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except CudaError as error:
        raise failed(device_index, what, error) from error


def is_done(device_index: int, what: str, status: int) -> bool:
    """Return True if the status of a query means that the work is done. Raise the error of failed
    work, which CuPy's own `done` would report as unfinished work."""
    if status in (0, _NOT_READY):
        return status == 0
    raise failed(device_index, what, status)


class Relaxed:
    """A context manager for calls that the driver rejects during a capture: allocating memory,
    loading modules, waiting for uncaptured work. Inside the block, this thread may make these
    calls, and the capture does not record them. The driver's function is called through ctypes,
    because CuPy does not expose it."""

    __slots__ = ("_mode",)

    def __enter__(self) -> None:
        self._mode = ctypes.c_int(_RELAXED) if capturing else None
        self._exchange()

    def __exit__(self, *exception: object) -> None:
        self._exchange()

    def _exchange(self) -> None:
        if self._mode is None:
            return
        # By this soname, the loader finds the libcuda that CuPy has already loaded.
        exchange = ctypes.CDLL(_LIBCUDA).cuThreadExchangeStreamCaptureMode
        status = exchange(ctypes.byref(self._mode))
        if status:
            raise failed(get_device(), "an allocation within a capture", status)


def device_count() -> int:
    return _count or _start()


def _start() -> int:
    """Count the devices once. Their number cannot change in a process."""
    global _count
    with _lock:
        if not _count:
            count = _runtime.getDeviceCount()
            for begin in at_start:
                begin(count)
            _count = count
    return _count


def current_device() -> int:
    return get_device()


def set_device(index: int) -> None:
    exchange_device(index)


def exchange_device(index: int) -> int:
    """Make a device current and return the previous one."""
    previous = get_device()
    if index != previous:
        use_device(checked("set_device", index))
    return previous


def device_of(ptr: int) -> int:
    """Return the device of an address. For null, which may be the address of an empty array, return
    the current device."""
    index = get_device()
    if not ptr:
        return index
    return int(reporting(index, "asking an address", _runtime.pointerGetAttributes, ptr).device)


def checked(op: str, index: int) -> int:
    if not 0 <= index < device_count():
        raise errors.device_index_out_of_range(op, index, device_count())
    return index


def device_name(index: int) -> str:
    checked("device_name", index)
    properties = reporting(index, "device_name", _runtime.getDeviceProperties, index)
    given = properties["name"]
    return given.decode() if isinstance(given, bytes) else given


def capability(index: int) -> tuple[int, int]:
    checked("capability", index)
    attributes = (_COMPUTE_MAJOR, _COMPUTE_MINOR)
    ask = _runtime.deviceGetAttribute
    major, minor = [reporting(index, "capability", ask, a, index) for a in attributes]
    return major, minor


def limits(index: int) -> Limits:
    """Return the device's limits for launch plans. They are read once."""
    found = _limits.get(index)
    if found is None:
        checked("limits", index)
        ask = _runtime.deviceGetAttribute
        found = Limits(*[reporting(index, "limits", ask, a, index) for a in _LIMITS])
        _limits[index] = found
    return found


def mem_get_info(index: int) -> tuple[int, int]:
    with On(checked("mem_get_info", index)):
        free, total = reporting(index, "mem_get_info", _runtime.memGetInfo)
    return free, total


def can_access_peer(device_index: int, peer_index: int) -> bool:
    if device_index == peer_index:
        return True
    ask = _runtime.deviceCanAccessPeer
    return bool(reporting(device_index, "can_access_peer", ask, device_index, peer_index))
