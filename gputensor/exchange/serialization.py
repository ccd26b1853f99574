"""save and load: tensors and plain Python values in one file; shared storages stay shared.

A file is a zip archive that any zip tool opens: `header.json` says what was saved, and
`storages/<n>` holds the bytes of each storage, uncompressed and checked by the archive's CRC.
Loading builds numbers, strings, containers and tensors, and nothing else: no pickle, no code.
Saving a view saves the whole storage behind it, as in PyTorch; `.clone()` leaves the rest out.

Note [Format 1]
header.json: {"format": "gputensor", "version": 1, "byteorder": "little", "storages": [{"nbytes",
"device"}], "tensors": [{"storage", "offset", "dtype", "sizes", "strides"}], "value": <value>}. A
tensor that requires grad has "requires_grad": true besides; it is loaded as a leaf, whatever it
was. A value is null, true, false, a number, a string, a list, or an object with one key that names
the
kind: tensor, tuple, dict (a list of pairs), size, float (inf, nan), int (hexadecimal, beyond 64
bits), complex, dtype, device.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ..core import dtype as dtypes, errors
from ..core.device import CPU, META, device
from ..core.dtype import dtype
from ..core.geometry import Size, geometry, unholdable
from ..dispatch import backend_select
from ..dispatch.backend_select import TENSOR_KEYS
from ..tensor.pickling import check_hooks, host_bytes, in_memory, storage_from
from ..runtime import files
from ..tensor.storage import Storage, allocate_storage
from ..tensor.make import from_storage
from ..tensor.tensor import Tensor

# json and zipfile are imported where they are used: 7 ms that `import gputensor` does without.
if TYPE_CHECKING:
    import zipfile

FORMAT, VERSION = "gputensor", 1
_HEADER = "header.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that equal content gives equal files
_DTYPES = {d.name: d for d in dtypes.STORED}
_LARGEST = 1 << 63
# What a header may have, so that a small file cannot fill the memory with Python objects.
_MOST_HEADER_BYTES = 64 << 20


# --- save ---------------------------------------------------------------------------------------


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write tensors, numbers, strings, and lists, tuples and dicts of them to a file.

    A file that a name is given for appears whole or not at all and keeps its mode; a symbolic link
    stays, and what it points to is replaced. Tensors that require grad will again, as leaves;
    gradients, history, hooks (with a warning) and the class of a subclass are left out.
    Raises: ArgumentTypeError for anything else, naming where in `obj` it is.
    """
    writer = _Writer()
    try:
        value = writer.encode(obj, "obj")
    except RecursionError:
        got = errors.Got(f"a deep {type(obj).__name__}")
        raise errors.must("save", "obj", "be nested less deeply", got) from None
    header = {
        "format": FORMAT, "version": VERSION, "byteorder": sys.byteorder,
        "storages": [{"nbytes": s.nbytes, "device": str(s.device)} for s in writer.storages],
        "tensors": writer.tensors, "value": value,
    }  # fmt: skip
    to: Any = f
    if hasattr(to, "write"):
        _write(to, header, writer.storages)
        return
    with files.whole(_path("save", to)) as file:
        _write(file, header, writer.storages)


def _path(op: str, f: Any) -> Any:
    if isinstance(f, (str, bytes, os.PathLike)):
        return os.fspath(f)
    rule = "be a path or an open binary file"
    raise errors.wrong_type(op, "f", rule, errors.Got(type(f).__name__))


def _write(file: IO[bytes], header: dict[str, Any], storages: list[Storage]) -> None:
    import json
    import zipfile

    text = json.dumps(header, allow_nan=False).encode()
    if len(text) > _MOST_HEADER_BYTES:
        got = f"{len(text) >> 20} MiB without its tensors' elements"
        rule = f"take at most {_MOST_HEADER_BYTES >> 20} MiB besides tensors"
        remedy = "turn long lists of numbers into tensors"
        raise errors.must("save", "obj", rule, errors.Got(got), remedy=remedy)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER, _EPOCH), text)
        for number, storage in enumerate(storages):
            if storage.device is not META:
                with archive.open(
                    zipfile.ZipInfo(f"storages/{number}", _EPOCH), "w", force_zip64=True
                ) as entry:
                    entry.write(host_bytes(storage).data)


class _Writer:
    """Turns values into JSON and collects the tensors and storages on the way."""

    def __init__(self) -> None:
        self.storages: list[Storage] = []
        self.tensors: list[dict[str, Any]] = []
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        self._open: set[int] = set()

    def encode(self, value: Any, where: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if -_LARGEST <= value < _LARGEST else {"int": hex(value)}
        if kind is float:
            return value if value - value == 0 else {"float": repr(value)}
        if kind is complex:
            return {"complex": [self.encode(value.real, where), self.encode(value.imag, where)]}
        if hasattr(value, "_geometry"):
            return {"tensor": self._tensor(value)}
        if kind is dtype:
            return {"dtype": value.name}
        if kind is device:
            return {"device": str(value)}
        if kind is Size:
            return {"size": list(value)}
        return self._container(value, where)

    def _container(self, value: Any, where: str) -> Any:
        if id(value) in self._open:
            raise errors.must("save", where, "not contain itself", errors.Got(type(value).__name__))
        self._open.add(id(value))
        try:
            if type(value) in (list, tuple):
                items = [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]
                return items if type(value) is list else {"tuple": items}
            kind = type(value)
            if kind is dict or kind.__name__ == "OrderedDict" and isinstance(value, dict):
                return {"dict": [
                    [self.encode(k, f"a key of {where}"), self.encode(v, f"{where}[{k!r}]")]
                    for k, v in value.items()
                ]}  # fmt: skip
        finally:
            self._open.discard(id(value))
        rule = "be a tensor, number, string, list, tuple or dict"
        raise errors.wrong_type("save", where, rule, errors.Got(type(value).__name__))

    def _tensor(self, tensor: Tensor) -> int:
        number = self._numbers.get(id(tensor))
        if number is None:
            check_hooks(tensor)
            self._alive.append(tensor)  # an id is a name only while its object lives
            storage, offset, shape = in_memory(tensor, "save")
            self._alive.append(storage)
            described = {
                "storage": self._storage(storage), "offset": offset,
                "dtype": shape.dtype.name, "sizes": shape.sizes, "strides": shape.strides,
            }  # fmt: skip
            if tensor.requires_grad:
                described["requires_grad"] = True
            self.tensors.append(described)
            number = self._numbers[id(tensor)] = len(self.tensors) - 1
        return number

    def _storage(self, storage: Storage) -> int:
        number = self._numbers.get(id(storage))
        if number is None:
            self.storages.append(storage)
            number = self._numbers[id(storage)] = len(self.storages) - 1
        return number


# --- load ---------------------------------------------------------------------------------------


class _Damaged(Exception):
    """What is wrong with a file; `load` makes the sentence."""


def load(
    f: str | os.PathLike[str] | IO[bytes], map_location: str | device | dict[str, str] | None = None
) -> Any:
    """Read what `save` wrote. Runs no code from the file.

    map_location: a device for all tensors, or a dict from saved to wanted device names; None puts
    them back where they were.
    Raises: FileFormatError for a file that is damaged, cut short or not of this format.
    """
    source: Any = f
    if hasattr(source, "read"):
        return _load(source, getattr(source, "name", None), map_location)
    name = _path("load", source)
    with open(name, "rb") as file:
        return _load(file, os.fsdecode(name), map_location)


def _load(file: IO[bytes], name: Any, map_location: Any) -> Any:
    import struct
    import zipfile

    try:
        with zipfile.ZipFile(file) as archive:
            header = _read_header(archive)
            return _Reader(archive, header, map_location).value()
    except (
        zipfile.BadZipFile, struct.error, _Damaged, EOFError, LookupError, TypeError, ValueError,
        RuntimeError, AttributeError, OverflowError, OSError,
    ) as error:  # fmt: skip
        if isinstance(error, errors.GpuTensorError):  # about devices, and what the caller gave
            raise
        # What a lying archive has zipfile seek to; other failures of the file are the system's.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise errors.damaged_file("load", name, str(error) or type(error).__name__) from None


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    import json

    entry = archive.NameToInfo.get(_HEADER)
    if entry is None:
        raise _Damaged(f"there is no {_HEADER} in it")
    if entry.compress_type != 0 or entry.compress_size != entry.file_size:
        raise _Damaged(f"its {_HEADER} is not stored as it is")
    if entry.file_size > _MOST_HEADER_BYTES:
        raise _Damaged(f"its {_HEADER} has {entry.file_size} bytes")
    header = json.loads(archive.read(_HEADER))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _Damaged("its header is another format's")
    if header["version"] != VERSION:
        versions = f"version {header['version']} of the format and this is version {VERSION}"
        raise _Damaged(f"it has {versions}")
    if header["byteorder"] != sys.byteorder:
        raise _Damaged(f"its bytes are in {header['byteorder']}-endian order")
    # Entries may overlap, so each can be within the file and all of them much larger.
    nbytes = [_natural("nbytes", s["nbytes"]) for s in header["storages"] if s["device"] != "meta"]
    if sum(nbytes) > archive.start_dir:
        raise _Damaged(f"its storages have {sum(nbytes)} bytes, and the file {archive.start_dir}")
    return header


class _Reader:
    """Builds what a header describes; storages are read when first needed, and once."""

    def __init__(self, archive: zipfile.ZipFile, header: dict[str, Any], map_location: Any) -> None:
        self._archive, self._header, self._map = archive, header, map_location
        self._storages: dict[int, Storage] = {}
        self._tensors: dict[int, Tensor] = {}
        self._decoders: dict[str, Callable[[Any], Any]] = {
            "tensor": self._tensor, "dict": self._dict, "float": float, "device": _device,
            "tuple": lambda items: tuple([self._decode(v) for v in items]),
            "int": lambda text: int(text, 16), "dtype": _DTYPES.__getitem__,
            "complex": lambda parts: complex(*[self._decode(p) for p in parts]),
            "size": lambda sizes: Size(_naturals("size", sizes)),
        }  # fmt: skip

    def value(self) -> Any:
        return self._decode(self._header["value"])

    def _decode(self, value: Any) -> Any:
        if type(value) is list:
            return [self._decode(v) for v in value]
        if type(value) is not dict:
            return value
        if len(value) != 1:
            raise _Damaged("a value has no kind")
        ((kind, content),) = value.items()
        return self._decoders[kind](content)

    def _dict(self, pairs: Any) -> dict[Any, Any]:
        return {self._decode(k): self._decode(v) for k, v in pairs}

    def _tensor(self, number: int) -> Tensor:
        found = self._tensors.get(number)
        if found is None:
            described = self._header["tensors"][_natural("tensor", number)]
            storage = self._storage(_natural("storage", described["storage"]))
            element = _DTYPES[described["dtype"]]
            sizes = _naturals("sizes", described["sizes"])
            strides = _naturals("strides", described["strides"])
            offset = _natural("offset", described["offset"])
            wrong = unholdable(sizes, strides, element.itemsize)
            if wrong:
                raise _Damaged(f"tensor {number} has {wrong}")
            shape = geometry(sizes, strides, element)
            if shape.extent and (offset + shape.extent) * element.itemsize > storage.nbytes:
                raise _Damaged(f"tensor {number} reaches beyond its storage")
            bits = TENSOR_KEYS[storage.device.type]
            found = self._tensors[number] = from_storage(storage, offset, shape, bits)
            wish = described.get("requires_grad", False)
            if type(wish) is not bool or wish and element.category < dtypes.FLOATING:
                raise _Damaged(f"tensor {number} of {element.name} has requires_grad {wish!r}")
            if wish:
                found.requires_grad_()
        return found

    def _storage(self, number: int) -> Storage:
        found = self._storages.get(number)
        if found is None:
            described = self._header["storages"][number]
            nbytes, saved_on = _natural("nbytes", described["nbytes"]), described["device"]
            place = self._place(saved_on)
            if saved_on == "meta":
                found = allocate_storage(nbytes, META)
            else:
                found = self._put(self._read(number, nbytes), place)
            self._storages[number] = found
        return found

    def _put(self, data: np.ndarray[Any, Any], place: device) -> Storage:
        try:
            return storage_from(data, place)
        except errors.DeviceError as error:
            raise errors.cannot_load_to(place, error) from None

    def _read(self, number: int, nbytes: int) -> np.ndarray[Any, Any]:
        entry = self._archive.getinfo(f"storages/{number}")
        if entry.file_size != nbytes or entry.compress_type != 0:  # stored as it is
            got = f"{entry.file_size} bytes where the header says {nbytes}"
            raise _Damaged(f"storage {number} has {got}")
        if entry.header_offset + nbytes > self._archive.start_dir:
            raise _Damaged(f"storage {number} reaches beyond the file")
        data: np.ndarray[Any, Any] = allocate_storage(nbytes, CPU).data
        view, done = data.data, 0
        opened: Any = self._archive.open(entry)
        with opened as stream:
            while done < nbytes:
                count = stream.readinto(view[done:])
                if not count:
                    raise _Damaged(f"storage {number} ends after {done} of {nbytes} bytes")
                done += count
            stream.read(1)  # the archive compares the CRC at the end of an entry
        return data

    def _place(self, saved_on: str) -> device:
        wanted = self._map
        if isinstance(wanted, dict):
            wanted = wanted.get(saved_on)
        if wanted is None:
            try:
                place = _device(saved_on)
            except errors.ArgumentError as error:  # of a device that is not registered here
                raise errors.cannot_load_to(saved_on, error) from None
        else:
            place = device(wanted)
        return place if place.index is not None else backend_select.resolve(place)


def _device(text: Any) -> device:
    if type(text) is not str:
        raise _Damaged(f"a device is {text!r}")
    return device(text)


def _natural(what: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise _Damaged(f"{what} is {value!r}")
    return value


def _naturals(what: str, values: Any) -> tuple[int, ...]:
    return tuple([_natural(what, v) for v in values])
