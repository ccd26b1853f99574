"""Code that operators over matrices share: checks, layouts and triangles.

Source: aten/src/ATen/native/LinearAlgebraUtils.h.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core import errors
from ..core.dtype import (
    bool_, complex64, complex128, dtype, float32, float64, int32, int64,
)  # fmt: skip
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..iterator.broadcast import broadcast_sizes
from . import library
from ..tensor.make import allocate
from ..tensor.tensor import Tensor

Sizes = tuple[int, ...]
_TAKES = (float32, float64, complex64, complex128)


def check_dtype(op: str, arg: str, x: Tensor) -> None:
    if x._geometry.dtype not in _TAKES:
        raise errors.wrong_dtype(op, arg, "be f32, f64, c64 or c128", x)


def check_matrix(op: str, arg: str, x: Tensor) -> None:
    check_dtype(op, arg, x)
    if x._geometry.ndim < 2:
        raise errors.wrong_shape(op, arg, "be a matrix or a batch of them", x)


def check_square(op: str, arg: str, x: Tensor) -> None:
    check_matrix(op, arg, x)
    if x._geometry.sizes[-1] != x._geometry.sizes[-2]:
        raise errors.wrong_shape(op, arg, "be a square matrix or a batch of them", x)


def check_pivots(op: str, arg: str, namespace: Any, pivots: Any, rows: int) -> None:
    """Check pivots before LAPACK receives them, because LAPACK uses pivots as addresses without a
    check. Pivots on a GPU are not checked, because the host would have to wait."""
    if not namespace.is_gpu and pivots.size and not (1 <= pivots.min() and pivots.max() <= rows):
        raise errors.must(op, arg, f"name rows, from 1 to {rows}", errors.Got("others"))


def broadcast_batches(op: str, a: Tensor, arg: str, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return both operands, with their batch dimensions broadcast."""
    batch = broadcast_sizes(a._geometry.sizes[:-2], b._geometry.sizes[:-2])
    if batch is None:
        rule = f"have batches that broadcast with {list(a._geometry.sizes[:-2])}"
        raise errors.wrong_shape(op, arg, rule, b)
    return (
        calls.expand(a, (*batch, *a._geometry.sizes[-2:]), False),
        calls.expand(b, (*batch, *b._geometry.sizes[-2:]), False),
    )


def matrices(sizes: Sizes, of: dtype, by_columns: bool = True) -> Geometry:
    """Return the geometry of a batch of matrices. Source: batched_matrix_contiguous_strides."""
    dense = contiguous_geometry(tuple(sizes), of)
    if not by_columns or len(sizes) < 2:
        return dense
    strides = (*dense.strides[:-2], 1, max(sizes[-2], 1))
    return geometry(tuple(sizes), strides, of)


def is_vector(A: Tensor, B: Tensor) -> bool:
    """Return True if B contains vectors and not matrices. Source: LinearAlgebraUtils.h,
    linalg_solve_is_vector_rhs."""
    a, b = A._geometry.sizes, B._geometry.sizes
    return len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1])


def zeros(wanted: tuple[Geometry, ...], like: Tensor) -> tuple[Tensor, ...]:
    return tuple([calls.zero_(allocate(g, like._device)) for g in wanted])


def lu_sizes(A: Tensor) -> tuple[Geometry, Geometry, Geometry]:
    *batch, m, n = A._geometry.sizes
    return (
        matrices((*batch, m, n), A._geometry.dtype),
        contiguous_geometry((*batch, min(m, n)), int32),
        contiguous_geometry(tuple(batch), int32),
    )


def factorised(
    op: str, function: Any, wanted: tuple[Geometry, ...], A: Tensor, *args: Any
) -> tuple[Tensor, ...]:
    """Return the results of `library.by_lapack`, or zeros if A has no elements."""
    if not A._geometry.numel:
        return zeros(wanted, A)
    return library.by_lapack(op, function, wanted, A, *args)


def checked(results: Any, name: str, A: Tensor, check_errors: bool = True) -> Any:
    """Return the results. If `check_errors`, wait for the device, and raise the error that the last
    result, `info`, reports."""
    if check_errors:
        calls._linalg_check_errors(results[-1], name, A._geometry.ndim == 2)
    return results


def by_columns(x: Tensor) -> Tensor:
    """Return a copy of a batch of matrices in column-major order. The strides are exactly
    column-major, even if the matrices have one column or no elements."""
    made = calls.mT(calls.contiguous(calls.mT(x)))
    wanted = matrices(made._geometry.sizes, made._geometry.dtype)
    if made._geometry.strides == wanted.strides:
        return made
    return calls.as_strided(made, wanted.sizes, wanted.strides, made._offset)


def adjoint_of(x: Tensor) -> Tensor:
    return calls._conj_physical(calls.mT(x)) if x._geometry.dtype.is_complex else calls.mT(x)


def identity(n: int, like: Tensor) -> Tensor:
    return calls.eye(n, like._geometry.dtype, None, like._device, None)


def _mask(x: Tensor, k: int, is_lower: bool) -> Tensor:
    m, n = x._geometry.sizes[-2:]
    place = x._device
    rows = calls.unsqueeze(calls.arange(m, int64, None, place, None), 1)
    columns = calls.arange(n, int64, None, place, None)
    compare = calls.le_Tensor if is_lower else calls.ge_Tensor
    return compare(columns, calls.add_Tensor(rows, k))


def lower(x: Tensor, k: int = 0) -> Tensor:
    """Return the lower triangle, computed by gt.tril."""
    return calls.where_self(_mask(x, k, True), x, 0)


def upper(x: Tensor, k: int = 0) -> Tensor:
    """Return the upper triangle, computed by gt.triu."""
    return calls.where_self(_mask(x, k, False), x, 0)


def beside(made: Tensor, x: Tensor) -> Tensor:
    """Return a tensor with the elements of `made`. Its autograd history includes x."""
    is_that = calls.scalar_tensor(True, bool_, None, x._device, None)
    return calls.contiguous(calls.where_self(is_that, made, x))
