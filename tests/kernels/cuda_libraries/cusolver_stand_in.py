"""A replacement for CuPy's interface of cuSOLVER that uses LAPACK on host memory."""

from __future__ import annotations

import ctypes
import types
from typing import Any

import numpy as np

from gputensor.kernels import lapack
from gputensor.runtime.libraries import HOST

CHARS = {"s": "f", "d": "d", "c": "F", "z": "D"}
HANDLE, LOWER = 0x5000, 0
NAMES = (
    "getrf_bufferSize", "getrf", "potrf_bufferSize", "potrf", "potrfBatched", "sytrf_bufferSize",
    "sytrf",
)  # fmt: skip


def at(ptr: int, char: str, *sizes: int) -> np.ndarray:
    """Return the column-major array at an address."""
    room = (ctypes.c_char * int(np.prod(sizes) * np.dtype(char).itemsize)).from_address(ptr)
    return np.frombuffer(room, char).reshape(sizes, order="F")


class Routines:
    """cuSOLVER's functions for the dtype of one letter, with the parameters of CuPy's functions."""

    def __init__(self, letter: str) -> None:
        self.char = CHARS[letter]

    def getrf_bufferSize(self, handle: int, m: int, n: int, A: int, lda: int) -> int:
        return m * n

    def getrf(
        self, handle: int, m: int, n: int, A: int, lda: int, work: int, devIpiv: int, devInfo: int
    ) -> None:  # fmt: skip
        assert handle == HANDLE and lda == m
        x = at(A, self.char, m, n)
        lu, pivots, info = lapack.routine(HOST, "getrf", x)(x)
        x[...], at(devIpiv, "i4", min(m, n))[...], at(devInfo, "i4", 1)[...] = lu, pivots + 1, info

    def potrf_bufferSize(self, handle: int, uplo: int, n: int, A: int, lda: int) -> int:
        return n

    def potrf(
        self, handle: int, uplo: int, n: int, A: int, lda: int, work: int, lwork: int, devInfo: int
    ) -> None:  # fmt: skip
        assert handle == HANDLE and lda == n
        x = at(A, self.char, n, n)
        made, info = lapack.routine(HOST, "potrf", x)(x, lower=uplo == LOWER, clean=0)
        x[...], at(devInfo, "i4", 1)[...] = made, info

    def potrfBatched(
        self, handle: int, uplo: int, n: int, Aarray: int, lda: int, infoArray: int, batchSize: int
    ) -> None:  # fmt: skip
        for i, A in enumerate(at(Aarray, "u8", batchSize)):
            self.potrf(handle, uplo, n, int(A), lda, 0, 0, infoArray + 4 * i)

    def sytrf_bufferSize(self, handle: int, n: int, A: int, lda: int) -> int:
        return n

    def sytrf(
        self, handle: int, uplo: int, n: int, A: int, lda: int, ipiv: int, work: int, lwork: int,
        devInfo: int,
    ) -> None:  # fmt: skip
        assert handle == HANDLE and lda == n and uplo == LOWER
        x = at(A, self.char, n, n)
        made, pivots, info = lapack.routine(HOST, "sytrf", x)(x, lower=1)
        x[...], at(ipiv, "i4", n)[...], at(devInfo, "i4", 1)[...] = made, pivots, info


def routines() -> Any:
    """The module."""
    of = {letter: Routines(letter) for letter in CHARS}
    return types.SimpleNamespace(
        **{f"{a}{name}": getattr(r, name) for a, r in of.items() for name in NAMES}
    )
