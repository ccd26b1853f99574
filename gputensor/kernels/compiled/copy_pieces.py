"""dst is composed of pieces of other arrays: pad, roll, cat.                        family: pieces

`loops/copy_pieces.cpp` writes dst in one pass. If it declines, NumPy's loops run.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..cpu import copy_pieces as numpys
from ..cpu.copy_pieces import Pieces
from . import library

_place = library.function("copy_pieces", "place")
_join = library.function("copy_pieces", "join")
# The library's functions accept at most _MOST_NUMBERS integers and _MOST_SOURCES source arrays.
_MOST_NUMBERS, _MOST_SOURCES = 64, 31
# For fewer bytes than this, np.concatenate is faster.
_SMALL = 1 << 14


def place(dst: np.ndarray, src: np.ndarray, value: np.ndarray, pieces: Pieces) -> None:
    """Write the pieces of `src` into `dst`, and `value` into all other elements of `dst`."""
    numbers = _numbers(pieces)
    if len(numbers) > _MOST_NUMBERS or _place(dst, src, value, *numbers):
        numpys.place(dst, src, value, pieces)


@lru_cache(maxsize=256)
def _numbers(pieces: Pieces) -> tuple[int, ...]:
    """Return the pieces of all dimensions as integers: for each dimension the number of pieces,
    followed by the fields of each piece."""
    return tuple([n for of in pieces for n in (len(of), *[x for piece in of for x in piece])])


def join(dst: np.ndarray, sources: list[np.ndarray], dim: int) -> bool:
    """Concatenate arrays along `dim` into `dst`. If separate copies are faster, write nothing and
    return False."""
    if dst.nbytes < _SMALL or len(sources) > _MOST_SOURCES or _join(dst, *sources, dim):
        return numpys.join(dst, sources, dim)
    return True
