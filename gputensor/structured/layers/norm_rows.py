"""Code that layer norm and RMS norm share: operands that are rows, and calls of their kernels.

A row is the elements of the last dimensions, whose sizes are `normalized_shape`. RMS norm has no
mean: None replaces it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..._generated import calls
from ...core import errors
from ...core.dtype import dtype
from ...core.geometry import Geometry, contiguous_geometry
from ...dispatch import tls
from ...dispatch.keys import FUSE
from ...dispatch.operator import Table
from ...tensor.tensor import Tensor
from .. import arguments
from . import norm_kernels
from .normalizing import (
    Gradients, affine, by_rows, composed_gradients, compute_dtype, dense_numbers,
    empty_result, in_format, input_gradient, is_for_kernels, kernel_gradients, of_statistics,
)  # fmt: skip
from .precision import check_floating, wide


class Rows(NamedTuple):
    """The layouts of a call. counts: (number of rows, number of elements of a row). dims: the
    dimensions of a row. layouts: (layout of the result, layout of the statistics)."""

    counts: tuple[int, int]
    dims: tuple[int, ...]
    layouts: tuple[Geometry, Geometry]


def check_normalized(op: str, input: Tensor, normalized_shape: Any) -> tuple[int, ...]:
    """Return normalized_shape as a tuple. Raises: ShapeError unless the input's last sizes equal
    it."""
    wanted = arguments.sizes(op, normalized_shape, "normalized_shape")
    sizes = input._geometry.sizes
    if not wanted:
        raise errors.must(op, "normalized_shape", "have a dimension", normalized_shape)
    if sizes[len(sizes) - len(wanted) :] != wanted or len(wanted) > len(sizes):
        raise errors.wrong_shape(op, "input", f"end in the sizes {list(wanted)}", input)
    return wanted


def layouts_of(operands: tuple[Tensor | None, ...]) -> list[Any]:
    return [None if x is None else (x._geometry, x._device) for x in operands]


def layouts(input: Tensor, kept: tuple[int, ...], of: dtype) -> tuple[Geometry, Geometry]:
    """Return the layouts of the result and of the statistics. kept: the statistics' sizes."""
    given = input._geometry
    return contiguous_geometry(given.sizes, given.dtype), contiguous_geometry(kept, of)


def rows_of(
    op: str, table: Table, input: Tensor, normalized_shape: Any, weight: Tensor | None,
    bias: Tensor | None = None, of: dtype | None = None,
) -> Rows:  # fmt: skip
    """Check the operands and return their layouts, which the table stores. of: the dtype of the
    statistics, if the operands do not determine it."""
    wanted = arguments.sizes(op, normalized_shape, "normalized_shape")
    operands = (input, weight, bias)
    key = (wanted, *layouts_of(operands))
    found: Rows | None = table.plans.get(key)
    if found is None:
        check_floating(op, input=input, weight=weight, bias=bias)
        check_normalized(op, input, wanted)
        arguments.check_sizes(op, wanted, weight=weight, bias=bias)
        sizes = input._geometry.sizes
        outer = sizes[: len(sizes) - len(wanted)]
        made = layouts(input, (*outer, *[1] * len(wanted)), of or of_statistics(*operands))
        counts, dims = (math.prod(outer), math.prod(wanted)), tuple(range(-len(wanted), 0))
        found = Rows(counts, dims, made)
        table.remember(key, found)
    return found


def kernels_outside_chains(table: Table, rows: Rows, input: Tensor) -> Any:
    """Return the launches of the CUDA kernels. Return None if the kernels do not support the input,
    or if a chain records the call as smaller operators, which is so for short rows."""
    kernels = norm_kernels.launches(table, input, (*rows.counts, 1, 1))
    is_fusing = tls.state.get()[0] & FUSE
    if kernels is None or is_fusing and norm_kernels.is_composed_in_chains(kernels, input):
        return None
    return kernels


def normalize(
    kernels: Any, rows: Rows, input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float,
    results: tuple[Tensor, Tensor | None, Tensor],
) -> Any:  # fmt: skip
    """Write the normalised input, the means and the reciprocal standard deviations to `results`. If
    `kernels` is None, CPU kernels compute them, otherwise these CUDA kernels. Return the launches
    for a short cut, or None."""
    if kernels is not None:
        return norm_kernels.rows(kernels, input, weight, bias, eps, results)
    params = [None if x is None else x._get_array().reshape(1, -1) for x in (weight, bias)]
    by_rows(input, rows.counts, params, eps, results)
    return None


def backward(
    call: norm_kernels.Call, grad_out: Tensor, input: Tensor, normalized_shape: Any,
    mean: Tensor | None, rstd: Tensor, weight: Tensor | None, bias: Tensor | None, mask: Any,
) -> Gradients:  # fmt: skip
    """Return the requested gradients of input, weight and bias. call: the call of the operator that
    computes them."""
    op, table = call[0].short_name, call[0].table
    check_floating(
        op, input=input, weight=weight, bias=bias, grad_out=grad_out, mean=mean, rstd=rstd
    )  # fmt: skip
    wanted = check_normalized(op, input, normalized_shape)
    sizes, outer = input._geometry.sizes, len(input._geometry.sizes) - len(wanted)
    arguments.check_sizes(op, wanted, weight=weight, bias=bias)
    arguments.check_sizes(op, sizes, grad_out=grad_out)
    arguments.check_sizes(op, (*sizes[:outer], *(1,) * len(wanted)), mean=mean, rstd=rstd)
    dims, rows = tuple(range(-len(wanted), 0)), tuple(range(outer))
    of = of_statistics(input, weight, bias)
    if is_for_kernels(input):
        shape, compute = (-1, math.prod(wanted)), compute_dtype(input)
        given = [x._get_array().reshape(shape) for x in (grad_out, input)]
        numbers = [dense_numbers(x, compute) for x in (mean, rstd, weight)]
        made = empty_result(input) if mask[0] else None
        into = None if made is None else made._get_array().reshape(shape)
        inputs = (*given, *numbers)
        return kernel_gradients("normalized_backward", inputs, made, into, wanted, of, mask)
    layout = (math.prod(sizes[:outer]), math.prod(wanted), 1, 1)
    kernels = norm_kernels.launches(table, input, layout)
    if kernels is not None:
        return norm_kernels.rows_backward(
            kernels, grad_out, input, mean, rstd, weight, wanted, of, mask, call
        )
    grad, x, rstd = wide(grad_out), wide(input), wide(rstd)
    normal = (x if mean is None else x - wide(mean)) * rstd

    def of_input() -> Tensor:
        scaled = affine(grad, weight, None)
        found = input_gradient(scaled, normal, rstd, dims, mean is not None)
        return in_format(found, input._geometry.dtype)

    return composed_gradients(of_input, grad, normal, rows, wanted, of, mask)


def root_mean_square(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """Return the reciprocals of the root mean squares over `dims`, which keep size 1."""
    squares = calls.mean_dim(calls.mul_Tensor(x, x), dims, True, None)
    return 1 / calls.sqrt(squares + eps)
