"""Constants for the choice of the copy kernel and its parameters. A sweep of measurements on a GPU
can fit them again.

A comment says where a value was measured or counted; all other values are estimates. Device limits
are in runtime/device_limits.py. Only `copy_plan.py` and tests read these numbers.
"""

from __future__ import annotations

from functools import lru_cache

from ...runtime.device_limits import H200, Limits

# --- the device -----------------------------------------------------------------------------------

SECTOR_BYTES = 32
# The shares of a multiprocessor's issue rate (four warp instructions per cycle) and of its memory
# rate that a kernel achieves. If the instructions need more time than the memory accesses, the
# issue rate limits the kernel.
ISSUE_SHARE, MEMORY_SHARE = 0.86, 0.87
# The latency of a read in ns. The memory is fully used if enough bytes are in flight during this
# time.
LATENCY_NS = 900
# A copy within L2 is this many times as fast as a copy in memory.
L2_SPEED = 2.0

# --- which kernel ---------------------------------------------------------------------------------

# For fewer bytes, the launch takes most of the time, whatever the layout is.
SMALL_BYTES = 64 << 10
# If dst and src share a run of at least this length, ROW is used.
LONG_RUN_BYTES = 128
# TILE needs a run of at least this length in the dense dimension of dst or src.
TILE_RUN_BYTES = 64
# PACK needs runs of at least this length, over several dimensions. ELEM copies shorter runs.
PACK_RUN_BYTES = 64
# The maximum number of channels and the minimum number of pixels for SKINNY.
SKINNY_CHANNELS, SKINNY_PIXELS = 16, 256
# The maximum ratio of the item sizes of src and dst for SKINNY. With a larger ratio, the channels
# of a thread would not be whole words.
SKINNY_RATIO = 4
# The dimension along which src is read may have a stride of at most this many elements.
NEAR_STEPS = 4
# If src has no direction (Note [Directions] in copy_plan.py), or if PACK cannot scale the channels,
# TILE is used only for planes with at least this number of elements.
SCATTERED_TILE = 4096

# --- ROW ------------------------------------------------------------------------------------------

ROW_BLOCK = 256
# Rows of at least this length are divided among blocks. A thread then computes one integer
# division, instead of one for each unit.
LONG_ROW_BYTES = 2048
# Rows of fewer bytes are copied without shifted accesses.
SHIFTED_FROM_BYTES = 512
# Shifted accesses are used if aligned accesses would have fewer bytes than this.
SHIFTED_BELOW = 4
REPEATS_PER_BLOCK = 16  # A repeated element is loaded once for up to this number of stores.

# --- TILE -----------------------------------------------------------------------------------------

# The side of a square tile in elements, by the size of the wider item.
TILE_SIDE = {1: 128, 2: 128, 4: 64, 8: 32, 16: 16}
# (rows, columns) of a tile, by the size of the wider item, if columns of dst begin inside a memory
# sector. A tile then also reads as many additional rows as fill one sector, but does not store
# them. In a tall tile, the additional rows are a small share.
TILE_OF_SECTORS = {1: (256, 128), 2: (256, 64), 4: (128, 64), 8: (128, 32)}
# A thread keeps squares of at most this size in registers.
TILE_SQUARE_BYTES = 128
# The number of bytes that a thread loads before it waits.
TILE_THREAD_BYTES = {1: 128, 2: 128, 4: 64, 8: 64, 16: 64}
# The larger tile is used only if it gives at least this many waves of blocks.
TILE_WAVES = 2
# Blocks process tiles in groups of this number of adjacent tile columns.
TILE_GROUP = 8
# Of all tiles whose share of busy threads is at least this fraction of the best share, the largest
# is used.
TILE_FILLS = 0.9
# If TILE's share of busy threads is smaller than this, PACK is scored as an alternative.
TILE_ENOUGH = 0.8
# The exponents of the share of busy threads in the score. With shares of 0.61, 0.23 and 0.14, TILE
# reached 0.43, 0.08 and 0.06 of memcpy's speed on an H100. PACK loses less speed, because it loads
# the next tile at the same time.
TILE_WASTE, PACK_WASTE = 1.7, 0.5

# --- PACK -----------------------------------------------------------------------------------------

# (elements per thread, threads) by the size of the wider item. PACK_WIDE: both sides move words or
# more (16 bytes for items of four bytes and more). PACK_NARROW: all other cases. A thread keeps the
# offsets of its elements in registers.
PACK_WIDE = {1: (16, 512), 2: (16, 256), 4: (16, 256), 8: (8, 256), 16: (4, 256)}
PACK_NARROW = {1: (12, 512), 2: (8, 512), 4: (8, 256), 8: (8, 256), 16: (4, 256)}
# Lengths of dst's run to try, in bytes. src's run is the longest that still fits.
PACK_RUNS_BYTES = (256, 512, 128, 64)
PACK_LONGEST_BYTES = 1024
# The cost of an unaligned run, as a number of additional bytes: for stores, and for loads. Memory
# reads a partially stored sector before writing it. Bytes loaded after the end of a run stay in the
# cache for the next run.
PACK_LOST_STORED, PACK_LOST_LOADED = 80, 4
# The maximum number of tiles per block: one is loaded while the other one is stored. On an H100,
# two tiles were the fastest in every tested layout; sixteen tiles were up to 30 % slower.
PACK_TILES = 2
# The wanted number of blocks per multiprocessor. If fewer fit, the number of elements per thread is
# halved.
PACK_RESIDENT = 2
# One TLB entry covers this number of bytes.
PAGE_BYTES = 2 << 20
# Paddings that are compared by their bank conflicts, as (words between two paddings, words of a
# padding).
PACK_PADS = ((32, 0), (32, 1), (64, 1), (128, 1), (256, 1), (32, 2), (64, 2), (32, 4), (64, 4))

# --- instructions ---------------------------------------------------------------------------------

# The kinds of accesses of TILE. WIDE: 16 bytes. WORD: four bytes. SHIFTED: four bytes from two
# aligned words (for dst, whole sectors of eight bytes from two words of shared memory). SINGLE: one
# element.
WIDE, WORD, SHIFTED, SINGLE = "WIDE", "WORD", "SHIFTED", "SINGLE"
# Warp instructions per 512 bytes of the wider item, by the item's size, then by the kinds of loads
# and stores. They were counted in sm_90 machine code for whole tiles
# (tests/cuda/compile/test_copy_compile.py checks them).
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
# Warp instructions of a PACK tile with four outer dimensions, by item size. The first number is for
# tiles in which both sides are wide, the second for all other tiles.
PACK_INSTRUCTIONS = {1: (123, 282), 2: (66, 164), 4: (38, 81), 8: (31, 41), 16: (32, 32)}
# The speed is multiplied by this factor for each side with accesses of less than 16 bytes.
NARROW_SIDE = {1: 0.85, 2: 0.92, 4: 0.95, 8: 0.97, 16: 1.0}
# Registers per thread from ptxas, rounded up to the allocation unit. For TILE: with both sides
# wide, with one side not wide, and if whole sectors are stored. For PACK: with both sides wide, and
# otherwise.
TILE_REGISTERS = {1: (56, 64, 64), 2: (64, 64, 64), 4: (40, 40, 64), 8: (32, 32, 64), 16: (32, 32)}
PACK_REGISTERS = {1: (48, 64), 2: (64, 64), 4: (64, 48), 8: (48, 64), 16: (48, 48)}


def blocks_per_multiprocessor(gpu: Limits, registers: int, threads: int, shared_bytes: int) -> int:
    """Return the number of blocks of a kernel that are resident on a multiprocessor."""
    by_registers = gpu.registers // (registers * threads)
    by_shared = gpu.shared_bytes // max(1, shared_bytes + gpu.reserved_shared_bytes)
    return max(1, min(gpu.threads // threads, gpu.blocks, by_registers, by_shared))


@lru_cache(64)
def issued_per_unit(gpu: Limits) -> float:
    """Return the number of warp instructions that can be issued while memcpy reads 512 bytes. For
    an unknown GPU, return the H200's number."""
    if not _bytes_per_ms(gpu) or not gpu.clock_khz:
        return issued_per_unit(H200)
    units_per_ms = _bytes_per_ms(gpu) / 512
    return ISSUE_SHARE * 4 * gpu.multiprocessors * gpu.clock_khz / units_per_ms


@lru_cache(64)
def bytes_in_flight(gpu: Limits) -> float:
    """Return the number of bytes that a multiprocessor must have in flight to use the memory
    fully."""
    if not _bytes_per_ms(gpu):
        return bytes_in_flight(H200)
    return _bytes_per_ms(gpu) * LATENCY_NS / 1e6 / gpu.multiprocessors


def _bytes_per_ms(gpu: Limits) -> float:
    """Return the number of bytes that memcpy reads per ms, which is also the number that it
    writes."""
    return MEMORY_SHARE * 2 * gpu.memory_clock_khz * (gpu.memory_bits // 8) / 2


def side_of(elements: int, itemsize: int) -> str:
    """Return the kind of an access of this number of elements, from WIDE to SINGLE; SHIFTED for
    0."""
    if not elements:
        return SHIFTED
    return WIDE if elements * itemsize >= 16 else WORD if elements > 1 else SINGLE


def tile_instructions(itemsize: int, load: str, store: str) -> int:
    """Return the warp instructions per 512 bytes. If they were not counted for these kinds, return
    the number for single elements."""
    counted = TILE_INSTRUCTIONS[itemsize]
    stores = counted.get(load) or counted.get(SINGLE) or counted[WIDE]
    return stores.get(store) or stores.get(SINGLE) or stores[WIDE]


def issue_time(gpu: Limits, instructions: float, fill: float, *, is_in_l2: bool) -> float:
    """Return the issue time of a unit's instructions, relative to the time in which memcpy moves
    the unit's bytes.

    fill: the share of threads with work. is_in_l2: both sides fit into L2.
    """
    there_are = issued_per_unit(gpu) / (L2_SPEED if is_in_l2 else 1.0)
    return instructions / (there_are * fill)


def score(
    itemsize: int, narrow_sides: int, useful: float, waves: float, issue: float, filled: float
) -> float:
    """Return the estimated speed of a plan relative to memcpy. The plan with the largest score is
    chosen.

    itemsize: bytes of the wider item. narrow_sides: the number of sides with accesses of less than
    16 bytes. useful: requested bytes per byte of the touched sectors. waves: the share of busy
    block slots. issue: see `issue_time`. filled: the factor for the share of threads with work.
    """
    bound = min(1.0, 1 / issue)
    narrow: float = NARROW_SIDE[itemsize] ** narrow_sides
    return useful * waves * bound * filled * narrow
