"""CUDA devices through CuPy 14. Only this package imports CuPy.

CuPy stores the current device and stream, so `with stream:` works for CuPy's streams and for
gputensor's. Every function takes a device index, makes that device current if needed, and switches
back. runtime/allocator caches memory and requests segments from the driver. Kernels are compiled by
NVRTC with our own options, because CuPy appends `-ftz=true`. They are launched with one by-value
struct through `cupy.cuda.driver.launchKernel`, which takes 102 ns, while `RawKernel.__call__` takes
microseconds. A launch makes no other driver call.
"""

from __future__ import annotations

from typing import Any

from .. import no_cuda
from ..capture import check_stream
from . import driver, graphs, kernels, library, memory, streams
from .driver import (
    can_access_peer, capability, current_device, device_count, device_name, device_of,
    exchange_device, first_failure, is_available, limits, mem_get_info, set_device,
    unavailable_reason,
)  # fmt: skip
from .graphs import Graph, begin_capture, replay
from .kernels import Function, arch, compile, launch, launcher, load, prefer_shared
from .library import blas, call_library, nccl
from .memory import (
    PinnedMemory, allocate, borrow, copy_async, empty_cache, memory_allocated, memory_reserved,
    memory_snapshot, memory_stats, memset_async, pinned_allocate, record_stream,
    reset_peak_memory_stats, set_memory_limit, taker,
)  # fmt: skip
from .streams import (
    Event, Stream, current_stream, default_stream, external_stream, set_stream, synchronize,
)  # fmt: skip

name = "cuda"
is_emulated = False


def reset_after_fork() -> None:
    """In a forked child, make the functions of the CUDA runtime raise errors. The child can neither
    use nor release the parent's CUDA state."""
    global allocate
    memory.allocators.close()
    # Short cuts (dispatch/shortcuts.py) keep references to functions of these modules. So
    # `get_device` of each module, which every launch calls first, is replaced by a function that
    # raises.
    holders: list[Any] = [driver, graphs, kernels, library, memory, streams]
    for module in holders:
        module.get_device = no_cuda._absent
    allocate = memory.allocate = no_cuda._absent
