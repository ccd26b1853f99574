"""Counters and descriptions of an Allocator, for statistics and error messages.

of: the Allocator. Its type is not imported, because allocator.py imports this module.
"""

from __future__ import annotations

from typing import Any


def stats(of: Any) -> dict[str, int]:
    """Return the counters, under the names of PyTorch's `memory_stats` if it has them."""
    counts = of._counts
    return {
        "allocated_bytes.all.current": counts.in_use, "allocated_bytes.all.peak": counts.peak,
        "allocation.all.current": counts.allocations - counts.returns,
        "allocation.all.allocated": counts.allocations,
        "reserved_bytes.all.current": of._held_bytes,
        "reserved_bytes.all.peak": of._peak_held_bytes,
        "segment.all.current": of._device_allocations - of._device_frees,
        "num_device_alloc": of._device_allocations, "num_device_free": of._device_frees,
        "num_alloc_retries": of._retries, "num_ooms": of._failures,
    }  # fmt: skip


def snapshot(of: Any) -> list[dict[str, Any]]:
    """Return a description of each block, in the order of addresses."""
    firsts = [*of._alone]
    for pools in of._every():
        firsts += pools.segments
    return [
        block.described(of.device_index, first)
        for first in sorted(firsts, key=lambda block: block.ptr)
        for block in first.walk()
    ]


def figures(of: Any) -> dict[str, int]:
    """Return the numbers of bytes for the message of an OutOfMemoryError."""
    free, total = of.backend.mem_get_info()
    used, held = of._counts.in_use, of._held_bytes
    found = {"in tensors": used, "held": held, "free on the device": free, "total": total}
    if of.limit is not None:
        found["limit"] = of.limit
    return found
