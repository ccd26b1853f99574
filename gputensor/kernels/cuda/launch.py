"""Launch plans: entry, defines, grid, block and parameter bytes, computed from the layout alone.

The families' `*_launch.py` use this module; binding.py finds them by name. Work that depends only
on the layout is done once per plan. A call packs pointers and numbers into a prepared template and
launches. Grids have one dimension, and kernels have no grid-stride loops. Only calls use the
runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from struct import Struct
from typing import Any, ClassVar

from ...core import errors
from ...core.geometry import Sizes
from ...runtime import cuda as chosen
from . import module, variants
from .division import divider

THREADS = 256
STRIDED_UNROLL = 4
# The number of adjacent rows or outputs in a block. It is 32, because 32 adjacent f32 make accesses
# of 128 contiguous bytes.
ADJACENT = 32
# PER_SEGMENT: the minimum number of elements of a row's segment. MOST_BLOCKS: the number of blocks
# that fills any GPU. If rows give fewer blocks, they are divided into segments. Both are constants,
# so that the order of a sum is the same on all GPUs.
PER_SEGMENT, MOST_BLOCKS = 1 << 14, 1024
# The maximum number of cached functions in `Queued.runs`.
_MOST_RUNS = 64
UNARY_PACKS, BINARY_PACKS = 4, 2
PACK_BYTES = 16
# The maximum number of elements of a launch; larger layouts are split. The number is below 2^31, so
# that the indices of threads past the end do not overflow.
MAX_NUMEL = 1 << 30

Operands = tuple[Any, ...]
# The parts (run, pack, tail) of a launch: `run(pack(*operands, tail))` launches the kernel.
Straight = tuple[Callable[[Any], None], Callable[..., Any], Any]
# For a call with one number: the source of the number, as in `packers`; its packer; the bytes
# before the number; the bytes after it.
Single = tuple[int, Callable[[Any], bytes], bytes, bytes]


class Launch:
    """One kernel over one layout.

    head packs the operands' pointers. `values` are the number slots, which follow the pointers.
    `packers` lists the slots that a call fills: (slot, index into operands, or ~index into scalars,
    packer). tail contains the remaining parameters, including slots that no call fills.
    """

    __slots__ = (
        "family", "entry", "defines", "grid", "block", "shared_bytes", "n_pointers", "head",
        "values", "packers", "single", "tail", "runs", "functions",
    )  # fmt: skip
    family: str
    entry: str
    defines: dict[str, str]
    shared_bytes: int
    values: list[bytes]
    packers: list[tuple[int, int, Any]]

    def __init__(
        self, family: str, entry: str, defines: dict[str, str], blocks: int, threads: int,
        n_pointers: int, values: list[bytes], packers: list[tuple[int, int, Any]], tail: bytes,
    ) -> None:  # fmt: skip
        self.family, self.entry, self.defines = family, entry, defines
        self.grid, self.block, self.shared_bytes = (blocks, 1, 1), (threads, 1, 1), 0
        self.n_pointers, self.head = n_pointers, _pointers(n_pointers)
        self.values, self.packers = values, packers
        self.single: Single | None = None
        self.tail: bytes = tail if packers else b"".join(values) + tail
        if len(packers) == 1:
            slot, source, packer = packers[0]
            before, after = b"".join(values[:slot]), b"".join(values[slot + 1 :]) + tail
            self.single = (source, packer, before, after)
        self.runs: dict[int, Callable[[bytes], None]] = {}  # The keys are device indices.
        # The runtime's Function by device index. Launches of one kernel may share this dict.
        self.functions: dict[int, Any] | None = None

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        run = self.runs.get(device_index) or self.load(device_index)
        run(self.pack(operands, scalars) if self.packers else self.head(*operands) + self.tail)

    def pack(self, operands: Operands, scalars: Operands = ()) -> bytes:
        """Pack the parameter struct of a call."""
        if not self.packers:
            return self.head(*operands) + self.tail
        if self.single is not None:
            source, packer, before, after = self.single
            if source < 0:
                return self.head(*operands) + before + packer(scalars[~source]) + after
            without = (*operands[:source], 0, *operands[source + 1 :])
            return self.head(*without) + before + packer(operands[source]) + after
        pointers, values = list(operands), self.values.copy()
        for slot, source, packer in self.packers:
            if source < 0:
                values[slot] = packer(scalars[~source])
            else:
                values[slot] = packer(operands[source])
                pointers[source] = 0
        return self.head(*pointers) + b"".join(values) + self.tail

    def straight(self, device_index: int) -> Straight:
        """Return the parts of the launch: see the function `straight` below."""
        run = self.runs.get(device_index) or self.load(device_index)
        if not self.packers:
            return run, packed_behind(self.n_pointers, self.tail), self.tail
        if self.single is not None and self.n_pointers == 3 and self.single[0] > 0:
            return run, self.packed_with_number(self.single), self.single[3]
        return run, self.pack_all, b""

    def numbered(self, device_index: int, operands: Operands, scalars: Operands) -> Straight:
        """Return the parts of the launch with these numbers: see the function `numbered` below."""
        run = self.runs.get(device_index) or self.load(device_index)
        given = tuple([0 if x is None else x for x in operands])
        tail = self.pack(given, scalars)[8 * self.n_pointers :]
        # The pointer of a number is 0.
        pointers = "".join(["Q" if x is None else "8x" for x in operands])
        return run, Struct(f"<{pointers}{len(tail)}s").pack, tail

    def pack_all(self, *given: Any) -> bytes:
        *operands, _ = given
        return self.pack(tuple(operands))

    def packed_with_number(self, single: Single) -> Callable[..., bytes]:
        """Return a function that packs two pointers, and a number as the second or third
        operand."""
        source, packer, before, after = single
        size = len(packer(0))
        pack = Struct(f"<3Q{len(before)}s{size}s{len(after)}s").pack

        def packed(out: int, x: int, number: Any, tail: bytes) -> bytes:
            return pack(out, x, 0, before, packer(number), tail)

        def packed_first(out: int, number: Any, x: int, tail: bytes) -> bytes:
            return pack(out, 0, x, before, packer(number), tail)

        return packed if source == 2 else packed_first

    def load(self, device_index: int) -> Callable[[bytes], None]:
        functions = self.functions
        if functions is None:
            functions = self.functions = {}
        function = functions.get(device_index)
        if function is None:
            function = module.function(self.family, self.entry, self.defines, device_index)
            functions[device_index] = function
        run: Callable[[bytes], None] = chosen().launcher(function, self.grid, self.block)
        self.runs[device_index] = run
        return run

    def __repr__(self) -> str:
        return f"Launch({self.entry}, {self.defines}, grid={self.grid[0]}, block={self.block[0]})"


class SplitLaunch:
    """The launches over the parts of a layout that is too large for one launch. Each part has
    offsets for the operands."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[tuple[tuple[int | None, ...], Any]]) -> None:
        self.parts: list[tuple[tuple[int | None, ...], Any]] = parts

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        for offsets, launch in self.parts:
            moved = [x if by is None else x + by for x, by in zip(operands, offsets)]
            launch(device_index, tuple(moved), scalars)


class EmptyLaunch:
    """The launch of a layout without elements; it does nothing."""

    __slots__ = ()

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        pass


class Queued:
    """Base of launches that pack all parameters themselves. defines: the defines of the kernel's
    variant. runs: maps (device, entry, number of blocks) to a function that launches the kernel."""

    __slots__ = ("defines", "runs")

    def __init__(self, defines: dict[str, str]) -> None:
        self.defines: dict[str, str] = defines
        self.runs: dict[tuple[int, str, int], Callable[[bytes], None]] = {}

    def launch(
        self, device_index: int, family: str, entry: str, blocks: int, params: bytes
    ) -> None:
        run = self.runs.get((device_index, entry, blocks)) or self.load(
            device_index, family, entry, blocks
        )
        run(params)

    def load(
        self, device_index: int, family: str, entry: str, blocks: int
    ) -> Callable[[bytes], None]:
        function = module.function(family, entry, self.defines, device_index)
        run: Callable[[bytes], None] = chosen().launcher(function, (blocks, 1, 1), (THREADS, 1, 1))
        if len(self.runs) >= _MOST_RUNS:
            self.runs.clear()
        self.runs[device_index, entry, blocks] = run
        return run


class SegmentedRows(Queued):
    """Base of launches over rows: one launch, or two launches if there are few long rows, which are
    divided into segments.

    lane_bits: log2 of the number of threads per row. slot_bits: log2 of the number of rows per
    block. is_adjacent: neighbouring threads read elements of one row. per_lane: the number of
    elements of a row for which one lane is added. walks: strides of the operands over the rows.
    """

    __slots__ = (
        "rows", "count", "dims", "lane_bits", "slot_bits", "is_adjacent", "groups", "segments",
        "per_segment", "ndim", "tail",
    )  # fmt: skip
    family: ClassVar[str]
    tail: bytes  # The parameters after the pointers, for a launch of one segment per row.
    rows: int
    count: int
    groups: int
    segments: int
    ndim: int

    def __init__(
        self, op: str, of: Any, count: int, rows: Sizes, walks: list[Sizes], is_adjacent: bool,
        per_lane: int,
    ) -> None:  # fmt: skip
        self.rows, self.count, self.ndim = product(rows), count, len(rows)
        dims = dims_for(op, rows)
        super().__init__(variants.define(op, variants.storage(of), "STRIDED", dims))
        self.dims: bytes = pack_dims(rows, walks, dims)
        self.is_adjacent: bool = is_adjacent
        slots = 0 if is_adjacent else min(bits_for(self.rows), bits_for(ADJACENT))
        self.lane_bits: int = min(bits_for(-(-count // per_lane)), bits_for(THREADS) - slots)
        self.slot_bits: int = bits_for(THREADS) - self.lane_bits
        self.groups = blocks_for(self.rows, 1 << self.slot_bits)
        segments = max(1, min(count // PER_SEGMENT, MOST_BLOCKS // self.groups))
        self.per_segment: int = -(-count // segments)
        self.segments = -(-count // self.per_segment)

    def numbered(self, device_index: int, operands: Operands, scalars: Operands) -> Straight | None:
        """Return the parts of the launch: see the function `numbered`. Return None if the launch
        needs a workspace."""
        if self.segments > 1:
            return None
        # The pointers are: the first result, the second result (0 if there is none), the input, and
        # the workspace (0, because the launch needs none).
        pack = Struct(f"<Q{'Q' if len(operands) > 2 else '8x'}Q8x{len(self.tail)}s").pack
        run = self.load(device_index, self.family, f"{self.family}_strided", self.groups)
        return run, pack, self.tail

    def queue(self, device_index: int, params: bytes, segments: int) -> None:
        """Launch the kernel once, with this number of segments per row."""
        entry = f"{self.family}_strided"
        self.launch(device_index, self.family, entry, self.groups * segments, params)


def straight(launch: Any, device_index: int) -> Straight:
    """Return the parts of a launch: see `Straight`. They serve calls whose operands are aligned
    tensors or numbers. The caller runs the parts itself, which saves Python frames."""
    in_parts = getattr(launch, "straight", None)
    if in_parts is not None:
        found: Straight = in_parts(device_index)
        return found
    return whole(launch, device_index)


def whole(launch: Any, device_index: int) -> Straight:
    """Return the parts of a launch that packs its operands itself: `run` is the launch, and `pack`
    returns the operands unchanged."""
    return partial(launch, device_index), _operands, ()


def numbered(
    launch: Any, device_index: int, operands: Operands, scalars: Operands = ()
) -> Straight:
    """Return the parts of a launch over aligned tensors and fixed numbers. The numbers are packed
    only once. operands: the numbers, and None for each tensor."""
    in_parts = getattr(launch, "numbered", None)
    found: Straight | None = in_parts and in_parts(device_index, operands, scalars)
    if found is not None:
        return found

    def run(addresses: Operands) -> None:
        left = iter(addresses)
        given = tuple([next(left) if x is None else x for x in operands])
        launch(device_index, given, scalars)

    return run, _operands, ()


def _operands(*given: Any) -> Operands:
    return given[:-1]


def packed_behind(n_pointers: int, tail: bytes) -> Callable[..., bytes]:
    """Return a function of (*pointers, bytes) that packs the pointers, followed by the bytes. The
    bytes must be as long as `tail`."""
    return Struct(f"<{n_pointers}Q{len(tail)}s").pack


@cache
def _pointers(count: int) -> Callable[..., bytes]:
    return Struct(f"<{count}Q").pack


# --- arithmetic ---------------------------------------------------------------------------------


def product(sizes: Sizes) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def threads_for(elements: int, per_thread: int) -> int:
    """Return the number of threads of a block: THREADS, or fewer whole warps if one block is
    enough."""
    needed = -(-elements // per_thread)
    return THREADS if needed >= THREADS else -(-needed // 32) * 32


def blocks_for(elements: int, per_block: int) -> int:
    return -(-elements // per_block)


def dims_for(op: str, shape: Sizes) -> int:
    """Return the maximum number of dimensions of the kernel variant that fits `shape`."""
    if len(shape) <= variants.FEW_DIMS:
        return variants.FEW_DIMS
    if len(shape) <= variants.MANY_DIMS:
        return variants.MANY_DIMS
    raise errors.too_many_dims(op, len(shape), variants.MANY_DIMS)


def pieces(shape: Sizes, limit: int) -> Iterator[tuple[Sizes, Sizes]]:
    """Yield (start, sizes) of parts with at most `limit` elements, in the order of the linear
    index."""
    if product(shape) <= limit:
        yield (0,) * len(shape), shape
        return
    inner, last = product(shape[:-1]), shape[-1]
    if inner > limit:
        for at in range(last):
            for start, sizes in pieces(shape[:-1], limit):
                yield (*start, at), (*sizes, 1)
        return
    step = limit // inner
    for at in range(0, last, step):
        yield (*(0,) * (len(shape) - 1), at), (*shape[:-1], min(step, last - at))


def bits_for(n: int) -> int:
    """Return the least b with 2^b >= n."""
    return max(n - 1, 0).bit_length()


def offset_of(start: Sizes, strides: Sizes | None) -> int | None:
    """Return the byte offset of the element at `start`; None for a number."""
    return None if strides is None else sum(at * by for at, by in zip(start, strides))


def split(shape: Sizes, strides: Sequence[Sizes | None], one: Callable[[Sizes, int], Any]) -> Any:
    """Return the launch over a layout, or a SplitLaunch if the layout is too large for one launch.
    `one(sizes, number of elements before the part)` makes the launch over one part."""
    if 0 in shape:
        return EmptyLaunch()
    if product(shape) <= MAX_NUMEL:
        return one(shape, 0)
    parts, before = [], 0
    for start, sizes in pieces(shape, MAX_NUMEL):
        offsets = tuple([offset_of(start, s) for s in strides])
        parts.append((offsets, one(sizes, before)))
        before += product(sizes)
    return SplitLaunch(parts)


def along_rows(op: str, layout: Any, one: Callable[..., Any]) -> Any:
    """Return the launch over all rows, split as in `split`. `one(op, dtype, count, along, strides,
    sizes)` makes the launch over one part of the rows. sizes: the sizes of the part.

    count: the elements of a row. along: stride bytes of the operands along a row. strides: their
    stride bytes over the rows.
    """
    count, rows = layout.shape[0], layout.shape[1:]
    if count == 0 or product(rows) == 0:
        return EmptyLaunch()
    if count >= 1 << 31:
        rule = "have fewer than 2**31 elements along dim"
        raise errors.must(op, "self", rule, errors.Got(str(count)))
    along = [s[0] for s in layout.stride_bytes]
    strides = [s[1:] for s in layout.stride_bytes]
    bound = partial(one, op, layout.dtypes[0], count, along, strides)
    return split(rows, strides, lambda sizes, before: bound(sizes))


def pack_dims(shape: Sizes, strides: list[Sizes], dims: int) -> bytes:
    """Pack a layout as an array of `dimension` structs, padded to `dims` entries."""
    values: list[int] = []
    for n, *steps in zip(shape, *strides):
        values += divider(n)
        values += steps
    return _dims(len(strides), len(shape), dims)(*values)


@cache
def _dims(operands: int, count: int, dims: int) -> Callable[..., bytes]:
    one = f"4I{operands}q"
    padding = max(dims - count, 0) * Struct(f"<{one}").size
    return Struct(f"<{one * count}{padding}x").pack
