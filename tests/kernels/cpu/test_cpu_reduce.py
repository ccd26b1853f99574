"""Reductions: values, dtypes, NaN, empty axes, accuracy and order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gputensor.core.dtype import (
    ALL, COMPLEX, bfloat16, bool_, float16, float32, float64, int64, uint8,
)  # fmt: skip
from gputensor.kernels.cpu import cast, quiet, reduce

from ..cpu_arrays import COMPLEXES, FLOATS, HALVES, INTEGERS, same_bits, small, wide

AXES = [None, (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]


def compute_and_out(op, given):
    """Return the dtypes that native/reduce.py uses."""
    if op in ("any", "all"):
        return given, uint8 if given is uint8 else bool_
    if op == "sum" and given.category < 2:
        return int64, int64
    return (float32 if given in HALVES and op in ("sum", "mean") else given), given


def reduced(op, array, axes, keepdims, given):
    compute, out_dtype = compute_and_out(op, given)
    shape = np.add.reduce(np.empty(array.shape, np.int8), axes, keepdims=keepdims).shape
    out = np.empty(shape, out_dtype.np)
    loop = reduce.bind(op, given, compute, out_dtype)
    quiet.run(loop, array, axes, None, out, keepdims)
    return out


OPS = [
    (op, d)
    for op in ("sum", "mean", "amax", "amin", "any", "all")
    for d in ALL
    if not (op == "mean" and d.category < 2)
    and not (op in ("amax", "amin") and d.category == COMPLEX)
]


def reference(op, array, axes):
    if op == "mean":
        total = np.add.reduce(wide(array), axes)
        return total / (array.size / max(np.size(total), 1))
    if op in ("any", "all"):
        return getattr(np, op)(wide(array) != 0, axes)
    if array.dtype.kind in "bui":
        return getattr(np, op)(array.astype(np.int64), axes)
    return getattr(np, op)(wide(array), axes)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("op", "given"), OPS, ids=str)
def test_values_of_every_dtype_and_axis(op, given, keepdims):
    array = small(given, (3, 4, 5), 1)
    for view in (
        array,
        array.transpose(2, 0, 1),
        array[:, ::2],
        np.broadcast_to(array[:1], (3, 4, 5)),
    ):
        for axes in AXES:
            found = reduced(op, view, axes, keepdims, given)
            expected = np.asarray(reference(op, view, axes))
            assert found.dtype == compute_and_out(op, given)[1].np
            assert found.ndim == (3 if keepdims else expected.ndim)
            kind = np.complex128 if given.category == COMPLEX else np.float64
            rtol = {float16: 2**-10, bfloat16: 2**-7, float32: 2**-22}.get(given, 2**-22)
            np.testing.assert_allclose(
                found.reshape(expected.shape).astype(kind), expected.astype(kind), rtol=rtol
            )


def test_zero_dim_and_no_axes():
    for axes in (None, ()):
        same_bits(
            reduced("sum", np.array(3.0, np.float32), axes, False, float32),
            np.array(3.0, np.float32),
        )
    same_bits(
        reduced("amax", np.array([1.0, 2.0], np.float32), (), False, float32),
        np.array([1, 2], np.float32),
    )


def test_a_small_sum_is_the_bare_ufunc():
    assert reduce.bind("sum", int64, int64, int64, 12) == np.add.reduce
    assert reduce.bind("sum", float32, float32, float32, 12) == np.add.reduce
    assert reduce.bind("sum", float16, float32, float16, 12) != np.add.reduce


@pytest.mark.parametrize("given", [float32, float64])
def test_the_order_of_a_small_sum_does_not_depend_on_where_it_lies(given):
    random = np.random.default_rng(0)
    for numel in (1, 2, 3, 4, 7, 12, 31, 32, 33, 63, 64, 100, 128, 200, 255, 256):
        loop = reduce.bind("sum", given, given, given, numel)
        values = (random.standard_normal(numel) * 1e3).astype(given.np)
        results = set()
        for begin in range(9):
            array = np.empty(numel + 16, given.np)[begin:][:numel]
            array[...] = values
            results.add(float(_summed(loop, array)))
        assert len(results) == 1, numel
        error = abs(results.pop() - math.fsum(values.tolist()))
        assert error <= numel * np.finfo(given.np).eps / 2 * np.abs(values).sum()
        kept = np.empty((1, 1), given.np)
        assert quiet.run(loop, values[None], None, None, kept, True) is kept


@pytest.mark.parametrize("given", [float32, float64])
@pytest.mark.parametrize(
    "values", [[-0.0] * 5, [0.0, -0.0], [1, -1, -0.0], [math.inf, 1], [math.inf, -math.inf],
               [math.nan, 1], [1e308, 1e308], [], [5e-324], [-1e-45, 1e-45]],
)  # fmt: skip
def test_a_small_sum_of_what_is_special_is_numpys(given, values):
    with np.errstate(all="ignore"):
        array = np.array(values, given.np)
        wanted = np.add.reduce(array, None, None, np.empty((), given.np))
    loop = reduce.bind("sum", given, given, given, array.size)
    same_bits(_summed(loop, array), wanted)


def _summed(loop, array):
    out = np.empty((), array.dtype)
    quiet.run(loop, array, None, None, out, False)
    return out


@pytest.mark.parametrize("given", INTEGERS, ids=lambda d: d.short)
def test_integers_sum_in_int64(given):
    info = np.iinfo(given.np)
    array = np.full(5, info.max, given.np)
    same_bits(
        reduced("sum", array, None, False, given),
        np.array(cast.wrap(5 * int(info.max), np.dtype(np.int64))),
    )


@pytest.mark.parametrize("given", [*FLOATS, *COMPLEXES], ids=lambda d: d.short)
def test_nan(given):
    array = np.array([[1, np.nan], [2, 3]], given.np)
    for op in ("sum", "mean", *(() if given in COMPLEXES else ("amax", "amin"))):
        found = reduced(op, array, (1,), False, given)
        assert np.isnan(wide(found)).tolist() == [True, False], op
    assert reduced("any", np.array([0, np.nan], given.np), None, False, given)
    assert reduced("all", np.array([1, np.nan], given.np), None, False, given)


def test_empty():
    empty = np.empty((0, 3), np.float32)
    same_bits(reduced("sum", empty, (0,), False, float32), np.zeros(3, np.float32))
    assert np.isnan(reduced("mean", empty, (0,), False, float32)).all()
    assert reduced("any", empty, None, False, float32).tolist() is False
    assert reduced("all", empty, (0,), False, float32).tolist() == [True] * 3
    for op in ("sum", "mean", "amax", "any"):
        assert reduced(op, empty, (1,), False, float32).shape == (0,)


def test_uint8_gives_uint8():
    same_bits(reduced("any", np.array([0, 7], np.uint8), None, False, uint8), np.array(1, np.uint8))
    same_bits(reduced("all", np.array([0, 7], np.uint8), None, False, uint8), np.array(0, np.uint8))


def test_halves_accumulate_in_f32():
    array = np.full(70000, 1.0, np.float16)
    same_bits(reduced("mean", array, None, False, float16), np.array(1.0, np.float16))
    array = np.full(4096, 1.0, np.float32).astype(bfloat16.np)
    same_bits(
        reduced("sum", array, None, False, bfloat16), np.array(4096, np.float32).astype(bfloat16.np)
    )
    array = np.array([60000, 60000, -60000], np.float16)
    same_bits(reduced("sum", array, None, False, float16), np.array(60000, np.float16))


@pytest.mark.parametrize(
    ("shape", "axes", "view"),
    [
        ((200_000, 3), (0,), lambda x: x),
        ((200_000, 3), None, lambda x: x.T[:, ::-1]),
        ((3, 200_000), (1,), lambda x: x),
        ((700, 900), None, lambda x: x[:, :-1]),
        ((700, 900), (0,), lambda x: x.T),
        ((1000, 5, 300), (0, 2), lambda x: x),
        ((600_000,), None, lambda x: x[::2]),
    ],
)
@pytest.mark.parametrize("given", [float16, float32], ids=lambda d: d.short)
def test_long_sums_keep_their_digits(given, shape, axes, view):
    """A sum by consecutive f32 additions has an error of up to n / 2 ulp; this sum has a few
    ulp."""
    array = view(np.random.default_rng(2).random(shape, np.float32).astype(given.np))
    compute = float32
    shape = np.add.reduce(np.empty(array.shape, np.int8), axes).shape
    out = np.empty(shape, np.float32)
    reduce.bind("sum", given, compute, float32)(array, axes, None, out, False)
    exact = np.add.reduce(array.astype(np.float64), axes)
    assert np.max(np.abs(out / exact - 1)) < 2.0**-19
    again = np.empty(shape, np.float32)
    reduce.bind("sum", given, compute, float32)(array, axes, None, again, False)
    same_bits(out, again)


def test_a_sum_is_exact_where_f64_is():
    array = np.random.default_rng(3).random((300, 7))
    found = reduced("sum", array, (0,), False, float64)
    for column in range(7):
        assert math.isclose(found[column], math.fsum(array[:, column]), rel_tol=1e-14)


@pytest.mark.parametrize("sizes", [(64, 64), (3, 1000), (2, 5, 1031), (100_003,)])
def test_products_of_lanes_are_products(sizes):
    random = np.random.default_rng(0)
    whole = random.integers(1, 9, sizes)
    for axes in ((whole.ndim - 1,), None):
        for keepdims in (False, True):
            loop = reduce.bind("prod", int64, int64, int64, whole.size)
            expected = np.multiply.reduce(whole, axes, keepdims=keepdims)
            out = np.empty(np.shape(expected), np.int64)
            loop(whole, axes, None, out, keepdims)
            assert (out == expected).all()
