"""Launch plans of variances and logsumexp: the launches of a reduction over rows in two passes.

Lanes and segments are those of reduce_launch.py, except that the number of segments is not limited:
a block reads its segment twice, so segments are short enough for the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, ClassVar, NamedTuple

from ... import runtime
from ...core.geometry import Sizes
from . import launch, variants
from .launch import PACK_BYTES, Operands, pieces, product
from .reduce_launch import (
    EITHER, PARTIALS, POINTERS, RESULTS, Stage, lanes_are_adjacent, layout_of,
)  # fmt: skip

_ENDING = Struct("<QQd4I").pack


class _Loop(NamedTuple):
    """The functor that computes an operator. has_root: the result is a square root. has_mean: the
    mean is a second result."""

    functor: str
    has_root: bool = False
    has_mean: bool = False


_LOOPS = {
    "var": _Loop("var"), "var_mean": _Loop("var", False, True), "std": _Loop("var", True),
    "std_mean": _Loop("var", True, True), "logsumexp": _Loop("logsumexp"),
}  # fmt: skip


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind a reduction of the first layout.n_reduced dimensions. layout.over: the divisor of a
    variance.

    Return callable(device_index, operands). The operands are pointers to out, mean (of var_mean and
    std_mean), and x. The mean has the shape of out and the dtype of x.
    """
    out_strides, in_strides = [s or () for s in layout.stride_bytes]
    n = layout.n_reduced
    kept, reduced = layout.shape[n:], layout.shape[:n]
    assert product(kept) and product(reduced), layout
    walks = (out_strides[n:], in_strides[n:])

    def one(sizes: Sizes, before: int) -> Moments:
        return Moments(op, layout, sizes, walks, reduced, in_strides[:n])

    means = []
    if _LOOPS[op].has_mean:
        size, of_mean = [d.itemsize for d in layout.dtypes]
        means.append(tuple([s // size * of_mean for s in walks[0]]))
    return launch.split(kept, [walks[0], *means, walks[1]], one)


class _Stage(Stage):
    """One launch. It writes the results, or the states of segments."""

    __slots__ = ()
    family: ClassVar[str] = "moments"

    def most_segments(self, groups: int) -> int:
        return launch.MAX_NUMEL


class Moments:
    """The reduction of one part of the outputs: stages that read the input and, if there are
    several segments, a last stage that merges the segments' states."""

    __slots__ = (
        "op", "stages", "last", "workspace_bytes", "segments", "over", "has_mean", "runs",
    )  # fmt: skip
    family = "moments"
    last: _Stage | None
    workspace_bytes: int
    segments: int

    def __init__(
        self, op: str, layout: Any, kept: Sizes, walks: Any, reduced: Sizes, strides: Sizes
    ) -> None:
        out_dtype, in_dtype = layout.dtypes
        loop = _LOOPS[op]
        size, scalar = in_dtype.itemsize, variants.storage(in_dtype)
        codes = (out_dtype.code, in_dtype.code, in_dtype.code)
        dims = max(launch.dims_for(op, kept), launch.dims_for(op, reduced))
        count = product(reduced)
        self.op: str = op
        self.over: tuple[float, bool] = layout.over, loop.has_root
        self.has_mean: bool = loop.has_mean
        # The keys are (stage, device).
        self.runs: dict[Any, Callable[[bytes], None]] = {}
        # Each launch is (byte offset in the input, index of its first segment, stage).
        self.stages: list[tuple[int, int, _Stage]] = []
        self.segments = 0
        parts = list(pieces(reduced, launch.MAX_NUMEL))
        for start, sizes in parts:
            name = layout_of(sizes, strides, kept, walks[1], size)
            stage = _Stage(
                variants.define(loop.functor, scalar, name, dims), kept, walks, sizes, strides,
                PACK_BYTES // size, lanes_are_adjacent(name, strides, walks[1]), codes, count,
                PARTIALS if len(parts) > 1 else EITHER,
            )  # fmt: skip
            self.stages.append((launch.offset_of(start, strides) or 0, self.segments, stage))
            self.segments += stage.segments
        self.last: _Stage | None = None
        self.workspace_bytes = 0
        if self.segments > 1:
            # The state of a segment is a number of the input's dtype, and a count and a sum of the
            # corresponding real dtype.
            state = max(in_dtype.to_real.itemsize, 4) * (4 if in_dtype.is_complex else 3)
            self.workspace_bytes = state * self.segments * product(kept)
            self.last = _Stage(
                variants.define(loop.functor, scalar, "PARTS", dims), kept, walks,
                (self.segments,), (0,), 1, True, codes, count, RESULTS,
            )  # fmt: skip

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        out, x = operands[0], operands[-1]
        mean = operands[1] if self.has_mean else 0
        if self.last is None:
            self._launch(device_index, self.stages[0][2], out, x, self._ending(mean, 0, 0))
            return
        # The workspace may be freed when this function returns: see reduce_launch.py.
        workspace = runtime.cuda().allocate(self.workspace_bytes, device_index)
        for offset, first, stage in self.stages:
            ending = self._ending(mean, workspace.ptr, first)
            self._launch(device_index, stage, out, x + offset, ending)
        self._launch(device_index, self.last, out, x, self._ending(mean, workspace.ptr, 0))

    def _ending(self, mean: int, parts: int, first: int) -> bytes:
        return _ENDING(mean, parts, *self.over, first, self.segments, 0)

    def _launch(self, device_index: int, stage: _Stage, out: int, x: int, ending: bytes) -> None:
        stage.bound(self.runs, device_index)(POINTERS(out, x) + stage.tail + ending)

    def straight(self, device_index: int) -> launch.Straight:
        """Return the parts of the launch: see launch.straight."""
        if self.last is not None or self.has_mean:
            return launch.whole(self, device_index)
        stage = self.stages[0][2]
        tail = stage.tail + self._ending(0, 0, 0)
        return stage.bound(self.runs, device_index), launch.packed_behind(2, tail), tail

    def __getattr__(self, name: str) -> Any:
        # Read attributes such as entry and grid from the first launch.
        return getattr(self.stages[0][2], name)
