"""`gt.save` and `gt.load`: tensors, numbers, strings and containers in PyTorch's file formats.

`save` writes files for `torch.load(weights_only=True)`. `load` reads files of `torch.save` (the zip
format and the format before PyTorch 1.6), gputensor's first format (format1.py), and
`.safetensors`. Tensors that share a storage share it after loading. Saving a view saves its whole
storage, as in PyTorch; to save only its elements, save a `.clone()`. No code from a file is run
(unpickle.py).
"""

from __future__ import annotations

import errno
import os
import sys
from typing import IO, TYPE_CHECKING, Any

from ..core import errors, lazy
from ..core.arguments import flag
from ..core.device import device
from ..runtime import files
from ..tensor.pickling import host_bytes
from ..tensor.storage import Storage
from .allowed import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals

__all__ = [
    "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save",
]  # fmt: skip

# zipfile and the readers are imported on first use, to keep `import gputensor` fast.
if TYPE_CHECKING:
    import zipfile

# _ROOT: PyTorch's name for the folder in an archive without a name. _EPOCH: a fixed date, so that
# equal content gives equal files. _ALIGNED: storages begin at multiples of this number of bytes, so
# that they can be mapped. _PADDING: the kind of the extra field by which PyTorch pads zip entries.
# _LOCAL_HEADER: bytes before an entry's name. _ZIP64_EXTRA: further bytes for sizes above 4 GiB.
_ROOT = "archive"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_ALIGNED = 64
_PADDING = b"FB"
_LOCAL_HEADER, _ZIP64_EXTRA = 30, 20
_SAFETENSORS = ".safetensors"


# --- save ---------------------------------------------------------------------------------------


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes], pickle_module: Any = None) -> None:
    """Write tensors, numbers, strings, and lists, tuples, dicts and sets of them to a file.

    Objects of classes that `gt.serialization.add_safe_globals` allows are written as pickle writes
    them. With `pickle_module`, objects of any class are written, but `load` builds objects of
    allowed classes only.

    A named file is replaced atomically and keeps its mode; for a symbolic link, the target is
    replaced. If the name ends in .safetensors, a dict of tensors is written in that format by the
    package safetensors. requires_grad is saved. Gradients, history, hooks (with a warning) and
    subclasses other than Parameter are not saved.
    Raises: ArgumentTypeError for a value of another type, with its place in `obj`.
    """
    from .pickle_text import Writer

    to: Any = f
    if not hasattr(to, "write") and _is_safetensors(to):
        from . import safetensors_files

        safetensors_files.save(obj, _path("save", to))
        return
    writer = Writer(pickle_module is not None)
    try:
        pickled = writer.pickle(obj)
    except RecursionError:
        got = errors.Got(f"a deep {type(obj).__name__}")
        raise errors.must("save", "obj", "be nested less deeply", got) from None
    if hasattr(to, "write"):
        _write(to, pickled, writer.storages)
        return
    with files.whole(_path("save", to)) as file:
        _write(file, pickled, writer.storages)


def _path(op: str, f: Any) -> Any:
    if isinstance(f, (str, bytes, os.PathLike)):
        return os.fspath(f)
    rule = "be a path or an open binary file"
    raise errors.wrong_type(op, "f", rule, errors.Got(type(f).__name__))


def _is_safetensors(f: Any) -> bool:
    return isinstance(f, (str, os.PathLike)) and os.fsdecode(f).endswith(_SAFETENSORS)


def _write(file: IO[bytes], pickled: bytes, storages: list[Storage]) -> None:
    import zipfile

    from .unpickle import MOST_BYTES

    if len(pickled) > MOST_BYTES:
        got = f"{len(pickled) >> 20} MiB without its tensors' elements"
        rule = f"take at most {MOST_BYTES >> 20} MiB besides tensors"
        remedy = "turn long lists of numbers into tensors"
        raise errors.must("save", "obj", rule, errors.Got(got), remedy=remedy)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, text in (("data.pkl", pickled), ("byteorder", sys.byteorder.encode())):
            archive.writestr(zipfile.ZipInfo(f"{_ROOT}/{name}", _EPOCH), text)
        for number, storage in enumerate(storages):
            data = host_bytes(storage).data
            entry = zipfile.ZipInfo(f"{_ROOT}/data/{number}", _EPOCH)
            entry.file_size = len(data)
            entry.extra = _padding(archive, entry)
            with archive.open(entry, "w", force_zip64=True) as to:
                to.write(data)
        archive.writestr(zipfile.ZipInfo(f"{_ROOT}/version", _EPOCH), b"3\n")


def _padding(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return an extra field of the zip entry that aligns the entry's data."""
    assert archive.fp is not None  # zipfile sets `fp` to None only when the archive is closed
    before = archive.fp.tell() + _LOCAL_HEADER + len(entry.filename) + _ZIP64_EXTRA + 4
    count = -before % _ALIGNED
    return _PADDING + count.to_bytes(2, "little") + bytes(count)


# --- load ---------------------------------------------------------------------------------------


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: str | device | dict[str, str] | Any = None,
    pickle_module: None = None, *, weights_only: bool = True, mmap: bool | None = None,
) -> Any:  # fmt: skip
    """Read a file of `save`, `torch.save` or safetensors. No code from the file runs.

    map_location: a device for all tensors, a dict from saved device names to others, or a function
    of (storage on the CPU, saved device name) that returns a storage or None. None loads each
    tensor to its saved device. mmap: map CPU storages from the file, whose pages are then read on
    first use; writes do not reach the file, and `f` must be a path. weights_only: accepted without
    effect.
    Raises: FileFormatError for a damaged or truncated file, for another format, or for an object
    that is not allowed. Allowed are tensors, parameters, numbers, strings, containers and the names
    given to `add_safe_globals`.
    """
    flag("load", "weights_only", weights_only)
    if pickle_module is not None:
        raise errors.must("load", "pickle_module", "be None: no code of a file runs", pickle_module)
    is_mapped = mmap is not None and flag("load", "mmap", mmap)
    source: Any = f
    if hasattr(source, "read"):
        if is_mapped:
            raise errors.must("load", "f", "be a path for mmap=True", errors.Got("a file"))
        return _load(source, getattr(source, "name", None), map_location, None)
    name = _path("load", source)
    if _is_safetensors(name):
        from . import safetensors_files

        return safetensors_files.load(name, map_location)
    with open(name, "rb") as file:
        return _load(
            file, os.fsdecode(name), map_location, os.fsdecode(name) if is_mapped else None
        )


def _load(file: IO[bytes], name: Any, map_location: Any, mapped: str | None) -> Any:
    import struct
    import zipfile

    from . import unpickle

    try:
        return _read(file, map_location, mapped)
    except unpickle.Refused as error:
        raise errors.refused_in_file("load", name, str(error)) from None
    except (
        zipfile.BadZipFile, struct.error, unpickle.Damaged, EOFError, LookupError, TypeError,
        ValueError, RuntimeError, AttributeError, OverflowError, OSError, AssertionError,
    ) as error:  # fmt: skip
        # pass on gputensor's own errors about devices and arguments
        if isinstance(error, errors.GpuTensorError):
            raise
        # For a forged archive, zipfile raises an OSError without a number or with EINVAL. All other
        # OSErrors come from the file system.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise errors.damaged_file("load", name, str(error) or type(error).__name__) from None


def _read(file: IO[bytes], map_location: Any, mapped: str | None) -> Any:
    import zipfile

    from . import format1, torch_files
    from .places import Places
    from .unpickle import Damaged

    places = Places(map_location)
    begin = file.tell()
    head = file.read(32)
    file.seek(begin)
    if torch_files.is_legacy(head):
        if mapped is not None:
            rule = "be in the zip format for mmap=True"
            raise errors.must("load", "f", rule, errors.Got(repr(mapped)))
        return torch_files.load_legacy(file, places)
    with zipfile.ZipFile(file) as archive:
        if format1.HEADER in archive.NameToInfo:
            return format1.load(archive, places)
        root = torch_files.root_of(archive)
        if root is None:
            raise Damaged("there is no data.pkl in it")
        return torch_files.load_zip(archive, root, places, mapped)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
