"""Code that layer, RMS, group and batch norm share: statistics, scaling, gradients, and calls of
their kernels.

For f16 and bf16 inputs on the CPU, the family's kernels use f32 for parameters and statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._generated import calls
from ...core import errors, memory_format as formats
from ...core.arguments import real
from ...core.device import CPU
from ...core.dtype import dtype
from ...core.geometry import Geometry, contiguous_geometry
from ...dispatch import tls
from ...kernels import stub
from ...kernels.cpu.quiet import run
from ...tensor.make import allocate, over_array
from ...tensor.tensor import Tensor
from .precision import FLOAT, HALVES, cast, wide

Three = tuple[Tensor, Tensor, Tensor]
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def center(x: Tensor, dims: Any, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return x minus its mean, the mean, and the reciprocal square root of the variance. Reduced
    dimensions keep size 1."""
    eps = real("norm", "eps", eps)
    mean = calls.mean_dim(x, dims, True, None)
    centered = calls.sub_Tensor(x, mean)
    variance = calls.mean_dim(calls.mul_Tensor(centered, centered), dims, True, None)
    return centered, mean, 1 / calls.sqrt(variance + eps)


def affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        x = calls.mul_Tensor(x, wide(weight))
    return x if bias is None else calls.add_Tensor(x, wide(bias))


def in_format(x: Tensor, to: dtype, form: Any = formats.contiguous_format) -> Tensor:
    if not x._geometry.numel and form is formats.contiguous_format:
        return calls.new_empty(x, x._geometry.sizes, to)
    return calls.contiguous(cast(x, to), form)


def of_statistics(input: Tensor, *others: Tensor | None) -> dtype:
    """Return the dtype of `mean` and `rstd` for these inputs."""
    is_mixed = any(x is not None and x._geometry.dtype is FLOAT for x in others)
    return FLOAT if is_mixed and input._geometry.dtype in HALVES else input._geometry.dtype


def input_gradient(
    grad: Tensor, normal: Tensor, rstd: Tensor, dims: Any, is_centered: bool = True
) -> Tensor:
    """Return the gradient of an input that was normalised over `dims`. is_centered: True if the
    mean of the input was subtracted."""
    along = calls.mean_dim(grad * normal, dims, True, None)
    centered = grad - calls.mean_dim(grad, dims, True, None) if is_centered else grad
    return rstd * (centered - normal * along)


def parameter_gradient(x: Tensor, dims: Any, sizes: Any, of: dtype) -> Tensor:
    """Return sums of x over `dims`, with the sizes and dtype of the parameter."""
    summed = calls.sum_dim_IntList(x, dims, False) if dims else x
    return cast(calls.reshape(summed, sizes), of)


def composed_gradients(
    of_input: Callable[[], Tensor], grad: Tensor, normal: Tensor, rows: Any, sizes: Any, of: dtype,
    mask: Any,
) -> Gradients:  # fmt: skip
    """Return the requested gradients, computed by operators. normal: the normalised input. rows:
    the dimensions along which a weight is shared. sizes, of: the sizes and dtype of the
    parameters."""
    return (
        of_input() if mask[0] else None,
        parameter_gradient(grad * normal, rows, sizes, of) if mask[1] else None,
        parameter_gradient(grad, rows, sizes, of) if mask[2] else None,
    )


# --- kernels of the CPU --------------------------------------------------------------------------


def is_for_kernels(x: Tensor) -> bool:
    return x._device is CPU and x._geometry.numel > 0


def compute_dtype(x: Tensor) -> dtype:
    return FLOAT if x._geometry.dtype in HALVES else x._geometry.dtype


def dense_numbers(x: Tensor | None, of: dtype) -> Any:
    """Return a parameter or a statistic as a dense 1-d array."""
    return None if x is None else np.ascontiguousarray(cast(x, of)._get_array().reshape(-1))


def from_numbers(x: Any, sizes: tuple[int, ...], of: dtype) -> Tensor:
    """Return a tensor with these sizes and this dtype, made from an array. x: the gradient of a
    parameter, or a statistic."""
    return cast(over_array(x.reshape(sizes)), of)


def kernel_gradients(
    op: str, inputs: tuple[Any, ...], of_x: Tensor | None, into: Any, sizes: tuple[int, ...],
    of: dtype, mask: Any,
) -> Gradients:  # fmt: skip
    """Return the requested gradients, computed by a kernel. into: the array of `of_x` with the
    dimensions that the kernel expects. sizes, of: the sizes and dtype of the parameters."""
    count, compute = math.prod(sizes), FLOAT if of in HALVES else of
    found = [np.empty(count, compute.np) if is_wanted else None for is_wanted in mask[1:]]
    run(getattr(stub.cpu("norm"), op), *inputs, into, *found)
    of_weight, of_bias = [None if x is None else from_numbers(x, sizes, of) for x in found]
    return of_x, of_weight, of_bias


def empty_result(like: Tensor, form: Any = formats.contiguous_format) -> Tensor:
    if form is formats.contiguous_format:
        return allocate(contiguous_geometry(like._geometry.sizes, like._geometry.dtype), CPU)
    return calls.empty_like(like, None, None, None, None, form)


def check_mask(op: str, output_mask: Any, count: int = 3) -> None:
    if len(output_mask) != count:
        word = {2: "two", 3: "three"}[count]
        raise errors.must(op, "output_mask", f"hold {word} bools", output_mask)


def beside_channels(x: Tensor | None, sizes: tuple[int, ...]) -> Tensor | None:
    return None if x is None else calls.reshape(x, sizes)


def allocated(like: Tensor, layouts: tuple[Geometry, Geometry]) -> Three:
    """Return memory for the normalised input, the means and the reciprocal standard deviations.
    layouts: of the result and of the statistics."""
    made, mean, rstd = [allocate(layouts[n], like._device) for n in (0, 1, 1)]
    return made, mean, rstd


def by_rows(
    input: Tensor, rows: tuple[int, ...], params: list[Any], eps: float,
    results: tuple[Tensor, Tensor | None, Tensor],
) -> None:  # fmt: skip
    """Reshape the input to `rows` and normalise it on the CPU over all dimensions but the first.
    Write the normalised input, the means and the reciprocal standard deviations to `results`.
    If the means are None, divide rows by their root mean square."""
    made, *statistics = results
    found = [None if x is None else x._get_array().reshape(rows[0]) for x in statistics]
    x, out = [y._get_array().reshape(rows) for y in (input, made)]
    run(stub.cpu("norm").normalized, x, *params, eps, out, *found)


def each_channel(x: Tensor | None, times: int, rows: tuple[int, ...]) -> Any:
    """Repeat a parameter of C channels `times` times, once for each sample. Return it as an array
    (rows, channels of a group, 1) for group norm."""
    if x is None:
        return None
    return x._get_array().reshape(1, -1).repeat(times, 0).reshape(*rows[:2], 1)


def unbiased(numel: int, channels: int) -> float:
    count = numel // channels if channels else 0
    return count / (count - 1) if count > 1 else math.nan


def of_channels(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running: Any, training: bool,
    momentum: float, eps: float, of: dtype, form: Any,
) -> Three:  # fmt: skip
    """Compute native_batch_norm by the CPU's kernels."""
    compute, channels = compute_dtype(input), input._geometry.sizes[1]
    made, kernels = empty_result(input, form), stub.cpu("norm")
    x, out = by_channels(input, form), by_channels(made, form)
    scale, shift, *given = [dense_numbers(y, compute) for y in (weight, bias, *running)]
    if not training:
        run(kernels.channels_scaled, x, given[0], given[1], eps, scale, shift, out)
        none = contiguous_geometry((0,), of)
        return made, allocate(none, CPU), allocate(none, CPU)
    mean, variance, rstd = np.empty((3, channels), compute.np)
    run(kernels.channels_normalized, x, scale, shift, eps, out, mean, variance, rstd)
    variance *= unbiased(input._geometry.numel, channels)
    for kept, old, now in zip(running, given, (mean, variance)):
        if kept is not None:
            keep_running(kept, over_array(run(mixed, old, now, momentum)))
    return made, from_numbers(mean, (channels,), of), from_numbers(rstd, (channels,), of)


def keep_running(running: Tensor, now: Tensor) -> None:
    """Write running statistics without a new version. As in PyTorch, a module may run without
    gradients between the forward and the backward pass of a recorded batch."""
    with tls.AutoDispatchBelowADInplaceOrView():
        calls.copy_(running, now)


def mixed(old: Any, now: Any, momentum: float) -> Any:
    return old * (1 - momentum) + now * momentum


def by_channels(x: Tensor, form: Any) -> Any:
    """Return a tensor's array as (N, C, S), or as (N S, C, 1) in channels_last format."""
    sizes = x._geometry.sizes
    if form is formats.contiguous_format:
        if not x._geometry.is_contiguous:
            x = calls.contiguous(x)
        return x._get_array().reshape(*sizes[:2], -1)
    array = calls.contiguous(x, form)._get_array()
    return np.moveaxis(array, 1, -1).reshape(-1, sizes[1], 1)
