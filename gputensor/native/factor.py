"""Factorisations of matrices: LU, Cholesky, LDL and QR; determinants.

Results are column-major, as in PyTorch. Only `_linalg_check_errors` reads values on the host, so no
other function waits for a GPU.
Source: aten/src/ATen/native/BatchLinearAlgebra.cpp and LinearAlgebra.cpp.
"""

from __future__ import annotations

import math
from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import flag
from ..core.dtype import int32
from ..core.geometry import contiguous_geometry
from ..core.memory_format import contiguous_format
from ..dispatch import shortcuts
from ..kernels import lapack
from ..structured import arguments, library
from ..structured.matrices import (
    adjoint_of, beside, by_columns, check_matrix, check_pivots, check_square, checked, factorised,
    identity, lower, lu_sizes, matrices, upper, zeros,
)  # fmt: skip
from ..structured.shortcuts import results as short
from ..tensor.tensor import Tensor

BY_LIBRARY = True


def _is_turned(A: Tensor) -> bool:
    """Return True for a real row-major matrix. PyTorch factorises the transpose of such a
    matrix."""
    return A._geometry.is_contiguous and not A._geometry.dtype.is_complex


# --- LU, determinants -----------------------------------------------------------------------------


def linalg_lu_factor_ex(
    key_set: int, A: Tensor, pivot: bool = True, check_errors: bool = False
) -> Any:
    check_matrix("lu_factor", "A", A)
    if not pivot:
        raise errors.must("lu_factor", "pivot", "be True", pivot)
    wanted = lu_sizes(A)
    made = factorised("lu_factor", lapack.lu_factor, wanted, A)
    return checked(made, "torch.linalg.lu_factor_ex", A, check_errors)


def linalg_lu_factor(key_set: int, A: Tensor, pivot: bool = True) -> Any:
    made = calls.linalg_lu_factor_ex(A, pivot, False)
    return checked(made, "torch.linalg.lu_factor", A)[:2]


def linalg_lu(key_set: int, A: Tensor, pivot: bool = True) -> Any:
    LU, pivots, _ = calls.linalg_lu_factor_ex(A, pivot, False)
    P, L, U = calls.lu_unpack(LU, pivots, True, True)
    return P, L, U


def _linalg_check_errors(key_set: int, info: Tensor, api_name: str, is_matrix: bool) -> None:
    """Raise an error for the first nonzero info. Source:
    aten/src/ATen/native/BatchLinearAlgebra.cpp, _linalg_check_errors."""
    if info._device.type == "meta":
        return
    values = calls.reshape(info, (-1,)).tolist()
    number = next((number for number, value in enumerate(values) if value), None)
    if number is not None:
        place = None if is_matrix else number
        raise errors.not_solvable(api_name, values[number], place)


def lu_unpack(
    key_set: int, LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> Any:  # fmt: skip
    check_matrix("lu_unpack", "LU_data", LU_data)
    *batch, m, n = LU_data._geometry.sizes
    k = min(m, n)
    if LU_pivots._geometry.dtype is not int32:
        raise errors.wrong_dtype("lu_unpack", "LU_pivots", "be i32", LU_pivots)
    arguments.check_sizes("lu_unpack", (*batch, k), LU_pivots=LU_pivots)
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
            check_pivots("lu_unpack", "LU_pivots", namespace, pivots, m)
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


def _linalg_det(key_set: int, A: Tensor) -> Any:
    check_square("det", "A", A)
    lu, pivots, _ = lu_sizes(A)
    wanted = (contiguous_geometry(A._geometry.sizes[:-2], A._geometry.dtype), lu, pivots)
    if not A._geometry.numel:
        _, *rest = zeros(wanted, A)
        return calls.new_ones(A, wanted[0].sizes), *rest
    turned = _is_turned(A)

    def compute(namespace: Any, a: Any) -> Any:
        lu, pivots, _ = lapack.lu_factor(namespace, a.swapaxes(-1, -2) if turned else a)
        return lapack.det(namespace, lu, pivots), lu, pivots

    return library.by_lapack("det", compute, wanted, A)


def linalg_det(key_set: int, A: Tensor) -> Tensor:
    return calls._linalg_det(A)[0]


def _linalg_slogdet(key_set: int, A: Tensor) -> Any:
    check_square("slogdet", "A", A)
    lu, pivots, _ = lu_sizes(A)
    batch, of = A._geometry.sizes[:-2], A._geometry.dtype
    wanted = (contiguous_geometry(batch, of), contiguous_geometry(batch, of.to_real), lu, pivots)
    if not A._geometry.numel:
        _, logarithm, *rest = zeros(wanted, A)
        return calls.new_ones(A, batch), logarithm, *rest
    turned = _is_turned(A)

    def compute(namespace: Any, a: Any) -> Any:
        lu, pivots, _ = lapack.lu_factor(namespace, a.swapaxes(-1, -2) if turned else a)
        return *lapack.slogdet(namespace, lu, pivots), lu, pivots

    return library.by_lapack("slogdet", compute, wanted, A)


def linalg_slogdet(key_set: int, A: Tensor) -> Any:
    return tuple(calls._linalg_slogdet(A)[:2])


def logdet(key_set: int, self: Tensor) -> Tensor:
    """Return the logarithm of the determinant; NaN if the determinant is negative."""
    sign, size = linalg_slogdet(0, self)
    if self._geometry.dtype.is_complex:
        return calls.add_Tensor(size, calls.log(sign))
    return calls.where_self(calls.eq_Tensor(sign, -1), math.nan, size)


# --- Cholesky, LDL --------------------------------------------------------------------------------


def linalg_cholesky_ex(
    key_set: int, self: Tensor, upper: bool = False, check_errors: bool = False
) -> Any:
    check_square("cholesky", "self", self)
    sizes = self._geometry.sizes
    wanted = (matrices(sizes, self._geometry.dtype), contiguous_geometry(sizes[:-2], int32))
    is_upper = flag("cholesky", "upper", upper)
    made = factorised("cholesky", lapack.cholesky, wanted, self, is_upper)
    return checked(made, "torch.linalg.cholesky_ex", self, check_errors)


def linalg_cholesky(key_set: int, self: Tensor, upper: bool = False) -> Tensor:
    made: Tensor = checked(calls.linalg_cholesky_ex(self, upper, False), "linalg.cholesky", self)[0]
    if self._geometry.numel:
        factor = library.lapack_on_host(lapack.cholesky, self._geometry, upper)

        def compute(x: Any) -> Any:
            found, info = factor(x)
            # If the factorisation failed, return None. The kernel then runs and reports the error.
            return found if not info.any() else None

        short.learn(operators.linalg_cholesky.table, linalg_cholesky, (self, upper), made, compute)
    return made


shortcuts.jumps(linalg_cholesky, lambda: (
    (operators.linalg_cholesky_ex, shortcuts.CPU, linalg_cholesky_ex),
    (operators._linalg_check_errors, shortcuts.CPU, _linalg_check_errors),
))  # fmt: skip


def cholesky(key_set: int, self: Tensor, upper: bool = False) -> Tensor:
    if not self._geometry.numel:
        check_square("cholesky", "self", self)
        return calls.clone(self, contiguous_format)
    return linalg_cholesky(0, self, upper)


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
    made = factorised("ldl_factor", lapack.ldl_factor, wanted, self, hermitian)
    return checked(made, "torch.linalg.ldl_factor_ex", self, check_errors)


def linalg_ldl_factor(key_set: int, self: Tensor, hermitian: bool = False) -> Any:
    made = calls.linalg_ldl_factor_ex(self, hermitian, False)
    return checked(made, "torch.linalg.ldl_factor", self)[:2]


# --- QR -------------------------------------------------------------------------------------------


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
        Q, R = zeros((q, r), A)
        return (
            calls.expand(identity(rows, A), q.sizes, False).clone() if mode == "complete" else Q
        ), R

    def compute(namespace: Any, a: Any) -> Any:
        found = lapack.qr(namespace, a, mode)
        return (namespace.np.empty(0, a.dtype), found) if mode == "r" else found

    made = library.by_lapack("qr", compute, (q, r), A)
    on_host = library.lapack_on_host(compute, A._geometry)
    short.learn(operators.linalg_qr.table, linalg_qr, (A, mode), made, on_host)
    return made


def geqrf(key_set: int, self: Tensor) -> Any:
    check_matrix("geqrf", "self", self)
    *batch, m, n = self._geometry.sizes
    of = self._geometry.dtype
    wanted = (matrices((*batch, m, n), of), contiguous_geometry((*batch, min(m, n)), of))
    return factorised("geqrf", lapack.geqrf, wanted, self)


def _reflected(
    reflectors: Tensor, tau: Tensor, x: Tensor, from_left: bool, conjugated: bool,
    backwards: bool,
) -> Tensor:  # fmt: skip
    """Multiply x from the left or from the right by all reflectors H_i = 1 - tau_i v_i v_i^H.

    backwards: the product begins with the last reflector.
    """
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
    arguments.check_dtype(op, "input", input, "tau", tau)
    eye = calls.cat((identity(n, input), calls.new_zeros(input, (m - n, n))), 0)
    eye = calls.expand(eye, (*batch, m, n), False)
    made = _reflected(input, tau, eye, True, False, True)
    return by_columns(made if k else beside(made, input))


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
    return by_columns(_reflected(self, input2, input3, left, transpose, backwards))
