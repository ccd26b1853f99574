"""Compiled copies and casts write the same bytes as NumPy's loops, and no other bytes."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputensor.core.dtype import STORED, bfloat16, complex32, float16
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import copy as numpys
from gputensor.runtime import cpu

from ...harness import tier
from ..cpu_arrays import awkward

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason=f"no compiled loops: {library.choice().reason}"
)
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
DTYPES = [d.np for d in STORED]


@pytest.fixture(autouse=True)
def on_two_threads():
    before = cpu.get_num_threads()
    cpu.set_num_threads(2)
    yield
    cpu.set_num_threads(before)


def copy(dst, src):
    stub.cpu("copy").copy(dst, src)


def copied(dst, src):
    """Return True if the library copied; otherwise nothing is written."""
    return library.function("copy", "copy")(dst, src, cpu.cache_nbytes()) == 0


def filled(shape, dtype):
    """Return an array of different bytes, so that a wrong or missing one is found."""
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * dtype.itemsize
    found = (np.arange(nbytes, dtype=np.int64) * 2654435761 >> 7).astype(np.uint8)
    return (found & 1 if dtype == np.bool_ else found).view(dtype).reshape(shape)


def laid_out(shape, dtype, order, steps, margin, is_reversed=()):
    """Return an array of this shape: its dimensions have another order in memory, with gaps,
    perhaps reversed."""
    sizes = [shape[d] * steps[d] + margin for d in order]
    back = [order.index(d) for d in range(len(shape))]
    view = filled(sizes, dtype).transpose(back)
    cut = [slice(0, n * step, step) for n, step in zip(shape, steps)]
    view = view[(*cut, ...)]
    turned = [slice(None, None, -1 if d in is_reversed else 1) for d in range(len(shape))]
    return view[(*turned, ...)]


def whole(array):
    """Return all memory that contains a view, as bytes."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.reshape(-1).view(np.uint8)


def twin(array):
    """Return an equal view, at the same place in a copy of all the memory."""
    memory = whole(array).copy()
    begin = array.__array_interface__["data"][0] - whole(array).__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, memory, begin, array.strides)


def values(array):
    """Return the values to compare; NaNs with different payloads are equal."""
    if array.dtype == complex32.np:
        array = np.ascontiguousarray(array).view(float16.np)
    kind = np.complex128 if array.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return array if array.dtype.kind in "biu" else array.astype(kind)


def check(dst, src):
    expected = twin(dst)
    numpys.copy(expected, src)
    assert copied(dst, src)
    if dst.dtype == src.dtype or dst.dtype.kind in "biu":
        assert np.array_equal(whole(dst), whole(expected))
    else:
        found, wanted = values(dst), values(expected)
        with np.errstate(invalid="ignore"):  # NumPy 2.5 warns of signaling NaNs
            assert np.array_equal(found, wanted, equal_nan=True)
        number = ~np.isnan(found)
        assert np.array_equal(np.signbit(found.real[number]), np.signbit(wanted.real[number]))
        dst[...] = expected  # every byte around it
        assert np.array_equal(whole(dst), whole(expected))


@st.composite
def layouts(draw):
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 17, 33, 70]), max_size=5))
    shape = shape if np.prod(shape) < 200_000 else shape[:3]
    ndim = range(len(shape))

    def side(dtype):
        return laid_out(
            shape, dtype, draw(st.permutations(ndim)),
            [draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in ndim],
            draw(st.sampled_from([0, 0, 1, 3])), [d for d in ndim if draw(st.booleans())],
        )  # fmt: skip

    to = draw(st.sampled_from(DTYPES))
    of = draw(st.sampled_from([to, *DTYPES]))
    dst, src = side(to), side(of)
    repeated = tuple([slice(0, 1) if draw(st.integers(0, 5)) == 0 else slice(None) for _ in ndim])
    return dst, src[(*repeated, ...)]


@tier.examples(300)
@given(layouts())
def test_any_layout_and_dtype(sides):
    check(*sides)


LARGE = [
    ((1 << 18,), lambda x: x),
    ((64, 16, 128, 8), lambda x: x.transpose(1, 0, 2, 3)),
    ((512, 256), lambda x: x[:, ::2]),
    ((512, 256), lambda x: x[::-1, ::-1]),
    ((1, 1 << 14), lambda x: np.broadcast_to(x, (16, 1 << 14))),
    ((1 << 14, 1), lambda x: np.broadcast_to(x, (1 << 14, 16))),
    ((4, 3, 100, 221), lambda x: x.transpose(0, 2, 3, 1)),
    ((4, 100, 221, 3), lambda x: x.transpose(0, 3, 1, 2)),
    ((4, 300, 7, 7), lambda x: x.transpose(0, 2, 3, 1)),
    ((30_003, 7), lambda x: x.T),
    ((501, 443), lambda x: x.T),
    ((512, 512), lambda x: x.T),
    ((12, 20_000), lambda x: x.T),
    ((21, 23, 17, 19), lambda x: x.transpose(3, 2, 1, 0)),
    ((701, 400), lambda x: x[3:, 5:300].T),
    ((2,) * 17, lambda x: x.T),
    ((3, 5, 2, 3, 5, 2, 3, 5, 2, 3), lambda x: x.T),
    ((600, 300, 3), lambda x: x.transpose(1, 0, 2)),
]


@pytest.mark.parametrize(("shape", "view"), LARGE)
@pytest.mark.parametrize("itemsize", WORDS)
def test_each_loop_on_threads(shape, view, itemsize):
    src = view(filled(shape, WORDS[itemsize]))
    check(np.full(src.shape, 7, src.dtype), src)
    wide = np.full((*src.shape[:-1], src.shape[-1] + 3), 7, src.dtype)
    check(wide[..., : src.shape[-1]], src)


@pytest.mark.parametrize(("shape", "view"), LARGE)
@pytest.mark.parametrize("dtypes", [("u1", "f4"), ("f4", "f2"), ("f8", "i4"), ("c16", "c8")])
def test_casts_that_change_the_layout_on_threads(shape, view, dtypes):
    src = view((filled(shape, "u1") % 100).astype(dtypes[0]))
    check(np.full(src.shape, 7, dtypes[1]), src)


def test_past_the_cache():
    """The cache's size is set to 0, so that every loop that can bypass the cache does so."""
    function = library.function("copy", "copy")
    for shape, view in LARGE:
        src = view(filled(shape, np.float32))
        memory = cpu.allocate(src.nbytes + 64)
        for begin in (0, 4):
            dst = memory[begin : begin + src.nbytes].view(np.float32).reshape(src.shape)
            dst[...] = 7
            assert function(dst, src, 0) == 0
            assert np.array_equal(dst.view(np.uint32), src.view(np.uint32))


@pytest.mark.parametrize("of", [d for d in STORED if d is not complex32], ids=str)
def test_awkward_values(of):
    """Special values occur alone, in blocks and in their tails, and among ordinary values."""
    few = awkward(of)
    many = np.tile(few, 1000 // few.size + 1)[:999]
    calm = np.zeros(2000, of.np)
    calm[700] = few[-1]
    for src in (few, many, few[:1].reshape(()), calm):
        for to in STORED:
            check(np.zeros(src.shape, to.np), src)


def test_halves_of_every_value():
    bits = np.arange(1 << 16, dtype=np.uint16)
    for half in (float16, bfloat16):
        for to in STORED:
            check(np.zeros(bits.size, to.np), bits.view(half.np))


def test_f64_is_rounded_once_to_f16():
    near = np.arange(0, 0x7C01, 7, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = (near[1:] + near[:-1]) / 2
    around = [np.nextafter(middle, to) for to in (0, np.inf)]
    few = np.concatenate([middle, *around, [1e300, 5e-324]])
    check(np.zeros(few.size, np.float16), few)
    check(np.zeros(few.size, np.float16), -few)


def test_what_the_library_leaves_to_numpy():
    x = np.arange(12.0)
    assert not copied(x[1:], x[:-1]) and not copied(np.empty(3), np.empty((1, 3)))
    assert not copied(np.empty((2, 3)), np.empty((3, 2)))
    assert not copied(np.empty(3, "S4"), np.empty(3, "S4"))
    assert copied(x, x)
    copy(x[1:], x[:-1])
    assert x.tolist() == [0.0, *range(11)]
    with pytest.raises(ValueError, match="broadcast"):
        copy(np.empty((2, 3)), np.empty((3, 2)))
    read_only = np.zeros(1000)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        copy(read_only, np.ones(1000))
    assert not read_only.any()
    packed = np.zeros(100, np.dtype([("a", "u1"), ("b", "f8")]))["b"]
    copy(packed, np.arange(100, dtype=np.float32))
    assert packed.tolist() == list(range(100))
    empty = np.empty((0, 3), np.float32)
    copy(empty, empty.copy())


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads(threads):
    cpu.set_num_threads(threads)
    for (shape, view), to in itertools.product(LARGE, (np.float32, np.float16)):
        src = view(filled(shape, np.uint8).astype(np.float32))
        check(np.zeros(src.shape, to), src)


def test_from_several_threads_at_once():
    src = filled((1000, 700), np.float32)
    expected, wrong = np.ascontiguousarray(src.T), []

    def work():
        for _ in range(20):
            dst = np.zeros((700, 1000), np.float32)
            copy(dst, src.T)
            if not np.array_equal(dst.view(np.uint32), expected.view(np.uint32)):
                wrong.append(dst)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("of", STORED, ids=str)
def test_bool_is_0_or_1(of):
    few = np.zeros(3, of.np) if of is complex32 else awkward(of)
    dst = np.full(few.size, 7, np.uint8)
    copy(dst.view(np.bool_), few)
    assert set(dst.tolist()) <= {0, 1}
