"""The families' source texts, and the loaded function of each (family, entry, defines, device).

A family's text is its `.cu` file, in which our `.cuh` files are inlined with `#line` marks, so that
compiler messages refer to the original files. Headers that bodies of several families include name
their entries `FAMILY_<layout>`, where FAMILY stands for the name of the `.cu` file. The part before
BODY does not depend on -D. The emulator therefore repeats only the part after BODY for each
variant. The runtime compiles, caches and loads.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from ... import runtime
from . import variants

BODY = "// ---- body ----"
_INCLUDE = re.compile(r'#include "([\w/]+\.cuh)"')

Key = tuple[str, str, int, tuple[tuple[str, str], ...]]
_functions: dict[Key, Any] = {}
_images: dict[tuple[Any, ...], bytes] = {}
_composed: dict[str, str] = {}


def text(family: str) -> str:
    """Return the family's whole text: its file with the includes inlined. A header that is included
    before BODY is inlined once. A header that is included after BODY is inlined at each include."""
    return _composed.get(family) or _of_file(family)


@cache
def _of_file(family: str) -> str:
    return _text(family, _Inliner().lines(f"{family}.cu"))


def composed(families: Sequence[str], functor: str, file: str = "chain.cu") -> str:
    """Return the text of a chain: the parts before BODY of the families' files and of `file`,
    followed by the functor and the part of `file` from BODY on."""
    inliner = _Inliner()
    heads = [inliner.lines(f"{family}.cu", whole=False) for family in families]
    rest = inliner.lines(file)
    at = rest.index(BODY)
    mark = f'#line {at_line(rest, at)} "{file}"'
    parts = [*[line for head in heads for line in head], *rest[:at], '#line 1 "chain"',
             *functor.splitlines(), mark, *rest[at:]]  # fmt: skip
    return _text(file.removesuffix(".cu"), parts)


def _text(family: str, lines: Sequence[str]) -> str:
    return "\n".join(lines).replace("FAMILY_", f"{family}_") + "\n"


def at_line(lines: list[str], at: int) -> int:
    """Return the line number of `lines[at]` in the file from which it comes, according to the last
    `#line` mark before it."""
    last = max(k for k in range(at) if lines[k].startswith("#line"))
    return int(lines[last].split()[1]) + at - last - 1


def keep(text: str) -> str:
    """Register a composed text, so that `function` finds it. Return its name; equal texts have
    equal names."""
    name = f"chain_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    _composed[name] = text
    return name


class _Inliner:
    """A reader of source files that inlines their includes; see `text`."""

    def __init__(self) -> None:
        self.folder = resources.files(__package__)
        self.seen: set[str] = set()
        self.in_body = False

    def lines(self, name: str, whole: bool = True) -> list[str]:
        path = self.folder / name if name.endswith(".cu") else self.folder / "include" / name
        lines = [f'#line 1 "{name}"']
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            included = _INCLUDE.match(line)
            if included is None:
                if line == BODY and not whole:
                    break
                lines.append(line)
                self.in_body = self.in_body or line == BODY
                continue
            if self.in_body or included[1] not in self.seen:
                self.seen.add(included[1])
                lines += self.lines(included[1])
            lines.append(f'#line {number + 1} "{name}"')
        return lines


def function(family: str, entry: str, defines: variants.Defines, device_index: int) -> Any:
    """Return the runtime's Function of this variant on this device. It is compiled and loaded on
    first use."""
    key = (family, entry, device_index, tuple(defines.items()))
    found = _functions.get(key)
    if found is None:
        found = _functions[key] = _load(family, entry, defines, device_index)
    return found


def _load(family: str, entry: str, defines: variants.Defines, device_index: int) -> Any:
    cuda = runtime.cuda()
    arch = cuda.arch(device_index)
    if cuda.is_emulated:
        group = variants.group_of(family, defines)
        image = _image(cuda, family, group, arch)
        return cuda.load(image, entry, device_index, group.index(defines))
    return cuda.load(_image(cuda, family, (defines,), arch), entry, device_index)


def _image(cuda: Any, family: str, group: tuple[variants.Defines, ...], arch: str) -> bytes:
    key = (cuda.name, arch, family, *[tuple(v.items()) for v in group])
    image = _images.get(key)
    if image is None:
        image = _images[key] = cuda.compile(text(family), group, arch)
    return image


def clear() -> None:
    """Drop all functions and compiled images. Tests call this when they change the runtime."""
    _functions.clear()
    _images.clear()
