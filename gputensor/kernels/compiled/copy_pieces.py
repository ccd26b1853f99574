"""dst made of pieces of others: pad, roll, cat.                                    family: pieces

`loops/copy_pieces.cpp` does it in one pass; NumPy's loops take what it hands back.
"""

from __future__ import annotations

import numpy as np

from ..cpu import copy_pieces as numpys
from ..cpu.copy_pieces import Piece
from . import library

_place = library.function("copy_pieces", "place")
_join = library.function("copy_pieces", "join")
# What a function of the library takes.
_MOST_NUMBERS, _MOST_SOURCES = 64, 31
# Bytes below which NumPy's call costs less.
_SMALL = 1 << 14


def place(dst: np.ndarray, src: np.ndarray, value: np.ndarray, pieces: list[list[Piece]]) -> None:
    """Write pieces of `src`, and `value` between them, into `dst`. pieces: of each dimension."""
    numbers: list[int] = []
    for of in pieces:
        numbers.append(len(of))
        for piece in of:
            numbers += piece
    if len(numbers) > _MOST_NUMBERS or _place(dst, src, value, *numbers):
        numpys.place(dst, src, value, pieces)


def join(dst: np.ndarray, sources: list[np.ndarray], dim: int) -> bool:
    """Write arrays one behind the other along `dim` into `dst`. Returns: False where a copy of each
    is faster; nothing is written then."""
    if dst.nbytes < _SMALL or len(sources) > _MOST_SOURCES or _join(dst, *sources, dim):
        return numpys.join(dst, sources, dim)
    return True
