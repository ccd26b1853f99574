"""Factorisations by cuSOLVER, through CuPy's low-level bindings.

CuPy's own `lu_factor` waits for the device twice and warns of a singular matrix; its `cholesky`
discards `info`. The functions here return `info` in device memory, with LAPACK's values, and do not
wait for the device. cuSOLVER expects column-major matrices.
"""

from __future__ import annotations

from typing import Any

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_LOWER, _UPPER = 0, 1  # CUBLAS_FILL_MODE_LOWER and CUBLAS_FILL_MODE_UPPER


def getrf(namespace: Any, a: Any) -> Any:
    """Return LU, pivots (counted from 1) and info of one matrix."""
    np, (routines, handle) = namespace.np, namespace.cusolver()
    letter = _LETTERS[a.dtype.char]
    m, n = a.shape
    lu = np.array(a, order="F", copy=True)
    pivots, info = np.empty(min(m, n), np.int32), np.empty(1, np.int32)
    size = getattr(routines, f"{letter}getrf_bufferSize")(handle, m, n, lu.data.ptr, m)
    work = np.empty(size, a.dtype)
    run = getattr(routines, f"{letter}getrf")
    run(handle, m, n, lu.data.ptr, m, work.data.ptr, pivots.data.ptr, info.data.ptr)
    return lu, pivots, info[0]


def potrf(namespace: Any, a: Any) -> Any:
    """Return the lower Cholesky factors and infos of a matrix or a batch. Only the lower triangle
    of a is read.

    cuSOLVER reads a row-major matrix as its transpose, so the upper triangle is passed.
    """
    np, (routines, handle) = namespace.np, namespace.cusolver()
    letter, n = _LETTERS[a.dtype.char], a.shape[-1]
    made = np.array(a, order="C", copy=True)
    count, begin = made.size // (n * n), made.data.ptr
    info = np.empty(count, np.int32)
    if a.ndim == 2:
        size = getattr(routines, f"{letter}potrf_bufferSize")(handle, _UPPER, n, begin, n)
        work = np.empty(size, a.dtype)
        run = getattr(routines, f"{letter}potrf")
        run(handle, _UPPER, n, begin, n, work.data.ptr, size, info.data.ptr)
    else:
        step = n * n * made.itemsize
        each = np.arange(begin, begin + count * step, step, dtype=np.uintp)
        run = getattr(routines, f"{letter}potrfBatched")
        run(handle, _UPPER, n, each.data.ptr, n, info.data.ptr, count)
    return np.tril(made), info.reshape(a.shape[:-2])


def sytrf(namespace: Any, a: Any) -> Any:
    """Return LD, LAPACK's pivots, and info of one symmetric matrix. Only the lower triangle of a is
    read.

    cuSOLVER has no factorisation of complex Hermitian matrices.
    """
    np, (routines, handle) = namespace.np, namespace.cusolver()
    letter, n = _LETTERS[a.dtype.char], a.shape[0]
    made = np.array(a, order="F", copy=True)
    pivots, info = np.empty(n, np.int32), np.empty(1, np.int32)
    size = getattr(routines, f"{letter}sytrf_bufferSize")(handle, n, made.data.ptr, n)
    work = np.empty(size, a.dtype)
    run = getattr(routines, f"{letter}sytrf")
    run(
        handle, _LOWER, n, made.data.ptr, n, pivots.data.ptr, work.data.ptr, size, info.data.ptr
    )  # fmt: skip
    return np.tril(made), pivots, info[0]


def sytrs(ld: Any, pivots: list[int], b: Any, hermitian: bool) -> Any:
    """Return X of A X = B. `sytrf` has factorised A into L D L^T or L D L^H. CuPy has no function
    that solves with these factors.

    pivots are in host memory. Source: LAPACK, SRC/dsytrs.f and SRC/zhetrs.f, lower triangle.
    """
    x, n = b.copy(), len(pivots)

    def swap(i: int, j: int) -> None:
        if i != j:
            x[i], x[j] = x[j].copy(), x[i].copy()

    k = 0
    while k < n:
        if pivots[k] > 0:
            swap(k, pivots[k] - 1)
            x[k + 1 :] -= ld[k + 1 :, k, None] * x[k]
            x[k] /= ld[k, k]
            k += 1
            continue
        swap(k + 1, -pivots[k] - 1)
        x[k + 2 :] -= ld[k + 2 :, k, None] * x[k] + ld[k + 2 :, k + 1, None] * x[k + 1]
        first, below, second = ld[k, k], ld[k + 1, k], ld[k + 1, k + 1]
        beside = below.conj() if hermitian else below
        scale = first * second - below * beside
        x[k], x[k + 1] = (
            (second * x[k] - beside * x[k + 1]) / scale,
            (first * x[k + 1] - below * x[k]) / scale,
        )
        k += 2
    turned = ld.conj().T if hermitian else ld.T
    k = n - 1
    while k >= 0:
        size = 1 if pivots[k] > 0 else 2
        for row in range(k, k - size, -1):
            x[row] -= turned[row, k + 1 :] @ x[k + 1 :]
        swap(k, abs(pivots[k]) - 1)
        k -= size
    return x
