"""Linear equations: solutions, inverses, and least squares.

Source: aten/src/ATen/native/BatchLinearAlgebra.cpp and LinearAlgebra.cpp.
"""

from __future__ import annotations

import math
from typing import Any

from .._generated import calls, operators
from ..core import arguments as given, errors
from ..core.dtype import float64, int32, int64
from ..core.geometry import Geometry, contiguous_geometry
from ..dispatch.shortcuts import CPU, jumps
from ..kernels import lapack
from ..structured import arguments, forms, library
from ..structured.matrices import (
    adjoint_of, broadcast_batches, by_columns, check_dtype, check_matrix,
    check_pivots, check_square, checked, factorised, identity, is_vector, lower, lu_sizes,
    matrices, upper as upper_of, zeros,
)  # fmt: skip
from ..structured.shortcuts import results as short
from ..tensor.tensor import Tensor
from .view import expand, unsqueeze

BY_LIBRARY = True


# --- whole matrices -------------------------------------------------------------------------------


def _linalg_solve_ex(
    key_set: int, A: Tensor, B: Tensor, left: bool = True, check_errors: bool = False
) -> Any:
    op = "solve"
    check_square(op, "A", A)
    check_dtype(op, "B", B)
    arguments.check_alike(op, "A", A, "B", B)
    vector = is_vector(A, B)
    if vector and not left:
        raise errors.wrong_shape(op, "B", "be a batch of matrices where left is False", B)
    matrix = calls.unsqueeze(B, -1) if vector else B
    size = A._geometry.sizes[-1]
    if matrix._geometry.ndim < 2 or matrix._geometry.sizes[-2 if left else -1] != size:
        rule = f"have {size} {'rows' if left else 'columns'}, as A has"
        raise errors.wrong_shape(op, "B", rule, B)
    _, wide_b = broadcast_batches(op, A, "B", matrix)
    sizes = wide_b._geometry.sizes[:-1] if vector else wide_b._geometry.sizes
    result = matrices(sizes, A._geometry.dtype, left)
    wanted = (result, *lu_sizes(A))
    if not A._geometry.numel or not result.numel:
        return zeros(wanted, A)

    made = library.by_lapack(op, _solution, wanted, A, wide_b, left, vector)
    return checked(made, "torch.linalg.solve", A, check_errors)


def _solution(namespace: Any, a: Any, b: Any, left: bool, vector: bool) -> Any:
    """Return the solution, the LU factors, the pivots and LAPACK's info."""
    lu, pivots, info = lapack.lu_factor(namespace, a)
    all_lu, all_pivots, shape = lu, pivots, b.shape[:-2]
    if shape != a.shape[:-2]:
        all_lu = namespace.np.broadcast_to(lu, shape + lu.shape[-2:])
        all_pivots = namespace.np.broadcast_to(pivots, shape + pivots.shape[-1:])
    # X A = B is equivalent to A^T X^T = B^T.
    given = b if left else b.swapaxes(-1, -2)
    found = lapack.lu_solve(namespace, all_lu, all_pivots, given, not left)
    found = found if left else found.swapaxes(-1, -2)
    return found[..., 0] if vector else found, lu, pivots, info


def linalg_solve_ex(
    key_set: int, A: Tensor, B: Tensor, left: bool = True, check_errors: bool = False
) -> Any:
    result, _, _, info = calls._linalg_solve_ex(A, B, left, check_errors)
    return result, info


def linalg_solve(key_set: int, A: Tensor, B: Tensor, left: bool = True) -> Tensor:
    made: Tensor = checked(linalg_solve_ex(0, A, B, left), "torch.linalg.solve", A)[0]
    vector = is_vector(A, B)
    sizes = B._geometry.sizes[:-1] if vector else B._geometry.sizes[:-2]
    if A._geometry.numel and B._geometry.numel and sizes == A._geometry.sizes[:-2]:
        on_host = library.lapack_on_host(_solution, A._geometry, left, vector)

        def compute(a: Any, b: Any) -> Any:
            found, _, _, info = on_host(a, b[..., None] if vector else b)
            # If A is singular, return None. The kernel then runs and reports the error.
            return found if not info.any() else None

        short.learn(operators.linalg_solve.table, linalg_solve, (A, B, left), made, compute)
    return made


jumps(linalg_solve, lambda: (
    (operators._linalg_solve_ex, CPU, _linalg_solve_ex),
    (operators.unsqueeze, CPU, unsqueeze),
    (operators.expand, CPU, expand),
    (operators._linalg_check_errors, CPU, "factor._linalg_check_errors"),
))  # fmt: skip


def linalg_inv_ex(key_set: int, A: Tensor, check_errors: bool = False) -> Any:
    check_square("inv", "A", A)
    sizes = A._geometry.sizes
    wanted = (matrices(sizes, A._geometry.dtype), contiguous_geometry(sizes[:-2], int32))
    made = factorised("inv", _inverse, wanted, A)
    return checked(made, "torch.linalg.inv_ex", A, check_errors)


def _inverse(namespace: Any, a: Any) -> Any:
    lu, pivots, info = lapack.lu_factor(namespace, a)
    return lapack.lu_solve(namespace, lu, pivots, None, False), info


def linalg_inv(key_set: int, A: Tensor) -> Tensor:
    made: Tensor = checked(calls.linalg_inv_ex(A, False), "linalg.inv", A)[0]
    if A._geometry.numel:
        invert = library.lapack_on_host(_inverse, A._geometry)

        def compute(a: Any) -> Any:
            found, info = invert(a)
            # If the inversion failed, return None. The kernel then runs and reports the error.
            return found if not info.any() else None

        short.learn(operators.linalg_inv.table, linalg_inv, (A,), made, compute)
    return made


jumps(linalg_inv, lambda: (
    (operators.linalg_inv_ex, CPU, linalg_inv_ex),
    (operators._linalg_check_errors, CPU, "factor._linalg_check_errors"),
))  # fmt: skip


def linalg_lu_solve(
    key_set: int, LU: Tensor, pivots: Tensor, B: Tensor, left: bool = True, adjoint: bool = False
) -> Tensor:
    check_square("lu_solve", "LU", LU)
    check_matrix("lu_solve", "B", B)
    arguments.check_alike("lu_solve", "LU", LU, "B", B)
    size = LU._geometry.sizes[-1]
    if B._geometry.sizes[-2 if left else -1] != size:
        rule = f"have {size} {'rows' if left else 'columns'}"
        raise errors.wrong_shape("lu_solve", "B", rule, B)
    if not left:
        return adjoint_of(linalg_lu_solve(0, LU, pivots, adjoint_of(B), True, not adjoint))
    P, L, U = calls.lu_unpack(LU, pivots, True, True)
    solve = calls.linalg_solve_triangular
    if adjoint:
        made = solve(adjoint_of(U), B, False, True, False)
        return by_columns(calls.matmul(P, solve(adjoint_of(L), made, True, True, True)))
    made = solve(L, calls.matmul(calls.mT(P), B), False, True, True)
    return solve(U, made, True, True, False)


# --- triangles ------------------------------------------------------------------------------------


def linalg_solve_triangular(
    key_set: int, self: Tensor, B: Tensor, upper: bool, left: bool = True,
    unitriangular: bool = False,
) -> Tensor:  # fmt: skip
    op = "solve_triangular"
    check_square(op, "self", self)
    check_matrix(op, "B", B)
    arguments.check_alike(op, "self", self, "B", B)
    upper, left = given.flag(op, "upper", upper), given.flag(op, "left", left)
    unitriangular = given.flag(op, "unitriangular", unitriangular)
    size = self._geometry.sizes[-1]
    if B._geometry.sizes[-2 if left else -1] != size:
        rule = f"have {size} {'rows' if left else 'columns'}, as self has"
        raise errors.wrong_shape(op, "B", rule, B)
    a, b = broadcast_batches(op, self, "B", B)
    wanted = matrices(b._geometry.sizes, B._geometry.dtype)
    if not wanted.numel:
        return zeros((wanted,), B)[0]
    rest = (upper, left, unitriangular)
    made = library.by_lapack(op, lapack.solve_triangular, (wanted,), a, b, *rest)[0]
    if a._geometry.sizes == self._geometry.sizes and b._geometry.sizes == B._geometry.sizes:
        table, args = operators.linalg_solve_triangular.table, (self, B, *rest)
        on_host = library.lapack_on_host(lapack.solve_triangular, self._geometry, *rest)
        short.learn(table, linalg_solve_triangular, args, made, on_host)
    return made


jumps(linalg_solve_triangular, lambda: ((operators.expand, CPU, expand),))


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


def triangular_solve_X(key_set: int, *args: Any) -> Any:
    return forms.out(operators.triangular_solve, 2)(key_set, *args)


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


# --- LDL ------------------------------------------------------------------------------------------


def linalg_ldl_solve(
    key_set: int, LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool = False
) -> Tensor:
    check_square("ldl_solve", "LD", LD)
    check_matrix("ldl_solve", "B", B)
    arguments.check_alike("ldl_solve", "LD", LD, "B", B)
    if B._geometry.sizes[-2] != LD._geometry.sizes[-1]:
        rule = f"have {LD._geometry.sizes[-1]} rows"
        raise errors.wrong_shape("ldl_solve", "B", rule, B)
    ld, b = broadcast_batches("ldl_solve", LD, "B", B)
    every = calls.expand(pivots, ld._geometry.sizes[:-1], False)
    wanted = matrices(b._geometry.sizes, B._geometry.dtype)
    if not wanted.numel:
        return zeros((wanted,), B)[0]

    def solve(namespace: Any, ld: Any, every: Any, b: Any) -> Any:
        check_pivots("ldl_solve", "pivots", namespace, abs(every.astype("i8")), ld.shape[-1])
        return lapack.ldl_solve(namespace, ld, every, b, hermitian)

    return library.by_lapack("ldl_solve", solve, (wanted,), ld, every, b)[0]


# --- least squares --------------------------------------------------------------------------------


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def linalg_lstsq(
    key_set: int, self: Tensor, b: Tensor, rcond: float | None = None, driver: str | None = None
) -> Any:
    """Return the solution, residuals, ranks and singular values. With gelsd and gelss, the size of
    the residuals depends on the ranks, so the host reads the ranks. On the meta device, full ranks
    are assumed.
    """
    op = "lstsq"
    check_matrix(op, "self", self)
    check_dtype(op, "b", b)
    arguments.check_alike(op, "self", self, "b", b)
    chosen = driver or ("gels" if self._device.type == "cuda" else "gelsy")
    if chosen not in _DRIVERS:
        raise errors.must(op, "driver", f"be one of {', '.join(_DRIVERS)}", driver)
    vector = is_vector(self, b) or len(b._geometry.sizes) == 1
    if not b._geometry.ndim:
        raise errors.wrong_shape(op, "b", "be a vector, a matrix or a batch of them", b)
    matrix = calls.unsqueeze(b, -1) if vector else b
    m, n = self._geometry.sizes[-2:]
    if matrix._geometry.sizes[-2] != m:
        raise errors.wrong_shape(op, "b", f"have {m} rows, as self has", b)
    of = self._geometry.dtype
    if rcond is None:
        rcond = (2.0**-52 if of.to_real is float64 else 2.0**-23) * max(m, n)
    rcond = given.real(op, "rcond", rcond)
    wide_a, wide_b = broadcast_batches(op, self, "b", matrix)
    batch, own = wide_b._geometry.sizes[:-2], self._geometry.sizes[:-2]
    columns = matrix._geometry.sizes[-1]

    def wanted(of_ranks: tuple[int, ...]) -> tuple[Geometry, ...]:
        return (
            matrices((*batch, max(m, n), columns), of),
            contiguous_geometry(of_ranks, int64),
            contiguous_geometry((*of_ranks, min(m, n)), of.to_real),
        )

    if not self._geometry.numel or not matrix._geometry.numel:
        rows, rank, values = zeros(wanted(own), self)
    else:
        rows, rank, values = library.by_lapack(
            op, lapack.lstsq, wanted(batch), wide_a, wide_b, rcond, chosen
        )
        rank, values = _unexpanded(rank, batch, own), _unexpanded(values, batch, own)
    solution = calls.narrow(rows, -2, 0, n) if n < max(m, n) else rows
    residuals = calls.new_empty(self, (0,), of.to_real, None, None, None)
    full = chosen == "gels" or self._device.type == "meta"
    full = chosen != "gelsy" and (full or bool(calls.all(calls.eq_Tensor(rank, n))))
    if m > n and full:
        rest = calls.abs(calls.narrow(rows, -2, n, m - n))
        residuals = calls.sum_dim_IntList(calls.mul_Tensor(rest, rest), (-2,), False, None)
    solution = calls.squeeze_dim(solution, -1) if vector else solution
    empty_rank = calls.new_empty(self, (0,), int64, None, None, None)
    has_values = chosen in ("gelsd", "gelss")
    values = values if has_values else calls.new_empty(self, (0,), of.to_real, None, None, None)
    return solution, residuals, empty_rank if chosen == "gels" else rank, values


def _unexpanded(x: Tensor, batch: tuple[int, ...], own: tuple[int, ...]) -> Tensor:
    """Return x, whose first dimensions are `batch`, without the copies that broadcasting `own` to
    `batch` has made."""
    for _ in range(len(batch) - len(own)):
        x = calls.squeeze_dim(calls.narrow(x, 0, 0, 1), 0)
    for dim, (size, wide) in enumerate(zip(own, batch[len(batch) - len(own) :])):
        x = calls.narrow(x, dim, 0, 1) if size < wide else x
    return x


# --- tensors as matrices --------------------------------------------------------------------------


def linalg_tensorinv(key_set: int, self: Tensor, ind: int = 2) -> Tensor:
    ind = arguments.integer("tensorinv", "ind", ind, least=1)
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
