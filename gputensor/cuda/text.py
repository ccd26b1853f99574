"""The text of a user's kernel: a string or a file, with the files that it includes put in place.

A compiler's messages and findings then point into those files, and the cache's key covers them.
"""

from __future__ import annotations

import os
import re
from functools import cache
from importlib import resources

from ..core import errors

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"')
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)
# What compilers know by themselves, or find on their own path.
OWN_HEADERS = ("gputensor/layout.cuh",)


class Source:
    """A kernel's text. title: the file's name in messages. path: where it lies, None for a string."""

    __slots__ = ("path", "text", "title")

    def __init__(self, text: str, title: str, path: str | None) -> None:
        self.text, self.title, self.path = text, title, path


@cache
def headers() -> dict[str, str]:
    """Our headers that a text may include, by the name it does so with."""
    folder = resources.files(__package__) / "include"
    return {name: folder.joinpath(*name.split("/")).read_text() for name in OWN_HEADERS}


def load(text_or_path: str | os.PathLike[str], entry: str) -> Source:
    """The text itself, or that of a file: a path object, or one line that ends in .cu."""
    is_path = isinstance(text_or_path, os.PathLike) or (
        "\n" not in text_or_path and text_or_path.rstrip().endswith((".cu", ".cuh"))
    )
    if not is_path:
        title = re.sub(r"\W+", "_", entry.partition("<")[0]).strip("_") + ".cu"
        return Source(f'#line 1 "{title}"\n{text_or_path}', title, None)
    path = os.path.abspath(os.fspath(text_or_path))
    try:
        lines = _inlined(path, _label(path), set())
    except OSError as error:
        raise errors.cannot_launch(
            entry, "text_or_path", "be CUDA C text or a file", f"{text_or_path}: {error.strerror}"
        ) from None
    return Source("\n".join(lines) + "\n", os.path.basename(path), path)


def _label(path: str) -> str:
    """What `#line` says: the file's name; in a debug build all of it, so that gdb finds the file."""
    return path if os.environ.get("GPUTENSOR_EMULATOR_DEBUG") == "1" else os.path.basename(path)


def _inlined(path: str, label: str, once: set[str]) -> list[str]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if _ONCE.search(text):
        if path in once:
            return []
        once.add(path)
    lines = [f'#line 1 "{label}"']
    for number, line in enumerate(text.splitlines(), 1):
        match = _INCLUDE.match(line)
        inner = match and os.path.normpath(os.path.join(os.path.dirname(path), match[1]))
        if inner and os.path.isfile(inner):
            lines += _inlined(inner, _label(inner), once)
            lines.append(f'#line {number + 1} "{label}"')
        else:  # a compiler's own header, or one that is missing: the compiler says so at its line
            lines.append("" if _ONCE.match(line) else line)
    return lines
