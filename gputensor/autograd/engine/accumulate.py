"""Accumulation of a leaf's gradient, by addition in place. The first gradient becomes `grad`
without a copy if nothing else refers to it.

Source: torch/csrc/autograd/functions/accumulate_grad.h, whose layout contract holds here: a
gradient has its leaf's layout, or is row-major if the leaf is not dense.
"""

from __future__ import annotations

import os
import threading
from sys import getrefcount
from typing import Any

from ..._generated import calls
from ...core.geometry import Geometry
from ...core.memory_format import contiguous_format
from ...tensor.tensor import Tensor
from ..inplace_or_view import bump_version

Grads = list[Tensor | Any]  # an item is None until its gradient has arrived

# The result of getrefcount for an object to which only one list refers. It depends on the Python
# version.
_held = [object()]
_OWNED = getrefcount(_held[0])

# A lock, because two threads may accumulate into one leaf.
_accumulating = threading.RLock()


def _reset_after_fork() -> None:
    """Replace the lock in a forked child process, because a thread that exists only in the parent
    may hold it."""
    global _accumulating
    _accumulating = threading.RLock()


os.register_at_fork(after_in_child=_reset_after_fork)


def accumulate(own: Any, shape: Geometry, create: bool, buffer: Grads) -> None:
    """Add a gradient to `own.grad`. buffer: a list that holds the engine's only reference to the
    gradient.

    shape: the leaf's geometry. create: True if the addition is recorded; in this case nothing is
    written in place.
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
            # another tensor may share the gradient's memory
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
    """True if the gradient's layout is right: the leaf's layout, or row-major if the leaf is not
    dense."""
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
