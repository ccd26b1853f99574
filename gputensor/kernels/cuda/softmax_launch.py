"""Launch plans of softmax and similar operators: the number of threads per row, and of rows per
block.

Both depend only on the sizes, so the order of a sum is the same on every device and in every run.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...core.geometry import Sizes
from . import launch, variants
from .launch import THREADS

# The bytes of a row that each thread keeps in registers, in the arithmetic type; HELD_BYTES in
# softmax.cu.
HELD_BYTES = 64
WARP = 32
# The number of lanes per strided row is doubled until a lane has at most this number of elements,
# or the block has no more lanes.
PER_LANE = 8
_HEAD = Struct("<3q6I").pack


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind the Rows `layout`. Return callable(device_index, (out, in, ...) pointers)."""
    return launch.along_rows(op, layout, _one)


def _one(
    op: str, of: Any, count: int, along: list[int], strides: list[Sizes], rows: Sizes
) -> launch.Launch:
    is_dense = all(by == of.itemsize for by in along)
    n_rows = launch.product(rows)
    if is_dense:
        is_adjacent = True
        held = HELD_BYTES // max(of.itemsize, 4)
        lane_bits = _lanes_of_dense(count, launch.PACK_BYTES // of.itemsize, held)
    else:
        is_adjacent = not rows or min(along) <= min(s[0] for s in strides)
        slots = 1 if is_adjacent else min(launch.bits_for(n_rows), launch.bits_for(launch.ADJACENT))
        most = launch.bits_for(THREADS) - (0 if is_adjacent else slots)
        lane_bits = min(launch.bits_for(-(-count // PER_LANE)), most)
    slot_bits = launch.bits_for(THREADS) - lane_bits
    layout = "ROWS" if is_dense else "STRIDED"
    dims = launch.dims_for(op, rows)
    three = (along + [0])[:3]
    walks = (strides + [(0,) * len(rows)])[:3]
    tail = _HEAD(*three, n_rows, count, lane_bits, slot_bits, is_adjacent, len(rows))
    if len(strides) < 3:
        tail = bytes(8) + tail  # 0 is the pointer of a missing input.
    return launch.Launch(
        "softmax", f"softmax_{layout.lower()}", variants.define(op, of.short, layout, dims),
        launch.blocks_for(n_rows, 1 << slot_bits), THREADS, len(strides), [], [],
        tail + launch.pack_dims(rows, walks, dims),
    )  # fmt: skip


def _lanes_of_dense(count: int, pack: int, held: int) -> int:
    """Return log2 of the number of threads that share a dense row: a part of a warp, or a whole
    block."""
    if count > WARP * held:
        return launch.bits_for(THREADS)
    return launch.bits_for(min(-(-count // pack), WARP))
