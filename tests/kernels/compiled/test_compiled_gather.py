"""The compiled loops of families gather and scatter have the results of NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import gather, scatter
from gputensor.kernels.cpu.quiet import run

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

LOOPS = ("scatter", "scatter_add", "scatter_multiply", "scatter_amax", "scatter_amin")
WIDE = (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, np.complex64,
        np.complex128)  # fmt: skip
_random = np.random.default_rng(0)


def _numbers(sizes: Any, of: Any) -> np.ndarray:
    if np.dtype(of).kind == "c":
        units = np.array([1, 1j, -1, -1j], of)  # products are exact, fused or not
        return np.asarray(units[_random.integers(0, 4, sizes)])
    if np.dtype(of).kind == "f":
        made = np.asarray(_random.integers(-9, 9, sizes) * 0.37)
        made = np.where(_random.random(sizes) < 0.02, np.nan, made)
        return np.where(_random.random(sizes) < 0.05, -0.0, made).astype(of)
    return np.asarray(_random.integers(0, 1 << 40, sizes)).astype(of)


def _at(n: int, *sizes: int, wraps: bool = True) -> np.ndarray:
    return np.asarray(_random.integers(-n if wraps else 0, n, sizes))


def _strided(x: np.ndarray) -> np.ndarray:
    """Return the same numbers in every second place, with the dimensions in reverse order in
    memory."""
    room = np.zeros(tuple([2 * n for n in x.shape[::-1]]), x.dtype)
    view = room[(..., *[slice(None, None, 2)] * x.ndim)].transpose()
    view[...] = x
    return view


def _walks() -> list[tuple[Any, ...]]:
    """(sizes of x, indices, led, begin)"""
    a, b, c = 20, 30, 40
    return [
        ((a,), [_at(a, 7)], [0], 0),
        ((a,), [_at(a)], [0], 0),
        ((a,), [_at(a, 3000)], [0], 0),
        ((a, 3), [_at(a, 50)], [0], 0),
        ((a, 300), [_at(a, 700)], [0], 0),
        ((a, 1), [_at(a, 5, 1)], [0], 0),
        ((a, b, c), [_at(a, 15, 6), _at(b, 15, 6), _at(c, 6)], [0, 1, 2], 0),
        ((a, b, c), [_at(b, 10), _at(c, 10)], [1, 2], 1),
        ((a, b, c), [_at(a, 2, 3, 4), np.arange(b).reshape(b, 1, 1, 1)], [0, 1], 0),
        ((a, b, c), [_at(b, 10, 30)], [1], 1),
        ((a, b, c), [_at(c, 100)], [2], 2),
        ((a, b, c), [_at(a, 17, 1), _at(b, 1, 23)], [0, 1], 0),
        ((a, b), [_at(a, 9, 1)[:, [0, 0]]], [0], 0),
        ((a, b), [np.broadcast_to(_at(a, 9, 1), (9, 4))], [0], 0),
        ((a, b, c), [_at(a, 3, 30, 39)], [0], None),
        ((a, b, c), [_at(b, 20, 70, 40)], [1], None),
        ((a, b, c), [_at(c, 20, 30, 9)], [2], None),
        ((a, b), [np.broadcast_to(_at(a, 90, 1), (90, 30))], [0], None),
        ((a,), [_at(a, 5)], [0], None),
        ((2,) * 6, [_at(2, 3) for _ in range(6)], list(range(6)), 0),
        ((2,) * 7, [_at(2, 3) for _ in range(7)], list(range(7)), 0),
    ]


WALKS = _walks()


@pytest.mark.parametrize("of", [np.int8, np.float16, np.float32, np.int64, np.complex128])
def test_gather_reads_what_numpy_reads(of: Any) -> None:
    for sizes, indices, led, begin in WALKS:
        for x in (made := _numbers(sizes, of), _strided(made)):
            wanted = np.asarray(x[gather.key(x, indices, led, begin)])
            for out in (np.zeros_like(wanted), _strided(np.zeros_like(wanted))):
                assert stub.cpu("gather").gather(out, x, indices, led, begin, True) == 0
                assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("of", WIDE, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("loop", LOOPS)
def test_scatter_writes_what_numpy_writes(loop: str, of: Any) -> None:
    if np.dtype(of).kind == "c" and loop.startswith("scatter_am"):
        return
    for sizes, indices, led, begin in WALKS:
        x = _numbers(sizes, of)
        value = _numbers(np.shape(x[gather.key(x, indices, led, begin)]), of)
        wanted = x.copy()
        places = indices, led, begin, True
        assert run(getattr(scatter, loop), wanted, value, *places) == 0
        for made, given in ((x.copy(), value), (_strided(x), _strided(value))):
            assert getattr(stub.cpu("scatter"), loop)(made, given, *places) == 0
            np.testing.assert_array_equal(made, wanted)
            if np.dtype(of).kind == "f" and not loop.startswith("scatter_am"):
                assert (np.signbit(made) == np.signbit(wanted))[wanted == 0].all()
        one = value.reshape(-1)[:1].reshape(()).copy()
        wanted, made = x.copy(), x.copy()
        run(getattr(scatter, loop), wanted, one, *places)
        getattr(stub.cpu("scatter"), loop)(made, one, *places)
        np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("loop", LOOPS)
def test_any_number_of_threads_gives_the_same_bits(loop: str) -> None:
    cases = [
        ((300, 200), [_at(300, 4000)], [0], 0),
        ((300, 200), [_at(300, 900, 200)], [0], None),
        ((300, 200), [_at(200, 300, 900)], [1], None),
        ((300, 200), [_at(300, 90000), _at(200, 90000)], [0, 1], 0),
        ((5, 300, 20), [_at(300, 2000)], [1], 1),
    ]
    before = gt.get_num_threads()
    try:
        for sizes, indices, led, begin in cases:
            x = _random.standard_normal(sizes).astype(np.float32)
            shape = x[gather.key(x, indices, led, begin)].shape
            value = _random.standard_normal(shape).astype(np.float32)
            found = []
            for count in (1, 2, 3):
                gt.set_num_threads(count)
                made = x.copy()
                getattr(stub.cpu("scatter"), loop)(made, value, indices, led, begin, True)
                found.append(made.tobytes())
            assert found[0] == found[1] == found[2]
    finally:
        gt.set_num_threads(before)


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("bad", [20, -1, -21, 1 << 62, -(1 << 63)])
def test_an_index_out_of_range_is_told_and_nothing_is_written(bad: int, wraps: bool) -> None:
    if wraps and bad == -1:
        return
    fine = _at(20, 50_000, wraps=wraps)
    for size, place in ((1, 0), (10, 9), (50_000, 31_000)):
        wrong = fine[:size].copy()
        wrong[place] = bad
        wide = np.broadcast_to(wrong[:, None], (size, 2))
        x, value = np.zeros((20, 20)), np.ones(())
        for indices, led, begin, number in (
            ([wrong], [0], 0, 1), ([fine[:size], wrong], [0, 1], 0, 2), ([wide], [0], None, 1),
            ([_strided(wrong)], [1], 1, 1),
        ):  # fmt: skip
            for loop in LOOPS:
                assert getattr(stub.cpu("scatter"), loop)(
                    x, value, indices, led, begin, wraps
                ) == number  # fmt: skip
            assert not x.any()
            out = np.zeros(np.broadcast(*indices).shape if len(indices) > 1 else wide.shape)
            if len(indices) > 1 or begin is None:
                assert stub.cpu("gather").gather(out, x, indices, led, begin, wraps) == number


def test_memory_that_is_read_only_is_not_written() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    x, at = gt.from_numpy(array), gt.tensor([0])
    for call in (
        lambda: x.index_add_(0, at, x[:1] + 1), lambda: x.scatter_(0, at, 1.0),
        lambda: x.index_put_((at,), x[:1] + 1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="must be writable"):
            call()
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("of", [np.int8, np.float32, np.float64])
def test_taken_is_take_along_axis(axis: int, of: Any) -> None:
    for x in (made := _numbers((5, 6, 7), of), _strided(made)):
        index = np.argsort(x, axis)
        for at in (index, index.take([0, 2, 4], axis)):
            found = stub.cpu("gather").taken(x, at, axis)
            np.testing.assert_array_equal(found, np.take_along_axis(x, at, axis))
