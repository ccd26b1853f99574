"""Every number that decides which copy kernel runs, and how: to be fitted anew by one sweep on a
GPU.

What is counted is said beside it, the rest are estimates that were never measured. What a device
has comes from its own attributes (runtime/device_limits.py). `copy_plan.py` reads these numbers;
nothing else does, but for tests.
"""

from __future__ import annotations

from functools import lru_cache

from ...runtime.device_limits import H200, Limits

# --- the device -----------------------------------------------------------------------------------

SECTOR_BYTES = 32
# Of what a multiprocessor could issue, four warp instructions a cycle, and of what its memory could
# move: what a kernel gets. One that needs more instructions than there are is bound by their issue.
ISSUE_SHARE, MEMORY_SHARE = 0.86, 0.87
LATENCY_NS = 900  # of a read: that long, bytes must be in flight for memory to be busy
L2_SPEED = 2.0  # over that of memory: what both sides of a copy that L2 holds are moved at

# --- which kernel ---------------------------------------------------------------------------------

SMALL_BYTES = 64 << 10  # below, a launch costs more than any layout
LONG_RUN_BYTES = 128  # a common run of dst and src this long is ROW's without a question
TILE_RUN_BYTES = 64  # TILE needs runs this long in the one dimension that dst or src is dense in
PACK_RUN_BYTES = 64  # PACK needs runs this long in several; below, ELEM
SKINNY_CHANNELS, SKINNY_PIXELS = 16, 256  # at most; at least
SKINNY_RATIO = 4  # of the item sizes, at most: a thread's channels are whole words
NEAR_STEPS = 4  # a stride of so many elements still counts as a direction to read along
SCATTERED_TILE = 4096  # elements of a plane that no side is dense in, from which a tile pays

# --- ROW ------------------------------------------------------------------------------------------

ROW_BLOCK = 256
LONG_ROW_BYTES = 2048  # from here a block stays in one row, so that one division serves a thread
SHIFTED_FROM_BYTES = 512  # rows so long
SHIFTED_BELOW = 4  # whose widest access is below so many bytes
REPEATS_PER_BLOCK = 16  # stores for each load of what is broadcast, where there is enough of it

# --- TILE -----------------------------------------------------------------------------------------

TILE_SIDE = {1: 128, 2: 128, 4: 64, 8: 32, 16: 16}  # elements, by the wider item
# (rows, columns) where columns of dst begin anywhere and whole sectors are stored, by the wider
# item: tall ones, since a tile reads a sector's rows more than it stores.
TILE_OF_SECTORS = {1: (256, 128), 2: (256, 64), 4: (128, 64), 8: (128, 32)}
TILE_SQUARE_BYTES = 128  # of a thread's square in registers, at most
TILE_THREAD_BYTES = {1: 128, 2: 128, 4: 64, 8: 64, 16: 64}  # of loads in flight
TILE_WAVES = 2  # of blocks; with fewer of them, the smaller tile
TILE_GROUP = 8  # columns of tiles that neighbouring blocks cover
TILE_FILLS = 0.9  # of the best tile's share of busy threads, for a larger one to be taken
TILE_ENOUGH = 0.8  # a share of busy threads below which PACK is asked, too
# Of that share in the score. TILE of 0.61, 0.23 and 0.14 got 0.43, 0.08 and 0.06 of memcpy on an
# H100; PACK, whose next tile is on its way meanwhile, loses less.
TILE_WASTE, PACK_WASTE = 1.7, 0.5

# --- PACK -----------------------------------------------------------------------------------------

# (elements of a thread, threads), by the wider item: where both sides move words or more at a time
# (16 bytes of items of four and more), else. Offsets of elements are kept in registers.
PACK_WIDE = {1: (16, 512), 2: (16, 256), 4: (16, 256), 8: (8, 256), 16: (4, 256)}
PACK_NARROW = {1: (12, 512), 2: (8, 512), 4: (8, 256), 8: (8, 256), 16: (4, 256)}
PACK_RUNS_BYTES = (256, 512, 128, 64)  # runs of dst that are tried; src's is what then fits, up to
PACK_LONGEST_BYTES = 1024
# What a run costs that begins anywhere in a sector, in bytes: memory reads a sector that is stored
# in part before it is written, and what is loaded beyond a run is in the cache for its neighbour.
PACK_LOST_STORED, PACK_LOST_LOADED = 80, 4
# Of a block, at most: one is loaded while the other is stored. On an H100 two were the fastest in
# every layout that was tried, and sixteen up to 30 % slower.
PACK_TILES = 2
PACK_RESIDENT = 2  # blocks of a multiprocessor; where fewer fit, half as many elements a thread
PAGE_BYTES = 2 << 20  # that one entry of a TLB covers
# (every so many words, so many words more): paddings of a tile that are tried against conflicts.
PACK_PADS = ((32, 0), (32, 1), (64, 1), (128, 1), (256, 1), (32, 2), (64, 2), (32, 4), (64, 4))

# --- instructions ---------------------------------------------------------------------------------

# How a side of TILE moves: 16 bytes at a time, four, four out of two aligned words (for dst, whole
# sectors of eight bytes out of two of shared memory), or single elements.
WIDE, WORD, SHIFTED, SINGLE = "WIDE", "WORD", "SHIFTED", "SINGLE"
# Warp instructions per 512 bytes of the wider item, by its size, then by loads and stores. Counted
# in the machine code for sm_90, on the path of whole tiles (tests/cuda/test_copy_compile.py holds
# them).
TILE_INSTRUCTIONS = {
    1: {
        WIDE: {WIDE: 31, SHIFTED: 80, SINGLE: 124},
        WORD: {WIDE: 43, SHIFTED: 90, SINGLE: 134},
        SHIFTED: {WIDE: 59, SHIFTED: 106, SINGLE: 150},
        SINGLE: {WIDE: 83, SHIFTED: 136, SINGLE: 177},
    },
    2: {
        WIDE: {WIDE: 30, SHIFTED: 75, SINGLE: 69},
        WORD: {WIDE: 36, SHIFTED: 87, SINGLE: 79},
        SHIFTED: {WIDE: 53, SHIFTED: 104, SINGLE: 94},
        SINGLE: {WIDE: 56, SHIFTED: 111, SINGLE: 115},
    },
    4: {
        WIDE: {WIDE: 40, SHIFTED: 75, SINGLE: 57},
        SINGLE: {WIDE: 47, SHIFTED: 88, SINGLE: 74},
    },
    8: {WIDE: {WIDE: 40, SINGLE: 47}, SINGLE: {WIDE: 39, SINGLE: 49}},
    16: {WIDE: {WIDE: 38}},
}
# The same of a tile of PACK with four outer dimensions: both sides wide, or not.
PACK_INSTRUCTIONS = {1: (123, 282), 2: (66, 164), 4: (38, 81), 8: (31, 41), 16: (32, 32)}
# The share of memcpy's speed that is left for each side whose accesses are narrower than 16 bytes.
NARROW_SIDE = {1: 0.85, 2: 0.92, 4: 0.95, 8: 0.97, 16: 1.0}
# Registers a thread, as ptxas gives them, rounded up to what a multiprocessor hands out: of TILE
# where both sides are wide, where one is not, and where whole sectors are stored; of PACK as above.
TILE_REGISTERS = {1: (56, 64, 64), 2: (64, 64, 64), 4: (40, 40, 64), 8: (32, 32, 64), 16: (32, 32)}
PACK_REGISTERS = {1: (48, 64), 2: (64, 64), 4: (64, 48), 8: (48, 64), 16: (48, 48)}


def blocks_per_multiprocessor(gpu: Limits, registers: int, threads: int, shared_bytes: int) -> int:
    """How many blocks of a kernel a multiprocessor holds."""
    by_registers = gpu.registers // (registers * threads)
    by_shared = gpu.shared_bytes // max(1, shared_bytes + gpu.reserved_shared_bytes)
    return max(1, min(gpu.threads // threads, gpu.blocks, by_registers, by_shared))


@lru_cache(64)
def issued_per_unit(gpu: Limits) -> float:
    """Warp instructions that there are while memcpy reads 512 bytes: H200's where nobody says."""
    if not _bytes_per_ms(gpu) or not gpu.clock_khz:
        return issued_per_unit(H200)
    units_per_ms = _bytes_per_ms(gpu) / 512
    return ISSUE_SHARE * 4 * gpu.multiprocessors * gpu.clock_khz / units_per_ms


@lru_cache(64)
def bytes_in_flight(gpu: Limits) -> float:
    """What a multiprocessor must have asked for at any time for memory to be busy."""
    if not _bytes_per_ms(gpu):
        return bytes_in_flight(H200)
    return _bytes_per_ms(gpu) * LATENCY_NS / 1e6 / gpu.multiprocessors


def _bytes_per_ms(gpu: Limits) -> float:
    """What memcpy reads; it writes as much."""
    return MEMORY_SHARE * 2 * gpu.memory_clock_khz * (gpu.memory_bits // 8) / 2


def side_of(elements: int, itemsize: int) -> str:
    """Which of WIDE to SINGLE an access of so many elements is; 0 of them is SHIFTED."""
    if not elements:
        return SHIFTED
    return WIDE if elements * itemsize >= 16 else WORD if elements > 1 else SINGLE


def tile_instructions(itemsize: int, load: str, store: str) -> int:
    """Warp instructions per 512 bytes; those of single elements for what was not counted."""
    counted = TILE_INSTRUCTIONS[itemsize]
    stores = counted.get(load) or counted.get(SINGLE) or counted[WIDE]
    return stores.get(store) or stores.get(SINGLE) or stores[WIDE]


def issue_time(gpu: Limits, instructions: float, fill: float, *, is_in_l2: bool) -> float:
    """How long a unit's instructions take where its bytes, at memcpy's speed, take 1.

    fill: the share of threads with work. is_in_l2: L2 holds both sides.
    """
    there_are = issued_per_unit(gpu) / (L2_SPEED if is_in_l2 else 1.0)
    return instructions / (there_are * fill)


def score(
    itemsize: int, narrow_sides: int, useful: float, waves: float, issue: float, filled: float
) -> float:
    """What to maximise: the share of memcpy's speed that is left.

    itemsize: of the wider element. narrow_sides: whose accesses are below 16 bytes. useful: bytes
    asked for per byte of the sectors touched. waves: the share of slots for blocks that are busy.
    issue: see `issue_time`. filled: what the share of threads with work leaves.
    """
    bound = min(1.0, 1 / issue)
    narrow: float = NARROW_SIDE[itemsize] ** narrow_sides
    return useful * waves * bound * filled * narrow
