"""out = x on one side of a diagonal, and zeros on the other.                       family: triangle

`loops/triangle.cpp` goes row by row, on all threads.
"""

from __future__ import annotations

import numpy as np

from ..cpu import triangle as numpys
from . import library

_lower, _upper = (library.function("triangle", name) for name in ("lower", "upper"))


def lower(x: np.ndarray, out: np.ndarray, shift: int) -> None:
    """Keeps the first r + shift + 1 elements of row r."""
    if _lower(x, out, shift):
        numpys.lower(x, out, shift)


def upper(x: np.ndarray, out: np.ndarray, shift: int) -> None:
    """Keeps what stands from place r + shift on in row r."""
    if _upper(x, out, shift):
        numpys.upper(x, out, shift)
