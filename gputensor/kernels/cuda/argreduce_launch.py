"""Launch plans of argmax, argmin, max and min along a dimension: one launch, or two if there are
few long rows."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ... import runtime
from ...core import errors
from ...core.geometry import Sizes
from . import launch
from .division import divider
from .launch import Operands
from .softmax_launch import PER_LANE

_POINTERS, _ALONG, _WALK = Struct("<4Q").pack, Struct("<q").pack, Struct("<8I4I").pack


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind argmax, argmin, max or min to the plan of a reduction over one dimension. Return
    callable(device_index, pointers).

    The pointers are: the indices, in the plan's output layout; for max and min also the values, in
    the same layout; then the input.
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
    """Return the stride bytes of the values, which have the layout of the indices."""
    to, of = types
    return tuple([by // to.itemsize * of.itemsize for by in indices])


class ArgReduce(launch.SegmentedRows):
    """The launches of argmax, argmin, max or min over one layout."""

    __slots__ = ("op", "along")
    family = "argreduce"

    def __init__(
        self, op: str, of: Any, count: int, along: int, kept: Sizes, walks: list[Sizes]
    ) -> None:
        self.op, self.along = op, along
        is_adjacent = not kept or along <= walks[2][0]
        super().__init__(op, of, count, kept, walks, is_adjacent, PER_LANE)
        self.tail = self._tail(count, count, 1)

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        out, *rest, x = operands
        values = rest[0] if rest else 0
        if self.segments == 1:
            self.queue(device_index, _POINTERS(out, values, x, 0) + self.tail, 1)
            return
        # The workspace may be freed when this function returns, because its memory is reused only
        # by later work on the same stream.
        workspace = runtime.cuda().allocate(self.rows * self.segments * 8, device_index)
        parts, segments = workspace.ptr, self.segments
        self._launch(device_index, parts, 0, x, 0, self.count, self.per_segment, segments)
        self._launch(device_index, out, values, x, parts, segments, segments, 1)

    def _launch(
        self, device_index: int, out: int, values: int, x: int, given: int, count: int,
        per_segment: int, segments: int,
    ) -> None:  # fmt: skip
        tail = self._tail(count, per_segment, segments)
        self.queue(device_index, _POINTERS(out, values, x, given) + tail, segments)

    def _tail(self, count: int, per_segment: int, segments: int) -> bytes:
        return _ALONG(self.along) + walk_of(self, count, per_segment, segments) + self.dims


def walk_of(of: ArgReduce, count: int, per_segment: int, segments: int) -> bytes:
    """Return the struct `argreduce_walk` for a launch. count: elements per row."""
    return _WALK(
        of.rows, count, per_segment, of.lane_bits, of.slot_bits, of.is_adjacent, segments > 1,
        of.ndim, *divider(segments),
    )  # fmt: skip
