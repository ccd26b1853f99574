"""Trust in files on disk: the process loads only files of this user or of root.

Note [Trust]: a compiled kernel is code, and the hash in its footer is not a signature. So a file is
trusted only if this user or root owns it, if only they may write to it, and if its folder fulfils
the same conditions. Other users may read the folders above, but may not change them; otherwise they
could replace a folder between the check and the load. Under these conditions, the file that is
loaded is the file that was checked.
"""

from __future__ import annotations

import os
import stat
from typing import Any

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def opened(path: str) -> int:
    """Open a regular file that no other user can have written, and return its descriptor. Raises:
    OSError for other files."""
    # With O_NONBLOCK, opening a pipe does not wait.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and not wrong(status):
        return descriptor
    os.close(descriptor)
    raise PermissionError(f"{path} may be another user's work")


def wrong(status: os.stat_result) -> str:
    """Return the reason why other users may have changed a file with this status; "" if they cannot
    have changed it."""
    if status.st_uid not in (0, os.geteuid()):
        return f"is owned by user {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE:
        return f"may be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return ""


def wrong_folder(folder: str) -> str:
    """Return a clause with the reason why other users may have written files into a folder; "" if
    they cannot have written any.

    folder: a path without symbolic links. If it does not exist, its parent folders are checked.
    """
    status, above = _status(folder), os.path.dirname(folder)
    reason = "" if status is None else wrong(status)
    if reason:
        return f"{folder} {reason}"
    while above != folder:
        folder, above = above, os.path.dirname(above)
        status = _status(folder)
        reason = "" if status is None else wrong(status)
        if reason and not _is_kept(status):
            return f"{folder} {reason}"
    return ""


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _is_kept(status: Any) -> bool:
    """Return True if other users cannot rename the entries of a folder."""
    if status.st_uid not in (0, os.geteuid()):
        # In a container that does not map root's user number, another user owns the system's files.
        return status.st_uid == os.stat("/").st_uid and not status.st_mode & _OTHERS_WRITE
    if status.st_mode & stat.S_ISVTX:  # The sticky bit is set, as for /tmp.
        return True
    return not status.st_mode & stat.S_IWOTH and _is_only_ours(status.st_gid)


def _is_only_ours(gid: int) -> bool:
    """Return True if a group is this user's private group. Many systems create such groups."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}
