"""Launch plans of dropout: one launch draws the mask and scales the kept elements.

An element's number depends only on the seed, the counter and the element's row-major index.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...core.geometry import Sizes
from . import launch, variants
from .random_launch import Random, drawn

_CONTIGUOUS, _STRIDED = Struct("<II").pack, Struct("<IiiI4i").pack
_PARAMS = Struct("<Qd").pack


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind dropout or dropout_backward to a layout whose dimension 0 is the fastest. For dropout,
    which draws random numbers, the layout must be in row-major order.

    Return callable(device_index, (out, mask, x), (seed, counter of the first element, limit,
    factor)). An element is kept if the upper 53 bits of its word are below `limit`.
    """
    sizes: Sizes = layout.shape or (1,)
    walks = [s or (0,) for s in layout.stride_bytes]
    of, itemsizes = layout.dtypes[0], [d.itemsize for d in layout.dtypes]
    is_dense = len(sizes) == 1 and (sizes[0] == 1 or [s[0] for s in walks] == itemsizes)
    name = "CONTIGUOUS" if is_dense else "STRIDED"

    def one(part: Sizes, before: int) -> Random:
        numel = launch.product(part)
        if is_dense:
            tail, defines = _CONTIGUOUS(numel, 0), variants.define(op, of.short, name)
        else:
            dims = launch.dims_for(op, part)
            defines = variants.define(op, of.short, name, dims)
            head = _STRIDED(numel, len(part), of.code, 0, *[d.code for d in layout.dtypes], 0)
            tail = head + launch.pack_dims(part, walks, dims)
        return drawn("dropout", defines, numel, before, 3, _PARAMS, tail)

    return launch.split(sizes, walks, one)
