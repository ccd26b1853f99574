"""LAPACK called by the compiled library: batches of all layouts against NumPy in double precision,
with equal bits for any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gputensor as gt
from gputensor.core import errors
from gputensor.kernels import lapack
from gputensor.kernels.compiled import lapack as compiled
from gputensor.kernels.compiled import library
from gputensor.runtime import blas
from gputensor.runtime.libraries import HOST

from ...harness import tier

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built or not chosen"
)

TYPES = ("f", "d", "F", "D")
SIZES = (1, 2, 3, 5, 8, 9, 17, 33)
BATCHES = ((), (1,), (3,), (2, 5), (40,))
LAYOUTS = ("rows", "columns", "steps", "batch last", "broadcast")
Arrays = tuple[np.ndarray, ...]


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def numbers(shape: tuple[int, ...], char: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    made = random.standard_normal(shape)
    return (made + 1j * random.standard_normal(shape) if char in "FD" else made).astype(char)


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    """Return the same elements in another memory layout; with `broadcast` the whole batch is the
    first matrix."""
    *batch, m, n = x.shape
    if layout == "columns":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "steps":
        room = np.zeros((*batch, 2 * m, 3 * n), x.dtype)
        room[..., ::2, ::3] = x
        return room[..., ::2, ::3]
    if layout == "batch last" and batch:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0)
    if layout == "broadcast" and batch:
        return np.broadcast_to(x[(0,) * len(batch)], x.shape)
    return x


def adjoint(x: np.ndarray) -> np.ndarray:
    return x.conj().swapaxes(-1, -2)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype("D" if x.dtype.kind == "c" else "d")


def assert_near(found: Any, wanted: np.ndarray, like: np.ndarray, factor: float = 1.0) -> None:
    assert found.shape == wanted.shape
    size = float(np.abs(wanted).max(initial=1e-30))
    bound = 500 * factor * float(np.finfo(like.dtype).eps) * size * like.shape[-1]
    assert float(np.abs(found - wanted).max(initial=0)) <= bound


def each_thread_count(call: Any) -> Arrays:
    """Return the result of a library function. Check that it is equal with 1, 2 and 3 threads."""
    made = []
    for count in (1, 2, 3):
        gt.set_num_threads(count)
        with blas.one_thread():
            found = call()
        made.append(found if type(found) is tuple else (found,))
    for others in made[1:]:
        for x, y in zip(made[0], others):
            assert x.tobytes() == y.tobytes() and x.shape == y.shape
    return made[0]


matrices = st.tuples(
    st.sampled_from(TYPES), st.sampled_from(BATCHES), st.sampled_from(SIZES),
    st.sampled_from(SIZES), st.sampled_from(LAYOUTS), st.integers(0, 99),
)  # fmt: skip


def square(given_case: Any) -> np.ndarray:
    """Return well conditioned matrices with permuted rows, so that pivots are needed."""
    char, batch, n, _, layout, seed = given_case
    x = (
        numbers((*batch, n, n), char, seed)
        + 2 * n * np.eye(n)[np.random.default_rng(seed).permutation(n)]
    )
    return laid_out(x.astype(char), layout)


@given(matrices)
@tier.examples(120)
def test_lu_gives_the_matrix_back_and_lapacks_pivots(case: Any) -> None:
    char, batch, m, n, layout, seed = case
    for a in (laid_out(numbers((*batch, m, n), char, seed), layout), square(case)):
        lu, pivots, info = each_thread_count(lambda a=a: compiled.lu_factor(a))
        _, wanted, wanted_info = lapack.lu_factor.__wrapped__(HOST, np.ascontiguousarray(a))
        assert (pivots == wanted).all() and (info == wanted_info).all()
        assert info.dtype == pivots.dtype == np.int32
        rows, columns = a.shape[-2:]
        k = min(rows, columns)
        lower = np.tril(wide(lu)[..., :, :k], -1) + np.eye(rows, k)
        product = lower @ np.triu(wide(lu)[..., :k, :])
        for i in range(k - 1, -1, -1):
            other = np.broadcast_to(pivots[..., i, None, None] - 1, (*batch, 1, columns))
            mine = product[..., i : i + 1, :].copy()
            product[..., i : i + 1, :] = np.take_along_axis(product, other, -2)
            np.put_along_axis(product, other, mine, -2)
        assert_near(product.astype(char), wide(a), a)


@given(matrices, st.sampled_from((1, 2, 16, 19, 140)), st.booleans())
@tier.examples(80)
def test_solutions_inverses_determinants(case: Any, columns: int, transposed: bool) -> None:
    a = square(case)
    char, batch, n, _, layout, seed = case
    lu, pivots, _ = compiled.lu_factor(a)
    b = laid_out(numbers((*batch, n, columns), char, seed + 1), layout)
    (x,) = each_thread_count(lambda: compiled.lu_solve(lu, pivots, b, transposed))
    used = a.swapaxes(-1, -2) if transposed else a
    assert_near(wide(used) @ wide(x), wide(b), a)
    (inverse,) = each_thread_count(lambda: compiled.lu_solve(lu, pivots, None, False))
    assert_near(wide(a) @ wide(inverse), np.broadcast_to(np.eye(n), a.shape), a)
    sign, size = np.linalg.slogdet(wide(a))
    (det,) = each_thread_count(lambda: compiled.det(lu, pivots))
    if (np.abs(size) < 80).all():
        assert_near(det / np.exp(size), sign, a)
    found = each_thread_count(lambda: compiled.slogdet(lu, pivots))
    assert_near(found[0], sign, a)
    assert_near(found[1], size, a)


@given(matrices, st.booleans())
@tier.examples(60)
def test_cholesky_and_triangles(case: Any, upper: bool) -> None:
    a = square(case)
    char, batch, n, columns, layout, seed = case
    positive = laid_out(((wide(a) @ adjoint(wide(a))) / n + np.eye(n)).astype(char), layout)
    factor, info = each_thread_count(lambda: compiled.cholesky(positive, upper))
    assert not info.any() and (np.tril(factor, -1) if upper else np.triu(factor, 1)).any() == 0
    left_factor = adjoint(wide(factor)) if upper else wide(factor)
    assert_near(left_factor @ adjoint(left_factor), wide(positive), positive)
    triangle = np.triu(wide(a)) if upper else np.tril(wide(a))
    triangle = triangle + 2 * n * np.eye(n)
    given_a = laid_out((triangle + np.where(np.eye(n), 0, 3)).astype(char), layout)
    kept = np.triu(wide(given_a)) if upper else np.tril(wide(given_a))
    for left in (True, False):
        shape = (*batch, n, columns) if left else (*batch, columns, n)
        b = laid_out(numbers(shape, char, seed), layout)
        (x,) = each_thread_count(
            lambda b=b, left=left: compiled.solve_triangular(given_a, b, upper, left, False)
        )
        assert_near(kept @ wide(x) if left else wide(x) @ kept, wide(b), a, factor=n)
    ones = kept / (4 * n)
    ones[..., np.arange(n), np.arange(n)] = 1
    (x,) = each_thread_count(lambda: compiled.solve_triangular(
        (ones + 5 * np.eye(n)).astype(char), np.eye(n, dtype=char) + 0 * a, upper, True, True
    ))  # fmt: skip
    assert_near(ones @ wide(x), np.broadcast_to(np.eye(n), a.shape), a, factor=n)


@pytest.mark.parametrize("char", TYPES)
@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_columns_are_divided_among_threads(char: str, layout: str) -> None:
    a = square((char, (2,), 150, 0, layout, 0))
    lu, pivots, _ = compiled.lu_factor(a)
    b = laid_out(numbers((2, 150, 133), char, 1), layout)
    for transposed in (False, True):
        (x,) = each_thread_count(lambda t=transposed: compiled.lu_solve(lu, pivots, b, t))
        used = a.swapaxes(-1, -2) if transposed else a
        assert_near(wide(used) @ wide(x), wide(b), a)
    (x,) = each_thread_count(lambda: compiled.lu_solve(lu, pivots, None, False))
    assert_near(wide(a) @ wide(x), np.broadcast_to(np.eye(150), a.shape), a)
    triangle = laid_out((np.triu(wide(a)) / 150 + 3 * np.eye(150)).astype(char), layout)
    for left in (True, False):
        given_b = b if left else laid_out(np.ascontiguousarray(b.swapaxes(-1, -2)), layout)
        (x,) = each_thread_count(
            lambda y=given_b, left=left: compiled.solve_triangular(triangle, y, True, left, False)
        )
        found = wide(triangle) @ wide(x) if left else wide(x) @ wide(triangle)
        assert_near(found, wide(given_b), a)


@given(matrices)
@tier.examples(60)
def test_orthogonal_factors(case: Any) -> None:
    char, batch, m, n, layout, seed = case
    a = laid_out(numbers((*batch, m, n), char, seed), layout)
    exact, k = wide(a), min(m, n)
    for mode in ("reduced", "complete"):
        q, r = each_thread_count(lambda mode=mode: compiled.qr(a, mode))
        assert_near(wide(q) @ wide(r), exact, a)
        assert_near(
            adjoint(wide(q)) @ wide(q), np.eye(q.shape[-1]) + np.zeros(batch)[..., None, None], a
        )
        assert not np.tril(r, -1).any()
    assert (compiled.qr(a, "r") == compiled.qr(a, "reduced")[1]).all()
    reflectors, tau = each_thread_count(lambda: compiled.geqrf(a))
    assert_near(np.triu(reflectors)[..., :k, :], compiled.qr(a, "r"), a)
    assert tau.shape == (*batch, k)
    for full in (True, False):
        u, s, vh = each_thread_count(lambda full=full: compiled.svd(a, full))
        assert_near((wide(u)[..., :k] * s[..., None, :]) @ wide(vh)[..., :k, :], exact, a)
        assert u.shape[-1] == (m if full else k) and vh.shape[-2] == (n if full else k)
    assert_near(each_thread_count(lambda: compiled.svdvals(a))[0], s, a)
    hermitian = laid_out((exact @ adjoint(exact)).astype(char), layout)
    for uplo in "LU":
        w, v = each_thread_count(lambda uplo=uplo: compiled.eigh(hermitian, uplo))
        assert_near((wide(v) * w[..., None, :]) @ adjoint(wide(v)), wide(hermitian), hermitian)
        assert_near(compiled.eigvalsh(hermitian, uplo), w, hermitian)


@pytest.mark.full
@given(matrices, st.sampled_from((0.0, 1e-8, 1e-5, 1e-3, 0.05, 0.4, 1.0, 2.0, 6.0)))
@tier.examples(60)
def test_exponentials(case: Any, norm: float) -> None:
    char, batch, n, _, layout, seed = case
    a = numbers((*batch, n, n), char, seed)
    a = laid_out(
        (norm * a / np.abs(a).sum(-2, keepdims=True).max(-1, keepdims=True)).astype(char), layout
    )
    (found,) = each_thread_count(lambda: compiled.matrix_exp(a))
    part = a.astype("G" if char in "FD" else "g") / 64
    term = exact = np.broadcast_to(np.eye(n, dtype="g"), a.shape)
    for k in range(1, 30):
        term = term @ part / k
        exact = exact + term
    for _ in range(6):
        exact = exact @ exact
    assert_near(found, wide(exact), a, factor=np.exp(norm))


@given(matrices, st.integers(1, 20))
@tier.examples(40)
def test_least_squares(case: Any, columns: int) -> None:
    char, batch, m, n, layout, seed = case
    a = laid_out(numbers((*batch, m, n), char, seed) + 3 * np.eye(m, n), layout).astype(char)
    b = laid_out(numbers((*batch, m, columns), char, seed + 1), layout)
    x, rank, _ = each_thread_count(lambda: compiled.gelsy(a, b, 1e-6))
    assert (rank == min(m, n)).all() and rank.dtype == np.int64
    wanted = np.linalg.pinv(wide(a)) @ wide(b)
    condition = float(np.linalg.cond(wide(a)).max())
    assert_near(x[..., :n, :], wanted, a, factor=max(1.0, condition**2))


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("char", TYPES)
@pytest.mark.parametrize("n", (3, 8, 12))
def test_info_names_the_first_pivot_that_is_zero(char: str, n: int) -> None:
    a = np.tile(np.eye(n, dtype=char), (5, 1, 1))
    a[1, 2, 2] = a[1, 1, 1] = 0
    a[3] = 0
    assert compiled.lu_factor(a)[2].tolist() == [0, 2, 0, 1, 0]
    assert compiled.cholesky(a, False)[1].tolist() == [0, 2, 0, 1, 0]
    assert compiled.det(*compiled.lu_factor(a)[:2]).tolist() == [1, 0, 1, 0, 1]
    sign, size = compiled.slogdet(*compiled.lu_factor(a)[:2])
    assert sign.tolist() == [1, 0, 1, 0, 1] and size.tolist() == [0, -np.inf, 0, -np.inf, 0]
    with pytest.raises(
        errors.LinAlgError, match=r"A\[1\] is singular \(the diagonal element 2 is zero"
    ):
        gt.linalg.inv(gt.from_numpy(a))


def test_nan_is_no_zero_pivot_and_fails_cholesky() -> None:
    """OpenBLAS's LU reports a NaN pivot as zero for complex matrices of some sizes."""
    for char in TYPES:
        for n in (4, 11):
            a = np.eye(n, dtype=char)
            a[1, 1] = np.nan
            assert compiled.cholesky(a, False)[1] == 2
            lu, _, info = compiled.lu_factor(a)
            assert np.isnan(lu[1, 1]) and (info == 0 or char in "FD")


def test_no_convergence_is_an_error() -> None:
    nan = np.full((2, 4, 4), np.nan)
    for call in (lambda: compiled.svd(nan, True), lambda: compiled.svdvals(nan)):
        with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
            call()


def test_exponential_of_what_is_not_finite_is_nan() -> None:
    for value in (np.nan, np.inf):
        a = np.zeros((2, 3, 3))
        a[1, 0, 1] = value
        found = compiled.matrix_exp(a)
        assert (found[0] == np.eye(3)).all() and np.isnan(found[1]).all()


def test_a_few_large_matrices_leave_blas_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "SMALL", 8)
    monkeypatch.setattr(blas, "one_thread", lambda: pytest.fail("BLAS was limited"))
    gt.set_num_threads(2)
    a = gt.from_numpy(numbers((9, 9), "d", 0) + 9 * np.eye(9))
    assert gt.allclose(gt.linalg.inv(a) @ a, gt.eye(9, dtype=gt.float64))


def test_dtypes_of_results() -> None:
    for char in TYPES:
        a, real = np.eye(3, dtype=char)[None], np.dtype(char).type(0).real.dtype
        lu, pivots, _ = compiled.lu_factor(a)
        alike = [
            lu, compiled.lu_solve(lu, pivots, None, False), compiled.det(lu, pivots),
            compiled.cholesky(a, True)[0], compiled.solve_triangular(a, a, True, True, False),
            *compiled.qr(a, "reduced"), *compiled.geqrf(a), compiled.matrix_exp(a),
            compiled.eigh(a, "L")[1], *compiled.svd(a, True)[::2], compiled.gelsy(a, a, 0.1)[0],
        ]  # fmt: skip
        assert {x.dtype.char for x in alike} == {char}
        values = compiled.slogdet(lu, pivots)[1], compiled.eigvalsh(a, "U"), compiled.svdvals(a)
        assert {x.dtype for x in values} == {real}
