"""NumPy arrays as launch arguments on the emulator: copied to the device before the launch and back
after it.

Arrays that share host memory also share device memory. On a GPU no array is copied: the caller must
copy it explicitly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..exchange.foreign import ForeignArray


class _Region:
    """A range of host memory with one or more arrays, and its copy on the device."""

    __slots__ = ("begin", "end", "is_written", "memory", "numbers")

    def __init__(self, begin: int, end: int, number: int, is_written: bool) -> None:
        self.begin, self.end, self.numbers, self.is_written = begin, end, [number], is_written
        self.memory: Any = None


def to_device(
    cuda: Any, device_index: int, stream: Any, found: Mapping[int, ForeignArray],
    written: frozenset[int], pointers: dict[int, int],
) -> list[_Region]:  # fmt: skip
    """Copy the arrays in host memory to the device, and write their device addresses into
    `pointers`. Return the copied regions."""
    host = {n: o for n, o in found.items() if o.device_index < 0}
    regions = _regions(host, written) if host else []
    for region in regions:
        nbytes = region.end - region.begin
        region.memory = cuda.allocate(nbytes, device_index)
        cuda.copy_async(region.memory.ptr, device_index, region.begin, -1, nbytes, stream)
        for number in region.numbers:
            pointers[number] = region.memory.ptr + found[number].address - region.begin
    return regions


def to_host(cuda: Any, device_index: int, stream: Any, regions: list[_Region]) -> None:
    """Wait for the kernel and copy back all memory that it may have written."""
    for region in regions:
        if region.is_written:
            nbytes = region.end - region.begin
            cuda.copy_async(region.begin, -1, region.memory.ptr, device_index, nbytes, stream)


def _regions(found: Mapping[int, ForeignArray], written: frozenset[int]) -> list[_Region]:
    spans = sorted((*o.span(), n) for n, o in found.items())
    regions: list[_Region] = []
    for begin, end, number in spans:
        last = regions[-1] if regions else None
        if last is not None and begin < last.end:
            last.end = max(last.end, end)
            last.numbers.append(number)
            last.is_written = last.is_written or number in written
        else:
            regions.append(_Region(begin, end, number, number in written))
    return regions
