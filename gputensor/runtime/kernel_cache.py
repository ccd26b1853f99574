"""Compiled kernels on disk: cubins and the emulator's shared objects, found again by content.

The key is a hash of everything that decides the result: the text with its headers inlined, the
defines, the architecture, the compiler's version and options. `GPUTENSOR_CACHE_DIR` says where,
else `$XDG_CACHE_HOME/gputensor`, else `~/.cache/gputensor`. A file is written under another name
and renamed, so that no process sees half of one; a footer holds its hash, so that a damaged one is
built again. Where the directory cannot be written, entries live in a directory of this process,
after one warning. Nothing is evicted: `clear()` empties the cache.

Note [Cache file]
payload, label (UTF-8), length of the label (4 bytes), sha256 of all that, b"gputnsr1". The footer
stands last since loaders of ELF files do not look behind the end.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator

_MAGIC = b"gputnsr1"
_SUFFIXES = (".cubin", ".so")

_lock = threading.Lock()
_building: dict[str, threading.Lock] = {}
_known: dict[str, tuple[bytes, str]] = {}
_own_directory: str | None = None


def key(*parts: object) -> str:
    """One name for everything that decides what a compiler returns."""
    h = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


def directory() -> str:
    """Where entries are looked for; it need not exist."""
    given = os.environ.get("GPUTENSOR_CACHE_DIR")
    if given:
        return given
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "gputensor")


def fetch(name: str, suffix: str, build: Callable[[], bytes], label: str = "") -> tuple[bytes, str]:
    """The payload of an entry and the path of a file that begins with it; built if need be."""
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
    for place in (directory(), _own_directory):
        if place is not None:
            path = os.path.join(place, name + suffix)
            payload = read(path)
            if payload is not None:
                return payload, path
    payload = build()
    return payload, _write(name + suffix, payload, label)


def read(path: str) -> bytes | None:
    """The payload of a file, or None where there is none or it is damaged."""
    whole = read_whole(path)
    return None if whole is None else whole[0]


def read_whole(path: str) -> tuple[bytes, str] | None:
    """(payload, label) of a file, or None where there is none or it is damaged."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    body, digest, magic = data[:-40], data[-40:-8], data[-8:]
    if magic != _MAGIC or len(body) < 4 or hashlib.sha256(body).digest() != digest:
        return None
    label_length = int.from_bytes(body[-4:], "little")
    cut = len(body) - 4 - label_length
    return body[:cut], body[cut:-4].decode()


def _write(file_name: str, payload: bytes, label: str) -> str:
    global _own_directory
    if _own_directory is None:
        try:
            return write_in(directory(), file_name, payload, label)
        except OSError as error:
            warnings.warn(
                f"kernels are compiled anew in every process: {directory()} cannot be written "
                f"({error.strerror}); set GPUTENSOR_CACHE_DIR",
                RuntimeWarning,
                stacklevel=2,
            )
            _own_directory = tempfile.mkdtemp(prefix="gputensor-")
            import atexit

            atexit.register(shutil.rmtree, _own_directory, ignore_errors=True)
    return write_in(_own_directory, file_name, payload, label)


def write_in(place: str, file_name: str, payload: bytes, label: str) -> str:
    """Write an entry whole (Note [Cache file]) and return its path. Raises: OSError."""
    text = label.encode()
    body = payload + text + len(text).to_bytes(4, "little")
    data = body + hashlib.sha256(body).digest() + _MAGIC
    os.makedirs(place, exist_ok=True)
    path = os.path.join(place, file_name)
    draft = os.path.join(place, f".draft-{uuid.uuid4().hex}")
    try:
        with open(draft, "xb") as file:  # by the umask: others may use what an image's build made
            file.write(data)
        os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise
    return path


class Entry:
    """One file of the cache, as `gputensor cache list` shows it."""

    __slots__ = ("age_s", "label", "nbytes", "path")

    def __init__(self, path: str, label: str, nbytes: int, age_s: float) -> None:
        self.path = path
        self.label = label
        self.nbytes = nbytes
        self.age_s = age_s


def entries() -> Iterator[Entry]:
    """The whole entries in the cache directory, by name."""
    place = directory()
    for file_name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        path = os.path.join(place, file_name)
        whole = read_whole(path) if file_name.endswith(_SUFFIXES) else None
        if whole is not None:
            status = os.stat(path)
            yield Entry(path, whole[1], status.st_size, time.time() - status.st_mtime)


def clear() -> int:
    """Remove every entry and draft from the cache directory; returns how many files went."""
    place, count = directory(), 0
    for file_name in os.listdir(place) if os.path.isdir(place) else ():
        if file_name.endswith(_SUFFIXES) or file_name.startswith(".draft-"):
            os.unlink(os.path.join(place, file_name))
            count += 1
    _known.clear()
    return count
