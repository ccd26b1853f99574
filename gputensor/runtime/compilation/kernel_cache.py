"""Cache of compiled kernels on disk: cubins and the emulator's shared objects, keyed by content.

The key is a hash of all inputs of the compiler: the text with its headers inlined, the defines, the
architecture, the compiler's version and the options. The directory is `GPUTENSOR_CACHE_DIR`, by
default `$XDG_CACHE_HOME/gputensor` or `~/.cache/gputensor`. A footer contains the file's hash. An
entry is built again if its file is damaged or if others may have written it (trust.py). If the
directory cannot be written or trusted, entries are kept in a directory of this process, after one
warning.

Note [Cache file]: a file consists of the payload, the label (UTF-8), the length of the label (4
bytes), the sha256 of all preceding bytes, and b"gputnsr1". The footer is last because ELF loaders
ignore bytes after the end.

Note [Cache bounds]: a file's modification time is its last use. Files that were not used for
`GPUTENSOR_CACHE_MAX_DAYS` (90) are removed first, then the oldest files until the cache fits into
`GPUTENSOR_CACHE_MAX_MIB` (1024). Files that were used in the last hour stay, so that no file is
removed between its lookup and its load. A process that has loaded a file no longer needs it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gputensor.core import errors

from .. import files, trust

_MAGIC = b"gputnsr1"
_SUFFIXES = (".cubin", ".so")

_lock = threading.Lock()
_building: dict[str, threading.Lock] = {}
_known: dict[str, tuple[bytes, str]] = {}
_is_alone = False  # If True, entries are private to this process.
_writes = 0


def key(*parts: object) -> str:
    """Return the key for these inputs of a compiler."""
    h = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


def directory() -> str:
    """Return the directory of the entries, which need not exist."""
    given = os.environ.get("GPUTENSOR_CACHE_DIR")
    if given:
        return os.path.realpath(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.realpath(os.path.join(base, "gputensor"))


def fetch(name: str, suffix: str, build: Callable[[], bytes], label: str = "") -> tuple[bytes, str]:
    """Return the payload of an entry, and the path of a file that begins with the payload. If the
    entry is missing, build it."""
    known = _known.get(name)
    if known is not None:
        return known
    with _lock:
        building = _building.setdefault(name, threading.Lock())
    with building:
        known = _known.get(name)
        if known is None:
            known = _known[name] = _read_or_build(name, suffix, build, label)
    return known


def _read_or_build(
    name: str, suffix: str, build: Callable[[], bytes], label: str
) -> tuple[bytes, str]:
    for place in (directory(), files.own_folder()) if _is_alone else (directory(),):
        if not trust.wrong_folder(place):
            path = os.path.join(place, name + suffix)
            whole = use(path)
            if whole is not None:
                return whole[0], path
    payload = build()
    return payload, _write(name + suffix, payload, label)


def use(path: str) -> tuple[bytes, str] | None:
    """Return (payload, label) of a file, and set the file's modification time to the current time.
    Return None if the file is damaged or if other users may have written it."""
    try:
        descriptor = trust.opened(path)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        whole = _parsed(file.read())
        if whole is not None:
            # The file may belong to root, or its file system may be read-only.
            with contextlib.suppress(OSError):
                os.utime(descriptor)
    return whole


def read(path: str) -> bytes | None:
    """Return the payload of a file; None if the file does not exist or is damaged."""
    whole = read_whole(path)
    return None if whole is None else whole[0]


def read_whole(path: str) -> tuple[bytes, str] | None:
    """Return (payload, label) of a file; None if the file does not exist or is damaged."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    return _parsed(data)


def _parsed(data: bytes) -> tuple[bytes, str] | None:
    body, digest, magic = data[:-40], data[-40:-8], data[-8:]
    if magic != _MAGIC or len(body) < 4 or hashlib.sha256(body).digest() != digest:
        return None
    label_length = int.from_bytes(body[-4:], "little")
    cut = len(body) - 4 - label_length
    try:
        return None if cut < 0 else (body[:cut], body[cut:-4].decode())
    except UnicodeDecodeError:
        return None


def _write(file_name: str, payload: bytes, label: str) -> str:
    global _is_alone, _writes
    if not _is_alone:
        place = directory()
        reason = trust.wrong_folder(place)
        try:
            if not reason:
                path = write_in(place, file_name, payload, label, is_shared=_is_named())
                _writes += 1
                if _writes % _WRITES_BETWEEN_TRIMS == 1:
                    trim()
                return path
        except OSError as error:
            reason = f"{place} cannot be written ({error.strerror})"
        # Set the flag before the warning. Then only the first kernel fails if warnings are errors.
        _is_alone = True
        warnings.warn(errors.no_kernel_cache(reason), RuntimeWarning, stacklevel=2)
    return write_in(files.own_folder(), file_name, payload, label, is_shared=False)


def _is_named() -> bool:
    """Return True if the user chose the directory. Other users may then read its files if the umask
    allows it, so that root can fill the cache of an image that another user runs. The default
    directory is private."""
    return bool(os.environ.get("GPUTENSOR_CACHE_DIR"))


def write_in(
    place: str, file_name: str, payload: bytes, label: str, *, is_shared: bool = True
) -> str:
    """Write an entry (Note [Cache file]) and return its path. Raises: OSError.

    is_shared: other users may read the entry if the umask allows it. They may never write to it.
    """
    text = label.encode()
    body = payload + text + len(text).to_bytes(4, "little")
    path = os.path.join(place, file_name)
    _make(place, 0o755 if is_shared else 0o700)
    data = body + hashlib.sha256(body).digest() + _MAGIC
    files.place(path, data, 0o644 if is_shared else 0o600)
    return path


def _make(folder: str, mode: int) -> None:
    """Make a folder and its parents. Other users get no write access to new folders, even if the
    umask would allow it."""
    if not os.path.isdir(folder):
        _make(os.path.dirname(os.path.abspath(folder)), mode)
        with contextlib.suppress(FileExistsError):  # Another process may have made the folder.
            os.mkdir(folder, mode)


def restore(path: str, payload: bytes) -> None:
    """Write an entry to the cache again after another process has removed it."""
    write_in(os.path.dirname(path), os.path.basename(path), payload, "restored", is_shared=False)


# --- bounds -------------------------------------------------------------------------------------

_WRITES_BETWEEN_TRIMS = 64


def bounds() -> tuple[float, float]:
    """Return the limits of the cache: days since the last use, and MiB. See Note [Cache bounds]."""
    return _setting("GPUTENSOR_CACHE_MAX_DAYS", 90), _setting("GPUTENSOR_CACHE_MAX_MIB", 1024)


def _setting(name: str, default: float) -> float:
    given = os.environ.get(name)
    try:
        value = default if not given else float(given)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise errors.wrong_setting(name, "be a number of 0 or more", given or "")
    return value


def trim() -> int:
    """Remove files until the cache directory is within its bounds. Return the number of removed
    files."""
    place, now = directory(), time.time()
    days, mib = bounds()
    found = []
    for path in _paths(place):
        with contextlib.suppress(FileNotFoundError):  # Another process may be trimming too.
            status = os.lstat(path)
            found.append((status.st_mtime, status.st_size, path))
    found.sort(reverse=True)
    left, count = mib * (1 << 20), files.sweep(place)
    for used, nbytes, path in found:
        left -= nbytes
        if now - used > files.STALE_S and (left < 0 or now - used > days * 86400):
            with contextlib.suppress(OSError):  # The file has been removed, or root owns it.
                os.unlink(path)
                count += 1
    return count


def _paths(place: str) -> list[str]:
    """Return the paths of all entries in a directory, complete or not, sorted by name."""
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    return [os.path.join(place, name) for name in names if name.endswith(_SUFFIXES)]


def stored() -> tuple[int, int]:
    """Return the number of files in the cache directory and their bytes. No file is read."""
    count = nbytes = 0
    for path in _paths(directory()):
        with contextlib.suppress(FileNotFoundError):  # Another process may trim or clear the cache.
            nbytes += os.stat(path).st_size
            count += 1
    return count, nbytes


class Entry(NamedTuple):
    """One file of the cache, as shown by `gputensor cache list`. age: the time since the last
    use."""

    path: str
    label: str
    nbytes: int
    age_s: float


def entries() -> Iterator[Entry]:
    """Yield the complete entries in the cache directory, sorted by name."""
    for path in _paths(directory()):
        whole = read_whole(path)
        try:
            status = os.stat(path)
        except FileNotFoundError:  # Another process may trim or clear the cache.
            continue
        if whole is not None:
            yield Entry(path, whole[1], status.st_size, time.time() - status.st_mtime)


def clear() -> int:
    """Remove all entries and the leftovers of killed writers. Return the number of removed
    files."""
    place = directory()
    count = files.sweep(place)
    for path in _paths(place):
        with contextlib.suppress(FileNotFoundError):  # Another process may clear the cache too.
            os.unlink(path)
            count += 1
    _known.clear()
    return count
