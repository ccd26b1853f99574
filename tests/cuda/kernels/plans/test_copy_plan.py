"""Normalisation and plans of layout copies: integer arithmetic only, no kernel runs."""

from __future__ import annotations

import ast
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputensor.core import errors
from gputensor.kernels.cuda import (
    binding, copy_explain, copy_launch, copy_pack_plan, copy_plan, launch,
)  # fmt: skip
from gputensor.kernels.cuda import copy_score as score
from gputensor.kernels.cuda.copy_launch import Layout
from gputensor.kernels.cuda.copy_walk import Traffic, Walk, access_bytes, normalise, pieces
from gputensor.runtime.device_limits import A100, H100, H200, KNOWN, T4, Limits

from ....harness import tier
from ..copies import dense
from ..kernel_arrays import SHORT

U8, F16, F32, F64, C128 = (SHORT[s] for s in ("u8", "f16", "f32", "f64", "c128"))


def walk_of(
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    of: Any = F32,
    to: Any = None,
    low: tuple[int, int] = (0, 0),
) -> Walk:
    """x.permute(order).contiguous() of a dense x."""
    to = to or of
    source, turned = dense(sizes, of.itemsize), tuple([sizes[d] for d in order])
    strides = tuple(dense(turned, to.itemsize)), tuple([source[d] for d in order])
    return normalise(Layout(turned, strides, (to, of)), *low)


# --- properties -----------------------------------------------------------------------------------


@st.composite
def layouts(draw: Any) -> tuple[Layout, int, int]:
    """Random layouts: up to five small dimensions, dst without overlap, src with any strides;
    addresses modulo 16."""
    sizes = tuple(draw(st.lists(st.integers(1, 6), min_size=0, max_size=5)))
    item = draw(st.sampled_from([U8, F16, F32, F64, C128]))
    order = draw(st.permutations(range(len(sizes))))
    strides, step = [0] * len(sizes), item.itemsize
    for d in order:
        strides[d] = step * draw(st.sampled_from([1, 1, -1]))
        step = step * sizes[d] + item.itemsize * draw(st.sampled_from([0, 0, 1, 4]))
    multiples = st.integers(-8, 8).map(lambda k: k * item.itemsize)
    src = tuple([draw(multiples) for _ in sizes]) if draw(st.booleans()) else None
    if src is None:
        src = tuple(dense(sizes, item.itemsize, draw(st.permutations(range(len(sizes))))))
    lows = [draw(st.sampled_from(range(0, 16, item.itemsize))) for _ in range(2)]
    return Layout(sizes, (tuple(strides), src), (item, item)), *lows


def bytes_of(sizes: Any, strides: Any, itemsize: int, start: int) -> np.ndarray:
    """Return the offset of each byte of a side, in the order of the walk's elements."""
    grid = np.full([], start)
    for n, s in zip(sizes, strides):
        grid = grid[..., None] + np.arange(n) * s
    return (grid[..., None] + np.arange(itemsize)).ravel()


def moves(walk: Walk) -> dict[int, int]:
    """Return for each byte of dst the byte of src that it gets."""
    to = bytes_of(walk.sizes, walk.dst, walk.dst_bytes, walk.dst_offset)
    of = bytes_of(walk.sizes, walk.src, walk.src_bytes, walk.src_offset)
    return dict(zip(to.tolist(), of.tolist()))


@given(layouts())
@tier.examples(300)
def test_normalising_moves_the_same_bytes(case: tuple[Layout, int, int]) -> None:
    layout, dst_low, src_low = case
    plain = Walk()
    plain.sizes, (plain.dst, plain.src) = list(layout.shape), map(list, layout.stride_bytes)
    plain.dst_bytes = plain.src_bytes = layout.dtypes[0].itemsize
    plain.dst_offset = plain.src_offset = 0
    walk = normalise(layout, dst_low, src_low)
    assert moves(walk) == moves(plain)
    assert walk.dst == sorted(walk.dst) and all(s > 0 for s in walk.dst) and 1 not in walk.sizes
    assert (walk.dst_low, walk.src_low) == (
        (dst_low + walk.dst_offset) % 16, (src_low + walk.src_offset) % 16,
    )  # fmt: skip
    for k in range(1, len(walk.sizes)):  # no two neighbouring dimensions can still be merged
        n = walk.sizes[k - 1]
        assert (walk.dst[k], walk.src[k]) != (n * walk.dst[k - 1], n * walk.src[k - 1])
    for low, strides, size in (
        (walk.dst_low, walk.dst, walk.dst_bytes), (walk.src_low, walk.src, walk.src_bytes),
    ):  # fmt: skip
        if size > layout.dtypes[0].itemsize:
            assert access_bytes(low, strides) >= size


@given(layouts(), st.integers(1, 40))
@tier.examples(100)
def test_pieces_cover_a_walk_once(case: tuple[Layout, int, int], limit: int) -> None:
    walk = normalise(*case)
    parts = list(pieces(walk, limit))
    assert all(part.numel <= limit for part in parts)
    joined: dict[int, int] = {}
    for part in parts:
        found = moves(part)
        assert not joined.keys() & found.keys()
        joined |= found
        assert part.dst_low == (walk.dst_low + part.dst_offset - walk.dst_offset) % 16
    assert joined == moves(walk)


@given(layouts())
@tier.examples(150)
def test_sectors_are_no_fewer_than_what_is_asked_for(case: tuple[Layout, int, int]) -> None:
    walk = normalise(*case)
    traffic = Traffic(walk, 32)
    touched = {int(b + walk.dst_low - walk.dst_offset) // 32 for b in moves(walk)}
    assert traffic.written == walk.numel * walk.dst_bytes
    assert traffic.written_sectors + 32 * walk.numel >= 32 * len(touched) >= traffic.written
    assert traffic.sector_bytes >= traffic.written


@given(layouts())
@tier.examples(200)
def test_every_plan_can_be_packed(case: tuple[Layout, int, int]) -> None:
    walk = normalise(*case)
    for plan in (
        copy_plan.choose(walk, H200),
        copy_plan.elem(walk),
        copy_pack_plan.pack(walk, H200),
    ):
        if plan is not None:
            made = copy_launch.launch_of(walk, plan, case[0].dtypes, H200)
            assert made.grid[0] >= 1 and made.block[0] % 32 == 0
            assert len(made.pack((1 << 20, 1 << 20))) < 4096
            assert made.shared_bytes <= 48 << 10  # the default limit


def test_sectors_of_known_copies() -> None:
    dense_walk = walk_of((1024, 1024), (1, 0))
    traffic = Traffic(dense_walk, 32)
    assert traffic.sector_bytes == traffic.useful_bytes == 2 * 4 << 20
    step = normalise(Layout((1024, 512), ((2048, 4), (4096, 8)), (F32, F32)))
    assert Traffic(step, 32).useful_bytes / Traffic(step, 32).sector_bytes == pytest.approx(2 / 3)
    far = normalise(Layout((1024, 512), ((2048, 4), (1 << 18, 64)), (F32, F32)))
    assert Traffic(far, 32).read_sectors == 8 * Traffic(far, 32).read
    partial = normalise(Layout((1024, 512), ((4096, 8), (2048, 4)), (F32, F32)))
    assert Traffic(partial, 32).filled_sectors == Traffic(partial, 32).written_sectors


# --- the selection --------------------------------------------------------------------------------


def case(number: int, walk: Walk, **expected: Any) -> Any:
    return pytest.param(walk, expected, id=f"{number}")


# The benchmark's layouts by number: kernel, and the important values of its plan.
CASES = [
    case(1, walk_of((8192, 8192), (1, 0)), kernel="tile", load=4, store=4, rows=64, columns=64),
    case(2, walk_of((8192, 16384), (1, 0), F16), kernel="tile", load=8, store=8, rows=128,
    columns=128),
    case(3, walk_of((16384, 16384), (1, 0), U8), kernel="tile", load=16, store=16, rows=128,
    columns=128),
    case(6, walk_of((8191, 8193), (1, 0)), kernel="tile", load=1, store=0),
    case(7, walk_of((8191, 16385), (1, 0), F16), kernel="tile", load=0, store=0),
    case(8, walk_of((16383, 16385), (1, 0), U8), kernel="tile", load=0, store=0),
    case(9, walk_of((5792, 5792), (1, 0), F64), kernel="tile", load=2, store=2, rows=32,
    columns=32),
    case(10, walk_of((4096, 4096), (1, 0), C128), kernel="tile", load=1, store=1, rows=16,
    columns=16),
    case(11, walk_of((2048, 2048), (1, 0), F16), kernel="tile", rows=64, columns=64),
    case(13, normalise(Layout((8192, 8192), ((32768, 4), (4, 32800)), (F32, F32)), 0, 12),
         kernel="tile", load=1, store=4),
    case(14, walk_of((384, 3, 224, 224), (0, 2, 3, 1)), kernel="skinny", load=16, store=16),
    case(16, walk_of((1536, 3, 224, 224), (0, 2, 3, 1), U8), kernel="skinny", from_planes=True),
    case(17, walk_of((1536, 224, 224, 3), (0, 3, 1, 2), U8), kernel="skinny", to_planes=True),
    case(18, walk_of((384, 224, 224, 3), (0, 3, 1, 2), U8, F32), kernel="skinny", load=16,
    store=16),
    case(19, walk_of((512, 64, 56, 56), (0, 2, 3, 1), F16), kernel="tile", rows=64, columns=128),
    case(20, walk_of((1024, 2048, 7, 7), (0, 2, 3, 1), F16), kernel="pack", load=8, store=8),
    case(21, walk_of((512, 56, 56, 64), (0, 3, 1, 2)), kernel="tile", load=4, store=4),
    case(22, walk_of((16, 2048, 32, 128), (0, 2, 1, 3), F16), kernel="row", step=1, is_long=False),
    case(23, walk_of((16, 32, 2048, 128), (0, 1, 3, 2), F16), kernel="tile", rows=128, columns=128),
    case(24, walk_of((16, 4096, 64, 8), (0, 2, 1, 3)), kernel="pack"),
    case(25, walk_of((512, 384, 320), (2, 1, 0)), kernel="tile"),
    case(26, walk_of((512, 384, 320), (1, 2, 0)), kernel="tile"),
    case(30, walk_of((20, 24, 16, 28, 12, 20), (3, 2, 5, 1, 0, 4)), kernel="pack", load=4, store=4),
    case(31, walk_of((19, 21, 23, 17, 13, 15), (5, 4, 3, 2, 1, 0)), kernel="pack", load=1, store=1),
    case(32, walk_of((2,) * 26, tuple(range(25, -1, -1))), kernel="pack"),
    case(33, normalise(Layout((16, 1 << 22), ((1 << 23, 2), (0, 2)), (F16, F16))), kernel="row",
    repeat=1),
    case(34, normalise(Layout((1 << 22, 16), ((32, 2), (2, 0)), (F16, F16))), kernel="row", step=0,
    vector=8),
    case(35, normalise(Layout((8192, 8192), ((32768, 4), (65536, 4)), (F32, F32))), kernel="row",
    is_long=True),
    case(36, normalise(Layout((8192, 8192), ((32768, 4), (65536, 8)), (F32, F32))), kernel="elem"),
    case(37, normalise(Layout((8192, 16384), ((32768, 2), (32768, -2)), (F16, F16)), 0, 14),
         kernel="row", step=-1, vector=8),
    case(38, walk_of((8192, 8192), (1, 0), F32, F16), kernel="tile", load=4, store=8),
]  # fmt: skip


@pytest.mark.parametrize(("walk", "expected"), CASES)
def test_the_benchmark_gets_its_kernels(walk: Walk, expected: dict[str, Any]) -> None:
    plan = copy_plan.choose(walk, H200)
    assert {name: getattr(plan, name) for name in expected} == expected


# Each criterion of the selection, on both sides of its bound.
BOUNDS = [
    ("small is element by element", walk_of((100, 160), (1, 0)), "elem"),
    ("and one byte more a tile", walk_of((128, 129), (1, 0)), "tile"),
    ("one run on both sides", normalise(Layout((64,), ((4,), (4,)), (F32, F32))), "row"),
    ("runs of 128 bytes", walk_of((64, 96, 32), (1, 0, 2)), "row"),
    ("shorter ones that several dimensions prolong", walk_of((64, 96, 20), (1, 0, 2)), "pack"),
    ("64 bytes on both sides, but half of a tile", walk_of((16, 300, 16), (2, 1, 0)), "pack"),
    ("less on one", walk_of((15, 300, 17), (2, 1, 0)), "pack"),
    ("16 channels", walk_of((2, 16, 3000), (0, 2, 1), U8), "skinny"),
    ("17 channels", walk_of((2, 17, 3000), (0, 2, 1), U8), "pack"),
    ("255 pixels", walk_of((90, 3, 255), (0, 2, 1), U8), "pack"),
    ("256 pixels", walk_of((90, 3, 256), (0, 2, 1), U8), "skinny"),
    (
        "four elements a step",
        normalise(Layout((300, 300), ((1200, 4), (16, 9600)), (F32, F32))),
        "tile",
    ),
    (
        "steps that share no sector",
        normalise(Layout((300, 300), ((4, 1200), (36, 24000)), (F32, F32))),
        "elem",
    ),
    (
        "unless they gather",
        normalise(Layout((300, 300), ((1200, 4), (36, 24000)), (F32, F32))),
        "tile",
    ),
    (
        "every second element",
        normalise(Layout((300, 300), ((1200, 4), (4800, 8)), (F32, F32))),
        "elem",
    ),
    (
        "every second of dst",
        normalise(Layout((300, 300), ((4800, 8), (1200, 4)), (F32, F32))),
        "elem",
    ),
]


@pytest.mark.parametrize(("why", "walk", "kernel"), BOUNDS, ids=[b[0] for b in BOUNDS])
def test_the_bounds_of_the_selection(why: str, walk: Walk, kernel: str) -> None:
    assert copy_plan.choose(walk, H100).kernel == kernel


def test_rows_take_the_widest_access_that_both_sides_allow() -> None:
    for low, vector in ((0, 16), (8, 8), (4, 4), (2, 2), (1, 1)):
        walk = normalise(Layout((64, 99), ((112, 1), (128, 1)), (U8, U8)), 0, low)
        found = copy_plan.row(walk, 1)
        assert found is not None and found.vector * walk.item == vector and not found.is_shifted
    walk = normalise(Layout((640, 512), ((512, 1), (513, 1)), (U8, U8)))
    assert copy_plan.choose(walk, H200).is_shifted
    for n, is_shifted in ((1 << 29, True), (1 << 30, False)):  # its bytes no longer fit in 31 bits
        assert (
            copy_plan.choose(
                normalise(Layout((n,), ((2,), (2,)), (F16, F16)), 0, 2), H200
            ).is_shifted
            is is_shifted
        )


def test_a_tile_wastes_little() -> None:
    for n, m in itertools.product((16, 40, 64, 65, 100, 257, 1000), repeat=2):
        plan = copy_plan.tile(walk_of((n, m), (1, 0)), 1, H200)
        # If columns are stored as whole sectors, a tile stores 24, 56 or 120 rows.
        heights = (32, 64) if n % 4 == 0 else (24, 56, 120)
        least = min(-(-n // h) * (h if h in (32, 64) else h + 8) for h in heights)
        least *= min(-(-m // 32) * 32, -(-m // 64) * 64)
        assert plan is not None and plan.fill >= score.TILE_FILLS * n * m / least


def test_boxes_hold_whole_runs_and_fit() -> None:
    for walk in [c.values[0] for c in CASES]:
        plan = copy_pack_plan.pack(walk, H200)
        if plan is None:
            continue
        assert math.prod(plan.chunks) <= plan.each * plan.threads
        for run, strides, size in (
            (plan.run_out, walk.dst, walk.dst_bytes), (plan.run_in, walk.src, walk.src_bytes),
        ):  # fmt: skip
            step = size
            for d in run:
                assert strides[d] == step
                step *= walk.sizes[d]
            assert all(plan.chunks[d] == walk.sizes[d] for d in run[:-1])


# --- the GPU --------------------------------------------------------------------------------------

LAUNCHES = [
    pytest.param(c.values[0], gpu, id=f"{c.id}-{name}")
    for c in CASES
    for name, gpu in KNOWN.items()
]


@pytest.mark.parametrize(("walk", "gpu"), LAUNCHES)
def test_every_plan_fits_every_gpu(walk: Walk, gpu: Limits) -> None:
    """The kernel is the same on all GPUs; the number of resident blocks is as computed, and at
    least two."""
    plan = copy_plan.choose(walk, gpu)
    assert plan.kernel == copy_plan.choose(walk, H200).kernel
    made = copy_launch.launch_of(walk, plan, (F32, F32), gpu)
    if plan.kernel not in ("tile", "pack"):
        return
    shared = made.shared_bytes or plan.rows * plan.columns * walk.dst_bytes
    assert shared <= min(gpu.block_shared_bytes, 48 << 10)
    assert made.counted_shared_bytes == plan.resident * (shared + gpu.reserved_shared_bytes)
    assert made.counted_shared_bytes <= gpu.shared_bytes
    assert 2 <= plan.resident <= gpu.blocks and plan.resident * plan.threads <= gpu.threads
    each = plan.each if plan.kernel == "pack" else plan.rows * plan.columns // plan.threads
    in_flight = plan.resident * plan.threads * min(each * walk.src_bytes, 64)
    assert in_flight >= score.bytes_in_flight(gpu), "memory is not busy"


def test_tiles_are_as_small_as_the_gpu_is_large() -> None:
    walk = walk_of((2048, 2048), (1, 0), F16)
    found = {name: copy_plan.choose(walk, gpu) for name, gpu in KNOWN.items()}
    assert [(found[n].rows, found[n].columns) for n in KNOWN] == [(128, 128), *[(64, 64)] * 3]
    row = copy_launch.Copy("copy", Layout((64, 1 << 18), ((1 << 19, 2), (0, 2)), (F16, F16)))
    repeated = [row.planned(gpu).grid for gpu in KNOWN.values()]
    assert repeated[0] < repeated[-1], "blocks that store the same on a small GPU"


def test_memory_asks_for_what_is_known_of_gpus() -> None:
    """With slower memory a unit may have more instructions; for unknown clocks an H200's are
    used."""
    issued = {name: score.issued_per_unit(gpu) for name, gpu in KNOWN.items()}
    assert issued["T4"] > issued["A100"] > issued["H100"] > issued["H200"] > 200
    flight = {name: score.bytes_in_flight(gpu) for name, gpu in KNOWN.items()}
    assert flight["T4"] < flight["A100"] < flight["H100"] < flight["H200"] < 16 << 10
    silent = A100._replace(clock_khz=0, memory_clock_khz=0)
    assert score.issued_per_unit(silent) == issued["H200"]
    assert score.bytes_in_flight(silent) == flight["H200"]


def test_no_kernel_counts_with_the_figures_of_one_gpu() -> None:
    """Figures come from the device. The remaining constants are large enough for every GPU."""
    figures = {n for gpu in KNOWN.values() for n in gpu if n & (n - 1) and n != T4.multiprocessors}
    folder = Path(score.__file__).parent
    for path in folder.glob("*.py"):
        found = {
            n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)
        }
        assert not {n for n in found if type(n) is int} & figures, path.name
    resident = max(gpu.multiprocessors * gpu.threads for gpu in KNOWN.values())
    assert launch.MOST_BLOCKS * launch.THREADS >= 0.9 * resident


# --- waves of PACK --------------------------------------------------------------------------------


PACKED = [p for p in LAUNCHES if copy_plan.choose(*p.values).kernel == "pack"]


def test_a_block_takes_two_boxes_where_there_are_enough() -> None:
    for walk, gpu in (p.values for p in PACKED):
        plan = copy_plan.choose(walk, gpu)
        count, slots = copy_pack_plan.tiles(walk, plan), plan.resident * gpu.multiprocessors
        assert (plan.blocks - 1) * plan.per_block < count <= plan.blocks * plan.per_block
        assert plan.per_block == min(score.PACK_TILES, -(-count // slots))


def pages(walk: Walk, plan: Any, order: list[int], tiles: range) -> int:
    """Return the pages of both sides that these boxes access, in this order."""
    cuts = [d for d in (plan.cut_out, plan.cut_in) if d is not None]
    dims = [*dict.fromkeys(cuts), *order]
    seen = set()
    for side, strides in enumerate((walk.dst, walk.src)):
        inside = {0}
        for d, t in enumerate(plan.chunks):
            inside = {at + i * strides[d] for at in inside for i in {0, *range(t)}}
        for number in tiles:
            begin = 0
            for d in dims:
                number, at = divmod(number, -(-walk.sizes[d] // plan.chunks[d]))
                begin += at * plan.chunks[d] * strides[d]
            seen.update((side, (begin + at) // score.PAGE_BYTES) for at in inside)
    return len(seen)


@pytest.mark.parametrize("number", ["24", "30", "31", "32"])
def test_boxes_that_run_together_share_pages(number: str) -> None:
    (walk,) = [c.values[0] for c in CASES if c.id == number]
    plan = copy_plan.choose(walk, H200)
    order = copy_pack_plan.outer(walk, plan)
    block, wave = range(16), range(0, plan.resident * 132 * plan.per_block, 97)
    in_order, in_dsts = (
        [pages(walk, plan, o, r) for r in (block, wave)] for o in (order, sorted(order))
    )
    assert in_order[0] <= in_dsts[0] and in_order[1] <= in_dsts[1]
    if number == "32":  # bits reversed: 64 pages a side, of which a wave needs no others
        assert in_order == [128, 128] and in_dsts == [192, 192]


def test_the_score_prefers_what_it_should() -> None:
    best = score.score(4, 0, 1.0, 1.0, 0.2, 1.0)
    assert best == 1.0
    assert score.score(4, 1, 1.0, 1.0, 0.2, 1.0) < best
    assert score.score(4, 0, 0.5, 1.0, 0.2, 1.0) == 0.5
    assert score.score(4, 0, 1.0, 1.0, 1.25, 1.0) == 0.8, "bound by the issue of instructions"


# --- bind -----------------------------------------------------------------------------------------


def test_small_copies_are_one_launch_and_no_plan() -> None:
    small = Layout((64, 64), ((256, 4), (4, 256)), (F32, F32))
    assert type(binding.bind("copy", "copy", small)) is launch.Launch
    assert (
        type(binding.bind("copy", "copy", Layout((0, 9), ((36, 4), (4, 0)), (F32, F32))))
        is launch.EmptyLaunch
    )


def test_a_bound_copy_plans_once_for_addresses_of_a_kind() -> None:
    bound = binding.bind("copy", "copy", Layout((512, 512), ((2048, 4), (4, 2048)), (F32, F32)))
    assert bound.planned(H200).entry == "copy_tile" and bound.planned(H200).grid[0] > 1
    with pytest.raises(errors.ShapeError, match="at most 56 dimensions"):
        binding.bind("copy", "copy", Layout((2,) * 65, ((4,) * 65, (4,) * 65), (F32, F32)))


# --- explain --------------------------------------------------------------------------------------


def test_an_explanation_says_what_is_launched() -> None:
    layout = Layout((384, 3, 224 * 224), ((602112, 200704, 4), (150528, 1, 3)), (F32, U8))
    found = copy_explain.Explanation(layout)
    data = found.to_dict()
    assert data["kernel"] == "SKINNY" and data["defines"]["SRC"] == "u8"
    assert data["bytes"] == {"read": 384 * 150528, "written": 384 * 602112}
    assert data["launches"] == 1 and data["at_most"] == 1.0
    text = str(found)
    assert "the channels" in text and "3 channels beside 50176 pixels" in text
    assert "dst  [d2 [d1 [d0 . x50176] x3] x384]" in text


@given(layouts())
@tier.examples(100)
def test_any_copy_can_be_explained(case: tuple[Layout, int, int]) -> None:
    layout, dst_low, src_low = case
    sizes = tuple([n * 40 for n in layout.shape])  # large enough for every kernel
    strides = tuple([tuple([s * 40 for s in side]) for side in layout.stride_bytes])
    for shape, given_strides in ((layout.shape, layout.stride_bytes), (sizes, strides)):
        found = copy_explain.Explanation(
            Layout(shape, given_strides, layout.dtypes), dst_low, src_low
        )
        assert str(found) and found.to_dict()["kernel"] == found.kernel
    nothing = copy_explain.Explanation(Layout((3, 0), ((4, 12), (4, 12)), (F32, F32)))
    assert nothing.kernel == "none" and "no elements" in str(nothing)


def test_the_lists_are_not_empty() -> None:
    assert CASES and BOUNDS
