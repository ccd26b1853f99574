"""CPU matrix products: layouts, sizes, exact integers, products in blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gputensor.core.dtype import ALL, bool_
from gputensor.kernels.cpu import cast, matmul, quiet

from ..cpu_arrays import HALVES, INTEGERS, same_bits, small, wide

LAYOUTS = {
    "row": lambda x: np.ascontiguousarray(x),
    "column": lambda x: np.asfortranarray(x),
    "stepped": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
}


@pytest.mark.parametrize("of", [d for d in ALL if d is not bool_], ids=lambda d: d.short)
def test_every_layout(of):
    a, b = small(of, (3, 5), 1), small(of, (5, 4), 2)
    exact = wide(a) @ wide(b)
    if of in INTEGERS:
        expected = np.array([[cast.wrap(x, of.np) for x in row] for row in exact], of.np)
    else:
        expected = exact.astype(np.float32).astype(of.np) if of in HALVES else exact.astype(of.np)
    for la, lb, lo in itertools.product(LAYOUTS.values(), repeat=3):
        out = lo(np.full((3, 4), 7, of.np))
        assert matmul.mm(la(a), lb(b), out) is out
        np.testing.assert_array_equal(wide(out), wide(expected))


def test_sizes_of_zero_and_one():
    for m, k, n in itertools.product((0, 1, 3), repeat=3):
        for of in ALL:
            a, b, out = np.ones((m, k), of.np), np.ones((k, n), of.np), np.full((m, n), 1, of.np)
            quiet.run(matmul.mm, a, b, out)
            assert (wide(out) == (min(k, 1) if of is bool_ else k)).all()


def test_integers_stay_exact_beyond_2_to_53():
    a = np.array([[2**62 + 1, 1]])
    exact = cast.wrap((2**62 + 1) ** 2 + 1, a.dtype)
    same_bits(matmul.mm(a, a.T.copy(), np.empty((1, 1), np.int64)), np.array([[exact]]))


def test_halves_accumulate_in_f32():
    a = np.full((1, 4096), 1, np.float16)
    same_bits(matmul.mm(a, a.T, np.empty((1, 1), np.float16)), np.array([[4096]], np.float16))


@pytest.mark.parametrize("of", [np.int64, np.int32, np.uint8, np.int8])
@pytest.mark.parametrize("bits", [3, 7, 20, 24, 40])
def test_many_integers_are_multiplied_exactly(of, bits):
    """They are computed in f64 if that is exact, otherwise modulo the width of the dtype."""
    random = np.random.default_rng(0)
    a, b = (random.integers(-(1 << bits), 1 << bits, s) for s in ((40, 64), (64, 30)))
    a, b = a.astype(of), b.astype(of)
    out = np.empty((40, 30), of)
    assert (matmul.mm(a, b, out) == np.matmul(a, b)).all()
    assert (matmul.mm(b.T, a.T, np.empty((30, 40), of)) == out.T).all()


@pytest.mark.parametrize("turned", ["", "a", "b", "out", "step", "column"])
def test_a_large_product_of_any_layout(turned: str) -> None:
    random = np.random.default_rng(3)
    inner = 1 if turned == "column" else 40
    a, b = random.random((300, inner)), random.random((inner, 280))
    wanted, out = a @ b, np.full((300, 280), np.nan)
    assert out.nbytes >= matmul._LARGE
    if turned == "a":
        a = np.asfortranarray(a)
    elif turned == "b":
        b = np.asfortranarray(b)
    elif turned == "out":
        out = np.asfortranarray(out)
    elif turned == "step":
        wide = np.zeros((300, 2 * inner))
        wide[:, ::2] = a
        a = wide[:, ::2]
    assert matmul.mm(a, b, out) is out
    np.testing.assert_allclose(out, wanted, rtol=1e-12)


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_product_in_blocks_of_rows(is_turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_ROWS", 256)
    monkeypatch.setattr(matmul, "_WORK", 100)
    random = np.random.default_rng(0)
    for rows in (255, 256, 511, 700, 1025):
        a, b = random.integers(-9, 9, (rows, 20)), random.integers(-9, 9, (20, 300))
        x = np.asfortranarray(a, np.float32) if is_turned else a.astype(np.float32)
        out = np.empty((rows, 300), np.float32)
        assert matmul.mm(x, b.astype(np.float32), out) is out
        np.testing.assert_array_equal(out, a @ b)
