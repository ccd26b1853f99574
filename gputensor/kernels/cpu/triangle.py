"""Copy x on one side of a diagonal, and write 0 on the other side.                 family: triangle

Shapes   matrices in the last two dimensions of x and out, of any strides.
Types    elements are copied unchanged.
"""

from __future__ import annotations

import numpy as np

from .copy import copy


def lower(x: np.ndarray, out: np.ndarray, shift: int) -> None:
    """Write the first r + shift + 1 elements of each row r, and zeros after them."""
    (rows, columns), zero = x.shape[-2:], np.zeros((), x.dtype)
    first = min(max(-shift, 0), rows)
    last = min(max(columns - shift - 1, first), rows)
    out[..., :first, :] = zero
    copy(out[..., last:, :], x[..., last:, :])
    for r in range(first, last):
        kept = r + shift + 1
        out[..., r, :kept] = x[..., r, :kept]
        out[..., r, kept:] = zero


def upper(x: np.ndarray, out: np.ndarray, shift: int) -> None:
    """Write the elements of each row r from index r + shift on, and zeros before them."""
    (rows, columns), zero = x.shape[-2:], np.zeros((), x.dtype)
    first = min(max(1 - shift, 0), rows)
    last = min(max(columns - shift, first), rows)
    copy(out[..., :first, :], x[..., :first, :])
    out[..., last:, :] = zero
    for r in range(first, last):
        out[..., r, : r + shift] = zero
        out[..., r, r + shift :] = x[..., r, r + shift :]
