"""Compiled extremes and their indices against NumPy's: dtypes, layouts, ties, NaN, threads."""

from __future__ import annotations

import numpy as np
import pytest

from gputensor.core.dtype import ALL, BOOL, COMPLEX, FLOATING, bfloat16, float16, float32, int64
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import argreduce as numpys, quiet
from gputensor.runtime import cpu

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason=f"no compiled loops: {library.choice().reason}"
)

KINDS = [d for d in ALL if d.category != COMPLEX]


def values_of(given, shape, seed):
    """Return elements of few values, so that some are equal."""
    random = np.random.default_rng(seed)
    if given.category == BOOL:
        return random.random(shape) < 0.5
    found = random.integers(0, 9, shape)
    return (
        found.astype(np.float32).astype(given.np)
        if given.category == FLOATING
        else found.astype(given.np)
    )


def check(array, axis, keepdims=False):
    shape = [1 if d == axis else n for d, n in enumerate(array.shape) if keepdims or d != axis]
    ours = stub.cpu("argreduce")
    for op in ("argmax", "argmin", "max", "min"):
        found = []
        for kernels in (ours, numpys):
            places, values = np.full(shape, -7), np.zeros(shape, array.dtype)
            outs = (places,) if op.startswith("arg") else (values, places)
            quiet.run(getattr(kernels, op), array, axis, *outs, keepdims)
            found.append((places.tobytes(), values.tobytes()))
        assert found[0] == found[1], (op, array.dtype, array.shape, array.strides, axis)


@pytest.mark.parametrize("given", KINDS, ids=str)
def test_places_of_every_dtype_layout_and_axis(given):
    for shape in ((3, 4, 5), (2, 33, 40), (70, 3, 18)):
        array = values_of(given, shape, 1)
        turned = array.transpose(2, 0, 1)
        for view in (array, array[..., ::2], array[:, 1:], turned, array.transpose(1, 2, 0)[1:]):
            for axis in range(3):
                check(view, axis, axis == 1)
        check(np.broadcast_to(array[:, :1], shape), 1)
    check(array[0, 0, 0, ...], 0)


@pytest.mark.parametrize("given", [float32, float16, bfloat16], ids=str)
def test_the_first_nan_is_found(given):
    for n in (1, 5, 40, 1500, 5000):
        for places in ((0,), (n - 1,), (n // 2, n - 1), (n // 3, n // 2)):
            row = values_of(given, n, n)
            row[list(places)] = np.nan
            check(row, 0)
            check(np.stack([row] * 20, 1), 0)
            check(np.stack([row] * 3, 1), 0)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((400_001,), 0), ((3, 150_001), 1), ((150_001, 3), 0), ((20_001, 20), 0), ((300, 300), 0),
     ((20, 9_000), 0), ((500, 40, 9), 1)],
)  # fmt: skip
@pytest.mark.parametrize("given", [float32, int64, float16], ids=str)
def test_any_number_of_threads_finds_the_same(given, shape, axis, threads):
    before = cpu.get_num_threads()
    cpu.set_num_threads(threads)
    try:
        array = values_of(given, shape, 5)
        array[(-1,) * array.ndim] = 20
        check(array, axis)
    finally:
        cpu.set_num_threads(before)
