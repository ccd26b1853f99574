"""Reader of a file's storages. It reads or maps them into memory, checks them, and moves them to
their devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import errors
from ..core.device import CPU, device
from ..core.dtype import FLOATING, dtype
from ..core.geometry import Geometry, geometry, unholdable
from ..dispatch import backend_select
from ..dispatch.backend_select import TENSOR_KEYS
from ..tensor.make import from_storage
from ..tensor.pickling import storage_from
from ..tensor.storage import Storage, allocate_storage
from ..tensor.tensor import Tensor
from .unpickle import Damaged

if TYPE_CHECKING:
    import zipfile

# _ALIGNED: the alignment in bytes that loops and kernels assume for storages. _LOCAL_HEADER: the
# number of bytes of a zip entry before its name.
_ALIGNED = 64
_LOCAL_HEADER = 30


class Places:
    """Reader of storages. It moves them to the devices that `map_location` of `gt.load` gives."""

    def __init__(self, map_location: Any) -> None:
        # Devices are callable, too, because a device can be used as a decorator.
        is_function = callable(map_location) and not isinstance(map_location, device)
        self._moved = map_location if is_function else None
        self._map = None if is_function else map_location

    def read(
        self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, nbytes: int
    ) -> np.ndarray[Any, Any]:
        """Read an entry's bytes into new memory."""
        self._check(archive, entry, nbytes)
        data: np.ndarray[Any, Any] = allocate_storage(nbytes, CPU).data
        view, done = data.data, 0
        opened: Any = archive.open(entry)
        with opened as stream:
            while done < nbytes:
                count = stream.readinto(view[done:])
                if not count:
                    raise Damaged(f"{entry.filename} ends after {done} of {nbytes} bytes")
                done += count
            stream.read(1)  # zipfile checks the CRC when the end of the entry is read
        return data

    def mapped(
        self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, nbytes: int, name: str
    ) -> np.ndarray[Any, Any]:
        """Map an entry's bytes from the file, copy-on-write, so that writes do not reach the
        file."""
        self._check(archive, entry, nbytes)
        if not nbytes:
            return np.empty(0, np.uint8)
        with open(name, "rb") as file:
            file.seek(entry.header_offset)
            local = file.read(_LOCAL_HEADER)
        if len(local) != _LOCAL_HEADER or local[:4] != b"PK\x03\x04":
            raise Damaged(f"{entry.filename} does not begin where the archive says")
        extra = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        begin = entry.header_offset + _LOCAL_HEADER + extra
        if begin + nbytes > archive.start_dir:
            raise Damaged(f"{entry.filename} reaches beyond the file")
        if begin % _ALIGNED:
            rule = "be a file whose storages are aligned, for mmap=True"
            remedy = "load it without mmap and save it again"
            raise errors.must("load", "f", rule, errors.Got(repr(name)), remedy=remedy)
        return np.memmap(name, np.uint8, "c", begin, (nbytes,))

    def _check(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, nbytes: int) -> None:
        if entry.file_size != nbytes or entry.compress_type != 0:  # 0: not compressed
            got = f"{entry.file_size} bytes instead of {nbytes}"
            raise Damaged(f"{entry.filename} has {got}")
        if entry.header_offset + nbytes > archive.start_dir:
            raise Damaged(f"{entry.filename} reaches beyond the file")

    def put(self, data: np.ndarray[Any, Any], saved_on: str) -> Storage:
        """Return a storage with these bytes on the device that `map_location` gives."""
        if self._moved is not None:
            here = Storage.over(data, data.size, CPU)
            found = self._moved(here, saved_on)
            if found is not None:
                if not isinstance(found, Storage):
                    rule = "return a storage or None"
                    raise errors.wrong_type("load", "map_location", rule, found)
                return found
        place = self.place(saved_on)
        try:
            return storage_from(data, place)
        except errors.DeviceError as error:
            raise errors.cannot_load_to(place, error) from None

    def place(self, saved_on: str) -> device:
        wanted = self._map
        if isinstance(wanted, dict):
            wanted = wanted.get(saved_on)
        if wanted is None:
            try:
                place = parsed(saved_on)
            except errors.ArgumentError as error:  # the device is not registered in this process
                raise errors.cannot_load_to(saved_on, error) from None
        else:
            place = device(wanted)
        return place if place.index is not None else backend_select.resolve(place)


# --- tensors --------------------------------------------------------------------------------------


def tensor_over(
    what: str, storage: Storage, offset: Any, sizes: Any, strides: Any, element: Any,
    requires_grad: Any,
) -> Tensor:  # fmt: skip
    """Return a tensor over a storage. Raises: Damaged, with a message that begins with `what`, if
    the tensor does not fit into the storage."""
    shape = described(what, sizes, strides, element)
    offset = natural("offset", offset)
    if shape.extent and (offset + shape.extent) * element.itemsize > storage._nbytes:
        raise Damaged(f"{what} reaches beyond its storage")
    made = from_storage(storage, offset, shape, TENSOR_KEYS[storage.device.type])
    return with_grad(what, made, requires_grad)


def described(what: str, sizes: Any, strides: Any, element: Any) -> Geometry:
    if type(element) is not dtype:
        raise Damaged(f"{what} has the dtype {element!r}")
    sizes, strides = naturals("sizes", sizes), naturals("strides", strides)
    wrong = unholdable(sizes, strides, element.itemsize)
    if wrong:
        raise Damaged(f"{what} has {wrong}")
    return geometry(sizes, strides, element)


def with_grad(what: str, x: Tensor, requires_grad: Any) -> Tensor:
    element = x._geometry.dtype
    if type(requires_grad) is not bool or requires_grad and element.category < FLOATING:
        raise Damaged(f"{what} of {element.name} has requires_grad {requires_grad!r}")
    return x.requires_grad_() if requires_grad else x


def parsed(text: Any) -> device:
    if type(text) is not str:
        raise Damaged(f"a device is {text!r}")
    return device(text)


def natural(what: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise Damaged(f"{what} is {value!r}")
    return value


def naturals(what: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)):
        raise Damaged(f"{what} is {values!r}")
    return tuple([natural(what, v) for v in values])
