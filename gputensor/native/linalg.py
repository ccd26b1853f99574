"""Matrix powers and exponentials, and products of vectors: linear algebra without factorisations.

Source: aten/src/ATen/native/LinearAlgebra.cpp and BatchLinearAlgebra.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import errors
from ..core.dtype import FLOATING, bfloat16, float16, float32, float64, int32, int64
from ..core.geometry import contiguous_geometry
from ..dispatch import shortcuts
from ..iterator.broadcast import broadcast_sizes
from ..kernels import lapack
from ..structured import arguments
from ..structured.matrices import beside, check_square, factorised
from ..structured.shortcuts import results as short
from ..tensor.tensor import Tensor
from .view import expand

BY_LIBRARY = True


def linalg_matrix_exp(key_set: int, self: Tensor) -> Tensor:
    element = self._geometry.dtype
    if element in (float16, bfloat16):
        made = calls.linalg_matrix_exp(calls.to_dtype(self, float32, False, False, None))
        return calls.to_dtype(made, element, False, False, None)
    check_square("matrix_exp", "self", self)
    wanted = contiguous_geometry(self._geometry.sizes, self._geometry.dtype)
    return factorised("matrix_exp", lapack.matrix_exp, (wanted,), self)[0]


def matrix_power(key_set: int, self: Tensor, n: int) -> Tensor:
    """Return self to the power of n. Source: aten/src/ATen/native/LinearAlgebra.cpp,
    linalg_matrix_power_impl."""
    n = arguments.integer("matrix_power", "n", n)
    if self._geometry.ndim < 2 or self._geometry.sizes[-1] != self._geometry.sizes[-2]:
        rule = "be a square matrix or a batch of them"
        raise errors.wrong_shape("matrix_power", "self", rule, self)
    if n < 0:
        self, n = calls.linalg_inv(self), -n
    if n == 0:
        size = self._geometry.sizes[-1]
        one = calls.eye(size, self._geometry.dtype, None, self._device, None)
        return beside(calls.expand(one, self._geometry.sizes, False), self)
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
    made = calls.stack(tuple(parts), d)
    if a.dtype is b.dtype and a.dtype in _AS_NUMPY:
        table, args = operators.linalg_cross.table, (self, other, dim)
        short.learn(table, linalg_cross, args, made, _crossing(made, d), is_new=True)
    return made


# In these dtypes, products and differences have the same bits in NumPy and in our operators.
_AS_NUMPY = (float32, float64, int32, int64)


def _crossing(made: Tensor, dim: int) -> Any:
    """Return a function that computes linalg_cross of two arrays. Its result has the sizes and the
    dtype of `made`."""
    sizes, element = made._geometry.sizes, made._geometry.dtype.np

    def compute(a: Any, b: Any) -> Any:
        array = np.empty(sizes, element)
        x, y, out = [
            np.broadcast_to(z, sizes).swapaxes(0, dim) if z.shape != sizes else z.swapaxes(0, dim)
            for z in (a, b, array)
        ]
        for place, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
            np.subtract(x[i] * y[j], x[j] * y[i], out[place, ...])
        return array

    return compute


shortcuts.jumps(linalg_cross, lambda: (
    (operators.expand, shortcuts.CPU, expand),
    (operators.select_int, shortcuts.CPU, "slicing.select"),
    (operators.mul_Tensor, shortcuts.CPU, "structured.pointwise.cpu.binary.<locals>.kernel"),
    (operators.sub_Tensor, shortcuts.CPU, "structured.pointwise.cpu.binary.<locals>.kernel"),
    (operators.stack, shortcuts.CPU, "join.stack"),
))  # fmt: skip


def cross(key_set: int, self: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Return the cross product along `dim`, by default along the first dimension of size 3."""
    if dim is None:
        found = [d for d, size in enumerate(self._geometry.sizes) if size == 3]
        if not found:
            raise errors.wrong_shape("cross", "self", "have a dimension of size 3", self)
        dim = found[0]
    return calls.linalg_cross(self, other, dim)
