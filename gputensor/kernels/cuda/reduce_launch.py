"""Launch plans of reductions. They define which elements a thread reduces, and the order of
additions. A reduction takes one or two launches.

The order depends only on the shape, so results are the same on every device and in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, ClassVar

from ... import runtime
from ...core import errors
from ...core.geometry import Sizes
from . import launch, module, variants
from .division import divider
from .launch import (
    ADJACENT, MOST_BLOCKS, PACK_BYTES, THREADS, Operands, pack_dims, pieces, product,
)  # fmt: skip

# _PER_LANE: the number of lanes per output is doubled until a lane has at most this number of
# units, or the block has no more lanes. _PER_SEGMENT: the minimum number of units per lane in a
# segment. A lane thus loads its units in one or two groups of simultaneous loads.
_PER_LANE = 4
_PER_SEGMENT = 8
# _ENDS: maps an operator to the operator that combines its partial results, if that is a different
# operator. RESULTS, PARTIALS, EITHER: the output of a stage. EITHER means results if there is one
# segment, otherwise partial results.
_ENDS = {
    "nansum": "sum", "norm_zero": "sum", "norm_one": "sum", "norm_two": "norm_two_end",
    "norm_power": "norm_power_end", "norm_most": "amax", "norm_least": "amin",
}  # fmt: skip
RESULTS, PARTIALS, EITHER = "results", "partials", "either"
_PARAMS = Struct("<Q7I5iIIq4I").pack
_REAL, _WORD = Struct("<d").pack, Struct("<Q").unpack


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind a reduction of the first layout.n_reduced dimensions. layout.over: the order of
    norm_power. Return callable(device_index, (out pointer, in pointer))."""
    out_strides, in_strides = [s or () for s in layout.stride_bytes]
    n = layout.n_reduced
    kept, reduced = layout.shape[n:], layout.shape[:n]
    walks = (out_strides[n:], in_strides[n:])

    def one(sizes: Sizes, before: int) -> Reduce:
        return Reduce(op, layout, sizes, walks, reduced, in_strides[:n])

    return launch.split(kept, walks, one)


class Stage:
    """One launch of a reduction. It writes the results, or `segments` partial results per output.

    walks: strides of out and in over `kept`. strides: strides of in over `reduced`. run: for the
    entries rows and columns, the number of elements of the dense dimension, which are divided into
    packs. leaves: one of RESULTS, PARTIALS, EITHER. per_segment: the number of units of a segment,
    where a unit is a pack of rows or an element.
    """

    __slots__ = (
        "entry", "defines", "grid", "block", "segments", "lane_bits", "slot_bits", "per_segment",
        "is_adjacent", "tail", "functions",
    )  # fmt: skip
    family: ClassVar[str] = "reduce"
    entry: str
    defines: dict[str, str]
    segments: int
    lane_bits: int
    slot_bits: int
    per_segment: int

    def __init__(
        self, defines: dict[str, str], kept: Sizes, walks: tuple[Sizes, Sizes], reduced: Sizes,
        strides: Sizes, pack: int, is_adjacent: bool, codes: tuple[int, int, int], number: int,
        leaves: str,
    ) -> None:  # fmt: skip
        # The runtime's Function by device index. Stages of one kernel may share this dict.
        self.functions: dict[int, Any] = {}
        outputs = all_outputs = product(kept)
        units, layout = product(reduced), defines["LAYOUT"]
        if units == 0:
            reduced, strides = (0,), (0,)
        run = out_step = 0
        if layout == "ROWS":
            run = reduced[0]
            reduced = (launch.blocks_for(run, pack), *reduced[1:])
            strides = (strides[0] * pack, *strides[1:])
            units = product(reduced)
        elif layout == "COLUMNS":
            run, out_step = kept[0], walks[0][0]
            kept = (launch.blocks_for(run, pack), *kept[1:])
            (into, of) = walks
            walks = (into[0] * pack, *into[1:]), (of[0] * pack, *of[1:])
            outputs = product(kept)
        self.is_adjacent: bool = is_adjacent
        self.lane_bits, self.slot_bits = shape_of(outputs, max(units, 1), is_adjacent)
        groups = launch.blocks_for(outputs, 1 << self.slot_bits)
        lanes = 1 << self.lane_bits
        most = 1 if leaves == RESULTS else self.most_segments(groups)
        cut = segments_of(units, lanes, most)
        self.segments, self.per_segment = cut
        self.entry, self.defines = f"{self.family}_{layout.lower()}", defines
        self.grid, self.block = (groups * self.segments, 1, 1), (THREADS, 1, 1)
        dims = int(defines["DIMS"])
        is_partial = leaves == PARTIALS or self.segments > 1
        if units == 0:
            reduced = strides = ()
        self.tail: bytes = _PARAMS(
            number, outputs, units, self.per_segment, self.lane_bits, self.slot_bits,
            is_adjacent, is_partial, *codes, len(kept), len(reduced), run, all_outputs,
            out_step, *divider(self.segments),
        ) + pack_dims(kept, list(walks), dims) + pack_dims(reduced, [strides], dims)  # fmt: skip

    def most_segments(self, groups: int) -> int:
        """Return the maximum number of segments of an output. groups: the number of blocks if each
        output has one segment."""
        return -(-MOST_BLOCKS // groups)

    def launch(
        self, runs: dict[Any, Callable[[bytes], None]], device_index: int, out: int, x: int
    ) -> None:
        self.bound(runs, device_index)(POINTERS(out, x) + self.tail)

    def bound(
        self, runs: dict[Any, Callable[[bytes], None]], device_index: int
    ) -> Callable[[bytes], None]:
        run = runs.get((self, device_index))
        if run is None:
            function = self.functions.get(device_index)
            if function is None:
                function = module.function(self.family, self.entry, self.defines, device_index)
                self.functions[device_index] = function
            run = runtime.cuda().launcher(function, self.grid, self.block)
            runs[self, device_index] = run
        return run


POINTERS = Struct("<QQ").pack


def shape_of(outputs: int, units: int, is_adjacent: bool) -> tuple[int, int]:
    """Return log2 of the threads per output, and log2 of the outputs per block. Together they use
    all threads of a block."""
    wanted = launch.bits_for(-(-units // _PER_LANE))
    whole = launch.bits_for(THREADS)
    if is_adjacent:
        lane_bits = min(wanted, whole)
    else:
        lane_bits = min(wanted, whole - launch.bits_for(min(outputs, ADJACENT)))
    return lane_bits, whole - lane_bits


def segments_of(units: int, lanes: int, most: int) -> tuple[int, int]:
    """Return the number of segments, and the units per segment, which are a multiple of `lanes`."""
    wanted = min(most, units // (lanes * _PER_SEGMENT))
    if wanted < 2:
        return 1, units
    per_segment = -(-units // (wanted * lanes)) * lanes
    return -(-units // per_segment), per_segment


class Reduce:
    """The reduction of one part of the outputs: stages that read the input, and a last stage that
    combines their partial results.
    """

    __slots__ = ("op", "stages", "last", "workspace_bytes", "runs", "codes")
    family = "reduce"
    codes: tuple[int, int, int]

    def __init__(
        self, op: str, layout: Any, kept: Sizes, walks: Any, reduced: Sizes, strides: Sizes
    ) -> None:
        out_dtype, in_dtype = layout.dtypes
        scalar, is_cast, partial, partial_bytes = _types(op, in_dtype, layout.common_dtype)
        codes = (out_dtype.code, in_dtype.code, layout.common_dtype.code)
        dims = max(launch.dims_for(op, kept), launch.dims_for(op, reduced))
        number, outputs = product(reduced), product(kept)
        if op == "norm_power":
            number = _WORD(_REAL(layout.over))[0]
        row_bytes = outputs * partial_bytes
        self.op: str = op
        self.codes = codes
        # The keys are (stage, device).
        self.runs: dict[Any, Callable[[bytes], None]] = {}
        # Each launch is (byte offset in the input, byte offset in the workspace, stage).
        self.stages: list[tuple[int, int, Stage]] = []
        rows = 0
        parts = list(pieces(reduced, launch.MAX_NUMEL))
        for start, sizes in parts:
            size = in_dtype.itemsize
            name = "CAST" if is_cast else layout_of(sizes, strides, kept, walks[1], size)
            stage = Stage(
                variants.define(op, scalar, name, dims), kept, walks, sizes, strides,
                PACK_BYTES // size, lanes_are_adjacent(name, strides, walks[1]),
                codes, number, PARTIALS if len(parts) > 1 else EITHER,
            )  # fmt: skip
            self.stages.append((launch.offset_of(start, strides) or 0, rows * row_bytes, stage))
            rows += stage.segments
        self.last: Stage | None = None
        self.workspace_bytes = 0
        if rows > 1:
            self.workspace_bytes = rows * row_bytes
            self._end(op, partial, kept, walks[0], rows, row_bytes, codes, number)

    def over(self, layout: Any) -> Reduce | None:
        """Return the launch of a layout with other sizes: see `over_reduced` in iterator/plan.py.
        Return None for a layout that needs several launches."""
        model, n, shape = self.stages[0][2], layout.n_reduced, layout.shape
        kept, reduced = shape[n:], shape[:n]
        number, outputs = product(reduced), product(kept)
        if self.op == "norm_power" or max(number, outputs) > launch.MAX_NUMEL:
            return None
        out_strides, in_strides = layout.stride_bytes
        walks, pack = (out_strides[n:], in_strides[n:]), PACK_BYTES // layout.dtypes[1].itemsize
        stage = Stage(
            model.defines, kept, walks, reduced, in_strides[:n], pack, model.is_adjacent,
            self.codes, number, EITHER,
        )  # fmt: skip
        if stage.segments > 1:
            return None
        stage.functions = model.functions
        made = object.__new__(Reduce)
        made.op, made.codes = self.op, self.codes
        made.stages, made.last, made.workspace_bytes, made.runs = [(0, 0, stage)], None, 0, {}
        return made

    def _end(
        self, op: str, partial: str, kept: Sizes, out_walk: Sizes, rows: int, row_bytes: int,
        codes: tuple[int, int, int], number: int,
    ) -> None:  # fmt: skip
        """Make the last stage, which reduces the workspace (rows x outputs) to the results."""
        step = row_bytes // product(kept)
        in_walk = []
        for size in kept:
            in_walk.append(step)
            step *= size
        dims, itemsize = launch.dims_for(op, kept), row_bytes // product(kept)
        name = layout_of((rows,), (row_bytes,), kept, tuple(in_walk), itemsize)
        self.last = Stage(
            variants.define(_ENDS.get(op, op), partial, name, dims), kept,
            (out_walk, tuple(in_walk)), (rows,), (row_bytes,), PACK_BYTES // itemsize,
            name == "ROWS", codes, number, RESULTS,
        )  # fmt: skip

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        out, x = operands
        if self.last is None:
            self.stages[0][2].launch(self.runs, device_index, out, x)
            return
        # The workspace may be freed when this function returns, even if the launches are still
        # queued, because its memory is reused only by later work on the same stream.
        workspace = runtime.cuda().allocate(self.workspace_bytes, device_index)
        for offset, at, stage in self.stages:
            stage.launch(self.runs, device_index, workspace.ptr + at, x + offset)
        self.last.launch(self.runs, device_index, out, workspace.ptr)

    def straight(self, device_index: int) -> launch.Straight:
        """Return the parts of the launch: see launch.straight."""
        if self.last is not None:
            return launch.whole(self, device_index)
        stage = self.stages[0][2]
        pack = launch.packed_behind(2, stage.tail)
        return stage.bound(self.runs, device_index), pack, stage.tail

    def __getattr__(self, name: str) -> Any:
        # Read attributes such as entry and grid from the first launch.
        return getattr(self.stages[0][2], name)


@lru_cache(1 << 9)
def _types(op: str, given: Any, common: Any) -> tuple[str, bool, str, int]:
    """Return the results of `_scalar`, and the type of partial results with its size in bytes."""
    scalar, is_cast = _scalar(op, given, common)
    partial = variants.reduce_partial(op, scalar)
    return scalar, is_cast, partial, int(partial.lstrip("abcfiu")) // 8


def _scalar(op: str, given: Any, common: Any) -> tuple[str, bool]:
    """Return the type in which elements are read, and True if they are cast to it. A cast that only
    widens elements is omitted."""
    natural = variants.reduce_scalar(op, given)
    if not variants.converts(op):
        if natural is None:
            raise errors.no_cuda_kernel(op, given)
        return natural, False
    whole = given.category < 2 and common.category == 1
    widened = given.itemsize == 2 and given.category == 2 and common.short == "f32"
    if natural is not None and (given is common or whole or widened):
        return natural, False
    name = variants.arithmetic(common)
    if op == "mean" and common.category < 2:
        raise errors.no_cuda_kernel(op, common)
    return "i64" if name == "u64" else name, True


def layout_of(
    reduced: Sizes, strides: Sizes, kept: Sizes, kept_strides: Sizes, itemsize: int
) -> str:
    """Return the kernel: ROWS or COLUMNS if vector loads are possible, otherwise STRIDED. strides:
    the input's strides over `reduced`."""
    if reduced and strides[0] == itemsize:
        return "ROWS"
    if kept and kept[0] > 1 and kept_strides[0] == itemsize and product(reduced):
        return "COLUMNS"
    return "STRIDED"


def lanes_are_adjacent(layout: str, strides: Sizes, kept_strides: Sizes) -> bool:
    """Return True if neighbouring lanes read elements of one row: the reduced elements have smaller
    strides than the kept ones."""
    if layout in ("ROWS", "COLUMNS"):
        return layout == "ROWS"
    least = min((abs(s) for s in strides if s), default=0)
    return all(not s or least <= abs(s) for s in kept_strides)
