"""Launch plans of the families gather and scatter: each thread moves one indexed element."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...core import errors
from ...core.geometry import Sizes
from . import launch, numbers, variants
from .launch import THREADS

# Maps the maximum number of dimensions of a variant to its maximum number of index tensors. The
# parameters of a launch must fit into 4 KiB.
MOST_INDICES = {variants.FEW_DIMS: 8, variants.MANY_DIMS: 3}


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind the Walk `layout`. Return callable(device_index, pointers)."""
    walks: list[Sizes] = [s or (0,) * len(layout.shape) for s in layout.stride_bytes]
    has_number = layout.stride_bytes[1] is None
    dims = launch.dims_for(op, layout.shape)
    given = len(layout.bounds)
    count = 1 if given == 1 else MOST_INDICES[dims]
    if given > count:
        rule = f"hold at most {count} index tensors on a CUDA device"
        raise errors.must(layout.op, "indices", rule, errors.Got(str(given)))
    of = layout.common_dtype
    if op in ("gather", "scatter"):
        scalar = variants.word(of)
    else:
        scalar = variants.contiguous_scalar(family, op, of)
        if op == "scatter_multiply" and of.itemsize == 16:
            raise errors.wrong_dtype(layout.op, "self", "have at most 8 bytes an element on a "
                                     "CUDA device", errors.Got(of.short))  # fmt: skip
    indices = {"INDICES": "1" if given == 1 else "8"}
    defines = variants.define(op, scalar, "STRIDED", dims) | indices
    missing = count - given
    sizes = [size for size, _ in layout.bounds] + [0] * missing
    alongs = [along for _, along in layout.bounds] + [0] * missing
    padded = [*walks, *[(0,) * len(layout.shape)] * missing]

    def one(shape: Sizes, before: int) -> Any:
        numel = launch.product(shape)
        tail = Struct(f"<{2 * count}q6I").pack(
            *sizes, *alongs, numel, len(shape), given, layout.wraps, has_number, 0
        ) + launch.pack_dims(shape, padded, dims)
        blocks = launch.blocks_for(numel, THREADS)
        entry, values, packers = f"{family}_strided", [numbers.EMPTY], []
        if has_number:
            packers = [(0, 1, numbers.stored(of))]
        elif missing:
            values = [bytes(8 * missing), *values]
        return launch.Launch(
            family, entry, defines, blocks, THREADS, 2 + given, values, packers, tail
        )  # fmt: skip

    offset_by = [walks[0], None if has_number else walks[1], *walks[2:]]
    return launch.split(layout.shape, offset_by, one)
