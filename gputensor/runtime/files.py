"""Atomic file writes, folders that are private to this process, and removal of killed processes'
files.

gputensor writes all its files through `whole`.

Note [Whole files]: data is written to a temporary file, which is created exclusively in the
target's folder. When it is complete, it is renamed to the target. Readers see either the old or the
new content, even with concurrent writers. A symbolic link is followed. The target keeps its mode
and, if the system permits it, its owner. A writer holds a lock on its temporary file. An old
temporary file without a lock is therefore a leftover, and the next writer to this folder removes
it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from typing import IO

# An unlocked temporary file is a leftover if it is older than this many seconds. A writer locks its
# file at once.
STALE_S = 3600.0
_BEFORE, _BEHIND = ".gputensor-", ".tmp"
_LOCK = "gputensor.lock"

_swept: set[str] = set()
_own: tuple[int, str, int] | None = None  # The process id, the folder and the lock's descriptor.


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing. If the block succeeds, the file appears at `path`; if the block
    raises, the file is removed.

    The data is synchronised to disk when the block ends. See Note [Whole files]. Raises: OSError
    that names `path`, for example if its folder is not writable.
    """
    given = os.fsdecode(path)
    try:
        old = os.stat(given)
    except FileNotFoundError:
        old = None
    # Write directly to /dev/stdout, to pipes and to similar targets. For a folder, `open` raises.
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(given, "wb") as own:
            yield own
        return
    target = os.path.realpath(given)
    if old is not None:
        # Raises an error if the file may not be written.
        os.close(os.open(target, os.O_WRONLY | os.O_CLOEXEC))
    try:
        temporary, file = _temporary(os.path.dirname(target), 0o666 if old is None else old.st_mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, given) from None
    with _replacing(temporary, file, target):
        yield file
        if old is not None:
            _keep(file.fileno(), old)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(os.path.dirname(target))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text in UTF-8 as `Path.write_text` does. If writing fails, the old file is
    unchanged."""
    with whole(path) as file:
        file.write(text.encode())


def place(path: str, data: bytes, mode: int) -> None:
    """Write a file at `path`. If `path` is a symbolic link, the file replaces the link. Use this
    function only for data that can be rebuilt.

    mode: reduced by the umask, as in os.open. The data is not synchronised to disk. Readers must
    therefore detect, by the content, a file that a crash has damaged.
    """
    temporary, file = _temporary(os.path.dirname(path), mode)
    with _replacing(temporary, file, path):
        file.write(data)


@contextlib.contextmanager
def _replacing(temporary: str, file: IO[bytes], target: str) -> Iterator[None]:
    try:
        with file:
            yield
            file.flush()
            # Rename while the lock is held, so that no process removes the file.
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _temporary(folder: str, mode: int) -> tuple[str, IO[bytes]]:
    if folder not in _swept:
        _swept.add(folder)
        sweep(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    while True:
        path = os.path.join(folder, f"{_BEFORE}{os.urandom(8).hex()}{_BEHIND}")
        try:
            descriptor = os.open(path, flags, mode & 0o666)
        except FileExistsError:
            continue
        _lock(descriptor)
        return path, os.fdopen(descriptor, "wb")


def _keep(descriptor: int, old: os.stat_result) -> None:
    """Give a file the owner and the mode of another file, without granting new rights to anyone."""
    new, mode = os.fstat(descriptor), stat.S_IMODE(old.st_mode) & 0o777
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except OSError:
            try:
                os.fchown(descriptor, -1, old.st_gid)
            # The two files' groups differ, so the new group gets only the rights of other users.
            except OSError:
                mode = mode & 0o707 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)


def _sync_folder(folder: str) -> None:
    """Synchronise a folder to disk, if the file system supports this. The names of new files are
    then permanent."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # A folder may be writable but not readable.
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


# --- abandoned files ----------------------------------------------------------------------------


def sweep(folder: str) -> int:
    """Remove the temporary files of killed writers, and return their number."""
    return sum(_remove_if_left(path) for path in temporaries(folder))


def temporaries(folder: str) -> list[str]:
    """Return the temporary files in a folder, whether in use or left over."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = [n for n in names if n.startswith(_BEFORE) and n.endswith(_BEHIND)]
    return [os.path.join(folder, n) for n in found]


def _remove_if_left(path: str) -> bool:
    try:
        if not _is_left(path, os.lstat(path)):
            return False
        os.unlink(path)
    except OSError:
        return False
    return True


def _is_left(path: str, status: os.stat_result) -> bool:
    """Return True if a file is an old temporary file of gputensor that no process has locked."""
    if not stat.S_ISREG(status.st_mode) or time.time() - status.st_mtime < STALE_S:
        return False
    if status.st_uid != os.geteuid():
        return False
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _lock(descriptor: int) -> None:
    # If the file system does not support locks, nothing is removed.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


# --- a folder of this process -------------------------------------------------------------------


def own_folder() -> str:
    """Return a folder that only this process's user may enter. It is removed at exit. The first
    call also removes the folders of killed processes."""
    import tempfile  # A global import would add 5 ms to `import gputensor`.

    global _own
    # A forked child does not own its parent's folder.
    if _own is None or _own[0] != os.getpid():
        _sweep_folders(tempfile.gettempdir())
        folder = tempfile.mkdtemp(prefix="gputensor-")
        lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _lock(lock)
        _own = os.getpid(), folder, lock
        atexit.register(_remove_own, *_own)
    return _own[1]


def _remove_own(process: int, folder: str, lock: int) -> None:
    if process == os.getpid():
        _remove_tree(folder)


def _remove_tree(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _sweep_folders(parent: str) -> None:
    for name in os.listdir(parent):
        if name.startswith("gputensor-"):
            folder = os.path.join(parent, name)
            lock = os.path.join(folder, _LOCK)
            # The folder may belong to another user, or it may have been removed.
            with contextlib.suppress(OSError):
                status = os.lstat(folder)
                if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                    continue
                if _is_left(lock, os.lstat(lock)):
                    _remove_tree(folder)
