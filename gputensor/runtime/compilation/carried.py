"""Cubins that were compiled on another machine and are loaded from a folder.

`gputensor cache warm --arch sm_90 --all --to FOLDER` fills the folder without a GPU, and
GPUTENSOR_CARRIED_CUBINS=FOLDER uses it. As in the cache (kernel_cache.py), the key consists of the
text, headers, defines, options and architecture. The version of NVRTC is not part of the key,
because the loading machine may have another version or none; the labels contain it. `used()`
returns the versions that were used, and benchmark records include them. As for the cache, a folder
to which other users may write is not used. Only `keep` writes to the folder.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cache

from gputensor.core import errors

from .. import trust
from . import kernel_cache

VARIABLE = "GPUTENSOR_CARRIED_CUBINS"
_MARK = " by NVRTC "
_used: Counter[str] = Counter()


def find(text: str, options: Sequence[str]) -> bytes | None:
    """Return the carried cubin of a text with these options, or None."""
    folder = os.environ.get(VARIABLE)
    if not folder or not _is_trusted(os.path.realpath(folder)):
        return None
    whole = kernel_cache.use(_path(os.path.realpath(folder), text, options))
    if whole is None:
        return None
    _used[whole[1].rpartition(_MARK)[2]] += 1
    return whole[0]


def _is_trusted(folder: str) -> bool:
    """Return True if only this user or root can have written the folder's files (Note [Trust]).
    Otherwise give one warning."""
    reason = _wrong(folder)
    if reason and folder not in _told:
        # Add the folder before the warning. Then only the first kernel fails if warnings are
        # errors.
        _told.add(folder)
        warnings.warn(errors.no_carried_cubins(reason), RuntimeWarning, stacklevel=2)
    return not reason


_wrong = cache(trust.wrong_folder)
_told: set[str] = set()


def keep(
    folder: str, text: str, options: Sequence[str], cubin: bytes, label: str, version: str
) -> None:
    """Put a cubin into a folder, where `find` finds it on another machine."""
    name = os.path.basename(_path(folder, text, options))
    kernel_cache.write_in(folder, name, cubin, f"{label}{_MARK}{version}")


def holds(folder: str, text: str, options: Sequence[str]) -> bool:
    """Return True if the folder has an undamaged copy of the cubin."""
    return kernel_cache.read(_path(folder, text, options)) is not None


def used() -> dict[str, int]:
    """Return the NVRTC versions of the carried cubins that this process used, and the number of
    these cubins for each version."""
    return dict(_used)


def _path(folder: str, text: str, options: Sequence[str]) -> str:
    return os.path.join(folder, kernel_cache.key("carried", text, *options) + ".cubin")
