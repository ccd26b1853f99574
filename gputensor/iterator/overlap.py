"""Memory overlap: may an output be written while it, or an input, is read.

What follows from a geometry alone belongs to the plan; what needs addresses is checked per call.
Source: ATen/MemoryOverlap.cpp.
"""

from __future__ import annotations

from typing import Any

from ..core import errors

NO, YES, TOO_HARD = range(3)
FULL, PARTIAL = 3, 4


def internal_overlap(geometry: Any) -> int:
    """NO: each index has its own memory. YES: some share it. TOO_HARD: not decided, and allowed."""
    if geometry.is_non_overlapping_and_dense:
        return NO
    for size, stride in zip(geometry.sizes, geometry.strides):
        if stride == 0 and size > 1:
            return YES
    return TOO_HARD


def pair_overlap(a: Any, a_begin: int, b: Any, b_begin: int) -> int:
    """How two geometries overlap that begin at these bytes of one storage.

    NO, FULL (the same elements in the same places), PARTIAL, or TOO_HARD where either has gaps.
    """
    if a.numel == 0 or b.numel == 0:
        return NO
    if not (a.is_non_overlapping_and_dense and b.is_non_overlapping_and_dense):
        return TOO_HARD
    a_end, b_end = a_begin + a.nbytes, b_begin + b.nbytes
    if a_begin == b_begin and a_end == b_end:
        return FULL if a.strides == b.strides else PARTIAL
    return PARTIAL if a_begin < b_end and b_begin < a_end else NO


def check(
    op: str,
    out_storage: Any,
    out_offset: int,
    out: Any,
    storage: Any,
    offset: int,
    geometry: Any,
    arg: str = "other",
) -> None:
    """Raise if an output and an input share part of their memory.

    Storages are compared by identity, offsets count elements. An output that *is* the input passes.
    """
    if storage is not out_storage or storage is None:
        return
    begin, out_begin = offset * geometry.dtype.itemsize, out_offset * out.dtype.itemsize
    if pair_overlap(out, out_begin, geometry, begin) == PARTIAL:
        raise errors.partial_overlap(op, arg)
