"""Plans of tiles for the kernel PACK: the dimensions of dst's and src's runs, the cut dimensions,
and the padding.

A run is a box of elements that one side reads or writes in order. It begins at the side's dense
dimension and includes whole dimensions in the order of the strides; the last dimension is cut to a
chunk. The tile is the smallest box that contains dst's run and src's run. Paddings are compared by
a model of the memory banks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import ceil

from ...runtime.device_limits import Limits
from . import copy_score as score
from .copy_walk import Traffic, Walk, access_bytes

# The maximum number of dimensions in a run is INNER_DIMS of copy_pack.cu.
INNER_DIMS = 8
# The kernel is compiled for these numbers of dimensions outside the runs.
OUTER_DIMS = (6, 24)
# A warp has 32 lanes, and one word in each memory bank makes 128 bytes.
_WARP, _ROW_BYTES = 32, 128


class Pack:
    """A plan of the kernel PACK. chunks: the tile's extent in each dimension. run_in, run_out: the
    dimensions of src's and of dst's run, the fastest first. rows_in: the dimensions of dst's run
    that are not in src's run; rows_out: the reverse. cut_in, cut_out: the cut dimension of each
    run, or None. load, store: the number of elements of an access. is_wide: both accesses are wide.
    each: elements per thread. blocks: the number of blocks. per_block: tiles per block. resident:
    blocks per multiprocessor."""

    __slots__ = (
        "chunks", "run_in", "rows_in", "run_out", "rows_out", "cut_out", "cut_in", "load", "store",
        "is_wide", "each", "threads", "blocks", "per_block", "resident", "pad_shift", "pad",
        "min_run_bytes", "has_long_runs", "score",
    )  # fmt: skip
    kernel = "pack"

    chunks: list[int]
    run_in: list[int]
    rows_in: list[int]
    run_out: list[int]
    rows_out: list[int]
    cut_out: int | None
    cut_in: int | None
    load: int
    store: int
    is_wide: bool
    each: int
    threads: int
    blocks: int
    per_block: int
    resident: int
    pad_shift: int
    pad: int
    min_run_bytes: int
    has_long_runs: bool
    score: float

    def volume(self) -> int:
        return size_of(self.chunks, range(len(self.chunks)))


def size_of(chunks: list[int], dims: Iterable[int]) -> int:
    result = 1
    for d in dims:
        result *= chunks[d]
    return result


def pack(walk: Walk, gpu: Limits) -> Pack | None:
    """Return a plan of PACK with the tile that has the best score; None if no tile fits."""
    if walk.channel is not None or len(walk.sizes) < 2:
        return None
    out = _dense(walk.dst, walk.dst_bytes, walk.sizes)
    runs = (out, _dense(walk.src, walk.src_bytes, walk.sizes))
    if not all(runs):
        return None
    useful, found = min(1.0, _useful(walk)), None
    for halved in range(3):
        tried = _best(walk, gpu, runs, useful, halved)
        found = tried or found
        if found is None or found.resident >= score.PACK_RESIDENT:
            break
    return found


def _best(
    walk: Walk, gpu: Limits, runs: tuple[list[int], list[int]], useful: float, halved: int
) -> Pack | None:
    """Return the tile with the best score. halved: how often the number of elements per thread is
    halved.
    """
    best, seen, item = None, set(), walk.item
    for out_bytes in score.PACK_RUNS_BYTES:
        for each, threads in (score.PACK_WIDE[item], score.PACK_NARROW[item]):
            room = max(1, each >> halved) * threads
            found = _tile(walk, *runs, out_bytes, room, halved)
            if found is not None:
                break
        if found is None or (box := tuple(found.chunks)) in seen:
            continue
        seen.add(box)
        _score(walk, gpu, found, useful)
        if best is None or _rank(found) > _rank(best):
            best = found
    if best is not None:
        best.pad_shift, best.pad = _padding(walk, best)
        _deal(walk, gpu, best)
    return best


def _rank(of: Pack) -> tuple[bool, float]:
    return of.has_long_runs, of.score


def _useful(walk: Walk) -> float:
    traffic = Traffic(walk, score.SECTOR_BYTES)
    return traffic.useful_bytes / traffic.sector_bytes


def _dense(strides: list[int], itemsize: int, sizes: list[int]) -> list[int]:
    """Return the dimensions over which one operand (dst or src) is dense, the fastest first. A run
    consists of such dimensions."""
    run = itemsize
    dims: list[int] = []
    for s, d in sorted((s, d) for d, s in enumerate(strides) if s > 0):
        if s != run or len(dims) == INNER_DIMS:
            break
        dims.append(d)
        run *= sizes[d]
    return dims


def _extend(walk: Walk, chunks: list[int], dims: list[int], elements: int, room: int) -> list[int]:
    """Enlarge a box along a run to about `elements` elements; the box may have at most `room`
    elements. Return the run's dimensions."""
    run, volume = 1, size_of(chunks, range(len(chunks)))
    for number, d in enumerate(dims):
        n, have = walk.sizes[d], chunks[d]
        most = max(have, min(n, -(-elements // run), room * have // volume))
        if most < n:
            parts = -(-n // most)
            most = max(have, -(-n // parts))
        if most == 1 and number:
            return dims[:number]  # The box has room for only one index of this dimension.
        chunks[d] = most
        volume = volume // have * most
        run *= most
        if most < n or run >= elements:
            return dims[: number + 1]
    return dims


def _tile(
    walk: Walk, out: list[int], of: list[int], out_bytes: int, room: int, halved: int
) -> Pack | None:
    """Return the tile whose run in dst has about `out_bytes`, and whose run in src is the longest
    that still fits."""
    found = Pack()
    found.pad_shift = found.pad = 0
    found.chunks = chunks = [1] * len(walk.sizes)
    found.run_out = _extend(walk, chunks, out, out_bytes // walk.dst_bytes, room)
    found.run_in = _extend(walk, chunks, of, score.PACK_LONGEST_BYTES // walk.src_bytes, room)
    found.rows_in = [d for d in found.run_out if d not in found.run_in]
    found.rows_out = [d for d in found.run_in if d not in found.run_out]
    # A tile may cut only the last dimension of a run.
    for run in (found.run_out, found.run_in):
        if any(chunks[d] < walk.sizes[d] for d in run[:-1]):
            return None
    if not found.rows_out and not found.rows_in:
        return None  # Both runs have the same dimensions.
    found.cut_out = _cut(walk, found, found.run_out)
    found.cut_in = _cut(walk, found, found.run_in)
    _accesses(walk, found, halved)
    return found if _fits(walk, found) else None


def _cut(walk: Walk, of: Pack, run: list[int]) -> int | None:
    return run[-1] if of.chunks[run[-1]] < walk.sizes[run[-1]] else None


def _accesses(walk: Walk, of: Pack, halved: int) -> None:
    """Set the widths of loads and stores, and the number of elements per thread."""
    widths, item = [], walk.item
    widest, word = 16 // item, 4 // item or 1
    for run, strides, low, size in (
        (of.run_in, walk.src, walk.src_low, walk.src_bytes),
        (of.run_out, walk.dst, walk.dst_low, walk.dst_bytes),
    ):
        last = run[-1]
        whole = size_of(of.chunks, run[:-1]) * size
        steps = [s for d, s in enumerate(strides) if d not in run]
        # A run's last chunk may be shorter, but it must also consist of whole accesses.
        steps += [whole * of.chunks[last], whole * walk.sizes[last]]
        wide = access_bytes(low, steps) // size
        widths.append(widest if wide >= widest else word if wide >= word else 1)
    if item == 1 and widths[0] == 1:
        widths[1] = min(widths[1], word)  # A gather of sixteen bytes takes too many registers.
    of.load, of.store = widths
    of.is_wide = min(widths) * item >= (4 if item < 4 else 16)
    of.each, of.threads = (score.PACK_WIDE if of.is_wide else score.PACK_NARROW)[item]
    of.each = -(-max(1, of.each >> halved) // max(widths)) * max(widths)


def table_bytes(of: Pack, run_entries: int) -> int:
    """Return the size in bytes of the tables that a block computes before its first tile."""
    rows_in, rows_out = size_of(of.chunks, of.rows_in), size_of(of.chunks, of.rows_out)
    return 4 * (rows_in + 2 * rows_out + run_entries)


def run_table(walk: Walk, of: Pack) -> int:
    """Return the number of entries of the table for a run of dst. Return 0 if the table does not
    fit into shared memory beside the tiles."""
    entries = size_of(of.chunks, of.run_out)
    fits = table_bytes(of, entries) <= 2 * of.each * of.threads * walk.dst_bytes
    return entries if fits else 0


def _fits(walk: Walk, of: Pack) -> bool:
    volume = of.volume()
    if volume > of.each * of.threads or volume < 64:
        return False
    if table_bytes(of, 0) > 2 * of.each * of.threads * walk.dst_bytes:
        return False
    if max(len(of.rows_in), len(of.rows_out), len(of.run_out)) > INNER_DIMS:
        return False
    if len(of.chunks) + 2 > OUTER_DIMS[1] and len(outer(walk, of)) + 2 > OUTER_DIMS[1]:
        return False
    sides = (walk.dst, walk.src)
    spans = (sum((t - 1) * abs(s) for t, s in zip(of.chunks, side)) for side in sides)
    return max(spans) < 1 << 31


def outer(walk: Walk, of: Pack) -> list[int]:
    """Return the dimensions that several tiles cover, in the order in which blocks visit them; the
    two cut dimensions are omitted.

    This is dst's order, except that dimensions whose step leaves a page on either side come last.
    So tiles that are processed at the same time share pages.
    """
    found = [
        d for d, n in enumerate(walk.sizes) if of.chunks[d] < n and d not in (of.cut_out, of.cut_in)
    ]  # fmt: skip
    steps = {d: of.chunks[d] * max(walk.dst[d], abs(walk.src[d])) for d in found}
    return sorted(found, key=lambda d: steps[d] if steps[d] >= score.PAGE_BYTES else 0)


def tiles(walk: Walk, of: Pack) -> int:
    count = 1
    for n, t in zip(walk.sizes, of.chunks):
        count *= -(-n // t)
    return count


def buffer_bytes(walk: Walk, of: Pack) -> int:
    """Return the bytes of one tile in shared memory. A block has two tiles."""
    capacity = of.each * of.threads
    padded = capacity + (capacity >> of.pad_shift) * of.pad
    return -(-padded * walk.dst_bytes // 16) * 16


def _score(walk: Walk, gpu: Limits, of: Pack, useful: float) -> None:
    run_out, run_in = size_of(of.chunks, of.run_out), size_of(of.chunks, of.run_in)
    out_bytes, in_bytes = run_out * walk.dst_bytes, run_in * walk.src_bytes
    of.min_run_bytes = min(out_bytes, in_bytes)
    # The length of src's run is doubled: bytes that are loaded after the end of a run stay in the
    # cache, and the next run uses them.
    of.has_long_runs = min(out_bytes, 2 * in_bytes) >= score.PACK_RUN_BYTES
    _deal(walk, gpu, of)
    waves = min(1.0, of.blocks / (of.resident * gpu.multiprocessors))
    narrow = (of.load * walk.item < 16) + (of.store * walk.item < 16)
    for dims, run, strides, size, low, lost in (
        (of.run_out, run_out, walk.dst, walk.dst_bytes, walk.dst_low, score.PACK_LOST_STORED),
        (of.run_in, run_in, walk.src, walk.src_bytes, walk.src_low, score.PACK_LOST_LOADED),
    ):
        nbytes = run * size
        steps = [nbytes, *[s for d, s in enumerate(strides) if d not in dims]]
        grain = access_bytes(low, steps)
        if grain == 16 and not any(s % score.SECTOR_BYTES for s in steps):
            grain = score.SECTOR_BYTES
        useful *= nbytes / (nbytes + lost * (1 - grain / score.SECTOR_BYTES))
    issue = issue_time(walk, gpu, of)
    filled = _fill(walk, of) ** score.PACK_WASTE
    of.score = score.score(walk.item, narrow, useful, waves, issue, filled)


def _fill(walk: Walk, of: Pack) -> float:
    return walk.numel / (tiles(walk, of) * of.each * of.threads)


def issue_time(walk: Walk, gpu: Limits, of: Pack) -> float:
    needed = score.PACK_INSTRUCTIONS[walk.item][0 if of.is_wide else 1]
    return score.issue_time(gpu, needed, _fill(walk, of), is_in_l2=walk.nbytes <= gpu.l2_bytes)


def _deal(walk: Walk, gpu: Limits, of: Pack) -> None:
    """Distribute the tiles among blocks."""
    registers = score.PACK_REGISTERS[walk.item][0 if of.is_wide else 1]
    shared = 2 * buffer_bytes(walk, of)
    of.resident = score.blocks_per_multiprocessor(gpu, registers, of.threads, shared)
    count, slots = tiles(walk, of), of.resident * gpu.multiprocessors
    of.per_block = min(score.PACK_TILES, ceil(count / slots))
    of.blocks = ceil(count / of.per_block)


# --- banks ----------------------------------------------------------------------------------------


def positions(walk: Walk, of: Pack, count: int) -> list[int]:
    """Return the positions in a tile, in elements, of the first `count` elements in the order of
    dst."""
    place = {}
    step = 1
    for d in (*of.run_in, *of.rows_in):
        place[d] = step
        step *= of.chunks[d]
    found = [0]
    for d in (*of.run_out, *of.rows_out):
        if len(found) >= count:
            break
        # At most so many indices of this dimension are among the first `count` elements.
        needed = min(of.chunks[d], -(-count // len(found)))
        found = [f + i * place[d] for i in range(needed) for f in found]
    return found[:count]


def conflicts(addresses: list[int], itemsize: int) -> int:
    """Return the number of passes that the busiest memory bank needs for one access of a warp. One
    access serves all 32 lanes if each lane reads at most four bytes. Otherwise it serves as many
    lanes as read 128 bytes together."""
    width = max(itemsize, 4)
    banks: dict[int, set[int]] = {}
    for address in addresses[: _ROW_BYTES // width]:
        unit = address // width
        banks.setdefault(unit % (_ROW_BYTES // width), set()).add(unit)
    return max(map(len, banks.values()))


def _padding(walk: Walk, of: Pack) -> tuple[int, int]:
    lanes = positions(walk, of, _WARP * of.store)[:: of.store]
    return _best_padding(tuple(lanes), walk.dst_bytes, of.load, of.threads)


@lru_cache(1 << 10)
def _best_padding(lanes: tuple[int, ...], size: int, load: int, threads: int) -> tuple[int, int]:
    """Return (pad_shift, pad) in elements for the padding with the fewest bank conflicts. Of
    several such paddings, return the one that needs the least memory.

    lanes: the positions of the elements that a warp stores. Layouts of different sizes often have
    equal lanes, so the result is cached.
    """
    aligned = max(1, load * size // 4)  # A vector has this number of words in the tile.
    best, chosen = None, (0, 0)
    for every, more in score.PACK_PADS:
        if more % aligned and more:
            more *= aligned
        shift = (every * 4 // size if size <= 4 else max(1, every * 4 // size)).bit_length() - 1
        pad = max(1, more * 4 // size) if more else 0
        if more and 1 << shift > threads * load:
            continue  # With this padding, the distances between a thread's vectors would differ.
        at = [(f + (f >> shift) * pad) * size for f in lanes]
        found = (conflicts(at, size), pad / (1 << shift))
        if best is None or found < best:
            best, chosen = found, (shift, pad)
        if best[0] == 1:
            break
    return chosen
