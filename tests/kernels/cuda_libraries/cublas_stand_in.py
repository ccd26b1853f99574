"""A replacement for CuPy's interface of cuBLAS that uses NumPy on host memory."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

HANDLE = 0x6000
NAMES = ("gemmEx", "gemmStridedBatchedEx")
# cudaDataType: the elements, and the types of sums and scales that cuBLAS has for them, by
# cublasComputeType_t.
TYPES: dict[int, tuple[Any, int, Any]] = {
    0: (np.float32, 68, np.float32), 1: (np.float64, 70, np.float64),
    2: (np.float16, 68, np.float32), 14: (ml_dtypes.bfloat16, 68, np.float32),
    4: (np.complex64, 68, np.complex64), 5: (np.complex128, 70, np.complex128),
}  # fmt: skip


used: list[int] = []  # cublasComputeType_t of each product


def at(ptr: int, of: Any, rows: int, columns: int, ld: int) -> np.ndarray:
    """Return the column-major matrix at an address."""
    assert ld >= max(rows, 1) and columns > 0
    itemsize = np.dtype(of).itemsize
    nbytes = ((columns - 1) * ld + rows) * itemsize
    room = (ctypes.c_char * nbytes).from_address(ptr)
    return np.ndarray((rows, columns), of, room, 0, (itemsize, ld * itemsize))


def gemmEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, Atype: int,
    lda: int, B: int, Btype: int, ldb: int, beta: int, C: int, Ctype: int, ldc: int,
    computeType: int, algo: int,
) -> None:  # fmt: skip
    assert handle == HANDLE and Atype == Btype == Ctype and algo == -1
    assert transa in (0, 1) and transb in (0, 1)
    of, compute, scale = TYPES[Atype]
    assert computeType in ((68, 77) if compute == 68 and scale is of else (compute,))
    used.append(computeType)
    one, two = (at(x, scale, 1, 1, 1)[0, 0] for x in (alpha, beta))
    a = at(A, of, k, m, lda).T if transa else at(A, of, m, k, lda)
    b = at(B, of, n, k, ldb).T if transb else at(B, of, k, n, ldb)
    c = at(C, of, m, n, ldc)
    made = one * (a.astype(scale) @ b.astype(scale))
    c[...] = made if two == 0 else made + two * c.astype(scale)


def gemmStridedBatchedEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, Atype: int,
    lda: int, strideA: int, B: int, Btype: int, ldb: int, strideB: int, beta: int, C: int,
    Ctype: int, ldc: int, strideC: int, batchCount: int, computeType: int, algo: int,
) -> None:  # fmt: skip
    size = np.dtype(TYPES[Atype][0]).itemsize
    for i in range(batchCount):
        a, b, c = A + i * strideA * size, B + i * strideB * size, C + i * strideC * size
        gemmEx(
            handle, transa, transb, m, n, k, alpha, a, Atype, lda, b, Btype, ldb, beta, c, Ctype,
            ldc, computeType, algo,
        )  # fmt: skip
