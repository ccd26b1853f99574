"""Choose the kernel, accesses and tiles for a copy: see `choose`. The computation is pure integer
arithmetic.

The cases are tried in this order: dense or tiny, broadcast, one common direction, two directions,
and all others. `copy_score.score` chooses a kernel's parameters for the limits `gpu`. A plan
contains all data for its launch; `copy_launch.py` packs them.

Note [Directions]: x is dst's fastest dimension. y is the dimension along which src is read. It is
src's dense dimension or, if there is none, the dimension with the smallest stride, if that stride
is at most NEAR_STEPS elements. If x and y are the same dimension, the copy moves rows, otherwise
tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...runtime.device_limits import Limits
from . import copy_pack_plan as packing, copy_score as score
from .copy_pack_plan import Pack
from .copy_walk import Traffic, Walk, access_bytes

_SQUARE = score.TILE_SQUARE_BYTES
FEW, MANY = 4, 16  # The kernels are compiled for up to this many outer dimensions.
UNSCALED, BY_ROW, BY_COLUMN, BY_BATCH = "UNSCALED", "BY_ROW", "BY_COLUMN", "BY_BATCH"


class Elem:
    """A plan of the kernel ELEM, which copies element by element in dst's order. packed: each
    thread writes four bytes of dst."""

    __slots__ = ("packed",)
    kernel = "elem"

    def __init__(self, packed: bool = False) -> None:
        self.packed: bool = packed


@dataclass(slots=True, eq=False)
class Row:
    """A plan of the kernel ROW, which copies rows. step: src's step along a row: 1, -1 or 0.
    is_long: a block processes part of one row. is_shifted: see copy_row.cu. repeat: the outer
    dimension along which elements of src repeat and are loaded only once, or None."""

    step: int
    vector: int
    is_long: bool
    is_shifted: bool
    repeat: int | None
    kernel: ClassVar[str] = "row"


class Tile:
    """A plan of the kernel TILE, which copies tiles. x: the dimension along which dst is written.
    y: the dimension along which src is read. load, store: the number of elements of an access; 0
    means shifted, see copy_tile.cu. rows, columns: the tile's size. resident: blocks per
    multiprocessor."""

    __slots__ = (
        "x", "y", "load", "store", "rows", "columns", "threads", "resident", "fill", "waves",
        "score",
    )  # fmt: skip
    x: int
    y: int
    load: int
    store: int
    kernel = "tile"

    def __init__(self, x: int, y: int, load: int, store: int) -> None:
        self.x, self.y, self.load, self.store = x, y, load, store

    rows: int
    columns: int
    threads: int
    resident: int
    fill: float
    waves: float
    score: float

    def step(self, itemsize: int) -> int:
        """Return the number of rows from one tile to the next, which is STEP_ROWS of copy_tile.cu.
        itemsize: the bytes of one element of dst.
        """
        return self.rows if self.store else self.rows - score.SECTOR_BYTES // itemsize


class Skinny:
    """A plan of the kernel SKINNY, which copies between planes and a few interleaved channels. c:
    the dimension of the channels. pixel: the dimension of the pixels. load, store: bytes of an
    access."""

    __slots__ = ("c", "pixel", "from_planes", "to_planes", "load", "store", "threads")
    c: int
    pixel: int
    from_planes: bool
    to_planes: bool
    kernel = "skinny"

    def __init__(self, c: int, pixel: int, from_planes: bool, to_planes: bool) -> None:
        self.c, self.pixel = c, pixel
        self.from_planes, self.to_planes = from_planes, to_planes

    load: int
    store: int
    threads: int


Plan = Elem | Row | Tile | Skinny | Pack


def choose(walk: Walk, gpu: Limits) -> Plan:
    """Return the plan that is expected to be the fastest for a walk. All plans give correct
    results."""
    nbytes = walk.numel * walk.item
    if len(walk.sizes) > 1 and nbytes < score.SMALL_BYTES:
        return elem(walk)
    if not walk.sizes:
        return elem(walk)
    x, y = 0, direction(walk)
    is_dense = walk.dst[0] == walk.dst_bytes
    if walk.src[0] == 0:
        return (row(walk, 0) if is_dense else None) or elem(walk)
    if y is None:
        return _scattered(walk, is_dense, gpu) or elem(walk)
    if x == y:
        return _same_direction(walk, is_dense, gpu) or elem(walk)
    return _two_directions(walk, y, is_dense, gpu) or elem(walk)


def direction(walk: Walk) -> int | None:
    """Return y of Note [Directions]: the dimension along which src is read, or None."""
    size, near = walk.src_bytes, None
    for k, s in enumerate(walk.src):
        if s == size:
            return k
        if 0 < abs(s) <= score.NEAR_STEPS * size and (near is None or abs(s) < abs(walk.src[near])):
            near = k
    return near


def _scattered(walk: Walk, is_dense: bool, gpu: Limits) -> Plan | None:
    """Return a plan of TILE, or None, for a src whose nonzero strides are all large. A tile can
    still combine reads of the same sectors."""
    moving = [k for k, s in enumerate(walk.src) if s]
    y = min(moving, key=lambda k: abs(walk.src[k]))
    if y == 0 or not is_dense or walk.sizes[0] * walk.sizes[y] < score.SCATTERED_TILE:
        return None
    return tile(walk, y, gpu)


def _same_direction(walk: Walk, is_dense: bool, gpu: Limits) -> Plan | None:
    if not is_dense:
        return None
    if walk.src[0] == -walk.src_bytes:
        return row(walk, -1)
    if walk.src[0] != walk.src_bytes:
        return None
    if walk.channel is not None and (found := _interleaved(walk)):
        return found
    run = walk.sizes[0] * walk.src_bytes
    if run < score.LONG_RUN_BYTES and len(walk.sizes) > 1:
        packed = packing.pack(walk, gpu)
        if packed is not None and packed.min_run_bytes > run:
            return packed
    return row(walk, 1)


def _two_directions(walk: Walk, y: int, is_dense: bool, gpu: Limits) -> Plan | None:
    n_x, n_y = walk.sizes[0], walk.sizes[y]
    run_x, run_y = n_x * walk.dst_bytes, n_y * walk.src_bytes
    if run_x >= score.TILE_RUN_BYTES and run_y >= score.TILE_RUN_BYTES:
        if not is_dense and walk.dst[0] > score.NEAR_STEPS * walk.dst_bytes:
            return None
        found = tile(walk, y, gpu)
        if found is None or found.fill < score.TILE_ENOUGH:
            packed = packing.pack(walk, gpu)
            if packed is not None and (found is None or packed.score > found.score):
                return packed
        return found
    if not is_dense or walk.src[y] != walk.src_bytes:
        return None
    few = skinny(walk)
    if few is not None:
        return few
    packed = packing.pack(walk, gpu)
    if packed is not None and packed.has_long_runs:
        return packed
    if walk.channel is not None and n_x * n_y >= score.SCATTERED_TILE:
        return tile(walk, y, gpu)  # PACK cannot scale channels.
    return None


# --- kernels --------------------------------------------------------------------------------------


def elem(walk: Walk) -> Elem:
    each = 4 // walk.dst_bytes if walk.dst_bytes < 4 else 1
    packed = (
        each > 1 and not walk.is_cast and bool(walk.sizes) and walk.dst[0] == walk.dst_bytes
        and walk.sizes[0] % each == 0 and access_bytes(walk.dst_low, walk.dst[1:]) >= 4
    )  # fmt: skip
    return Elem(packed)


def row(walk: Walk, step: int) -> Row | None:
    """Plan ROW along dimension 0, which must be dense in dst. Return None for too many outer
    dimensions."""
    if len(walk.sizes) - 1 > MANY:
        return None
    size, n = walk.item, walk.sizes[0]
    vector = 16 // size
    to = access_bytes(walk.dst_low, walk.dst[1:])
    # If a row is read backwards, the end of its first element determines the alignment.
    at = (walk.src_low + walk.src_bytes) & 15 if step < 0 else walk.src_low
    of = access_bytes(at, walk.src[1:]) if step else 16
    while vector > 1 and (
        vector > n or vector * walk.dst_bytes > to or vector * walk.src_bytes > of
    ):
        vector //= 2
    nbytes = n * size
    is_shifted = (
        step == 1 and not walk.is_cast and vector * size < score.SHIFTED_BELOW
        # The kernel counts byte offsets in i32.
        and score.SHIFTED_FROM_BYTES <= nbytes < (1 << 31) - 16
    )  # fmt: skip
    still = [k for k in range(1, len(walk.sizes)) if walk.src[k] == 0]
    if walk.channel is not None:
        still = [k for k in still if walk.channel[k] == 0]
    repeat = max(still, key=lambda k: walk.sizes[k]) if still and not is_shifted else None
    return Row(step, vector, nbytes >= score.LONG_ROW_BYTES, is_shifted, repeat)


def scaled_by(walk: Walk, row_dim: int, column_dim: int = -1) -> str:
    """Return the value of the kernels' define SCALED, which states the dimension of the
    channels."""
    if walk.channel is None:
        return UNSCALED
    if walk.channel[row_dim]:
        return BY_ROW
    return BY_COLUMN if column_dim >= 0 and walk.channel[column_dim] else BY_BATCH


def tile(walk: Walk, y: int, gpu: Limits) -> Tile | None:
    """Return the plan of TILE over dimension 0 and `y` with the best tile, or None if no tile
    fits."""
    rest = [k for k in range(len(walk.sizes)) if k not in (0, y)]
    if len(rest) > MANY:
        return None
    size_to = walk.dst_bytes
    load, store = _tile_accesses(walk, y)
    narrow = (load * walk.item < 16) + (store * walk.item < 16)
    registers = score.TILE_REGISTERS[walk.item][2 if not store else narrow > 0]
    side = score.TILE_SIDE[walk.item]
    tallest, widest = max(side, 128 // size_to), side
    if not store:
        tallest, widest = score.TILE_OF_SECTORS[walk.item]
    batches = 1
    for k in rest:
        batches *= walk.sizes[k]
    found = []
    heights = (tallest, tallest // 2, tallest // 4)[: 2 if store else 3]
    for rows in heights:
        for columns in (widest, widest // 2):
            made = Tile(0, y, load, store)
            made.rows, made.columns = rows, columns
            made.threads = _tile_threads(walk, made)
            if not made.threads:
                continue
            tiles = -(-walk.sizes[0] // made.step(size_to)) * -(-walk.sizes[y] // columns)
            made.fill = walk.sizes[0] * walk.sizes[y] / (tiles * rows * columns)
            shared = rows * columns * size_to
            made.resident = score.blocks_per_multiprocessor(gpu, registers, made.threads, shared)
            made.waves = tiles * batches / (gpu.multiprocessors * made.resident)
            found.append(made)
    if not found:
        return None
    # Among tiles that waste little, choose the largest. If that gives too few blocks, choose the
    # smallest.
    enough = score.TILE_FILLS * max(t.fill for t in found)
    found = [t for t in found if t.fill >= enough]
    best = found[0] if found[0].waves >= score.TILE_WAVES else found[-1]
    sides = score.side_of(load, walk.item), score.side_of(store, walk.item)
    needed = score.tile_instructions(walk.item, *sides)
    issue = score.issue_time(gpu, needed, best.fill, is_in_l2=walk.nbytes <= gpu.l2_bytes)
    waves = min(1.0, best.waves)
    filled = best.fill**score.TILE_WASTE
    best.score = score.score(walk.item, narrow, _useful(walk), waves, issue, filled)
    return best


def _tile_accesses(walk: Walk, y: int) -> tuple[int, int]:
    """Return LOAD and STORE of copy_tile.cu, the number of elements of a load and of a store."""
    size_to, size_of = walk.dst_bytes, walk.src_bytes
    widest = 16 // size_of
    while widest > 1 and _square_rows(size_to, widest) * widest * walk.item > _SQUARE:
        widest //= 2
    load = 1
    if walk.src[y] == size_of:
        strides = [s for k, s in enumerate(walk.src) if k != y]
        of = access_bytes(walk.src_low, strides)
        word = 4 // size_of if size_of < 4 else 1
        if of >= widest * size_of:
            load = widest
        elif size_of < 4 and word <= widest:
            if of >= 4:
                load = word
            elif walk.src[0] > 0 and all(s >= 0 for s in strides):
                load = 0
    store = 1
    if walk.dst[0] == size_to:
        to = access_bytes(walk.dst_low, walk.dst[1:])
        narrow = 0 if size_to <= 4 and walk.item in score.TILE_OF_SECTORS else 1
        store = 16 // size_to if to == 16 else narrow
    return load, store


def _square_rows(size_to: int, columns: int) -> int:
    """Return the number of rows in a thread's square that has this number of columns. Each column
    contains 16 bytes of dst, or 8 bytes if there are 16 columns of one-byte elements."""
    return 8 if size_to == 1 and columns == 16 else 16 // size_to


def _tile_threads(walk: Walk, of: Tile) -> int:
    """Return a number of threads that lets each thread process whole squares; 0 if the tile is
    unsuitable. Eight neighbouring squares of a row have no bank conflicts, because of the order of
    chunks in shared memory."""
    size_to, size_of = walk.dst_bytes, walk.src_bytes
    wide = of.load or 4 // size_of
    tall = _square_rows(size_to, wide)
    is_narrow = of.rows * size_to < 128 or of.columns < 8 * wide
    if is_narrow or (tall * size_to < 16 and of.columns > 128):
        return 0
    squares = (of.rows // tall) * (of.columns // wide)
    threads = of.rows * of.columns * walk.item // score.TILE_THREAD_BYTES[walk.item]
    threads = min(threads, squares, 256)
    return threads if threads >= 32 and squares % threads == 0 else 0


def skinny(walk: Walk) -> Skinny | None:
    """Return the plan of SKINNY if the walk copies between planes and interleaved channels,
    otherwise None."""
    size_to, size_of = walk.dst_bytes, walk.src_bytes
    if walk.item > score.SKINNY_RATIO * min(size_to, size_of) or walk.item == 16:
        return None
    y = direction(walk)
    if y is None:
        return None
    if walk.sizes[0] <= walk.sizes[y]:
        # dst is interleaved: dimension 0 contains the channels, and y the pixels.
        found = Skinny(0, y, True, False)
        is_dense = walk.dst[y] == walk.sizes[0] * size_to
    else:
        found = Skinny(y, 0, False, True)
        is_dense = walk.src[0] == walk.sizes[y] * size_of
    c, pixel = found.c, found.pixel
    if not is_dense or walk.src[y] != size_of or walk.dst[0] != size_to:
        return None
    if not 2 <= walk.sizes[c] <= score.SKINNY_CHANNELS or walk.sizes[pixel] < score.SKINNY_PIXELS:
        return None
    if walk.channel is not None and (
        walk.first_channel
        or walk.channel[c] != 1
        or any(step for k, step in enumerate(walk.channel) if k != c)
    ):
        return None
    return _skinny_accesses(walk, found)


def _interleaved(walk: Walk) -> Skinny | None:
    """Plan SKINNY if both sides have few interleaved channels and the copy scales them."""
    size_to, size_of = walk.dst_bytes, walk.src_bytes
    n, channel = walk.sizes[0], walk.channel or []
    fits = (
        walk.item <= score.SKINNY_RATIO * min(size_to, size_of) and walk.item < 16
        and 2 <= n <= score.SKINNY_CHANNELS and not walk.first_channel
        and channel[0] == 1 and not any(channel[1:])
        and len(walk.sizes) > 1 and walk.sizes[1] >= score.SKINNY_PIXELS
        and walk.dst[1] == n * size_to and walk.src[1] == n * size_of
    )  # fmt: skip
    return _skinny_accesses(walk, Skinny(0, 1, False, False)) if fits else None


def _skinny_accesses(walk: Walk, found: Skinny) -> Skinny | None:
    rest = [k for k in range(len(walk.sizes)) if k not in (found.c, found.pixel)]
    if len(rest) > FEW:
        return None
    each = 16 // walk.item  # Each thread copies this number of pixels.
    sides = []
    for strides, low, size, is_planes in (
        (walk.src, walk.src_low, walk.src_bytes, found.from_planes),
        (walk.dst, walk.dst_low, walk.dst_bytes, found.to_planes),
    ):
        outer = [strides[k] for k in rest] + ([strides[found.c]] if is_planes else [])
        access = access_bytes(low, outer)
        widest = each * size if is_planes else 16
        wide = min(widest, 16)
        sides.append(wide if access >= wide else 4 if access >= 4 > size else size)
    found.load, found.store = sides
    pixels = -(-walk.sizes[found.pixel] // each)
    found.threads = min(256 if walk.sizes[found.c] <= 8 else 128, -(-pixels // 32) * 32)
    return found


def _useful(walk: Walk) -> float:
    traffic = Traffic(walk, score.SECTOR_BYTES)
    return min(1.0, traffic.useful_bytes / traffic.sector_bytes)
