"""The text of a user's kernel, from a string or a file, with its included files inlined.

With inlined files, messages of the compiler and the emulator name the right file, and the cache key
covers all of the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from ..core import errors
from ..runtime.emulator import coverage, source

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)')
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)
# Our headers, which a text may include without naming a folder.
OWN_HEADERS = ("gputensor/layout.cuh",)


class Source(NamedTuple):
    """A kernel's text. title: the file's name in messages. path: None for a string."""

    text: str
    title: str
    path: str | None


@cache
def headers() -> dict[str, str]:
    """Return our headers that a text may include, by their names in `#include`."""
    folder = resources.files(__package__) / "include"
    return {name: folder.joinpath(*name.split("/")).read_text() for name in OWN_HEADERS}


def load(text_or_path: str | os.PathLike[str], entry: str, folders: Sequence[str] = ()) -> Source:
    """Return the Source of a text or of a file. A path object names a file, and so does a single
    line that ends in `.cu` or `.cuh`.

    folders: further folders to search for included files.
    """
    if not isinstance(entry, str):
        raise errors.wrong_type("Kernel", "entry", "be a str", entry)
    if not isinstance(text_or_path, (str, os.PathLike)):
        raise errors.wrong_type(entry, "text_or_path", "be a str or a path", text_or_path)
    places = _Places(tuple(os.path.abspath(folder) for folder in folders))
    is_path = isinstance(text_or_path, os.PathLike) or (
        "\n" not in text_or_path and text_or_path.rstrip().endswith((".cu", ".cuh"))
    )
    if not is_path:
        title = re.sub(r"\W+", "_", entry.partition("<")[0]).strip("_") + ".cu"
        lines = places.inlined(str(text_or_path), None, title)
        return Source("\n".join(lines) + "\n" * str(text_or_path).endswith("\n"), title, None)
    path = os.path.abspath(os.fspath(text_or_path))
    try:
        lines = places.inlined(_read(path), path, _label(path))
    except OSError as error:
        raise errors.cannot_launch(
            entry, "text_or_path", "be CUDA C text or a file", f"{text_or_path}: {error.strerror}"
        ) from None
    return Source("\n".join(lines) + "\n", os.path.basename(path), path)


def _label(path: str) -> str:
    """Return the name for `#line`: the file's name, or its path for gdb in a debug build."""
    return path if os.environ.get("GPUTENSOR_EMULATOR_DEBUG") == "1" else os.path.basename(path)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


class _Places:
    """The folders in which included files are searched, and the files with `#pragma once` that were
    already inlined."""

    __slots__ = ("folders", "once")

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.folders = folders
        self.once: set[str] = set()

    def inlined(self, text: str, path: str | None, label: str) -> list[str]:
        """Return a text's lines with included files inlined. path: the text's file."""
        if path is not None and _ONCE.search(text):
            if path in self.once:
                return []
            self.once.add(path)
        lines = [f'#line 1 "{label}"']
        for number, line in enumerate(text.splitlines(), 1):
            inner = self._included(line, path)
            if inner is not None:
                lines += self.inlined(_read(inner), inner, _label(inner))
                lines.append(f'#line {number + 1} "{label}"')
            # keep an include that is not found here: the compiler resolves it, or reports that the
            # file is missing
            else:
                lines.append("" if path is not None and _ONCE.match(line) else line)
        return lines

    def _included(self, line: str, path: str | None) -> str | None:
        """Return the path of the file that a line includes. Return None for other lines, for
        missing files and for headers of the compiler."""
        match = _INCLUDE.match(line)
        if match is None:
            return None
        name = match[1] or match[2]
        beside = [os.path.dirname(path)] if match[1] and path is not None else []
        is_known = name in source.KNOWN_HEADERS or coverage.named(name) is not None
        for folder in (*beside, *(() if is_known else self.folders)):
            inner = os.path.normpath(os.path.join(folder, name))
            if os.path.isfile(inner):
                return inner
        return None
