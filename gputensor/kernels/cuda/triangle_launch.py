"""Launch plans of tril and triu: one launch, which copies or zeroes each element."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...core.geometry import Sizes
from . import launch, variants
from .launch import PACK_BYTES, STRIDED_UNROLL

_SHIFT, _TAIL = Struct("<q8x").pack, Struct("<IiiI4i").pack


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind tril or triu. layout.shape: columns, rows, and other dimensions. layout.shift: the
    column of the diagonal in row 0. Return callable(device_index, (out, x)); out may be x."""
    columns, rows = layout.shape[:2]
    of, walks = layout.dtypes[0], list(layout.stride_bytes)
    pack = PACK_BYTES // of.itemsize
    is_packed = pack > 1 and columns % pack == 0 and all(
        walk[0] == of.itemsize and not any(by % PACK_BYTES for by in walk[1:]) for walk in walks
    )  # fmt: skip

    def one(sizes: Sizes, before: int) -> launch.Launch:
        # A part may begin at any row and column of a matrix, which changes the column of its
        # diagonal.
        shift = layout.shift + before // columns % rows - before % columns
        in_packs = is_packed and sizes[0] % pack == 0
        steps = walks
        if in_packs:
            sizes = (sizes[0] // pack, *sizes[1:])
            steps = [(walk[0] * pack, *walk[1:]) for walk in walks]
        numel, dims = launch.product(sizes), launch.dims_for(op, sizes)
        name = "ROWS" if in_packs else "STRIDED"
        threads = launch.threads_for(numel, STRIDED_UNROLL)
        return launch.Launch(
            "triangle", f"triangle_{name.lower()}",
            variants.define(op, variants.word(of), name, dims),
            launch.blocks_for(numel, threads * STRIDED_UNROLL), threads, 2, [_SHIFT(shift)], [],
            _TAIL(numel, len(sizes), 0, 0, 0, 0, 0, 0) + launch.pack_dims(sizes, steps, dims),
        )  # fmt: skip

    return launch.split(layout.shape, walks, one)
