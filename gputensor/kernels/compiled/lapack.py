"""Factorisations of matrix batches by the compiled library, which calls SciPy's LAPACK for each
matrix.

Each function has the name and the results of the generic function in kernels/lapack.py. It raises
`Absent` if the library is missing or SciPy's LAPACK uses 64-bit integers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from ...runtime import blas
from . import library

# Maps a dtype character to the first letter of LAPACK's function names, and to gputensor's name of
# the dtype.
_TYPES = {"f": ("s", "f32"), "d": ("d", "f64"), "F": ("c", "c64"), "D": ("z", "c128")}
# The library's own loops are several times faster than LAPACK for real matrices with up to _TINY
# rows and right-hand sides with up to _TINY_COLUMNS columns. See loops/tiny.h.
_TINY, _TINY_COLUMNS = 8, 16

Bound = Callable[..., int]


class Absent(Exception):
    """The error for a function that the library lacks, or for a LAPACK function that SciPy
    lacks."""


@cache
def address(routine: str) -> int | None:
    """Return the address of a BLAS or LAPACK function with C int arguments. SciPy exports these
    addresses for Cython."""
    part = "cython_blas" if routine.endswith("trsm") else "cython_lapack"
    capsule = import_module(f"scipy.linalg.{part}").__pyx_capi__.get(routine)
    if capsule is None:
        return None
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.argtypes, name_of.restype = [ctypes.py_object], ctypes.c_char_p
    pointer_of.argtypes, pointer_of.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    signature = name_of(capsule)
    if b"int *" not in signature:
        return None
    found: int | None = pointer_of(capsule, signature)
    return found


@cache
def _bound(op: str, char: str, *routines: str, family: str = "lapack") -> Bound:
    """Return the library's function, bound to the addresses of the LAPACK functions `routines`. If
    a name is "", 0 is bound instead of an address, and the library uses its own loops."""
    letter, dtype = _TYPES[char]
    function = library.function(family, f"{op} {dtype}")
    addresses = [address(letter + routine) if routine else 0 for routine in routines]
    if function is None or None in addresses:
        raise Absent
    return partial(function, *addresses)


def _columns(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Allocate a batch of column-major matrices."""
    *batch, m, n = shape
    return np.empty((*batch, n, m), dtype).swapaxes(-1, -2)


def _is_tiny(x: np.ndarray) -> bool:
    return x.shape[-1] == x.shape[-2] <= _TINY and x.dtype.kind == "f"


def _check(answer: int, failure: str = "") -> None:
    """Check a function's return value. Raises: MemoryError if the library could not allocate its
    workspace; LinAlgError with the message `failure` if the factorisation failed."""
    if answer < 0:
        raise MemoryError
    if answer and failure:
        raise np.linalg.LinAlgError(failure)


# --- LU, Cholesky, triangles ----------------------------------------------------------------------


def lu_factor(a: np.ndarray) -> Any:
    run = _bound("lu_factor", a.dtype.char, "" if _is_tiny(a) else "getrf")
    *batch, m, n = a.shape
    lu = _columns(a.shape, a.dtype)
    pivots, info = np.empty((*batch, min(m, n)), np.int32), np.empty(batch, np.int32)
    run(blas.is_limited(), a, lu, pivots, info)
    return lu, pivots, info


def lu_solve(lu: np.ndarray, pivots: np.ndarray, b: np.ndarray | None, transposed: bool) -> Any:
    shape = lu.shape if b is None else b.shape
    is_tiny = _is_tiny(lu) and shape[-1] <= _TINY_COLUMNS and not transposed
    run = _bound("lu_solve", lu.dtype.char, "" if is_tiny else "getrs")
    x = _columns(shape, lu.dtype)
    run(blas.is_limited(), bool(transposed), lu, pivots, b, x)
    return x


def det(lu: np.ndarray, pivots: np.ndarray) -> Any:
    run = _bound("det", lu.dtype.char)
    made = np.empty(lu.shape[:-2], lu.dtype)
    run(lu, pivots, made)
    return made


def slogdet(lu: np.ndarray, pivots: np.ndarray) -> Any:
    run = _bound("slogdet", lu.dtype.char)
    sign, size = np.empty(lu.shape[:-2], lu.dtype), np.empty(lu.shape[:-2], lu.real.dtype)
    run(lu, pivots, sign, size)
    return sign, size


def cholesky(a: np.ndarray, upper: bool) -> Any:
    run = _bound("cholesky", a.dtype.char, "" if _is_tiny(a) else "potrf")
    factor, info = _columns(a.shape, a.dtype), np.empty(a.shape[:-2], np.int32)
    run(blas.is_limited(), bool(upper), a, factor, info)
    return factor, info


def solve_triangular(
    a: np.ndarray, b: np.ndarray, upper: bool, left: bool, unitriangular: bool
) -> Any:
    run = _bound("solve_triangular", a.dtype.char, "trsm")
    x = _columns(b.shape, b.dtype)
    _check(run(blas.is_limited(), bool(upper), bool(left), bool(unitriangular), a, b, x))
    return x


# --- orthogonal factors ---------------------------------------------------------------------------


def _orthogonal(op: str, x: np.ndarray, *routines: str) -> Bound:
    return _bound(op, x.dtype.char, *routines, family="orthogonal")


def geqrf(a: np.ndarray) -> Any:
    run = _orthogonal("geqrf", a, "geqrf")
    *batch, m, n = a.shape
    factor, tau = _columns(a.shape, a.dtype), np.empty((*batch, min(m, n)), a.dtype)
    _check(run(blas.is_limited(), a, factor, tau))
    return factor, tau


def qr(a: np.ndarray, mode: str) -> Any:
    run = _orthogonal("qr", a, "geqrf", "ungqr" if a.dtype.kind == "c" else "orgqr")
    *batch, m, n = a.shape
    rows = m if mode == "complete" else min(m, n)
    r = _columns((*batch, rows, n), a.dtype)
    q = None if mode == "r" else _columns((*batch, m, rows), a.dtype)
    _check(run(blas.is_limited(), a, q, r))
    return r if q is None else (q, r)


def eigh(a: np.ndarray, uplo: str) -> Any:
    return _eigh(a, uplo, _columns(a.shape, a.dtype))


def eigvalsh(a: np.ndarray, uplo: str) -> Any:
    return _eigh(a, uplo, None)[0]


def _eigh(a: np.ndarray, uplo: str, vectors: np.ndarray | None) -> Any:
    run = _orthogonal("eigh", a, "heevd" if a.dtype.kind == "c" else "syevd")
    values = np.empty(a.shape[:-1], a.real.dtype)
    answer = run(blas.is_limited(), uplo == "U", a, values, vectors)
    _check(answer, "Eigenvalues did not converge")
    return values, vectors


def svd(a: np.ndarray, full_matrices: bool) -> Any:
    *batch, m, n = a.shape
    k = min(m, n)
    u = _columns((*batch, m, m if full_matrices else k), a.dtype)
    vh = _columns((*batch, n if full_matrices else k, n), a.dtype)
    return _svd(a, full_matrices, u, vh)


def svdvals(a: np.ndarray) -> Any:
    return _svd(a, False, None, None)[1]


def _svd(a: np.ndarray, full: bool, u: np.ndarray | None, vh: np.ndarray | None) -> Any:
    run = _orthogonal("svd", a, "gesdd")
    values = np.empty((*a.shape[:-2], min(a.shape[-2:])), a.real.dtype)
    _check(run(blas.is_limited(), bool(full), a, u, values, vh), "SVD did not converge")
    return u, values, vh


def gelsy(a: np.ndarray, b: np.ndarray, rcond: float) -> Any:
    run = _orthogonal("gelsy", a, "gelsy")
    *batch, m, n = a.shape
    x = _columns((*batch, max(m, n), b.shape[-1]), b.dtype)
    rank = np.empty(batch, np.int64)
    _check(run(blas.is_limited(), float(rcond), a, b, x, rank))
    return x, rank, np.zeros((*batch, min(m, n)), a.real.dtype)


# --- exponentials ---------------------------------------------------------------------------------


def matrix_exp(a: np.ndarray) -> Any:
    letter, dtype = _TYPES[a.dtype.char]
    run, gemm = library.function("exponential", f"matrix_exp {dtype}"), blas.gemm(letter)
    if run is None or gemm is None:
        raise Absent
    made = _columns(a.shape, a.dtype)
    _check(run(*gemm, blas.is_limited(), a, made))
    return made
