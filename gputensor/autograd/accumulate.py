"""Adds a gradient to a leaf: in place, or by taking it over where nobody else has it.

Source: torch/csrc/autograd/functions/accumulate_grad.h, whose layout contract holds here: a
gradient lies in memory as its leaf does, or row by row where the leaf is not dense.
"""

from __future__ import annotations

import os
import threading
from sys import getrefcount
from typing import Any

from .._generated import calls
from ..core.geometry import Geometry
from ..core.memory_format import contiguous_format
from ..tensor.tensor import Tensor
from .inplace_or_view import bump_version

Grads = list[Tensor | Any]  # None where none arrived

# What getrefcount says of an object that one list alone holds; Pythons differ.
_held = [object()]
_OWNED = getrefcount(_held[0])

# Two threads may accumulate into one leaf.
_accumulating = threading.RLock()


def _reset_after_fork() -> None:
    """In a forked child: another thread of the parent may have it, and is not there to let go."""
    global _accumulating
    _accumulating = threading.RLock()


os.register_at_fork(after_in_child=_reset_after_fork)


def accumulate(own: Any, shape: Geometry, create: bool, buffer: Grads) -> None:
    """Add the gradient in `buffer`, which holds the engine's only reference to it, to `own.grad`.

    shape: of the leaf. create: the addition is to be recorded, so nothing is written in place.
    """
    lock = _accumulating
    lock.acquire()
    try:
        before = own.grad
        if before is not None:
            if create:
                own.grad = calls.add_Tensor(before, buffer[0])
            else:
                calls.add__Tensor(before, buffer[0])
                bump_version(before)
        elif (
            create
            or getrefcount(buffer[0]) > _OWNED
            # another tensor looks at its memory
            or buffer[0]._storage is not None
            and getrefcount(buffer[0]._storage) > _OWNED
            or buffer[0]._geometry is not shape
            and not _fits(buffer[0], shape)
        ):
            own.grad = _copy_like(buffer[0], shape)
        else:
            own.grad = buffer[0]
    finally:
        lock.release()


def _fits(g: Tensor, shape: Geometry) -> bool:
    """True if the gradient lies as its leaf does; where the leaf is not dense, row by row."""
    if shape.is_non_overlapping_and_dense:
        return g._geometry.strides == shape.strides
    return g._geometry.is_contiguous


def _copy_like(g: Tensor, shape: Geometry) -> Tensor:
    if g._geometry.is_non_overlapping_and_dense and g._geometry.strides == shape.strides:
        return calls.clone(g)
    if shape.is_non_overlapping_and_dense:
        made = calls.empty_strided(shape.sizes, shape.strides, shape.dtype, None, g._device, None)
        return calls.copy_(made, g, False)
    return calls.clone(g, contiguous_format)
