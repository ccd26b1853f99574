"""From (family, entry, defines, device) to a function: the text, its variants and what is loaded.

The text of a family is its `.cu` with our `.cuh` inlined under `#line` marks, so that a compiler's
messages point into the files. Everything before BODY is independent of -D; the emulator repeats
only what follows for each variant. Compiling, caching on disk and loading are the runtime's.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

from ... import runtime
from . import variants

BODY = "// ---- body ----"
_INCLUDE = re.compile(r'#include "(\w+\.cuh)"')

Key = tuple[str, str, frozenset[tuple[str, str]]]
_functions: dict[tuple[Key, int], Any] = {}
_images: dict[tuple[Any, ...], bytes] = {}


@cache
def text(family: str) -> str:
    """The family's whole text: the file, with its includes in place of their lines. A header is
    inlined once, except after BODY, where one may be repeated for each variant."""
    folder = resources.files(__package__)
    seen: set[str] = set()
    in_body = False

    def inlined(name: str) -> list[str]:
        nonlocal in_body
        path = folder / name if name.endswith(".cu") else folder / "include" / name
        lines = [f'#line 1 "{name}"']
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            included = _INCLUDE.match(line)
            if included is None:
                lines.append(line)
                in_body = in_body or line == BODY
                continue
            if in_body or included[1] not in seen:
                seen.add(included[1])
                lines += inlined(included[1])
            lines.append(f'#line {number + 1} "{name}"')
        return lines

    return "\n".join(inlined(f"{family}.cu")) + "\n"


def function(family: str, entry: str, defines: variants.Defines, device_index: int) -> Any:
    """The runtime's Function of this variant on this device, compiled and loaded on first use."""
    key = ((family, entry, frozenset(defines.items())), device_index)
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
    """Forget every function and image: for tests that change the runtime."""
    _functions.clear()
    _images.clear()
