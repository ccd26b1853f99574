"""The compiled loops of family binary that divide, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import dtype as dtypes
from gputensor.core.dtype import bfloat16, float16, float32, float64, int32, int64
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import binary as numpys
from gputensor.kernels.cpu.quiet import run
from tests.harness import compare

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

INTEGERS = [
    dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int16, dtypes.uint32, int32, dtypes.uint64,
    int64,
]  # fmt: skip
DIVISIONS = ["div_floor", "div_trunc", "remainder", "fmod"]
_random = np.random.default_rng(0)


def _integers(of: Any, is_wide: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return small integers, or integers of all magnitudes with the limits of the range; no divisor
    is 0."""
    info = np.iinfo(of.np)
    if not is_wide:
        a = _random.integers(max(info.min, -1000), min(info.max, 1000), 4000, of.np)
        b = _random.integers(max(info.min, -50), 50, 4000, of.np)
        return a, np.where(b == 0, 1, b).astype(of.np)
    a, b = (_random.integers(info.min, info.max, 4000, of.np, endpoint=True) for _ in range(2))
    bits = _random.integers(0, info.bits, 4000).astype(of.np)
    b >>= bits
    ends = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, 1, 2, 3]
    ends += [-1, -2, -3] if info.min < 0 else []
    pairs = np.array([(x, y) for x in ends for y in ends], of.np)
    a[: len(pairs)], b[: len(pairs)] = pairs.T
    return a, np.where(b == 0, 1, b).astype(of.np)


@pytest.mark.parametrize("of", INTEGERS, ids=lambda d: d.short)
@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize("is_wide", [False, True])
def test_integers(op: str, of: Any, is_wide: bool) -> None:
    a, b = _integers(of, is_wide)
    loop, plain = stub.cpu_loop("binary", op, (of, of), of, of), numpys.bind(op, (of, of), of, of)
    assert stub.is_compiled(loop) and stub.looks_at_values(loop)
    for n in (4000, 37, 1):
        np.testing.assert_array_equal(loop(a[:n], b[:n]), run(plain, a[:n], b[:n]))
        np.testing.assert_array_equal(loop(a[::2], b[:2000]), run(plain, a[::2], b[:2000]))
    by, plain = stub.cpu_loop("binary", op, (of, int), of, of), numpys.bind(op, (of, int), of, of)
    for number in (1, 2, 7, 100, *([-1, -3] if of.is_signed else [])):
        np.testing.assert_array_equal(by(a, number), run(plain, a, number))


@pytest.mark.parametrize("op", DIVISIONS)
def test_an_integer_divided_by_zero_raises_and_nothing_is_written(op: str) -> None:
    loop = stub.cpu_loop("binary", op, (int64, int64), int64, int64)
    for n in (3, 100_000):
        a, b = np.full(n, 7), np.full(n, 2)
        b[n // 2] = 0
        for out in (None, a, b):
            with pytest.raises(ZeroDivisionError, match="'other' must not hold 0"):
                loop(a, b, out)
        assert (a == 7).all() and np.count_nonzero(b == 2) == n - 1
        with pytest.raises(ZeroDivisionError):
            loop(a, b[::-1])
    assert loop(np.zeros((0, 3), int), np.zeros(3, int)).size == 0
    with pytest.raises(ZeroDivisionError):
        stub.cpu_loop("binary", op, (int64, int), int64, int64)(np.ones(3, int), 0)
    with pytest.raises(ZeroDivisionError):
        mixed = stub.cpu_loop("binary", op, (int32, int64), int64, int64)
        mixed(np.ones(1, np.int32), np.zeros(1, int))


def test_a_chain_does_not_put_off_a_division_by_zero() -> None:
    x, zeros = gt.ones(1000, dtype=gt.int64), gt.zeros(1000, dtype=gt.int64)
    with pytest.raises(ZeroDivisionError):
        gt.fuse(lambda x, y: (x + 1) // y)(x, zeros)


@pytest.mark.parametrize("of", [float16, float32, float64], ids=lambda d: d.short)
@pytest.mark.parametrize("op", DIVISIONS)
def test_floats(op: str, of: Any) -> None:
    """In some blocks the C library computes remainders of large quotients, in others not."""
    ends = [0, -0.0, 1, -1, 2.5, -2.5, np.inf, -np.inf, np.nan, 6e4, 1e-7, 3, 7, 0.1, -0.3]
    a, b = (x.ravel().astype(of.np) for x in np.meshgrid(ends, ends))
    more = _random.standard_normal((2, 5000)).astype(of.np)
    a, b = np.concatenate([a, more[0] * 9]).astype(of.np), np.concatenate([b, more[1]])
    loop = stub.cpu_loop("binary", op, (of, of), of, of)
    expected = run(numpys.bind(op, (of, of), of, of), a, b)
    for part in (slice(None), slice(len(ends) ** 2, None)):
        found = loop(a[part], b[part])
        np.testing.assert_array_equal(found, expected[part])
        is_number = found == found
        signs = np.signbit(found) == np.signbit(expected[part])
        assert (signs | ~is_number).all()


@pytest.mark.parametrize("of", [float32, float64], ids=lambda d: d.short)
def test_a_power_of_a_number_has_the_bits_of_that_of_an_array(of: Any) -> None:
    x = (_random.standard_normal(3000) * 10.0 ** _random.integers(-20, 20, 3000)).astype(of.np)
    x[:6] = 0, -0.0, np.inf, -np.inf, np.nan, 1
    by_array = stub.cpu_loop("binary", "pow", (of, of), of, of)
    by_number = stub.cpu_loop("binary", "pow_number", (of, float), of, of)
    for power in (2.5, -1.5, 0.0, 7.0, np.inf, np.nan):
        expected = by_array(x, np.full_like(x, power))
        np.testing.assert_array_equal(by_number(x, power), expected)


@pytest.mark.parametrize("of", [float16, bfloat16], ids=lambda d: d.short)
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_halves_are_rounded_once(op: str, of: Any) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(of.np)
    others = np.array([0.0, -0.0, 1.0, -3.14, 1e-6, 300.0, np.inf, np.nan], np.float32)
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[op]
    loop = stub.cpu_loop("binary", op, (of, of), of, of)
    for other in others.astype(of.np):
        repeated, wide, one = np.full_like(every, other), every.astype("f"), np.float32(other)
        wanted = run(lambda: function(wide, one).astype(of.np))
        turned = run(lambda: function(one, wide).astype(of.np))
        for n in (len(every), 37, 16, 15):
            x, y = every[:n], repeated[:n]
            assert compare.same(run(loop, x, y), wanted[:n])
            assert compare.same(run(loop, x, y[:1]), wanted[:n])
            assert compare.same(run(loop, y, x), turned[:n])
            assert compare.same(run(loop, y[:1], x), turned[:n])
