"""How a same-dtype copy between two layouts is walked: pure integers, no array is seen.

`plan` gives a Walk and one of four ways to go through it; `copy_walk.py` goes.

rows     NumPy's own copy of views, whole or box by box: both sides run along one dimension, or
         what dst's order comes back to is still in a cache.
lanes    one side's innermost dimension is short (channels): a copy per index of it, so that NumPy
         loops over the long dimension instead.
tiles    each side runs along another dimension: boxes that hold a run of both, copied to a scratch
         whose pitch is no power of two, and from there to `dst`.
gather   as tiles, but every dimension is so short that NumPy's inner loops would be: the box is
         permuted by a table of indices, equal for all boxes.
"""

from __future__ import annotations

from collections.abc import Sequence

ROWS, LANES, TILES, GATHER = "rows", "lanes", "tiles", "gather"

# Elements of a box along dst's run, by element size: going along it touches a cache line of the
# source or scratch for each, and all of them must stay in the L1 cache for the next column.
_TILE_ROWS = {1: 512, 2: 512, 4: 256, 8: 256}
_TILE_ROWS_ELSE = 128
# Bytes of a box: what a scratch may take of the L2 cache.
_TILE_NBYTES = 1 << 19
# Bytes of a box without a scratch; larger ones mean fewer calls between which threads wait.
_LANES_NBYTES = _DIRECT_NBYTES = 1 << 20
# Elements: a dimension this short is walked by lanes, and lines this few stay in any L1 cache.
_LANE, _FEW = 8, 16
# Element bytes from which a line serves too few columns for the L1 cache to matter, and the rows of
# a box then.
_WIDE, _DIRECT_ROWS = 8, 2048
# Bytes from one row to the next up to which words need no scratch either, with boxes of these rows
# (0.6 to 0.9 of the time with one); and 16-byte elements where rows share few sets of the cache.
_WORD, _WORD_ROWS, _WORD_PITCH = 4, 512, 1 << 15
_WIDEST, _WIDEST_ROWS, _WIDEST_PITCH = 16, 256, 1 << 14
_LINE = 64
# An inner loop below this costs more than looking each element up in a table of indices.
_SHORTEST_LOOP = 6
# Below this a loop costs as much to begin as to run, so one pass from a slower cache beats two; the
# bytes of source lines up to which that cache has them.
_SHORT_LOOP, _FOOTPRINT_NBYTES = 16, 1 << 18
# Bytes, see Note [Runs as elements].
_LONGEST_ELEMENT = 512


class Walk:
    """Dimensions of a copy, index 0 fastest in `dst`; strides in bytes, none negative."""

    __slots__ = ("itemsize", "shape", "dst", "src")
    itemsize: int
    shape: list[int]
    dst: list[int]
    src: list[int]

    def __init__(self, itemsize: int, shape: list[int], dst: list[int], src: list[int]) -> None:
        self.itemsize, self.shape, self.dst, self.src = itemsize, shape, dst, src

    def __repr__(self) -> str:
        return f"Walk({self.itemsize}, {self.shape}, dst={self.dst}, src={self.src})"


def normalise(
    itemsize: int, shape: Sequence[int], dst: Sequence[int], src: Sequence[int], alignment: int
) -> Walk:
    """Drop, sort and merge dimensions, then read runs as wider elements.

    alignment: a power of two that divides both addresses.
    """
    dims = sorted((d, s, n) for n, d, s in zip(shape, dst, src) if n != 1)
    merged: list[list[int]] = []
    for d, s, n in dims:
        if merged and d == merged[-1][0] * merged[-1][2] and s == merged[-1][1] * merged[-1][2]:
            merged[-1][2] *= n
        else:
            merged.append([d, s, n])
    walk = Walk(itemsize, [m[2] for m in merged], [m[0] for m in merged], [m[1] for m in merged])
    _widen(walk, alignment)
    return walk


def _widen(walk: Walk, alignment: int) -> None:
    """Note [Runs as elements]: where both sides run along one dimension, a short run becomes one
    element. NumPy moves an element of any size with one memmove, which is 2 to 3 times as fast as
    an inner loop over a short run (V12 elements 10 GB/s, a loop over three f32 3.7). A long run is
    read as words of up to 16 bytes, where alignment allows.
    """
    if not walk.shape or walk.dst[0] != walk.itemsize or walk.src[0] != walk.itemsize:
        return
    run = walk.shape[0] * walk.itemsize
    if run <= _LONGEST_ELEMENT:
        walk.itemsize = run
        del walk.shape[0], walk.dst[0], walk.src[0]
        return
    word = walk.itemsize
    strides = (*walk.dst[1:], *walk.src[1:])
    while word < 16 and run % (2 * word) == 0:
        if min(2 * word, 8) > alignment or any(s % min(2 * word, 8) for s in strides):
            break
        word *= 2
    walk.itemsize = walk.dst[0] = walk.src[0] = word
    walk.shape[0] = run // word


class Plan:
    """kind; the walk; order: its dimensions by src stride; box: elements per dimension of a piece,
    None where NumPy's own order is right and threads alone divide the work.

    lane: the short dimension of LANES.
    """

    __slots__ = ("kind", "walk", "box", "order", "lane")
    kind: str
    walk: Walk
    lane: int

    def __init__(
        self, kind: str, walk: Walk, box: list[int] | None, order: list[int], lane: int = -1
    ) -> None:
        self.kind, self.walk, self.box, self.order, self.lane = kind, walk, box, order, lane


def plan(walk: Walk) -> Plan:
    """The way to copy `walk`."""
    shape, src = walk.shape, walk.src
    order = sorted((d for d in range(len(shape)) if src[d]), key=lambda d: (src[d], d))
    if not order or order[0] == 0 or 0 not in order or walk.itemsize >= _LINE:
        return Plan(ROWS, walk, None, order)
    x = order[0]
    if _rereads_from_cache(walk, x):
        return Plan(ROWS, walk, None, order)
    lane = _lane(walk, x)
    if lane is not None:
        return Plan(LANES, walk, _lanes_box(walk, lane), order, lane=lane)
    direct = _stays_in_cache(walk)
    rows = _TILE_ROWS.get(walk.itemsize, _TILE_ROWS_ELSE)
    if direct and walk.itemsize >= _WIDEST and walk.src[0] % 256 == 0:
        rows = _WIDEST_ROWS
    elif direct and walk.itemsize >= _WORD:
        rows = _DIRECT_ROWS if walk.itemsize >= _WIDE else _WORD_ROWS
    box = [1] * len(shape)
    _fill(box, shape, range(len(shape)), rows)
    # more rows only where no other dimension is left
    _fill(box, shape, [*(d for d in order if d), 0], _TILE_NBYTES // walk.itemsize)
    is_short = min(box[0], box[x]) < _SHORT_LOOP or walk.itemsize >= _WIDE
    if is_short and _fits_the_cache(walk, x):
        return Plan(ROWS, walk, None, order)
    if min(box[0], box[x]) < _SHORTEST_LOOP:
        return Plan(GATHER, walk, box, order)
    if not direct:
        return Plan(TILES, walk, box, order)
    # what lies outside x in dst's order is walked outside it, so more of it does no harm
    _fill(box, shape, range(x, len(shape)), _DIRECT_NBYTES // walk.itemsize)
    return Plan(ROWS, walk, box, order)


def _rereads_from_cache(walk: Walk, x: int) -> bool:
    """True if NumPy's order, dst's, comes back to each source line while a cache still has it."""
    if x == 1 and walk.shape[0] <= _FEW:
        return walk.shape[0] > _LANE
    span_bytes = max(walk.src[d] * walk.shape[d] for d in range(x + 1))
    if walk.shape[x] <= _LANE:
        return span_bytes <= _LANES_NBYTES
    pitch_bytes = walk.src[0]
    return span_bytes <= _TILE_NBYTES and pitch_bytes < 1024 and pitch_bytes % 256 != 0


def _fits_the_cache(walk: Walk, x: int) -> bool:
    """True if the source lines that dst's order touches before it goes along x stay in L2."""
    lines, is_spread = 1, False
    for length, stride in zip(walk.shape[:x], walk.src[:x]):
        lines *= length
        is_spread = is_spread or stride % 256 != 0
    return is_spread and lines * _LINE <= _FOOTPRINT_NBYTES


def _lane(walk: Walk, x: int) -> int | None:
    """The short one of dst's and src's innermost dimensions, if without it both run alike."""
    lane = 0 if walk.shape[0] <= walk.shape[x] else x
    rest = [d for d in range(len(walk.shape)) if d != lane]
    if walk.shape[lane] > _LANE or not rest:
        return None
    inner = min(rest, key=lambda d: walk.dst[d])
    same = all(walk.src[inner] <= walk.src[d] for d in rest if walk.src[d])
    return lane if same and walk.shape[inner] >= 32 else None


def _stays_in_cache(walk: Walk) -> bool:
    """True if the source lines along dst's run stay in the L1 cache without a scratch.

    Either they are few, or they fall into many of its sets and few memory pages. Wide elements
    use a line up in so few columns that the sets alone decide, and the widest in fewer still.
    """
    pitch_bytes = walk.src[0]
    if walk.shape[0] <= _FEW:
        return True
    if pitch_bytes % 256 == 0:
        return walk.itemsize >= _WIDEST and pitch_bytes <= _WIDEST_PITCH
    if walk.itemsize >= _WIDE or pitch_bytes < 1024:
        return True
    return walk.itemsize == _WORD and pitch_bytes <= _WORD_PITCH


def _fill(box: list[int], shape: Sequence[int], dims: Sequence[int], target: int) -> None:
    """Widen `box` along `dims`, in their order, until it holds about `target` elements."""
    volume = 1
    for part in box:
        volume *= part
    for d in dims:
        if volume * 2 > target:
            return
        volume //= box[d]
        box[d] = max(box[d], even_part(shape[d], target // volume))
        volume *= box[d]


def even_part(length: int, target: int) -> int:
    """A size near `target` that cuts `length` into parts of almost one size."""
    parts = max(1, round(length / target))
    return -(-length // parts)


def _lanes_box(walk: Walk, lane: int) -> list[int]:
    """All lanes of a piece that stays in the L2 cache, as each lane goes through all of it."""
    box = [1] * len(walk.shape)
    box[lane] = walk.shape[lane]
    _fill(box, walk.shape, range(len(box)), _LANES_NBYTES // walk.itemsize)
    return box
