"""gt.linalg over its factorisations: composites, with every device and gradient.

Source: aten/src/ATen/native/LinearAlgebra.cpp and BatchLinearAlgebra.cpp.
"""

from __future__ import annotations

import math
from typing import Any

from .._generated import calls, operators
from ..core import arguments as given, errors
from ..core.memory_format import contiguous_format
from ..core.dtype import FLOATING, bool_, float64, int64
from ..iterator.broadcast import broadcast_sizes
from ..structured import arguments, forms
from ..tensor.tensor import Tensor
from .factor import (
    adjoint_of, by_columns, check_matrix, check_square, identity, lower,
    upper as upper_of,
)  # fmt: skip


def _checked(made: Any, info: Tensor, name: str, A: Tensor) -> Any:
    calls._linalg_check_errors(info, name, A._geometry.ndim == 2)
    return made


# --- solve, inv, det ------------------------------------------------------------------------------


def linalg_solve_ex(
    key_set: int, A: Tensor, B: Tensor, left: bool = True, check_errors: bool = False
) -> Any:
    result, _, _, info = calls._linalg_solve_ex(A, B, left, check_errors)
    return result, info


def linalg_solve(key_set: int, A: Tensor, B: Tensor, left: bool = True) -> Tensor:
    result, info = linalg_solve_ex(0, A, B, left)
    made: Tensor = _checked(result, info, "torch.linalg.solve", A)
    return made


def linalg_inv(key_set: int, A: Tensor) -> Tensor:
    inverse, info = calls.linalg_inv_ex(A, False)
    made: Tensor = _checked(inverse, info, "linalg.inv", A)
    return made


def linalg_det(key_set: int, A: Tensor) -> Tensor:
    return calls._linalg_det(A)[0]


def linalg_slogdet(key_set: int, A: Tensor) -> Any:
    return tuple(calls._linalg_slogdet(A)[:2])


def logdet(key_set: int, self: Tensor) -> Tensor:
    """NaN where the determinant is negative."""
    sign, size = linalg_slogdet(0, self)
    if self._geometry.dtype.is_complex:
        return calls.add_Tensor(size, calls.log(sign))
    return calls.where_self(calls.eq_Tensor(sign, -1), math.nan, size)


# --- Cholesky -------------------------------------------------------------------------------------


def linalg_cholesky(key_set: int, self: Tensor, upper: bool = False) -> Tensor:
    L, info = calls.linalg_cholesky_ex(self, upper, False)
    made: Tensor = _checked(L, info, "linalg.cholesky", self)
    return made


def cholesky(key_set: int, self: Tensor, upper: bool = False) -> Tensor:
    if not self._geometry.numel:
        check_square("cholesky", "self", self)
        return calls.clone(self, contiguous_format)
    return linalg_cholesky(0, self, upper)


def cholesky_solve(key_set: int, self: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    check_matrix("cholesky_solve", "self", self)
    check_square("cholesky_solve", "input2", input2)
    if self._geometry.sizes[-2] != input2._geometry.sizes[-1]:
        rule = f"have {input2._geometry.sizes[-1]} rows"
        raise errors.wrong_shape("cholesky_solve", "self", rule, self)
    L = upper_of(input2) if upper else lower(input2)
    first, second = (adjoint_of(L), L) if upper else (L, adjoint_of(L))
    made = calls.linalg_solve_triangular(first, self, False, True, False)
    return calls.linalg_solve_triangular(second, made, True, True, False)


def cholesky_inverse(key_set: int, self: Tensor, upper: bool = False) -> Tensor:
    check_square("cholesky_inverse", "self", self)
    eye = calls.expand(identity(self._geometry.sizes[-1], self), self._geometry.sizes, False)
    return cholesky_solve(0, eye, self, upper)


def triangular_solve(
    key_set: int, self: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False,
) -> Any:  # fmt: skip
    op = "triangular_solve"
    upper, transpose = given.flag(op, "upper", upper), given.flag(op, "transpose", transpose)
    turned = calls.mT(A) if transpose else A
    made = calls.linalg_solve_triangular(turned, self, upper != transpose, True, unitriangular)
    wide = calls.expand(A, (*made._geometry.sizes[:-2], *A._geometry.sizes[-2:]), False)
    return made, by_columns(calls.clone(wide, None))


# --- LU, LDL, QR ----------------------------------------------------------------------------------


def linalg_lu_factor(key_set: int, A: Tensor, pivot: bool = True) -> Any:
    LU, pivots, info = calls.linalg_lu_factor_ex(A, pivot, False)
    return _checked((LU, pivots), info, "torch.linalg.lu_factor", A)


def linalg_lu(key_set: int, A: Tensor, pivot: bool = True) -> Any:
    LU, pivots, _ = calls.linalg_lu_factor_ex(A, pivot, False)
    P, L, U = calls.lu_unpack(LU, pivots, True, True)
    return P, L, U


def lu_solve(key_set: int, self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    return calls.linalg_lu_solve(LU_data, LU_pivots, self, True, False)


def linalg_ldl_factor(key_set: int, self: Tensor, hermitian: bool = False) -> Any:
    LD, pivots, info = calls.linalg_ldl_factor_ex(self, hermitian, False)
    return _checked((LD, pivots), info, "torch.linalg.ldl_factor", self)


def qr(key_set: int, self: Tensor, some: bool = True) -> Any:
    return tuple(calls.linalg_qr(self, "reduced" if some else "complete"))


def _reflected(
    op: str, reflectors: Tensor, tau: Tensor, x: Tensor, from_left: bool, conjugated: bool,
    backwards: bool,
) -> Tensor:  # fmt: skip
    """H_i x or x H_i, one after the other; H_i = 1 - tau_i v_i v_i^H."""
    m = reflectors._geometry.sizes[-2]
    count = tau._geometry.sizes[-1]
    unit = calls.cat(
        (identity(count, reflectors), calls.new_zeros(reflectors, (m - count, count))), 0
    )
    vectors = calls.add_Tensor(lower(calls.narrow(reflectors, -1, 0, count), -1), unit)
    if conjugated and tau._geometry.dtype.is_complex:
        tau = calls._conj_physical(tau)
    for i in range(count - 1, -1, -1) if backwards else range(count):
        v = calls.narrow(vectors, -1, i, 1)
        scale = calls.unsqueeze(calls.narrow(tau, -1, i, 1), -1)
        if from_left:
            part = calls.matmul(calls.mul_Tensor(scale, v), calls.matmul(adjoint_of(v), x))
        else:
            part = calls.matmul(calls.matmul(x, v), calls.mul_Tensor(scale, adjoint_of(v)))
        x = calls.sub_Tensor(x, part)
    return x


def linalg_householder_product(key_set: int, input: Tensor, tau: Tensor) -> Tensor:
    op = "householder_product"
    check_matrix(op, "input", input)
    *batch, m, n = input._geometry.sizes
    k = tau._geometry.sizes[-1] if tau._geometry.ndim else -1
    if m < n or not 0 <= k <= n or tau._geometry.sizes[:-1] != tuple(batch):
        rule = f"have sizes {[*batch]} and at most {min(m, n)} reflectors of m >= n rows"
        raise errors.wrong_shape(op, "tau", rule, tau)
    if tau._geometry.dtype is not input._geometry.dtype:
        rule = f"have input's dtype {input._geometry.dtype.short}"
        raise errors.wrong_dtype(op, "tau", rule, tau)
    eye = calls.cat((identity(n, input), calls.new_zeros(input, (m - n, n))), 0)
    eye = calls.expand(eye, (*batch, m, n), False)
    made = _reflected(op, input, tau, eye, True, False, True)
    return by_columns(made if k else _beside(made, input))


def ormqr(
    key_set: int, self: Tensor, input2: Tensor, input3: Tensor, left: bool = True,
    transpose: bool = False,
) -> Tensor:  # fmt: skip
    check_matrix("ormqr", "self", self)
    check_matrix("ormqr", "input3", input3)
    m = self._geometry.sizes[-2]
    if input3._geometry.sizes[-2 if left else -1] != m:
        rule = f"have {m} {'rows' if left else 'columns'}, as self has rows"
        raise errors.wrong_shape("ormqr", "input3", rule, input3)
    *batch, count = input2._geometry.sizes or (-1,)
    if not 0 <= count <= min(self._geometry.sizes[-2:]) or batch != [*self._geometry.sizes[:-2]]:
        raise errors.wrong_shape("ormqr", "input2", "have a number for each reflector", input2)
    backwards = bool(left) != bool(transpose)
    return by_columns(_reflected("ormqr", self, input2, input3, left, transpose, backwards))


# --- eigenvalues, singular values -----------------------------------------------------------------


def linalg_eigh(key_set: int, self: Tensor, UPLO: str = "L") -> Any:
    return tuple(calls._linalg_eigh(self, UPLO, True))


def _wants_gradient(x: Tensor) -> bool:
    return x.requires_grad


def linalg_eigvalsh(key_set: int, self: Tensor, UPLO: str = "L") -> Tensor:
    return calls._linalg_eigh(self, UPLO, _wants_gradient(self))[0]


def linalg_eigvals(key_set: int, self: Tensor) -> Tensor:
    return calls.linalg_eig(self)[0]


def linalg_svd(
    key_set: int, A: Tensor, full_matrices: bool = True, driver: str | None = None
) -> Any:
    return tuple(calls._linalg_svd(A, full_matrices, True, driver))


def linalg_svdvals(key_set: int, A: Tensor, driver: str | None = None) -> Tensor:
    return calls._linalg_svd(A, False, _wants_gradient(A), driver)[1]


def svd(key_set: int, self: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    if compute_uv:
        U, S, Vh = calls._linalg_svd(self, not some, True, None)
        return U, S, adjoint_of(Vh)
    check_matrix("svd", "self", self)
    *batch, m, n = self._geometry.sizes
    values = linalg_svdvals(0, self)
    return calls.new_zeros(self, (*batch, m, m)), values, calls.new_zeros(self, (*batch, n, n))


# --- pseudo-inverse, rank -------------------------------------------------------------------------


def _tolerances(op: str, A: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Source: get_atol_rtol: rtol is eps times the larger size, unless a positive atol is given."""
    if atol is not None and not isinstance(atol, Tensor):
        atol = given.real(op, "atol", atol)
    if rtol is not None and not isinstance(rtol, Tensor):
        rtol = given.real(op, "rtol", rtol)
    real = A._geometry.dtype.to_real if A._geometry.dtype.is_complex else A._geometry.dtype
    eps = (2.0**-52 if real is float64 else 2.0**-23) * max(A._geometry.sizes[-2:], default=0)
    if rtol is None:
        if isinstance(atol, Tensor):
            rtol = calls.where_self(calls.gt_Tensor(atol, 0), 0.0, eps)
        else:
            rtol = 0.0 if atol is not None and atol > 0 else eps
    return (0.0 if atol is None else atol), rtol


def _threshold(values: Tensor, atol: Any, rtol: Any) -> Tensor:
    """max(atol, rtol * the largest), with a dimension for the values."""
    largest = calls.amax(values, (-1,), True)
    atol = calls.unsqueeze(atol, -1) if isinstance(atol, Tensor) else atol
    rtol = calls.unsqueeze(rtol, -1) if isinstance(rtol, Tensor) else rtol
    scaled = calls.mul_Tensor(largest, rtol)
    if not isinstance(atol, Tensor):
        return calls.where_self(calls.lt_Tensor(scaled, atol), atol, scaled)
    return calls.maximum(atol, scaled)


def linalg_pinv_atol_rtol_tensor(
    key_set: int, self: Tensor, atol: Tensor | None = None, rtol: Tensor | None = None,
    hermitian: bool = False,
) -> Tensor:  # fmt: skip
    return _pinv(self, atol, rtol, hermitian)


def _pinv(self: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
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
        real = self._geometry.dtype.to_real if self._geometry.dtype.is_complex else None
        of = real or self._geometry.dtype
        return None if x is None else calls.scalar_tensor(x, of, None, self._device, None)

    check_matrix("pinv", "self", self)
    return calls.linalg_pinv_atol_rtol_tensor(self, tensor(atol), tensor(rtol), hermitian)


def linalg_pinv(key_set: int, self: Tensor, rcond: float, hermitian: bool = False) -> Tensor:
    return linalg_pinv_atol_rtol_float(0, self, 0.0, rcond, hermitian)


def pinverse(key_set: int, self: Tensor, rcond: float = 1e-15) -> Tensor:
    return linalg_pinv(0, self, rcond, False)


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
        values = calls.abs(linalg_eigvalsh(0, self))
    else:
        values = linalg_svdvals(0, self)
    above = calls.gt_Tensor(values, _threshold(values, atol, rtol))
    return calls.sum_dim_IntList(above, (-1,), False, None)


linalg_matrix_rank_atol_rtol_float = linalg_matrix_rank_atol_rtol_tensor


def linalg_matrix_rank(key_set: int, self: Tensor, tol: Any, hermitian: bool = False) -> Tensor:
    return linalg_matrix_rank_atol_rtol_tensor(0, self, tol, 0.0, hermitian)


# --- norms ----------------------------------------------------------------------------------------


def linalg_matrix_norm(
    key_set: int, self: Tensor, ord: Any, dim: Any = (-2, -1), keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    op = "matrix_norm"
    if self._geometry.ndim < 2:
        raise errors.wrong_shape(op, "self", "be a matrix or a batch of them", self)
    if self._geometry.dtype.category < FLOATING:
        raise errors.wrong_dtype(op, "self", "be floating or complex", self)
    dims = arguments.dims(op, dim, self._geometry.ndim)
    if len(dims) != 2:
        raise errors.must(op, "dim", "name two dimensions", dims)
    x = self if dtype is None else calls.to_dtype(self, dtype, False, False, None)
    if ord == "fro":
        square = calls.abs(x)
        total = calls.sum_dim_IntList(calls.mul_Tensor(square, square), dims, keepdim, None)
        return calls.sqrt(total)
    if ord in ("nuc", 2, -2):
        order = [d for d in range(x._geometry.ndim) if d not in dims]
        values = linalg_svdvals(0, calls.permute(x, (*order, *dims)))
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
    """Source: linalg_norm of ATen/native/LinearAlgebra.cpp."""
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
        values = linalg_svdvals(0, self)
        largest, smallest = calls.amax(values, (-1,), False), calls.amin(values, (-1,), False)
        return (
            calls.div_Tensor(smallest, largest) if p == -2 else calls.div_Tensor(largest, smallest)
        )
    check_square("cond", "self", self)
    inverse, info = calls.linalg_inv_ex(self, False)
    of_self = linalg_matrix_norm(0, self, p)
    made = calls.mul_Tensor(of_self, linalg_matrix_norm(0, inverse, p))
    return calls.where_self(calls.gt_Tensor(info, 0), math.inf, made)


linalg_cond_p_str = linalg_cond


# --- tensors as matrices --------------------------------------------------------------------------


def linalg_tensorinv(key_set: int, self: Tensor, ind: int = 2) -> Tensor:
    ind = arguments.integer("tensorinv", "ind", ind)
    if ind < 1:
        raise errors.must("tensorinv", "ind", "be positive", ind)
    sizes = self._geometry.sizes
    first, rest = sizes[:ind], sizes[ind:]
    if math.prod(first) != math.prod(rest):
        rule = "have as many elements before ind as from there on"
        raise errors.wrong_shape("tensorinv", "self", rule, self)
    square = calls.reshape(self, (math.prod(rest), math.prod(first)))
    return calls.reshape(linalg_inv(0, square), (*rest, *first))


def linalg_tensorsolve(key_set: int, self: Tensor, other: Tensor, dims: Any = None) -> Tensor:
    x = self
    if dims is not None:
        found = arguments.dims("tensorsolve", dims, x._geometry.ndim, "dims")
        kept = [d for d in range(x._geometry.ndim) if d not in found]
        x = calls.permute(x, (*kept, *found))
    sizes = x._geometry.sizes[other._geometry.ndim :]
    count = math.prod(sizes)
    if math.prod(x._geometry.sizes[: other._geometry.ndim]) != count:
        rule = "have as many elements over other's dimensions as over the rest"
        raise errors.wrong_shape("tensorsolve", "self", rule, self)
    made = linalg_solve(0, calls.reshape(x, (count, count)), calls.reshape(other, (-1,)))
    return calls.reshape(made, sizes)


def linalg_vander(key_set: int, x: Tensor, N: int | None = None) -> Tensor:
    if not x._geometry.ndim:
        x = calls.unsqueeze(x, 0)
    count = x._geometry.sizes[-1] if N is None else arguments.integer("vander", "N", N)
    if count < 2:
        raise errors.must("vander", "N", "be above 1", count)
    if x._geometry.dtype.category < FLOATING and x._geometry.dtype is not int64:
        x = calls.to_dtype(x, int64, False, False, None)
    column = calls.unsqueeze(x, -1)
    ones = calls.ones_like(column)
    powers = calls.cumprod(calls.expand(column, (*x._geometry.sizes, count - 1)), -1)
    return calls.cat((ones, powers), -1)


def linalg_diagonal(
    key_set: int, A: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Tensor:
    return calls.diagonal(A, offset, dim1, dim2)


def linalg_cross(key_set: int, self: Tensor, other: Tensor, dim: int = -1) -> Tensor:
    a, b = self._geometry, other._geometry
    if a.ndim != b.ndim:
        raise errors.wrong_shape("cross", "other", f"have {a.ndim} dimensions, as self has", other)
    d = arguments.dim("cross", dim, a.ndim)
    if not a.ndim or a.sizes[d] != 3 or b.sizes[d] != 3:
        raise errors.wrong_shape("cross", "self", f"have size 3 at dimension {d}, as other", self)
    sizes = broadcast_sizes(a.sizes, b.sizes)
    if sizes is None:
        raise errors.wrong_shape("cross", "other", f"broadcast with {list(a.sizes)}", other)
    x, y = (
        [calls.select_int(calls.expand(t, sizes, False), d, i) for i in range(3)]
        for t in (self, other)
    )
    parts = [
        calls.sub_Tensor(calls.mul_Tensor(x[i], y[j]), calls.mul_Tensor(x[j], y[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return calls.stack(tuple(parts), d)


def cross(key_set: int, self: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Without a dim, the first of size 3."""
    if dim is None:
        found = [d for d, size in enumerate(self._geometry.sizes) if size == 3]
        if not found:
            raise errors.wrong_shape("cross", "self", "have a dimension of size 3", self)
        dim = found[0]
    return calls.linalg_cross(self, other, dim)


def matrix_exp(key_set: int, self: Tensor) -> Tensor:
    return calls.linalg_matrix_exp(self)


def _beside(made: Tensor, x: Tensor) -> Tensor:
    """What does not change with x, of its sizes, with a history in which it is a function of x."""
    is_that = calls.scalar_tensor(True, bool_, None, x._device, None)
    return calls.contiguous(calls.where_self(is_that, made, x))


def linalg_eigh_eigvals(key_set: int, *args: Any) -> Any:
    return forms.out(operators.linalg_eigh, 2)(key_set, *args)


def triangular_solve_X(key_set: int, *args: Any) -> Any:
    return forms.out(operators.triangular_solve, 2)(key_set, *args)


def matrix_power(key_set: int, self: Tensor, n: int) -> Tensor:
    """Source: aten/src/ATen/native/LinearAlgebra.cpp, linalg_matrix_power_impl."""
    n = arguments.integer("matrix_power", "n", n)
    if self._geometry.ndim < 2 or self._geometry.sizes[-1] != self._geometry.sizes[-2]:
        rule = "be a square matrix or a batch of them"
        raise errors.wrong_shape("matrix_power", "self", rule, self)
    if n < 0:
        self, n = calls.linalg_inv(self), -n
    if n == 0:
        size = self._geometry.sizes[-1]
        one = calls.eye(size, self._geometry.dtype, None, self._device, None)
        return _beside(calls.expand(one, self._geometry.sizes, False), self)
    if n == 1:
        return calls.clone(self, None)
    if n == 3:
        return calls.matmul(calls.matmul(self, self), self)
    result, power = None, self
    while n:
        if n & 1:
            result = power if result is None else calls.matmul(result, power)
        n >>= 1
        if n:
            power = calls.matmul(power, power)
    assert result is not None
    return result
