"""Operands in golden files: `f32(2,3)s(3,1)` is a tensor; `1`, `1.5`, `True`, `1j` are numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from gputensor.core import dtype as dt

HERE = Path(__file__).parent
DTYPES = {d.short: d for d in dt.STORED}
_LAYOUT = re.compile(r"(\w+)\(([\d,]*)\)(?:s\(([\d,]*)\))?(?:@(\d+))?")

Sizes = tuple[int, ...]


class Layout(NamedTuple):
    """A tensor in a golden file; offset in elements, None for one with a storage of its own."""

    dtype: dt.dtype
    sizes: Sizes
    strides: Sizes
    offset: int | None = None


def ints(text: str) -> Sizes:
    return tuple(int(part) for part in text.split(",") if part)


def show(element: dt.dtype, sizes: Sizes, strides: Sizes) -> str:
    return f"{element.short}({','.join(map(str, sizes))})s({','.join(map(str, strides))})"


def parse(text: str) -> Layout | complex:
    """A Layout, or the number that `text` spells.

    Strides left out are row-major; tensors with an offset share one storage.
    """
    match = _LAYOUT.fullmatch(text)
    if match is None:
        return {"True": True, "1": 1, "1.5": 1.5, "1j": 1j, "300": 300}[text]
    sizes = ints(match[2])
    strides = []
    running = 1
    for size in reversed(sizes):
        strides.insert(0, running)
        running *= max(size, 1)
    given = tuple(strides) if match[3] is None else ints(match[3])
    return Layout(DTYPES[match[1]], sizes, given, None if match[4] is None else int(match[4]))


def rows(name: str) -> list[list[str]]:
    """The lines of a golden file without comments, split at ` | `."""
    lines = (HERE / name).read_text().splitlines()
    return [line.split(" | ") for line in lines if line and not line.startswith("#")]
