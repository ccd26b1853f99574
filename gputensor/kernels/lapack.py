"""Factorisations of matrices and of batches by LAPACK and cuSOLVER.

Each function takes a `Library` and arrays. On the CPU, the compiled library calls SciPy's LAPACK
for each matrix. Without the library, Python calls LAPACK for each matrix, or NumPy's batched
function runs. On a GPU, CuPy's cuSOLVER computes. `info` is LAPACK's: 0, or the number of the pivot
that failed. No value of a matrix causes an exception. Pivots count from 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..core import errors
from . import cusolver
from .compiled import lapack as compiled

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def routine(namespace: Any, name: str, x: Any, of: str = "lapack") -> Callable[..., Any]:
    """Return the LAPACK routine, such as `getrf`, for the array's dtype. There is no such routine
    on a GPU, because CuPy has no LAPACK."""
    module = getattr(namespace.scipy("linalg"), of)
    found: Callable[..., Any] = getattr(module, _LETTERS[x.dtype.char] + name)
    return found


def each(namespace: Any, function: Callable[..., Any], *batches: Any) -> Any:
    """Call `function` for each matrix of one batch, or for each tuple of matrices of several
    batches of equal size. Return a tuple of the stacked results. Matrices in the results are
    column-major, as in LAPACK."""
    np = namespace.np
    batch = batches[0].shape[:-2]
    if not batch:
        return function(*batches)
    flat = [x.reshape((-1, *x.shape[-2:])) for x in batches]
    found = [function(*parts) for parts in zip(*flat)]
    made = []
    for parts in zip(*found):
        first = np.asarray(parts[0])
        if first.ndim == 2:
            stacked = np.stack([x.T for x in parts])
            made.append(stacked.reshape(batch + stacked.shape[1:]).swapaxes(-1, -2))
        else:
            stacked = np.stack([np.asarray(x) for x in parts])
            made.append(stacked.reshape(batch + first.shape))
    return tuple(made)


def _compiled_on_host(generic: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `generic` in a function that, on the CPU, first tries the compiled function of the same
    name."""
    found: Callable[..., Any] = getattr(compiled, generic.__name__)

    @wraps(generic)
    def chosen(namespace: Any, *args: Any) -> Any:
        if namespace.is_gpu:
            return generic(namespace, *args)
        try:
            return found(*args)
        except compiled.Absent:
            return generic(namespace, *args)

    return chosen


# --- LU, triangles, Cholesky ----------------------------------------------------------------------


@_compiled_on_host
def lu_factor(namespace: Any, a: Any) -> Any:
    """Return LU, pivots and info."""
    np = namespace.np

    def on_host(x: Any) -> Any:
        lu, pivots, info = routine(namespace, "getrf", x)(x)
        return lu, (pivots + 1).astype(np.int32), np.int32(max(info, 0))

    def on_gpu(x: Any) -> Any:
        return cusolver.getrf(namespace, x)

    return each(namespace, on_gpu if namespace.is_gpu else on_host, a)


@_compiled_on_host
def lu_solve(namespace: Any, lu: Any, pivots: Any, b: Any, transposed: bool) -> Any:
    """Return X of A X = B, or of A^T X = B if `transposed`. All batches have the same size. lu,
    pivots: the results of lu_factor, perhaps broadcast. b: None for the identity."""
    if b is None:
        b = namespace.np.broadcast_to(namespace.np.eye(lu.shape[-1], dtype=lu.dtype), lu.shape)

    def one(lu: Any, pivots: Any, b: Any) -> Any:
        if namespace.is_gpu:
            solve = namespace.scipy("linalg").lu_solve
            return (solve((lu, pivots[:, 0] - 1), b, int(transposed), check_finite=False),)
        found, _ = routine(namespace, "getrs", lu)(lu, pivots[:, 0] - 1, b, trans=int(transposed))
        return (found,)

    return each(namespace, one, lu, pivots[..., None], b)[0]


def _of_lu(namespace: Any, lu: Any, pivots: Any) -> tuple[Any, Any]:
    """Return the sign of the permutation, and the diagonal of U."""
    np = namespace.np
    swaps = (pivots != np.arange(1, pivots.shape[-1] + 1)).sum(-1)
    return (1 - 2 * (swaps % 2)).astype(lu.dtype), np.diagonal(lu, 0, -2, -1)


@_compiled_on_host
def det(namespace: Any, lu: Any, pivots: Any) -> Any:
    """Return the determinants, given the results of lu_factor."""
    sign, diagonal = _of_lu(namespace, lu, pivots)
    return diagonal.prod(-1) * sign


@_compiled_on_host
def slogdet(namespace: Any, lu: Any, pivots: Any) -> Any:
    """Return the sign of the determinant, and the logarithm of its absolute value."""
    np = namespace.np
    sign, diagonal = _of_lu(namespace, lu, pivots)
    size = np.abs(diagonal)
    units = np.where(size == 0, 0, diagonal / np.where(size == 0, 1, size))
    return units.prod(-1) * sign, np.log(size).sum(-1)


@_compiled_on_host
def cholesky(namespace: Any, a: Any, upper: bool) -> Any:
    """Return the Cholesky factor and info."""
    np = namespace.np

    def on_host(x: Any) -> Any:
        found, info = routine(namespace, "potrf", x)(x, lower=not upper, clean=1)
        # OpenBLAS may continue with NaN after a failed pivot, without reporting the failure.
        failed = np.isnan(found.diagonal())
        return found, np.int32(failed.argmax() + 1 if not info and failed.any() else info)

    if not namespace.is_gpu:
        return each(namespace, on_host, a)
    found, info = cusolver.potrf(namespace, a.swapaxes(-1, -2).conj() if upper else a)
    return (found.swapaxes(-1, -2).conj() if upper else found), info


@_compiled_on_host
def solve_triangular(
    namespace: Any, a: Any, b: Any, upper: bool, left: bool, unitriangular: bool
) -> Any:
    """Return X of A X = B, or of X A = B if not `left`."""

    def one(a: Any, b: Any) -> Any:
        trsm = routine(namespace, "trsm", a, "blas")
        return (trsm(1, a, b, side=not left, lower=not upper, diag=unitriangular),)

    def on_gpu(a: Any, b: Any) -> Any:
        solve = namespace.scipy("linalg").solve_triangular
        a, b = (a, b) if left else (a.T, b.T)
        named = {"lower": upper != left, "unit_diagonal": unitriangular, "check_finite": False}
        found = solve(a, b, **named)
        return (found if left else found.T,)

    return each(namespace, on_gpu if namespace.is_gpu else one, a, b)[0]


# --- LDL ------------------------------------------------------------------------------------------


def ldl_factor(namespace: Any, a: Any, hermitian: bool) -> Any:
    """Return LD, pivots and info. On a GPU, complex Hermitian matrices are not supported."""
    np = namespace.np
    if namespace.is_gpu:
        if hermitian and a.dtype.kind == "c":
            raise errors.must("ldl_factor", "hermitian", "be False for complex on a GPU", hermitian)
        return each(namespace, lambda x: cusolver.sytrf(namespace, x), a)
    name = "hetrf" if hermitian and a.dtype.kind == "c" else "sytrf"

    def one(x: Any) -> Any:
        ld, pivots, info = routine(namespace, name, x)(x, lower=1)
        # SciPy returns LAPACK's pivots: counted from 1, negative in blocks of 2 x 2
        return np.tril(ld), pivots.astype(np.int32), np.int32(info)

    return each(namespace, one, a)


def ldl_solve(namespace: Any, ld: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    name = "hetrs" if hermitian and ld.dtype.kind == "c" else "sytrs"

    def one(ld: Any, pivots: Any, b: Any) -> Any:
        if namespace.is_gpu:
            return (cusolver.sytrs(ld, pivots[:, 0].tolist(), b, name == "hetrs"),)
        found, _ = routine(namespace, name, ld)(ld, pivots[:, 0], b, lower=1)
        return (found,)

    return each(namespace, one, ld, pivots[..., None], b)[0]


# --- orthogonal factors ---------------------------------------------------------------------------


@_compiled_on_host
def geqrf(namespace: Any, a: Any) -> Any:
    """Return the reflectors, which are stored below R, and their factors."""
    found, tau = namespace.np.linalg.qr(a, mode="raw")
    return found.swapaxes(-1, -2), tau


@_compiled_on_host
def qr(namespace: Any, a: Any, mode: str) -> Any:
    """Return Q and R. With mode "r", return only R."""
    found = namespace.np.linalg.qr(a, mode=mode)
    return found if mode == "r" else tuple(found)


@_compiled_on_host
def eigh(namespace: Any, a: Any, uplo: str) -> Any:
    """Return the eigenvalues and the eigenvectors."""
    return tuple(namespace.np.linalg.eigh(a, uplo))


@_compiled_on_host
def eigvalsh(namespace: Any, a: Any, uplo: str) -> Any:
    return namespace.np.linalg.eigvalsh(a, uplo)


@_compiled_on_host
def svd(namespace: Any, a: Any, full_matrices: bool) -> Any:
    """Return U, the singular values and V^H."""
    return tuple(namespace.np.linalg.svd(a, full_matrices=full_matrices))


@_compiled_on_host
def svdvals(namespace: Any, a: Any) -> Any:
    return namespace.np.linalg.svd(a, compute_uv=False)


# --- exponentials, least squares ------------------------------------------------------------------


@_compiled_on_host
def matrix_exp(namespace: Any, a: Any) -> Any:
    expm = namespace.scipy("linalg").expm
    return each(namespace, lambda x: (expm(x),), a)[0] if namespace.is_gpu else expm(a)


def lstsq(namespace: Any, a: Any, b: Any, rcond: float, driver: str) -> Any:
    """Return the solution, rank and singular values.

    Results that the driver does not compute are zeros.
    """
    np = namespace.np
    m, n = a.shape[-2:]
    if driver == "gelsy" and not namespace.is_gpu:
        try:
            return compiled.gelsy(a, b, rcond)
        except compiled.Absent:
            pass

    def on_gpu(a: Any, b: Any) -> Any:
        return _least_squares(namespace, a, b, None if driver == "gels" else rcond)

    def one(a: Any, b: Any) -> Any:
        rows = np.zeros((max(m, n), b.shape[1]), b.dtype, order="F")
        rows[:m] = b
        rank, values = np.int64(0), np.zeros(min(m, n), a.real.dtype)
        if driver == "gels":
            _, found, _ = routine(namespace, "gels", a)(a, rows)
        elif driver == "gelsy":
            size = routine(namespace, "gelsy_lwork", a)(m, n, b.shape[1], rcond)[0]
            pivots = np.zeros((n, 1), np.int32)
            run = routine(namespace, "gelsy", a)
            _, found, _, rank, _ = run(a, rows, pivots, rcond, int(size.real), 0, 0)
        elif driver == "gelss":
            _, found, values, rank, _, _ = routine(namespace, "gelss", a)(a, rows, rcond)
        else:
            found, values, rank = _gelsd(namespace, a, rows, rcond)
        return found, np.int64(rank), values

    return each(namespace, on_gpu if namespace.is_gpu else one, a, b)


def _least_squares(namespace: Any, a: Any, b: Any, rcond: float | None) -> Any:
    """Compute `lstsq` for one matrix: by QR if the matrix is assumed to have full rank (`rcond` is
    None), otherwise by SVD. CuPy lacks LAPACK's drivers."""
    np = namespace.np
    m, n = a.shape
    k = min(m, n)
    rank, values = np.zeros((), np.int64), np.zeros(k, a.real.dtype)
    if rcond is not None:
        u, values, vh = np.linalg.svd(a, full_matrices=m > n)
        counts = values > rcond * values[0]
        rows, rank = u.T.conj() @ b, counts.sum()
        scaled = np.where(counts[:, None], rows[:k] / np.where(counts, values, 1)[:, None], 0)
        found = vh[:k].T.conj() @ scaled.astype(b.dtype)
    elif m >= n:
        q, r = np.linalg.qr(a, mode="complete" if m > n else "reduced")
        rows = q.T.conj() @ b
        found = solve_triangular(namespace, r[:n], rows[:n], True, True, False)
    else:
        q, r = np.linalg.qr(a.T.conj())
        found = q @ solve_triangular(namespace, r.T.conj(), b, False, True, False)
    return np.concatenate((found, rows[n:])) if m > n else found, rank, values


def _gelsd(namespace: Any, a: Any, rows: Any, rcond: float) -> Any:
    m, n = a.shape
    sizes = routine(namespace, "gelsd_lwork", a)(m, n, rows.shape[1], rcond)
    run = routine(namespace, "gelsd", a)
    if a.dtype.kind == "c":
        work, real, whole, _ = sizes
        found, values, rank, _ = run(a, rows, int(work.real), int(real), int(whole), rcond, 0, 0)
    else:
        work, whole, _ = sizes
        found, values, rank, _ = run(a, rows, int(work), int(whole), rcond, 0, 0)
    return found, values, rank
