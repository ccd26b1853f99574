"""Reader of `torch.save` files: the zip format, and the format before PyTorch 1.6.

It reads tensors, parameters, NumPy arrays, numbers, strings, containers, dtypes, sizes, devices and
objects of allowed classes (allowed.py). All other names in a file raise an error.

Source: torch/serialization.py, torch/_weights_only_unpickler.py, torch/_utils.py.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ..core import dtype as dtypes, memory_format as formats
from ..core.device import META, device
from ..core.dtype import dtype
from ..core.geometry import Size
from ..tensor.storage import Storage, allocate_storage
from ..tensor.tensor import Tensor
from . import allowed, numpy_values
from .pickle_text import STORAGE_TYPES
from .places import Places, described, natural, naturals, tensor_over, with_grad
from .unpickle import MOST_BYTES, Damaged, read

if TYPE_CHECKING:
    import zipfile

MAGIC = 0x1950A86A20F9469CFC6C  # the first number in a file of the format before PyTorch 1.6
_LEGACY_PROTOCOL = 1001
_DTYPES = {d.name: d for d in dtypes.HELD}
_ELEMENTS = {f"torch {name}": _DTYPES[of] for of, name in STORAGE_TYPES.items()}
_BYTES = _DTYPES["uint8"]


class _StorageType:
    """Placeholder for one of PyTorch's storage classes. Each of these classes determines a
    dtype."""

    def __init__(self, of: dtype) -> None:
        self.dtype = of


class _Stored:
    """A storage, and the dtype that the PyTorch class of the storage determines."""

    def __init__(self, storage: Storage, of: dtype) -> None:
        self.storage, self.dtype = storage, of


# --- names allowed in a pickle --------------------------------------------------------------------


def _tensor(
    stored: Any, offset: Any, sizes: Any, strides: Any, requires_grad: Any = False,
    hooks: Any = None, of: Any = None, metadata: Any = None,
) -> Tensor:  # fmt: skip
    if type(stored) is not _Stored:
        raise Damaged("a tensor has no storage")
    element = stored.dtype if of is None else of
    made = tensor_over("a tensor", stored.storage, offset, sizes, strides, element, False)
    return with_grad("a tensor", _with_bits(made, metadata), requires_grad)


def _with_bits(x: Tensor, metadata: Any) -> Tensor:
    """Return the tensor with the bits for lazy conjugation and negation, which PyTorch pickles as
    metadata of the tensor."""
    for name in ("conj", "neg"):
        if type(metadata) is dict and metadata.get(name):
            x = getattr(x, name)()
    return x


def _tensor_v2(
    stored: Any, offset: Any, sizes: Any, strides: Any, requires_grad: Any = False,
    hooks: Any = None, metadata: Any = None,
) -> Tensor:  # fmt: skip
    return _tensor(stored, offset, sizes, strides, requires_grad, hooks, None, metadata)


def _meta_tensor(element: Any, sizes: Any, strides: Any, requires_grad: Any) -> Tensor:
    shape = described("a tensor", sizes, strides, element)
    storage = allocate_storage(shape.extent * element.itemsize, META)
    return tensor_over("a tensor", storage, 0, sizes, strides, element, requires_grad)


def _parameter(data: Any, requires_grad: Any, hooks: Any = None, state: Any = None) -> Any:
    from ..nn import Parameter

    if not isinstance(data, Tensor) or type(requires_grad) is not bool:
        raise Damaged("a parameter has no tensor")
    return Parameter(data.detach(), requires_grad)


def _from_type(rebuild: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """Return the plain tensor of a pickled tensor that has a subclass or attributes. Both are
    dropped."""
    if not callable(rebuild) or type(arguments) is not tuple:
        raise Damaged("a tensor has no storage")
    return rebuild(*arguments)


def _device(kind: Any, index: Any = None) -> device:
    if type(kind) is not str or index is not None and type(index) is not int:
        raise Damaged(f"a device is {kind!r}")
    return device(kind) if index is None else device(kind, index)


def _encode(text: Any, encoding: Any) -> bytes:
    """Restore bytes, which pickles of protocol 2 contain as text."""
    if type(text) is not str or encoding != "latin1":
        raise Damaged("its pickle has bytes that are no text")
    return text.encode("latin1")


NAMES: dict[str, Any] = {
    "collections OrderedDict": OrderedDict, "collections Counter": Counter,
    "builtins complex": complex, "builtins set": set, "builtins bytearray": bytearray,
    "__builtin__ set": set, "__builtin__ complex": complex, "_codecs encode": _encode,
    "torch._utils _rebuild_tensor": _tensor_v2, "torch._utils _rebuild_tensor_v2": _tensor_v2,
    "torch._utils _rebuild_tensor_v3": _tensor, "torch._utils _rebuild_parameter": _parameter,
    "torch._utils _rebuild_parameter_with_state": _parameter,
    "torch._utils _rebuild_meta_tensor_no_storage": _meta_tensor,
    "torch._tensor _rebuild_from_type_v2": _from_type,
    "torch.nn.parameter Parameter": _parameter, "torch Tensor": "torch.Tensor",
    "torch Size": lambda sizes=(): Size(naturals("size", sizes)), "torch device": _device,
    **{f"torch {name}": of for name, of in _DTYPES.items()},
    **{key: _StorageType(of) for key, of in _ELEMENTS.items()},
    "torch.storage UntypedStorage": _StorageType(_BYTES),
    "torch UntypedStorage": _StorageType(_BYTES),
    "torch.serialization _get_layout": {"torch.strided": None}.get,
    **numpy_values.NAMES,
    **{f"torch {name}": getattr(formats, name)
       for name in ("contiguous_format", "channels_last", "preserve_format")},
}  # fmt: skip


def _described(persistent: Any) -> tuple[dtype, str, str, int]:
    """Return (dtype, key, location, numel) of a storage's persistent id."""
    if type(persistent) is not tuple or len(persistent) not in (5, 6) or persistent[0] != "storage":
        raise Damaged("its pickle names an object that is no storage")
    if len(persistent) == 6 and persistent[5] is not None:
        raise Damaged("it has views of storages, which no PyTorch since 0.4 writes")
    kind, key, location, count = persistent[1:5]
    if type(kind) is not _StorageType or type(key) is not str or type(location) is not str:
        raise Damaged("its pickle describes a storage without class, key and location")
    return kind.dtype, key, location, natural("a storage's size", count)


# --- the zip format -------------------------------------------------------------------------------


def root_of(archive: zipfile.ZipFile) -> str | None:
    """Return the folder of the archive that contains data.pkl, which is PyTorch's pickle. Return
    None if the archive has no data.pkl."""
    found = [name for name in archive.NameToInfo if name.count("/") == 1]
    roots = [name[: -len("/data.pkl")] for name in found if name.endswith("/data.pkl")]
    return roots[0] if len(roots) == 1 else None


def load_zip(archive: zipfile.ZipFile, root: str, places: Places, mapped: str | None = None) -> Any:
    """Read a value from an archive. mapped: the file's name if the storages are to be mapped from
    the file, otherwise None."""
    entry = archive.getinfo(f"{root}/data.pkl")
    if entry.compress_type != 0 or entry.compress_size != entry.file_size:
        raise Damaged("its data.pkl is not stored as it is")
    if entry.file_size > MOST_BYTES:
        raise Damaged(f"its data.pkl has {entry.file_size} bytes")
    order = f"{root}/byteorder"
    is_turned = False
    if order in archive.NameToInfo:
        if archive.getinfo(order).file_size > 16:
            raise Damaged("its byte order is not a word")
        is_turned = archive.read(order).decode("ascii", "replace") != sys.byteorder
    reader = _Entries(archive, root, places, is_turned, mapped)
    value, _ = read(archive.read(entry), NAMES | allowed.names(), reader.stored)
    return value


class _Entries:
    """The storages of an archive. Each is read once, on first use."""

    def __init__(
        self, archive: zipfile.ZipFile, root: str, places: Places, is_turned: bool,
        mapped: str | None,
    ) -> None:  # fmt: skip
        self._archive, self._root, self._places = archive, root, places
        self._is_turned, self._mapped = is_turned, mapped
        self._found: dict[str, _Stored] = {}
        self._read = 0

    def stored(self, persistent: Any) -> _Stored:
        of, key, location, count = _described(persistent)
        found = self._found.get(key)
        if found is None:
            found = _Stored(self._storage(key, location, count * of.itemsize, of), of)
            self._found[key] = found
        return found

    def _storage(self, key: str, location: str, nbytes: int, of: dtype) -> Storage:
        entry = self._archive.getinfo(f"{self._root}/data/{key}")
        # Check the total size of the storages. Zip entries may overlap, so this size may be much
        # larger than the file.
        self._read += nbytes
        if self._read > self._archive.start_dir:
            raise Damaged("its storages have more bytes than the file")
        if self._mapped is not None and not self._is_turned:
            data = self._places.mapped(self._archive, entry, nbytes, self._mapped)
        else:
            data = self._places.read(self._archive, entry, nbytes)
        if self._is_turned:
            part = of.itemsize // (2 if of.is_complex else 1)
            data = data.view(f"V{part}").view(f"u{part}").byteswap().view(np.uint8)
        return self._places.put(data, location)


# --- the format before PyTorch 1.6 ----------------------------------------------------------------


def is_legacy(head: bytes) -> bool:
    """Return True if a file begins with a pickle of MAGIC, as in the format before PyTorch 1.6."""
    number = MAGIC.to_bytes(10, "little")
    return head[:1] == b"\x80" and number in head[:20]


def load_legacy(file: IO[bytes], places: Places) -> Any:
    """Read five consecutive pickles (the magic number, the protocol, the machine, the value and the
    storages' keys), then the size and the bytes of each storage."""
    data = file.read()
    at = 0
    head: list[Any] = []
    for _ in range(3):
        value, at = read(data, {}, _refuse, at)
        head.append(value)
    if head[0] != MAGIC or head[1] != _LEGACY_PROTOCOL or type(head[2]) is not dict:
        raise Damaged("its version is unknown")
    if head[2].get("little_endian", True) != (sys.byteorder == "little"):
        raise Damaged(f"its bytes are not in {sys.byteorder}-endian order")
    # Storages come after the value. So read the value once to find its storages, read the storages,
    # and read the value again.
    asked: dict[str, tuple[dtype, str, int]] = {}

    def ask(persistent: Any) -> _Stored:
        of, key, location, count = _described(persistent)
        asked.setdefault(key, (of, location, count))
        return _Stored(allocate_storage(count * of.itemsize, META), of)

    _, behind = read(data, _scan_names(), ask, at)
    keys, behind = read(data, {}, _refuse, behind)
    found: dict[str, _Stored] = {}
    for key in keys if type(keys) is list else ():
        if type(key) is not str or key not in asked:
            raise Damaged("it has a storage that no tensor names")
        of, location, count = asked[key]
        (stored,) = struct.unpack_from("<q", data, behind)
        nbytes = count * of.itemsize
        if stored != count or behind + 8 + nbytes > len(data):
            raise Damaged(f"storage {key} has {stored} elements instead of {count}")
        part = np.frombuffer(data, np.uint8, nbytes, behind + 8).copy()
        found[key] = _Stored(places.put(part, location), of)
        behind += 8 + nbytes
    if set(found) != set(asked):
        raise Damaged("a storage is missing")
    known = NAMES | allowed.names()
    value, _ = read(data, known, lambda persistent: found[_described(persistent)[1]], at)
    return value


def _refuse(persistent: Any) -> Any:
    raise Damaged("its pickle names an object that is no storage")


def _scan_names() -> dict[str, Any]:
    """Return the names for the first pass over a pickle. In this pass, the functions that rebuild
    tensors do nothing."""
    known = NAMES | allowed.names()
    nothing: Callable[..., Any] = lambda *_: None  # noqa: E731
    return {key: nothing if "_rebuild" in key else value for key, value in known.items()}
