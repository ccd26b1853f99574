"""Derivatives of factorisations and solvers.

Source: torch/csrc/autograd/FunctionsManual.cpp. The functions are composed of differentiable
operators. If a function gets several incoming gradients, a gradient that is missing is None.
"""

from __future__ import annotations

from typing import Any

from ..._generated import calls
from ...core import errors
from ...structured.matrices import (
    adjoint_of as _H, identity, is_vector, lower as _tril, upper as _triu,
)  # fmt: skip
from ...tensor.tensor import Tensor


def _mm(x: Tensor, y: Tensor) -> Tensor:
    return calls.matmul(x, y)


def _column(x: Tensor) -> Tensor:
    return calls.unsqueeze(x, -1)


def _row(x: Tensor) -> Tensor:
    return calls.unsqueeze(x, -2)


def _diagonal(x: Tensor) -> Tensor:
    found: Tensor = calls.diagonal(x, 0, -2, -1)
    return found


def _on_diagonal(x: Tensor) -> Tensor:
    size = x._geometry.sizes[-1]
    places = calls.arange(size, None, None, x._device, None)
    return calls.where_self(calls.eq_Tensor(_column(places), places), _column(x), 0)


def _real(x: Tensor) -> Tensor:
    return calls.real(x) if x._geometry.dtype.is_complex else x


def _as(x: Tensor, like: Tensor) -> Tensor:
    return calls.to_dtype(x, like._geometry.dtype, False, False, None)


def _solve(A: Tensor, B: Tensor, left: bool = True) -> Tensor:
    return calls._linalg_solve_ex(A, B, left, False)[0]


def _solve_triangular(
    A: Tensor, B: Tensor, upper: bool, left: bool = True, unit: bool = False
) -> Tensor:
    return calls.linalg_solve_triangular(A, B, upper, left, unit)


# --- solve, inv, det ------------------------------------------------------------------------------


def linalg_inv_backward(grad: Tensor, inverse: Tensor) -> Tensor:
    turned = _H(inverse)
    return -_mm(turned, _mm(grad, turned))


def linalg_solve_B_backward(
    grad: Tensor, A: Tensor, B: Tensor, result: Tensor, left: bool
) -> Tensor:
    of_b, _, vector = _solved_for(grad, A, B, result, left)
    return calls.squeeze_dim(of_b, -1) if vector else of_b


def linalg_solve_A_backward(
    grad: Tensor, A: Tensor, B: Tensor, result: Tensor, left: bool
) -> Tensor:
    of_b, x, _ = _solved_for(grad, A, B, result, left)
    return -_mm(of_b, _H(x)) if left else -_mm(_H(x), of_b)


def _solved_for(grad: Tensor, A: Tensor, B: Tensor, result: Tensor, left: bool) -> Any:
    a, b = A._geometry.sizes, B._geometry.sizes
    vector = len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1])
    of_b = _solve(_H(A), _column(grad) if vector else grad, left)
    return of_b, (_column(result) if vector else result), vector


def linalg_det_backward(grad: Tensor, A: Tensor, det: Tensor) -> Tensor:
    """Return grad * conj(det) * A^-H, and zeros for a singular matrix."""
    is_zero = calls.eq_Tensor(det, 0)
    size = A._geometry.sizes[-1]
    regular = calls.where_self(_column(_column(is_zero)), identity(size, A), A)
    scale = _column(_column(calls.mul_Tensor(grad, calls.conj_physical(det))))
    return _solve(_H(regular), calls.mul_Tensor(scale, identity(size, A)))


def linalg_slogdet_backward(to_sign: Any, to_log: Any, A: Tensor, sign: Tensor) -> Any:
    if to_sign is None and to_log is None:
        return None
    size = A._geometry.sizes[-1]
    if not A._geometry.dtype.is_complex:
        if to_log is None:
            return calls.zeros_like(A)
        scale = to_log
    else:
        scale = calls.zeros_like(sign) if to_log is None else _as(to_log, sign)
        if to_sign is not None:  # a complex sign can only move along the unit circle
            around = calls.imag(calls.mul_Tensor(calls.conj_physical(to_sign), sign))
            scale = calls.add_Tensor(scale, calls.mul_Tensor(_as(around, sign), -1j), 1)
    return _solve(_H(A), calls.mul_Tensor(_column(_column(scale)), identity(size, A)))


# --- triangular, Cholesky, LU ---------------------------------------------------------------------


def linalg_triangular_B_backward(
    grad: Tensor, A: Tensor, upper: bool, left: bool, unit: bool
) -> Tensor:
    return _solve_triangular(_H(A), grad, not upper, left, unit)


def linalg_triangular_A_backward(
    grad: Tensor, A: Tensor, result: Tensor, upper: bool, left: bool, unit: bool
) -> Tensor:
    of_b = linalg_triangular_B_backward(grad, A, upper, left, unit)
    found = -_mm(of_b, _H(result)) if left else -_mm(_H(result), of_b)
    return _triu(found, int(unit)) if upper else _tril(found, -int(unit))


def _halved(x: Tensor) -> Tensor:
    """Return the lower triangle of x, with the diagonal halved."""
    return _tril(x) - 0.5 * _on_diagonal(_diagonal(x))


def linalg_cholesky_backward(grad: Tensor, L: Tensor, upper: bool) -> Tensor:
    factor, grad = (_H(L), _H(grad)) if upper else (L, grad)
    inner = _halved(_mm(_H(factor), grad))
    made = _solve_triangular(_H(factor), inner, True)
    made = _solve_triangular(factor, made, False, False)
    return 0.5 * (made + _H(made))


def linalg_lu_factor_backward(grad: Tensor, LU: Tensor, pivots: Tensor) -> Tensor:
    P, L, U = calls.lu_unpack(LU, pivots, True, True)
    m, n = LU._geometry.sizes[-2:]
    k = min(m, n)
    to_l = _tril(calls.narrow(grad, -1, 0, k), -1)
    to_u = _triu(calls.narrow(grad, -2, 0, k))
    if m < n:  # U's columns beyond the leading square depend on L
        beside = calls.narrow(to_u, -1, k, n - k)
        to_rest = _solve_triangular(_H(L), beside, True, True, True)
        to_l = to_l - _tril(_mm(to_rest, _H(calls.narrow(U, -1, k, n - k))), -1)
        to_u, U = calls.narrow(to_u, -1, 0, k), calls.narrow(U, -1, 0, k)
    elif m > n:  # L's rows below the leading square depend on U
        below = calls.narrow(to_l, -2, k, m - k)
        to_rest = _solve_triangular(_H(U), below, False, False)
        to_u = to_u - _triu(_mm(_H(calls.narrow(L, -2, k, m - k)), to_rest))
        to_l, L = calls.narrow(to_l, -2, 0, k), calls.narrow(L, -2, 0, k)
    inner = _tril(_mm(_H(L), to_l), -1) + _triu(_mm(to_u, _H(U)))
    made = _solve_triangular(_H(U), inner, False, False)
    made = _solve_triangular(_H(L), made, True, True, True)
    if m < n:
        made = calls.cat((made, to_rest), -1)
    elif m > n:
        made = calls.cat((made, to_rest), -2)
    return _mm(P, made)


def linalg_lu_unpack_backward(to_l: Any, to_u: Any, LU: Tensor) -> Tensor:
    m, n = LU._geometry.sizes[-2:]
    made = calls.zeros_like(LU)
    for grad, triangle in ((to_l, lambda x: _tril(x, -1)), (to_u, _triu)):
        if grad is not None:
            part = triangle(grad)
            rows, columns = part._geometry.sizes[-2:]
            batch = LU._geometry.sizes[:-2]
            if rows < m:
                part = calls.cat((part, calls.new_zeros(part, (*batch, m - rows, columns))), -2)
            if columns < n:
                part = calls.cat((part, calls.new_zeros(part, (*batch, m, n - columns))), -1)
            made = made + part
    return made


# --- QR, eigenvalues, singular values -------------------------------------------------------------


def linalg_qr_backward(to_q: Any, to_r: Any, Q: Tensor, R: Tensor, mode: str) -> Any:
    if mode == "r":
        raise errors.derivative_needs("qr", "Q, which mode='r' leaves out")
    if mode == "complete" and Q._geometry.sizes[-1] > R._geometry.sizes[-1]:
        raise errors.derivative_needs("qr", "as many columns as rows where mode='complete'")
    if to_q is None and to_r is None:
        return None
    m, n = Q._geometry.sizes[-2], R._geometry.sizes[-1]
    k = min(m, n)
    to_q = calls.zeros_like(Q) if to_q is None else to_q
    to_r = calls.zeros_like(R) if to_r is None else to_r
    rest = None
    if m < n:  # the columns of R beyond the square are Q^H times the same columns of A
        beside = calls.narrow(R, -1, k, n - k), calls.narrow(to_r, -1, k, n - k)
        rest = _mm(Q, beside[1])
        to_q = to_q + _mm(_mm(Q, beside[0]), _H(beside[1]))
        R, to_r = calls.narrow(R, -1, 0, k), calls.narrow(to_r, -1, 0, k)
    inner = _triu(_mm(to_r, _H(R)) - _mm(_H(Q), to_q))
    inner = inner + _H(inner) - _on_diagonal(_as(_real(_diagonal(inner)), inner))
    made = _solve_triangular(_H(R), _mm(Q, inner) + to_q, False, False)
    return made if rest is None else calls.cat((made, rest), -1)


def linalg_eigh_backward(to_l: Any, to_v: Any, L: Tensor, V: Tensor) -> Any:
    if V._geometry.ndim < 2:
        raise errors.derivative_needs("eigh", "eigenvectors, which compute_v=False leaves out")
    if to_l is None and to_v is None:
        return None
    if to_v is None:
        return _mm(V * _row(_as(to_l, V)), _H(V))
    inner = _mm(_H(V), to_v) / _apart(L, L)
    made = _mm(_mm(V, _with_diagonal(inner, to_l)), _H(V))
    return 0.5 * (made + _H(made))


def _apart(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix of the differences a[j] - b[i], and add 1 on the diagonal to avoid a
    zero."""
    return _row(a) - _column(b) + _on_diagonal(calls.ones_like(a))


def _with_diagonal(x: Tensor, diagonal: Any) -> Tensor:
    x = x - _on_diagonal(_diagonal(x))
    return x if diagonal is None else x + _on_diagonal(_as(diagonal, x))


def linalg_eig_backward(to_l: Any, to_v: Any, L: Tensor, V: Tensor, A: Tensor) -> Any:
    if to_l is None and to_v is None:
        return None
    turned = _H(V)
    if to_v is None:
        inner = _on_diagonal(to_l)
    else:
        inner = _mm(turned, to_v)
        inner = inner - _mm(turned, V) * _row(_as(_real(_diagonal(inner)), V))
        inner = _with_diagonal(inner / _apart(calls.conj_physical(L), calls.conj_physical(L)), to_l)
    made = _solve(turned, _mm(inner, turned))
    return made if A._geometry.dtype.is_complex else _real(made)


def linalg_svd_backward(to_u: Any, to_s: Any, to_vh: Any, U: Tensor, S: Tensor, Vh: Tensor) -> Any:
    if U._geometry.ndim < 2:
        raise errors.derivative_needs("svd", "vectors, which compute_uv=False leaves out")
    if to_u is None and to_s is None and to_vh is None:
        return None
    k, m, n = S._geometry.sizes[-1], U._geometry.sizes[-2], Vh._geometry.sizes[-1]
    U, Vh = calls.narrow(U, -1, 0, k), calls.narrow(Vh, -2, 0, k)
    if to_u is None and to_vh is None:
        return _mm(U * _row(_as(to_s, U)), Vh)
    wide = _as(S, U)
    squares = S * S
    apart = _as(_apart(squares, squares), U)
    core = None
    if to_u is not None:
        to_u = calls.narrow(to_u, -1, 0, k)
        of_u = _mm(_H(U), to_u)
        skew = of_u - _H(of_u)
        core = skew / apart * _row(wide)
        if U._geometry.dtype.is_complex:
            core = core + _on_diagonal(_diagonal(skew) / (2 * wide))
    if to_vh is not None:
        to_vh = calls.narrow(to_vh, -2, 0, k)
        of_v = _mm(Vh, _H(to_vh))
        part = _column(wide) * ((of_v - _H(of_v)) / apart)
        core = part if core is None else core + part
    assert core is not None
    if to_s is not None:
        core = core + _on_diagonal(_as(to_s, U))
    made = _mm(_mm(U, core), Vh)
    if to_u is not None and m > k:
        scaled = to_u / _row(wide)
        made = made + _mm(scaled - _mm(U, _mm(_H(U), scaled)), Vh)
    if to_vh is not None and n > k:
        scaled = to_vh / _column(wide)
        made = made + _mm(U, scaled - _mm(_mm(scaled, _H(Vh)), Vh))
    return made


# --- functions of matrices ------------------------------------------------------------------------


def linalg_matrix_exp_backward(grad: Tensor, A: Tensor) -> Tensor:
    """Return the upper right block of exp [[A^H, grad], [0, A^H]]."""
    n = A._geometry.sizes[-1]
    turned = _H(A)
    above = calls.cat((turned, grad), -1)
    below = calls.cat((calls.zeros_like(turned), turned), -1)
    whole = calls.linalg_matrix_exp(calls.cat((above, below), -2))
    return calls.narrow(calls.narrow(whole, -2, 0, n), -1, n, n)


def linalg_pinv_backward(grad: Tensor, pinv: Tensor, A: Tensor) -> Tensor:
    m, n = A._geometry.sizes[-2:]
    turned, of = _H(pinv), _H(grad)
    if m <= n:
        K = _mm(of, pinv)
        Kh = _mm(K, turned)
        return (
            -_H(_mm(pinv, K)) + Kh - _mm(_mm(A, pinv), Kh)
            + _mm(_mm(turned, pinv), of - _mm(K, A))
        )  # fmt: skip
    K = _mm(pinv, of)
    hK = _mm(turned, K)
    return -_H(_mm(K, pinv)) + _mm(_mm(of - _mm(A, K), pinv), turned) + hK - _mm(_mm(hK, pinv), A)


def linalg_lstsq_A_backward(
    to_x: Any, to_residuals: Any, A: Tensor, B: Tensor, solution: Tensor
) -> Any:
    b, x, to_x = _as_matrices(A, B, solution, to_x)
    made = None
    if to_x is not None:
        pinv = calls.linalg_pinv_atol_rtol_tensor(A, None, None, False)
        made = linalg_pinv_backward(_mm(to_x, _H(b)), pinv, A)
    if _has_residuals(to_residuals):
        part = _mm(_of_residuals(to_residuals, A, b, x), _H(x))
        made = part if made is None else made + part
    return made


def linalg_lstsq_B_backward(
    to_x: Any, to_residuals: Any, A: Tensor, B: Tensor, solution: Tensor
) -> Any:
    b, x, to_x = _as_matrices(A, B, solution, to_x)
    made = None
    if to_x is not None:
        pinv = calls.linalg_pinv_atol_rtol_tensor(A, None, None, False)
        made = _mm(_H(pinv), to_x)
    if _has_residuals(to_residuals):
        part = -_of_residuals(to_residuals, A, b, x)
        made = part if made is None else made + part
    return made if made is None or not is_vector(A, B) else calls.squeeze_dim(made, -1)


def _as_matrices(A: Tensor, B: Tensor, solution: Tensor, to_x: Any) -> tuple[Tensor, Tensor, Any]:
    if not is_vector(A, B):
        return B, solution, to_x
    return _column(B), _column(solution), None if to_x is None else _column(to_x)


def _has_residuals(grad: Any) -> bool:
    """True if there are residuals. For some drivers and ranks there are none."""
    return grad is not None and grad._geometry.numel > 0


def _of_residuals(grad: Tensor, A: Tensor, B: Tensor, X: Tensor) -> Tensor:
    """Return the gradient of the residuals with respect to A X. At the least-squares solution, the
    derivative of the residuals with respect to X is zero."""
    return 2 * (_mm(A, X) - B) * _row(_as(grad, B))
