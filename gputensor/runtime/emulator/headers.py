"""The emulator's C++ headers, by their names in `#include`.

`engine/` has the engine's headers, `shim/` has the headers for every kernel, and `include/` has the
headers that a user's kernel may include.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

# The header that defines `Layout` for users' kernels. cuda/text.py adds it to a kernel's headers.
_LAYOUT = "layout.cuh"


@cache
def engine() -> dict[str, str]:
    """Return the headers of the engine."""
    return dict(_texts(resources.files(__package__) / "engine"))


@cache
def shim() -> dict[str, str]:
    """Return the headers for every kernel: the shim's, and the interface of the engine."""
    found = dict(_texts(resources.files(__package__) / "shim"))
    return {**found, "engine.h": engine()["engine.h"]}


@cache
def includes() -> dict[str, str]:
    """Return the headers that a user's kernel may include."""
    return dict(_texts(resources.files(__package__) / "include"))


def is_ours(path: str) -> bool:
    """Return True for the path of one of our headers in the output of a compiler or debugger."""
    return os.path.basename(path) in _names()


@cache
def _names() -> frozenset[str]:
    return frozenset(map(os.path.basename, [*shim(), *includes(), _LAYOUT]))


def _texts(folder: Traversable, prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name = prefix + entry.name
        if entry.is_dir():
            found += _texts(entry, f"{name}/")
        elif name.endswith(".h"):
            found.append((name, entry.read_text(encoding="utf-8")))
    return found
