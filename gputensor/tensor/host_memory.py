"""Page-locked host memory, and host memory shared between processes.

The kind of a storage's memory is recognised by the base object of the storage's ndarray.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import runtime
from .._generated import calls
from ..core import errors
from ..core.device import CPU
from ..core.geometry import Geometry
from .pickling import over, reduce_storage
from .storage import ExposedStorage, Region, SharedStorage, Storage


class _Pinned(Region):
    """Page-locked memory. Copies between it and a device do not block the host."""

    __slots__ = ()


class _Mapped(Region):
    """An unnamed file mapped into memory. Processes that receive the file share its bytes."""

    __slots__ = ("file",)

    def __init__(self, file: int, nbytes: int) -> None:
        from mmap import mmap

        memory = mmap(file, nbytes)
        address = int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])
        super().__init__(address, nbytes, memory, False)
        self.file = file

    def __del__(self) -> None:
        os.close(self.file)


def _region(storage: Storage) -> Any:
    return getattr(storage.data, "base", None) if storage.device is CPU else None


# --- page-locked memory ---------------------------------------------------------------------------


def is_pinned(x: Any) -> bool:
    """True if a tensor's memory is page-locked."""
    return x._device is CPU and isinstance(_region(x._get_storage()), _Pinned)


def pinned_empty(op: str, shape: Geometry, place: Any) -> Any:
    """Return an uninitialised tensor in page-locked memory. Raises: DeviceError without CUDA."""
    if place is not CPU:
        raise errors.must(op, "pin_memory", "be given for CPU tensors only", errors.Got(str(place)))
    nbytes = shape.extent * shape.dtype.itemsize
    memory = runtime.cuda().pinned_allocate(nbytes)
    # The array's base refers to `memory`. When `memory` is dropped, the runtime frees the bytes.
    data = np.asarray(_Pinned(memory.ptr, nbytes, memory, False)) if nbytes else memory.array
    return over(Storage.over(data, nbytes, CPU), shape)


def pinned(op: str, x: Any) -> Any:
    """Return a CPU tensor if its memory is page-locked. Otherwise return a copy in page-locked
    memory."""
    if x._device is not CPU:
        raise errors.must(op, "self", "be on the CPU", x)
    if is_pinned(x):
        return x
    return calls.copy_(pinned_empty(op, x._geometry, CPU), x, False)


# --- memory of several processes ------------------------------------------------------------------


def is_shared(x: Any) -> bool:
    """True if other processes can share a tensor's memory. True for every tensor on CUDA."""
    return x._device.type == "cuda" or isinstance(_region(x._get_storage()), _Mapped)


def share(x: Any) -> None:
    """Move the storage of a CPU tensor to shared memory. All views of the storage use the new
    memory."""
    storage = x._get_storage()
    if is_shared(x) or not storage._nbytes:
        return
    if x._device is not CPU:
        raise errors.must("share_memory_", "self", "be on the CPU", x)
    _let_processes_share()
    data = np.asarray(_Mapped(_new_file(storage._nbytes), storage._nbytes))
    data[:] = storage.data
    storage.move(data)
    storage.__class__ = SharedStorage  # from now on other processes may access the bytes


def _new_file(nbytes: int) -> int:
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("gputensor")
    else:
        from tempfile import TemporaryFile

        with TemporaryFile() as opened:
            file = os.dup(opened.fileno())
    os.ftruncate(file, nbytes)
    return file


def _let_processes_share() -> None:
    """Register with `multiprocessing` how to send storages: shared memory as a file descriptor,
    other storages as bytes."""
    from multiprocessing import reduction

    for kind in (Storage, SharedStorage, ExposedStorage):
        reduction.register(kind, _reduce)


def _reduce(storage: Storage) -> tuple[Any, ...]:
    from multiprocessing import reduction

    region = _region(storage)
    if not isinstance(region, _Mapped):
        return reduce_storage(storage)
    return _rebuild, (reduction.DupFd(region.file), storage._nbytes)


def _rebuild(file: Any, nbytes: int) -> Storage:
    _let_processes_share()
    data = np.asarray(_Mapped(file.detach(), nbytes))
    return SharedStorage.over(data, nbytes, CPU)
