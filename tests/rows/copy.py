"""Rows of copies between layouts, dtypes and devices; clone and contiguous."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import BOOL, INTEGER, STORED, complex32, from_numpy

from ..harness.compare import as_complex32
from . import Fails, Row, S, T, grid


def converted(array: np.ndarray, to: np.dtype) -> np.ndarray:
    """Cast by the project's numeric rule, element by element in Python.

    float -> integer: truncate, saturate to int64, keep the low bits; NaN is 0; to uint64, values in
    [2^63, 2^64) are exact. Source: Note [Numeric casts] in kernels/cpu/cast.py.
    """
    if to == complex32.np:
        with np.errstate(all="ignore"):
            is_complex = array.dtype.kind == "c"
            return as_complex32(array if is_complex else converted(array, np.dtype(np.float16)))
    target = from_numpy(np.dtype(to))
    with np.errstate(all="ignore"):
        if target.category == BOOL:
            return (
                array.astype(np.complex128) != 0 if array.dtype.kind == "c" else array.astype(bool)
            )
        if array.dtype.kind == "c" and to.kind != "c":
            array = array.real
        if target.category == INTEGER and array.dtype.kind not in "biu":
            flat = [_to_integer(float(x), target) for x in array.reshape(-1)]
            return np.array(flat, np.uint64).astype(to).reshape(array.shape)
        if target.itemsize == 2 and target.category > INTEGER and array.dtype.kind in "iu":
            array = array.astype(np.float32)
        if to.kind == "V" and array.dtype == np.float64:
            array = array.astype(np.float32)
        return array.astype(to)


def _to_integer(x: float, target: Any) -> int:
    if x != x:
        return 0
    if target.name == "uint64" and 2.0**63 <= x < 2.0**64:
        return int(x)
    clamped = max(-(2**63), min(2**63 - 1, int(x) if abs(x) < 2.0**64 else int(np.sign(x)) << 63))
    return clamped & (2**64 - 1)


def _copied(self: np.ndarray, src: np.ndarray, non_blocking: bool = False) -> np.ndarray:
    return np.broadcast_to(converted(src, self.dtype), self.shape)


def _same(self: np.ndarray, **options: Any) -> np.ndarray:
    return self


_IMAGE = T(2, 3, 4, 5)
_FORMATS = (gt.contiguous_format, gt.channels_last, gt.preserve_format)

ROWS = [
    Row(
        "clone",
        grid()
        + [S(_IMAGE, memory_format=f) for f in _FORMATS]
        + [S(T(2, 3), memory_format=gt.contiguous_format)],
        _same,
        errors=(
            Fails(
                S(T(2, 3), memory_format=gt.channels_last),
                errors.GpuTensorError,
                "must have 4 dimensions|4",
            ),
        ),
    ),
    Row(
        "contiguous",
        grid() + [S(_IMAGE, memory_format=gt.channels_last)],
        _same,
        may_copy=True,
        errors=(
            Fails(
                S(T(2, 3, layout="transposed"), memory_format=gt.preserve_format),
                errors.ArgumentError,
                "contiguous: 'memory_format' must name an order of dimensions",
            ),
        ),
    ),
    Row(
        "copy",
        [
            S(T(2, 3), T(3, dtype=gt.float64)),
            S(T(0, 3), T(3)),
            S(T(), T()),
            S(T(2, 3, layout="transposed"), T()),
        ],
        _copied,
        out="same",
        errors=(Fails(S(T(2, 3), T(2)), errors.ShapeError, "copy: "),),
    ),
    Row(
        "copy_",
        [S(T(4, 6, values="any"), T(4, 6, values="any", dtype=d)) for d in STORED]
        + [
            S(T(2, 3), T(3)),
            S(T(2, 3), T()),
            S(T(), T()),
            S(T(0, 3), T(3)),
            S(T(1, 3, 1), T(3, 1)),
            S(_IMAGE, T(2, 3, 4, 5, layout="channels_last")),
            S(_IMAGE, T(3, 1, 5), True),
        ],
        _copied,
        refuses_expanded=True,
        errors=(
            Fails(S(T(2, 3), T(2)), errors.ShapeError, "copy_: "),
            Fails(S(T(2), 1.0), TypeError, "copy_: 'src' must be a Tensor"),
            Fails(
                S(T(2, 3, layout="expanded"), T(2, 3)), errors.ArgumentError, "copy_: 'self' must"
            ),
        ),
    ),
    Row("_copy_from", [], needs_backend=True),
    Row("_copy_from_and_resize", [], needs_backend=True),
    Row("resolve_conj", grid(), lambda self: self),
    Row("resolve_neg", grid(), lambda self: self),
]
