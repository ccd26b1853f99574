"""Batches of matrix products by the compiled library, against NumPy in double precision."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gputensor as gt
from gputensor.kernels.compiled import library

from ...harness import tier

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built or not chosen"
)

SIZES = (1, 2, 3, 4, 7, 8, 13, 16, 33, 70)
LAYOUTS = ("rows", "columns", "steps", "batch inside", "one row", "one column", "one matrix")
OUT = ("rows", "columns", "steps", "batch inside")
case = st.tuples(
    st.sampled_from("fdFDe"), st.sampled_from((1, 2, 9)), st.sampled_from(SIZES),
    st.sampled_from((0, *SIZES)), st.sampled_from(SIZES), st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS), st.sampled_from(OUT), st.integers(0, 99),
)  # fmt: skip


def numbers(shape: tuple[int, ...], char: str, random: Any) -> np.ndarray:
    made = random.standard_normal(shape)
    return (made + 1j * random.standard_normal(shape) if char in "FD" else made).astype(char)


def laid_out(shape: tuple[int, int, int], char: str, layout: str, random: Any) -> np.ndarray:
    count, m, n = shape
    if layout == "columns":
        return numbers((count, n, m), char, random).swapaxes(1, 2)
    if layout == "steps":
        return numbers((count, 2 * m, 3 * n), char, random)[:, ::2, ::3]
    if layout == "batch inside":
        return numbers((m, count, n), char, random).swapaxes(0, 1)
    sizes = {"one row": (count, 1, n), "one column": (count, m, 1), "one matrix": (1, m, n)}
    made = numbers(sizes.get(layout, shape), char, random)
    return np.broadcast_to(made, shape) if layout in sizes else made


@given(case)
@tier.examples(300)
def test_products_of_all_layouts(drawn: Any) -> None:
    from gputensor.kernels.compiled import matmul

    char, count, m, k, n, of_a, of_b, of_out, seed = drawn
    random = np.random.default_rng(seed)
    a, b = laid_out((count, m, k), char, of_a, random), laid_out((count, k, n), char, of_b, random)
    wide = "D" if char in "FD" else "d"
    exact = a.astype(wide) @ b.astype(wide)
    bits = []
    for threads in (1, 2, 3):
        gt.set_num_threads(threads)
        out = laid_out((count, m, n), char, of_out, random)
        out[...] = 7
        assert matmul.mm(a, b, out) is out
        bits.append(out.tobytes())
    # OpenBLAS divides the terms of a complex product of a vector among its threads.
    assert len(set(bits)) == 1 or char in "FD" and 1 in (m, n)
    bound = 4 * float(np.finfo(char).eps) * max(1, k) ** 0.5 * float(np.abs(exact).max(initial=1))
    assert float(np.abs(out.astype(wide) - exact).max(initial=0)) <= 4 * bound


@pytest.mark.parametrize("char", [*"fdFD"])
@pytest.mark.parametrize("sizes", [(200, 130, 90), (64, 70, 300), (4, 2000, 100), (129, 9, 257)])
def test_products_in_blocks(char: str, sizes: tuple[int, int, int]) -> None:
    """Large products are divided among threads, with or without an operand that is added."""
    from gputensor.kernels.compiled import matmul

    m, k, n = sizes
    assert matmul.uses_threads(m, n, k)
    random = np.random.default_rng(0)
    for of_a, of_b, of_out in itertools.product(("rows", "columns", "steps"), LAYOUTS, OUT[:3]):
        a = laid_out((1, m, k), char, of_a, random)[0]
        b = laid_out((1, k, n), char, of_b, random)[0]
        exact = a.astype("D") @ b.astype("D")
        bound = 16 * float(np.finfo(char).eps) * k**0.5 * float(np.abs(exact).max())
        for threads in (1, 2, 3, 8):
            gt.set_num_threads(threads)
            out = laid_out((1, m, n), char, of_out, random)[0]
            assert matmul.mm(a, b, out) is out and np.abs(out - exact).max() <= bound
            for shape in ((n,), (1, n), (m, 1), (m, n), ()):
                added = np.asarray(numbers(shape, char, random))
                assert matmul.addmm(added, a, b, 1, 1, out) is out
                assert np.abs(out - exact - added).max() <= bound
            before = out.copy()
            matmul.addmm(out, a, b, 1, 1, out)
            assert np.abs(out - exact - before).max() <= 2 * bound


@pytest.mark.parametrize("char", [*"fd"])
def test_bits_depend_only_on_the_row_and_the_column(char: str) -> None:
    """The same row and column have the same product in matrices of other sizes and layouts, with
    any number of threads. 600 terms are more than one part of a sum has."""
    from gputensor.kernels.compiled import matmul

    random = np.random.default_rng(0)
    for m, k, n in ((500, 600, 70), (30, 600, 400), (17, 300, 2000), (2000, 90, 18)):
        whole, right = numbers((m, k), char, random), numbers((k, n), char, random)
        wanted, shift = matmul.mm(whole, right, np.empty((m, n), char)), numbers((n,), char, random)
        for of_a, of_b, of_out in itertools.product(LAYOUTS[:3], LAYOUTS[:3], OUT[:3]):
            rows, columns = slice(*sorted(random.integers(0, m, 2))), slice(int(n // 3), None)
            rows = slice(rows.start, max(rows.stop, rows.start + 4))
            a = laid_out((1, *whole[rows].shape), char, of_a, random)[0]
            b = laid_out((1, *right[:, columns].shape), char, of_b, random)[0]
            a[...], b[...] = whole[rows], right[:, columns]
            if len(a) < 4 or len(a) * k * b.shape[1] <= matmul._LARGE:
                continue
            gt.set_num_threads(int(random.integers(1, 5)))
            out = laid_out((1, len(a), b.shape[1]), char, of_out, random)[0]
            assert (matmul.mm(a, b, out) == wanted[rows, columns]).all()
            matmul.addmm(shift[columns], a, b, 1, 1, out)
            assert (out == wanted[rows, columns] + shift[columns]).all()


def test_few_batches_are_divided_among_threads() -> None:
    from gputensor.kernels.compiled import matmul

    random = np.random.default_rng(0)
    for m, k, n in ((150, 600, 140), (40, 600, 300)):
        a, b = numbers((3, m, k), "f", random), numbers((3, n, k), "f", random).swapaxes(1, 2)
        exact = a.astype("d") @ b.astype("d")
        for threads in (1, 2, 5):
            gt.set_num_threads(threads)
            out, added = np.empty((3, m, n), np.float32), numbers((3, 1, n), "f", random)
            assert np.abs(matmul.mm(a, b, out) - exact).max() < 1e-3
            assert np.abs(matmul.addmm(added, a, b, 1, 1, out) - exact - added).max() < 1e-3


def test_many_rows_without_columns() -> None:
    """A result with more rows than a block has, whose sums have no terms."""
    assert gt.bmm(gt.zeros(1, 40_000, 0), gt.zeros(1, 0, 2)).sum() == 0
    self = gt.ones(2, 40_000, 3)
    assert gt.baddbmm(self, gt.zeros(2, 40_000, 0), gt.zeros(2, 0, 3)).sum() == self.numel()


def test_products_from_many_threads_at_once() -> None:
    """Only one call at a time has the library's threads; the others compute alone."""
    x, y = gt.randn(200, 300), gt.randn(300, 250)
    exact, failed = x.double() @ y.double(), []

    def work() -> None:
        failed.extend([1 for _ in range(30) if (x @ y - exact).abs().max() > 1e-3])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_numbers_that_are_not_finite() -> None:
    a = gt.tensor([[[1.0, float("inf")], [0.0, float("nan")]]])
    found = gt.bmm(a, gt.tensor([[[1.0, 2.0], [0.0, 1.0]]])).tolist()
    assert np.array_equal(found, [[[np.nan, np.inf], [np.nan, np.nan]]], equal_nan=True)


@pytest.mark.parametrize("dtype", (gt.float16, gt.bfloat16), ids=str)
def test_halves_are_rounded_once(dtype: Any) -> None:
    a, b = gt.randn(5, 3, 40).to(dtype), gt.randn(5, 40, 3).to(dtype)
    exact = gt.bmm(a.double(), b.double())
    assert gt.allclose(gt.bmm(a, b).double(), exact, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("sizes", [(4, 31, 300), (5, 64, 129), (100, 257, 49), (64, 700, 48)])
@pytest.mark.parametrize("turns", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_bf16(sizes: tuple[int, int, int], turns: tuple[bool, bool]) -> None:
    """All layouts are tested, with the CPU's instructions or with BLAS, whose threads may change
    the bits."""
    from gputensor.kernels.compiled import matmul

    (m, k, n), half = sizes, gt.bfloat16
    gt.manual_seed(0)
    a = gt.randn(2, k, m).to(half).transpose(1, 2) if turns[0] else gt.randn(2, m, k).to(half)
    b = gt.randn(2, n, k).to(half).transpose(1, 2) if turns[1] else gt.randn(2, k, n).to(half)
    shift = gt.randn(n).to(half)
    exact, bits = a.double() @ b.double(), set()
    # Half a unit of bf16, and the error of sums of k products in f32.
    bound = exact.abs() * 2**-8 + 2e-6 * k
    for threads in (1, 2, 3):
        gt.set_num_threads(threads)
        made, one = gt.bmm(a, b), a[1] @ b[1]
        assert ((made.double() - exact).abs() <= bound).all()
        assert ((one.double() - exact[1]).abs() <= bound[1]).all()
        bits.add(made.view(gt.int16).numpy().tobytes())
    by_pairs = matmul._pairs(a._get_array(), b._get_array(), np.empty(made.shape, np.float32))
    assert len(bits) == 1 or not by_pairs
    added = gt.addmm(shift, a[0], b[0], beta=2, alpha=0.5)
    wanted = 2 * shift.double() + 0.5 * exact[0]
    assert ((added.double() - wanted).abs() <= wanted.abs() * 2**-8 + 2e-6 * k).all()


def test_products_of_bf16_that_are_not_finite() -> None:
    a, b = gt.ones(8, 64).to(gt.bfloat16), gt.ones(64, 80).to(gt.bfloat16)
    a[1, 3], a[2, 63], b[5, 7] = float("inf"), float("nan"), float("-inf")
    found = gt.mm(a, b)
    assert found[0, 0] == 64 and found[1, 0] == float("inf") and found[0, 7] == float("-inf")
    assert found[1, 7].isnan() and found[2].isnan().all()


def test_added_products() -> None:
    random = np.random.default_rng(0)
    self, a, b = [
        gt.from_numpy(random.standard_normal(s)) for s in ((3, 1, 4), (3, 2, 5), (3, 5, 4))
    ]
    wanted = 2 * self + 3 * (a @ b)
    assert gt.allclose(gt.baddbmm(self, a, b, beta=2, alpha=3), wanted)


@pytest.mark.parametrize("rows", [2, 5, 64])
def test_few_rows_by_the_weights_of_a_layer(rows: int) -> None:
    """Products are computed by columns. Each call is repeated, so that it also takes its short
    cut."""
    gt.manual_seed(0)
    x, w, shift = gt.randn(2 * rows, 310)[::2], gt.randn(450, 310), gt.randn(450)
    exact, out = x.double() @ w.double().t(), gt.empty(rows, 450)
    turned = gt.empty(450, rows).t()
    for _ in range(4):
        for made, wanted in (
            (x @ w.t(), exact),
            (gt.nn.functional.linear(x, w), exact),
            (gt.nn.functional.linear(x, w, shift), exact + shift),
            (gt.addmm(shift, x, w.t(), beta=0.5, alpha=2), 0.5 * shift + 2 * exact),
            (gt.mm(x, w.t(), out=out), exact),
            (gt.mm(x, w.t(), out=turned), exact),
        ):
            assert (made - wanted).abs().max() < 2e-4
        assert out.is_contiguous() and turned.stride() == (1, rows)
