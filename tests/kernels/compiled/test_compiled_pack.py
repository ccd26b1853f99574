"""The compiled `pack` writes what NumPy's loops write, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputensor.core.dtype import ALL, COMPLEX, bool_
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import copy_pack as numpys
from gputensor.runtime import cpu

from ...harness import tier
from ..cpu_arrays import awkward, same_bits

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason=f"no compiled loops: {library.choice().reason}"
)
REAL = [d for d in ALL if d.category != COMPLEX and d is not bool_]


def check(dst, src, scale, bias):
    scale, bias = (np.broadcast_to(np.asarray(x, np.float64), dst.shape[1]) for x in (scale, bias))
    expected = np.empty(dst.shape, dst.dtype)
    numpys.pack(expected, src, scale, bias)
    dst[...] = 7
    assert library.function("copy_pack", "pack")(dst, src, scale, bias) == 0
    same_bits(np.ascontiguousarray(dst), expected)


def laid_out(shape, of, channels_last, gap=0):
    order = [0, *range(2, len(shape)), 1] if channels_last else [*range(len(shape))]
    sizes = [shape[d] for d in order]
    sizes[-1] += gap
    whole = np.zeros(sizes, of)[..., : sizes[-1] - gap]
    return whole.transpose([order.index(d) for d in range(len(shape))])


@pytest.mark.parametrize("of", REAL, ids=str)
def test_awkward_values(of):
    few = awkward(of)
    src = np.resize(few, (2, 3, few.size + 5, 2))
    for scale, bias in ((1.0, 0.0), ([0.5, -3.25, 1e6], [0.1, 7, -1e9])):
        for to in REAL:
            check(np.empty(src.shape, to.np), src, scale, bias)


SHAPES = [
    (2, 3, 40, 50), (1, 4, 33, 7), (3, 2, 1100), (2, 64, 9, 11), (5, 40, 2, 3), (1, 1, 1, 4000),
    (2, 3000, 2, 2), (4, 1, 5, 5), (1, 5, 1, 1), (2, 3, 4, 5, 6),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtypes", ["u1 f4", "u1 f2", "f4 u1", "f2 f8", "f4 f4", "i2 i1"])
def test_every_layout(shape, dtypes):
    of, to = dtypes.split()
    values = (np.arange(np.prod(shape)) * 37 % 97).astype(of).reshape(shape)
    scale, bias = np.linspace(0.1, 2, shape[1]), np.linspace(-1, 1, shape[1])
    for from_pixels in (False, True):
        for into_pixels in (False, True):
            for gap in (0, 2):
                src = laid_out(shape, of, from_pixels, gap)
                src[...] = values
                check(laid_out(shape, to, into_pixels, gap), src, scale, bias)
                check(laid_out(shape, to, into_pixels), src[:, :, ::-1], scale, bias)


@tier.examples(60)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 60), st.integers(1, 60)),
    st.booleans(), st.booleans(), st.sampled_from(REAL), st.sampled_from(REAL),
)  # fmt: skip
def test_any_sizes(shape, from_pixels, into_pixels, of, to):
    src = laid_out(shape, of.np, from_pixels)
    src[...] = np.resize(awkward(of), shape)
    scale, bias = np.linspace(-2, 2, shape[1]), np.linspace(3, -1, shape[1])
    check(laid_out(shape, to.np, into_pixels), src, scale, bias)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads(threads):
    before = cpu.get_num_threads()
    cpu.set_num_threads(threads)
    try:
        pixels = (np.arange(4 * 301 * 203 * 3) % 251).astype(np.uint8).reshape(4, 301, 203, 3)
        src = pixels.transpose(0, 3, 1, 2)
        for to in (np.float32, np.float16):
            check(np.empty(src.shape, to), src, [0.1, 0.2, 0.3], [1, 2, 3])
            check(laid_out(src.shape, to, True), src, [0.1, 0.2, 0.3], [1, 2, 3])
    finally:
        cpu.set_num_threads(before)


def test_what_the_library_leaves_to_numpy():
    function, one = library.function("copy_pack", "pack"), np.ones(1)
    flat = np.zeros((1, 1, 9), np.bool_)
    assert function(flat, np.ones((1, 1, 9), np.float32), one, one)
    packed = np.zeros((1, 1, 9), np.dtype([("a", "u1"), ("b", "f4")]))["b"]
    assert function(packed, np.ones((1, 1, 9), np.float32), one, one) and not packed.any()
    empty = np.empty((0, 1, 9), np.float32)
    assert not function(empty, empty.copy(), one, one)
