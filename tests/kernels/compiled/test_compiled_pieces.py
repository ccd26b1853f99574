"""The compiled loops of pad, roll and cat against NumPy's: equal bytes for all layouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import copy_pieces as numpys
from gputensor.kernels.cpu.copy_pieces import Piece

from ...harness import tier
from ..layouts import LAYOUTS

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)
DTYPES = [np.uint8, np.int16, np.float32, np.float64, np.complex128]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def _place(dst: np.ndarray, src: np.ndarray, value: np.ndarray, pieces: list[Any]) -> bool:
    """Return True if the library did the work."""
    numbers = [n for of in pieces for n in (len(of), *[x for piece in of for x in piece])]
    done: bool = library.function("copy_pieces", "place")(dst, src, value, *numbers) == 0
    return done


@st.composite
def _pieces(draw: Any, size: int) -> list[Piece]:
    found = []
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(-1, size - 1))
        step = draw(st.sampled_from([-1, 0, 1])) if begin >= 0 else 0
        most = {1: size - begin, -1: begin + 1, 0: 5}[step]
        found.append(Piece(draw(st.integers(0, most)), begin, step))
    chosen: list[Piece] = draw(st.sampled_from([found, [Piece(size, 0, 1)]]))
    return chosen


@tier.examples(300)
@given(st.data())
def test_any_pieces(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    of = data.draw(st.sampled_from(DTYPES))
    pieces = [data.draw(_pieces(n)) for n in shape]
    src = np.arange(np.prod(shape)).reshape(shape).astype(of)
    src = data.draw(st.sampled_from(LAYOUTS))(src)
    order = data.draw(st.permutations(range(len(shape))))
    sizes = [sum([piece.size for piece in of]) for of in pieces]
    to, plain = np.full([sizes[d] for d in order], 99, of), np.full(sizes, 98, of)
    dst, value = to.transpose(np.argsort(order)), np.array(7, of)
    assert _place(dst, src, value, pieces)
    numpys.place(plain, src, value, tuple(map(tuple, pieces)))
    np.testing.assert_array_equal(dst, plain)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(300_001,), (3, 100_001), (70_001, 3), (5, 64, 21, 33)])
def test_large_pieces_on_any_number_of_threads(shape: tuple[int, ...], threads: int) -> None:
    gt.set_num_threads(threads)
    src, value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.float32(-1)
    pieces = [[Piece(n, 0, 1)] for n in shape]
    for d, n in enumerate(shape):
        pieces[d] = [Piece(2, -1, 0), Piece(2, 2, -1), Piece(n, 0, 1), Piece(3, n - 1, 0)]
        sizes = [sum([piece.size for piece in of]) for of in pieces]
        dst, plain = np.zeros(sizes, np.float32), np.ones(sizes, np.float32)
        assert _place(dst, src, np.asarray(value), pieces)
        numpys.place(plain, src, np.asarray(value), tuple(map(tuple, pieces)))
        np.testing.assert_array_equal(dst, plain)


def test_pieces_beyond_the_source_are_not_read() -> None:
    src, dst = np.zeros(4, np.float32), np.full(6, 5, np.float32)
    pieces: list[Any]
    for pieces in ([[Piece(6, 0, 1)]], [[Piece(6, 4, -1)]], [[Piece(5, 0, 0)]], [[]]):
        assert not _place(dst, src, src[:1], pieces)
    assert not _place(dst, src.astype(np.float64), src[:1], [[Piece(6, 0, 0)]])
    assert (dst == 5).all()


@tier.examples(200)
@given(st.data())
def test_join(data: Any) -> None:
    shape = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    dim, of = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.sampled_from(DTYPES))
    order = data.draw(st.permutations(range(len(shape))))
    back = np.argsort(order)
    lengths = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    sources = []
    for n, length in enumerate(lengths):
        sizes = [*shape[:dim], length, *shape[dim + 1 :]]
        dense = np.full([sizes[d] for d in order], n, of)
        dense += np.arange(dense.size).reshape(dense.shape).astype(of)
        sources.append(dense.transpose(back))
    sizes = [*shape[:dim], sum(lengths), *shape[dim + 1 :]]
    dst = np.zeros([sizes[d] for d in order], of).transpose(back)
    done = library.function("copy_pieces", "join")(dst, *sources, dim) == 0
    assert done or not dst.size
    np.testing.assert_array_equal(dst, np.concatenate(sources, dim))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_join_on_any_number_of_threads(threads: int) -> None:
    gt.set_num_threads(threads)
    join = stub.cpu("copy_pieces").join
    assert join.__module__.endswith("compiled.copy_pieces")
    for dim in (0, 1, 2):
        sources = []
        for n in (50, 7, 61):
            sizes = [40, 50, 60]
            sizes[dim] = n
            sources.append(np.random.default_rng(n).random(sizes).astype(np.float32))
        plain = np.concatenate(sources, dim)
        dst = np.zeros_like(plain)
        assert join(dst, sources, dim)
        np.testing.assert_array_equal(dst, plain)


def test_join_of_other_layouts_is_left_to_others() -> None:
    join = library.function("copy_pieces", "join")
    dst, x = np.zeros((8, 4), np.float32), np.ones((4, 4), np.float32)
    assert join(dst, x, x.T, 0) and join(dst, x[:, ::-1], x, 0) and join(dst, x, 0)
    assert join(dst, x.astype(np.float64), x, 0) and not dst.any()


def test_circular_padding_has_a_gradient() -> None:
    x = gt.arange(3.0).reshape(1, 1, 3).requires_grad_(True)
    made = gt.nn.functional.pad(x, (2, 1), "circular")
    made.backward(gt.arange(6.0).reshape(1, 1, 6))
    assert x.grad is not None and x.grad.tolist() == [[[7.0, 3.0, 5.0]]]
    assert gt.nn.functional.pad(x.detach(), (2, 1), "circular").tolist() == made.tolist()


@pytest.mark.parametrize("of", [*DTYPES, np.complex64])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_columns_of_one_word_each(of: Any, count: int) -> None:
    random = np.random.default_rng(0)
    for rows in (1, 1000, 20_011, 150_001):
        sources = [random.integers(0, 99, (rows, 1)).astype(of) for _ in range(count)]
        for threads in (1, 2, 3):
            gt.set_num_threads(threads)
            dst = np.zeros((rows, count), of)
            assert library.function("copy_pieces", "join")(dst, *sources, 1) == 0
            assert (dst == np.concatenate(sources, 1)).all()
            turned = np.zeros((count, rows), of).T  # the columns are dense
            sides = [x.reshape(1, -1).T for x in sources]
            if library.function("copy_pieces", "join")(turned, *sides, 1) == 0:
                assert (turned == dst).all()


def test_large_complex_numbers_of_two_parts() -> None:
    for sizes in ((70_001,), (300, 301), (65_536,)):
        for of in (gt.float32, gt.float64):
            re, im = gt.randn(*sizes).to(of), gt.randn(*sizes).to(of)
            made = gt.complex(re, im)
            assert gt.equal(made.real, re) and gt.equal(made.imag, im) and made.is_contiguous()
            turned = gt.complex(re.unsqueeze(0).mT, im.unsqueeze(0).mT)
            assert gt.equal(turned.real, re.unsqueeze(0).mT)
