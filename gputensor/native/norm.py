"""Normalisations to mean 0 and variance 1, or to root mean square 1, over some dimensions, followed
by a scale and a shift.

On the CPU, they are loops of this family; on CUDA, kernels of norm.cu; on other devices, they are
composed of other operators. f16 and bf16 are computed in f32 and rounded once. If the input is f16
or bf16 and the weights are f32, the statistics are f32.

Source: aten/src/ATen/native/layer_norm.cpp, group_norm.cpp and Normalization.cpp.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import dtype as dtypes, errors, memory_format as formats
from ..core.arguments import real
from ..dispatch.shortcuts import CPU as JUMPED, jumps
from ..iterator import overlap
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..structured import arguments
from ..structured.layers import norm_kernels, norm_rows
from ..structured.shortcuts import results
from ..tensor.base import suggest_memory_format
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..structured.layers.normalizing import (
    Gradients, Three, affine, allocated, beside_channels, by_channels, by_rows, center, check_mask,
    composed_gradients, compute_dtype, dense_numbers, each_channel, empty_result, in_format,
    input_gradient, is_for_kernels, keep_running, kernel_gradients, mixed, of_channels,
    of_statistics, unbiased,
)  # fmt: skip
from ..structured.layers.precision import FLOAT, HALVES, check_floating, cast, wide


# --- layer norm -----------------------------------------------------------------------------------


def layer_norm(
    key_set: int, input: Tensor, normalized_shape: Any, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-05, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    made, _, rstd = calls.native_layer_norm(input, normalized_shape, weight, bias, eps)
    if cudnn_enable is True and is_for_kernels(input):
        of = arguments.sizes("layer_norm", normalized_shape, "normalized_shape")
        _learn(input, of, weight, bias, eps, made, rstd)
    return made


def _learn(
    input: Tensor, of: tuple[int, ...], weight: Tensor | None, bias: Tensor | None, eps: float,
    made: Tensor, rstd: Tensor,
) -> None:  # fmt: skip
    """Store the short cut of layer norm without gradients. It returns no statistics."""
    if weight is None and bias is not None or made._autograd is not None:
        return
    shape, count, number = made._geometry, rstd._geometry.numel, float(eps)
    statistics, normalized = rstd._geometry.dtype.np, stub.cpu("norm").normalized

    def compute(x: np.ndarray, *params: np.ndarray) -> np.ndarray:
        out, found = np.empty(shape.sizes, shape.dtype.np), np.empty((2, count), statistics)
        scale, shift = (*[y.reshape(1, -1) for y in params], None, None)[:2]
        normalized(x.reshape(count, -1), scale, shift, number, out.reshape(count, -1), *found)
        return out

    operands = (input, weight, bias)
    key = (input._geometry, of, *[None if y is None else y._geometry for y in (weight, bias)])
    table, args = operators.layer_norm.table, (*operands, of, eps)
    results.learn(table, layer_norm, args, made, compute, is_new=True, key=key)


jumps(layer_norm, lambda: ((operators.native_layer_norm, JUMPED, native_layer_norm),))


def native_layer_norm(
    key_set: int, input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> Three:  # fmt: skip
    table = operators.native_layer_norm.table
    rows = norm_rows.rows_of("layer_norm", table, input, normalized_shape, weight, bias)
    eps = real("norm", "eps", eps)
    kernels = norm_rows.kernels_outside_chains(table, rows, input)
    if kernels is not None or is_for_kernels(input):
        three = allocated(input, rows.layouts)
        steps = norm_rows.normalize(kernels, rows, input, weight, bias, eps, three)
        args = (input, normalized_shape, weight, bias, eps)
        norm_kernels.learn(operators.native_layer_norm, native_layer_norm, args, three, steps, 4)
        return three
    of = rows.layouts[1].dtype
    centered, mean, rstd = center(wide(input), rows.dims, eps)
    made = affine(calls.mul_Tensor(centered, rstd), weight, bias)
    return in_format(made, input._geometry.dtype), in_format(mean, of), in_format(rstd, of)


def native_layer_norm_backward(
    key_set: int, grad_out: Tensor, input: Tensor, normalized_shape: Any, mean: Tensor,
    rstd: Tensor, weight: Tensor | None, bias: Tensor | None, output_mask: Any,
) -> Gradients:  # fmt: skip
    check_mask("native_layer_norm_backward", output_mask)
    args = (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
    call = operators.native_layer_norm_backward, native_layer_norm_backward, args, 7
    return norm_rows.backward(call, *args)


# --- RMS norm -------------------------------------------------------------------------------------


def rms_norm(
    key_set: int, input: Tensor, normalized_shape: Any, weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    op, of = "rms_norm", input._geometry.dtype
    of_weight = of if weight is None else weight._geometry.dtype
    is_fused = of_weight is of or of_weight is FLOAT and of in HALVES
    # An empty input is computed by composed operators, so that its gradient has PyTorch's strides.
    if is_fused and not of.is_complex and input._geometry.numel:
        return calls._fused_rms_norm(input, normalized_shape, weight, eps)[0]
    if not of.is_complex:
        check_floating(op, input=input)
    wanted = norm_rows.check_normalized(op, input, normalized_shape)
    arguments.check_sizes(op, wanted, weight=weight)
    x, dims = wide(input), tuple(range(-len(wanted), 0))
    by = norm_rows.root_mean_square(x, dims, rms_eps(input, eps))
    return cast(affine(calls.mul_Tensor(x, by), weight, None), of)


def rms_eps(x: Tensor, eps: float | None = None) -> float:
    """Return eps. The default is the machine epsilon of the dtype in which x is computed."""
    if eps is None:
        return float(np.finfo(compute_dtype(x).to_real.np).eps)
    return real("rms_norm", "eps", eps)


def _fused_rms_norm(
    key_set: int, input: Tensor, normalized_shape: Any, weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    op, table = "rms_norm", operators._fused_rms_norm.table
    rows = norm_rows.rows_of(op, table, input, normalized_shape, weight, of=compute_dtype(input))
    by_eps = rms_eps(input, eps)
    kernels = norm_rows.kernels_outside_chains(table, rows, input)
    if kernels is not None or is_for_kernels(input):
        args = (input, normalized_shape, weight, eps)
        made, rstd = [allocate(layout, input._device) for layout in rows.layouts]
        steps = norm_rows.normalize(kernels, rows, input, weight, None, by_eps, (made, None, rstd))
        norm_kernels.learn(operators._fused_rms_norm, _fused_rms_norm, args, (made, rstd), steps, 3)
        return made, rstd
    x = wide(input)
    rstd = norm_rows.root_mean_square(x, rows.dims, by_eps)
    made = affine(calls.mul_Tensor(x, rstd), weight, None)
    return in_format(made, input._geometry.dtype), in_format(rstd, rows.layouts[1].dtype)


def _fused_rms_norm_backward(
    key_set: int, grad_out: Tensor, input: Tensor, normalized_shape: Any, rstd: Tensor,
    weight: Tensor | None, output_mask: Any,
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    check_mask("_fused_rms_norm_backward", output_mask, 2)
    args = (grad_out, input, normalized_shape, rstd, weight, output_mask)
    call = operators._fused_rms_norm_backward, _fused_rms_norm_backward, args, 5
    given = (grad_out, input, normalized_shape, None, rstd, weight, None, (*output_mask, False))
    of_input, of_weight, _ = norm_rows.backward(call, *given)
    return of_input, of_weight


# --- group norm -----------------------------------------------------------------------------------


def _integers(op: str, **given: Any) -> list[int]:
    return [arguments.integer(op, arg, value) for arg, value in given.items()]


def native_group_norm(
    key_set: int, input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int,
    HxW: int, group: int, eps: float,
) -> Three:  # fmt: skip
    op, operands = "group_norm", (input, weight, bias)
    N, C, HxW, group = numbers = _integers(op, N=N, C=C, HxW=HxW, num_groups=group)
    table, key = operators.native_group_norm.table, (*numbers, *norm_rows.layouts_of(operands))
    plan = table.plans.get(key)
    if plan is None:
        check_floating(op, input=input, weight=weight, bias=bias)
        if group < 1 or C % group:
            raise errors.must(op, "num_groups", f"divide the {C} channels", group)
        if input._geometry.numel != N * C * HxW:
            raise errors.wrong_shape(op, "input", f"have {N} x {C} x {HxW} elements", input)
        arguments.check_sizes(op, (C,), weight=weight, bias=bias)
        layouts = norm_rows.layouts(input, (N, group), of_statistics(*operands))
        plan = layouts, suggest_memory_format(input)
        table.remember(key, plan)
    (layouts, form), eps = plan, real("norm", "eps", eps)
    if is_for_kernels(input):
        rows = (N * group, C // group, HxW)
        params = [each_channel(x, N, rows) for x in (weight, bias)]
        x = input if input._geometry.is_contiguous else calls.contiguous(input)
        made, mean, rstd = results = allocated(input, layouts)
        by_rows(x, rows, params, eps, results)
        if form is not formats.contiguous_format:
            made = calls.contiguous(made, form)
        return made, mean, rstd
    kernels = norm_kernels.launches(table, input, (N, C, HxW, group))
    if kernels is not None:
        results = allocated(input, layouts)
        steps = norm_kernels.rows(kernels, input, weight, bias, eps, results)
        made, mean, rstd = results
        if form is formats.contiguous_format:
            args = (*operands, N, C, HxW, group, eps)
            norm_kernels.learn(operators.native_group_norm, native_group_norm, args, results, steps)
        return calls.contiguous(made, form), mean, rstd
    sizes, of = input._geometry.sizes, layouts[1].dtype
    grouped = calls.reshape(wide(input), (N, group, C // group * HxW))
    centered, mean, rstd = center(grouped, (2,), eps)
    along = (1, C, *[1] * (len(sizes) - 2))
    made = calls.reshape(calls.mul_Tensor(centered, rstd), sizes)
    made = affine(made, beside_channels(weight, along), beside_channels(bias, along))
    return (
        in_format(made, input._geometry.dtype, form),
        cast(calls.reshape(mean, (N, group)), of), cast(calls.reshape(rstd, (N, group)), of),
    )  # fmt: skip


def native_group_norm_backward(
    key_set: int, grad_out: Tensor, input: Tensor, mean: Tensor, rstd: Tensor,
    weight: Tensor | None, N: int, C: int, HxW: int, group: int, output_mask: Any,
) -> Gradients:  # fmt: skip
    op, given = "native_group_norm_backward", input._geometry
    check_floating(op, input=input, weight=weight, grad_out=grad_out, mean=mean, rstd=rstd)
    N, C, HxW, group = _integers(op, N=N, C=C, HxW=HxW, group=group)
    check_mask(op, output_mask)
    if group < 1 or C % group:
        raise errors.must(op, "group", f"divide the {C} channels", group)
    if given.numel != N * C * HxW:
        raise errors.wrong_shape(op, "input", f"have {N} x {C} x {HxW} elements", input)
    arguments.check_sizes(op, (C,), weight=weight)
    arguments.check_sizes(op, given.sizes, grad_out=grad_out)
    arguments.check_sizes(op, (N, group), mean=mean, rstd=rstd)
    rows, along = (N, group, C // group * HxW), (1, C, 1)
    of, form = of_statistics(input, weight), suggest_memory_format(input)
    if is_for_kernels(input):
        shape, compute = (N, group, C // group, HxW), compute_dtype(input)
        arrays = [calls.contiguous(x)._get_array().reshape(shape) for x in (grad_out, input)]
        numbers = [dense_numbers(x, compute) for x in (mean, rstd, weight)]
        made = empty_result(input) if output_mask[0] else None
        into = None if made is None else made._get_array().reshape(shape)
        inputs = (*arrays, *numbers)
        _, *others = kernel_gradients("grouped_backward", inputs, made, into, (C,), of, output_mask)
        return None if made is None else calls.contiguous(made, form), others[0], others[1]
    operator = operators.native_group_norm_backward
    kernels = norm_kernels.launches(operator.table, input, (N, C, HxW, group))
    if kernels is not None:
        args = (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
        call = (operator, native_group_norm_backward, args, None)
        made, *others = norm_kernels.rows_backward(
            kernels, grad_out, input, mean, rstd, weight, (C,), of, output_mask, call
        )
        return None if made is None else calls.contiguous(made, form), others[0], others[1]
    grad = calls.reshape(wide(grad_out), (N, C, HxW))
    grouped = calls.reshape(wide(input), rows)
    rstd = calls.unsqueeze(wide(rstd), 2)
    normal = (grouped - calls.unsqueeze(wide(mean), 2)) * rstd

    def of_input() -> Tensor:
        scaled = calls.reshape(affine(grad, beside_channels(weight, along), None), rows)
        found = calls.reshape(input_gradient(scaled, normal, rstd, (2,)), given.sizes)
        return in_format(found, given.dtype, form)

    flat = calls.reshape(normal, (N, C, HxW))
    return composed_gradients(of_input, grad, flat, (0, 2), (C,), of, output_mask)


def group_norm(
    key_set: int, input: Tensor, num_groups: int, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    sizes = input._geometry.sizes
    if len(sizes) < 2:
        raise errors.wrong_shape("group_norm", "input", "have two dimensions or more", input)
    rest = math.prod(sizes[2:])
    groups = arguments.integer("group_norm", "num_groups", num_groups)
    form = suggest_memory_format(input)
    x = calls.contiguous(input, form)
    return calls.native_group_norm(x, weight, bias, sizes[0], sizes[1], rest, groups, eps)[0]


# --- batch norm -----------------------------------------------------------------------------------


def native_batch_norm(
    key_set: int, input: Tensor, weight: Tensor | None, bias: Tensor | None,
    running_mean: Tensor | None, running_var: Tensor | None, training: bool, momentum: float,
    eps: float,
) -> Three:  # fmt: skip
    op, given = "batch_norm", input._geometry
    _check_batch_norm(op, input, weight, bias, running_mean, running_var, training)
    channels = given.sizes[1]
    of = of_statistics(input, weight, bias, running_mean, running_var)
    eps, form = real(op, "eps", eps), suggest_memory_format(input)
    if is_for_kernels(input):
        both = (running_mean, running_var)
        return of_channels(input, weight, bias, both, training, momentum, eps, of, form)
    table = operators.native_batch_norm.table
    kernels = norm_kernels.launches(table, input, norm_kernels.channels_of(input, form))
    if kernels is not None:
        running = running_mean, running_var
        three, steps = norm_kernels.channels(
            kernels, input, weight, bias, running, training, momentum, eps, of, form
        )
        args = (input, weight, bias, *running, training, momentum, eps)
        norm_kernels.learn(operators.native_batch_norm, native_batch_norm, args, three, steps)
        return three
    along, dims = (1, channels, *[1] * (given.ndim - 2)), (0, *range(2, given.ndim))
    x = wide(input)
    if training:
        centered, mean, rstd = center(x, dims, eps)
        saved = calls.reshape(mean, (channels,)), calls.reshape(rstd, (channels,))
        squares = calls.mean_dim(calls.mul_Tensor(centered, centered), dims, False, None)
        _update(running_mean, saved[0], momentum)
        _update(running_var, squares * unbiased(given.numel, channels), momentum)
        normal = calls.mul_Tensor(centered, rstd)
    else:
        assert running_mean is not None and running_var is not None
        normal = _by_running(x, running_mean, running_var, eps, along)[0]
        saved = calls.new_empty(input, (0,), of), calls.new_empty(input, (0,), of)
    made = affine(normal, beside_channels(weight, along), beside_channels(bias, along))
    return in_format(made, given.dtype, form), cast(saved[0], of), cast(saved[1], of)


def _check_batch_norm(
    op: str, input: Tensor, weight: Tensor | None, bias: Tensor | None,
    running_mean: Tensor | None, running_var: Tensor | None, training: bool,
) -> None:  # fmt: skip
    running = {"running_mean": running_mean, "running_var": running_var}
    check_floating(op, input=input, weight=weight, bias=bias, **running)
    given = input._geometry
    if given.ndim < 2:
        raise errors.wrong_shape(op, "input", "have two dimensions or more", input)
    arguments.check_sizes(op, given.sizes[1:2], weight=weight, bias=bias, **running)
    if not training and any(x is None for x in running.values()):
        raise errors.must(op, "running_mean", "be given where it is not training", None)
    for arg, x in running.items():
        if training and x is not None:
            overlap.check_itself(op, x, arg)


def _by_running(
    x: Tensor, mean: Tensor, var: Tensor, eps: float, along: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Return x normalised by given statistics, and the reciprocal standard deviations."""
    rstd = calls.reshape(1 / calls.sqrt(wide(var) + eps), along)
    centered = calls.sub_Tensor(x, calls.reshape(wide(mean), along))
    return calls.mul_Tensor(centered, rstd), rstd


def _update(running: Tensor | None, now: Tensor, momentum: float) -> None:
    if running is not None:
        found = mixed(wide(running), now, momentum)
        keep_running(running, cast(found, running._geometry.dtype))


def native_batch_norm_backward(
    key_set: int, grad_out: Tensor, input: Tensor, weight: Tensor | None,
    running_mean: Tensor | None, running_var: Tensor | None, save_mean: Tensor | None,
    save_invstd: Tensor | None, train: bool, eps: float, output_mask: Any,
) -> Gradients:  # fmt: skip
    op, given = "native_batch_norm_backward", input._geometry
    check_floating(op, input=input, weight=weight, grad_out=grad_out)
    check_mask(op, output_mask)
    if given.ndim < 2:
        raise errors.wrong_shape(op, "input", "have two dimensions or more", input)
    statistics = {"running_mean": running_mean, "running_var": running_var}
    if train:
        statistics = {"save_mean": save_mean, "save_invstd": save_invstd}
    for arg, x in statistics.items():
        if x is None:
            raise errors.must(op, arg, f"be given where 'train' is {train}", x)
    check_floating(op, input=input, **statistics)
    channels = given.sizes[1]
    arguments.check_sizes(op, (channels,), weight=weight, **statistics)
    arguments.check_sizes(op, given.sizes, grad_out=grad_out)
    of, form = of_statistics(input, weight, *statistics.values()), suggest_memory_format(input)
    eps = real(op, "eps", eps)
    mean, rstd = statistics.values()
    assert mean is not None and rstd is not None
    if is_for_kernels(input):
        compute = compute_dtype(input)
        numbers = [dense_numbers(x, compute) for x in (mean, rstd)]
        if not train:
            numbers[1] = run(np.divide, 1, run(np.sqrt, numbers[1] + eps))
        made = empty_result(input, form) if output_mask[0] else None
        arrays = [by_channels(x, form) for x in (grad_out, input)]
        inputs = (*arrays, *numbers, dense_numbers(weight, compute), bool(train))
        into = None if made is None else by_channels(made, form)
        return kernel_gradients(
            "channels_backward", inputs, made, into, (channels,), of, output_mask
        )
    operator, layout = operators.native_batch_norm_backward, norm_kernels.channels_of(input, form)
    kernels = norm_kernels.launches(operator.table, input, layout)
    if kernels is not None:
        tensors = (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd)
        args = (*tensors, train, eps, output_mask)
        call = operator, native_batch_norm_backward, args, None
        return norm_kernels.channels_backward(
            kernels, grad_out, input, mean, rstd, weight, train, eps, of, form, output_mask, call
        )
    along, dims = (1, channels, *[1] * (given.ndim - 2)), (0, *range(2, given.ndim))
    if train:
        rstd = calls.reshape(wide(rstd), along)
        normal = (wide(input) - calls.reshape(wide(mean), along)) * rstd
    else:
        normal, rstd = _by_running(wide(input), mean, rstd, eps, along)
    grad = wide(grad_out)

    def of_input() -> Tensor:
        scaled = affine(grad, beside_channels(weight, along), None)
        through = input_gradient(scaled, normal, rstd, dims) if train else scaled * rstd
        return in_format(through, given.dtype, form)

    return composed_gradients(of_input, grad, normal, dims, (channels,), of, output_mask)


def _batch_norm_with_update(
    key_set: int, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor,
    running_var: Tensor, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    found = calls.native_batch_norm(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (*found, calls.new_empty(input, (0,), dtypes.uint8))


def batch_norm(
    key_set: int, input: Tensor, weight: Tensor | None, bias: Tensor | None,
    running_mean: Tensor | None, running_var: Tensor | None, training: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    if not input._geometry.numel:
        made = calls.clone(input)
        made = made if weight is None else made * calls.select_int(weight, 0, 0)
        return made if bias is None else made + calls.select_int(bias, 0, 0)
    return calls.native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


def instance_norm(
    key_set: int, input: Tensor, weight: Tensor | None, bias: Tensor | None,
    running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    op = "instance_norm"
    sizes = input._geometry.sizes
    if len(sizes) < 2:
        raise errors.wrong_shape(op, "input", "have two dimensions or more", input)
    if not use_input_stats and (running_mean is None or running_var is None):
        raise errors.must(op, "running_mean", "be given without use_input_stats", None)
    samples, channels = sizes[:2]
    arguments.check_sizes(
        op, (channels,), weight=weight, bias=bias, running_mean=running_mean,
        running_var=running_var,
    )  # fmt: skip

    def repeated(x: Tensor | None) -> Tensor | None:
        return None if x is None else calls.repeat(x, (samples,))

    def statistics(x: Tensor | None) -> Tensor | None:
        """Repeat the statistics for all samples, and cast them to the input's dtype. As in PyTorch,
        the given statistics may have any floating dtype."""
        made = repeated(x)
        return None if made is None else calls.to_dtype(made, input.dtype)

    mean, var = statistics(running_mean), statistics(running_var)
    flat = calls.contiguous(input, suggest_memory_format(input))
    flat = calls.reshape(flat, (1, samples * channels, *sizes[2:]))
    made = calls.batch_norm(
        flat, repeated(weight), repeated(bias), mean, var, use_input_stats, momentum, eps, False
    )
    for running, of_each in ((running_mean, mean), (running_var, var)):
        if running is not None and of_each is not None and use_input_stats:
            rows = calls.reshape(of_each, (samples, channels))
            calls.copy_(running, calls.mean_dim(rows, (0,), False, None))
    return calls.reshape(made, sizes)
