"""The public module `gputensor.cuda`: devices, streams, events, memory, and users' kernels.

All functions use the runtime chosen by `GPUTENSOR_CUDA`. If no runtime is available,
`is_available()` is False and each other call raises an error with the reason. A device may be given
as an index, a string or a `device`; None means the current device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import runtime
from ..core import errors, lazy
from ..core.arguments import flag
from ..core.errors import OutOfMemoryError
from ..devices.device_module import DeviceFace

__all__ = [
    "CUDAGraph", "Event", "Kernel", "OutOfMemoryError", "Stream", "current_device",
    "current_stream",
    "default_stream", "device", "device_count", "empty_cache", "emulator_settings",
    "get_device_capability", "get_device_name", "get_rng_state", "graph", "graph_pool_handle",
    "grid_for", "initial_seed", "is_available", "is_current_stream_capturing", "is_emulated",
    "make_graphed_callables", "manual_seed", "manual_seed_all", "mem_get_info",
    "memory_allocated", "memory_reserved", "memory_snapshot", "memory_stats",
    "reset_peak_memory_stats", "set_device", "set_memory_limit", "set_rng_state", "stream",
    "synchronize", "unavailable_reason",
]  # fmt: skip


class _Face(DeviceFace):
    @property
    def _runtime(self) -> Any:
        return runtime.cuda()

    def is_available(self) -> bool:
        """True if a CUDA device, real or emulated, can be used."""
        return bool(runtime.cuda().is_available())


_face = _Face("cuda")
_index = _face._index
is_available, device_count = _face.is_available, _face.device_count
current_device, set_device, device = _face.current_device, _face.set_device, _face.device
synchronize = _face.synchronize
Stream, current_stream, stream = _face.Stream, _face.current_stream, _face.stream
default_stream = _face.default_stream
manual_seed, manual_seed_all = _face.manual_seed, _face.manual_seed_all
initial_seed = _face.initial_seed
get_rng_state, set_rng_state = _face.get_rng_state, _face.set_rng_state


def unavailable_reason() -> str | None:
    """Return the reason why `is_available()` is False, or None if it is True."""
    reason: str | None = runtime.cuda().unavailable_reason()
    return reason


def is_emulated() -> bool:
    """True if the emulator replaces the CUDA device. The emulator runs the same kernels on the
    CPU."""
    return bool(runtime.cuda().is_emulated)


def get_device_name(device: Any = None) -> str:
    """Return the device's name, as the driver reports it."""
    return str(runtime.cuda().device_name(_index(device, "get_device_name")))


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the compute capability as (major, minor)."""
    major, minor = runtime.cuda().capability(_index(device, "get_device_capability"))
    return major, minor


def Event(enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
    """Make an event. It has record, wait, query, synchronize, and elapsed_time in milliseconds.

    blocking: a thread that waits for the event sleeps instead of polling. interprocess: must be
    False, because events are not shared with other processes.
    """
    given = (("enable_timing", enable_timing), ("blocking", blocking))
    if flag("Event", "interprocess", interprocess):
        raise errors.must("Event", "interprocess", "be False", interprocess)
    return runtime.cuda().Event(*[flag("Event", name, value) for name, value in given])


# --- memory, in bytes -----------------------------------------------------------------------------


def _memory(name: str, device: Any, absent: Any) -> Any:
    """Call the runtime's function `name` for a device and return its result. If `device` is None
    and CUDA is not available, return `absent`."""
    found = runtime.cuda()
    if device is None and not found.is_available():
        return absent
    return getattr(found, name)(_index(device, name))


def memory_allocated(device: Any = None) -> int:
    """Return the number of bytes that tensors use now."""
    return int(_memory("memory_allocated", device, 0))


def memory_reserved(device: Any = None) -> int:
    """Return the number of bytes that the allocator holds now, including free blocks."""
    return int(_memory("memory_reserved", device, 0))


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the counters of the device's allocator."""
    return dict(_memory("memory_stats", device, {}))


def memory_snapshot() -> list[dict[str, Any]]:
    """Return a description of each memory block of the allocators of all devices."""
    return list(runtime.cuda().memory_snapshot())


def reset_peak_memory_stats(device: Any = None) -> None:
    """Set the peak values in `memory_stats` to the present values."""
    runtime.cuda().reset_peak_memory_stats(_index(device, "reset_peak_memory_stats"))


def empty_cache() -> None:
    """Return free blocks to the driver. Does nothing without CUDA."""
    if runtime.cuda().is_available():
        runtime.cuda().empty_cache()


def set_memory_limit(nbytes: int | None, device: Any = None) -> None:
    """Limit the bytes that the allocator may hold; None removes the limit."""
    if nbytes is not None and (type(nbytes) is not int or nbytes < 0):
        rule = "be a number of bytes, or None"
        raise errors.wrong_type("set_memory_limit", "nbytes", rule, nbytes)
    runtime.cuda().set_memory_limit(_index(device, "set_memory_limit"), nbytes)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the free and the total bytes of the device's memory."""
    free, total = runtime.cuda().mem_get_info(_index(device, "mem_get_info"))
    return free, total


# --- kernels of the user --------------------------------------------------------------------------


# These modules are imported on first use: most programs define no kernels or graphs of their own.
if TYPE_CHECKING:
    from .facts import (
        DeviceProperties as DeviceProperties, ExternalStream as ExternalStream,
        can_device_access_peer as can_device_access_peer, device_of as device_of,
        get_arch_list as get_arch_list, get_device_properties as get_device_properties,
        get_per_process_memory_fraction as get_per_process_memory_fraction,
        get_rng_state_all as get_rng_state_all,
        get_stream_from_external as get_stream_from_external, init as init,
        is_bf16_supported as is_bf16_supported, is_initialized as is_initialized,
        is_tf32_supported as is_tf32_supported, max_memory_allocated as max_memory_allocated,
        max_memory_reserved as max_memory_reserved, memory_summary as memory_summary,
        memory_stats_as_nested_dict as memory_stats_as_nested_dict, seed as seed,
        seed_all as seed_all,
        set_per_process_memory_fraction as set_per_process_memory_fraction,
        set_rng_state_all as set_rng_state_all, set_stream as set_stream,
    )  # fmt: skip
    from ..runtime.emulator.settings import emulator_settings as emulator_settings
    from .graphed import make_graphed_callables as make_graphed_callables
    from .graphs import (
        CUDAGraph as CUDAGraph, graph as graph, graph_pool_handle as graph_pool_handle,
        is_current_stream_capturing as is_current_stream_capturing,
    )  # fmt: skip
    from .grid import grid_for as grid_for
    from .kernel import Kernel as Kernel
else:
    __getattr__, __dir__ = lazy.attributes(globals())
