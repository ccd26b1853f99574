"""Norms of vectors, and distances defined by norms: norm, dist, renorm, cdist, pdist,
cosine_similarity.

f16 and bf16 are computed in f32 and rounded once; norms of complex numbers are real.
Source: aten/src/ATen/native/LinearAlgebra.cpp, ReduceOps.cpp, Distance.cpp, TensorFactories.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.arguments import number, real
from ..core.device import CPU, META
from ..core.dtype import FLOATING, dtype
from ..core.promotion import result_type
from ..dispatch import defaults, shortcuts
from ..iterator.broadcast import broadcast_sizes
from ..kernels import stub
from ..structured import arguments, distances
from ..structured.forms import Kernel, given
from ..structured.layers.precision import cast, wide
from ..structured.shortcuts import computed as short, results
from ..tensor.tensor import Tensor
from .reduce import OneKernel, one_kernel, reduced

_distances = stub.compiled("distance", "distances")
_from_products = stub.compiled("distance", "products_to_distances")
_slopes = stub.compiled("distance", "distance_slopes")

# --- norms ----------------------------------------------------------------------------------------


def _number(op: str, arg: str, value: Any) -> float:
    found = number(value)
    if found is None or isinstance(found, (bool, complex)):
        raise errors.wrong_type(op, arg, "be a real number", value)
    return real(op, arg, found)


def _norm(op: str, self: Tensor, p: float, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """Return the norm of real or complex numbers; f16 and bf16 are computed in f32."""
    given = self._geometry
    loop, kernel = _loop(self, p), _kernel(self, p, dims, keepdim)
    if kernel is not None:
        return kernel(self)
    if given.dtype.itemsize == 2 and loop is None:
        wide = _norm(op, calls.to_dtype(self, dtypes.float32), p, dims, keepdim)
        return calls.to_dtype(wide, given.dtype)
    if given.numel == 0 and (p < 0 or math.isinf(p)):
        if any(given.sizes[d] == 0 for d in dims):
            rule = "name dimensions of non-zero size, as this norm has no value for no elements"
            raise errors.must(op, "dim", rule, dims)
    if loop is not None:
        return reduced(self, loop, dims, keepdim, given.dtype.to_real)
    x = calls.abs(self) if given.dtype.is_complex else self
    if not given.ndim:
        return calls.to_dtype(x != 0, x._geometry.dtype) if p == 0 else calls.abs(x)
    if p == 0:
        return calls.sum_dim_IntList(x != 0, dims, keepdim, dtype=x._geometry.dtype)
    if p == 2:
        return calls.sqrt(calls.sum_dim_IntList(x * x, dims, keepdim))
    size = x if given.dtype.is_complex else calls.abs(x)
    if math.isinf(p):
        return (calls.amax if p > 0 else calls.amin)(size, dims, keepdim)
    if p == 1:
        return calls.sum_dim_IntList(size, dims, keepdim)
    return calls.sum_dim_IntList(size**p, dims, keepdim) ** (1 / p)


def linalg_vector_norm(
    key_set: int, self: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False,
    dtype: dtype | None = None,
) -> Tensor:  # fmt: skip
    op, given = "linalg_vector_norm", self._geometry
    arguments.check_is_floating(op, "self", self, or_complex=True)
    p = _number(op, "ord", ord)
    keepdim = arguments.boolean(op, "keepdim", keepdim)
    if dtype is not None:
        if dtype.category < FLOATING or dtype.is_complex != given.dtype.is_complex:
            kind = "complex" if given.dtype.is_complex else "floating"
            raise errors.wrong_dtype(op, "dtype", f"be {kind}, as self is", dtype)
        self = calls.to_dtype(self, dtype)
    dims = _dims(op, dim, given.ndim)
    made = _norm(op, self, p, dims, keepdim)
    if dtype is None and (loop := _loop(self, p)) is not None:
        table, args = operators.linalg_vector_norm.table, (self, ord, dim, keepdim)
        make = short.reduction(loop, (dims, None, keepdim), made._geometry)
        short.learn_again(table, linalg_vector_norm, args, make, (None,))
    elif dtype is None and (kernel := _kernel(self, p, dims, keepdim)) is not None:
        kernel.learn(
            operators.linalg_vector_norm, linalg_vector_norm, (self, ord, dim, keepdim)
        )  # fmt: skip
    return made


def _loop(self: Tensor, p: Any) -> Callable[..., None] | None:
    """Return the CPU loop that computes this norm in one pass, or None."""
    given = self._geometry
    if self._device is not CPU or not given.ndim or type(p) not in (int, float):
        return None
    found: Callable[..., None] | None = stub.cpu("moments").bind(
        "norm", given.dtype, given.dtype.to_real, p
    )
    return found


_NAMES = {
    0: "norm_zero", 1: "norm_one", 2: "norm_two", math.inf: "norm_most", -math.inf: "norm_least",
}  # fmt: skip


def _kernel(self: Tensor, p: float, dims: tuple[int, ...], keepdim: bool) -> OneKernel | None:
    """Return the CUDA kernel that computes this norm, or None."""
    if not self._geometry.ndim:
        return None
    operator, name = operators.linalg_vector_norm, _NAMES.get(p, "norm_power")
    return one_kernel(operator, name, self, dims, keepdim, p, "reduce")


def _dims(op: str, dim: Any, ndim: int) -> tuple[int, ...]:
    dims = () if dim is None else arguments.dims(op, dim, ndim)
    return (dims or tuple(range(ndim))) if ndim else ()


def norm_ScalarOpt_dim_dtype(
    key_set: int, self: Tensor, p: Any, dim: Any, keepdim: bool, of: dtype | None = None
) -> Tensor:
    if (of or self._geometry.dtype).category < FLOATING:
        raise errors.wrong_dtype("norm", "self", "be floating or complex", self)
    if of is not None and self._geometry.dtype.is_complex and not of.is_complex:
        raise errors.wrong_dtype("norm", "dtype", "be complex, as self is", of)
    x = self if of is None else calls.to_dtype(self, of)
    return calls.linalg_vector_norm(x, 2 if p is None else p, dim, keepdim, dtype=None)


def norm_Scalar(key_set: int, self: Tensor, p: Any = 2) -> Tensor:
    table = operators.norm_Scalar.table
    made = norm_ScalarOpt_dim_dtype(key_set, self, p, None, False, None)
    dims = tuple(range(self._geometry.ndim))
    if (loop := _loop(self, p)) is not None:
        make = short.reduction(loop, (dims, None, False), made._geometry)
        short.learn_again(table, norm_Scalar, (self, p), make)
    elif type(p) in (int, float) and (kernel := _kernel(self, p, dims, False)) is not None:
        kernel.learn(operators.norm_Scalar, norm_Scalar, (self, p))
    return made


shortcuts.jumps(
    norm_Scalar, lambda: ((operators.linalg_vector_norm, shortcuts.CPU, linalg_vector_norm),)
)


norm_ScalarOpt_dtype: Kernel = given(norm_ScalarOpt_dim_dtype, dim=None, keepdim=False)
norm_ScalarOpt_dim = norm_ScalarOpt_dim_dtype


def renorm(key_set: int, self: Tensor, p: Any, dim: int, maxnorm: Any) -> Tensor:
    given = self._geometry
    arguments.check_is_floating("renorm", "self", self, or_complex=True)
    if given.ndim < 2:
        raise errors.wrong_shape("renorm", "self", "have at least two dimensions", self)
    if _number("renorm", "p", p) <= 0:
        raise errors.must("renorm", "p", "be positive", p)
    most = _number("renorm", "maxnorm", maxnorm)
    if most < 0:
        raise errors.must("renorm", "maxnorm", "not be negative", maxnorm)
    axis = arguments.dim("renorm", dim, given.ndim)
    others = tuple([d for d in range(given.ndim) if d != axis])
    x = calls.to_dtype(self, dtypes.float32) if given.dtype.itemsize == 2 else self
    size = calls.linalg_vector_norm(x, p, others, True, dtype=None)
    made = x * calls.where_self(size > most, most / (size + 1e-7), 1.0)
    made = calls.contiguous(made)
    return made if made._geometry.dtype is given.dtype else calls.to_dtype(made, given.dtype)


# --- distances ------------------------------------------------------------------------------------


def _check_points(op: str, arg: str, x: Tensor, p: Any) -> None:
    arguments.check_is_floating(op, arg, x)
    if x._geometry.ndim < 2:
        raise errors.wrong_shape(op, arg, "have at least two dimensions", x)
    if not _number(op, "p", p) >= 0:
        raise errors.must(op, "p", "not be negative", p)


def cdist(
    key_set: int, x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | None = None
) -> Tensor:
    _check_points("cdist", "x1", x1, p)
    _check_points("cdist", "x2", x2, p)
    columns = x1._geometry.sizes[-1]
    if x2._geometry.sizes[-1] != columns:
        raise errors.wrong_shape("cdist", "x2", f"have points of {columns} numbers, as x1", x2)
    if compute_mode is not None and compute_mode not in (0, 1, 2):
        raise errors.must("cdist", "compute_mode", "be 0, 1 or 2", compute_mode)
    return calls._cdist_forward(x1, x2, p, compute_mode)


# From this number of points on, distances are computed by matrix products. Source: Distance.cpp.
_MANY = 25


def _cdist_forward(
    key_set: int, x1: Tensor, x2: Tensor, p: float, compute_mode: int | None
) -> Tensor:
    for arg, x in (("x1", x1), ("x2", x2)):
        if x._geometry.ndim < 2:
            raise errors.wrong_shape("cdist", arg, "have at least two dimensions", x)
    first, second = x1._geometry.sizes[-2], x2._geometry.sizes[-2]
    by_products = compute_mode == 1 or not compute_mode and (first > _MANY or second > _MANY)
    by_products = by_products and p == 2
    has_elements = x1._geometry.sizes[-1] and first and second
    if x1._device is x2._device is CPU and has_elements:
        if (made := _cdist_by_loop(x1, x2, float(p), by_products)) is not None:
            return made
    if by_products and has_elements:
        a = calls.sum_dim_IntList(x1 * x1, (-1,), True)
        b = calls.sum_dim_IntList(x2 * x2, (-1,), True)
        squares = calls.matmul(x1, x2.mT) * -2 + a + b.mT
        return calls.sqrt(calls.where_self(squares < 0, 0.0, squares))
    apart = calls.unsqueeze(x1, -2) - calls.unsqueeze(x2, -3)
    if not x1._geometry.sizes[-1]:
        return calls.sum_dim_IntList(apart, (-1,), False)
    return _norm("cdist", apart, float(p), (apart._geometry.ndim - 1,), False)


def _cdist_by_loop(x1: Tensor, x2: Tensor, p: float, by_products: bool) -> Tensor | None:
    of = x1._geometry.dtype
    batch = broadcast_sizes(x1._geometry.sizes[:-2], x2._geometry.sizes[:-2])
    if batch is None or x2._geometry.dtype is not of:
        return None
    x, y = (calls.contiguous(_in_three_dims(wide(t), batch)) for t in (x1, x2))
    sizes = (x._geometry.sizes[0], x._geometry.sizes[1], y._geometry.sizes[1])
    made = calls.matmul(x, y.mT) if by_products else calls.new_empty(x, sizes)
    function, rest = (_from_products, ()) if by_products else (_distances, (p,))
    if not function(x._get_array(), y._get_array(), made._get_array(), *rest):
        return None
    return cast(calls.view(made, (*batch, *sizes[1:])), of)


def _in_three_dims(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Expand a batch of matrices to the sizes `batch`, and make it three-dimensional."""
    rows = x._geometry.sizes[-2:]
    return calls.reshape(calls.expand(x, (*batch, *rows), False), (-1, *rows))


def _cdist_backward(
    key_set: int, grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor
) -> Tensor:
    op = "_cdist_backward"
    _check_points(op, "x1", x1, p)
    _check_points(op, "x2", x2, p)
    width, points = x1._geometry.sizes[-1], (x1._geometry.sizes[-2], x2._geometry.sizes[-2])
    if x2._geometry.sizes[-1] != width:
        raise errors.wrong_shape(op, "x2", f"have points of {width} numbers, as x1", x2)
    batch = x1._geometry.sizes[:-2]
    for arg, x in (("x2", x2), ("grad", grad), ("cdist", cdist)):
        arguments.check_device(op, "x1", x1, arg, x)
        joint = broadcast_sizes(batch, x._geometry.sizes[:-2])
        if joint is None or (x is not x2 and x._geometry.sizes[-2:] != points):
            raise errors.wrong_shape(op, arg, f"broadcast to {[*batch, *points]}", x)
        batch = joint
    if x1._device is CPU and width and cdist._geometry.numel:
        g, x, y, lengths = (_in_three_dims(wide(t), batch) for t in (grad, x1, x2, cdist))
        made = _slopes_by_loop(g, x, y, lengths, float(p))
        if made is not None:
            return cast(calls.view(made, (*batch, points[0], width)), x1._geometry.dtype)
    return distances.cdist_slope(grad, x1, x2, p, cdist)


def _slopes_by_loop(grad: Tensor, x: Tensor, y: Tensor, lengths: Tensor, p: float) -> Tensor | None:
    x, y = calls.contiguous(x), calls.contiguous(y)
    made = calls.new_empty(x, x._geometry.sizes)
    done = _slopes(*(t._get_array() for t in (grad, x, y, lengths, made)), p)
    return made if done else None


def _euclidean_dist(key_set: int, x1: Tensor, x2: Tensor) -> Tensor:
    """Return the square root of |a|^2 - 2 ab + |b|^2 for all pairs. One matrix product computes the
    whole sum."""
    padded = []
    for x, factor in ((x1, -2), (x2, 1)):
        squares = calls.sum_dim_IntList(x * x, (-1,), True)
        ones = calls.ones_like(squares)
        padded.append([x * factor, *((squares, ones) if factor < 0 else (ones, squares))])
    first, second = (calls.cat(parts, -1) for parts in padded)
    return calls.sqrt(calls.clamp_min(calls.matmul(first, second.mT), 0))


def pdist(key_set: int, self: Tensor, p: float = 2.0) -> Tensor:
    if self._geometry.ndim != 2:
        raise errors.wrong_shape("pdist", "self", "have two dimensions", self)
    _check_points("pdist", "self", self, p)
    x = self if self._geometry.is_contiguous else calls.contiguous(self)
    return calls._pdist_forward(x, p)


def _pdist_forward(key_set: int, self: Tensor, p: float = 2.0) -> Tensor:
    """Return the upper triangle of the distance matrix, row by row."""
    if self._geometry.ndim != 2:
        raise errors.wrong_shape("pdist", "self", "have two dimensions", self)
    rows = self._geometry.sizes[0]
    # Allocate before any computation, so that a result that is too large raises at once.
    sized = calls.new_empty(self, (rows * (rows - 1) // 2,))
    if rows < 2 or self._device is META:
        return sized
    if self._device is CPU and self._geometry.numel:
        points = calls.contiguous(calls.unsqueeze(wide(self), 0))
        array, made = points._get_array(), wide(sized)
        if _distances(array, array, made._get_array(), float(p)):
            if made is sized and self._geometry.is_contiguous:
                _learn_pdist(self, p, made)
            return cast(made, self._geometry.dtype)
    del sized
    found: list[Tensor] = []
    behind: list[Tensor] = []
    waiting = 0
    for r in range(rows - 1):
        later = calls.slice_Tensor(self, 0, r + 1, rows, 1)
        behind.append(later - calls.select_int(self, 0, r))
        waiting += later._geometry.numel
        if waiting >= _AT_A_TIME or r == rows - 2:
            apart = behind[0] if len(behind) == 1 else calls.cat(behind, 0)
            found.append(_lengths(apart, float(p)))
            behind, waiting = [], 0
    return found[0] if len(found) == 1 else calls.cat(found, 0)


def _learn_pdist(x: Tensor, p: float, made: Tensor) -> None:
    """Store the short cut of `_pdist_forward`, for dense points of a dtype of the loop."""
    sizes, of = made._geometry.sizes, made._geometry.dtype.np

    def compute(array: Any) -> Any:
        points, out = array[None], numpy.empty(sizes, of)
        return out if _distances(points, points, out, float(p)) else None

    table = operators._pdist_forward.table
    results.learn(table, _pdist_forward, (x, p), made, compute, is_new=True)


shortcuts.jumps(_pdist_forward, lambda: (
    (operators.new_empty, shortcuts.CPU, "factory.new_empty"),
    (operators.unsqueeze, shortcuts.CPU, "structured.view_kernel.unsqueeze"),
    (operators.contiguous, shortcuts.CPU, "copy.contiguous"),
))  # fmt: skip


def _pdist_backward(key_set: int, grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    op = "_pdist_backward"
    if self._geometry.ndim != 2:
        raise errors.wrong_shape(op, "self", "have two dimensions", self)
    _check_points(op, "self", self, p)
    rows = self._geometry.sizes[0]
    for arg, x in (("grad", grad), ("pdist", pdist)):
        arguments.check_device(op, "self", self, arg, x)
        if x._geometry.sizes != (rows * (rows - 1) // 2,):
            raise errors.wrong_shape(op, arg, f"have sizes [{rows * (rows - 1) // 2}]", x)
    if self._device is CPU and self._geometry.numel and pdist._geometry.numel:
        points = calls.unsqueeze(wide(self), 0)
        made = _slopes_by_loop(wide(grad), points, points, wide(pdist), float(p))
        if made is not None:
            return cast(calls.squeeze_dim(made, 0), self._geometry.dtype)
    return distances.pdist_slope(grad, self, p, pdist)


# The number of differences that are stored at a time.
_AT_A_TIME = 1 << 18


def _lengths(apart: Tensor, p: float) -> Tensor:
    if not apart._geometry.sizes[1]:
        return calls.sum_dim_IntList(apart, (1,), False)
    return _norm("pdist", apart, p, (1,), False)


def pairwise_distance(
    key_set: int, x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    apart = calls.add_Tensor(calls.sub_Tensor(x1, x2), _number("pairwise_distance", "eps", eps))
    if not apart._geometry.ndim:
        raise errors.wrong_shape("pairwise_distance", "x1", "have a dimension", x1)
    return calls.norm_ScalarOpt_dim(apart, p, (-1,), keepdim)


def cosine_similarity(
    key_set: int, x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8
) -> Tensor:
    op = "cosine_similarity"
    operands = ((x1._geometry, x1._device), (x2._geometry, x2._device))
    of = result_type(op, operands, defaults.get_default_dtype())
    if of.category != FLOATING:
        arg, x = ("x1", x1) if x1._geometry.dtype is of else ("x2", x2)
        raise errors.wrong_dtype(op, arg, "be floating", x)
    sizes = broadcast_sizes(x1._geometry.sizes, x2._geometry.sizes)
    if sizes is None:
        raise errors.wrong_shape(op, "x2", "broadcast with x1", x2)
    axis, least = arguments.dim(op, dim, len(sizes)), _number(op, "eps", eps)
    in_dtype = dtypes.float32 if of.itemsize == 2 else of
    units = []
    for x in (x1, x2):
        if x._geometry.sizes != sizes:
            x = calls.expand(x, sizes)
        units.append(_unit(cast(x, in_dtype), axis, least))
    found = calls.sum_dim_IntList(calls.mul_Tensor(*units), (axis,) if sizes else (), False)
    return cast(found, of)


def _unit(x: Tensor, axis: int, least: float) -> Tensor:
    """Return x / max(norm, least). In backward, the denominator always has the derivative of the
    norm, even where the norm is below `least`."""
    size = calls.linalg_vector_norm(x, 2, (axis,), True)
    over = calls.clamp_max(calls.sub_Tensor(calls.detach(size), least), 0)
    return calls.div_Tensor(x, calls.sub_Tensor(size, over))
