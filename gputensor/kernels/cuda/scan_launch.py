"""Launch plans of scans: one launch, or two if there are few long rows."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ... import runtime
from ...core.geometry import Sizes
from . import launch
from .division import divider
from .launch import Operands

# The number of adjacent elements that a lane processes in one step; ITEMS in scan.cu.
ITEMS = 4
# The bytes of a segment's result: an element of the widest type and its index.
_TOTAL_BYTES = 16
_PARAMS = Struct("<3q8I4I").pack
_POINTERS = Struct("<4Q").pack


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind the Rows `layout`. Return callable(device_index, pointers). pointers: (out, in), or
    (out, places, in)."""
    return launch.along_rows(op, layout, Scan)


class Scan(launch.SegmentedRows):
    """The launches of a scan over one layout."""

    __slots__ = ("along",)
    family = "scan"

    def __init__(
        self, op: str, of: Any, count: int, along: list[int], strides: list[Sizes], rows: Sizes
    ) -> None:
        three = [strides[0], strides[1] if len(strides) > 2 else (0,) * len(rows), strides[-1]]
        self.along: tuple[int, int, int] = (along[0], along[1] if len(along) > 2 else 0, along[-1])
        is_adjacent = not rows or along[-1] <= strides[-1][0]
        super().__init__(op, of, count, rows, three, is_adjacent, ITEMS)
        self.tail = self._tail(False)

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        out, *places, x = operands
        pointers = (out, *(places or (0,)), x)
        if self.segments == 1:
            self._launch(device_index, pointers, 0, False)
            return
        # The workspace may be freed when this function returns, because its memory is reused only
        # by later work on the same stream.
        nbytes = self.rows * self.segments * _TOTAL_BYTES
        workspace = runtime.cuda().allocate(nbytes, device_index)
        self._launch(device_index, pointers, workspace.ptr, True)
        self._launch(device_index, pointers, workspace.ptr, False)

    def _launch(
        self, device_index: int, pointers: tuple[int, ...], totals: int, writes_totals: bool
    ) -> None:
        tail = self._tail(True) if writes_totals else self.tail
        self.queue(device_index, _POINTERS(*pointers, totals) + tail, self.segments)

    def _tail(self, writes_totals: bool) -> bytes:
        return _PARAMS(
            *self.along, self.rows, self.count, self.per_segment, self.lane_bits, self.slot_bits,
            self.is_adjacent, writes_totals, self.ndim, *divider(self.segments),
        ) + self.dims  # fmt: skip
