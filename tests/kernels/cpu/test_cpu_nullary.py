"""CPU loops without inputs: fill, arange, linspace, eye and uniform."""

from __future__ import annotations

import numpy as np
import pytest

from gputensor.core.dtype import (
    ALL, COMPLEX, INTEGER, bfloat16, bool_, complex64, float16, float32, float64,
)  # fmt: skip
from gputensor.kernels.cpu import cast, fill, quiet, random
from gputensor.kernels.cpu import range as range_

from ..cpu_arrays import FLOATS, same_bits

NUMBERS = [True, 0, 3, -1, 300, 2**40 + 1, 2.75, -1.5, 1e300, float("nan"), float("-inf"), 2 - 3j]


@pytest.mark.parametrize("of", ALL, ids=lambda d: d.short)
def test_fill_casts_its_number_in_any_layout(of):
    for number in NUMBERS:
        expected = quiet.run(cast.number, number, of.np)
        memory = np.zeros((4, 6), of.np)
        with np.errstate(all="raise"):
            fill.fill(memory.T[::2, 1:3], number)  # silent by itself
        same_bits(memory[1:3, ::2], np.full((2, 3), expected, of.np))
        assert not memory[0].any() and not memory[:, 1].any()
    scalar = np.zeros((), of.np)
    fill.fill(scalar, 1)
    assert scalar == np.ones((), of.np)
    fill.fill(np.lib.stride_tricks.as_strided(scalar, (3,), (0,)), 0)  # expanded
    assert not scalar


# --- range ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [d for d in ALL if d is not bool_], ids=lambda d: d.short)
def test_arange_is_start_plus_i_times_step(of):
    for start, step in ((0, 1), (3, 7), (-5, 2), (1.5, 0.25), (0, 1 / 3)):
        if of.category == INTEGER and isinstance(step, float):
            continue
        dst = np.empty(40000 if of.itemsize > 2 else 100, of.np)
        quiet.run(range_.arange, dst, start, step)
        index = np.arange(dst.size)
        values = start + step * (index.astype(object) if of.category == INTEGER else index)
        with np.errstate(all="ignore"):
            if of.category == INTEGER:
                expected = np.array([cast.wrap(v, of.np) for v in values], of.np)
            else:
                expected = cast.convert(np.asarray(values, np.float64), of.np)
        same_bits(dst, expected)


def test_arange_of_large_integers_is_exact():
    dst = np.empty(3, np.int64)
    range_.arange(dst, 2**62, 2**53 + 1)
    assert dst.tolist() == [2**62, 2**62 + 2**53 + 1, 2**62 + 2**54 + 2]
    stepped = np.zeros(6, np.int64)
    range_.arange(stepped[::2], 5, -5)
    assert stepped.tolist() == [5, 0, 0, 0, -5, 0]


@pytest.mark.parametrize("of", [d for d in ALL if d is not bool_], ids=lambda d: d.short)
def test_linspace_hits_both_ends(of):
    for steps in (1, 2, 5, 40001):
        dst = np.empty(steps, of.np)
        range_.linspace(dst, 1, 11, steps)
        assert dst[0] == 1 and dst[-1] == (11 if steps > 1 else 1)
        exact = np.linspace(1, 11, steps)
        if of.category == INTEGER:
            assert (np.abs(dst.astype(np.float64) - np.trunc(exact)) <= 1).all()
        else:
            rtol = {float16: 2**-10, bfloat16: 2**-7}.get(of, 2**-22)
            np.testing.assert_allclose(dst.astype(np.complex128), exact, rtol=rtol)
    empty = np.empty(0, of.np)
    range_.linspace(empty, 0, 1, 0)


def test_linspace_is_symmetric_and_complex():
    dst = np.empty(7)
    range_.linspace(dst, -0.7, 0.7, 7)
    assert (dst == -dst[::-1]).all()
    dst = np.empty(3, np.complex64)
    range_.linspace(dst, 0, 2 + 4j, 3)
    assert dst.tolist() == [0, 1 + 2j, 2 + 4j]


@pytest.mark.parametrize("of", ALL, ids=lambda d: d.short)
def test_eye(of):
    for shape in ((3, 3), (2, 5), (5, 2), (0, 3), (1, 1)):
        memory = np.full((shape[0] * 2, shape[1]), 1, of.np)
        range_.eye(memory[::2], shape[1])
        same_bits(memory[::2], np.eye(*shape).astype(np.float32).astype(of.np))
        dense = np.full(shape, 1, of.np)
        range_.eye(dense, shape[1])
        same_bits(dense, memory[::2])
        assert (memory[1::2] == 1).all()


# --- random ---------------------------------------------------------------------------------------

MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
WORD = 2**64 - 1


def philox(counter, key):
    """Philox4x64-10 in Python's integers. Source: Random123, include/Random123/philox.h."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(MULTIPLIERS[0] * c[0], 2**64)
        high1, low1 = divmod(MULTIPLIERS[1] * c[2], 2**64)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + WEYL[0]) & WORD, (k[1] + WEYL[1]) & WORD]
    return c


def words(seed, offset, n):
    return np.array(
        [philox((offset + i // 4, 0, 0, 0), (seed & WORD, 0))[i % 4] for i in range(n)], np.uint64
    )


def test_philox_of_random123():
    """Known answers of Random123's kat_vectors for philox4x64-10."""
    assert [hex(x) for x in philox((0,) * 4, (0, 0))] == [
        "0x16554d9eca36314c", "0xdb20fe9d672d0fdc", "0xd7e772cee186176b", "0x7e68b68aec7ba23b",
    ]  # fmt: skip
    assert [hex(x) for x in philox((WORD,) * 4, (WORD, WORD))] == [
        "0x87b092c3013fe90b", "0x438c3c67be8d0224", "0x9cc7d7c69cd777b6", "0xa09caebf594f0ba0",
    ]  # fmt: skip


@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (1, 0), (2**64 - 1, 5), (-1, 5), (42, 2**40)])
def test_uniform_takes_lane_i_of_the_block_with_its_counter(seed, offset):
    expected = words(seed, offset, 11)
    assert random.words_from(seed, offset).random_raw(11).tolist() == expected.tolist()
    for of, shift, bits in (
        (float64, 11, 53),
        (float32, 40, 24),
        (float16, 53, 11),
        (bfloat16, 56, 8),
    ):
        dst = np.empty(11, of.np)
        random.uniform(dst, seed, offset)
        exact = (expected >> np.uint64(shift)).astype(np.float64) * 2.0**-bits
        np.testing.assert_array_equal(dst.astype(np.float64), exact)
        assert (dst < of.np.type(1)).all()


@pytest.mark.parametrize("of", [*FLOATS, complex64], ids=lambda d: d.short)
def test_element_order_is_row_major_whatever_the_strides(of):
    n = 3 * (1 << 14) + 5
    dense = np.empty(n, of.np)
    random.uniform(dense, 7, 100)
    strided = np.zeros((2, n), of.np).T[:, 0]
    random.uniform(strided, 7, 100)
    same_bits(strided.copy(), dense)
    column_major = np.empty((3, 5), of.np, order="F")
    random.uniform(column_major, 7, 100)
    same_bits(column_major.reshape(-1), dense[:15])
    later = np.empty(8, of.np)
    random.uniform(later, 7, 101)
    per_counter = 2 if of.category == COMPLEX else 4
    same_bits(later[:4], dense[per_counter:][:4])


def test_uniform_is_uniform():
    dst = np.empty(100_000, np.float32)
    random.uniform(dst, 3, 0)
    assert abs(dst.mean() - 0.5) < 0.005 and abs(dst.var() - 1 / 12) < 0.002
    assert 0 <= dst.min() and dst.max() < 1
