"""Memory overlap: may an output be written while it, or an input, is read.

Checks that need only a geometry are made in the plan; checks that need addresses are made per call.
Memory is compared, not Storage objects, since the tensor of `.data` and memory imported twice have
separate storages. This module reads only slots of tensors.
Source: ATen/MemoryOverlap.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import errors

NO, YES, TOO_HARD = range(3)
FULL, PARTIAL = 3, 4

# The bound on NumPy's search for a shared byte of two layouts with gaps, in candidate solutions.
_MAX_WORK: Any = 1000  # NumPy's stubs know of 0 and -1 alone
# Offsets within one storage stand for addresses there; NumPy takes 0 for no memory.
_BASE = 1 << 12


def internal_overlap(geometry: Any) -> int:
    """NO: each index has its own memory. YES: some share it. TOO_HARD: not decided, and allowed."""
    if geometry.is_non_overlapping_and_dense:
        return NO
    for size, stride in zip(geometry.sizes, geometry.strides):
        if stride == 0 and size > 1:
            return YES
    return TOO_HARD


def pair_overlap(a: Any, a_begin: int, b: Any, b_begin: int) -> int:
    """The overlap of two geometries that begin at these bytes of one memory.

    NO, FULL (the same elements at the same places), PARTIAL, or TOO_HARD if either has gaps.
    Dimensions of size 1 make no difference.
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
    """The overlap of a tensor `out` with a tensor `x`, as in pair_overlap.

    shape: the future geometry of `out`; by default its present one.
    """
    shape = shape or out._geometry
    begins = _begins(out, x, shape)
    return NO if begins is None else pair_overlap(shape, begins[0], x._geometry, begins[1])


def _begins(a: Any, b: Any, shape: Any) -> tuple[int, int] | None:
    """The first bytes of two tensors in one memory; None if they share none. A tensor `a` that
    outgrows its storage with geometry `shape` is moved together with all tensors that share the
    storage."""
    first, second = a._storage, b._storage
    if first is not None and first.is_twin(second):
        return a._offset * a._geometry.dtype.itemsize, b._offset * b._geometry.dtype.itemsize
    if not (first is not None and first.may_alias or second is not None and second.may_alias):
        return None
    if a._device is not b._device or a._device.type == "meta":
        return None
    begin = a._offset * a._geometry.dtype.itemsize
    if begin + shape.extent * shape.dtype.itemsize > a._get_storage()._nbytes:
        return None
    other = b._offset * b._geometry.dtype.itemsize
    return a._get_storage().ptr + begin, b._get_storage().ptr + other


def check(op: str, out: Any, x: Any, arg: str = "other", shape: Any = None) -> None:
    """Raise if a tensor `out` shares part of its memory with an input; all, in place, passes."""
    if relation(out, x, shape) == PARTIAL:
        raise errors.partial_overlap(op, arg)


def check_apart(op: str, out: Any, x: Any, arg: str, shape: Any = None) -> None:
    """Raise if a tensor `out` shares memory with an input that is read after `out` is written."""
    if out is not x:
        kind = relation(out, x, shape)
        if kind == NO or kind == TOO_HARD and not _share_bytes(out, x, shape):
            return
    raise errors.must(op, "out", f"not share memory with '{arg}'", out)


def check_out(op: str, out: Any, shape: Any = None, **read: Any) -> None:
    """Raise unless `out`, with the geometry `shape` that it gets, may be written while `read` are.

    read: the inputs by their arguments' names.
    """
    check_itself(op, out)
    for arg, x in read.items():
        check_apart(op, out, x, arg, shape)


def check_itself(op: str, out: Any, arg: str = "out") -> None:
    """Raise if `out` holds one memory location more than once."""
    if internal_overlap(out._geometry) == YES:
        raise errors.internal_overlap(op, arg, (out._geometry, out._device))


def _share_bytes(out: Any, x: Any, shape: Any) -> bool:
    """True if two layouts with gaps share a byte, or if the search takes too long."""
    shape = shape or out._geometry
    begins = _begins(out, x, shape)
    assert begins is not None
    a, b = _Bytes(shape, begins[0]), _Bytes(x._geometry, begins[1])
    try:
        return bool(np.shares_memory(np.asarray(a), np.asarray(b), max_work=_MAX_WORK))
    except np.exceptions.TooHardError:
        return True


class _Bytes:
    """A layout at an address, for NumPy to reckon with; nothing is ever read there."""

    def __init__(self, geometry: Any, begin: int) -> None:
        self.__array_interface__ = {
            "data": (_BASE + begin, True), "shape": geometry.sizes,
            "strides": geometry.stride_bytes,
            "typestr": f"|V{geometry.dtype.itemsize}", "version": 3,
        }  # fmt: skip
