"""Special features of kernel families against NumPy, launched without tensors on the emulator.

Every operator, dtype and layout comes from the rows: test_ops_cpu_vs_cuda.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gputensor import runtime
from gputensor.core.dtype import ALL, dtype
from gputensor.kernels.cpu import cast
from gputensor.kernels.cpu import random as cpu_random
from gputensor.kernels.cpu import range as cpu_range
from gputensor.kernels import stub
from gputensor.kernels.cuda import binding, launch, module, variants

from .kernel_arrays import SHORT, Layout, OnDevice, layout_of, run
from ..support import fresh_emulator, requires_emulator

pytestmark = requires_emulator

FLOATS = [d for d in ALL if d.is_floating_point]
INTEGERS = [d for d in ALL if d.category == 1]
NUMERIC = [d for d in ALL if d.category]
BOOL, U8, I8, I32, I64, U64 = (SHORT[s] for s in ("bool", "u8", "i8", "i32", "i64", "u64"))
F16, BF16, F32, F64, C64, C128 = (SHORT[s] for s in ("f16", "bf16", "f32", "f64", "c64", "c128"))


def by_short(d: dtype) -> str:
    return d.short


def shown(value: Any) -> str:
    return value.short if isinstance(value, dtype) else str(value)


def samples(d: dtype, count: int, seed: int = 0) -> np.ndarray:
    """Return values of a dtype, including its extremes."""
    rng = np.random.default_rng(seed)
    if d is BOOL:
        return rng.integers(0, 2, count).astype(bool)
    if d.category == 1:
        info = np.iinfo(d.np)
        made = rng.integers(info.min, info.max, count, d.np, endpoint=True)
        made[: min(4, count)] = [info.min, info.max, 0, 1][:count]
        return made
    if d.is_complex:
        made = rng.normal(size=count) * 4 + 1j * rng.normal(size=count) * 4
        return made.astype(d.np)
    made = rng.normal(size=count) * 8
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1.0, -1.0, 65519.9, 2.0**-24]
    made[: min(len(special), count)] = special[:count]
    with np.errstate(over="ignore", under="ignore"):
        return made.astype(d.np)


def small(d: dtype, count: int, seed: int = 0) -> np.ndarray:
    """Return nonzero values near zero."""
    made = np.random.default_rng(seed).integers(1, 7, count).astype(np.float64)
    if d.is_signed:
        made[::3] *= -1
    return made.astype(d.np)


# Each function takes a flat array and returns a view of it, or of memory around it.
LAYOUTS = {
    "dense": lambda x: x,
    "unaligned": lambda x: np.concatenate([x[:1], x])[1:],
    "step 2": lambda x: np.repeat(x, 2)[::2],
    "transposed": lambda x: x.reshape(-1, 6).T,
    "backwards": lambda x: x[::-1].copy()[::-1],
    "4-d": lambda x: x.reshape(-1, 2, 3, 2).transpose(2, 0, 3, 1)[:, ::-1],
}


@pytest.fixture(scope="module", autouse=True)
def emulator() -> Iterator[None]:
    """Make `runtime.cuda()` return an emulator with two devices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "_chosen", fresh_emulator(patch, devices=2))
        module.clear()
        yield
        module.clear()


@pytest.fixture(params=[0, 1], ids=["cuda:0", "cuda:1"])
def device(request: Any) -> int:
    return request.param  # type: ignore[no-any-return]


def equal(got: np.ndarray, expected: np.ndarray, *, ulp: int = 0) -> None:
    """Raise unless the arrays agree bit for bit, or within `ulp`; all NaNs are equal."""
    assert got.shape == expected.shape and got.dtype == expected.dtype
    if got.dtype.kind == "c":
        equal(
            np.ascontiguousarray(got).view(got.real.dtype),
            np.ascontiguousarray(expected).view(got.real.dtype),
            ulp=ulp,
        )
        return
    if got.dtype.kind not in "fV":
        np.testing.assert_array_equal(got, expected)
        return
    with np.errstate(invalid="ignore"):
        _equal_floats(got, expected, ulp)


def _equal_floats(got: np.ndarray, expected: np.ndarray, ulp: int) -> None:
    a, b = got.astype(np.float64), expected.astype(np.float64)
    both_nan = np.isnan(a) & np.isnan(b)
    if not ulp:
        wrong = ~both_nan & ((a != b) | (np.signbit(a) != np.signbit(b)))
    else:
        spacing = np.abs(np.spacing(np.where(np.isfinite(b), b, 1).astype(got.dtype))).astype(
            np.float64
        )
        wrong = ~both_nan & (a != b) & ~(np.abs(a - b) <= ulp * spacing)
    assert not wrong.any(), (a[wrong][:5], b[wrong][:5])


def bits_equal(got: np.ndarray, expected: np.ndarray) -> None:
    a, b = np.ascontiguousarray(got), np.ascontiguousarray(expected)
    np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


# --- copy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("src", ALL, ids=by_short)
@pytest.mark.parametrize("dst", ALL, ids=by_short)
def test_copy_casts_every_pair(dst: dtype, src: dtype) -> None:
    x = samples(src, 48)
    if src.is_floating_point:
        with np.errstate(all="ignore"):
            x[10:20] = np.array(
                [3e2, -3e2, 1e10, -1e10, 2.0**63, 2.0**64, 1.5e19, -1e30, 0.1, 4.5e9]
            ).astype(src.np)
    out = np.zeros(48, dst.np)
    with np.errstate(all="ignore"):
        expected = cast.convert(x, dst.np)
    equal(run(binding.bind("copy", "copy", layout_of([out, x], dst)), out, [x]), expected)


@pytest.mark.parametrize("device", [0, 1], ids=shown)
@pytest.mark.parametrize("d", [BOOL, F16, F32, C64, C128], ids=shown)
@pytest.mark.parametrize("of", list(LAYOUTS), ids=shown)
@pytest.mark.parametrize("to", list(LAYOUTS), ids=shown)
def test_copy_moves_every_layout(to: str, of: str, d: dtype, device: int) -> None:
    x = LAYOUTS[of](samples(d, 48))
    out = LAYOUTS[to](np.zeros(48, d.np)).reshape(-1) if x.ndim == 1 else np.zeros(x.shape, d.np)
    if out.size and not out.flags.owndata and x.ndim == 1 and to == "4-d":
        out = np.zeros(96, d.np)[::2]
    bits_equal(
        run(binding.bind("copy", "copy", layout_of([out, x], d)), out, [x], device=device), x
    )


def test_copy_of_many_dimensions() -> None:
    x = np.arange(1 << 12, dtype=np.int16).reshape((2,) * 12).transpose(range(11, -1, -1))
    out = np.zeros(x.shape, np.int16)
    bound = binding.bind("copy", "copy", layout_of([out, x], SHORT["i16"]))
    assert bound.defines["DIMS"] == str(variants.MANY_DIMS)
    bits_equal(run(bound, out, [x]), x)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2)])
@pytest.mark.parametrize("src", [F32, I8], ids=by_short)
def test_copy_of_one_or_no_element(shape: tuple[int, ...], src: dtype) -> None:
    x, out = np.full(shape, 7, src.np), np.zeros(shape, np.float32)
    equal(
        run(binding.bind("copy", "copy", layout_of([out, x], F32)), out, [x]), x.astype(np.float32)
    )


def test_copy_broadcasts() -> None:
    out = np.zeros((5, 4, 20), np.float32)
    for x in (samples(F32, 20), samples(F32, 4).reshape(4, 1), samples(F32, 1).reshape(())):
        bits_equal(
            run(binding.bind("copy", "copy", layout_of([out, x], F32)), out, [x]),
            np.broadcast_to(x, out.shape),
        )


# --- unary --------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [C64, C128], ids=by_short)
def test_exp_of_complex_infinities(d: dtype) -> None:
    x = np.array(
        [-np.inf + 1j * np.inf, -np.inf + 1j, np.inf + 0j, 2 + 0j, complex(np.inf, 1)], d.np
    )
    out = np.zeros(5, d.np)
    got = run(binding.bind("unary", "exp", layout_of([out, x], d)), out, [x])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, np.exp(x), rtol=1e-6)


def test_unary_casts_on_the_way() -> None:
    x = samples(U8, 48)
    out = np.zeros(48, np.float64)
    got = run(binding.bind("unary", "exp", layout_of([out, x], F32)), out, [x])
    with np.errstate(over="ignore"):
        equal(got.astype(np.float32), np.exp(x.astype(np.float32)), ulp=2)


# --- binary -------------------------------------------------------------------------------------


def binary(
    op: str,
    a: Any,
    b: Any,
    common: dtype,
    scalars: tuple[Any, ...] = (),
    out: Any = None,
    device: int = 0,
) -> np.ndarray:
    sizes = np.broadcast_shapes(*[np.shape(x) for x in (a, b)])
    out = np.zeros(sizes, common.np) if out is None else out
    return run(
        binding.bind("binary", op, layout_of([out, a, b], common)), out, [a, b], scalars, device
    )


@pytest.mark.parametrize("d", INTEGERS, ids=by_short)
@pytest.mark.parametrize("op", ["div_floor", "div_trunc"])
def test_integer_division_does_not_trap(op: str, d: dtype) -> None:
    low = np.iinfo(d.np).min
    a, b = np.array([low, 1, low], d.np), np.array([np.array(-1).astype(d.np), 0, 1], d.np)
    got = binary(op, a, b, d)
    assert got[2] == low
    if d.is_signed:
        assert got[0] == low


def test_mixed_dtypes_meet_in_the_common_one() -> None:
    a = samples(U8, 48)
    scalar = np.array(300, np.int64)
    equal(binary("add", a, scalar, U8), a + np.uint8(300 & 255))
    half, single = samples(F16, 48), np.array(1.0001, np.float32)
    with np.errstate(all="ignore"):
        equal(
            binary("add", half, single, F16),
            (half.astype(np.float32) + np.float32(np.float16(1.0001))).astype(np.float16),
        )
    ints, doubles = samples(I32, 48), small(F64, 48)
    equal(binary("mul", ints, doubles, F64), ints * doubles)
    sums = (ints[:24] + doubles[::2]).astype(np.complex128)
    equal(binary("add", ints[:24], doubles[::2], F64, out=np.zeros(24, np.complex128)), sums)


def test_out_of_another_dtype_rounds_to_the_common_one_first() -> None:
    a, b = np.full(8, 1, np.float16), np.full(8, 2.0**-12, np.float16)
    equal(binary("add", a, b, F16, out=np.zeros(8, np.float64)), np.ones(8))


def test_binary_broadcasts_and_works_in_place() -> None:
    a, b = samples(F32, 60).reshape(3, 1, 20), samples(F32, 4).reshape(4, 1)
    with np.errstate(invalid="ignore"):
        equal(binary("add", a, b, F32), a + b)
    on_device = OnDevice(samples(F32, 5000), 0)
    bound = binding.bind("binary", "add", layout_of([on_device.array] * 3, F32))
    expected = on_device.array + on_device.array
    bound(0, (on_device.ptr,) * 3)
    equal(on_device.read(), expected)


# --- comparison and where -----------------------------------------------------------------------


def compare(op: str, a: Any, b: Any, common: dtype, device: int = 0) -> np.ndarray:
    out = np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)), bool)
    return run(
        binding.bind("comparison", op, layout_of([out, a, b], common)), out, [a, b], device=device
    )


def test_comparison_with_numbers(device: int) -> None:
    a = samples(U8, 600)
    equal(compare("lt", a, 300, U8, device), a < 44)
    equal(compare("ge", 3, a, U8, device), 3 >= a)
    half = samples(F16, 600)
    half[20] = 0.1
    equal(compare("eq", half, 0.1, F16, device), half == np.float16(0.1))
    equal(compare("lt", half[::2], 0.1, F16, device), half[::2] < np.float16(0.1))
    equal(compare("gt", a, 1.5, F32, device), a > 1.5)


@pytest.mark.parametrize("d", ALL, ids=by_short)
@pytest.mark.parametrize("step", [1, 2])
def test_where(d: dtype, step: int, device: int) -> None:
    condition = samples(BOOL, 1200)[::step]
    a, b = samples(d, 1200)[::step], samples(d, 1200, seed=1)[::step]
    out = np.zeros(a.shape, d.np)
    bound = binding.bind("where", "where", layout_of([out, condition, a, b], d))
    bits_equal(run(bound, out, [condition, a, b], device=device), np.where(condition, a, b))
    number: Any = {0: True, 1: 77, 2: 1.5, 3: 1.5 + 2j}[d.category]
    bound = binding.bind("where", "where", layout_of([out, condition, number, b], d))
    equal(run(bound, out, [condition, number, b]), np.where(condition, d.np.type(number), b))


@pytest.mark.parametrize("step", [1, 2])
def test_where_with_numbers_alone(step: int) -> None:
    condition, a = samples(BOOL, 600)[::step], samples(BF16, 600)[::step]
    out = np.zeros(condition.shape, np.int16)
    bound = binding.bind("where", "where", layout_of([out, condition, 3, -4], SHORT["i16"]))
    equal(run(bound, out, [condition, 3, -4]), np.where(condition, np.int16(3), np.int16(-4)))
    out = np.zeros(a.shape, BF16.np)
    bound = binding.bind("where", "where", layout_of([out, True, a, 0.5], BF16))
    equal(run(bound, out, [True, a, 0.5]), a)


def test_where_casts() -> None:
    condition, a = samples(BOOL, 48).reshape(6, 8), samples(I32, 8)
    for b, common in (
        (samples(F64, 6).reshape(6, 1), F64),
        (np.array(2.7, np.float32), F32),
        (samples(I64, 8), I64),
    ):
        out = np.zeros((6, 8), common.np)
        bound = binding.bind("where", "where", layout_of([out, condition, a, b], common))
        assert bound.entry == "where_cast"
        equal(
            run(bound, out, [condition, a, b]),
            np.where(condition, a.astype(common.np), b.astype(common.np)),
        )
    out = np.zeros((6, 8), np.float32)
    bound = binding.bind("where", "where", layout_of([out, condition, 0.1, a], F32))
    equal(
        run(bound, out, [condition, 0.1, a]),
        np.where(condition, np.float32(0.1), a.astype(np.float32)),
    )


# --- fill, range, random ------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(LAYOUTS), ids=shown)
@pytest.mark.parametrize("d", ALL, ids=shown)
def test_fill(d: dtype, name: str) -> None:
    out = LAYOUTS[name](np.zeros(600, d.np))
    for value in (True, 3, -1, 2.75, 2 - 1j if d.is_complex else 0):
        got = run(binding.bind("fill", "fill", Layout(*_walk(out), [d], d)), out, [], (value,))
        bits_equal(got, np.full(out.shape, cast.number(value, d.np)))


def _walk(out: np.ndarray) -> tuple[tuple[int, ...], list[Any]]:
    made = layout_of([out], SHORT["u8"] if out.dtype.kind == "V" else F32)
    return made.shape, list(made.stride_bytes)


def test_fill_of_an_expanded_tensor() -> None:
    out = np.broadcast_to(np.zeros(3, np.int32), (4, 3))
    assert (run(binding.bind("fill", "fill", layout_of([out], I32)), out, [], (5,)) == 5).all()


@pytest.mark.parametrize("d", NUMERIC, ids=by_short)
def test_arange(d: dtype, device: int) -> None:
    for start, step in ((2, 3), (5, -1), (0.5, 0.1)):
        for out in (np.zeros(700, d.np), np.zeros(700, d.np)[::3]):
            expected = np.zeros(out.shape, d.np)
            with np.errstate(all="ignore"):
                cpu_range.arange(expected, start, step)
            got = run(
                binding.bind("range", "arange", layout_of([out], d)), out, [], (start, step), device
            )
            equal(got, expected)


@pytest.mark.parametrize("steps", [1, 2, 5, 50], ids=shown)
@pytest.mark.parametrize("d", NUMERIC, ids=shown)
def test_linspace(d: dtype, steps: int) -> None:
    ends = (1 - 2j, 3 + 1j) if d.is_complex else (1, 12)
    out, expected = np.zeros(steps, d.np), np.zeros(steps, d.np)
    cpu_range.linspace(expected, *ends, steps)
    equal(
        run(binding.bind("range", "linspace", layout_of([out], d)), out, [], (*ends, steps)),
        expected,
    )


@pytest.mark.parametrize("d", [BOOL, I32, F16, F64, C64], ids=by_short)
@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (1, 4)])
def test_eye(d: dtype, shape: tuple[int, int]) -> None:
    for out in (np.ones(shape, d.np), np.ones((shape[0], 2 * shape[1]), d.np)[:, ::2]):
        got = run(binding.bind("range", "eye", layout_of([out], d)), out, [], (shape[1],))
        equal(got, np.eye(*shape).astype(d.np))


@pytest.mark.parametrize("device", [0, 1], ids=shown)
@pytest.mark.parametrize("start", [(0, 0), (2**64 - 1, 5), (123, 2**64 - 2)], ids=shown)
@pytest.mark.parametrize("shape", [(1,), (7,), (1025,), (5, 3)], ids=shown)
@pytest.mark.parametrize("d", FLOATS + [C64, C128], ids=shown)
def test_uniform_is_the_cpu_stream(
    d: dtype, shape: tuple[int, ...], start: tuple[int, int], device: int
) -> None:
    expected = np.zeros(shape, d.np)
    cpu_random.uniform(expected, *start)
    out = np.zeros(shape, d.np)
    bound = binding.bind("random", "uniform", layout_of([out], d))
    bits_equal(run(bound, out, [], (*start, 0.0, 1.0), device), expected)


# --- reductions ---------------------------------------------------------------------------------


def reduce(
    op: str, x: np.ndarray, axes: tuple[int, ...], common: dtype, out: dtype, device: int = 0
) -> np.ndarray:
    """`op` over `axes`, to a dense result."""
    kept = [d for d in range(x.ndim) if d not in axes]
    result = np.zeros([x.shape[d] for d in kept], out.np)
    seen = dict(zip(kept, result.strides))
    shape: list[int] = []
    walks: list[list[int]] = [[], []]
    marks = []
    for d in sorted(axes, key=lambda d: abs(x.strides[d])) + kept[::-1]:
        size, steps = x.shape[d], (seen.get(d, 0), x.strides[d])
        if (
            shape
            and marks[-1] == (d in axes)
            and all(s == w[-1] * shape[-1] for s, w in zip(steps, walks))
        ):
            shape[-1] *= size
            continue
        shape.append(size)
        marks.append(d in axes)
        walks[0].append(steps[0])
        walks[1].append(steps[1])
    source = layout_of([x], common).dtypes[0]
    made = Layout(tuple(shape), [tuple(w) for w in walks], [out, source], common, marks.count(True))
    return run(binding.bind("reduce", op, made), result, [x], device=device)


def test_sum_in_another_dtype() -> None:
    x = samples(I32, 500)
    np.testing.assert_allclose(reduce("sum", x, (0,), F64, F64), x.sum(dtype=np.float64))
    single = small(F32, 500)
    equal(
        reduce("sum", single + np.float32(0.75), (0,), I64, I64),
        np.asarray((single + np.float32(0.75)).astype(np.int64).sum()),
    )
    equal(reduce("sum", single, (0,), C128, C128), np.asarray(single.sum(dtype=np.complex128)))
    equal(
        reduce("sum", samples(F16, 600)[20:], (0,), F32, F32).astype(np.float16),
        np.asarray(samples(F16, 600)[20:].astype(np.float64).sum()).astype(np.float16),
        ulp=1,
    )
    equal(reduce("sum", x, (0,), I8, I8), np.asarray(x.sum(dtype=np.int8)))
    equal(reduce("mean", x.reshape(5, 100), (1,), F64, F64), x.reshape(5, 100).mean(1))


@pytest.mark.parametrize(
    ("op", "value"), [("sum", 0.0), ("mean", np.nan), ("any", False), ("all", True)]
)
def test_reduction_of_nothing(op: str, value: float) -> None:
    out = BOOL if op in ("any", "all") else F32
    for shape, axes, kept in (((0, 3), (0,), (3,)), ((3, 0), (1,), (3,)), ((0,), (0,), ())):
        got = reduce(op, np.zeros(shape, np.float32), axes, F32, out)
        np.testing.assert_array_equal(got, np.full(kept, value, out.np))
    assert reduce(op, np.zeros((0, 3), np.float32), (1,), F32, out).shape == (0,)


def test_nan_propagates() -> None:
    x = np.arange(600, dtype=np.float32)
    for at in (0, 299, 599):
        x[at] = np.nan
        assert np.isnan(reduce("amax", x, (0,), F32, F32)) and np.isnan(
            reduce("amin", x, (0,), F32, F32)
        )
        x[at] = at


@pytest.mark.parametrize("d", [U8, F16, F32, C128], ids=by_short)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((200_003,), (0,)), ((2, 70_001), (1,)), ((70_001, 2), (0,)), ((3, 30_000, 2), (0, 1))],
)
def test_long_reductions_have_segments(
    d: dtype, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    x = small(d, int(np.prod(shape))).reshape(shape)
    out = I64 if d is U8 else F32 if d is F16 else d
    got = reduce("sum", x, axes, out, out)
    equal(got, np.asarray(x.sum(axes, dtype=out.np)))  # small integers: every order is exact


@pytest.mark.parametrize("shape", [(4099,), (300, 17)])
def test_a_sum_does_not_depend_on_alignment(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    whole = np.concatenate([x.reshape(-1)[:1], x.reshape(-1)])
    bits_equal(
        reduce("sum", x, (0,), F32, F32), reduce("sum", whole[1:].reshape(shape), (0,), F32, F32)
    )


# --- matmul -------------------------------------------------------------------------------------


def test_mm_of_fractions() -> None:
    rng = np.random.default_rng(0)
    a, b = (
        rng.normal(size=(33, 200)).astype(np.float32),
        rng.normal(size=(200, 20)).astype(np.float32),
    )
    target, x, y = OnDevice(np.zeros((33, 20), np.float32), 0), OnDevice(a, 0), OnDevice(b, 0)
    stub.cuda("matmul").mm(F32)(
        0, target.ptr, x.ptr, y.ptr, 33, 20, 200, (200, 1), (20, 1), (20, 1)
    )
    exact = a.astype(np.float64) @ b
    assert (np.abs(target.read() - exact) <= 200 * 2.0**-24 * (np.abs(a) @ np.abs(b))).all()


# --- splits -------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch computes at most 64 elements."""
    monkeypatch.setattr(launch, "MAX_NUMEL", 64)


@pytest.mark.usefixtures("few")
def test_a_split_pointwise_launch() -> None:
    a, b = samples(I32, 600), samples(I32, 600, seed=1)
    equal(binary("add", a, b, I32), a + b)
    grid = a.reshape(20, 5, 6).transpose(2, 0, 1)
    equal(binary("add", grid, 3, I32), grid + 3)
    condition, out = samples(BOOL, 600), np.zeros(600, np.int32)
    bound = binding.bind("where", "where", layout_of([out, condition, a, 4], I32))
    equal(run(bound, out, [condition, a, 4]), np.where(condition, a, np.int32(4)))
    out = np.zeros(grid.shape, np.int32)
    equal(run(binding.bind("copy", "copy", layout_of([out, grid], I32)), out, [grid]), grid)


@pytest.mark.usefixtures("few")
def test_a_split_generator_goes_on_counting() -> None:
    out, expected = np.zeros(333, np.float32), np.zeros(333, np.float32)
    cpu_random.uniform(expected, 3, 9)
    bound = binding.bind("random", "uniform", layout_of([out], F32))
    bits_equal(run(bound, out, [], (3, 9, 0.0, 1.0)), expected)
    for out in (np.zeros(333, np.float32), np.zeros((37, 18), np.float32)[:, ::2]):
        got = run(binding.bind("range", "arange", layout_of([out], F32)), out, [], (1, 2))
        equal(got, (1 + 2 * np.arange(out.size)).astype(np.float32).reshape(out.shape))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("op", ["sum", "mean", "amax", "any"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((700,), (0,)), ((5, 7, 30), (0, 2)), ((90, 5), (1,)), ((90, 70), (0,))]
)
def test_a_split_reduction(op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = small(F32, int(np.prod(shape))).reshape(shape)
    out = BOOL if op == "any" else F32
    expected = getattr(np, op)(x, axes)
    np.testing.assert_allclose(reduce(op, x, axes, F32, out), expected, rtol=1e-6)


# --- completeness -------------------------------------------------------------------------------


def test_the_lists_are_not_empty() -> None:
    assert FLOATS and INTEGERS and NUMERIC and LAYOUTS
    assert all(variants.group(family) for family in variants.FAMILIES)
