"""Launch plans as tables: entry, defines, grid, block and parameter bytes, without any device."""

from __future__ import annotations

import itertools
import random
import struct

import pytest

from gputensor.core import errors
from gputensor.core.dtype import ALL
from gputensor.core.geometry import contiguous_geometry, geometry
from gputensor.iterator.rows import Rows
from gputensor.kernels.cuda import binding, launch, module, numbers, reduce_launch, variants
from gputensor.kernels.cuda.division import divider, magic
from gputensor.runtime.device_limits import H200

from ..kernel_arrays import SHORT, Layout

BOOL, U8, I32, I64, F16, F32, F64, C64, C128 = (
    SHORT[s] for s in ("bool", "u8", "i32", "i64", "f16", "f32", "f64", "c64", "c128")
)


def dense(numel: int, *dtypes: object, common: object = None) -> Layout:
    return Layout((numel,), [(d.itemsize,) for d in dtypes], list(dtypes), common or dtypes[0])


def rows(
    op: str, sizes: tuple[int, ...], dim: int, of: object, inputs: int = 1, turned: bool = False
) -> Rows:
    dense = contiguous_geometry(sizes, of)
    given = (
        geometry(sizes, contiguous_geometry(sizes[::-1], of).strides[::-1], of) if turned else dense
    )
    return Rows(op, (dense, *[given] * inputs), dim, of)


# --- golden plans -------------------------------------------------------------------------------

# (family, op, layout) -> (entry, SCALAR, blocks, threads)
GOLDEN = [
    ("unary", "neg", dense(4, F32, F32), ("unary_contiguous", "f32", 1, 32)),
    ("unary", "neg", dense(1 << 20, F32, F32), ("unary_contiguous", "f32", 256, 256)),
    ("unary", "neg", dense(1 << 20, I32, I32), ("unary_contiguous", "u32", 256, 256)),
    ("unary", "abs", dense(1 << 20, I32, I32), ("unary_contiguous", "i32", 256, 256)),
    ("unary", "abs", dense(4096, F32, C64, common=C64), ("unary_strided", "c64", 4, 256)),
    ("unary", "exp", dense(4096, F64, F32, common=F32), ("unary_strided", "f32", 4, 256)),
    ("binary", "add", dense(1 << 20, F32, F32, F32), ("binary_contiguous", "f32", 512, 256)),
    ("binary", "add", dense((1 << 20) + 1, F16, F16, F16), ("binary_contiguous", "f16", 257, 256)),
    ("binary", "mul", dense(5000, F32, F32, I64, common=F32), ("binary_strided", "f32", 5, 256)),
    ("binary", "add", Layout((), [(), (), ()], [F32] * 3, F32),
     ("binary_contiguous", "f32", 1, 32)),
    ("binary", "add", Layout((8, 4), [(4, 32), (16, 4), (0, 4)], [F32] * 3, F32),
     ("binary_strided", "f32", 1, 32)),
    ("comparison", "eq", dense(4096, BOOL, F64, F64, common=F64),
     ("comparison_contiguous", "f64", 4, 256)),
    ("comparison", "lt", dense(4096, U8, F64, F64, common=F64),
     ("comparison_strided", "f64", 4, 256)),
    ("where", "where", dense(4096, F32, BOOL, F32, F32, common=F32),
     ("where_contiguous", "u32", 2, 256)),
    ("where", "where", dense(4096, F64, BOOL, F64, I32, common=F64),
     ("where_cast", "c128", 4, 256)),
    ("fill", "fill", dense(4096, C128), ("fill_contiguous", "w128", 4, 256)),
    ("copy", "copy", dense(1 << 14, U8, U8), ("copy_contiguous", "u8", 1, 256)),
    ("copy", "copy", dense(1 << 12, F16, F32), ("copy_cast", "f32", 4, 256)),
    ("copy", "copy", Layout((100, 64), [(4, 400), (256, 4)], [F32, F32], F32),
     ("copy_strided", "u32", 7, 256)),
    ("copy", "copy", Layout((3, 64), [(4, 12), (256, 4)], [F32, F32], F32),
     ("copy_strided", "u32", 1, 64)),
    ("copy", "copy", Layout((64,), [(4,), (0,)], [F32, F32], F32), ("copy_strided", "u32", 1, 32)),
    # a lane, a warp or a block per row; separate lanes if rows are adjacent
    ("softmax", "softmax", rows("softmax", (64, 10), 1, F32), ("softmax_rows", "f32", 1, 256)),
    ("softmax", "log_softmax", rows("log_softmax", (64, 400), 1, F16), ("softmax_rows", "f16", 8,
    256)),
    ("softmax", "softmax", rows("softmax", (64, 513), 1, F32), ("softmax_rows", "f32", 64, 256)),
    ("softmax", "softmax", rows("softmax", (64, 257), 1, F64), ("softmax_rows", "f64", 64, 256)),
    ("softmax", "softmax_backward", rows("softmax_backward", (10, 64), 0, F32, 2),
     ("softmax_strided", "f32", 1, 256)),
    ("softmax", "softmax", rows("softmax", (64, 100), 1, F32, 1, True), ("softmax_strided", "f32",
    4, 256)),
    ("range", "arange", dense(1000, F32), ("range_strided", "f64", 1, 256)),
    ("range", "arange", dense(1000, I64), ("range_strided", "i64", 1, 256)),
    ("random", "uniform", dense(1 << 20, F32), ("random_contiguous", "f32", 1024, 256)),
    ("random", "uniform", dense(1 << 20, C64), ("random_contiguous", "f32", 2048, 256)),
]  # fmt: skip


@pytest.mark.parametrize(("family", "op", "layout", "expected"), GOLDEN)
def test_golden_plans(family: str, op: str, layout: Layout, expected: tuple[object, ...]) -> None:
    bound = binding.bind(family, op, layout)
    assert (bound.entry, bound.defines["SCALAR"], bound.grid[0], bound.block[0]) == expected
    assert bound.grid[1:] == bound.block[1:] == (1, 1) and bound.shared_bytes == 0
    assert bound.defines in variants.group_of(family, bound.defines)


# shape with the reduced dimensions first, their number, strides of x -> plan
REDUCTIONS = [
    ("sum", F32, (1 << 20,), 1, (4,), ("reduce_rows", 128, 256, 8, 128)),
    ("sum", F32, (1024, 4096), 1, (4, 4096), ("reduce_rows", 1024, 256, 6, 1)),
    ("sum", F32, (3, 100_000), 1, (4, 12), ("reduce_rows", 391, 256, 0, 1)),
    ("sum", F32, (4096, 1024), 1, (4096, 4), ("reduce_columns", 512, 256, 3, 64)),
    ("sum", F32, (4096, 1024), 1, (4096, 8), ("reduce_strided", 1024, 256, 3, 32)),
    ("sum", F32, (5, 6, 7), 2, (4, 400, 20), ("reduce_rows", 1, 256, 2, 1)),
    ("sum", F32, (3, 4, 512, 8), 1, (8192, 4, 16, 32768), ("reduce_columns", 16, 256, 0, 1)),
    ("sum", F32, (196, 64, 256), 2, (4, 200_704, 784), ("reduce_rows", 256, 256, 8, 1)),
    ("amax", F16, (1024, 8), 1, (2, 2048), ("reduce_rows", 1, 256, 5, 1)),
]


@pytest.mark.parametrize(("op", "d", "shape", "n_reduced", "strides", "expected"), REDUCTIONS)
def test_golden_reductions(
    op: str,
    d: object,
    shape: tuple[int, ...],
    n_reduced: int,
    strides: tuple[int, ...],
    expected: tuple[object, ...],
) -> None:
    out, step = [], 0
    for size in shape[n_reduced:]:
        out.append(step or d.itemsize)
        step = (step or d.itemsize) * size
    layout = Layout(shape, [(0,) * n_reduced + tuple(out), strides], [d, d], d, n_reduced)
    bound = binding.bind("reduce", op, layout)
    assert (bound.entry, bound.grid[0], bound.block[0], bound.lane_bits, bound.segments) == expected
    assert bound.defines in variants.group("reduce")
    rows = sum(stage.segments for _, _, stage in bound.stages)
    assert (bound.last is None) == (rows == 1)


def test_the_order_of_a_reduction_covers_every_element_once() -> None:
    for units, lanes, most in itertools.product(
        (1, 5, 4095, 4096, 10**6 + 1), (1, 32, 256), (1, 147, 1024, 1 << 30)
    ):
        segments, each = reduce_launch.segments_of(units, lanes, most)
        assert (segments - 1) * each < units <= segments * each
        assert segments == 1 or each % lanes == 0


def test_empty_layouts_launch_nothing() -> None:
    for family, op, dtypes in (
        ("unary", "neg", [F32] * 2),
        ("copy", "copy", [F32] * 2),
        ("fill", "fill", [F32]),
        ("random", "uniform", [F32]),
    ):
        bound = binding.bind(family, op, Layout((3, 0), [(4, 12)] * len(dtypes), dtypes, F32))
        bound(0, (0,) * len(dtypes), (1, 1))
    binding.bind("reduce", "sum", Layout((3, 0), [(0, 4), (4, 12)], [F32, F32], F32, 1))(0, (0, 0))


def test_what_has_no_kernel_says_so() -> None:
    with pytest.raises(errors.DtypeError, match="exp: no CUDA kernel computes in i32"):
        binding.bind("unary", "exp", dense(4, I32, I32))
    with pytest.raises(errors.ShapeError, match="at most 56 dimensions"):
        binding.bind("copy", "copy", Layout((2,) * 65, [(4,) * 65, (0,) * 65], [F32, F32], F32))


# --- parameters ---------------------------------------------------------------------------------


def test_parameters_of_a_contiguous_launch() -> None:
    packed = binding.bind("unary", "neg", dense(7, F32, F32)).pack((16, 32))
    assert struct.unpack("<QQ16xII", packed) == (16, 32, 7, 0)


def test_parameters_of_numbers_and_alpha() -> None:
    layout = Layout((7,), [(4,), (4,), None], [F32] * 3, F32)
    packed = binding.bind("binary", "mul", layout).pack((16, 32, 2.5))
    assert struct.unpack("<QQQ16xf12x16xII", packed) == (16, 32, 0, 2.5, 7, 2)
    bound = binding.bind("binary", "sub_alpha", dense(7, F32, F32, F32))
    assert bound.defines["OP"] == "add_alpha"
    assert struct.unpack("<QQQ32xf12xII", bound.pack((16, 32, 48), (3,))) == (
        16,
        32,
        48,
        -3.0,
        7,
        0,
    )
    packed = binding.bind("binary", "add_alpha", layout).pack((16, 32, 2.5), (3,))
    assert struct.unpack("<QQQ16xf12xf12xII", packed) == (16, 32, 0, 2.5, 3.0, 7, 2)


def test_parameters_of_a_strided_launch() -> None:
    layout = Layout((8, 4), [(4, 32), (16, 8)], [F32, I64], F32)
    packed = binding.bind("copy", "copy", layout).pack((16, 32))
    assert struct.unpack_from("<QQ16xIiiI4i", packed) == (
        16,
        32,
        32,
        2,
        F32.code,
        0,
        F32.code,
        I64.code,
        0,
        0,
    )
    assert struct.unpack_from("<4I2q", packed, 64) == (*divider(8), 4, 16)
    assert struct.unpack_from("<4I2q", packed, 96) == (*divider(4), 32, 8)
    assert len(packed) == 64 + 8 * 32


def test_the_largest_parameters_fit() -> None:
    """A kernel accepts 4 KiB on every architecture and driver."""
    shape, walk = (1,) * 56, tuple(3 * 4**d for d in range(20)) + (4,) * 36
    where = binding.bind(
        "where", "where", Layout((2,) * 30, [walk[:30]] * 4, [F32, BOOL, F32, F32], F32)
    )
    assert len(where.pack((0, 0, 0, 0))) <= 4096
    loss = binding.bind(
        "criterion", "binary_cross_entropy_with_logits_backward",
        Layout((2,) * 30, [walk[:30]] * 6, [F32] * 6, F32),
    )  # fmt: skip
    assert len(loss.pack((0,) * 6, (1.0,))) <= 4096
    whole = reduce_launch.Reduce(
        "sum", Layout((), [(), ()], [F32, F32], F32), shape, (walk, walk), shape[:20], walk[:20]
    )
    assert len(whole.stages[0][2].tail) + 16 <= 4096


@pytest.mark.parametrize(
    ("name", "common", "value", "rounded", "expected"),
    [
        ("i64", U8, 300, True, struct.pack("<q", 44)),
        ("i64", I32, 2**31, True, struct.pack("<q", -(2**31))),
        ("i64", BOOL, 5, True, struct.pack("<q", 1)),
        ("u64", SHORT["u64"], -1, True, struct.pack("<Q", 2**64 - 1)),
        ("f32", F32, 0.1, False, struct.pack("<f", 0.1)),
        ("f32", F16, 0.1, False, struct.pack("<f", 0.1)),
        ("f32", F16, 0.1, True, struct.pack("<f", 0.0999755859375)),
        ("f32", F32, 1e300, False, struct.pack("<f", float("inf"))),
        ("f64", F64, 3, False, struct.pack("<d", 3.0)),
        ("c64", C64, 1 - 2j, False, struct.pack("<ff", 1, -2)),
        ("c128", C128, 1 - 2j, False, struct.pack("<dd", 1, -2)),
        ("c128", F32, 0.1, True, struct.pack("<d", struct.unpack("<f", struct.pack("<f", 0.1))[0])),
    ],
)
def test_numbers(name: str, common: object, value: complex, rounded: bool, expected: bytes) -> None:
    packed = numbers.arithmetic(name, common, is_rounded=rounded)(value)
    assert packed == expected.ljust(16, b"\0")


# --- arithmetic ---------------------------------------------------------------------------------


def test_magic_division() -> None:
    rng = random.Random(0)
    divisors = [
        *range(1, 70),
        2**31 - 1,
        2**30,
        2**30 + 1,
        *(rng.randrange(1, 2**31) for _ in range(300)),
    ]
    for divisor in divisors:
        multiplier, shift = magic(divisor)
        assert multiplier < 2**32
        edges = [k * divisor + e for k in (0, 1, 2, (2**31 - 1) // divisor) for e in (-1, 0, 1)]
        for n in (*edges, 0, 2**31 - 1, *(rng.randrange(2**31) for _ in range(20))):
            if 0 <= n < 2**31:
                assert ((n * multiplier >> 32) + n) >> shift == n // divisor, (n, divisor)


@pytest.mark.parametrize("shape", [(7,), (1000,), (3, 5, 100), (100, 5, 3), (2,) * 10, ()])
def test_pieces_cover_a_shape_in_order(shape: tuple[int, ...]) -> None:
    seen = []
    for start, sizes in launch.pieces(shape, 64):
        assert 0 < launch.product(sizes) <= 64
        spans = [range(a, a + n) for a, n in zip(start, sizes)]
        for index in itertools.product(*reversed(spans)):
            linear, step = 0, 1
            for i, n in zip(reversed(index), shape):
                linear, step = linear + i * step, step * n
            seen.append(linear)
    assert seen == list(range(launch.product(shape)))


def test_blocks_are_whole_warps_and_cover_everything() -> None:
    for elements, each in itertools.product((1, 31, 32, 33, 1000, 10**6), (4, 8, 64)):
        threads = launch.threads_for(elements, each)
        assert threads % 32 == 0 and 32 <= threads <= launch.THREADS
        assert launch.blocks_for(elements, threads * each) * threads * each >= elements


def test_large_layouts_are_split() -> None:
    bound = binding.bind("binary", "mul", dense(3 << 30, F32, F32, F32))
    assert [offsets for offsets, _ in bound.parts] == [(k << 32,) * 3 for k in range(3)]
    strided = binding.bind(
        "copy", "copy", Layout((1 << 20, 1 << 12), [(2, 1 << 22), (0, 4)], [F16, F16], F16)
    )
    assert [p.offsets for p in strided.planned(H200).parts] == [
        (k << 32, k << 12) for k in range(4)
    ]


# --- text and variants --------------------------------------------------------------------------


@pytest.mark.parametrize("family", variants.FAMILIES)
def test_text_marks_its_lines_and_splits_at_the_body(family: str) -> None:
    text = module.text(family)
    once, body = text.split(module.BODY)
    assert text.startswith(f'#line 1 "{family}.cu"') and "#include" not in text
    for name in ("OP", "SCALAR", "LAYOUT ", "DIMS"):
        assert f"#ifdef {name}" not in once
    for defines in variants.group(family):
        assert f"struct {defines['OP']} " in once
        layout = defines["LAYOUT"].lower()
        assert f"{family}_{layout}" in body


@pytest.mark.parametrize("family", ["unary", "binary", "comparison", "ternary"])
def test_every_dtype_finds_its_variant(family: str) -> None:
    found = 0
    for op, d in itertools.product(variants.LOOPS[family], ALL):
        if not variants.has(family, op, d):
            continue
        group = variants.group(family)
        assert variants.define(op, variants.arithmetic(d), "STRIDED", 8) in group
        if variants.has_contiguous(family, op, d):
            assert (
                variants.define(op, variants.contiguous_scalar(family, op, d), "CONTIGUOUS")
                in group
            )
        found += 1
    assert found > 15


def test_variants_are_listed_once() -> None:
    for family in variants.FAMILIES:
        group = variants.group(family)
        assert len({tuple(v.items()) for v in group}) == len(group) > 0
