"""Compiled variances, norms, logsumexp and counts against float64, over layouts and threads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gputensor.core.dtype import bfloat16, complex64, float16, float32, float64, int32, int64
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import quiet
from gputensor.runtime import cpu

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason=f"no compiled loops: {library.choice().reason}"
)

FLOATS = [float32, float64, float16, bfloat16]
ORDERS = [0, 1, 2, math.inf, -math.inf]
OPS = [("var", 3.0), ("std", 3.0), ("logsumexp", 1.0), *[("norm", p) for p in ORDERS]]
AXES = [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)]


def reduced(op, array, axes, over, given, keepdims=False):
    out = given.to_real
    shape = [1 if d in axes else n for d, n in enumerate(array.shape) if keepdims or d not in axes]
    found = np.full(shape, 7).astype(out.np)
    loop = stub.cpu("moments").bind(op, given, out, over)
    quiet.run(loop, array, axes, None, found, keepdims)
    return found


def reference(op, array, axes, over):
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    if op in ("var", "std"):
        found = np.sum((wide - wide.mean(axes, keepdims=True)) ** 2, axes) / over
        return np.sqrt(found) if op == "std" else found
    if op == "logsumexp":
        top = wide.max(axes, keepdims=True)
        return np.log(np.exp(wide - top).sum(axes)) + top.reshape(np.exp(wide).sum(axes).shape)
    size = np.abs(wide)
    if over == 0:
        return np.count_nonzero(size, axes)
    if math.isinf(over):
        return size.max(axes) if over > 0 else size.min(axes)
    return size.sum(axes) if over == 1 else np.sqrt((size * size).sum(axes))


def layouts(array):
    yield array
    yield array[..., ::2]
    yield array.transpose(2, 0, 1)
    yield array.transpose(1, 2, 0)[1:]
    yield np.broadcast_to(array[:, :1], array.shape)


@pytest.mark.parametrize("given", FLOATS, ids=str)
@pytest.mark.parametrize(("op", "over"), OPS, ids=str)
def test_values_over_layouts_and_axes(op, over, given):
    ulp = {float64: 2.0**-53, float32: 2.0**-24, float16: 2.0**-11, bfloat16: 2.0**-8}[given]
    for shape in ((3, 4, 5), (9, 70, 12), (2, 3, 2500)):
        random = np.random.default_rng(len(shape))
        array = (random.standard_normal(shape) + 3).astype(np.float32).astype(given.np)
        for view in layouts(array):
            for axes in AXES:
                found = reduced(op, view, axes, over, given, axes == (1,))
                expected = reference(op, view, axes, over)
                got = found.reshape(np.shape(expected)).astype(np.float64)
                np.testing.assert_allclose(got, expected, 60 * ulp, 60 * ulp)


def test_the_norm_of_complex_numbers_is_real():
    random = np.random.default_rng(1)
    array = random.standard_normal((9, 70, 12)) + 1j * random.standard_normal((9, 70, 12))
    array = array.astype(np.complex64)
    for view in layouts(array):
        for axes in AXES:
            for over in ORDERS:
                found = reduced("norm", view, axes, over, complex64)
                np.testing.assert_allclose(found, reference("norm", view, axes, over), rtol=1e-5)


@pytest.mark.parametrize("shape", [(300_001,), (70_001, 5), (5, 70_001), (400, 3, 150)], ids=str)
@pytest.mark.parametrize(("op", "over"), OPS, ids=str)
def test_any_number_of_threads_gives_the_same_bits(op, over, shape):
    array = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    before = cpu.get_num_threads()
    try:
        for axes in ((0,), (len(shape) - 1,), tuple(range(len(shape)))):
            found = set()
            for threads in (1, 2, 3):
                cpu.set_num_threads(threads)
                found.add(reduced(op, array, axes, over, float32).tobytes())
            assert len(found) == 1
    finally:
        cpu.set_num_threads(before)


def test_the_variance_of_large_numbers_keeps_its_digits():
    array = (np.random.default_rng(3).standard_normal(200_000) + 1e4).astype(np.float32)
    found = reduced("var", array, (0,), array.size, float32)
    np.testing.assert_allclose(found, array.astype(np.float64).var(), rtol=1e-4)
    mean, out = np.empty((), np.float32), np.empty((), np.float32)
    stub.cpu("moments").spread(array, (0,), array.size, False, out, mean)
    np.testing.assert_allclose([mean, out], [array.mean(dtype=np.float64), found], rtol=1e-6)


def test_special_values():
    inf, nan = math.inf, math.nan
    for n in (2, 100, 3000):
        row = np.zeros(n, np.float32)
        for values, expected in (([inf], inf), ([-inf] * n, -inf), ([nan], nan), ([1e4], 1e4)):
            row[...] = 0
            row[: len(values)] = values
            found = reduced("logsumexp", row, (0,), 1.0, float32)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        row[...] = -0.0
        for order in (1, 2, inf, -inf):
            assert not np.signbit(reduced("norm", row, (0,), order, float32))
        row[n // 2] = nan
        for order in (1, 2, inf, -inf):
            assert np.isnan(reduced("norm", row, (0,), order, float32))
        assert reduced("norm", row, (0,), 0, float32) == 1
    with np.errstate(all="ignore"):
        assert np.isnan(reduced("var", np.ones(1, np.float32), (0,), 0.0, float32))


@pytest.mark.parametrize("given", [int32, float16, float32, complex64], ids=str)
def test_counts(given):
    array = np.random.default_rng(4).integers(0, 3, (40, 3, 700)).astype(np.float32)
    array = array.astype(given.np)
    loop = stub.cpu("reduce").bind("count_nonzero", given, int64, int64)
    for axes in AXES:
        expected = np.count_nonzero(array, axes)
        found = np.zeros(np.shape(expected), np.int64)
        quiet.run(loop, array, axes, None, found, False)
        np.testing.assert_array_equal(found, expected)
