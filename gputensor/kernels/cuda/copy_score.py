"""Every number that decides which copy kernel runs, and how: to be fitted anew by one sweep on a GPU.

What is counted is said beside it; what stands for a device was read of an H200 and never measured
here. `copy_plan.py` reads these; nothing else does, but for tests.
"""

from __future__ import annotations

# --- the device -----------------------------------------------------------------------------------

SMS = 132
THREADS_PER_SM, BLOCKS_PER_SM = 2048, 32
REGISTERS_PER_SM = 65536
SHARED_BYTES_PER_SM = 227 << 10
SECTOR_BYTES = 32
# Warp instructions a second (of all SMs), and 512-byte units a second that a copy at the speed of
# memcpy reads: a kernel with so many instructions a unit that it needs more than there are is bound
# by their issue.
INSTRUCTIONS_PER_NS = 900.0
UNITS_PER_NS = 4.2

# --- which kernel ---------------------------------------------------------------------------------

SMALL_BYTES = 64 << 10  # below, a launch costs more than any layout
LONG_RUN_BYTES = 128  # a common run of dst and src this long is ROW's without a question
TILE_RUN_BYTES = 64  # TILE needs runs this long in the one dimension that dst or src is dense in
PACK_RUN_BYTES = 64  # PACK needs runs this long in several; below, ELEM
SKINNY_CHANNELS, SKINNY_PIXELS = 16, 256  # at most; at least
SKINNY_RATIO = 4  # of the item sizes, at most: a thread's channels are whole words
NEAR_STEPS = 4  # a stride of so many elements still counts as a direction to read along
SCATTERED_TILE = 4096  # elements of a plane that no side is dense in, from which a tile pays

# --- ROW --------------------------------------------------------------------------------------------

ROW_BLOCK = 256
LONG_ROW_BYTES = 2048  # from here a block stays in one row, so that one division serves a thread
SHIFTED_FROM_BYTES = 512  # rows so long
SHIFTED_BELOW = 4  # whose widest access is below so many bytes
REPEATS_PER_BLOCK = 16  # stores for each load of what is broadcast, where there is enough of it

# --- TILE -------------------------------------------------------------------------------------------

TILE_SIDE = {1: 128, 2: 128, 4: 64, 8: 32, 16: 16}  # elements, by the wider item
TILE_SQUARE_BYTES = 128  # of a thread's square in registers, at most
TILE_THREAD_BYTES = {1: 128, 2: 128, 4: 64, 8: 64, 16: 64}  # of loads in flight
TILE_WAVES = 2  # of blocks; with fewer of them, the smaller tile
TILE_GROUP = 8  # columns of tiles that neighbouring blocks cover
TILE_FILLS = 0.9  # of the best tile's share of busy threads, for a larger one to be taken
TILE_ENOUGH = 0.8  # a share of busy threads below which PACK is asked, too
WASTE_EXPONENT = 0.5  # of that share in the score: idle threads cost flight, not bandwidth

# --- PACK -------------------------------------------------------------------------------------------

# (elements of a thread, threads), by the wider item: where both sides move words or more at a time
# (16 bytes of items of four and more), else. Offsets of elements are kept in registers.
PACK_WIDE = {1: (16, 512), 2: (16, 256), 4: (16, 256), 8: (8, 256), 16: (4, 256)}
PACK_NARROW = {1: (12, 512), 2: (8, 512), 4: (8, 256), 8: (8, 256), 16: (4, 256)}
PACK_RUNS_BYTES = (128, 256, 64, 512)  # runs of dst that are tried; src's is what then fits, up to
PACK_LONGEST_BYTES = 1024
PACK_TILES_PER_BLOCK = 16  # over which a block's offsets are used again
# (every so many words, so many words more): paddings of a tile that are tried against conflicts.
PACK_PADS = ((32, 0), (32, 1), (64, 1), (128, 1), (256, 1), (32, 2), (64, 2), (32, 4), (64, 4))

# --- instructions -----------------------------------------------------------------------------------

# Warp instructions per 512 bytes of the wider item, by its size: where both sides move 16 bytes at a
# time, and where either moves single elements. Counted in the machine code for sm_90, on the path
# that whole tiles take, four outer dimensions for PACK (tests/cuda/test_copy_compile.py holds them).
INSTRUCTIONS = {
    "tile": {1: (32, 196), 2: (30, 117), 4: (40, 76), 8: (41, 51), 16: (38, 38)},
    "pack": {1: (121, 282), 2: (66, 159), 4: (38, 81), 8: (31, 41), 16: (32, 32)},
}
# The share of memcpy's speed that is left for each side whose accesses are narrower than 16 bytes.
NARROW_SIDE = {1: 0.85, 2: 0.92, 4: 0.95, 8: 0.97, 16: 1.0}
# Registers a thread, as ptxas gives them, rounded up to what an SM hands out; as above for PACK.
TILE_REGISTERS = {1: 56, 2: 64, 4: 40, 8: 32, 16: 32}
PACK_REGISTERS = {1: (48, 64), 2: (64, 64), 4: (64, 48), 8: (48, 64), 16: (48, 48)}


def blocks_per_sm(registers: int, threads: int, shared_bytes: int) -> int:
    """How many blocks of a kernel an SM holds."""
    by_registers = REGISTERS_PER_SM // (registers * threads)
    by_shared = SHARED_BYTES_PER_SM // (shared_bytes + 1024)
    return max(1, min(THREADS_PER_SM // threads, BLOCKS_PER_SM, by_registers, by_shared))


def instructions(kernel: str, itemsize: int, is_wide: bool) -> float:
    """Warp instructions per 512 bytes."""
    return INSTRUCTIONS[kernel][itemsize][0 if is_wide else 1]


def score(
    kernel: str, itemsize: int, narrow_sides: int, useful: float, waves: float, fill: float
) -> float:
    """What to maximise: the share of memcpy's speed that is left.

    itemsize: of the wider element. narrow_sides: whose accesses are below 16 bytes. useful: bytes
    asked for per byte of the sectors touched. fill: the share of threads with work.
    """
    needed = UNITS_PER_NS * instructions(kernel, itemsize, narrow_sides == 0)
    issue = min(1.0, INSTRUCTIONS_PER_NS * fill / needed)
    return useful * waves * issue * fill**WASTE_EXPONENT * NARROW_SIDE[itemsize] ** narrow_sides
