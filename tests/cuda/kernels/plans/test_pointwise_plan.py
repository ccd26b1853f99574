"""The choice of kernels for pointwise layouts: tables, and properties of all plans. No device."""

from __future__ import annotations

import itertools
import random

import pytest

from gputensor.kernels.cuda import binding, launch, pointwise_plan, prebuilt, variants
from gputensor.kernels.cuda.pointwise_plan import (
    FLIGHT_BYTES,
    GIVEN,
    RUNS,
    STAYS,
    STEPS,
    TURNS,
    Rows,
    Turned,
    Walk,
)

from ..kernel_arrays import SHORT, Layout

N = 4096
SIZES = (1, 2, 4, 8, 16)


def walk(shape: tuple[int, ...], *strides: tuple[int, ...] | None, size: int = 4) -> Walk:
    return Walk(shape, list(strides), [size] * len(strides), [0] * len(strides))


DENSE = (4, 4 * N)
# name, walk, (layout, kinds, widths, unit, unroll, held, blocks); a plane of N x N float32 unless
# said otherwise
TABLE = [
    ("padded rows", walk((N, N), DENSE, (4, 8 * N), (4, 8 * N)),
     ("ROWS", [RUNS] * 3, [4] * 3, 4, 2, 0, N * 2)),
    ("a row for all rows", walk((N, N), DENSE, DENSE, (4, 0)),
     ("ROWS", [RUNS] * 3, [4] * 3, 4, 4, 0b100, N)),
    ("a column for all columns", walk((N, N), DENSE, DENSE, (0, 4)),
     ("ROWS", [RUNS, RUNS, STAYS], [4, 4, 1], 4, 4, 0b100, N)),
    ("the same, short rows", walk((128, 32 * N), (4, 512), (4, 512), (0, 4)),
     ("ROWS", [RUNS, RUNS, STAYS], [4, 4, 1], 4, 4, 0, N)),
    ("a number", walk((N, N), DENSE, (4, 8 * N), None),
     ("ROWS", [RUNS, RUNS, GIVEN], [4, 4, 1], 4, 4, 0, N)),
    ("two apart", walk((N, N), DENSE, (8, 8 * N)),
     ("ROWS", [RUNS, STEPS], [4, 1], 4, 4, 0, N)),
    ("odd pitch of one", walk((N, N), DENSE, DENSE, (4, 4 * N + 4)),
     ("ROWS", [RUNS] * 3, [4, 4, 1], 4, 2, 0, N * 2)),
    ("transposed", walk((N, N), DENSE, DENSE, (4 * N, 4)),
     ("TURNED", [RUNS, RUNS, TURNS], [4] * 3, 4, 1, 0, N)),
    ("transposed of bytes", walk((N, N), (1, N), (1, N), (N, 1), size=1),
     ("TURNED", [RUNS, RUNS, TURNS], [8] * 3, 8, 1, 0, N // 4)),
    ("both transposed, of halves", walk((N, N), (2, 2 * N), (2 * N, 2), (2 * N, 2), size=2),
     ("TURNED", [RUNS, TURNS, TURNS], [4] * 3, 4, 1, 0, N)),
    ("images to pixels", walk((3, 1 << 20), (4, 12), (4 << 20, 4)), None),
    ("narrow turn", walk((N, 8), DENSE, (32, 4)), ("ROWS", [RUNS, STEPS], [4, 1], 4, 4, 0, 8)),
    ("out two apart", walk((N, N), (8, 8 * N), DENSE), None),
    ("small", walk((64, 64), (4, 256), (256, 4)), None),
    ("many dimensions", walk((8,) * 8, tuple(4 * 9**d for d in range(8)), (4,) * 8), None),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), [t[1:] for t in TABLE], ids=[t[0] for t in TABLE])
def test_table(given: Walk, expected: tuple[object, ...] | None) -> None:
    plan = pointwise_plan.choose(given)
    if expected is None:
        assert plan is None
    else:
        assert plan is not None
        got = plan.layout, plan.kinds, plan.widths, plan.unit, plan.unroll, plan.held, plan.blocks
        assert got == expected


def test_narrower_accesses_where_an_address_is_not_aligned() -> None:
    given = walk((N * N,), (4,), (4,), (4,))
    for low, width in ((0, 4), (8, 2), (4, 1), (12, 1)):
        given.lows = [0, low, 0]
        assert pointwise_plan.rows(given).widths == [4, width, 4]


def some_walk(rng: random.Random) -> Walk:
    """Return a random walk: dense out in its own order; inputs in any order, repeated, stepped,
    padded, shifted."""
    shape = tuple(
        rng.choice((1, 2, 3, 5, 8, 30, 33, 64, 100, 256, 1000)) for _ in range(rng.randint(1, 5))
    )
    sizes = [rng.choice(SIZES) for _ in range(rng.randint(2, 4))]
    strides: list[tuple[int, ...] | None] = []
    for j, size in enumerate(sizes):
        order = list(range(len(shape)))
        if j and rng.random() < 0.5:
            rng.shuffle(order)
        made, step = [0] * len(shape), size * (rng.choice((1, 1, 1, 2)) if j else 1)
        for d in order:
            made[d] = step
            step *= shape[d]
            step += size * rng.choice((0, 0, 1, 4)) if rng.random() < 0.4 else 0
        if j:
            made = [0 if rng.random() < 0.2 else s for s in made]
        strides.append(None if j > 1 and rng.random() < 0.2 else tuple(made))
    return Walk(shape, strides, sizes, [rng.choice((0, 0, 1, 2, 3)) * s % 16 for s in sizes])


def plans(given: Walk) -> list[pointwise_plan.Plan]:
    """Return every plan that can run a walk, also plans that the selection would not choose."""
    return [p for p in (pointwise_plan.rows(given), turned(given)) if p is not None]


def turned(given: Walk) -> Turned | None:
    thresholds = {"TURNED_BYTES": 0, "TURNED_SIDE_BYTES": 0, "TURNED_USED": 0.0}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in thresholds.items():
            patch.setattr(pointwise_plan, name, value)
        return pointwise_plan.turned(given)


@pytest.mark.parametrize("seed", range(4))
def test_any_plan_covers_its_walk_with_aligned_accesses(seed: int) -> None:
    rng, seen = random.Random(seed), set()
    for _ in range(300):
        given = some_walk(rng)
        for plan in plans(given):
            seen.add(plan.layout)
            moving = [j for j, kind in enumerate(plan.kinds) if kind in (RUNS, TURNS)]
            for j in moving:
                of = given.strides[j]
                assert of is not None
                along = plan.y if isinstance(plan, Turned) and plan.kinds[j] == TURNS else 0
                assert of[along] == given.itemsizes[j] and plan.unit % plan.widths[j] == 0
                assert plan.widths[j] * given.itemsizes[j] <= 16
                for _ in range(4):  # every unit begins at a multiple of each access
                    at = [rng.randrange(n) for n in given.shape]
                    at[along] -= at[along] % plan.unit
                    place = given.lows[j] + sum(a * s for a, s in zip(at, of))
                    assert place % (plan.widths[j] * given.itemsizes[j]) == 0, (given.shape, of)
            if isinstance(plan, Rows):
                check_rows(given, plan)
            else:
                side = 16 * plan.unit
                assert plan.staged * side * 256 <= 48 << 10 and plan.staged
                tiles = -(-given.shape[0] // side) * -(-given.shape[plan.y] // side)
                assert plan.blocks * given.shape[0] * given.shape[plan.y] == tiles * launch.product(
                    given.shape
                )
    assert seen == {"ROWS", "TURNED"}


def check_rows(given: Walk, plan: Rows) -> None:
    per_row = -(-given.shape[0] // plan.unit)
    if plan.across is None:
        pieces = -(-per_row // (256 * plan.unroll))
        assert plan.blocks == pieces * launch.product(given.shape[1:])
    else:
        rows = given.shape[plan.across]
        steps = -(-rows // plan.unroll)
        assert plan.unroll <= rows and plan.blocks * 256 >= plan.threads
        assert plan.threads * rows == per_row * steps * launch.product(given.shape[1:])
    for j, of in enumerate(given.strides):
        if plan.held >> j & 1:
            assert j and of is not None
            assert of[0] == 0 if plan.across is None else of[plan.across] == 0
    loaded = sum(
        plan.unit * given.itemsizes[j] * plan.unroll for j, kind in enumerate(plan.kinds)
        if j and kind in (RUNS, STEPS) and not plan.held >> j & 1
    )  # fmt: skip
    rows = 0 if plan.across is None else given.shape[plan.across]
    if loaded and plan.unroll < 8 and (plan.across is None or rows >= 8):
        assert loaded >= FLIGHT_BYTES


def test_launches_of_large_layouts_go_by_address() -> None:
    f32, f16 = SHORT["f32"], SHORT["f16"]
    n = 1 << 16
    dense = Layout((n,), [(4,)] * 3, [f32] * 3, f32)
    bound = binding.bind("binary", "mul", dense)
    assert bound.entry == "binary_contiguous" and bound.at(0, 0, 4).entry == "binary_rows"
    assert bound.at(0, 0, 4).defines["WIDTHS"] == "4,4,1"
    mixed = binding.bind("binary", "mul", Layout((n,), [(4,), (4,), (2,)], [f32, f32, f16], f32))
    assert mixed.entry == "binary_rows" and mixed.defines["TYPES"] == "f32,f32,f16"
    assert variants.group_of("binary", mixed.defines) == (mixed.defines,)
    small = binding.bind("binary", "mul", Layout((64,), [(4,), (4,), (2,)], [f32, f32, f16], f32))
    assert small.entry == "binary_strided"


def test_what_is_compiled_ahead_is_what_usual_layouts_ask_for() -> None:
    ahead = list(prebuilt.pointwise())
    assert {entry for _, entry, _ in ahead} == {"binary_rows", "binary_turned"}
    assert len({tuple(defines.items()) for _, _, defines in ahead}) == len(ahead) == 36
    f32 = SHORT["f32"]
    bound = binding.bind(
        "binary", "mul", Layout((512, 3000), [(4, 2048), (4, 2048), (4, 0)], [f32] * 3, f32)
    )
    assert ("binary", bound.entry, bound.defines) in ahead


def test_the_parameters_fit() -> None:
    """A kernel accepts 4 KiB on every architecture and driver."""
    dtypes = [SHORT[s] for s in ("f32", "bool", "f32", "f32")]
    shape = (64,) * 4
    forward, backward = ([64**d for d in order] for order in ((0, 1, 2, 3), (3, 2, 1, 0)))
    for orders in itertools.product((forward, backward), repeat=3):
        strides = [[s * d.itemsize for s in o] for o, d in zip((forward, *orders), dtypes)]
        bound = binding.bind(
            "where", "where", Layout(shape, [tuple(s) for s in strides], dtypes, dtypes[0])
        )
        made = bound.at()
        assert len(made.pack((0, 0, 0, 0))) <= 4096
