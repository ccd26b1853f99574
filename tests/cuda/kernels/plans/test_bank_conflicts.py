"""Bank conflicts of the copy kernels, by a model of shared memory: the number of passes of each
access, compared with the least possible number.

32 banks of four bytes; a warp's 16-byte accesses are done by quarters, its 8-byte ones by halves.
The addresses repeat the kernels' formulas (`shared_at` of copy_tile.cu, `interleaved::at` of
copy_skinny.cu, `padded` of copy_pack.cu): change both together.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from gputensor.core.dtype import ALL, dtype
from gputensor.kernels.cuda import copy_pack_plan, copy_plan, copy_score
from gputensor.kernels.cuda.copy_launch import Layout
from gputensor.kernels.cuda.copy_walk import Walk, normalise
from gputensor.runtime.device_limits import H200

from ..copies import Copy, dense, some_copy
from ..kernel_arrays import SHORT

WARP, BANKS = 32, 32
_LANES = {16: 8, 8: 16}
ITEMS = [SHORT[s] for s in ("u8", "f16", "f32", "f64", "c128")]


def passes(addresses: list[int], nbytes: int) -> tuple[int, int]:
    """Return (passes of a warp's access with this number of bytes per lane, the least possible
    number)."""
    lanes = _LANES.get(nbytes, WARP)
    taken = 0
    for begin in range(0, len(addresses), lanes):
        banks: dict[int, set[int]] = {}
        for address in addresses[begin : begin + lanes]:
            for word in range(address // 4, (address + nbytes - 1) // 4 + 1):
                banks.setdefault(word % BANKS, set()).add(word)
        taken += max(map(len, banks.values()))
    return taken, -(-len(addresses) // lanes)


def worst(accesses: Iterable[tuple[list[int], int]]) -> float:
    return max(taken / least for taken, least in (passes(*access) for access in accesses))


def average(accesses: Iterable[tuple[list[int], int]]) -> float:
    found = [passes(*access) for access in accesses]
    return sum(taken for taken, _ in found) / sum(least for _, least in found)


def test_the_model_knows_a_conflict() -> None:
    assert passes([4 * t for t in range(32)], 4) == (1, 1)
    assert passes([128 * t for t in range(32)], 4) == (32, 1)
    assert passes([16 * t for t in range(32)], 16) == (4, 4)
    assert passes([32 * t for t in range(32)], 16) == (8, 4)
    assert passes(list(range(32)), 1) == (1, 1)
    assert passes([0] * 32, 4) == (1, 1)


# --- TILE -----------------------------------------------------------------------------------------


def tile_accesses(walk: Walk, plan: copy_plan.Tile) -> Iterable[tuple[list[int], int]]:
    """Stores of the columns of squares, then the loads for dst."""
    d = walk.dst_bytes
    wide = plan.load or 4 // walk.src_bytes
    tall = 8 if d == 1 and wide == 16 else 16 // d
    chunks, squares = plan.rows * d // 16, plan.columns // wide

    def at(column: int, byte: int) -> int:
        return (column * chunks + (byte // 16 ^ column // wide & 7)) * 16 + byte % 16

    for first in range(0, squares * plan.rows // tall, WARP):
        found = [(s % squares * wide, s // squares * tall) for s in range(first, first + WARP)]
        for c in range(wide):
            yield [at(column + c, row * d) for column, row in found], tall * d
    if not plan.store:
        yield from _sectors(walk, plan, at)
        return
    parts = plan.rows // plan.store
    for first in range(0, plan.columns * parts, WARP):
        units = range(first, first + WARP)
        yield [at(u // parts, u % parts * plan.store * d) for u in units], plan.store * d


def _sectors(walk: Walk, plan: copy_plan.Tile, at: Any) -> Iterable[tuple[list[int], int]]:
    """Loads of the units of columns, each from the first sector that begins in it."""
    d, unit = walk.dst_bytes, 8
    units, stored = plan.rows * d // unit, plan.step(d) * d
    for first in range(0, plan.columns * units, WARP):
        lanes = [divmod(u, units) for u in range(first, first + WARP)]
        leads = [-(walk.dst_low + column * walk.dst[plan.y]) % 32 for column, _ in lanes]
        begins = [  # lanes after the last unit are idle
            (column, lead + min(k * unit, stored - unit)) for (column, k), lead in zip(lanes, leads)
        ]
        for more in (0, unit):  # both of a thread's two units
            last = (units - 1) * unit
            yield [at(c, min(byte // unit * unit + more, last)) for c, byte in begins], unit


@pytest.mark.parametrize("d", ITEMS, ids=lambda d: d.short)
def test_tiles_have_no_conflicts(d: dtype) -> None:
    seen = set()
    for columns, rows in ((8192, 8192), (4096, 48), (40, 8192), (512, 512)):
        for low in ((0, 0), (4, 0), (0, d.itemsize), (d.itemsize, d.itemsize)):
            sizes = (rows, columns)
            strides = dense(sizes, d.itemsize), (d.itemsize, rows * d.itemsize)
            walk = normalise(Layout(sizes, strides, (d, d)), *low)
            plan = copy_plan.tile(walk, 1, H200)
            assert plan is not None
            seen.add((plan.load, plan.store, plan.rows, plan.columns))
            what = low, plan.load, plan.store, plan.columns
            assert worst(tile_accesses(walk, plan)) == 1.0, what
    assert len(seen) >= {1: 7, 2: 7, 4: 6, 8: 4, 16: 2}[d.itemsize]


def test_tiles_that_cast_have_no_conflicts() -> None:
    count = 0
    for to in ALL:
        for of in ALL:
            sizes = (4096, 4096)
            strides = dense(sizes, to.itemsize), (of.itemsize, 4096 * of.itemsize)
            plan = copy_plan.tile(walk := normalise(Layout(sizes, strides, (to, of))), 1, H200)
            if plan is not None and to is not of:
                count += 1
                assert worst(tile_accesses(walk, plan)) == 1.0, (to, of)
    assert count > 150


# --- SKINNY ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", range(2, copy_score.SKINNY_CHANNELS + 1))
def test_few_channels_have_no_conflicts(channels: int) -> None:
    for d, item in ((1, 1), (2, 2), (4, 4), (8, 8), (1, 2), (1, 4), (2, 4), (2, 8)):
        each = 16 // item * channels * d  # bytes of a thread
        chunk = 16 if each % 16 == 0 else 8 if each % 8 == 0 else 4
        chunks = each // chunk
        is_permuted = chunk == 16 and chunks % 2 == 0

        def at(byte: int, chunks: int = chunks, is_permuted: bool = is_permuted) -> int:
            c = byte // 16
            return (c & ~7 | (c ^ c // chunks) & 7) * 16 + byte % 16 if is_permuted else byte

        own = [
            ([at((t * chunks + k) * chunk) for t in range(first, first + WARP)], chunk)
            for k in range(chunks) for first in (0, 32, 96)
        ]  # fmt: skip
        linear = [([at(16 * u) for u in range(first, first + WARP)], 16) for first in (0, 32, 64)]
        assert worst(own) == 1.0 and worst(linear) == 1.0, (d, item)
        places = [at(16 * c) for c in range(256 * each // 16)]
        assert sorted(places) == [16 * c for c in range(len(places))], "two chunks in one place"


# --- PACK -----------------------------------------------------------------------------------------


def pack_accesses(walk: Walk, plan: copy_pack_plan.Pack) -> Iterable[tuple[list[int], int]]:
    """Linear stores in units of LOAD, then gathers of single elements."""
    d = walk.dst_bytes

    def at(element: int) -> int:
        return (element + (element >> plan.pad_shift) * plan.pad) * d

    for first in range(0, plan.threads, 64):
        yield [at((first + t) * plan.load) for t in range(WARP)], plan.load * d
    found = copy_pack_plan.positions(walk, plan, WARP * plan.store)
    for j in range(plan.store):
        yield [at(e) for e in found[j :: plan.store]], d


def test_packed_boxes_have_few_conflicts() -> None:
    """Scalar accesses have none; for vectors, the padding has the granularity of the vector."""
    rng, scalar, vector = random.Random(3), [], []
    for _ in range(400):
        d = rng.choice(ITEMS)
        copy = some_copy(rng, d, d, 200_000)
        walk = normalise(
            Layout(copy.sizes, (copy.dst, copy.src), (d, d)), *[o & 15 for o in copy.offsets]
        )
        plan = copy_pack_plan.pack(walk, H200)
        if plan is not None:
            (vector if plan.load > 1 else scalar).append(worst(pack_accesses(walk, plan)))
    assert len(scalar) > 20 and len(vector) > 20
    assert sum(scalar) / len(scalar) <= 1.5 and max(scalar) <= 4
    assert sum(vector) / len(vector) <= 2.5 and max(vector) <= 5


def test_the_cases_of_the_benchmark_pack_without_conflicts() -> None:
    """Odd dimensions and images of 7 x 7 pixels, of which a bench run consists."""
    for sizes, order, d in (
        ((19, 21, 23, 17, 13, 15), (5, 4, 3, 2, 1, 0), SHORT["f32"]),
        ((1024, 2048, 7, 7), (0, 2, 3, 1), SHORT["f16"]),
    ):
        source = dense(sizes, d.itemsize)
        turned = [sizes[k] for k in order]
        copy = Copy(turned, dense(turned, d.itemsize), [source[k] for k in order], d, d)
        walk = normalise(Layout(copy.sizes, (copy.dst, copy.src), (d, d)))
        plan = copy_pack_plan.pack(walk, H200)
        assert plan is not None and worst(pack_accesses(walk, plan)) <= 2.0
