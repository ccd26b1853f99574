"""dst is composed of pieces of other arrays: pad, roll, cat.                        family: pieces

Shapes   any strides; dst shares no memory with its sources.
Types    the same dtype; bytes are moved.
Order    none: elements are independent.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np


class Piece(NamedTuple):
    """A run of `size` indices in one dimension of dst. Its elements are copied from src, beginning
    at index `begin`, in steps of `step` (1, 0, -1). If `begin` is negative, the run's elements get
    a constant value."""

    size: int
    begin: int
    step: int


# A tuple of pieces for each dimension of dst.
Pieces = tuple[tuple[Piece, ...], ...]


def place(dst: np.ndarray, src: np.ndarray, value: np.ndarray, pieces: Pieces) -> None:
    """Write the pieces of `src` into `dst`, and `value` into all other elements of `dst`."""
    for box in itertools.product(*[_placed(of) for of in pieces]):
        to = dst[tuple([slice(start, start + piece.size) for start, piece in box])]
        if any([piece.begin < 0 for _, piece in box]):
            to[...] = value
        else:
            to[...] = src[tuple([_source(piece) for _, piece in box])]


def _placed(pieces: tuple[Piece, ...]) -> list[tuple[int, Piece]]:
    starts = itertools.accumulate([piece.size for piece in pieces], initial=0)
    return list(zip(starts, pieces))


def _source(piece: Piece) -> slice:
    if piece.step == 0:
        return slice(piece.begin, piece.begin + 1)
    end = piece.begin + piece.step * piece.size
    return slice(piece.begin, end if end >= 0 else None, piece.step)


# Up to this number of bytes, one call of np.concatenate is faster than a copy of each part, even if
# the copies use threads.
_SMALL = 1 << 18


def join(dst: np.ndarray, sources: list[np.ndarray], dim: int) -> bool:
    """Concatenate arrays along `dim` into `dst`. If separate copies are faster, write nothing and
    return False."""
    if dst.nbytes > _SMALL:
        return False
    np.concatenate(sources, dim, dst)
    return True
