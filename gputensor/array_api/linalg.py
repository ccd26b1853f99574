"""Linear algebra: the standard's extension `xp.linalg`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import gputensor as gt
from gputensor import Tensor, dtype

from ..core import lazy
from .dtypes import promoted
from .linear_algebra import (
    matmul as matmul, matrix_transpose as matrix_transpose, tensordot as tensordot,
    vecdot as vecdot,
)  # fmt: skip
from .elementwise import One, one
from .statistical import Axes, sum

Two: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]

_made = partial(one, module=gt.linalg)
det: One = _made("det", "The determinant of each matrix.")
eig: Two = _made("eig", "The eigenvalues and eigenvectors, both complex, in a named tuple.")
eigh: Two = _made(
    "eigh", "The eigenvalues and eigenvectors of Hermitian matrices, in a named tuple."
)
eigvals: One = _made("eigvals", "The eigenvalues, as complex numbers.")
eigvalsh: One = _made("eigvalsh", "The eigenvalues of Hermitian matrices.")
inv: One = _made("inv", "The inverse of each matrix.")
slogdet: Two = _made(
    "slogdet",
    "The sign of the determinant and the logarithm of its absolute value, in a named tuple.",
)
svdvals: One = _made("svdvals", "The singular values, the largest first.")


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The Cholesky factor, a triangular matrix, of positive definite matrices."""
    return gt.linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of three-element vectors that lie along an axis."""
    first, second = promoted("cross", (x1, x2))
    first, second = gt.broadcast_tensors(first, second)
    return gt.linalg.cross(first, second, dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """A view of a diagonal of each matrix."""
    return gt.diagonal(x, offset, -2, -1)


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


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution x of x1 @ x = x2, where x2 is one vector or a batch of matrices."""
    first, second = promoted("solve", (x1, x2))
    if second.ndim > 1 and second.ndim < first.ndim:
        second = second.unsqueeze(0)  # otherwise PyTorch reads x2 as a batch of vectors
    return gt.linalg.solve(first, second)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The singular value decomposition U, S, Vh, in a named tuple."""
    return gt.linalg.svd(x, full_matrices)


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
