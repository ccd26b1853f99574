"""Compiled triangles and fills write what NumPy's loops write."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gputensor.core.dtype import STORED
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import fill as plain_fill
from gputensor.kernels.cpu import triangle as numpys
from gputensor.runtime import cpu

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason=f"no compiled loops: {library.choice().reason}"
)
SHAPES = [(1, 1), (5, 5), (3, 8), (8, 3), (2, 3, 17, 20), (4, 1, 9), (0, 3), (2, 0, 4), (300, 400)]


def filled(shape, of):
    found = np.arange(int(np.prod(shape)) * of.np.itemsize, dtype=np.int64) * 2654435761 >> 7
    return found.astype(np.uint8).view(of.np).reshape(shape)


def layouts(x):
    """Return the same elements row-major, column-major, and with gaps."""
    yield x
    yield np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    yield wide[..., ::2]


def raw(x):
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_triangles(shape, threads):
    before = cpu.get_num_threads()
    cpu.set_num_threads(threads)
    try:
        for of, name in itertools.product(STORED[::3], ("lower", "upper")):
            x = filled(shape, of)
            for shift in (-max(shape), -2, 0, 1, max(shape)):
                expected = np.empty_like(x)
                getattr(numpys, name)(x, expected, shift)
                for source, out in itertools.product(layouts(x), layouts(np.ones_like(x))):
                    assert library.function("triangle", name)(source, out, shift) == 0
                    assert np.array_equal(raw(out), raw(expected))
    finally:
        cpu.set_num_threads(before)


def test_a_triangle_in_place():
    for name in ("lower", "upper"):
        x = filled((40, 30), STORED[11])
        expected = np.empty_like(x)
        getattr(numpys, name)(x, expected, 3)
        assert library.function("triangle", name)(x, x, 3) == 0
        assert np.array_equal(raw(x), raw(expected))


def test_what_the_library_leaves_to_numpy():
    function = library.function("triangle", "lower")
    assert function(np.ones((3, 3)), np.ones((3, 4)), 0)
    assert function(np.ones((3, 3)), np.ones((3, 3), np.float32), 0)


@pytest.mark.parametrize("of", STORED, ids=str)
def test_fills(of):
    from gputensor.kernels.compiled import fill

    for shape in ((), (0,), (7,), (300, 1001)):
        for found in (np.zeros(shape, of.np), np.zeros((*shape, 2), of.np)[..., 0]):
            for number in (0, 1, 100, True):
                expected = np.zeros(shape, of.np)
                plain_fill.fill(expected, number)
                fill.fill(found, number)
                assert np.array_equal(raw(found), raw(expected))


def test_a_fill_writes_nothing_else():
    from gputensor.kernels.compiled import fill

    whole = np.zeros((700, 1000), np.float32)
    fill.fill(whole[1:-1, 3:-3], 7)
    assert (whole[1:-1, 3:-3] == 7).all() and whole.sum() == 7 * 698 * 994
    whole.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fill.fill(whole, 1)
