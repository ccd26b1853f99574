"""dst made of pieces of others: pad, roll, cat.                                    family: pieces

`loops/copy_pieces.cpp` does it in one pass; NumPy's loops take what it hands back.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..cpu import copy_pieces as numpys
from ..cpu.copy_pieces import Pieces
from . import library

_place = library.function("copy_pieces", "place")
_join = library.function("copy_pieces", "join")
# What a function of the library takes.
_MOST_NUMBERS, _MOST_SOURCES = 64, 31
# Bytes below which NumPy's call costs less.
_SMALL = 1 << 14


def place(dst: np.ndarray, src: np.ndarray, value: np.ndarray, pieces: Pieces) -> None:
    """Write pieces of `src`, and `value` between them, into `dst`."""
    numbers = _numbers(pieces)
    if len(numbers) > _MOST_NUMBERS or _place(dst, src, value, *numbers):
        numpys.place(dst, src, value, pieces)


@lru_cache(maxsize=256)
def _numbers(pieces: Pieces) -> tuple[int, ...]:
    """How many pieces a dimension has, and what they are."""
    return tuple([n for of in pieces for n in (len(of), *[x for piece in of for x in piece])])


def join(dst: np.ndarray, sources: list[np.ndarray], dim: int) -> bool:
    """Write arrays one behind the other along `dim` into `dst`. Returns: False where a copy of each
    is faster; nothing is written then."""
    if dst.nbytes < _SMALL or len(sources) > _MOST_SOURCES or _join(dst, *sources, dim):
        return numpys.join(dst, sources, dim)
    return True
