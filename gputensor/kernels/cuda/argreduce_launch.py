"""Launch plans of argmax, argmin, max and min along a dimension: one launch, or two if there are
few long rows."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ... import runtime
from ...core import errors
from ...core.geometry import Sizes
from . import launch, module, variants
from .division import divider
from .launch import THREADS, Operands, bits_for
from .softmax_launch import ADJACENT, PER_LANE

# The minimum elements of a segment of a row, and the number of blocks that fills any GPU, as in
# reduce_launch.
_PER_SEGMENT = 1 << 14
_BLOCKS = 1024
_HEAD, _WALK = Struct("<4Qq").pack, Struct("<8I4I").pack


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind a search to the plan of a reduction of one dimension: callable(device_index, pointers).

    Pointers: the indices, in the plan's output layout; for max and min the values, in the same
    order; the input.
    """
    n = layout.n_reduced
    strides: list[Sizes] = [s or () for s in layout.stride_bytes]
    out_strides, in_strides = strides
    count = launch.product(layout.shape[:n])
    kept = layout.shape[n:]
    if launch.product(kept) == 0:
        return launch.EmptyLaunch()
    if max(count, launch.product(kept)) >= 1 << 31:
        rule = "have fewer than 2**31 elements"
        raise errors.must(op, "self", rule, errors.Got(str(layout.shape)))
    along = in_strides[0] if n else 0
    walks = [out_strides[n:], _values(out_strides[n:], layout.dtypes), in_strides[n:]]
    return ArgReduce(op, layout.dtypes[1], count, along, kept, walks)


def _values(indices: Sizes, types: Any) -> Sizes:
    """Strides of the values, in the order of the indices."""
    to, of = types
    return tuple([by // to.itemsize * of.itemsize for by in indices])


class ArgReduce:
    """The launches over one layout; there is a second one if rows are cut into segments."""

    __slots__ = (
        "op", "defines", "rows", "count", "along", "dims", "lane_bits", "slot_bits", "is_adjacent",
        "segments", "per_segment", "ndim", "functions",
    )  # fmt: skip
    family, entry = "argreduce", "argreduce_strided"

    def __init__(
        self, op: str, of: Any, count: int, along: int, kept: Sizes, walks: list[Sizes]
    ) -> None:
        self.op = op
        self.rows, self.count, self.along, self.ndim = launch.product(kept), count, along, len(kept)
        dims = launch.dims_for(op, kept)
        self.defines = variants.define(op, variants.storage(of), "STRIDED", dims)
        self.dims: bytes = launch.pack_dims(kept, walks, dims)
        self.is_adjacent: bool = not kept or along <= walks[2][0]
        slots = 0 if self.is_adjacent else min(bits_for(self.rows), bits_for(ADJACENT))
        self.lane_bits: int = min(bits_for(-(-count // PER_LANE)), bits_for(THREADS) - slots)
        self.slot_bits: int = bits_for(THREADS) - self.lane_bits
        groups = launch.blocks_for(self.rows, 1 << self.slot_bits)
        self.segments = max(1, min(count // _PER_SEGMENT, _BLOCKS // groups))
        self.per_segment: int = -(-count // self.segments)
        self.segments = -(-count // self.per_segment)
        self.functions: dict[int, Any] = {}

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        out, *rest, x = operands
        values = rest[0] if rest else 0
        if self.segments == 1:
            self._launch(device_index, out, values, x, 0, self.count, self.count, 1)
            return
        # The memory may be freed when this function returns, because only work on the same stream,
        # after the launches, reuses it.
        workspace = runtime.cuda().allocate(self.rows * self.segments * 8, device_index)
        parts, segments = workspace.ptr, self.segments
        self._launch(device_index, parts, 0, x, 0, self.count, self.per_segment, segments)
        self._launch(device_index, out, values, x, parts, segments, segments, 1)

    def _launch(
        self, device_index: int, out: int, values: int, x: int, given: int, count: int,
        per_segment: int, segments: int,
    ) -> None:  # fmt: skip
        cuda = runtime.cuda()
        function = self.functions.get(device_index)
        if function is None:
            function = module.function(self.family, self.entry, self.defines, device_index)
            self.functions[device_index] = function
        groups = launch.blocks_for(self.rows, 1 << self.slot_bits)
        walk = walk_of(self, count, per_segment, segments)
        params = _HEAD(out, values, x, given, self.along) + walk + self.dims
        stream = cuda.current_stream(device_index)
        cuda.launch(function, (groups * segments, 1, 1), (THREADS, 1, 1), 0, stream, params)


def walk_of(of: ArgReduce, count: int, per_segment: int, segments: int) -> bytes:
    """Return `argreduce_walk` for a launch over this number of elements of each row."""
    return _WALK(
        of.rows, count, per_segment, of.lane_bits, of.slot_bits, of.is_adjacent, segments > 1,
        of.ndim, *divider(segments),
    )  # fmt: skip
