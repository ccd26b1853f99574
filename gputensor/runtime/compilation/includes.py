"""The files that a text may include, which are part of the cache key of a compiled kernel.

The names of included files are found by a search for `#include`, without a preprocessor. A header
after a false `#if` counts too, which can cause an unneeded build but never a stale kernel. Nothing
is compiled.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from ..emulator import nvrtc_options

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_NAMED = re.compile(
    r"(?:^[ \t]*#[ \t]*(?:include|include_next|import)|\b__has_include(?:_next)?\s*\()"
    r'[ \t]*(?:<([^>\n]+)>|"([^"\n]+)"|(\w+))',
    re.MULTILINE,
)
_FORCED = ("-include", "--pre-include", "-pre-include")

# Maps a path to (time and size), the digest, and the names that the file includes.
_seen: dict[str, tuple[tuple[int, int], str, tuple[str, ...]]] = {}


def digest(texts: Iterable[str], options: Sequence[str] = (), folders: Sequence[str] = ()) -> str:
    """Return a hash of all files that the texts may include, directly or indirectly.

    options: the compiler's options, of which only those with folders or files are used. folders:
    searched after the folders in the options. An included file is searched beside the including
    file (for a text: in the current folder), then in the folders.
    """
    named, forced = _named(options)
    places = [*named, *folders]
    waiting = [(os.curdir, name) for text in texts for name in _names(text)]
    waiting += [(os.curdir, f'"{name}') for name in forced]
    done: set[tuple[str, str]] = set()
    found: set[tuple[str, str]] = set()
    while waiting:
        beside, name = step = waiting.pop()
        if step in done:
            continue
        done.add(step)
        # Only the compiler can expand the macro, so the macro may name any header.
        if name[0] not in '<"':
            found.update(entry for place in places for entry in _all_in(place, math.inf))
            # Subfolders are not searched, because `beside` may be a home folder with many files.
            found.update(_all_in(beside, 0))
            continue
        for path in _paths(name, beside, places):
            content, inner = _read(path)
            found.add((name, content))
            waiting += [(os.path.dirname(path), other) for other in inner]
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


def _named(options: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the folders in the options, and the files that the options include before the text."""
    asked = nvrtc_options.parse(options)
    words = iter(asked.others)
    forced = []
    for word in words:
        spelt, is_joined, name = word.strip().partition("=")
        if spelt in _FORCED:
            forced.append((name if is_joined else next(words, "")).strip())
    return asked.folders, forced


def _names(text: str) -> tuple[str, ...]:
    """Return the names that the text includes, in the forms `<a`, `"b` and `MACRO`. Names in
    comments count too."""
    joined = text.replace("\\\n", "")
    if "include" not in joined and "import" not in joined:
        return ()
    found = [m for seen in (joined, _COMMENT.sub(" ", joined)) for m in _NAMED.finditer(seen)]
    named = [f"<{m[1]}" if m[1] else f'"{m[2]}' if m[2] else m[3] for m in found]
    return tuple(dict.fromkeys(named))


def _paths(name: str, beside: str, folders: Sequence[str]) -> Iterator[str]:
    """Yield all files that the name can mean. The compiler selects one of them, depending on the
    including file."""
    for place in (*([beside] if name[0] == '"' else ()), *folders):
        path = os.path.join(place, name[1:])
        if os.path.isfile(path):
            yield path


def _read(path: str) -> tuple[str, tuple[str, ...]]:
    status = os.stat(path)
    stamp = (status.st_mtime_ns, status.st_size)
    known = _seen.get(path)
    if known is None or known[0] != stamp:
        with open(path, "rb") as file:
            data = file.read()
        inner = _names(data.decode("utf-8", "replace"))
        known = _seen[path] = (stamp, hashlib.sha256(data).hexdigest(), inner)
    return known[1:]


def _all_in(folder: str, depth: float) -> Iterator[tuple[str, str]]:
    """Yield the name, and the time and size, of every file in a folder and in its subfolders, down
    to `depth` levels."""
    for place, below, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path):
                status = os.stat(path)
                yield os.path.relpath(path, folder), f"{status.st_mtime_ns} {status.st_size}"
        depth -= 1
        if depth < 0:
            below.clear()
