"""Matrix products by cuBLAS, through CuPy's low-level bindings.

One call of cuBLAS computes alpha * a @ b + beta * out, for a matrix or a batch of matrices. CuPy's
own `matmul` has no summand. cuBLAS expects column-major matrices, so it computes the transpose of a
row-major result: b.T @ a.T.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..core import errors
from ..core.dtype import bfloat16, complex64, complex128, dtype, float16, float32, float64
from ..core.geometry import Geometry, Sizes
from ..runtime import capture
from . import stub

_PLAIN, _TRANSPOSED = 0, 1  # CUBLAS_OP_N and CUBLAS_OP_T
_DEFAULT = -1  # CUBLAS_GEMM_DEFAULT
# cudaDataType, cublasComputeType_t, and the type of alpha and beta. Sums are float32 or float64.
_TYPES: dict[dtype, tuple[int, int, str]] = {
    float32: (0, 68, "f"), float64: (1, 70, "d"), float16: (2, 68, "f"), bfloat16: (14, 68, "f"),
    complex64: (4, 68, "F"), complex128: (5, 70, "D"),
}  # fmt: skip
DTYPES = frozenset(_TYPES)
MOST = (1 << 31) - 1  # of rows, columns, batches, and elements between rows
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


# From this number of multiplications on, cuBLAS is faster than our kernel, of which a product of
# 128 x 128 has only four blocks. This limit is an estimate from peak rates.
LARGE = 1 << 20

# Dtypes of products that cuBLAS has computed. CuPy 14 does not allow cuBLAS in a graph capture.
# There our kernels compute the products of these dtypes: see `ready_for_capture`.
_sent: set[dtype] = set()


def takes(of: dtype, sizes: Sizes, inner: int) -> bool:
    """True if cuBLAS computes a product of these sizes on CUDA. inner: the number of products in
    each sum."""
    if math.prod(sizes) * inner < LARGE or of not in DTYPES:
        return False
    if max(*sizes, inner) > MOST:
        return False
    if capture.capturing:
        return capture.here() is None
    _sent.add(of)
    return True


def ready_for_capture(device_index: int) -> None:
    """Load the kernels that replace cuBLAS in captures. A capture cannot load kernels itself."""
    for of in _sent:
        stub.cuda("matmul").ready(of, device_index)


class Product:
    """The call of cuBLAS for operands of fixed layouts. `form` must accept the layouts of a and b;
    out has adjacent elements in each row."""

    __slots__ = ("_of", "_sizes", "_b", "_a", "_out", "_count")

    def __init__(self, out: Geometry, a: Geometry, b: Geometry) -> None:
        (*batch, m, n), k = out.sizes, a.sizes[-1]
        element, layouts = _TYPES[out.dtype][0], []
        for g in (b, a, out):
            found = form(g)
            assert found is not None and (g is not out or found[0] == _PLAIN)
            step = (g.strides[0],) if batch else ()
            layouts.append((found[0], (element, found[1], *step)))
        (b_form, self._b), (a_form, self._a), (_, self._out) = layouts
        self._of, self._sizes = out.dtype, (b_form, a_form, n, m, k)
        self._count = tuple(batch)

    def __call__(
        self, routines: Any, handle: int, out: int, a: int, b: int, alpha: Any, beta: Any
    ) -> None:
        """Queue alpha * a @ b + beta * out on CuPy's current stream. out, a, b: addresses. If beta
        is 0, `out` is not read."""
        _, compute, char = _TYPES[self._of]
        if self._of in _SINGLE:
            compute = _PRECISIONS[_precision]
        scales = _scales(char, alpha, beta)
        run = routines.gemmStridedBatchedEx if self._count else routines.gemmEx
        run(
            handle, *self._sizes, scales[1], b, *self._b, a, *self._a, scales[2], out, *self._out,
            *self._count, compute, _DEFAULT,
        )  # fmt: skip


@lru_cache(1 << 10)
def product(out: Geometry, a: Geometry, b: Geometry) -> Product:
    """Return the Product of these layouts. It is made once."""
    return Product(out, a, b)


@lru_cache(1 << 8)
def _scales(char: str, alpha: Any, beta: Any) -> tuple[np.ndarray, int, int]:
    """Return alpha and beta in host memory, which cuBLAS reads before it returns, and their
    addresses."""
    made = np.array([alpha, beta], char)
    return made, made.ctypes.data, made.ctypes.data + made.itemsize


def form(g: Geometry) -> tuple[int, int] | None:
    """Return (CUBLAS_OP, elements between rows) of a matrix or a batch. Return None if neither its
    rows nor its columns are dense, so that it must be copied."""
    (rows, columns), (row, column) = g.sizes[-2:], g.strides[-2:]
    for op, (n, count, adjacent, step) in (
        (_PLAIN, (rows, columns, column, row)), (_TRANSPOSED, (columns, rows, row, column)),
    ):  # fmt: skip
        if count > 1 and adjacent != 1:
            continue
        if n == 1:
            return op, count
        if count <= step <= MOST:
            return op, step
    return None


def on_host(
    library: Any, out: Any, of: dtype, a: Any, b: Any, alpha: Any = 1, beta: Any = 0
) -> None:
    """Compute the product by NumPy. Sums of half types are float32, as in cuBLAS."""
    if of in (float16, bfloat16):
        a, b = a.astype(np.float32), b.astype(np.float32)
    made = np.matmul(a, b) * np.array(alpha, _TYPES[of][2])
    out[...] = made if beta == 0 else made + out * np.array(beta, _TYPES[of][2])
