"""Compiled reductions against NumPy's: values, layouts, order, threads, special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gputensor as gt
from gputensor.core.dtype import (
    ALL, BOOL, COMPLEX, FLOATING, INTEGER, bfloat16, bool_, complex32, complex64, float16, float32,
    float64, int64, uint8,
)  # fmt: skip
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import quiet, reduce as numpys
from gputensor.runtime import cpu

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason=f"no compiled loops: {library.choice().reason}"
)

HALVES = (float16, bfloat16)
OPS = ("sum", "nansum", "mean", "prod", "amax", "amin", "any", "all")
KINDS = [
    (op, d) for op in OPS for d in ALL
    if d is not complex32
    and not (op in ("mean", "nansum") and d.category < FLOATING)
    and not (op in ("amax", "amin", "nansum") and d.category == COMPLEX)
]  # fmt: skip


@pytest.fixture(autouse=True)
def _threads():
    before = cpu.get_num_threads()
    yield
    cpu.set_num_threads(before)


def dtypes_of(op, given):
    """Return the dtypes that native/reduce.py uses."""
    if op in ("any", "all"):
        return given, uint8 if given is uint8 else bool_
    if op in ("sum", "prod") and given.category <= INTEGER:
        return int64, int64
    return float32 if given in HALVES else given, given


def values_of(given, shape, seed):
    random = np.random.default_rng(seed)
    if given.category == BOOL:
        return random.random(shape) < 0.9
    if given.category == INTEGER:
        least = max(np.iinfo(given.np).min, -9)
        return random.integers(least, 9, shape).astype(given.np)
    found = random.standard_normal(shape) / 8 + 1
    if given.category == COMPLEX:
        return (found + 1j * random.standard_normal(shape) / 8).astype(given.np)
    return found.astype(np.float32).astype(given.np)


def layouts(array):
    yield array
    yield array[..., ::2]
    yield array[:, 1:]
    yield array.transpose(2, 0, 1)
    yield array.transpose(1, 2, 0)[::2]
    yield np.broadcast_to(array[:, :1], array.shape)


def reduced(loop, array, axes, keepdims, out):
    ndim, over = array.ndim, range(array.ndim) if axes is None else axes
    shape = [1 if d in over else n for d, n in enumerate(array.shape) if keepdims or d not in over]
    assert len(shape) == ndim or not keepdims
    found = np.full(shape, 7).astype(out.np)
    quiet.run(loop, array, axes, None, found, keepdims)
    return found


def check(op, given, array, axes, keepdims):
    compute, out = dtypes_of(op, given)
    ours = stub.cpu("reduce").bind(op, given, compute, out, array.size)
    found = reduced(ours, array, axes, keepdims, out)
    if out.category < FLOATING or op in ("amax", "amin"):
        theirs = numpys.bind(op, given, compute, out, array.size)
        np.testing.assert_array_equal(found, reduced(theirs, array, axes, keepdims, out))
        return
    kind = np.complex128 if given.category == COMPLEX else np.float64
    wide = array.astype(kind)
    over = tuple(range(array.ndim)) if axes is None else axes
    count = math.prod([array.shape[d] for d in over])
    if op == "prod":
        expected = np.multiply.reduce(wide, over, keepdims=keepdims)
        bound = abs(expected) * (count + 2) * (4 if given.category == COMPLEX else 1)
    else:
        by = count if op == "mean" else 1
        expected = np.add.reduce(wide, over, keepdims=keepdims) / by
        bound = np.add.reduce(abs(wide), over, keepdims=keepdims) / by * 40
    ulp = 2.0**-53 if compute in (float64, ALL[-1]) or given.itemsize == 16 else 2.0**-24
    own = {float16: 2.0**-11, bfloat16: 2.0**-8}.get(given, 0.0)
    bound = bound * ulp * 2 + abs(expected) * own
    bound += 2.0**-25 if given is float16 else 0.0  # half of a denormal
    fits = abs(expected) < (6e4 if given is float16 else 1e37)
    assert np.all(~fits | (abs(found.astype(kind) - expected) <= bound))


AXES = (None, (0,), (1,), (2,), (0, 1), (0, 2), (1, 2))


@pytest.mark.parametrize(("op", "given"), KINDS, ids=str)
def test_values_of_every_dtype_layout_and_axis(op, given):
    for shape in ((3, 4, 5), (9, 70, 12)):
        for array in layouts(values_of(given, shape, 1)):
            for axes in AXES:
                check(op, given, array, axes, axes == (1,))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("given", [float32, float16], ids=str)
def test_sizes_around_those_of_pieces_and_vectors(op, given):
    for n in (1, 7, 8, 9, 63, 64, 65, 511, 1023, 1025, 2049, 16383, 16385, 40000):
        row = values_of(given, n, n)
        if op == "prod":
            row = row[:300]
        check(op, given, row, None, False)
        check(op, given, np.stack([row, row]), (1,), False)
        columns = np.stack([row, row, row], 1)
        check(op, given, columns, (0,), True)


@pytest.mark.parametrize("op", ["sum", "mean", "amax", "prod", "any"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((300_001,), None), ((5, 70_001), (1,)), ((70_001, 5), (0,)), ((9_000, 40), (0,)),
     ((40, 9_000), (0,)), ((700, 3, 200), (0, 2)), ((3, 1_500, 70), (1,)), ((90_000, 2, 3), (1,)),
     ((2_000, 200), (1,))],
)  # fmt: skip
@pytest.mark.parametrize("given", [float32, float16, complex64], ids=str)
def test_any_number_of_threads_gives_the_same_bits(op, given, shape, axes):
    if given is complex64 and op in ("amax", "any"):
        pytest.skip("no order among complex numbers; any is exact")
    array = values_of(given, shape, 3) - np.ones((), given.np)
    compute, out = dtypes_of(op, given)
    loop = stub.cpu("reduce").bind(op, given, compute, out, array.size)
    for view in (array, array[::-1][::-1] if array.ndim == 1 else array.T):
        over = axes if axes is None or view is array else [array.ndim - 1 - d for d in axes]
        over = over if over is None else tuple(over)
        found = set()
        for threads in (1, 2, 3):
            cpu.set_num_threads(threads)
            found.add(reduced(loop, view, over, False, out).tobytes())
        assert len(found) == 1


@pytest.mark.parametrize("given", [float32, float64, float16, bfloat16], ids=str)
def test_special_values(given):
    def one(op, values):
        array = np.array(values, np.float64).astype(given.np)
        compute, out = dtypes_of(op, given)
        loop = stub.cpu("reduce").bind(op, given, compute, out, array.size)
        return reduced(loop, array, None, False, out).astype(np.float64)[()]

    for n in (1, 5, 100, 2000):
        zeros = [-0.0] * n
        assert math.copysign(1, one("sum", zeros)) == math.copysign(1, one("mean", zeros)) == 1
        assert not one("any", zeros) and not one("all", zeros)
        for place in (0, n // 2, n - 1):
            holed = [1.0] * n
            holed[place] = math.nan
            for op in ("sum", "mean", "prod", "amax", "amin"):
                assert math.isnan(one(op, holed))
            assert one("nansum", holed) == np.array(n - 1).astype(given.np)
            assert one("any", holed) and one("all", holed)
            holed[place] = math.inf
            assert one("amax", holed) == math.inf and one("sum", holed) == math.inf
            holed[place] = 0.0
            assert one("all", holed) == 0 and one("any", holed) == (n > 1)
    assert math.copysign(1, one("sum", [])) == 1 and one("prod", []) == 1
    assert one("sum", []) == 0 and math.isnan(one("mean", []))
    assert not one("any", []) and one("all", [])


@pytest.mark.parametrize("given", [d for d in ALL if INTEGER <= d.category <= FLOATING], ids=str)
def test_both_extremes_of_one_pass_are_those_of_two(given):
    if given.is_float8:
        return
    for shape, nan in (((3, 40, 41), False), ((3, 40, 41), True), ((2, 200, 300), True)):
        array = values_of(given, shape, 11)
        if nan and given.category == FLOATING:
            array.reshape(-1)[[0, 700]] = math.nan, math.inf
        for x in layouts(array):
            for axes, keepdims in ((None, False), ((0,), True), ((1,), False), ((2,), False)):
                over = range(3) if axes is None else axes
                sizes = [1 if d in over else n for d, n in enumerate(x.shape)]
                if not keepdims:
                    sizes = [n for d, n in enumerate(x.shape) if d not in over]
                pairs = stub.cpu("reduce").aminmax(x, given, axes, tuple(sizes), keepdims)
                for n, op in enumerate(("amin", "amax")):
                    found = pairs[..., n].astype(np.float64)
                    for loop in (numpys, stub.cpu("reduce")):
                        bound = loop.bind(op, given, given, given)
                        wanted = reduced(bound, x, axes, keepdims, given).astype(np.float64)
                        np.testing.assert_array_equal(found, wanted)


def test_the_error_of_a_long_sum_is_that_of_a_few_additions():
    array = np.full(1 << 22, np.float32(0.1))
    loop = stub.cpu("reduce").bind("sum", float32, float32, float32, array.size)
    found = float(reduced(loop, array, None, False, float32))
    exact = float(array[0]) * array.size
    assert abs(found - exact) <= exact * 2**-24 * 40
    columns = reduced(loop, array.reshape(-1, 4), (0,), False, float32)
    assert np.all(abs(columns - exact / 4) <= exact / 4 * 2**-24 * 40)


def test_what_is_not_aligned_or_not_our_own_goes_to_numpy():
    memory = np.zeros(41, np.uint8)
    array = memory[1:].view(np.float32)
    assert not array.flags.aligned or array.ctypes.data % 4 == 0
    array[...] = 2
    loop = stub.cpu("reduce").bind("sum", float32, float32, float32, array.size)
    assert float(reduced(loop, array, None, False, float32)) == 20
    assert float(quiet.run(loop, array.astype(np.float32), None, None, None)) == 20


@pytest.mark.parametrize("numel", [40, 40_000])
def test_complex_numbers_have_no_extremes(numel: int) -> None:
    with pytest.raises(gt.GpuTensorError, match="must be real"):
        gt.zeros(numel, dtype=gt.complex128).aminmax()
