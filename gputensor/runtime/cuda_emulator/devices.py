"""The emulated devices: their number, memory size and peers, the current device, the scheduler."""

from __future__ import annotations

import threading

from gputensor.core import errors

from ..device_limits import H200, Limits
from ..emulator.machine import Machine
from ..emulator.pinned import PinnedAllocator
from ..emulator.queues import Scheduler

# `start` of this package sets these three variables.
machine: Machine
scheduler: Scheduler
pinned: PinnedAllocator
# Each device has this number of bytes of memory.
total_bytes = 0
# For each device: a bit mask of the devices whose memory its kernels may use.
peers: list[int] = []
_local = threading.local()


def device_count() -> int:
    return len(peers)


def current_device() -> int:
    return getattr(_local, "device", 0)


def set_device(index: int) -> None:
    exchange_device(index)


def exchange_device(index: int) -> int:
    """Make a device current and return the previous one."""
    previous = current_device()
    _local.device = checked("set_device", index)
    return previous


def checked(op: str, index: int) -> int:
    if not 0 <= index < len(peers):
        raise errors.device_index_out_of_range(op, index, len(peers))
    return index


def device_name(index: int) -> str:
    checked("device_name", index)
    return "CUDA emulator"


def capability(index: int) -> tuple[int, int]:
    """Return the compute capability whose rules the emulator follows."""
    checked("capability", index)
    return (7, 0)


def limits(index: int) -> Limits:
    """Return the limits of an H200, so that launches are planned for a large GPU."""
    checked("limits", index)
    return H200


def can_access_peer(device_index: int, peer_index: int) -> bool:
    """Return True if kernels of one device may use the memory of another device. For two different
    devices this is False before `enable_peer_access`."""
    checked("can_access_peer", peer_index)
    return bool(peers[checked("can_access_peer", device_index)] >> peer_index & 1)


def enable_peer_access(device_index: int, peer_index: int, enabled: bool = True) -> None:
    """Let kernels of one device use the memory of another device, or forbid it. Only the emulator
    has this function."""
    bit = 1 << checked("enable_peer_access", peer_index)
    checked("enable_peer_access", device_index)
    if enabled:
        peers[device_index] |= bit
    elif device_index != peer_index:
        peers[device_index] &= ~bit
