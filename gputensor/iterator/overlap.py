"""Memory overlap: checks that an output may be written while inputs are read.

Checks that need only a geometry are made in the plan. Checks that need addresses are made at each
call. Addresses are compared, not Storage objects: `.data`, and memory that was imported twice, have
separate storages. This module reads only slots of tensors.
Source: ATen/MemoryOverlap.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import errors

NO, YES, TOO_HARD = range(3)
FULL, PARTIAL = 3, 4

# The maximum number of candidate solutions in NumPy's search for a byte that two layouts with gaps
# share.
# The search takes any limit, but NumPy's type stubs allow only 0 and -1.
_MAX_WORK: Any = 1000
# This number is added to offsets that NumPy receives as addresses, because NumPy treats address 0
# as no memory.
_BASE = 1 << 12


def internal_overlap(geometry: Any) -> int:
    """Return NO if every element has its own memory, YES if some elements share memory, TOO_HARD if
    this is not determined."""
    if geometry.is_non_overlapping_and_dense:
        return NO
    for size, stride in zip(geometry.sizes, geometry.strides):
        if stride == 0 and size > 1:
            return YES
    return TOO_HARD


def pair_overlap(a: Any, a_begin: int, b: Any, b_begin: int) -> int:
    """Return the overlap of two geometries that begin at the given byte offsets of the same memory.

    The result is NO, FULL (equal elements at equal places), PARTIAL, or TOO_HARD if either geometry
    has gaps. Dimensions of size 1 are ignored.
    """
    if a.numel == 0 or b.numel == 0:
        return NO
    a_end = a_begin + a.extent * a.dtype.itemsize
    b_end = b_begin + b.extent * b.dtype.itemsize
    if a_begin >= b_end or b_begin >= a_end:
        return NO
    if not (a.is_non_overlapping_and_dense and b.is_non_overlapping_and_dense):
        return TOO_HARD
    if a_begin == b_begin and a_end == b_end and _walk(a) == _walk(b):
        return FULL
    return PARTIAL


def _walk(geometry: Any) -> list[tuple[int, int]]:
    return [(n, s) for n, s in zip(geometry.sizes, geometry.strides) if n != 1]


def relation(out: Any, x: Any, shape: Any = None) -> int:
    """Return the overlap of the tensors `out` and `x`: see `pair_overlap`.

    shape: the geometry that `out` will have; by default its present one.
    """
    shape = shape or out._geometry
    begins = _begins(out, x, shape)
    return NO if begins is None else pair_overlap(shape, begins[0], x._geometry, begins[1])


def _begins(a: Any, b: Any, shape: Any) -> tuple[int, int] | None:
    """Return the positions of the first bytes of tensors `a` and `b`, in the memory that they may
    share. Return None if they share no memory.

    If `a` with geometry `shape` needs more memory than its storage has, the storage is reallocated
    and all of its tensors move with it.
    """
    first, second = a._storage, b._storage
    if first is not None and first.is_twin(second):
        return a._offset * a._geometry.dtype.itemsize, b._offset * b._geometry.dtype.itemsize
    # Different storages share bytes only if the memory of one was exported, and other code made the
    # other storage over this memory.
    if first is None or second is None or not (first.is_exposed and second.is_exposed):
        return None
    if not (first.may_alias or second.may_alias):
        return None
    if a._device is not b._device or a._device.type == "meta":
        return None
    begin = a._offset * a._geometry.dtype.itemsize
    if begin + shape.extent * shape.dtype.itemsize > a._get_storage()._nbytes:
        return None
    other = b._offset * b._geometry.dtype.itemsize
    return a._get_storage().ptr + begin, b._get_storage().ptr + other


def check(op: str, out: Any, x: Any, arg: str = "other", shape: Any = None) -> None:
    """Raise if tensor `out` partially overlaps an input. Full overlap, as in an in-place call, is
    allowed."""
    if relation(out, x, shape) == PARTIAL:
        raise errors.partial_overlap(op, arg)


def check_apart(op: str, out: Any, x: Any, arg: str, shape: Any = None) -> None:
    """Raise if tensor `out` shares memory with an input that is read after `out` is written."""
    if out is not x:
        kind = relation(out, x, shape)
        if kind == NO or kind == TOO_HARD and not _share_bytes(out, x, shape):
            return
    raise errors.must(op, "out", f"not share memory with '{arg}'", out)


def check_out(op: str, out: Any, shape: Any = None, **read: Any) -> None:
    """Raise if elements of `out` share memory, or if `out` shares memory with one of the inputs
    `read`. shape: the geometry that `out` will have; by default its current geometry.

    read: the inputs, by argument name.
    """
    check_itself(op, out)
    for arg, x in read.items():
        check_apart(op, out, x, arg, shape)


def check_itself(op: str, out: Any, arg: str = "out") -> None:
    """Raise if elements of `out` share memory."""
    if internal_overlap(out._geometry) == YES:
        raise errors.internal_overlap(op, arg, (out._geometry, out._device))


def _share_bytes(out: Any, x: Any, shape: Any) -> bool:
    """Return True if two layouts with gaps share a byte, or if the search takes too long."""
    shape = shape or out._geometry
    begins = _begins(out, x, shape)
    assert begins is not None
    a, b = _Bytes(shape, begins[0]), _Bytes(x._geometry, begins[1])
    try:
        return bool(np.shares_memory(np.asarray(a), np.asarray(b), max_work=_MAX_WORK))
    except np.exceptions.TooHardError:
        return True


class _Bytes:
    """A layout at an address, as an array interface for NumPy's overlap check. Its memory is never
    read."""

    def __init__(self, geometry: Any, begin: int) -> None:
        self.__array_interface__ = {
            "data": (_BASE + begin, True), "shape": geometry.sizes,
            "strides": geometry.stride_bytes,
            "typestr": f"|V{geometry.dtype.itemsize}", "version": 3,
        }  # fmt: skip
