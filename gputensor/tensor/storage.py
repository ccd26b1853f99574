"""Storage: the bytes of one or more tensors, and the registry of allocators.

A storage has bytes, a device and a version. Sizes, strides and dtypes belong to `Geometry`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any, Self
from weakref import ref

import numpy as np

from .. import runtime
from ..core import errors
from ..core.device import CPU, device
from ..core.registry import Registry
from ..dispatch.backend_select import register_current_index
from ..runtime import cpu


_device = device


class Storage:
    """The bytes of one or more tensors, on one device.

    version: the number of writes by operators. All views of the storage share it.
    """

    # _twins: used only by a SharedStorage. _step: used by chains (fusion/), only until the bytes
    # are computed.
    __slots__ = (
        "_data", "_array", "_nbytes", "device", "version", "_twins", "_step", "__weakref__",
    )  # fmt: skip
    _data: Any
    _array: Any
    _nbytes: int
    device: _device
    version: int
    _step: int
    # True if another storage may have the same bytes.
    may_alias = False
    # True if NumPy, or code that has the address, may access the bytes.
    is_exposed = False

    # This class has no `__init__`, because Python makes an instance in half the time without one,
    # and each result on a device needs a storage.
    @classmethod
    def over(cls, data: Any, nbytes: int, place: _device) -> Self:
        made = cls()
        made._data, made._array, made._nbytes, made.device = data, None, nbytes, place
        made.version = 0
        return made

    @property
    def data(self) -> Any:
        """The bytes: a 1-d uint8 ndarray on the CPU, the allocator's object on other devices, None
        on meta."""
        data = self._data
        if data is None and self._array is not None:
            data = self._data = self._array.ravel("K").view(np.uint8)
            assert data.base is not None or data.size == 0, self._array.strides
        return data

    @data.setter
    def data(self, data: Any) -> None:
        self._data, self._array = data, None

    @property
    def ptr(self) -> int:
        """The address of the first byte; 0 on meta."""
        data = self.data
        if data is None or not self._nbytes:
            return 0
        return cpu.address_of(data) if self.device is CPU else int(data.ptr)

    def data_ptr(self) -> int:
        expose(self)
        return self.ptr

    def nbytes(self) -> int:
        """The size in bytes."""
        return self._nbytes

    def size(self) -> int:
        return self._nbytes

    def __len__(self) -> int:
        return self._nbytes

    def __repr__(self) -> str:
        return f"<Storage {self._nbytes} bytes on {self.device}>"

    # --- methods of PyTorch's storages, computed by operators on the bytes as a tensor
    # ---------------

    def element_size(self) -> int:
        """Return the bytes of one element, which is 1."""
        return 1

    def untyped(self) -> Storage:
        """Return the storage itself."""
        return self

    @property
    def is_cuda(self) -> bool:
        """True if the bytes are on a CUDA device."""
        return self.device.type == "cuda"

    @property
    def filename(self) -> str | None:
        """The absolute path of the file that is mapped into this memory, or None."""
        data = self.data
        while data is not None and not isinstance(data, np.memmap):
            data = getattr(data, "base", None)
        return None if data is None else str(data.filename)

    def get_device(self) -> int | None:
        """Return the index of the device, or None on the CPU."""
        return self.device.index

    def tolist(self) -> list[int]:
        """Return the bytes as a list of ints."""
        found: list[int] = _flat(self).tolist()
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        """Return the byte at an index as an int. For a slice, return a storage over the bytes of
        the slice."""
        if not isinstance(index, slice):
            return _flat(self)[_at(index)].item()
        start, stop = _bounds(self, index)
        if self.data is None:
            return allocate_storage(stop - start, self.device)
        expose(self)
        owner = self.data
        if self.device is CPU:
            return SharedStorage.over(owner[start:stop], stop - start, CPU)
        return SharedStorage.over(_Part(owner, start), stop - start, self.device)

    def __setitem__(self, index: Any, value: int) -> None:
        part = slice(*_bounds(self, index)) if isinstance(index, slice) else _at(index)
        _flat(self)[part] = _byte(value)

    def fill_(self, value: int) -> Storage:
        """Set all bytes to the lowest byte of `value`."""
        _flat(self).fill_(_byte(value))
        return self

    def copy_(self, source: Storage, non_blocking: bool = False) -> Storage:
        """Copy the bytes of a storage of the same size, from any device."""
        if not isinstance(source, Storage) or source._nbytes != self._nbytes:
            rule = f"be a storage of {self._nbytes} bytes"
            raise errors.wrong_value("copy_", "source", rule, source)
        _flat(self).copy_(_flat(source), non_blocking)
        return self

    def clone(self) -> Storage:
        """Return a new storage with a copy of the bytes."""
        return allocate_storage(self._nbytes, self.device).copy_(self)

    def resize_(self, size: int) -> Storage:
        """Change the number of bytes, for all tensors on this storage. Added bytes are
        undefined."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise errors.wrong_value("resize_", "size", "be a number of bytes, at least 0", size)
        if size != self._nbytes:
            self.resize(size, lambda to, old, n: _flat(to)[:n].copy_(_flat(old)[:n]))
        return self

    def to(self, device: Any, non_blocking: bool = False) -> Storage:
        """Return a copy on a device, or the storage itself if it is on that device."""
        found: Storage = _flat(self).to(device, non_blocking=non_blocking)._get_storage()
        return self if found.device is self.device else found

    def cpu(self) -> Storage:
        """Return a copy on the CPU, or the storage itself if it is on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Storage:
        """Return a copy on a CUDA device (the current one by default), or the storage itself if it
        is on that device."""
        return self.to("cuda" if device is None else device, non_blocking)

    def is_pinned(self, device: Any = None) -> bool:
        """True if the memory is page-locked. device: has no effect, as in PyTorch."""
        return bool(_flat(self).is_pinned())

    def is_shared(self) -> bool:
        """True if the memory is shared with other processes."""
        return bool(_flat(self).is_shared())

    def share_memory_(self) -> Storage:
        """Move the bytes to memory that other processes can share."""
        _flat(self).share_memory_()
        return self

    def twin(self) -> Storage:
        """Make another storage over the same bytes.

        A resize changes both storages. Each storage counts its own version.
        """
        made = SharedStorage.over(self.data, self._nbytes, self.device)
        if not hasattr(self, "_twins"):
            self.__class__ = SharedStorage
            self._twins = [ref(self)]
        made._twins = self._twins
        made._twins[:] = [x for x in made._twins if x() is not None] + [ref(made)]
        return made

    def is_twin(self, other: Any) -> bool:
        """True if both storages are over the same bytes. This works also for storages without
        memory, as on meta."""
        twins = getattr(other, "_twins", other)
        return other is not None and getattr(self, "_twins", self) is twins

    def resize(self, nbytes: int, copy: Callable[[Storage, Storage, int], None]) -> None:
        """Replace the buffer by a new one of `nbytes`. `copy(new, old, n)` copies the first n
        bytes.

        Every tensor on this storage then uses the new buffer.
        """
        fresh = allocate_storage(nbytes, self.device)
        kept = min(nbytes, self._nbytes)
        if kept and self.data is not None:
            copy(fresh, self, kept)
        if sys.getrefcount(self) > _REFERENCES_OF_ONE:
            _forget_arrays(self)
        is_gone = not nbytes and self.device is not CPU and fresh.data is not None
        self._put(_Gone() if is_gone else fresh.data, nbytes)

    def move(self, data: Any) -> None:
        """Replace the memory by other memory that contains the same bytes. All tensors of this
        storage then use it."""
        _forget_arrays(self)
        self._put(data, self._nbytes)

    def _put(self, data: Any, nbytes: int) -> None:
        self.data, self._nbytes = data, nbytes
        if hasattr(self, "_twins"):
            for twin in [x() for x in self._twins]:
                if twin is not None and twin is not self:
                    _forget_arrays(twin)
                    twin.data, twin._nbytes = self.data, nbytes


class SharedStorage(Storage):
    """A storage that shares its bytes with another storage (a twin), or whose memory belongs to
    other code.

    _twins: a list of weak references to all twins. The twins share this list.
    """

    __slots__ = ()
    may_alias = is_exposed = True


class _Part:
    """The part of a device's memory that begins at a given byte. It keeps the whole memory
    alive."""

    __slots__ = ("ptr", "whole")

    def __init__(self, whole: Any, start: int) -> None:
        self.ptr: int = whole.ptr + start
        self.whole: Any = whole


class _Gone:
    """The memory of a device's storage that was resized to 0 bytes. A kernel must not get a null
    pointer, which would be an error of the whole process."""

    __slots__ = ()

    @property
    def ptr(self) -> int:
        raise errors.storage_too_small(0)


# Contains one function, which returns a tensor over a storage's bytes. tensor/make.py appends it.
as_tensor: list[Callable[[Storage], Any]] = []


def _flat(storage: Storage) -> Any:
    return as_tensor[0](storage)


def _at(index: Any) -> int:
    if isinstance(index, bool) or not isinstance(index, int):
        raise errors.wrong_type("storage", "index", "be an int or a slice", index)
    return index


def _bounds(storage: Storage, part: slice) -> tuple[int, int]:
    start, stop, step = part.indices(storage._nbytes)
    if step != 1:
        raise errors.wrong_value("storage", "index", "be a slice with steps of 1", part)
    return start, max(start, stop)


def _byte(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise errors.wrong_type("storage", "value", "be an int", value)
    return value & 0xFF


class ExposedStorage(Storage):
    """A storage whose bytes other code may change without a report to gputensor."""

    __slots__ = ()
    is_exposed = True


# Functions that are called with a storage before other code can access its bytes, or before its
# bytes are written without an operator; see fusion/.
on_exposure: list[Callable[[Storage], None]] = []


def about_to_write(storage: Storage) -> None:
    """Report that code other than an operator is about to write to the bytes once. `expose` is for
    code that may write at any later time."""
    for told in on_exposure:
        told(storage)


def expose(storage: Storage) -> None:
    """Report that other code, such as NumPy, another library, or code that has the address, can
    access the bytes from now on."""
    about_to_write(storage)
    if type(storage) is Storage:
        storage.__class__ = ExposedStorage


def _forget_arrays(storage: Storage) -> None:
    # Tensors keep an ndarray over the old buffer, which must be dropped. The garbage collector
    # finds the tensors of this storage in 1 to 30 ms. A check at every use of every array would
    # cost more, because a storage of several tensors is seldom resized.
    for holder in gc.get_referrers(storage):
        if hasattr(holder, "_array") and getattr(holder, "_storage", None) is storage:
            holder._array = None


class _Counted:
    """An object that counts references to itself in the way `Storage.resize` does. The count for
    one reference depends on the Python version."""

    __slots__ = ("_storage",)
    _storage: _Counted

    def count(self) -> int:
        return sys.getrefcount(self)


def _references_of_one() -> int:
    """Return the reference count that `Storage.resize` gets if only one tensor refers to the
    storage."""
    owner = _Counted()
    owner._storage = _Counted()
    return owner._storage.count()


_REFERENCES_OF_ONE = _references_of_one()


def storage_of_array(array: Any, kind: type[Storage] = Storage) -> Storage:
    """Make a Storage over a dense ndarray. The view of its bytes is made only when it is needed."""
    storage = kind()
    storage._data, storage._array, storage._nbytes, storage.device = None, array, array.nbytes, CPU
    storage.version = 0
    return storage


# --- allocators by device type --------------------------------------------------------------------

# Maps a device type to a function (nbytes, device) that allocates memory. The result is stored as
# `_data` of a Storage.
_allocators: Registry[str, Callable[[int, device], Any]] = Registry({
    "cpu": lambda nbytes, place: cpu.allocate(nbytes),
    "cuda": lambda nbytes, place: (runtime._chosen or runtime.cuda()).allocate(nbytes, place.index),
    "meta": lambda nbytes, place: None,
})  # fmt: skip


def register_allocator(
    device_type: str, allocate: Callable[[int, device], Any]
) -> Callable[[], None]:
    """Register `allocate(nbytes, device)` for a device type. Return a function that undoes the
    registration.

    `allocate` returns an object that keeps the bytes alive and has their address as the int `.ptr`.
    """
    return _allocators.register(device_type, allocate)


def allocate_storage(nbytes: int, place: device) -> Storage:
    """Return a Storage of uninitialised bytes on a device. Raises: DeviceError if the device type
    has no allocator."""
    allocate = _allocators.get(place.type)
    if allocate is None:
        raise errors.no_device(place.type, "no allocator is registered for it")
    storage = Storage()  # `Storage.over` is inlined for speed (bench/host/host_cuda.py)
    storage._data, storage._array, storage._nbytes, storage.device = (
        allocate(nbytes, place), None, nbytes, place,
    )  # fmt: skip
    storage.version = 0
    return storage


class Region:
    """Bytes at an address, from which NumPy can make an array. It keeps the owner of the bytes
    alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, nbytes: int, owner: object, readonly: bool) -> None:
        self.__array_interface__ = {
            "data": (address, readonly), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip
        self.owner = owner


def storage_over(address: int, nbytes: int, owner: object, readonly: bool = False) -> Storage:
    """Make a CPU Storage over bytes of other code. The storage keeps `owner`, which owns the bytes,
    alive."""
    data = np.asarray(Region(address, nbytes, owner, readonly)) if nbytes else np.empty(0, np.uint8)
    return SharedStorage.over(data, nbytes, CPU)


register_current_index("cuda", lambda: int(runtime.cuda().current_device()))
