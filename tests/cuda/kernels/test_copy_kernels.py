"""Layout copies on the emulator against NumPy, byte by byte, with every kernel that fits a layout.

GPUTENSOR_FUZZ=20000 tests 20,000 random layouts instead of a few. As a script, with
the greatest number of elements of a copy and of compiled kernels: GPUTENSOR_CUDA=emulator
python -m tests.cuda.kernels.test_copy_kernels COPIES [SEED [ELEMENTS [KERNELS]]].
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from pathlib import Path

import numpy as np
import pytest

from gputensor import runtime
from gputensor.core import errors
from gputensor.core.dtype import ALL, dtype
from gputensor.kernels.cuda import binding, copy_launch, copy_plan, copy_score, launch, module
from gputensor.kernels.cuda.copy_launch import Layout
from gputensor.kernels.cuda.copy_walk import Walk
from gputensor.runtime.emulator import settings
from gputensor.runtime.device_limits import H200, KNOWN, T4, Limits

from ...harness import tier
from .copies import Copy, OnEmulator, check, dense, legal_plans, some_copy
from .kernel_arrays import SHORT
from ..support import fresh_emulator, requires_emulator

pytestmark = requires_emulator

ITEMS = [SHORT[s] for s in ("u8", "f16", "f32", "f64", "c128")]
U8, F16, BF16, F32, F64 = (SHORT[s] for s in ("u8", "f16", "bf16", "f32", "f64"))
# Enough dtypes to combine each size with each other, and floats with integers, complex and bool.
CASTS = [
    (SHORT[a], SHORT[b]) for a, b in
    (("f16", "f32"), ("f32", "f16"), ("f32", "u8"), ("u8", "f32"), ("bf16", "f64"), ("i64", "i8"),
     ("c128", "f16"), ("bool", "i32"), ("c64", "c128"))
]  # fmt: skip
SMALL = T4._replace(multiprocessors=1)
FUZZ = int(os.environ.get("GPUTENSOR_FUZZ", "0"))


@pytest.fixture(scope="module", autouse=True)
def emulator() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "_chosen", fresh_emulator(patch))
        module.clear()
        yield
        module.clear()


def by_short(d: dtype) -> str:
    return d.short


def shown(value: Any) -> str:
    """`f16 u8`, `(2, 3) (1, 0)`."""
    if isinstance(value, tuple) and isinstance(value[0], (tuple, dtype)):
        return " ".join(map(shown, value))
    return value.short if isinstance(value, dtype) else str(value)


def permuted(
    sizes: tuple[int, ...], order: tuple[int, ...], to: dtype, of: dtype | None = None
) -> Copy:
    """x.permute(order).contiguous() of a dense x."""
    of = of or to
    source = dense(sizes, of.itemsize)
    turned = [sizes[d] for d in order]
    return Copy(turned, dense(turned, to.itemsize), [source[d] for d in order], to, of)


# --- every kernel on difficult shapes -------------------------------------------------------------

SHAPES = [
    ((200, 136), (1, 0)),  # whole vectors, broken tiles
    ((67, 65), (1, 0)),  # nothing is aligned
    ((3, 40, 32, 5), (0, 3, 1, 2)),  # few channels
    ((2, 3, 640), (0, 2, 1)),
    ((3, 40, 1024), (1, 0, 2)),  # rows
    ((7, 5, 3, 11, 4), (4, 3, 2, 1, 0)),
    ((2,) * 13, tuple(range(12, -1, -1))),
    ((4, 130, 7, 7), (0, 2, 3, 1)),
]


@pytest.mark.parametrize("d", ITEMS, ids=shown)
@pytest.mark.parametrize("shape", SHAPES[:: tier.pick(2, 1)], ids=shown)
def test_permuted(shape: tuple[tuple[int, ...], tuple[int, ...]], d: dtype) -> None:
    assert check(permuted(*shape, d))


@pytest.mark.full
@pytest.mark.parametrize("shift", [(0, 1), (1, 0), (1, 1), (3, 2)], ids=shown)
@pytest.mark.parametrize("d", ITEMS, ids=shown)
def test_misaligned(d: dtype, shift: tuple[int, int]) -> None:
    for sizes, order in (((150, 132), (1, 0)), ((2, 3, 300), (0, 2, 1)), ((5, 700), (0, 1))):
        copy = permuted(sizes, order, d)
        copy.offsets = (shift[0] * d.itemsize, shift[1] * d.itemsize)
        check(copy)


CAST_SHAPES = [((150, 70), (1, 0)), ((2, 3, 300), (0, 2, 1)), ((9, 8, 7, 6), (3, 2, 1, 0))]


@pytest.mark.parametrize("shape", CAST_SHAPES, ids=shown)
@pytest.mark.parametrize("types", tier.pick(CASTS[:2], CASTS), ids=shown)
def test_casts_in_every_kernel(types: tuple[dtype, dtype], shape: tuple[Any, Any]) -> None:
    check(permuted(*shape, *types))


@pytest.mark.parametrize("d", ALL[:: tier.pick(3, 1)], ids=by_short)
def test_casts_between_all_dtypes_along_rows(d: dtype) -> None:
    for other in random.Random(d.code).sample(ALL, tier.pick(1, 3)):
        if other is not d:
            check(permuted((5, 77), (0, 1), other, d), lambda walk, gpu: [copy_plan.row(walk, 1)])


@pytest.mark.full
@pytest.mark.parametrize("d", tier.pick([U8], ITEMS), ids=by_short)
def test_turned_and_repeated_rows(d: dtype) -> None:
    size = d.itemsize
    for n in tier.pick((77,), (64, 77, 1500)):
        for src in ([size * n, -size], [-size * n, -size], [size, 0], [0, size], [0, 0]):
            check(Copy((6, n), [size * n, size], src, d, d))
        check(Copy((4, 3, n), dense((4, 3, n), size), [n * size, 0, size], d, d))


@pytest.mark.parametrize("d", tier.pick([F16], ITEMS), ids=by_short)
def test_many_tiles_on_few_multiprocessors(d: dtype) -> None:
    """Tests large tiles, and blocks that copy several boxes, which otherwise only occur in large
    copies."""
    side, per_block = copy_score.TILE_SIDE[d.itemsize], 0
    tiles = permuted((9 * side - 2, 8 * side - 2), (1, 0), d)
    boxes = permuted((9, 19, 21, 23), (3, 2, 1, 0), d)
    for copy in (tiles, boxes):
        layout = Layout(copy.sizes, (copy.dst, copy.src), (d, d))
        made = copy_launch.Copy("copy", layout).planned(SMALL)
        if copy is tiles:
            large = (side, side) if made.plan.store else copy_score.TILE_OF_SECTORS[d.itemsize]
            assert (made.plan.rows, made.plan.columns) == large
        for plan in legal_plans(made.walk, SMALL):
            per_block = max(per_block, plan.per_block if plan.kernel == "pack" else 0)
        check(copy, gpu=SMALL)
    assert per_block > 1


def test_a_turned_dst_is_the_copy_of_a_turned_src() -> None:
    copy = permuted((30, 50), (1, 0), F32)
    copy.dst = tuple(-s for s in copy.dst)
    check(copy)


# --- any layout -----------------------------------------------------------------------------------


def _fuzz(
    rng: random.Random, count: int, most: int, variants: int = 1 << 30,
    tell: Callable[[int, int], None] = lambda number, copies: None,
) -> Counter[str]:  # fmt: skip
    """Plan half of the copies for a GPU with one multiprocessor, so that small copies get large
    tiles, several per block. Plan the other half for each known GPU. variants: the most kernel
    variants; copies that would need another one are omitted. tell: called after each layout with
    its number and the number of correct copies so far.
    """
    ran: Counter[str] = Counter()
    built: set[object] = set()

    def admits(made: copy_launch.CopyLaunch) -> bool:
        key = (made.entry, *sorted(made.defines.items()))
        if len(built) < variants:
            built.add(key)
        return key in built

    for number in range(count):
        to, of = rng.choice(CASTS) if rng.random() < 0.2 else (rng.choice(ITEMS),) * 2
        gpu = rng.choice((SMALL, rng.choice(list(KNOWN.values()))))
        ran.update(check(some_copy(rng, to, of, most), seed=number, admits=admits, gpu=gpu))
        tell(number, sum(ran.values()))
    ran["variants"] = len(built)
    return ran


@pytest.mark.full
def test_any_layout() -> None:
    ran = _fuzz(random.Random(7), FUZZ or tier.pick(10, 120), 12_000)
    assert set(ran) == {"elem", "row", "tile", "skinny", "pack", "variants"}, ran


def _odd_copy(rng: random.Random, to: dtype, of: dtype) -> Copy:
    """A transpose with misaligned rows on both sides; about as large as a few tiles."""
    n, m = rng.choice((64, 65, 127, 128, 129, 200, 256, 259)), rng.choice((64, 66, 131, 192))
    batch = rng.choice((1, 1, 2, 3))
    pitches = [rng.choice((0, 0, 1, 2, 3, 5, 7)) for _ in range(4)]
    dst = [n * m + pitches[0] + m * pitches[2], 1, n + pitches[2]]
    src = [n * m + pitches[1] + n * pitches[3], m + pitches[3], 1]
    if rng.random() < 0.2:  # transposed, so that no words of src can be shifted
        src[1] = -src[1]
    shifts = rng.randrange(16), rng.randrange(16)
    return Copy(
        (batch, n, m), [s * to.itemsize for s in dst], [s * of.itemsize for s in src], to, of,
        shifts[0] * to.itemsize, shifts[1] * of.itemsize,
    )  # fmt: skip


ODD = [
    (U8, U8),
    (F16, F16),
    (U8, U8),
    (F16, F16),
    (F16, F32),
    (U8, F32),
    (F32, U8),
    (U8, F64),
    (F16, F64),
]


def _odd_fuzz(rng: random.Random, count: int) -> Counter[tuple[int, int]]:
    """Return how often TILE used each pair (LOAD, STORE)."""
    ran: Counter[tuple[int, int]] = Counter()

    def tiles(walk: Walk, gpu: Limits) -> list[copy_plan.Tile]:
        found = copy_plan.tile(walk, copy_plan.direction(walk) or 1, gpu)
        assert found is not None
        ran[found.load, found.store] += 1
        return [found]

    for number in range(count):
        to, of = rng.choice(ODD)
        gpu = SMALL if rng.random() < 0.6 else T4
        check(_odd_copy(rng, to, of), tiles, seed=number, gpu=gpu)
    return ran


@pytest.mark.full
@pytest.mark.parametrize("schedule", tier.pick(["random"], ["forward", "reversed", "random"]))
def test_tiles_whose_rows_begin_anywhere(schedule: str) -> None:
    """u8 and f16 have odd pitches: words are shifted together on both sides."""
    with settings.emulator_settings(schedule=schedule, seed=5):
        ran = _odd_fuzz(random.Random(11), FUZZ or 30)
    assert sum(n for (_, store), n in ran.items() if not store) > sum(ran.values()) // 2
    assert ran[0, 0] and any(load and not store for load, store in ran)


@pytest.fixture
def checks() -> Iterator[None]:
    """Check every access. Kernels built in this way are used by this test only."""
    module.clear()
    with settings.emulator_settings(sanitize="all"):
        yield
    module.clear()


@pytest.mark.full
def test_tiles_whose_rows_begin_anywhere_stay_inside(checks: None) -> None:
    _odd_fuzz(random.Random(12), FUZZ or 6)


@pytest.mark.full
@pytest.mark.parametrize("schedule", ["reversed", "random"])
def test_no_result_depends_on_the_order_of_threads(schedule: str) -> None:
    with settings.emulator_settings(schedule=schedule, seed=3):
        # The quick tier's layouts are those of `test_any_layout`, whose kernels are compiled.
        draw = random.Random(8) if tier.is_full() else random.Random(7)
        _fuzz(draw, tier.pick(15, 40), tier.pick(12_000, 6_000))
        for d in tier.pick([F16], ITEMS):
            for sizes, order in SHAPES[:4]:
                check(permuted(sizes, order, d))


@pytest.mark.full
def test_nothing_is_read_that_was_not_written_nor_written_twice(checks: None) -> None:
    """Every access is checked: bounds, unwritten shared memory, races between barriers."""
    for d in tier.pick([F32], [U8, F32]):
        for sizes, order in tier.pick(SHAPES[:2], [*SHAPES[:4], SHAPES[5]]):
            check(permuted(sizes, order, d))
    _fuzz(random.Random(9), tier.pick(2, 6), 2_000)


@pytest.mark.full
def test_nothing_is_wrong_under_address_and_undefined_sanitizers() -> None:
    """Runs in a separate process, because libasan must be loaded at its start."""
    environment = {**os.environ, "GPUTENSOR_EMULATOR_SANITIZE": "1", "GPUTENSOR_CUDA": "emulator"}
    command = [sys.executable, "-m", __name__, "5", "4", "3000"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0 and "copies equal NumPy" in answer.stdout, answer.stderr[-2000:]


@pytest.mark.full
def test_the_script_runs_over_cupy_too() -> None:
    """It runs as bench/gpu_check.sh runs it on a GPU, but with a CuPy on the emulator."""
    root, cuda_tests = Path(__file__).parents[3], Path(__file__).parents[1]
    path = os.pathsep.join([str(cuda_tests / "cupy_on_emulator"), str(root)])
    environment = {**os.environ, "GPUTENSOR_CUDA": "required", "PYTHONPATH": path}
    command = [sys.executable, "-m", __name__, "5", "1", "3000", "8"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0 and "copies equal NumPy" in answer.stdout, answer.stderr[-2000:]


# --- pack -----------------------------------------------------------------------------------------

IMAGES = [
    (2, 3, 20, 32),
    (1, 4, 16, 20),
    (3, 1, 17, 31),
    (2, 16, 24, 16),
    (2, 40, 30, 12),
    (1, 3, 15, 225),
]
SCALED = [(F32, U8), (F16, U8), (U8, F32), (BF16, F16), (SHORT["i16"], F64)]


def scaled(x: np.ndarray, to: dtype, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the result of `pack`, computed by NumPy."""
    acc = np.float64 if F64.np in (x.dtype, to.np) else np.float32
    with np.errstate(all="ignore"):
        y = x.astype(acc) * scale.astype(acc) + bias.astype(acc)
        if to.category != 1:
            return y.astype(to.np)
        info = np.iinfo(to.np)
        return np.clip(np.nan_to_num(np.rint(y)), info.min, info.max).astype(to.np)


FORMS = ["planes to pixels", "pixels to planes", "pixels", "planes"]


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS, ids=shown)
@pytest.mark.parametrize("types", SCALED, ids=shown)
def test_pack_scales_each_channel(types: tuple[dtype, dtype], form: str) -> None:
    to, of = types
    kernels = set()
    rng = np.random.default_rng(to.code * 16 + of.code)
    for number, sizes in enumerate(tier.pick(IMAGES[::2], IMAGES)):
        planes, pixels = (3, 2, 1, 0), (1, 3, 2, 0)
        src = planes if form.startswith("planes") else pixels
        dst = planes if form in ("pixels to planes", "planes") else pixels
        copy = Copy(
            sizes, dense(sizes, to.itemsize, dst), dense(sizes, of.itemsize, src), to, of,
            (number % 3) * to.itemsize, (number % 2) * of.itemsize,
        )  # fmt: skip
        case = OnEmulator(copy, number)
        channels = sizes[1]
        scale, bias = rng.uniform(-2, 2, channels), rng.uniform(-3, 30, channels)
        scale, bias = scale.astype(np.float32), bias.astype(np.float32)
        by_channel = (channels, 1, 1)
        case.dst[...] = scaled(case.src, to, scale.reshape(by_channel), bias.reshape(by_channel))
        layout = case.layout
        layout.stride_bytes += ((0, 4, 0, 0),)
        bound = copy_launch.Copy("pack", layout)
        tables, keep = _tables(scale, bias, on_device=channels > 16 or number == 1)
        operands = (*case.pointers, *tables)
        case.check(lambda bound=bound, operands=operands: bound(0, operands), bound)
        walk = bound.at(0, *[p & 15 for p in case.pointers]).walk
        for plan in (p for p in legal_plans(walk) if p.kernel != "pack" and number < 3):
            made = copy_launch.launch_of(walk, plan, layout.dtypes, H200)
            case.check(lambda made=made, operands=operands: made(0, operands), made)
            kernels.add(plan.kernel)
        del keep
    assert "elem" in kernels and len(kernels) > 1


def _tables(*tables: np.ndarray, on_device: bool) -> tuple[list[object], list[object]]:
    if not on_device:
        return [tuple(t.tolist()) for t in tables], []
    cuda, memories = runtime.cuda(), []
    for table in tables:
        memory = cuda.allocate(table.nbytes, 0)
        cuda.copy_async(memory.ptr, 0, table.ctypes.data, -1, table.nbytes, cuda.current_stream(0))
        memories.append(memory)
    return [m.ptr for m in memories], memories


def test_pack_takes_numbers_for_every_channel() -> None:
    layout = copy_launch.Layout((3, 64), ((256, 4), (256, 4), (4, 0)), (F32, F32))
    bound = binding.bind("copy", "pack", layout)
    with pytest.raises(errors.GpuTensorError, match="'scale' must be 3 numbers"):
        bound(0, (0, 0, (1.0,), (0.0,) * 3))
    wide = copy_launch.Layout((17, 64), ((256, 4), (256, 4), (4, 0)), (F32, F32))
    with pytest.raises(errors.GpuTensorError, match="'scale' must be on the device"):
        binding.bind("copy", "pack", wide)(0, (0, 0, (1.0,) * 17, (0.0,) * 17))
    with pytest.raises(errors.DtypeError, match="pack"):
        binding.bind(
            "copy", "pack", copy_launch.Layout((3,), ((8,), (8,), (4,)), (SHORT["c64"],) * 2)
        )


# --- bound copies ---------------------------------------------------------------------------------


def test_a_bound_copy_looks_at_each_pair_of_addresses() -> None:
    d, seen = F32, set()
    for shift in ((0, 0), (4, 0), (0, 8), (12, 12)):
        copy = permuted((160, 170), (1, 0), d)
        copy.offsets = shift
        case = OnEmulator(copy)
        case.dst[...] = case.src
        bound = binding.bind("copy", "copy", case.layout)
        case.check(lambda bound=bound, case=case: bound(0, tuple(case.pointers)), bound)
        made = bound.at(0, *[p & 15 for p in case.pointers])
        seen.add((made.plan.load, made.plan.store))
    assert len(seen) == 2


def test_each_device_has_the_plan_of_its_own_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is made once, and kernels request the shared memory that plans assume."""
    case = OnEmulator(permuted((2, 384, 512), (0, 2, 1), F16))
    case.dst[...] = case.src
    monkeypatch.setattr(runtime.cuda(), "limits", (H200, SMALL).__getitem__)
    bound = binding.bind("copy", "copy", case.layout)
    case.check(lambda: bound(0, tuple(case.pointers)), bound)
    lows = [p & 15 for p in case.pointers]
    tiles = [(made.plan.rows, made.plan.columns) for made in (bound.at(k, *lows) for k in (0, 1))]
    assert tiles == [(64, 64), (128, 128)]
    made = bound.launches[0, lows[0], lows[1]]
    monkeypatch.delattr(copy_launch.Copy, "planned")
    case.check(lambda: bound(0, tuple(case.pointers)), bound)
    made.load(0)
    found = module.function(made.text, made.entry, made.defines, 0)
    assert found.carveout >= -(-100 * made.counted_shared_bytes // H200.shared_bytes)


def test_a_large_copy_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "MAX_NUMEL", 9_000)
    monkeypatch.setattr(copy_score, "SMALL_BYTES", 0)
    for sizes, order in (((60, 50, 7), (2, 1, 0)), ((200_000,), (0,)), ((3, 20_001), (1, 0))):
        case = OnEmulator(permuted(sizes, order, F16))
        case.dst[...] = case.src
        bound = binding.bind("copy", "copy", case.layout)
        case.check(lambda bound=bound, case=case: bound(0, tuple(case.pointers)), bound)
        assert len(bound.planned(H200).parts) > 1


@pytest.mark.full
def test_more_dimensions_than_a_kernel_unrolls() -> None:
    sizes = (3, 2) * 7
    copy = Copy(
        sizes, dense(sizes, 4), dense(sizes, 4, random.Random(1).sample(range(14), 14)), F32, F32
    )
    check(copy)


def test_the_lists_are_not_empty() -> None:
    assert ITEMS and CASTS and SHAPES and IMAGES and SCALED


if __name__ == "__main__":
    given = [int(a) for a in sys.argv[1:]]
    count, seed, most, kernels = given + [100, 0, 20_000, 1 << 30][len(given) :]
    begin = time.perf_counter()
    told = begin

    def tell(number: int, copies: int) -> None:
        """Print the progress, for a reader that stops this process early."""
        global told
        now = time.perf_counter()
        if now - told > 2:
            told = now
            print(
                f"{copies} copies of {number + 1} layouts are equal so far, {now - begin:.0f} s",
                flush=True,
            )

    counted = _fuzz(random.Random(seed), count, most, kernels, tell)
    built = counted.pop("variants")
    print(
        f"{sum(counted.values())} copies equal NumPy: {dict(counted)}, {built} kernels, "
        f"{time.perf_counter() - begin:.0f} s"
    )
