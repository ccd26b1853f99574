"""Linear algebra: the standard's extension `xp.linalg`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import gputensor as gt
from gputensor import Tensor, dtype

from ..core import lazy
from .dtypes import promoted
from .linear_algebra import (
    matmul as matmul, matrix_transpose as matrix_transpose, tensordot as tensordot,
    vecdot as vecdot,
)  # fmt: skip
from .statistical import Axes, sum


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The Cholesky factor, a triangular matrix, of positive definite matrices."""
    return gt.linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of three-element vectors that lie along an axis."""
    first, second = promoted("cross", (x1, x2))
    first, second = gt.broadcast_tensors(first, second)
    return gt.linalg.cross(first, second, dim=axis)


def det(x: Tensor, /) -> Tensor:
    """The determinant of each matrix."""
    return gt.linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """A view of a diagonal of each matrix."""
    return gt.diagonal(x, offset, -2, -1)


def eig(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The eigenvalues and eigenvectors, both complex, in a named tuple."""
    return gt.linalg.eig(x)


def eigh(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The eigenvalues and eigenvectors of Hermitian matrices, in a named tuple."""
    return gt.linalg.eigh(x)


def eigvals(x: Tensor, /) -> Tensor:
    """The eigenvalues, as complex numbers."""
    return gt.linalg.eigvals(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of Hermitian matrices."""
    return gt.linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """The inverse of each matrix."""
    return gt.linalg.inv(x)


def matrix_norm(
    x: Tensor, /, *, keepdims: bool = False, ord: int | float | Literal["fro", "nuc"] | None = "fro"
) -> Tensor:
    """A norm of each matrix, by default the Frobenius norm."""
    return gt.linalg.matrix_norm(x, "fro" if ord is None else ord, (-2, -1), keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The n-th power of a matrix. A negative n raises the inverse to the power -n."""
    return gt.linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The number of singular values larger than rtol times the largest."""
    return gt.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of all pairs of elements of two vectors."""
    return gt.outer(*promoted("outer", (x1, x2)))


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudo-inverse. Singular values below rtol times the largest are replaced by zero."""
    return gt.linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> tuple[Tensor, Tensor]:
    """The QR decomposition: orthonormal columns Q and a triangular R, in a named tuple."""
    return gt.linalg.qr(x, mode)


def slogdet(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The sign of the determinant and the logarithm of its absolute value, in a named tuple."""
    return gt.linalg.slogdet(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution x of x1 @ x = x2, where x2 is one vector or a batch of matrices."""
    first, second = promoted("solve", (x1, x2))
    if second.ndim > 1 and second.ndim < first.ndim:
        second = second.unsqueeze(0)  # else PyTorch reads x2 as a batch of vectors
    return gt.linalg.solve(first, second)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The singular value decomposition U, S, Vh, in a named tuple."""
    return gt.linalg.svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values, the largest first."""
    return gt.linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: dtype | None = None) -> Tensor:
    """The sum of a diagonal of each matrix."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: Axes = None, keepdims: bool = False, ord: int | float = 2
) -> Tensor:
    """A norm of the vectors along `axis`, or of all elements for None."""
    if axis == ():
        return gt.linalg.vector_norm(x.unsqueeze(-1), ord, -1)
    return gt.linalg.vector_norm(x, ord, axis, keepdims)


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv",
    "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv",
    "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
