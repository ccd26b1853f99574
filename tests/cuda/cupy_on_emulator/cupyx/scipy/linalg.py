"""SciPy's linalg over emulated memory."""

from __future__ import annotations

import sys
from typing import Any

import cupy
import scipy.linalg


class _Linalg(cupy._Part):
    """Like CuPy's module it lacks LAPACK and BLAS, and has `expm` and `solve_triangular`."""

    def __getattr__(self, name: str) -> Any:
        if name in ("lapack", "blas"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return super().__getattr__(name)


sys.modules[__name__] = _Linalg(__name__, scipy.linalg)
