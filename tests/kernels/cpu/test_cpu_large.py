"""CPU code for many elements and for repeated numbers, which the small samples of tests/rows do not
reach."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import complex64, float16, float32, float64, int64
from gputensor.kernels import stub
from gputensor.kernels.cpu import gather, scatter, select, triangle
from gputensor.kernels.cpu import range as range_
from gputensor.kernels.cpu.pointwise import computed

from ..cpu_arrays import same_bits

ODD = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40]


@pytest.fixture
def two_threads():
    before = gt.get_num_threads()
    gt.set_num_threads(2)
    yield
    gt.set_num_threads(before)


# --- numbers beside operands ----------------------------------------------------------------------


def test_a_number_that_is_kept_is_never_taken_for_another():
    loop = computed(lambda x, n: np.copysign(x, n), (float32,), float32, float32)
    x = np.ones(3, np.float32)
    for number in (0.0, -0.0, 0, -1.0, True, -1, 2.0, -0.0):
        assert loop(x, number, None).tolist() == [math.copysign(1, number)] * 3


def test_numbers_are_checked_in_every_call_that_brings_others():
    x = gt.tensor([1, 2, 3], dtype=gt.int8)
    for _ in range(2):
        assert gt.clamp(x, 2, 100).tolist() == [2, 2, 3]
        with pytest.raises(errors.NumberRangeError):
            gt.clamp(x, 2, 300)
    assert gt.clamp(x, 0, 1).tolist() == [1, 1, 1]
    assert gt.clamp(x, False, True).dtype is gt.int8
    half = gt.tensor([0.5], dtype=gt.float32)
    assert [gt.clamp_min(half, n).tolist() for n in (1, 1.0, True, 0)] == [[1], [1], [1], [0.5]]


def test_operands_without_dimensions_stay_so():
    x, low = gt.tensor(2.0), gt.tensor(3.0)
    assert gt.clamp(x, low, None).shape == gt.nn.functional.elu(x).shape == ()
    assert gt.lerp(x, low, gt.tensor(0.5)).tolist() == 2.5


# --- choices without branches ---------------------------------------------------------------------


@pytest.mark.parametrize("of", [float32, float64, int64, complex64], ids=lambda d: d.short)
@pytest.mark.parametrize("count", [6, 6000])
def test_zeroed(of, count):
    random = np.random.default_rng(0)
    x, condition = random.standard_normal((2, count)).astype(of.np), random.random((1, count)) < 0.5
    same_bits(select.zeroed(condition, x), np.where(condition, of.np.type(0), x))
    same_bits(select.zeroed(x.real > 0, x[:1]), np.where(x.real > 0, of.np.type(0), x[:1]))


@pytest.mark.parametrize("of", [float32, float64], ids=lambda d: d.short)
def test_signed(of):
    x = np.array(ODD, of.np)
    same_bits(select.signed(np.zeros_like(x), x)[:4], np.array([0.0, -0.0, 0.0, -0.0], of.np))
    same_bits(select.signed(x, x)[:6], x[:6])


@pytest.mark.parametrize("count", [8, 8000])
def test_softshrink_keeps_the_sign_of_what_it_makes_zero(count):
    x = np.resize(np.array([*ODD, 0.25, -0.25, 2.0, -3.0], np.float32), count)
    with np.errstate(invalid="ignore"):
        outer = np.where(
            x > 0.5, x - np.float32(0.5), np.where(x < -0.5, x + np.float32(0.5), 0 * x)
        )
    same_bits(gt.nn.functional.softshrink(gt.from_numpy(x)).numpy(), outer)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(4, 5), (1, 90_000), (300, 400), (90_000, 2)])
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("loops", ["as installed", "NumPy's"])
def test_gather_and_scatter_along(shape, dim, is_turned, loops, two_threads):
    reads, writes = gather, scatter
    if loops == "as installed":
        reads, writes = stub.cpu("gather"), stub.cpu("scatter")
    random = np.random.default_rng(1)
    x = random.integers(0, 100, shape).astype(np.float32)
    x = np.ascontiguousarray(x.T).T if is_turned else x
    index = random.integers(0, shape[dim], shape)
    value = random.integers(0, 100, shape).astype(np.float32)
    out, places = np.empty(shape, np.float32), ([index], [dim], None, False)
    assert not reads.gather(out, x, *places)
    same_bits(out, np.take_along_axis(x, index, dim))
    key = gather.key(x, *places[:3])
    for loop, ufunc in ((writes.scatter_add, np.add), (writes.scatter_amax, np.maximum)):
        expected, found = x.copy("K"), x.copy("K")
        ufunc.at(expected, key, value)
        assert not loop(found, value, *places)
        same_bits(found, expected)
    found = x.copy("K")
    assert not writes.scatter(found, np.broadcast_to(np.float32(7), shape), *places)
    assert (np.take_along_axis(found, index, dim) == 7).all()
    few = [index[:1]], [dim], None, False
    assert not writes.scatter(found, value[:1], *few)
    keys = np.broadcast_arrays(*gather.key(x, *few[:3]))
    last = dict(zip(zip(*[k.ravel().tolist() for k in keys]), value[:1].ravel().tolist()))
    assert all(found[place] == v for place, v in last.items())


def test_masked_select_of_views():
    x = np.arange(60.0).reshape(6, 10)
    for a in (gt.from_numpy(x), gt.from_numpy(x).t(), gt.from_numpy(x)[::2, 1::3]):
        mask = a % 3 == 0
        assert gt.masked_select(a, mask).tolist() == a.numpy()[mask.numpy()].tolist()
    assert gt.masked_select(gt.from_numpy(x), gt.zeros(10, dtype=gt.bool)).shape == (0,)


# --- triangles, ranges ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4), (5, 3), (1, 6), (6, 1), (2, 3, 4), (0, 3), (3, 0)])
def test_triangles_by_rows(shape):
    x = np.arange(1.0, 1 + math.prod(shape)).reshape(shape)
    for shift in range(-8, 9):
        for loop, expected in ((triangle.lower, np.tril), (triangle.upper, np.triu)):
            out = np.full(shape, -1.0)
            loop(x, out, shift)
            same_bits(out, expected(x, shift))


def test_triangles_of_long_rows_are_copied_by_rows():
    x = np.random.default_rng(2).standard_normal((8, 4000))
    same_bits(gt.tril(gt.from_numpy(x), 3).numpy(), np.tril(x, 3))
    same_bits(gt.triu(gt.from_numpy(x), -3).numpy(), np.triu(x, -3))


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 40_001])
def test_both_ends_of_linspace_are_exact(steps):
    dst = np.empty(steps)
    range_.linspace(dst, -0.1, 0.7, steps)
    assert dst[0] == -0.1 and dst[-1] == (0.7 if steps > 1 else -0.1)
    np.testing.assert_allclose(dst, np.linspace(-0.1, 0.7, steps), atol=1e-15)
    range_.linspace(dst[:1], 1.0, math.inf, 1)
    assert dst[0] == 1.0


# --- 16 bits, special functions -------------------------------------------------------------------


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "lt", "eq"])
def test_many_elements_of_float16_are_those_of_few(op):
    x = np.random.default_rng(3).standard_normal((2, 3000)).astype(float16.np)
    x[0, : len(ODD)], x[1, 4:12] = ODD, ODD
    a, b = gt.from_numpy(x[0]), gt.from_numpy(x[1])
    found = getattr(gt, op)(a, b).numpy()
    few = [getattr(gt, op)(a[n : n + 50], b[n : n + 50]).numpy() for n in range(0, 3000, 50)]
    same_bits(found, np.concatenate(few))


@pytest.mark.parametrize("op", ["maximum", "minimum", "fmax", "fmin", "clamp_max", "clamp_min"])
@pytest.mark.parametrize("odd", [[math.inf, 0.0, -math.inf], ODD], ids=["numbers", "nan"])
def test_extremes_of_many_float16(op, odd):
    x = np.random.default_rng(4).standard_normal((2, 40, 50)).astype(float16.np)
    x[0, 0, : len(odd)], x[1, 3, 4 : 4 + len(odd)] = odd, odd
    function = {"clamp_max": np.minimum, "clamp_min": np.maximum}.get(op) or getattr(np, op)
    for a, b in ((x[0], x[1]), (x[0], x[1, :1]), (x[0].T, x[1].T)):
        found = getattr(gt, op)(gt.from_numpy(a), gt.from_numpy(b)).numpy()
        expected = function(a.astype(np.float32), b.astype(np.float32))
        assert np.array_equal(found, expected, equal_nan=True) and found.dtype == np.float16


@pytest.mark.parametrize("op", ["maximum", "minimum", "fmax", "fmin"])
def test_an_extreme_of_many_float16_and_a_tensor_without_dimensions(op):
    x = np.random.default_rng(4).standard_normal((40, 60)).astype(float16.np)
    many, one = gt.from_numpy(x), gt.tensor(0.5, dtype=gt.float16)
    expected = getattr(np, op)(x, float16.np.type(0.5))
    same_bits(getattr(gt, op)(many, one).numpy(), expected)
    same_bits(getattr(gt, op)(one, many).numpy(), expected)
    bound = {"maximum": "min", "minimum": "max"}.get(op)
    if bound is not None:
        same_bits(gt.clamp(many, **{bound: one}).numpy(), expected)


@pytest.mark.parametrize("count", [4, 5000])
@pytest.mark.parametrize("alpha", [1.0, 0.0, -1.0, math.inf])
def test_elu_keeps_minus_zero(alpha, count):
    zeros = gt.full((count,), -0.0)
    same_bits(gt.nn.functional.elu(zeros, alpha).numpy(), np.full(count, -0.0, np.float32))


@pytest.mark.parametrize("of", [np.float32, np.float64])
@pytest.mark.parametrize("odd", [[], [0.0, 1e-30, 1e-200], [math.inf, math.nan, 1e30, 1e200]])
def test_hypot_of_many(of, odd):
    x = np.random.default_rng(5).standard_normal((2, 70, 90)).astype(np.float64)
    x[:, 0, : len(odd)] = odd
    x[1, 0, :2] = x[1, 0, 1::-1]
    with np.errstate(over="ignore", under="ignore"):
        a, b = x.astype(of)
        expected = np.hypot(a, b)
    found = gt.hypot(gt.from_numpy(a), gt.from_numpy(b)).numpy()
    np.testing.assert_allclose(found, expected, rtol=2 * np.finfo(of).eps)


def test_a_choice_by_signs():
    x = np.random.default_rng(6).standard_normal((60, 50)).astype(np.float32)
    x[0, : len(ODD)] = ODD
    for given in (x, x.T, x.astype(np.float64), x[:2, :3]):
        a, b = -given, given * 3
        same_bits(select.negative(given, a.copy(), b, a.copy()), np.where(np.signbit(given), a, b))


@pytest.mark.parametrize("op", ["isfinite", "isinf", "isnan", "isneginf", "isposinf"])
def test_integers_are_finite(op):
    for of in (gt.uint8, gt.int64, gt.bool):
        x = gt.ones(2, 3, dtype=of)
        assert getattr(gt, op)(x).tolist() == [[op == "isfinite"] * 3] * 2
    for of in (gt.int64, gt.uint8) if op in ("isneginf", "isposinf") else ():
        out = gt.ones(2, 3, dtype=gt.bool)
        assert not getattr(gt, op)(gt.ones(2, 3, dtype=of), out=out).any()


@pytest.mark.parametrize("shape", [(100, 90), (4, 30, 80), (20, 5, 6, 9), (2000, 5), (6000,)])
def test_places_of_many_elements_that_are_not_zero(shape):
    x = np.random.default_rng(7).integers(0, 9, shape) * 0.5
    for given in (x, x.astype(np.float16), x > 1, np.swapaxes(x, 0, -1), x * 0):
        found = gt.nonzero(gt.from_numpy(given))
        assert not found.numel() or found.stride(0) == 1
        assert np.array_equal(found.numpy(), np.argwhere(given))


def test_igammac_is_what_igamma_leaves():
    from scipy import special

    a, x = np.meshgrid([0.05, 0.5, 1.0, 3.0, 50.0], [0.0, 1e-3, 0.3, 1.0, 4.0, 60.0, math.inf])
    found = gt.special.gammaincc(gt.from_numpy(a), gt.from_numpy(x)).numpy()
    # SciPy's relative error is 3e-14 at (0.5, 1).
    np.testing.assert_allclose(found, special.gammaincc(a, x), rtol=4e-14)


@pytest.mark.parametrize("name", ["digamma", "entr", "erfinv", "gammaln", "xlogy", "zeta"])
def test_rare_values_among_others_change_none_of_them(name):
    function, usual = getattr(gt.special, name), np.linspace(0.1, 0.9, 40)
    beside = (gt.tensor(2.5, dtype=gt.float64),) if name in ("xlogy", "zeta") else ()
    order = (lambda x: (*beside, x)) if name == "zeta" else (lambda x: (x, *beside))
    alone = function(*order(gt.from_numpy(usual))).numpy()
    mixed = function(*order(gt.from_numpy(np.concatenate([usual, ODD])))).numpy()
    same_bits(mixed[:40], alone)


@pytest.mark.parametrize("scale", [1.0, 1e-40, 1e6])
def test_quotients_of_many_floats_are_rounded_down_as_of_few(scale):
    random = np.random.default_rng(8)
    b = random.standard_normal((90, 80)).astype(np.float32)
    a = b * random.integers(-200, 200, b.shape).astype(np.float32)
    a[::2] = np.nextafter(a[::2], np.float32(0)) * np.float32(scale)
    for odd in ([], [0.0, -0.0], [math.inf, math.nan, 1e30]):
        a[0, : len(odd)], b[1, : len(odd)] = odd, odd
        with np.errstate(all="ignore"):
            is_infinite = np.isinf(a) | np.isinf(b)
            expected = np.where(is_infinite, a / b, np.floor_divide(a, b))
        same_bits(
            gt.div(gt.from_numpy(a), gt.from_numpy(b), rounding_mode="floor").numpy(), expected
        )


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_clamp_keeps_the_sign_of_a_zero(size: int) -> None:
    """If an element equals its bound, the result is the element, as in ATen."""
    for zero, bound in ((-0.0, 0.0), (0.0, -0.0)):
        for low, high in ((bound, 1.0), (-1.0, bound)):
            made = gt.clamp(gt.full((size,), zero), low, high).numpy()
            assert (np.signbit(made) == np.signbit(zero)).all()
