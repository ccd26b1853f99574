"""Broadcasting: the common sizes of operands, and an operand's strides over these sizes."""

from __future__ import annotations

from typing import Any

from ..core import errors
from ..core.geometry import Sizes


def broadcast_sizes(a: Sizes, b: Sizes) -> Sizes | None:
    """Return the broadcast sizes of `a` and `b`, or None if they do not broadcast."""
    if a == b:
        return a
    if len(a) < len(b):
        a, b = b, a
    offset = len(a) - len(b)
    sizes = list(a)
    for i, size in enumerate(b, offset):
        if sizes[i] == 1:
            sizes[i] = size
        elif size != 1 and size != sizes[i]:
            return None
    return tuple(sizes)


def common_sizes(op: str, config: Any, outputs: tuple[Any, ...], inputs: tuple[Any, ...]) -> Sizes:
    """Return the broadcast sizes of all tensors; () without tensors.

    outputs: outputs that cannot be resized, to which inputs are broadcast.
    Raises: ShapeError naming the first two arguments that do not broadcast with each other.
    """
    sizes: Sizes | None = None
    for x in (*outputs, *inputs):
        if type(x) is tuple and sizes != (own := x[0].sizes):
            sizes = own if sizes is None else broadcast_sizes(sizes, own)
            if sizes is None:
                raise _mismatch(op, config, outputs, inputs)
    return sizes or ()


def _mismatch(
    op: str, config: Any, outputs: tuple[Any, ...], inputs: tuple[Any, ...]
) -> errors.ShapeError:
    named = [("self", x) for x in outputs]
    named += [(config.input_name(i), x) for i, x in enumerate(inputs)]
    tensors = [(name, x) for name, x in named if type(x) is tuple]
    for j, (b_name, b) in enumerate(tensors):
        for a_name, a in tensors[:j]:
            if broadcast_sizes(a[0].sizes, b[0].sizes) is None:
                dim = differing_dim(a[0].sizes, b[0].sizes)
                return errors.operands_do_not_broadcast(op, a, a_name, b, b_name, dim)
    raise AssertionError(tensors)


def differing_dim(a: Sizes, b: Sizes) -> int:
    """Return the last dimension at which two shapes do not broadcast, as an index into the longer
    shape."""
    longer = max(len(a), len(b))
    for back in range(1, min(len(a), len(b)) + 1):
        if a[-back] != b[-back] and 1 not in (a[-back], b[-back]):
            return longer - back
    raise AssertionError((a, b))


def strides_over(sizes: Sizes, strides: Sizes, shape: Sizes) -> Sizes:
    """Return an operand's strides over `shape`: 0 in missing and repeated dimensions."""
    if sizes == shape:
        return strides
    offset = len(shape) - len(sizes)
    seen = [0] * len(shape)
    for i, size in enumerate(sizes):
        if size != 1 or shape[offset + i] == 1:
            seen[offset + i] = strides[i]
    return tuple(seen)
