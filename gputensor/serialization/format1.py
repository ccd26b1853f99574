"""Reader of files in Format 1, which the first version of `gt.save` wrote.

Note [Format 1]
The file is a zip archive. header.json contains {"format": "gputensor", "version": 1, "byteorder":
"little", "storages": [{"nbytes", "device"}], "tensors": [{"storage", "offset", "dtype", "sizes",
"strides"}], "value": <value>}. A tensor that requires grad also has "requires_grad": true.
`storages/<n>` contains the bytes of a storage. A value is null, true, false, a number, a string, a
list, or an object with one key, which names the kind: tensor, tuple, dict (a list of pairs), size,
float (inf, nan), int (hexadecimal, for more than 64 bits), complex, dtype, device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core import dtype as dtypes
from ..core.device import META
from ..core.geometry import Size
from ..tensor.storage import Storage, allocate_storage
from ..tensor.tensor import Tensor
from .places import Places, natural, naturals, parsed, tensor_over
from .unpickle import MOST_BYTES, Damaged

if TYPE_CHECKING:
    import zipfile

FORMAT, VERSION = "gputensor", 1
HEADER = "header.json"
_DTYPES = {d.name: d for d in dtypes.HELD}


def load(archive: zipfile.ZipFile, places: Places) -> Any:
    return _Reader(archive, _read_header(archive), places).value()


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    import json

    entry = archive.getinfo(HEADER)
    if entry.compress_type != 0 or entry.compress_size != entry.file_size:
        raise Damaged(f"its {HEADER} is not stored as it is")
    if entry.file_size > MOST_BYTES:
        raise Damaged(f"its {HEADER} has {entry.file_size} bytes")
    header = json.loads(archive.read(HEADER))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise Damaged("its header is another format's")
    if header["version"] != VERSION:
        versions = f"version {header['version']} of the format and this is version {VERSION}"
        raise Damaged(f"it has {versions}")
    if header["byteorder"] != sys.byteorder:
        raise Damaged(f"its bytes are in {header['byteorder']}-endian order")
    # Check the total size of the storages. Zip entries may overlap, so this size may be much larger
    # than the file.
    nbytes = [natural("nbytes", s["nbytes"]) for s in header["storages"] if s["device"] != "meta"]
    if sum(nbytes) > archive.start_dir:
        raise Damaged(f"its storages have {sum(nbytes)} bytes, and the file {archive.start_dir}")
    return header


class _Reader:
    """Builder of the value that a header describes. Each storage is read once, on first use."""

    def __init__(self, archive: zipfile.ZipFile, header: dict[str, Any], places: Places) -> None:
        self._archive, self._header, self._places = archive, header, places
        self._storages: dict[int, Storage] = {}
        self._tensors: dict[int, Tensor] = {}
        self._decoders: dict[str, Callable[[Any], Any]] = {
            "tensor": self._tensor, "dict": self._dict, "float": float, "device": parsed,
            "tuple": lambda items: tuple([self._decode(v) for v in items]),
            "int": lambda text: int(text, 16), "dtype": _DTYPES.__getitem__,
            "complex": lambda parts: complex(*[self._decode(p) for p in parts]),
            "size": lambda sizes: Size(naturals("size", sizes)),
        }  # fmt: skip

    def value(self) -> Any:
        return self._decode(self._header["value"])

    def _decode(self, value: Any) -> Any:
        if type(value) is list:
            return [self._decode(v) for v in value]
        if type(value) is not dict:
            return value
        if len(value) != 1:
            raise Damaged("a value has no kind")
        ((kind, content),) = value.items()
        return self._decoders[kind](content)

    def _dict(self, pairs: Any) -> dict[Any, Any]:
        return {self._decode(k): self._decode(v) for k, v in pairs}

    def _tensor(self, number: int) -> Tensor:
        found = self._tensors.get(number)
        if found is None:
            described = self._header["tensors"][natural("tensor", number)]
            found = self._tensors[number] = tensor_over(
                f"tensor {number}", self._storage(natural("storage", described["storage"])),
                described["offset"], described["sizes"], described["strides"],
                _DTYPES[described["dtype"]], described.get("requires_grad", False),
            )  # fmt: skip
        return found

    def _storage(self, number: int) -> Storage:
        found = self._storages.get(number)
        if found is None:
            described = self._header["storages"][number]
            nbytes, saved_on = natural("nbytes", described["nbytes"]), described["device"]
            if saved_on == "meta":
                found = allocate_storage(nbytes, META)
            else:
                entry = self._archive.getinfo(f"storages/{number}")
                found = self._places.put(self._places.read(self._archive, entry, nbytes), saved_on)
            self._storages[number] = found
        return found
