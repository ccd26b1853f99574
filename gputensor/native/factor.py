"""Factorisations of matrices, and what is solved with them: the leaves of gt.linalg.

Results lie column by column, as PyTorch's do. Nothing here looks at values, so nothing waits for a
GPU but `_linalg_check_errors`, which reads `info`.
Source: aten/src/ATen/native/BatchLinearAlgebra.cpp and LinearAlgebraUtils.h.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core import arguments as given, errors
from ..core.dtype import complex64, complex128, dtype, float32, float64, int32, int64
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..iterator.broadcast import broadcast_sizes
from ..kernels import lapack
from ..structured import library
from ..tensor.make import allocate
from ..tensor.tensor import Tensor

BY_LIBRARY = True

Sizes = tuple[int, ...]
_TAKES = (float32, float64, complex64, complex128)


# --- what is refused ------------------------------------------------------------------------------


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


def check_alike(op: str, first: str, a: Tensor, second: str, b: Tensor) -> None:
    if a._geometry.dtype is not b._geometry.dtype:
        rule = f"have {first}'s dtype {a._geometry.dtype.short}"
        raise errors.wrong_dtype(op, second, rule, b)
    if a._device is not b._device:
        raise errors.mixed_devices(op, a, first, b, second)


def broadcast_batches(op: str, a: Tensor, arg: str, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the batches that they share."""
    batch = broadcast_sizes(a._geometry.sizes[:-2], b._geometry.sizes[:-2])
    if batch is None:
        rule = f"have batches that broadcast with {list(a._geometry.sizes[:-2])}"
        raise errors.wrong_shape(op, arg, rule, b)
    return (
        calls.expand(a, (*batch, *a._geometry.sizes[-2:]), False),
        calls.expand(b, (*batch, *b._geometry.sizes[-2:]), False),
    )


def matrices(sizes: Sizes, of: dtype, by_columns: bool = True) -> Geometry:
    """The layout of a batch of matrices. Source: batched_matrix_contiguous_strides."""
    dense = contiguous_geometry(tuple(sizes), of)
    if not by_columns or len(sizes) < 2:
        return dense
    strides = (*dense.strides[:-2], 1, max(sizes[-2], 1))
    return geometry(tuple(sizes), strides, of)


def _real(of: dtype) -> dtype:
    return of.to_real if of.is_complex else of


def _is_turned(A: Tensor) -> bool:
    """PyTorch factorises the transpose of what lies row by row."""
    return A._geometry.is_contiguous and not A._geometry.dtype.is_complex


def is_vector(A: Tensor, B: Tensor) -> bool:
    """Source: LinearAlgebraUtils.h, linalg_solve_is_vector_rhs."""
    a, b = A._geometry.sizes, B._geometry.sizes
    return len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1])


# --- LU -------------------------------------------------------------------------------------------


def _lu_sizes(A: Tensor) -> tuple[Geometry, Geometry, Geometry]:
    *batch, m, n = A._geometry.sizes
    return (
        matrices((*batch, m, n), A._geometry.dtype),
        contiguous_geometry((*batch, min(m, n)), int32),
        contiguous_geometry(tuple(batch), int32),
    )


def _zeros(wanted: tuple[Geometry, ...], like: Tensor) -> tuple[Tensor, ...]:
    return tuple([calls.zero_(allocate(g, like._device)) for g in wanted])


def linalg_lu_factor_ex(
    key_set: int, A: Tensor, pivot: bool = True, check_errors: bool = False
) -> Any:
    check_matrix("lu_factor", "A", A)
    if not pivot:
        raise errors.must("lu_factor", "pivot", "be True", pivot)
    wanted = _lu_sizes(A)
    if not A._geometry.numel:
        return _zeros(wanted, A)
    made = library.call("lu_factor", lapack.lu_factor, wanted, A)
    return _checked(made, made[2], "torch.linalg.lu_factor_ex", A, check_errors)


def _checked(made: Any, info: Tensor, name: str, A: Tensor, check_errors: bool) -> Any:
    if check_errors:
        calls._linalg_check_errors(info, name, A._geometry.ndim == 2)
    return made


def _linalg_check_errors(key_set: int, info: Tensor, api_name: str, is_matrix: bool) -> None:
    """Source: aten/src/ATen/native/BatchLinearAlgebra.cpp, _linalg_check_errors."""
    if info._device.type == "meta":
        return
    values = info.tolist()
    flat = [values] if is_matrix or not isinstance(values, list) else _flat(values)
    for number, value in enumerate(flat):
        if value:
            raise errors.not_solvable(api_name, value, None if is_matrix else number)


def _flat(values: Any) -> list[int]:
    return [x for v in values for x in (_flat(v) if isinstance(v, list) else [v])]


def lu_unpack(
    key_set: int, LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> Any:  # fmt: skip
    check_matrix("lu_unpack", "LU_data", LU_data)
    *batch, m, n = LU_data._geometry.sizes
    k = min(m, n)
    if LU_pivots._geometry.dtype is not int32:
        raise errors.wrong_dtype("lu_unpack", "LU_pivots", "be i32", LU_pivots)
    if LU_pivots._geometry.sizes != (*batch, k):
        rule = f"have sizes {[*batch, k]}"
        raise errors.wrong_shape("lu_unpack", "LU_pivots", rule, LU_pivots)
    none = calls.new_empty(LU_data, (0,))
    P, L, U = none, none, none
    if unpack_data:
        eye = identity(k, LU_data)
        left = calls.narrow(LU_data, -1, 0, k)
        L = calls.add_Tensor(
            lower(left, -1), calls.cat((eye, calls.new_zeros(LU_data, (m - k, k))), 0)
        )
        L = calls.contiguous(L)
        U = calls.contiguous(upper(calls.narrow(LU_data, -2, 0, k)))
    if unpack_pivots:
        wanted = contiguous_geometry((*batch, m, m), LU_data._geometry.dtype)

        def permutation(namespace: Any, pivots: Any) -> Any:
            np = namespace.np
            _check_pivots("lu_unpack", "LU_pivots", namespace, pivots, m)
            rows = np.broadcast_to(np.arange(m), (*pivots.shape[:-1], m)).copy()
            for i in range(pivots.shape[-1]):
                j = pivots[..., i : i + 1].astype(np.int64) - 1
                other = np.take_along_axis(rows, j, -1)
                np.put_along_axis(rows, j, rows[..., i : i + 1].copy(), -1)
                rows[..., i : i + 1] = other
            found = np.arange(m)[:, None] == rows[..., None, :]
            return found.astype(wanted.dtype.np)

        (P,) = library.call("lu_unpack", permutation, (wanted,), LU_pivots)
    return P, L, U


def _check_pivots(op: str, arg: str, library: Any, pivots: Any, rows: int) -> None:
    """Where that needs no waiting. LAPACK reads what they name, wherever that is."""
    if not library.is_gpu and pivots.size and not (1 <= pivots.min() and pivots.max() <= rows):
        raise errors.must(op, arg, f"name rows, from 1 to {rows}", errors.Got("others"))


def linalg_lu_solve(
    key_set: int, LU: Tensor, pivots: Tensor, B: Tensor, left: bool = True, adjoint: bool = False
) -> Tensor:
    check_square("lu_solve", "LU", LU)
    check_matrix("lu_solve", "B", B)
    check_alike("lu_solve", "LU", LU, "B", B)
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


def by_columns(x: Tensor) -> Tensor:
    """A batch of matrices column by column, those of one column or without elements too."""
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
    """tril."""
    return calls.where_self(_mask(x, k, True), x, 0)


def upper(x: Tensor, k: int = 0) -> Tensor:
    """triu."""
    return calls.where_self(_mask(x, k, False), x, 0)


# --- solve, inv, det ------------------------------------------------------------------------------


def _linalg_solve_ex(
    key_set: int, A: Tensor, B: Tensor, left: bool = True, check_errors: bool = False
) -> Any:
    op = "solve"
    check_square(op, "A", A)
    check_dtype(op, "B", B)
    check_alike(op, "A", A, "B", B)
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
    wanted = (result, *_lu_sizes(A))
    if not A._geometry.numel or not result.numel:
        return _zeros(wanted, A)

    def compute(namespace: Any, a: Any, b: Any) -> Any:
        np = namespace.np
        lu, pivots, info = lapack.lu_factor(namespace, a)
        shape = b.shape[:-2]
        all_lu = np.broadcast_to(lu, shape + lu.shape[-2:])
        all_pivots = np.broadcast_to(pivots, shape + pivots.shape[-1:])
        # X A = B is A^T X^T = B^T
        given = b if left else b.swapaxes(-1, -2)
        found = lapack.lu_solve(namespace, all_lu, all_pivots, given, not left)
        found = found if left else found.swapaxes(-1, -2)
        return found[..., 0] if vector else found, lu, pivots, info

    made = library.call(op, compute, wanted, A, wide_b)
    return _checked(made, made[3], "torch.linalg.solve", A, check_errors)


def linalg_inv_ex(key_set: int, A: Tensor, check_errors: bool = False) -> Any:
    check_square("inv", "A", A)
    *batch, n, _ = A._geometry.sizes
    wanted = (
        matrices(A._geometry.sizes, A._geometry.dtype),
        contiguous_geometry(tuple(batch), int32),
    )
    if not A._geometry.numel:
        return _zeros(wanted, A)

    def compute(namespace: Any, a: Any) -> Any:
        np = namespace.np
        lu, pivots, info = lapack.lu_factor(namespace, a)
        eye = np.broadcast_to(np.eye(n, dtype=a.dtype), a.shape)
        return lapack.lu_solve(namespace, lu, pivots, eye, False), info

    made = library.call("inv", compute, wanted, A)
    return _checked(made, made[1], "torch.linalg.inv_ex", A, check_errors)


def _det_of(namespace: Any, lu: Any, pivots: Any) -> tuple[Any, Any]:
    """The sign of the permutation, and the diagonal."""
    np = namespace.np
    swaps = (pivots != np.arange(1, pivots.shape[-1] + 1)).sum(-1)
    return 1 - 2 * (swaps % 2), np.diagonal(lu, 0, -2, -1)


def _linalg_det(key_set: int, A: Tensor) -> Any:
    check_square("det", "A", A)
    lu, pivots, _ = _lu_sizes(A)
    wanted = (contiguous_geometry(A._geometry.sizes[:-2], A._geometry.dtype), lu, pivots)
    if not A._geometry.numel:
        _, *rest = _zeros(wanted, A)
        return calls.new_ones(A, wanted[0].sizes), *rest
    turned = _is_turned(A)

    def compute(namespace: Any, a: Any) -> Any:
        lu, pivots, _ = lapack.lu_factor(namespace, a.swapaxes(-1, -2) if turned else a)
        sign, diagonal = _det_of(namespace, lu, pivots)
        return diagonal.prod(-1) * sign.astype(a.dtype), lu, pivots

    return library.call("det", compute, wanted, A)


def _linalg_slogdet(key_set: int, A: Tensor) -> Any:
    check_square("slogdet", "A", A)
    lu, pivots, _ = _lu_sizes(A)
    batch, of = A._geometry.sizes[:-2], A._geometry.dtype
    wanted = (contiguous_geometry(batch, of), contiguous_geometry(batch, _real(of)), lu, pivots)
    if not A._geometry.numel:
        _, logarithm, *rest = _zeros(wanted, A)
        return calls.new_ones(A, batch), logarithm, *rest
    turned = _is_turned(A)

    def compute(namespace: Any, a: Any) -> Any:
        np = namespace.np
        lu, pivots, _ = lapack.lu_factor(namespace, a.swapaxes(-1, -2) if turned else a)
        sign, diagonal = _det_of(namespace, lu, pivots)
        size = np.abs(diagonal)
        units = np.where(size == 0, 0, diagonal / np.where(size == 0, 1, size))
        return units.prod(-1) * sign.astype(a.dtype), np.log(size).sum(-1), lu, pivots

    return library.call("slogdet", compute, wanted, A)


# --- Cholesky, triangular -------------------------------------------------------------------------


def linalg_cholesky_ex(
    key_set: int, self: Tensor, upper: bool = False, check_errors: bool = False
) -> Any:
    check_square("cholesky", "self", self)
    sizes = self._geometry.sizes
    wanted = (matrices(sizes, self._geometry.dtype), contiguous_geometry(sizes[:-2], int32))
    if not self._geometry.numel:
        return _zeros(wanted, self)
    made = library.call("cholesky", lapack.cholesky, wanted, self, upper)
    return _checked(made, made[1], "torch.linalg.cholesky_ex", self, check_errors)


def linalg_solve_triangular(
    key_set: int, self: Tensor, B: Tensor, upper: bool, left: bool = True,
    unitriangular: bool = False,
) -> Tensor:  # fmt: skip
    op = "solve_triangular"
    check_square(op, "self", self)
    check_matrix(op, "B", B)
    check_alike(op, "self", self, "B", B)
    upper, left = given.flag(op, "upper", upper), given.flag(op, "left", left)
    unitriangular = given.flag(op, "unitriangular", unitriangular)
    size = self._geometry.sizes[-1]
    if B._geometry.sizes[-2 if left else -1] != size:
        rule = f"have {size} {'rows' if left else 'columns'}, as self has"
        raise errors.wrong_shape(op, "B", rule, B)
    a, b = broadcast_batches(op, self, "B", B)
    wanted = matrices(b._geometry.sizes, B._geometry.dtype)
    if not wanted.numel:
        return _zeros((wanted,), B)[0]
    return library.call(op, lapack.solve_triangular, (wanted,), a, b, upper, left, unitriangular)[0]


# --- LDL ------------------------------------------------------------------------------------------


def linalg_ldl_factor_ex(
    key_set: int, self: Tensor, hermitian: bool = False, check_errors: bool = False
) -> Any:
    check_square("ldl_factor", "self", self)
    sizes = self._geometry.sizes
    wanted = (
        matrices(sizes, self._geometry.dtype),
        contiguous_geometry(sizes[:-1], int32),
        contiguous_geometry(sizes[:-2], int32),
    )
    if not self._geometry.numel:
        return _zeros(wanted, self)
    made = library.call("ldl_factor", lapack.ldl_factor, wanted, self, hermitian)
    return _checked(made, made[2], "torch.linalg.ldl_factor_ex", self, check_errors)


def linalg_ldl_solve(
    key_set: int, LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool = False
) -> Tensor:
    check_square("ldl_solve", "LD", LD)
    check_matrix("ldl_solve", "B", B)
    check_alike("ldl_solve", "LD", LD, "B", B)
    if B._geometry.sizes[-2] != LD._geometry.sizes[-1]:
        rule = f"have {LD._geometry.sizes[-1]} rows"
        raise errors.wrong_shape("ldl_solve", "B", rule, B)
    ld, b = broadcast_batches("ldl_solve", LD, "B", B)
    every = calls.expand(pivots, ld._geometry.sizes[:-1], False)
    wanted = matrices(b._geometry.sizes, B._geometry.dtype)
    if not wanted.numel:
        return _zeros((wanted,), B)[0]

    def solve(namespace: Any, ld: Any, every: Any, b: Any) -> Any:
        _check_pivots("ldl_solve", "pivots", namespace, abs(every.astype("i8")), ld.shape[-1])
        return lapack.ldl_solve(namespace, ld, every, b, hermitian)

    return library.call("ldl_solve", solve, (wanted,), ld, every, b)[0]


# --- QR, eigenvalues, singular values -------------------------------------------------------------


def linalg_qr(key_set: int, A: Tensor, mode: str = "reduced") -> Any:
    check_matrix("qr", "A", A)
    if mode not in ("reduced", "complete", "r"):
        raise errors.must("qr", "mode", "be reduced, complete or r", mode)
    *batch, m, n = A._geometry.sizes
    rows = m if mode == "complete" else min(m, n)
    of = A._geometry.dtype
    q = contiguous_geometry((0,), of) if mode == "r" else matrices((*batch, m, rows), of)
    r = matrices((*batch, rows, n), of)
    if not A._geometry.numel:
        Q, R = _zeros((q, r), A)
        return (
            calls.expand(identity(rows, A), q.sizes, False).clone() if mode == "complete" else Q
        ), R

    def compute(namespace: Any, a: Any) -> Any:
        found = namespace.np.linalg.qr(a, mode=mode)
        return (namespace.np.empty(0, a.dtype), found) if mode == "r" else tuple(found)

    return library.call("qr", compute, (q, r), A)


def geqrf(key_set: int, self: Tensor) -> Any:
    check_matrix("geqrf", "self", self)
    *batch, m, n = self._geometry.sizes
    of = self._geometry.dtype
    wanted = (matrices((*batch, m, n), of), contiguous_geometry((*batch, min(m, n)), of))
    if not self._geometry.numel:
        return _zeros(wanted, self)

    def compute(namespace: Any, a: Any) -> Any:
        found, tau = namespace.np.linalg.qr(a, mode="raw")
        return found.swapaxes(-1, -2), tau

    return library.call("geqrf", compute, wanted, self)


def _linalg_eigh(key_set: int, A: Tensor, UPLO: str = "L", compute_v: bool = True) -> Any:
    check_square("eigh", "A", A)
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise errors.must("eigh", "UPLO", "be L or U", UPLO)
    sizes, of = A._geometry.sizes, A._geometry.dtype
    vectors = matrices(sizes, of) if compute_v else contiguous_geometry((0,), of)
    wanted = (contiguous_geometry(sizes[:-1], _real(of)), vectors)
    if not A._geometry.numel:
        return _zeros(wanted, A)

    def compute(namespace: Any, a: Any) -> Any:
        np = namespace.np
        if compute_v:
            return tuple(np.linalg.eigh(a, UPLO.upper()))
        return np.linalg.eigvalsh(a, UPLO.upper()), np.empty(0, a.dtype)

    return library.call("eigh", compute, wanted, A)


def linalg_eig(key_set: int, self: Tensor) -> Any:
    check_square("eig", "self", self)
    sizes, of = self._geometry.sizes, self._geometry.dtype.to_complex
    wanted = (contiguous_geometry(sizes[:-1], of), matrices(sizes, of))
    if not self._geometry.numel:
        return _zeros(wanted, self)

    def compute(namespace: Any, a: Any) -> Any:
        return tuple([x.astype(of.np) for x in namespace.np.linalg.eig(a)])

    return library.call("eig", compute, wanted, self)


def _linalg_svd(
    key_set: int, A: Tensor, full_matrices: bool = False, compute_uv: bool = True,
    driver: str | None = None,
) -> Any:  # fmt: skip
    check_matrix("svd", "A", A)
    if driver is not None:
        raise errors.must("svd", "driver", "be None, as it is but for cuSOLVER", driver)
    *batch, m, n = A._geometry.sizes
    k, of = min(m, n), A._geometry.dtype
    none = contiguous_geometry((0,), of)
    u = matrices((*batch, m, m if full_matrices else k), of) if compute_uv else none
    vh = matrices((*batch, n if full_matrices else k, n), of) if compute_uv else none
    s = contiguous_geometry((*batch, k), _real(of))
    if not A._geometry.numel:
        U, S, Vh = _zeros((u, s, vh), A)
        if full_matrices and compute_uv:
            U = by_columns(calls.expand(identity(m, A), u.sizes, False))
            Vh = by_columns(calls.expand(identity(n, A), vh.sizes, False))
        return U, S, Vh

    def compute(namespace: Any, a: Any) -> Any:
        np = namespace.np
        if compute_uv:
            return tuple(np.linalg.svd(a, full_matrices=full_matrices))
        return np.empty(0, a.dtype), np.linalg.svd(a, compute_uv=False), np.empty(0, a.dtype)

    return library.call("svd", compute, (u, s, vh), A)


def linalg_matrix_exp(key_set: int, self: Tensor) -> Tensor:
    check_square("matrix_exp", "self", self)
    wanted = contiguous_geometry(self._geometry.sizes, self._geometry.dtype)
    if not self._geometry.numel:
        return _zeros((wanted,), self)[0]
    return library.call("matrix_exp", lapack.matrix_exp, (wanted,), self)[0]


# --- least squares --------------------------------------------------------------------------------

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def linalg_lstsq(
    key_set: int, self: Tensor, b: Tensor, rcond: float | None = None, driver: str | None = None
) -> Any:
    """With gelsd and gelss the size of residuals depends on ranks, which are read; without data
    they are taken for full."""
    op = "lstsq"
    check_matrix(op, "self", self)
    check_dtype(op, "b", b)
    check_alike(op, "self", self, "b", b)
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
        rcond = (2.0**-52 if _real(of) is float64 else 2.0**-23) * max(m, n)
    rcond = given.real(op, "rcond", rcond)
    wide_a, wide_b = broadcast_batches(op, self, "b", matrix)
    batch = wide_b._geometry.sizes[:-2]
    columns = matrix._geometry.sizes[-1]
    wanted = (
        matrices((*batch, max(m, n), columns), of),
        contiguous_geometry(batch, int64),
        contiguous_geometry((*batch, min(m, n)), _real(of)),
    )
    if not self._geometry.numel or not matrix._geometry.numel:
        rows, rank, values = _zeros(wanted, self)
    else:
        rows, rank, values = library.call(op, lapack.lstsq, wanted, wide_a, wide_b, rcond, chosen)
    solution = calls.narrow(rows, -2, 0, n) if n < max(m, n) else rows
    residuals = calls.new_empty(self, (0,), _real(of), None, None, None)
    full = chosen == "gels" or self._device.type == "meta"
    full = chosen != "gelsy" and (full or all(r == n for r in _flat([rank.tolist()])))
    if m > n and full:
        rest = calls.abs(calls.narrow(rows, -2, n, m - n))
        residuals = calls.sum_dim_IntList(calls.mul_Tensor(rest, rest), (-2,), False, None)
    solution = calls.squeeze_dim(solution, -1) if vector else solution
    empty_rank = calls.new_empty(self, (0,), int64, None, None, None)
    has_values = chosen in ("gelsd", "gelss")
    values = values if has_values else calls.new_empty(self, (0,), _real(of), None, None, None)
    return solution, residuals, empty_rank if chosen == "gels" else rank, values
