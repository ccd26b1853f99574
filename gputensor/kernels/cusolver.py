"""Factorisations by cuSOLVER, through CuPy's thin functions for it.

CuPy's own `lu_factor` waits for the device twice and warns of a singular matrix, and its `cholesky`
drops `info`. These return `info` as LAPACK does, in device memory, and wait for nothing. cuSOLVER
takes matrices column by column.
"""

from __future__ import annotations

from typing import Any

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_UPPER = 1  # CUBLAS_FILL_MODE_UPPER


def getrf(namespace: Any, a: Any) -> Any:
    """LU, pivots from 1, and info of one matrix."""
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
    """Lower Cholesky factors and infos of a matrix or a batch, of which the lower triangle is read.

    Stored row by row, it is the upper triangle of what cuSOLVER sees.
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
