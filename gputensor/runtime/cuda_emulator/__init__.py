"""CUDA devices that are emulated on the CPU, with the interface of a real device. g++ compiles the
kernel text that NVRTC compiles for GPUs.

A launch, a copy or a fill goes to the queue of its stream (emulator/queues.py) and runs on the
engine (emulator/engine/launch.h). `GPUTENSOR_EMULATOR_ORDER` selects the order of the queues. Every
allocation has its own pages and guard bytes (emulator/engine/arena.h). A kernel's fault raises
KernelError at the next synchronisation or, in eager order, at the launch itself.
`GPUTENSOR_EMULATOR_DEVICES` and `GPUTENSOR_EMULATOR_MEMORY` (bytes per device) set the number and
the size of devices; `GPUTENSOR_EMULATOR_CHECK=0` disables guard bytes and the poisoning of memory.
emulator/settings.py has further checks, the order of threads, and the time limit. The emulator does
not reproduce a GPU's memory model and timing, nor the last bits of libdevice.
"""

from __future__ import annotations

import atexit
import os

from gputensor.core import errors

from .. import no_cuda
from ..allocator import Allocator
from ..capture import check_stream
from ..emulator import toolchain
from ..emulator.machine import Machine
from ..emulator.pinned import PinnedAllocator, PinnedMemory
from ..emulator.queues import Scheduler
from . import devices, kernels, memory, streams
from .devices import (
    can_access_peer, capability, current_device, device_count, device_name, enable_peer_access,
    exchange_device, limits, set_device,
)  # fmt: skip
from .graphs import begin_capture, replay
from .kernels import (
    Function, arch, compile, launch, launcher, load, prefer_shared, write_symbol,
)  # fmt: skip
from .library import blas, call_library, nccl
from .memory import (
    allocate, copy_async, empty_cache, mem_get_info, memory_allocated,
    memory_reserved, memory_snapshot, memory_stats, memset_async, pinned_allocate, record_stream,
    reset_peak_memory_stats, set_memory_limit, taker,
)  # fmt: skip
from .streams import (
    Event, Stream, current_stream, default_stream, external_stream, set_stream, synchronize,
)  # fmt: skip

name = "cuda_emulator"
is_emulated = True


def is_available() -> bool:
    return toolchain.unavailable_reason() is None


def unavailable_reason() -> str | None:
    return toolchain.unavailable_reason()


def start() -> None:
    """Create the devices at the first call. `runtime` calls this function when it chooses this
    package."""
    if memory.allocators:
        return
    count = _positive("GPUTENSOR_EMULATOR_DEVICES", 2)
    devices.total_bytes = _positive("GPUTENSOR_EMULATOR_MEMORY", 4 << 30)
    devices.scheduler = Scheduler()
    devices.machine = Machine()
    devices.pinned = PinnedAllocator(devices.machine)
    streams.default_streams.extend(Stream(i, ptr=0) for i in range(count))
    devices.peers.extend(1 << i for i in range(count))
    memory.allocators.extend(
        Allocator(i, memory.Backend(i), keeps_blocks=False) for i in range(count)
    )
    atexit.register(_stop_at_exit)


def _stop_at_exit() -> None:
    """Stop a kernel that a daemon thread still runs. If the kernel does not end, stop freeing
    memory, so that the process can exit although the thread holds the locks."""
    if not devices.machine.stop(wait_s=2.0):
        _let_go()


def _positive(setting: str, default: int) -> int:
    given = os.environ.get(setting)
    if not given:
        return default
    if not given.isdecimal() or int(given) == 0:
        raise errors.wrong_setting(setting, "be a positive integer", given)
    return int(given)


def reset_after_fork() -> None:
    """In a forked child, reject every later allocation and launch."""
    global allocate, launch
    _let_go()
    allocate = launch = memory.allocate = kernels.launch = no_cuda._absent


def _let_go() -> None:
    """Stop freeing memory, because threads that no longer run may hold the locks for ever."""
    devices.machine.is_closed = True
    memory.allocators.close()
