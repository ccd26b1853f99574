"""Unary, binary, comparison and where loops: values, dtypes, numbers, outputs."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import (
    ALL, COMPLEX, FLOATING, INTEGER, bfloat16, bool_, complex64, float16, float32, float64,
    int8, int32, int64, uint8,
)  # fmt: skip
from gputensor.kernels.cpu import (
    binary, cast, comparison, pointwise, quiet, select, unary, where,
)  # fmt: skip

from ..cpu_arrays import COMPLEXES, FLOATS, HALVES, INTEGERS, awkward, same_bits, small, wide

ARITHMETIC = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
COMPARISONS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def rounded(values, to):
    """Convert f64, complex128 or Python integers to dtype `to`; 16-bit floats are rounded once from
    f32."""
    if to.category == INTEGER:
        return np.array([cast.wrap(int(v), to.np) for v in np.ravel(values)], to.np).reshape(
            np.shape(values)
        )
    with np.errstate(all="ignore"):
        values = np.asarray(values)
        values = values.astype(np.complex128 if to.category == COMPLEX else np.float64)
        return values.astype(np.float32).astype(to.np) if to in HALVES else values.astype(to.np)


# --- the hot path ---------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [d for d in ALL if d is not bool_], ids=lambda d: d.short)
def test_operands_of_one_dtype_get_the_bare_ufunc(of):
    assert binary.bind("add", (of, of), of, of) is np.add
    assert binary.bind("div", (of, of), of, of) is np.true_divide or of.category == INTEGER
    assert comparison.bind("lt", (of, of), of, bool_) is np.less
    assert binary.bind("mul", (of, of), of, of) is np.multiply


@pytest.mark.parametrize("of", [float32, float64], ids=lambda d: d.short)
@pytest.mark.parametrize("number", [bool, int, float])
def test_a_number_beside_a_wide_float_gets_the_bare_ufunc(of, number):
    assert binary.bind("mul", (of, number), of, of) is np.multiply
    assert binary.bind("mul", (number, of), of, of) is np.multiply


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "of"),
    [
        (op, d) for op in ARITHMETIC for d in ALL
        if d is not bool_ and (d.category < COMPLEX or op in ("add", "sub", "mul"))
    ],
    ids=str,
)  # fmt: skip
def test_arithmetic_of_small_values(op, of):
    a, b = small(of, (5, 4), 1), small(of, (4,), 2)
    expected = rounded(ARITHMETIC[op](wide(a), wide(b)), of)
    loop = binary.bind(op, (of, of), of, of)
    same_bits(loop(a, b), expected)
    out = np.empty((5, 4), of.np)
    assert loop(a, b, out=out) is out
    same_bits(out, expected)
    assert loop(a, b, out) is out  # in-place forms and threads pass it by position


@pytest.mark.parametrize("of", INTEGERS, ids=lambda d: d.short)
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_integers_wrap(op, of):
    values = awkward(of)
    a, b = values[:, None], values[None, :]
    same_bits(
        quiet.run(binary.bind(op, (of, of), of, of), a, b),
        rounded(ARITHMETIC[op](wide(a), wide(b)), of),
    )


@pytest.mark.parametrize("of", HALVES, ids=lambda d: d.short)
@pytest.mark.parametrize("op", [*ARITHMETIC, "div", "div_floor", "div_trunc", "add_alpha"])
def test_halves_compute_in_f32_and_round_once(op, of):
    values = awkward(of)
    a, b = np.repeat(values, values.size), np.tile(values, values.size)
    params = (0.3,) if op == "add_alpha" else ()
    found = quiet.run(binary.bind(op, (of, of), of, of), a, b, *params)
    wide_loop = binary.bind(op, (float32, float32), float32, float32)
    expected = quiet.run(wide_loop, a.astype(np.float32), b.astype(np.float32), *params)
    with np.errstate(all="ignore"):
        expected = expected.astype(of.np)
    if op in ("maximum", "minimum"):  # the larger of 0 and -0 is not defined
        found, expected = found + of.np.type(0), expected + of.np.type(0)
    same_bits(found, expected)


@pytest.mark.parametrize("common", [d for d in ALL if d is not bool_], ids=lambda d: d.short)
def test_mixed_dtypes_are_cast_to_the_common_one(common):
    allowed = [d for d in ALL if d.category < common.category or d is common]
    assert allowed
    for left, right in itertools.product(allowed, allowed):
        a, b = small(left, (6,), 3), small(right, (6,), 4)
        expected = rounded(wide(a) + wide(b), common)
        same_bits(binary.bind("add", (left, right), common, common)(a, b), expected)
        op = "lt" if common.category < COMPLEX else "eq"
        found = comparison.bind(op, (left, right), common, bool_)(a, b)
        compare = COMPARISONS[op]
        same_bits(found, np.asarray(compare(wide(a), wide(b)), bool))


@pytest.mark.parametrize("out", [d for d in ALL if d.category >= FLOATING], ids=lambda d: d.short)
def test_an_output_of_another_dtype_takes_the_cast_result(out):
    a, b = small(float32, (6,), 5), small(float32, (6,), 6)
    into = np.empty(6, out.np)
    binary.bind("add", (float32, float32), float32, out)(a, b, out=into)
    same_bits(into, rounded(wide(a) + wide(b), out))
    flags = np.empty(6, out.np)
    comparison.bind("lt", (float32, float32), float32, out)(a, b, out=flags)
    same_bits(flags, rounded((a < b).astype(np.float64), out))


@pytest.mark.parametrize("of", FLOATS, ids=lambda d: d.short)
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_nan_wins(op, of):
    a = np.array([1, np.nan, np.nan], of.np)
    b = np.array([np.nan, 1, np.nan], of.np)
    found = quiet.run(binary.bind(op, (of, of), of, of), a, b)
    assert np.isnan(found.astype(np.float64)).all()


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", INTEGERS, ids=lambda d: d.short)
def test_an_integer_number_is_brought_into_range(of):
    values = small(of, (4,), 7)
    for number in (0, 1, True, 300, -1, 2**16 + 5, 2**40, -(2**63)):
        wrapped = cast.wrap(number, of.np)
        expected = rounded(wide(values) * wrapped, of)
        same_bits(
            quiet.run(binary.bind("mul", (of, type(number)), of, of), values, number), expected
        )
        same_bits(
            quiet.run(binary.bind("mul", (type(number), of), of, of), number, values), expected
        )
        same_bits(
            comparison.bind("lt", (of, type(number)), of, bool_)(values, number),
            np.asarray(wide(values) < wrapped, bool),
        )


def test_u8_plus_300_and_its_comparison():
    values = np.array([1, 44, 255], np.uint8)
    same_bits(
        binary.bind("add", (uint8, int), uint8, uint8)(values, 300),
        np.array([45, 88, 43], np.uint8),
    )
    assert comparison.bind("eq", (uint8, int), uint8, bool_)(values, 300).tolist() == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("of", HALVES, ids=lambda d: d.short)
def test_a_number_beside_a_half_enters_as_f32(of):
    values = np.array([1, 0.1, 30, 3], of.np)
    for op in ("add", "sub", "mul", "div"):
        wide_loop = binary.bind(op, (float32, float32), float32, float32)
        for number in (0.1, 3, 1 / 3, True):
            expected = wide_loop(values.astype(np.float32), np.float32(number)).astype(of.np)
            loop = binary.bind(op, (of, type(number)), of, of)
            same_bits(loop(values, number), expected)
            same_bits(loop(values, number, out=values.copy()), expected)
            same_bits(loop(values, number, values.copy()), expected)
            expected = wide_loop(np.float32(number), values.astype(np.float32)).astype(of.np)
            same_bits(binary.bind(op, (type(number), of), of, of)(number, values), expected)


@pytest.mark.parametrize("of", HALVES, ids=lambda d: d.short)
def test_a_number_is_rounded_before_a_comparison(of):
    values = np.array([0.1, 0.5], np.float32).astype(of.np)
    assert comparison.bind("eq", (of, float), of, bool_)(values, 0.1).tolist() == [True, False]


def test_numbers_that_raise_the_category():
    same_bits(
        binary.bind("add", (bool_, int), int64, int64)(np.array([True, False]), 1), np.array([2, 1])
    )
    loop = binary.bind("mul", (float32, complex), complex64, complex64)
    same_bits(loop(np.array([2.0], np.float32), 1j), np.array([2j], np.complex64))
    loop = binary.bind("div", (int64, int), float32, float32)
    same_bits(loop(np.array([1, 2]), 4), np.array([0.25, 0.5], np.float32))


# --- alpha ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [d for d in ALL if d is not bool_], ids=lambda d: d.short)
def test_alpha(of):
    a, b = small(of, (3, 4), 8), small(of, (3, 4), 9)
    for op, sign in (("add_alpha", 1), ("sub_alpha", -1)):
        loop = binary.bind(op, (of, of), of, of)
        expected = rounded(wide(a) + sign * 3 * wide(b), of)
        same_bits(quiet.run(loop, a, b, 3), expected)
        out = a.copy()
        assert quiet.run(loop, out, b, 3, out) is out
        same_bits(out, expected)
        number = binary.bind(op, (of, int), of, of)
        same_bits(quiet.run(number, a, 2, 3), rounded(wide(a) + sign * 6, of))


def test_alpha_of_bools_and_of_mixed_operands():
    a, b = np.array([True, False, False]), np.array([False, True, False])
    loop = binary.bind("add_alpha", (bool_, bool_), bool_, bool_)
    assert loop(a, b, 1).tolist() == [True, True, False]
    assert loop(a, b, 0).tolist() == [True, False, False]
    loop = binary.bind("add_alpha", (float32, int64), float32, float32)
    same_bits(loop(np.array([1.0], np.float32), np.array([2]), 0.5), np.array([2.0], np.float32))


# --- division -------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", INTEGERS, ids=lambda d: d.short)
def test_integer_division(of):
    a = awkward(of)
    b = np.array([x for x in (1, 2, 3, 7, -1, -2, -3) if x >= np.iinfo(of.np).min], of.np)
    pairs = [(x, y) for x in a.tolist() for y in b.tolist()]
    left, right = (np.array(side, of.np) for side in zip(*pairs))
    floor = [cast.wrap(x // y, of.np) for x, y in pairs]
    trunc = [
        cast.wrap(abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1), of.np) for x, y in pairs
    ]
    same_bits(
        quiet.run(binary.bind("div_floor", (of, of), of, of), left, right), np.array(floor, of.np)
    )
    same_bits(
        quiet.run(binary.bind("div_trunc", (of, of), of, of), left, right), np.array(trunc, of.np)
    )
    by_two = binary.bind("div_trunc", (of, int), of, of)
    expected = [abs(x) // 2 * (-1 if x < 0 else 1) for x in a.tolist()]
    same_bits(quiet.run(by_two, a, 2), np.array(expected, of.np))


@pytest.mark.parametrize("op", ["div_floor", "div_trunc"])
def test_integer_division_by_zero_raises(op):
    a = np.array([1, 2])
    with pytest.raises(ZeroDivisionError, match="'other' must not hold 0") as caught:
        binary.bind(op, (int64, int64), int64, int64)(a, np.array([1, 0]))
    assert isinstance(caught.value, errors.GpuTensorError)
    with pytest.raises(RuntimeError):  # PyTorch's error
        binary.bind(op, (int64, int), int64, int64)(a, 0)
    with pytest.raises(ZeroDivisionError):
        binary.bind(op, (int, uint8), uint8, uint8)(1, np.array([1, 0], np.uint8))
    assert binary.bind(op, (int64, int64), int64, int64)(a[:0], np.array([0])).size == 0


@pytest.mark.parametrize("of", [float32, float64], ids=lambda d: d.short)
def test_floating_division_follows_python(of):
    values = [0.0, 0.1, 1.0, 3.5, -3.5, 7.25, -0.1, 1e6]
    pairs = [(x, y) for x in values for y in values if y]
    exact = [(float(of.np.type(x)), float(of.np.type(y))) for x, y in pairs]
    left, right = (np.array(side, of.np) for side in zip(*pairs))
    found = binary.bind("div_floor", (of, of), of, of)(left, right)
    expected = [x // y for x, y in exact] if of is float64 else np.floor_divide(left, right)
    same_bits(found, np.array(expected, of.np))
    found = binary.bind("div_trunc", (of, of), of, of)(left, right)
    same_bits(found, np.trunc(left / right))
    zero = quiet.run(
        binary.bind("div_floor", (of, float), of, of), np.array([1, -1, 0], of.np), 0.0
    )
    assert np.isinf(zero[:2]).all() and np.isnan(zero[2])


# --- unary, where ---------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [d for d in ALL if d is not bool_], ids=lambda d: d.short)
def test_neg_and_abs(of):
    values = small(of, (7,), 10)
    same_bits(
        unary.bind("neg", (of,), of, of)(values),
        rounded(-1 * wide(values) + 0, of) if (of.category == INTEGER) else -values,
    )
    expected = np.abs(wide(values))
    loop = unary.bind("abs", (of,), of, of.to_real)
    found = loop(values)
    assert found.dtype == of.to_real.np
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-6)
    out = np.empty(7, of.to_real.np)
    same_bits(loop(values, out=out), found)


def test_abs_of_complex_into_a_wider_output():
    out = np.empty(1, np.float64)
    unary.bind("abs", (complex64,), complex64, float64)(np.array([3 + 4j], np.complex64), out=out)
    assert out.tolist() == [5.0]


@pytest.mark.parametrize("of", [*FLOATS, *COMPLEXES], ids=lambda d: d.short)
def test_exp(of):
    values = small(of, (20,), 11)
    found = unary.bind("exp", (of,), of, of)(values)
    expected = np.exp(wide(values))
    eps = float(
        {float16: 2.0**-10, bfloat16: 2.0**-7, float32: 2.0**-22, complex64: 2.0**-21}.get(
            of, 1e-14
        )
    )
    np.testing.assert_allclose(found.astype(expected.dtype), expected, rtol=eps)


@pytest.mark.parametrize("of", [bool_, *INTEGERS], ids=lambda d: d.short)
def test_exp_of_integers_is_the_common_float(of):
    values = small(of, (4,), 12)
    found = unary.bind("exp", (of,), float32, float32)(values)
    same_bits(found, np.exp(values.astype(np.float32)))


@pytest.mark.parametrize("of", ALL, ids=lambda d: d.short)
def test_where(of):
    condition = np.array([[True], [False]])
    a, b = small(of, (2, 3), 13), small(of, (3,), 14)
    expected = np.where(condition, a, np.broadcast_to(b, (2, 3)))
    loop = where.bind("where", (bool_, of, of), of, of)
    same_bits(loop(condition, a, b, out=np.empty((2, 3), of.np)), expected)
    same_bits(loop(condition, a, b), expected)
    out = a.copy()
    same_bits(loop(condition, out, b, out=out), expected)
    number = where.bind("where", (bool_, of, int), of, of)
    same_bits(number(condition, a, 1), np.where(condition, a, np.ones(3, of.np)))


def test_where_casts_and_wraps():
    condition = np.array([1, 0, 2], np.uint8)
    loop = where.bind("where", (uint8, int32, float32), float32, float32)
    found = loop(condition, np.array([1, 2, 3], np.int32), np.array([0.5] * 3, np.float32))
    same_bits(found, np.array([1, 0.5, 3], np.float32))
    loop = where.bind("where", (bool_, int8, int), int8, int8)
    same_bits(
        loop(np.array([True, False]), np.array([1, 1], np.int8), 300), np.array([1, 44], np.int8)
    )


def test_no_loop_warns():
    ops = ("add", "mul", "div", "div_floor", "div_trunc")
    loops = [binary.bind(op, (float32, float32), float32, float32) for op in ops]
    values = awkward(float32)
    with np.errstate(all="raise"):
        for loop in loops:
            quiet.run(loop, values[:, None], values[None, :])


# --- many elements --------------------------------------------------------------------------------


def _every(of):
    """Return each of the 65,536 values of a 16-bit dtype four times."""
    return np.tile(np.arange(1 << 16, dtype=np.uint16).view(of.np), 4)


@pytest.mark.parametrize("of", [float16, bfloat16], ids=lambda d: d.short)
@pytest.mark.parametrize("op", ["isnan", "sinc", "sqrt", "trunc"])
def test_a_table_of_answers_gives_what_the_loop_gives(of, op):
    x = _every(of)
    to = bool_ if op == "isnan" else of
    loop = unary.bind(op, (of,), of, to)
    table = pointwise.of_many(loop, (of,), to, x.size)
    assert table is not loop
    found, expected = (np.empty(x.size, to.np) for _ in range(2))
    quiet.run(table, x, found)
    quiet.run(loop, x, expected)
    same_bits(found, expected)


def test_a_table_is_of_the_number_beside_it():
    x = _every(float16)
    times = pointwise.of_many(
        binary.bind("mul", (float16, float), float16, float16), (float16, float), float16, x.size
    )
    out = np.empty_like(x)
    for number in (2.0, 0.0, -0.0, 2.0):
        quiet.run(times, x, number, out)
        with np.errstate(all="ignore"):
            same_bits(out, (x.astype(np.float32) * np.float32(number)).astype(np.float16))


@pytest.mark.parametrize("op", ["add", "div"])
def test_many_bf16_go_through_f32(op):
    a, b = _every(bfloat16), _every(bfloat16)[::-1]
    loop = binary.bind(op, (bfloat16, bfloat16), bfloat16, bfloat16)
    wide = pointwise.of_many(loop, (bfloat16, bfloat16), bfloat16, a.size)
    assert wide is not loop
    found, expected = quiet.run(wide, a, b), quiet.run(loop, a, b)
    is_nan = np.isnan(expected.astype(np.float32))
    assert (np.isnan(found.astype(np.float32)) == is_nan).all()
    same_bits(found[~is_nan], expected[~is_nan])


@pytest.mark.parametrize(
    "of", [np.bool_, np.int8, np.float16, np.float32, np.complex64, np.complex128]
)
def test_a_choice_by_bits_is_numpys(of):
    random = np.random.default_rng(0)
    a, b = (random.integers(0, 3, (64, 65)).astype(of) for _ in range(2))
    condition = random.random((64, 65)) < 0.5
    for x, y, c in (
        (a, b, condition),
        (a.T, b.T, condition.T),
        (a, of(1), condition),
        (a[:1], b, condition),
        (a, b, condition[:, ::-1]),
    ):
        expected = np.where(c, x, y)
        same_bits(select.where(c, x, y), expected)
        out = np.broadcast_to(y, c.shape).copy()
        select.where(c, x, out if np.ndim(y) == 2 else y, out)
        same_bits(out, expected)


def test_fmod_in_f64_is_cs():
    random = np.random.default_rng(0)
    a = (random.standard_normal(4096) * 10.0 ** random.integers(-9, 9, 4096)).astype(np.float32)
    b = random.standard_normal(4096).astype(np.float32)
    a[:4] = -0.0, 6.0, -6.0, 1e-40
    b[:4] = 2.0, 3.0, 3.0, 1e-42
    for x, y in (
        (a, b),
        (b, a),
        (np.round(a), np.float32(0.5)),
        (np.append(a, np.inf), 1.5),
        (a, np.where(b > 0, np.inf, b).astype(np.float32)),
        (a, np.round(b)),
    ):
        with np.errstate(all="ignore"):
            found, expected = binary._floating_fmod(x, y), np.fmod(x, y)
        is_nan = np.isnan(expected)
        assert (np.isnan(found) == is_nan).all()
        same_bits(found[~is_nan], expected[~is_nan])


def test_sigmoid_in_place_of_every_fourth_element() -> None:
    x = gt.rand(50, 4)
    y = x.clone()
    y[:, 1].sigmoid_()
    assert gt.equal(y[:, 1], x[:, 1].sigmoid())


# --- the next number ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 1000])
@pytest.mark.parametrize("of", FLOATS, ids=lambda d: d.short)
def test_the_next_number_is_one_of_the_same_dtype(of, count):
    low, high = (gt.tensor([x, -x] * count).to(of) for x in (1.0, 2.0))
    step = gt.finfo(of).eps
    assert gt.nextafter(low, high).tolist() == [1 + step, -1 - step] * count
    assert gt.nextafter(high, low).tolist() == [2 - step, -2 + step] * count


@pytest.mark.parametrize("of", HALVES, ids=lambda d: d.short)
def test_an_integer_beside_a_half_enters_in_its_dtype(of):
    whole, part = gt.tensor([4099, -2055], dtype=gt.int32), gt.tensor([3.0, 7.0]).to(of)
    for name in ("fmod", "pow", "atan2", "logaddexp", "floor_divide", "remainder", "nextafter"):
        operator_of = getattr(gt, name)
        expected = operator_of(whole.to(of), part)
        assert expected.tolist() == pytest.approx(operator_of(whole, part).tolist(), 0, nan_ok=True)
        other = operator_of(part, whole.to(of))
        assert other.tolist() == pytest.approx(operator_of(part, whole).tolist(), 0, nan_ok=True)
