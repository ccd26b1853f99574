"""Eigenvalues and singular values; pseudo-inverses, ranks, matrix norms and condition numbers.

Source: aten/src/ATen/native/BatchLinearAlgebra.cpp and LinearAlgebra.cpp.
"""

from __future__ import annotations

import math
from typing import Any

from .._generated import calls, operators
from ..core import arguments as given, errors
from ..core.dtype import float64, int64
from ..core.geometry import contiguous_geometry
from ..kernels import lapack
from ..structured import arguments, forms, library
from ..structured.forms import Kernel
from ..structured.matrices import (
    adjoint_of, by_columns, check_matrix, check_square, factorised, identity, matrices,
    zeros,
)  # fmt: skip
from ..tensor.tensor import Tensor

BY_LIBRARY = True


# --- eigenvalues ----------------------------------------------------------------------------------


def _linalg_eigh(key_set: int, A: Tensor, UPLO: str = "L", compute_v: bool = True) -> Any:
    check_square("eigh", "A", A)
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise errors.must("eigh", "UPLO", "be L or U", UPLO)
    sizes, of = A._geometry.sizes, A._geometry.dtype
    vectors = matrices(sizes, of) if compute_v else contiguous_geometry((0,), of)
    wanted = (contiguous_geometry(sizes[:-1], of.to_real), vectors)

    def compute(namespace: Any, a: Any) -> Any:
        if compute_v:
            return lapack.eigh(namespace, a, UPLO.upper())
        return lapack.eigvalsh(namespace, a, UPLO.upper()), namespace.np.empty(0, a.dtype)

    return factorised("eigh", compute, wanted, A)


def linalg_eigh_eigvals(key_set: int, *args: Any) -> Any:
    return forms.out(operators.linalg_eigh, 2)(key_set, *args)


def linalg_eig(key_set: int, self: Tensor) -> Any:
    check_square("eig", "self", self)
    sizes, of = self._geometry.sizes, self._geometry.dtype.to_complex
    wanted = (contiguous_geometry(sizes[:-1], of), matrices(sizes, of))

    def compute(namespace: Any, a: Any) -> Any:
        return tuple([x.astype(of.np) for x in namespace.np.linalg.eig(a)])

    return factorised("eig", compute, wanted, self)


# --- singular values ------------------------------------------------------------------------------


def _linalg_svd(
    key_set: int, A: Tensor, full_matrices: bool = False, compute_uv: bool = True,
    driver: str | None = None,
) -> Any:  # fmt: skip
    check_matrix("svd", "A", A)
    if driver is not None:
        raise errors.must("svd", "driver", "be None, because only cuSOLVER has drivers", driver)
    *batch, m, n = A._geometry.sizes
    k, of = min(m, n), A._geometry.dtype
    none = contiguous_geometry((0,), of)
    u = matrices((*batch, m, m if full_matrices else k), of) if compute_uv else none
    vh = matrices((*batch, n if full_matrices else k, n), of) if compute_uv else none
    s = contiguous_geometry((*batch, k), of.to_real)
    if not A._geometry.numel:
        U, S, Vh = zeros((u, s, vh), A)
        if full_matrices and compute_uv:
            U = by_columns(calls.expand(identity(m, A), u.sizes, False))
            Vh = by_columns(calls.expand(identity(n, A), vh.sizes, False))
        return U, S, Vh

    def compute(namespace: Any, a: Any) -> Any:
        if compute_uv:
            return lapack.svd(namespace, a, full_matrices)
        empty = namespace.np.empty
        return empty(0, a.dtype), lapack.svdvals(namespace, a), empty(0, a.dtype)

    return library.by_lapack("svd", compute, (u, s, vh), A)


def svd(key_set: int, self: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    if compute_uv:
        U, S, Vh = calls._linalg_svd(self, not some, True, None)
        return U, S, adjoint_of(Vh)
    check_matrix("svd", "self", self)
    *batch, m, n = self._geometry.sizes
    values = calls.linalg_svdvals(self)
    return calls.new_zeros(self, (*batch, m, m)), values, calls.new_zeros(self, (*batch, n, n))


# --- pseudo-inverse, rank -------------------------------------------------------------------------


def _tolerances(op: str, A: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Return the absolute and the relative tolerance. By default, rtol is eps times the larger size
    of the matrix, or 0 if a positive atol is given. Source: get_atol_rtol."""
    if atol is not None and not isinstance(atol, Tensor):
        atol = given.real(op, "atol", atol)
    if rtol is not None and not isinstance(rtol, Tensor):
        rtol = given.real(op, "rtol", rtol)
    is_double = A._geometry.dtype.to_real is float64
    eps = (2.0**-52 if is_double else 2.0**-23) * max(A._geometry.sizes[-2:], default=0)
    if rtol is None:
        if isinstance(atol, Tensor):
            rtol = calls.where_self(calls.gt_Tensor(atol, 0), 0.0, eps)
        else:
            rtol = 0.0 if atol is not None and atol > 0 else eps
    return (0.0 if atol is None else atol), rtol


def _threshold(values: Tensor, atol: Any, rtol: Any) -> Tensor:
    """Return max(atol, rtol * largest value), with a last dimension so that it broadcasts with the
    values."""
    largest = calls.amax(values, (-1,), True)
    atol = calls.unsqueeze(atol, -1) if isinstance(atol, Tensor) else atol
    rtol = calls.unsqueeze(rtol, -1) if isinstance(rtol, Tensor) else rtol
    scaled = calls.mul_Tensor(largest, rtol)
    if not isinstance(atol, Tensor):
        return calls.where_self(calls.lt_Tensor(scaled, atol), atol, scaled)
    return calls.maximum(atol, scaled)


def linalg_pinv_atol_rtol_tensor(
    key_set: int, self: Tensor, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Tensor:
    check_matrix("pinv", "self", self)
    *batch, m, n = self._geometry.sizes
    if not self._geometry.numel:
        return calls.new_empty(self, (*batch, n, m))
    atol, rtol = _tolerances("pinv", self, atol, rtol)
    if hermitian:
        values, vectors = calls._linalg_eigh(self, "L", True)
        size = calls.abs(values)
    else:
        U, size, Vh = calls._linalg_svd(self, False, True, None)
        values, vectors = size, U
    kept = calls.gt_Tensor(size, _threshold(size, atol, rtol))
    inverse = calls.where_self(kept, calls.div_Tensor(calls.ones_like(values), values), 0)
    inverse = calls.unsqueeze(calls.to_dtype(inverse, self._geometry.dtype, False, False, None), -2)
    left = vectors if hermitian else adjoint_of(Vh)
    return calls.matmul(calls.mul_Tensor(left, inverse), adjoint_of(vectors))


def linalg_pinv_atol_rtol_float(
    key_set: int, self: Tensor, atol: float | None = None, rtol: float | None = None,
    hermitian: bool = False,
) -> Tensor:  # fmt: skip
    def tensor(x: Any) -> Any:
        of = self._geometry.dtype.to_real
        return None if x is None else calls.scalar_tensor(x, of, None, self._device, None)

    check_matrix("pinv", "self", self)
    return calls.linalg_pinv_atol_rtol_tensor(self, tensor(atol), tensor(rtol), hermitian)


linalg_pinv: Kernel = forms.given(linalg_pinv_atol_rtol_float, atol=0.0)
pinverse: Kernel = forms.given(linalg_pinv_atol_rtol_float, atol=0.0, hermitian=False)


def linalg_pinv_rcond_tensor(
    key_set: int, self: Tensor, rcond: Tensor, hermitian: bool = False
) -> Tensor:
    check_matrix("pinv", "self", self)
    atol = calls.zeros_like(rcond)
    return calls.linalg_pinv_atol_rtol_tensor(self, atol, rcond, hermitian)


def linalg_matrix_rank_atol_rtol_tensor(
    key_set: int, self: Tensor, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Tensor:
    check_matrix("matrix_rank", "self", self)
    if not self._geometry.numel:
        return calls.new_zeros(self, self._geometry.sizes[:-2], int64, None, None, None)
    atol, rtol = _tolerances("matrix_rank", self, atol, rtol)
    if hermitian:
        values = calls.abs(calls.linalg_eigvalsh(self))
    else:
        values = calls.linalg_svdvals(self)
    above = calls.gt_Tensor(values, _threshold(values, atol, rtol))
    return calls.sum_dim_IntList(above, (-1,), False, None)


linalg_matrix_rank_atol_rtol_float = linalg_matrix_rank_atol_rtol_tensor


linalg_matrix_rank: Kernel = forms.given(linalg_matrix_rank_atol_rtol_tensor, rtol=0.0)


# --- norms ----------------------------------------------------------------------------------------


def linalg_matrix_norm(
    key_set: int, self: Tensor, ord: Any, dim: Any = (-2, -1), keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    op = "matrix_norm"
    if self._geometry.ndim < 2:
        raise errors.wrong_shape(op, "self", "be a matrix or a batch of them", self)
    arguments.check_is_floating(op, "self", self, or_complex=True)
    dims = arguments.dims(op, dim, self._geometry.ndim)
    if len(dims) != 2:
        raise errors.must(op, "dim", "name two dimensions", dims)
    x = self if dtype is None else calls.to_dtype(self, dtype, False, False, None)
    if ord in (1, 2, math.inf) and 0 in [x._geometry.sizes[d] for d in dims]:
        # A matrix without elements has norm 0, as in PyTorch.
        return calls.sum_dim_IntList(calls.abs(x), dims, keepdim, None)
    if ord == "fro":
        return calls.linalg_vector_norm(x, 2, dims, keepdim, None)
    if ord in ("nuc", 2, -2):
        order = [d for d in range(x._geometry.ndim) if d not in dims]
        values = calls.linalg_svdvals(calls.permute(x, (*order, *dims)))
        if ord == "nuc":
            made = calls.sum_dim_IntList(values, (-1,), False, None)
        else:
            made = (calls.amax if ord == 2 else calls.amin)(values, (-1,), False)
        for d in sorted(dims) if keepdim else ():
            made = calls.unsqueeze(made, d)
        return made
    if isinstance(ord, (str, complex)) or abs(ord) not in (1, math.inf):
        raise errors.must(op, "ord", "be fro, nuc, or one of 1, -1, 2, -2, inf, -inf", ord)
    first, second = dims if abs(ord) == 1 else dims[::-1]
    sums = calls.sum_dim_IntList(calls.abs(x), (first,), keepdim, None)
    if not keepdim and second > first:
        second -= 1
    return (calls.amax if ord > 0 else calls.amin)(sums, (second,), keepdim)


linalg_matrix_norm_str_ord = linalg_matrix_norm


def linalg_norm(
    key_set: int, self: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Return a vector or matrix norm. Source: linalg_norm of ATen/native/LinearAlgebra.cpp."""
    ndim = self._geometry.ndim
    if ord is None and dim is None:
        return calls.linalg_vector_norm(self, 2, None, keepdim, dtype=dtype)
    if dim is None and ndim not in (1, 2):
        raise errors.wrong_shape(
            "norm", "self", "be a vector or a matrix where no dim is given", self
        )
    dims = tuple(range(ndim)) if dim is None else arguments.dims("norm", dim, ndim)
    if len(dims) not in (1, 2):
        raise errors.must("norm", "dim", "name one dimension or two", dims)
    if ord is None or len(dims) == 1:
        if isinstance(ord, str):
            raise errors.must("norm", "dim", f"name two dimensions for the norm '{ord}'", dims)
        return calls.linalg_vector_norm(self, 2 if ord is None else ord, dims, keepdim, dtype=dtype)
    return linalg_matrix_norm(0, self, ord, dims, keepdim, dtype)


linalg_norm_ord_str = linalg_norm


def linalg_cond(key_set: int, self: Tensor, p: Any = None) -> Tensor:
    check_matrix("cond", "self", self)
    if p is None or p in (2, -2):
        if not self._geometry.numel:
            return calls.new_zeros(self, self._geometry.sizes[:-2])
        values = calls.linalg_svdvals(self)
        largest, smallest = calls.amax(values, (-1,), False), calls.amin(values, (-1,), False)
        return (
            calls.div_Tensor(smallest, largest) if p == -2 else calls.div_Tensor(largest, smallest)
        )
    check_square("cond", "self", self)
    inverse, info = calls.linalg_inv_ex(self, False)
    is_singular = calls.gt_Tensor(info, 0)
    # The inverse of a singular matrix has numbers for which the nuclear norm does not converge.
    inverse = calls.masked_fill_Scalar(inverse, is_singular[..., None, None], 0)
    of_self = linalg_matrix_norm(0, self, p)
    made = calls.mul_Tensor(of_self, linalg_matrix_norm(0, inverse, p))
    return calls.where_self(is_singular, math.inf, made)


linalg_cond_p_str = linalg_cond
