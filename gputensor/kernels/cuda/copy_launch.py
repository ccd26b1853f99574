"""Launches of layout copies. Entry, defines, grid and parameter bytes come from a plan of
copy_plan.py.

`bind` returns a callable that copies a layout between any two addresses. It has one launch for each
device and each pair of alignments, made on first use. A copy that is too small to gain from a plan
has a single launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

from ... import runtime
from ...core import errors
from ...core.dtype import dtype
from ...core.geometry import Sizes
from ...runtime.device_limits import Limits
from . import copy_plan, copy_score as score, launch, module, pointwise_launch, variants
from .copy_pack_plan import (
    INNER_DIMS, OUTER_DIMS, Pack, buffer_bytes, outer, run_table, size_of, tiles,
)  # fmt: skip
from .copy_plan import FEW, MANY, UNSCALED, Elem, Row, Skinny, Tile
from .copy_walk import Walk, normalise, pieces
from .division import divider
from .launch import Operands

INLINE_CHANNELS = 16

_HEAD = Struct("<QQ").pack
_TABLES = Struct("<QQII").pack
_INLINE = Struct(f"<{INLINE_CHANNELS}f").pack
_ROW = Struct("<qqII4III4IqII").pack
_TILE = Struct("<qqqqQIIII4I4I4Iq").pack
_SKINNY = Struct("<qqII4I").pack
_PACK = Struct("<4I4I4I3I3I4I12I4i").pack
_ELEM = Struct("<16xIiiI4i").pack
_AFFINE = Struct("<IiiiII").pack
_INNER = Struct("<4III").pack
_OUTER = Struct("<ii").pack


class Layout:
    """The layout of a copy. stride_bytes: of dst, then of src; dimensions may have any order. For
    `pack` there is a third entry: the stride of an f32 table with one entry per channel.
    """

    __slots__ = ("shape", "stride_bytes", "dtypes", "common_dtype")
    shape: Sizes
    stride_bytes: tuple[Sizes, ...]

    def __init__(
        self, shape: Sizes, stride_bytes: tuple[Sizes, ...], dtypes: tuple[dtype, dtype]
    ) -> None:
        self.shape, self.stride_bytes, self.dtypes = shape, stride_bytes, dtypes
        self.common_dtype: dtype = dtypes[1]


def bind(family: str, op: str, layout: Any) -> Any:
    """Bind a copy of a layout. Op "pack" also scales: see binding.bind."""
    numel = launch.product(layout.shape)
    if numel == 0:
        return launch.EmptyLaunch()
    if len(layout.shape) > variants.MANY_DIMS:
        raise errors.too_many_dims(op, len(layout.shape), variants.MANY_DIMS)
    if op == "pack":
        for of in layout.dtypes[:2]:
            if of.is_complex:
                raise errors.no_cuda_kernel(op, of)
    elif numel * max([d.itemsize for d in layout.dtypes]) < score.SMALL_BYTES:
        return pointwise_launch.bind(family, op, layout)
    return Copy(op, layout)


class Copy:
    """A copy of one layout between any addresses. It stores a launch for each device and for each
    combination of the two addresses' low four bits."""

    __slots__ = ("op", "layout", "launches")
    op: str
    layout: Any

    def __init__(self, op: str, layout: Any) -> None:
        self.op, self.layout = op, layout
        self.launches: dict[tuple[int, int, int], Any] = {}

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        key = (device_index, operands[0] & 15, operands[1] & 15)
        found = self.launches.get(key) or self.at(*key)
        found(device_index, operands)

    def at(self, device_index: int, dst_low: int, src_low: int) -> Any:
        """Make the launch on a device for operands with these addresses modulo 16."""
        gpu = runtime.cuda().limits(device_index)
        made = self.launches[device_index, dst_low, src_low] = self.planned(gpu, dst_low, src_low)
        return made

    def planned(self, gpu: Limits, dst_low: int = 0, src_low: int = 0) -> Any:
        """Plan the launch for a GPU, which need not be present."""
        walk = normalise(self.layout, dst_low, src_low)
        parts, dtypes = list(pieces(walk, launch.MAX_NUMEL)), self.layout.dtypes
        made = [launch_of(part, copy_plan.choose(part, gpu), dtypes, gpu) for part in parts]
        return made[0] if len(made) == 1 else Several(made)


class Several:
    """The launches of a copy that has too many elements for one launch."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[CopyLaunch]) -> None:
        self.parts: list[CopyLaunch] = parts

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        for part in self.parts:
            part(device_index, operands)


class CopyLaunch:
    """The launch of one kernel for one walk. tail: the parameters after the pointers.
    counted_shared_bytes: the shared memory of all resident blocks of a multiprocessor, if the plan
    assumes a number of resident blocks; otherwise 0."""

    __slots__ = (
        "walk", "plan", "text", "entry", "defines", "grid", "block", "shared_bytes", "tail",
        "offsets", "is_scaled", "last_channel", "runs", "counted_shared_bytes",
    )  # fmt: skip
    walk: Walk
    plan: Any
    text: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    def __init__(
        self, walk: Walk, plan: Any, text: str, entry: str, defines: Mapping[str, object],
        blocks: int, threads: int, tail: bytes, shared_bytes: int = 0,
        counted_shared_bytes: int = 0,
    ) -> None:  # fmt: skip
        self.counted_shared_bytes: int = counted_shared_bytes
        self.walk, self.plan, self.text, self.entry = walk, plan, text, entry
        self.defines: dict[str, str] = {name: str(value) for name, value in defines.items()}
        self.grid, self.block, self.shared_bytes = (blocks, 1, 1), (threads, 1, 1), shared_bytes
        self.tail: bytes = tail
        self.offsets: tuple[int, int] = (walk.dst_offset, walk.src_offset)
        self.is_scaled: bool = walk.channel is not None
        self.last_channel: int = walk.first_channel + _reach(walk.sizes, walk.channel or [])[1]
        self.runs: dict[int, Callable[[bytes], None]] = {}  # The keys are device indices.

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        (self.runs.get(device_index) or self.load(device_index))(self.pack(operands))

    def pack(self, operands: Operands) -> bytes:
        """Pack the parameter struct of a call."""
        head = _HEAD(operands[0] + self.offsets[0], operands[1] + self.offsets[1])
        if self.is_scaled:
            head += _scaling(operands[2], operands[3], self.last_channel)
        return head + self.tail

    def load(self, device_index: int) -> Callable[[bytes], None]:
        cuda = runtime.cuda()
        made = module.function(self.text, self.entry, self.defines, device_index)
        if self.counted_shared_bytes:
            cuda.prefer_shared(made, self.counted_shared_bytes)
        run: Callable[[bytes], None]
        run = cuda.launcher(made, self.grid, self.block, self.shared_bytes)
        self.runs[device_index] = run
        return run

    def __repr__(self) -> str:
        grid, block = self.grid[0], self.block[0]
        return f"CopyLaunch({self.text}, {self.defines}, grid={grid}, block={block})"


def _scaling(scale: Any, bias: Any, last: int) -> bytes:
    """Pack the struct `scaling` of vectors.cuh. scale and bias are each a pointer to f32, or one
    number per channel."""
    pointers, values = [], []
    for name, given in (("scale", scale), ("bias", bias)):
        is_pointer = type(given) is int
        pointers.append(given if is_pointer else 0)
        numbers = () if is_pointer else tuple(given)
        if not is_pointer and (len(numbers) != last + 1 or last >= INLINE_CHANNELS):
            rule = f"be {last + 1} numbers" if last < INLINE_CHANNELS else "be on the device"
            raise errors.must("pack", name, rule, numbers)
        values.append(numbers + (0.0,) * (INLINE_CHANNELS - len(numbers)))
    return _TABLES(*pointers, last, 0) + _INLINE(*values[0]) + _INLINE(*values[1])


def launch_of(
    walk: Walk, plan: copy_plan.Plan, dtypes: tuple[dtype, ...], gpu: Limits
) -> CopyLaunch:
    """Return the launch of a plan. dtypes: the dtypes of dst and src, which casts need. gpu: the
    GPU of the plan."""
    return _MAKERS[type(plan)](walk, plan, dtypes, gpu)


def _types(walk: Walk, dtypes: tuple[dtype, ...]) -> dict[str, object]:
    """Return the defines SRC and DST: an unsigned word if elements are copied unchanged, otherwise
    the operands' types."""
    if not walk.is_cast:
        word = variants.WORDS[walk.dst_bytes]
        return {"SRC": word, "DST": word}
    return {"SRC": variants.storage(dtypes[1]), "DST": variants.storage(dtypes[0])}


def _outer(walk: Walk, dims: list[int], bound: int) -> bytes:
    sizes = tuple([walk.sizes[d] for d in dims])
    walks = [tuple([s[d] for d in dims]) for s in (walk.dst, walk.src)]
    if walk.channel is not None:
        walks.append(tuple([walk.channel[d] for d in dims]))
    return _OUTER(len(dims), 0) + launch.pack_dims(sizes, walks, bound)


def _reach(sizes: list[int], strides: list[int]) -> tuple[int, int]:
    """Return the offsets of the elements with the lowest and the highest address."""
    ends = [(n - 1) * s for n, s in zip(sizes, strides)]
    return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)


def _elem(walk: Walk, plan: Elem, dtypes: tuple[dtype, ...], gpu: Limits) -> CopyLaunch:
    sizes = tuple(walk.sizes) or (1,)
    strides = [tuple(s) or (0,) for s in (walk.dst, walk.src)]
    numel, dims = launch.product(sizes), launch.dims_for("copy", sizes)
    per_thread = launch.STRIDED_UNROLL
    if walk.channel is not None:
        name, scalar = "AFFINE", "f64" if "f64" in [d.short for d in dtypes[:2]] else "f32"
        strides.append(tuple(walk.channel) or (0,))
        channel = walk.first_channel & 0xFFFFFFFF
        tail = _AFFINE(numel, len(sizes), dtypes[0].code, dtypes[1].code, channel, 0)
    else:
        name, scalar = "STRIDED", variants.WORDS[walk.dst_bytes] if not walk.is_cast else "f32"
        codes = [0, 0]
        if walk.is_cast:
            name, codes = "CAST", [dtypes[0].code, dtypes[1].code]
        elif plan.packed:
            name, per_thread = "PACKED", 8
        tail = _ELEM(numel, len(sizes), codes[1], 0, *codes, 0, 0)
    defines = variants.define("copy", scalar, name, dims)
    threads = launch.threads_for(numel, per_thread)
    return CopyLaunch(
        walk, plan, "copy", f"copy_{name.lower()}", defines,
        launch.blocks_for(numel, threads * per_thread), threads,
        tail + launch.pack_dims(sizes, strides, dims),
    )  # fmt: skip


def _row(walk: Walk, plan: Row, dtypes: tuple[dtype, ...], gpu: Limits) -> CopyLaunch:
    n, vector = walk.sizes[0], plan.vector
    defines = _types(walk, dtypes)
    if plan.is_shifted:
        n, vector = n * walk.dst_bytes, 16
        defines = {"SRC": "u8", "DST": "u8"}
    unroll = 4 if plan.step and (plan.is_shifted or vector * walk.src_bytes >= 16) else 8
    dims = [d for d in range(1, len(walk.sizes)) if d != plan.repeat]
    rows = launch.product(tuple([walk.sizes[d] for d in dims]))
    row_units = -(-n // vector) + plan.is_shifted
    if plan.is_long:
        parts = -(-row_units // (score.ROW_BLOCK * unroll))
        threads = -(-row_units // (parts * unroll * 32)) * 32
        units, blocks, by = row_units, rows * parts, parts
    else:
        threads, units, by = score.ROW_BLOCK, rows * row_units, row_units
        blocks = -(-units // (threads * unroll))
    repeats, per_block, pitch, unit_blocks = 1, 1, 0, blocks
    if plan.repeat is not None:
        repeats, pitch = walk.sizes[plan.repeat], walk.dst[plan.repeat]
        enough = repeats * blocks // (8 * gpu.multiprocessors)
        per_block = max(1, min(score.REPEATS_PER_BLOCK, repeats, enough))
        blocks *= -(-repeats // per_block)
    begin, end = _reach(walk.sizes, walk.src)
    channel = walk.channel or [0]
    scaled = copy_plan.scaled_by(walk, 0)
    bound = FEW if len(dims) <= FEW else MANY
    tail = _ROW(
        begin, end + walk.src_bytes, n, units, *divider(by), repeats, per_block,
        *divider(unit_blocks), pitch, channel[0] & 0xFFFFFFFF, walk.first_channel & 0xFFFFFFFF,
    ) + _outer(walk, dims, bound)  # fmt: skip
    defines |= {"VECTOR": vector, "STEP": plan.step, "LONG": int(plan.is_long)}
    defines |= {"SHIFTED": int(plan.is_shifted), "REPEAT": int(plan.repeat is not None)}
    defines |= {"SCALED": scaled, "DIMS": bound}
    return CopyLaunch(walk, plan, "copy_row", "copy_row", defines, blocks, threads, tail)


def _tile(walk: Walk, plan: Tile, dtypes: tuple[dtype, ...], gpu: Limits) -> CopyLaunch:
    x, y = plan.x, plan.y
    dims = [d for d in range(len(walk.sizes)) if d not in (x, y)]
    row_tiles = -(-walk.sizes[x] // plan.step(walk.dst_bytes))
    column_tiles = -(-walk.sizes[y] // plan.columns)
    group = score.TILE_GROUP
    last = column_tiles - (-(-column_tiles // group) - 1) * group
    scaled = copy_plan.scaled_by(walk, x, y)
    channel = walk.channel or [0] * len(walk.sizes)
    step = channel[x] if scaled == copy_plan.BY_ROW else channel[y]
    bound = FEW if len(dims) <= FEW else MANY
    tail = _TILE(
        walk.dst[y], walk.src[x], walk.dst[x], walk.src[y],
        _reach(walk.sizes, walk.src)[1] + walk.src_bytes, walk.sizes[x], walk.sizes[y],
        column_tiles, walk.first_channel & 0xFFFFFFFF, *divider(row_tiles * column_tiles),
        *divider(group * row_tiles), *divider(last), step,
    ) + _outer(walk, dims, bound)  # fmt: skip
    blocks = row_tiles * column_tiles * launch.product(tuple([walk.sizes[d] for d in dims]))
    defines = _types(walk, dtypes) | {
        "LOAD": plan.load, "STORE": plan.store, "TILE_ROWS": plan.rows,
        "TILE_COLUMNS": plan.columns, "BLOCK": plan.threads, "GROUP": group, "SCALED": scaled,
        "DIMS": bound,
    }  # fmt: skip
    # The kernel declares this shared memory statically, so the launch does not request it.
    shared_bytes = plan.rows * plan.columns * walk.dst_bytes
    return CopyLaunch(
        walk, plan, "copy_tile", "copy_tile", defines, blocks, plan.threads, tail,
        counted_shared_bytes=plan.resident * (shared_bytes + gpu.reserved_shared_bytes),
    )  # fmt: skip


def _skinny(walk: Walk, plan: Skinny, dtypes: tuple[dtype, ...], gpu: Limits) -> CopyLaunch:
    c, pixel = plan.c, plan.pixel
    dims = [d for d in range(len(walk.sizes)) if d not in (c, pixel)]
    each, pixels = 16 // walk.item, walk.sizes[pixel]
    per_image = -(-pixels // (plan.threads * each))
    unscaled = Walk()
    unscaled.sizes, unscaled.dst, unscaled.src = walk.sizes, walk.dst, walk.src
    # Channel indices are compile-time constants in this kernel, so dimensions have no channel
    # strides.
    unscaled.channel = None
    tail = _SKINNY(walk.dst[c], walk.src[c], pixels, 0, *divider(per_image))
    tail += _outer(unscaled, dims, FEW)
    sides = [(walk.src_bytes, plan.from_planes), (walk.dst_bytes, plan.to_planes)]
    widest = max(size for size, is_planes in sides if not is_planes)
    defines = _types(walk, dtypes) | {
        "CHANNELS": walk.sizes[c], "FROM_PLANES": int(plan.from_planes),
        "TO_PLANES": int(plan.to_planes), "LOAD": plan.load, "STORE": plan.store,
        "SCALED": UNSCALED if walk.channel is None else copy_plan.BY_ROW, "DIMS": FEW,
    }  # fmt: skip
    return CopyLaunch(
        walk, plan, "copy_skinny", "copy_skinny", defines,
        per_image * launch.product(tuple([walk.sizes[d] for d in dims])), plan.threads, tail,
        plan.threads * each * walk.sizes[c] * widest,
    )  # fmt: skip


def _pack(walk: Walk, plan: Pack, dtypes: tuple[dtype, ...], gpu: Limits) -> CopyLaunch:
    chunks = plan.chunks
    cuts = [plan.cut_out, None if plan.cut_in == plan.cut_out else plan.cut_in]

    def limit(dims: list[int]) -> tuple[int, int, int]:
        size = size_of(chunks, dims)
        for slot, cut in enumerate(cuts):
            if dims and cut == dims[-1]:
                last = dims[-1]
                return (0, size // chunks[last], 0) if slot == 0 else (0, 0, size // chunks[last])
        return size, 0, 0

    place, step = {}, 1
    for d in (*plan.run_in, *plan.rows_in):
        place[d] = step
        step *= chunks[d]

    def inner(dims: list[int], strides: list[int]) -> bytes:
        packed = [_INNER(*divider(chunks[d]), strides[d] & 0xFFFFFFFF, place[d]) for d in dims]
        return b"".join(packed).ljust(INNER_DIMS * 24, b"\0")

    grid = [(cut, chunks[cut]) if cut is not None else (None, 1) for cut in cuts]
    grid += [(d, chunks[d]) for d in outer(walk, plan)]
    sizes = tuple([1 if d is None else -(-walk.sizes[d] // t) for d, t in grid])
    walks = [tuple([0 if d is None else s[d] * t for d, t in grid]) for s in (walk.dst, walk.src)]
    bound = OUTER_DIMS[0] if len(grid) <= OUTER_DIMS[0] else OUTER_DIMS[1]
    count, nbytes = tiles(walk, plan), buffer_bytes(walk, plan)
    bias = sum((chunks[d] - 1) * -walk.src[d] for d in plan.rows_in if walk.src[d] < 0)
    run_in, run_out = size_of(chunks, plan.run_in), size_of(chunks, plan.run_out)
    tail = _PACK(
        count, plan.per_block, plan.volume(), nbytes, *divider(run_in), *divider(run_out),
        size_of(chunks, plan.rows_in), size_of(chunks, plan.rows_out), run_table(walk, plan), bias,
        plan.pad_shift, plan.pad, *[1 if c is None else walk.sizes[c] for c in cuts],
        *[1 if c is None else chunks[c] for c in cuts],
        *limit(plan.run_in), *limit(plan.rows_in), *limit(plan.run_out), *limit(plan.rows_out),
        len(plan.rows_in), len(plan.run_out), len(plan.rows_out), 0,
    )  # fmt: skip
    tail += inner(plan.rows_in, walk.src) + inner(plan.run_out, walk.dst)
    tail += inner(plan.rows_out, walk.dst)
    tail += _OUTER(len(grid), 0) + launch.pack_dims(sizes, walks, bound)
    defines = _types(walk, dtypes) | {
        "LOAD": plan.load, "STORE": plan.store, "EACH": plan.each, "BLOCK": plan.threads,
        "DIMS": bound,
    }  # fmt: skip
    made = CopyLaunch(
        walk, plan, "copy_pack", "copy_pack", defines, plan.blocks, plan.threads, tail, 2 * nbytes,
        plan.resident * (2 * nbytes + gpu.reserved_shared_bytes),
    )  # fmt: skip
    made.offsets = (walk.dst_offset, walk.src_offset - bias)
    return made


_MAKERS: dict[type, Callable[..., CopyLaunch]] = {
    Elem: _elem, Row: _row, Tile: _tile, Skinny: _skinny, Pack: _pack,
}  # fmt: skip
