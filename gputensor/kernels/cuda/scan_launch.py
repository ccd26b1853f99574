"""Launch plans of scans: one launch, or two if there are few long rows."""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import Any

from ... import runtime
from ...core import errors
from ...core.geometry import Sizes
from . import launch, module, variants
from .division import divider
from .launch import THREADS, Operands, bits_for
from .softmax_launch import ADJACENT

# The number of adjacent elements that a lane processes in one step; ITEMS in scan.cu.
ITEMS = 4
# The minimum elements of a segment of a row, and the number of blocks that fills any GPU, as in
# reduce_launch. Constant, so that the order of a sum is the same on all GPUs.
_PER_SEGMENT = 1 << 14
_BLOCKS = 1024
# Bytes of a segment's result: a wide element and its index.
_TOTAL_BYTES = 16
_PARAMS = Struct("<3q8I4I").pack
_POINTERS = Struct("<4Q").pack


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind the Rows `layout`: callable(device_index, pointers). pointers: (out, in), or (out,
    places, in)."""
    count, rows = layout.shape[0], layout.shape[1:]
    if count == 0 or launch.product(rows) == 0:
        return launch.EmptyLaunch()
    if count >= 1 << 31:
        rule = "have fewer than 2**31 elements along dim"
        raise errors.must(op, "self", rule, errors.Got(str(count)))
    along = [s[0] for s in layout.stride_bytes]
    strides = [s[1:] for s in layout.stride_bytes]
    one = partial(Scan, op, layout.dtypes[0], count, along, strides)
    return launch.split(rows, strides, lambda sizes, before: one(sizes))


class Scan:
    """The launches over one layout; there are two if rows are cut into segments."""

    __slots__ = (
        "defines", "rows", "count", "along", "dims", "lane_bits", "slot_bits", "is_adjacent",
        "segments", "per_segment", "ndim", "functions",
    )  # fmt: skip
    rows: int
    count: int
    ndim: int
    family, entry = "scan", "scan_strided"

    def __init__(
        self, op: str, of: Any, count: int, along: list[int], strides: list[Sizes], rows: Sizes
    ) -> None:
        self.rows, self.count, self.ndim = launch.product(rows), count, len(rows)
        dims = launch.dims_for(op, rows)
        self.defines = variants.define(op, variants.storage(of), "STRIDED", dims)
        three = [strides[0], strides[1] if len(strides) > 2 else (0,) * len(rows), strides[-1]]
        self.along: tuple[int, int, int] = (along[0], along[1] if len(along) > 2 else 0, along[-1])
        self.dims: bytes = launch.pack_dims(rows, three, dims)
        self.is_adjacent: bool = not rows or along[-1] <= strides[-1][0]
        slots = 0 if self.is_adjacent else min(bits_for(self.rows), bits_for(ADJACENT))
        self.lane_bits: int = min(bits_for(-(-count // ITEMS)), bits_for(THREADS) - slots)
        self.slot_bits: int = bits_for(THREADS) - self.lane_bits
        groups = launch.blocks_for(self.rows, 1 << self.slot_bits)
        self.segments = max(1, min(count // _PER_SEGMENT, _BLOCKS // groups))
        self.per_segment: int = -(-count // self.segments)
        self.segments = -(-count // self.per_segment)
        self.functions: dict[int, Any] = {}

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        out, *places, x = operands
        pointers = (out, *(places or (0,)), x)
        if self.segments == 1:
            self._launch(device_index, pointers, 0, False)
            return
        # The memory may be freed when this function returns, because only work on the same stream,
        # after the launches, reuses it.
        nbytes = self.rows * self.segments * _TOTAL_BYTES
        workspace = runtime.cuda().allocate(nbytes, device_index)
        self._launch(device_index, pointers, workspace.ptr, True)
        self._launch(device_index, pointers, workspace.ptr, False)

    def _launch(
        self, device_index: int, pointers: tuple[int, ...], totals: int, writes_totals: bool
    ) -> None:
        cuda = runtime.cuda()
        function = self.functions.get(device_index)
        if function is None:
            function = module.function(self.family, self.entry, self.defines, device_index)
            self.functions[device_index] = function
        groups = launch.blocks_for(self.rows, 1 << self.slot_bits)
        params = _POINTERS(*pointers, totals) + _PARAMS(
            *self.along, self.rows, self.count, self.per_segment, self.lane_bits, self.slot_bits,
            self.is_adjacent, writes_totals, self.ndim, *divider(self.segments),
        ) + self.dims  # fmt: skip
        stream = cuda.current_stream(device_index)
        grid = (groups * self.segments, 1, 1)
        cuda.launch(function, grid, (THREADS, 1, 1), 0, stream, params)
