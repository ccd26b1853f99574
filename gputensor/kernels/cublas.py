"""Matrix products by cuBLAS, through CuPy's low-level bindings.

One call of cuBLAS computes alpha * a @ b + beta * out, for a matrix or a batch of matrices, also of
bfloat16. CuPy's own `matmul` has no summand. cuBLAS expects column-major matrices, so it computes
the transpose of a row-major result: b.T @ a.T.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import errors
from ..core.dtype import bfloat16, complex64, complex128, dtype, float16, float32, float64

_PLAIN, _TRANSPOSED = 0, 1  # CUBLAS_OP_N and CUBLAS_OP_T
_DEFAULT = -1  # CUBLAS_GEMM_DEFAULT
# cudaDataType, cublasComputeType_t, and the type of alpha and beta. Sums are float32 or float64.
_TYPES: dict[dtype, tuple[int, int, str]] = {
    float32: (0, 68, "f"), float64: (1, 70, "d"), float16: (2, 68, "f"), bfloat16: (14, 68, "f"),
    complex64: (4, 68, "F"), complex128: (5, 70, "D"),
}  # fmt: skip
DTYPES = frozenset(_TYPES)
# cublasComputeType_t of float32 and complex64. CUBLAS_COMPUTE_32F_FAST_TF32 rounds operands to 10
# bits. Source: aten/src/ATen/Context.cpp, Float32MatmulPrecision.
_PRECISIONS = {"highest": 68, "high": 77, "medium": 77}
_SINGLE = (float32, complex64)

_precision = "highest"


def get_precision() -> str:
    """Return the precision of float32 products: highest, high or medium."""
    return _precision


def set_precision(precision: str) -> None:
    """Set the precision of float32 and complex64 products. See
    `torch.set_float32_matmul_precision`."""
    global _precision
    if precision not in _PRECISIONS:
        op, rule = "set_float32_matmul_precision", f"be one of {', '.join(_PRECISIONS)}"
        raise errors.wrong_value(op, "precision", rule, precision)
    _precision = precision


MOST = (1 << 31) - 1  # of rows, columns and strides of rows


def gemm(
    namespace: Any, of: dtype, out: Any, a: Any, b: Any, alpha: Any = 1, beta: Any = 0
) -> None:
    """Write alpha * a @ b + beta * out to `out`. If beta is 0, `out` is not read.

    of: the dtype of the elements. Arrays of bfloat16 are passed as int16 with the same bits.
    """
    element, compute, char = _TYPES[of]
    compute = _PRECISIONS[_precision] if of in _SINGLE else compute
    routines, handle = namespace.cublas()
    (a, a_form, a_row), (b, b_form, b_row) = _operand(namespace, a), _operand(namespace, b)
    into, (n, k) = out, (out.shape[-1], a.shape[-1])
    out_row = _row(out)
    if not out_row:
        into = namespace.np.array(out, order="C", copy=True)
        out_row = n
    # In host memory, which cuBLAS reads before it returns.
    scales = np.array([alpha, beta], char)
    first, second = scales.ctypes.data, scales.ctypes.data + scales.itemsize
    sizes = handle, b_form, a_form, n, out.shape[-2], k
    if out.ndim == 2:
        routines.gemmEx(
            *sizes, first, b.data.ptr, element, b_row, a.data.ptr, element, a_row,
            second, into.data.ptr, element, out_row, compute, _DEFAULT,
        )  # fmt: skip
    else:
        a_step, b_step, out_step = (x.strides[0] // x.itemsize for x in (a, b, into))
        routines.gemmStridedBatchedEx(
            *sizes, first, b.data.ptr, element, b_row, b_step, a.data.ptr, element, a_row, a_step,
            second, into.data.ptr, element, out_row, out_step, out.shape[0], compute, _DEFAULT,
        )  # fmt: skip
    if into is not out:
        out[...] = into


def _operand(namespace: Any, x: Any) -> tuple[Any, int, int]:
    """Return (matrices, CUBLAS_OP, elements between rows) of an operand, or of a copy if neither
    its rows nor its columns are dense."""
    row = _row(x)
    if row:
        return x, _PLAIN, row
    column = _row(x.swapaxes(-1, -2))
    if column:
        return x, _TRANSPOSED, column
    return namespace.np.array(x, order="C", copy=True), _PLAIN, x.shape[-1]


def _row(x: Any) -> int:
    """Return the elements from one row to the next if the elements of each row are adjacent, or 0.

    The stride of a dimension of size 1 does not matter.
    """
    rows, columns = x.shape[-2:]
    row, column = (by // x.itemsize for by in x.strides[-2:])
    if columns > 1 and column != 1:
        return 0
    if rows == 1:
        return int(columns)
    return int(row) if columns <= row <= MOST else 0


def on_host(of: dtype, out: Any, a: Any, b: Any, alpha: Any = 1, beta: Any = 0) -> None:
    """Compute `gemm` by NumPy. Products of half types are sums of float32, as in cuBLAS."""
    if of in (float16, bfloat16):
        out, a, b = (x.view(of.np) for x in (out, a, b))
        a, b = a.astype(np.float32), b.astype(np.float32)
    made = np.matmul(a, b) * np.array(alpha, _TYPES[of][2])
    out[...] = made if beta == 0 else made + out * np.array(beta, _TYPES[of][2])
