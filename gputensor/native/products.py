"""Products of vectors, and of several matrices, computed by mm and pointwise operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import number
from ..core.dtype import BOOL, FLOATING, dtype
from ..core.geometry import contiguous_geometry
from ..core.number_range import in_64_bits
from ..dispatch.shortcuts import CPU as CPU_CALL, jumps
from ..kernels import stub
from ..structured import arguments, library
from ..structured.shortcuts import computed as short
from ..tensor.tensor import Tensor
from .binary import check_scale
from .view import squeeze_dim, unsqueeze


BY_LIBRARY = True  # dot and vdot call NumPy or CuPy.


def _check_vector(op: str, arg: str, x: Tensor) -> None:
    if x._geometry.ndim != 1:
        raise errors.wrong_shape(op, arg, "be a vector", x)


# --- vectors --------------------------------------------------------------------------------------


def _check_dot(op: str, self: Tensor, other: Tensor, arg: str) -> Any:
    a, b = self._geometry, other._geometry
    _check_vector(op, "self", self)
    _check_vector(op, arg, other)
    arguments.check_alike(op, "self", self, arg, other)
    if a.dtype.is_opaque:
        raise errors.not_computed(op, "self", a.dtype, self)
    if a.sizes != b.sizes:
        raise errors.wrong_shape(op, arg, f"have {a.sizes[0]} elements, as self has", other)
    return contiguous_geometry((), a.dtype)


def dot(key_set: int, self: Tensor, tensor: Tensor) -> Tensor:
    wanted = _check_dot("dot", self, tensor, "tensor")
    made = _dot("dot", lambda of, a, b: of.np.dot(a, b), wanted, self, tensor)
    if _has_blas(wanted):
        make = short.made_by(np.dot, made._geometry)
        short.learn_again(operators.dot.table, dot, (self, tensor), make)
    return made


def vdot(key_set: int, self: Tensor, other: Tensor) -> Tensor:
    wanted = _check_dot("vdot", self, other, "other")
    made = _dot("vdot", lambda of, a, b: of.np.vdot(a, b), wanted, self, other)
    if _has_blas(wanted) and not wanted.dtype.is_complex:
        make = short.made_by(np.dot, made._geometry)
        short.learn_again(operators.vdot.table, vdot, (self, other), make)
    return made


def _has_blas(wanted: Any) -> bool:
    return bool(wanted.dtype.category >= FLOATING and wanted.dtype.itemsize > 2)


def _dot(op: str, function: Any, wanted: Any, a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two vectors. BLAS computes it for the dtypes that it supports. Half
    types, integers and bool are computed as a product of two matrices."""
    if _has_blas(wanted):
        return library.call(op, function, (wanted,), a, b)[0]
    made = calls.mm(calls.unsqueeze(a, 0), calls.unsqueeze(b, 1))
    return calls.view(made, ())


def outer(key_set: int, self: Tensor, vec2: Tensor) -> Tensor:
    _check_vector("outer", "self", self)
    _check_vector("outer", "vec2", vec2)
    made = calls.mul_Tensor(calls.reshape(self, (-1, 1)), vec2)
    sizes = made._geometry.sizes
    compute = _outer((sizes[:1] + (1,), sizes[1:], sizes, sizes), made, self, vec2)
    if compute is not None:
        make = short.made_new(compute, made._geometry)
        short.learn_again(operators.outer.table, outer, (self, vec2), make)
    return made


def _outer(sizes: tuple[Any, ...], made: Tensor, a: Tensor, b: Tensor) -> Any:
    """Return a function that takes the arrays of a and b, and returns the array of `made`, their
    product. Return None if the product needs a cast, or a layout that is not row-major.

    sizes: the sizes of a and of b, so that they broadcast; of their product; and of the result.
    """
    shape, (first, second, apart, whole) = made._geometry, sizes
    allocate, of = short.new_array(shape), shape.dtype
    if allocate is None or a._geometry.dtype is not of or b._geometry.dtype is not of:
        return None
    multiply = _loop("mul", of)

    def compute(a: Any, b: Any) -> Any:
        out = allocate()
        multiply(a.reshape(first), b.reshape(second), out.reshape(apart))
        return out.reshape(whole)

    return compute


@lru_cache
def _loop(op: str, of: dtype) -> Any:
    return stub.cpu_loop("binary", op, (of, of), of, of)


_BINARY = "structured.pointwise.cpu.binary.<locals>.kernel"


def _over_outer() -> Any:
    return (
        (operators.reshape, CPU_CALL, "view.reshape"), (operators.mul_Tensor, CPU_CALL, _BINARY),
    )  # fmt: skip


jumps(outer, _over_outer)


def inner(key_set: int, self: Tensor, other: Tensor) -> Tensor:
    a, b = self._geometry, other._geometry
    if not a.ndim or not b.ndim:
        return calls.mul_Tensor(self, other)
    if a.sizes[-1] != b.sizes[-1]:
        raise errors.wrong_shape("inner", "other", f"have a last size of {a.sizes[-1]}", other)
    return calls.tensordot(self, other, (-1,), (-1,))


def linalg_vecdot(key_set: int, x: Tensor, y: Tensor, dim: int) -> Tensor:
    arguments.check_is_floating("vecdot", "x", x, or_complex=True)
    arguments.check_dtype("vecdot", "x", x, "y", y)
    if x._geometry.ndim == 1 and y._geometry.sizes == x._geometry.sizes:
        return calls.vdot(x, y)
    return calls.sum_dim_IntList(calls.mul_Tensor(calls.conj_physical(x), y), (dim,), False, None)


# --- a matrix and vectors -------------------------------------------------------------------------


def mv(key_set: int, self: Tensor, vec: Tensor) -> Tensor:
    _check_mv("mv", "self", self, vec)
    made = calls.squeeze_dim(calls.mm(self, calls.unsqueeze(vec, 1)), 1)
    if made._geometry.in_numpy and _has_blas(made._geometry):
        dot = stub.cpu("matmul").dot
        make = short.made_new(lambda a, b: dot(a, b[:, None])[:, 0], made._geometry)
        short.learn_again(operators.mv.table, mv, (self, vec), make)
    return made


def _over_product(product: Any, kernel: str) -> Any:
    return (
        (operators.unsqueeze, CPU_CALL, unsqueeze), (operators.squeeze_dim, CPU_CALL, squeeze_dim),
        (product, CPU_CALL, f"matmul.{kernel}"),
    )  # fmt: skip


def _check_mv(op: str, arg: str, matrix: Tensor, vec: Tensor) -> None:
    if matrix._geometry.ndim != 2:
        raise errors.wrong_shape(op, arg, "be a matrix", matrix)
    _check_vector(op, "vec", vec)
    if matrix._geometry.sizes[1] != vec._geometry.sizes[0]:
        rule = f"have {matrix._geometry.sizes[1]} elements, as {arg} has columns"
        raise errors.wrong_shape(op, "vec", rule, vec)


def addmv(
    key_set: int, self: Tensor, mat: Tensor, vec: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    _check_mv("addmv", "mat", mat, vec)
    rows = mat._geometry.sizes[0]
    if self._geometry.sizes not in ((), (1,), (rows,)):
        raise errors.wrong_shape("addmv", "self", f"broadcast to {[rows]}", self)
    added = calls.unsqueeze(self, -1) if self._geometry.ndim else self
    made = calls.squeeze_dim(calls.addmm(added, mat, calls.unsqueeze(vec, 1), beta, alpha), 1)
    shape, is_sum = made._geometry, beta == alpha == 1
    if is_sum and shape.in_numpy and _has_blas(shape) and self._geometry.ndim:
        add, args = stub.cpu("matmul").added, (self, mat, vec, beta, alpha)
        make = short.made_new(lambda x, a, b: add(x[:, None], a, b[:, None])[:, 0], shape)
        short.learn_again(operators.addmv.table, addmv, args, make)
    return made


jumps(mv, lambda: _over_product(operators.mm, "functional.<locals>.cpu"))
jumps(addmv, lambda: _over_product(
    operators.addmm, "added_functional.<locals>.kernel"
))  # fmt: skip


def _plain(op: str, arg: str, value: Any) -> Any:
    """Return a Python number for a Python or NumPy number."""
    found = number(value)
    if found is None:
        raise errors.wrong_type(op, arg, "be a number", value)
    return found


def _scale(arg: str, value: Any, highest: int) -> Any:
    """Return alpha or beta of addr as a checked number. highest: the operands' highest category."""
    found = in_64_bits("addr", arg, _plain("addr", arg, value))
    if type(found) is complex and not found.imag and highest == FLOATING:
        return found.real
    check_scale("addr", arg, found, highest)
    return found


def addr(
    key_set: int, self: Tensor, vec1: Tensor, vec2: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """Return beta * self + alpha * (outer product). For bool, sum and product are `or` and `and`.
    Source: aten/src/ATen/native/LinearAlgebra.cpp, math_addr."""
    _check_vector("addr", "vec1", vec1)
    _check_vector("addr", "vec2", vec2)
    sizes = [*vec1._geometry.sizes, *vec2._geometry.sizes]
    given = (1, 1, *self._geometry.sizes)[-2:]
    if self._geometry.ndim > 2 or any(n not in (1, m) for n, m in zip(given, sizes)):
        raise errors.wrong_shape("addr", "self", f"broadcast to {sizes}", self)
    product = outer(0, vec1, vec2)
    highest = max(product._geometry.dtype.category, self._geometry.dtype.category)
    alpha, beta = _scale("alpha", alpha, highest), _scale("beta", beta, highest)
    is_bool = highest == BOOL
    if is_bool and not alpha:
        product = calls.zeros_like(product)
    elif alpha != 1 and not is_bool:
        product = calls.mul_Tensor(product, alpha)
    if not beta:
        if product._geometry.dtype is self._geometry.dtype:
            return product
        return calls.to_dtype(product, _common(self, product), False, False, None)
    if is_bool:
        return calls.maximum(calls.expand(self, tuple(sizes), False), product)
    made = calls.add_Tensor(product, self, beta)
    args = self, vec1, vec2, beta, alpha
    compute = _outer((sizes[:1] + [1], sizes[1:], sizes, sizes), made, vec1, vec2)
    if compute is not None and beta == alpha == 1 and self._geometry.dtype is made._geometry.dtype:
        add = _loop("add", made._geometry.dtype)

        def added(x: Any, a: Any, b: Any) -> Any:
            out = compute(a, b)
            add(out, x, out)
            return out

        make = short.made_new(added, made._geometry)
        short.learn_again(operators.addr.table, addr, args, make)
    return made


jumps(addr, lambda: (*_over_outer(), (operators.add_Tensor, CPU_CALL, _BINARY)))


def _common(self: Tensor, product: Tensor) -> Any:
    return calls.add_Tensor(
        calls.new_empty(self, (0,)), calls.new_empty(product, (0,))
    )._geometry.dtype


def kron(key_set: int, self: Tensor, other: Tensor) -> Tensor:
    """Return the Kronecker product. Source: aten/src/ATen/native/LinearAlgebra.cpp, KronImpl."""
    ndim = max(self._geometry.ndim, other._geometry.ndim)
    first = (1,) * (ndim - self._geometry.ndim) + self._geometry.sizes
    second = (1,) * (ndim - other._geometry.ndim) + other._geometry.sizes
    blocks = tuple([x for size in first for x in (size, 1)])
    inside = tuple([x for size in second for x in (1, size)])
    made = calls.mul_Tensor(calls.reshape(self, blocks), calls.reshape(other, inside))
    made = calls.reshape(made, tuple([a * b for a, b in zip(first, second)]))
    apart = tuple([n for pair in zip(first, second) for n in pair])
    compute = _outer((blocks, inside, apart, made._geometry.sizes), made, self, other)
    if compute is not None:
        make = short.made_new(compute, made._geometry)
        short.learn_again(operators.kron.table, kron, (self, other), make)
    return made


jumps(kron, _over_outer)


# --- several matrices -----------------------------------------------------------------------------


def chain_matmul(key_set: int, matrices: Sequence[Tensor]) -> Tensor:
    for x in matrices:
        if x._geometry.ndim != 2:
            raise errors.wrong_shape("chain_matmul", "matrices", "be matrices", x)
    if not matrices:
        raise errors.must("chain_matmul", "matrices", "hold a matrix at least", ())
    return matrices[0] if len(matrices) == 1 else calls.linalg_multi_dot(matrices)


def linalg_multi_dot(key_set: int, tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of several matrices. Source: aten/src/ATen/native/LinearAlgebra.cpp,
    multi_dot_impl."""
    op, count = "multi_dot", len(tensors)
    if count < 2:
        raise errors.must(op, "tensors", "hold two tensors at least", count)
    factors = list(tensors)
    for place, x in ((0, factors[0]), (-1, factors[-1])):
        if x._geometry.ndim not in (1, 2):
            raise errors.wrong_shape(op, "tensors", "begin and end in a matrix or a vector", x)
        if x._geometry.ndim == 1:
            factors[place] = calls.unsqueeze(x, place)
    for x, following in pairwise(factors):
        if following._geometry.ndim != 2 or x._geometry.sizes[1] != following._geometry.sizes[0]:
            rule = f"hold a matrix of {x._geometry.sizes[1]} rows after {errors.describe(x)}"
            raise errors.wrong_shape(op, "tensors", rule, following)
    made = _chained(factors)
    kept = (tensors[0]._geometry.sizes[:-1], tensors[-1]._geometry.sizes[1:])
    return calls.view(made, (*kept[0], *kept[1]))


def _chained(factors: list[Tensor]) -> Tensor:
    """Multiply matrices in the cheapest order. Source: Cormen et al., Introduction to Algorithms,
    MATRIX-CHAIN-ORDER."""
    count = len(factors)
    sizes = [factors[0]._geometry.sizes[0], *[x._geometry.sizes[1] for x in factors]]
    cost = [[0] * count for _ in factors]
    cut = [[0] * count for _ in factors]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = [
                cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            ]
            cost[i][j] = min(costs)
            cut[i][j] = i + costs.index(cost[i][j])

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return factors[i]
        return calls.mm(product(i, cut[i][j]), product(cut[i][j] + 1, j))

    return product(0, count - 1)
