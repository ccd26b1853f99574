"""Operands and results of the CUDA kernels for layer, RMS, group and batch norm
(kernels/cuda/norm.cu).

The kernels treat an input as a dense array (samples, channels, size). Parameters and statistics
have the dtype of the arithmetic, or are all f16 or bf16 like the input.
"""

from __future__ import annotations

import math
from typing import Any

from ..._generated import calls
from ...core import memory_format as formats
from ...core.dtype import dtype
from ...core.geometry import contiguous_geometry
from ...dispatch.operator import Operator, Table
from ...kernels import stub
from ...tensor.make import allocate
from ...tensor.tensor import Tensor
from ..shortcuts import cuda_calls
from ..shortcuts.computed import comes_again
from .normalizing import keep_running
from .precision import FLOAT, HALVES, cast

Three = tuple[Tensor, Tensor, Tensor]
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]
# (samples, channels, elements of a channel in a sample, groups). In each sample, each group of
# channels has its own statistics. If groups is 0, each channel has statistics over all samples.
Layout = tuple[int, int, int, int]
# The operands of kernels, by the names of `norm_params` in norm.cu.
Operands = dict[str, Tensor | None]
# A call of an operator: the operator, its kernel, all arguments, and `found_by` of `learn`.
Call = tuple[Operator, Any, tuple[Any, ...], int | None]
# On CUDA, a chain continues after a reduction over rows if a row has at most this number of
# elements.
_LONGEST_ROW = 1 << 14


def channels_of(x: Tensor, form: Any) -> Layout:
    """Return the layout for batch norm. In channels_last format, each pixel is a sample."""
    samples, channels, *rest = x._geometry.sizes
    size = math.prod(rest)
    if form is not formats.contiguous_format:
        samples, size = samples * size, 1
    return samples, channels, size, 0


def launches(table: Table, x: Tensor, layout: Layout) -> Any:
    """Return the launches of the kernels for an input of this layout, or None if the kernels do not
    support the input. The launches are cached in `table`."""
    if x._device.type != "cuda" or not 0 < x._geometry.numel < 1 << 31:
        return None
    key = (launches, x._geometry.dtype, layout)
    found = table.plans.get(key)
    return found or table.remember(key, stub.cuda("norm").Norm(x._geometry.dtype, *layout))


def is_composed_in_chains(kernels: Any, input: Tensor) -> bool:
    """Return True if chains record the operators that compose layer norm or RMS norm instead of a
    call of the kernel. These operators give the kernel's results bit for bit, and chains fuse them
    with the operators before and after."""
    is_short = kernels.row_count <= _LONGEST_ROW
    return is_short and kernels.has_bits_of_parts and input._geometry.is_contiguous


def learn(
    operator: Operator, kernel: Any, args: tuple[Any, ...], made: tuple[Tensor, ...], steps: Any,
    found_by: int | None = None,
) -> None:  # fmt: skip
    """Store the short cut of a call, once the call is repeated. steps: the launches, or None.
    found_by: as in `cuda_calls.learn`."""
    table, device = operator.table, args[0]._device
    if steps is not None and comes_again(table, kernel, args, device):
        shapes = tuple([x._geometry for x in made])
        inputs = (None,) * (len(steps.names) - len(shapes))
        cuda_calls.learn(table, kernel, args, shapes, steps, inputs, low_bits=0, found_by=found_by)


# --- statistics of rows ---------------------------------------------------------------------------


def rows(
    kernels: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float,
    results: tuple[Tensor, Tensor | None, Tensor],
) -> Any:  # fmt: skip
    """Write the normalised input, the means and the reciprocal standard deviations to `results`.
    If the means are None, divide rows by their root mean square. kernels: from `launches`. Return
    the launches for a short cut, or None if an operand was copied."""
    x, (made, mean, rstd) = calls.contiguous(input), results
    numbers, is_narrow = _numbers(x, weight, bias)
    is_narrow_stats = rstd._geometry.dtype in HALVES
    steps = kernels.normalize_rows(eps, narrow_numbers=is_narrow, narrow_stats=is_narrow_stats)
    given: Operands = {"out": made, "mean": mean, "rstd": rstd, "x": x}
    given |= {"weight": numbers[0], "bias": numbers[1]}
    return _run(steps, x, given, (input, weight, bias))


def rows_backward(
    kernels: Any, grad_out: Tensor, input: Tensor, mean: Tensor | None, rstd: Tensor,
    weight: Tensor | None, sizes: tuple[int, ...], of: dtype, mask: Any, call: Call,
) -> Gradients:  # fmt: skip
    """Return the requested gradients of input, weight and bias. sizes, of: the sizes and dtype of
    the parameters. mean: None if rows were divided by their root mean square. call: for the short
    cut."""
    x = calls.contiguous(input)
    grad = calls.contiguous(cast(grad_out, input._geometry.dtype))
    given, narrow = _given(x, grad, mean, rstd, weight)
    made = None
    if mask[0]:
        made = _empty_as(x)
        _run(kernels.rows_gradient(**narrow), x, {"out": made, **given})
    sums = _sums(kernels, x, mask[1:], given, narrow)
    product, total = _parameters(sums, sizes, of, mask)
    results = [made, product, total] if mean is not None else [made, product]
    steps = kernels.rows_gradient(**narrow), kernels.gradients(**narrow)
    _learn_backward(call, results, given, sums, *steps)
    return made, product, total


def _learn_backward(
    call: Call, results: list[Tensor | None], given: Operands, sums: list[Tensor | None],
    first: Any, then: Any,
) -> None:  # fmt: skip
    """Store the short cut of a call that computes all gradients and copies no operand. given: the
    operands except results. first, then: the launches."""
    operator, kernel, args, found_by = call
    made = tuple([y for y in results if y is not None])
    shapes = [y._geometry for y in made]
    are_sums = [y is None or y._geometry in shapes for y in sums]
    if len(made) < len(results) or not all(are_sums):
        return
    by_tensor = {id(y): name for name, y in given.items()}
    names = [by_tensor.get(id(y), "unused") for y in args if isinstance(y, Tensor)]
    needed = [name for name, y in given.items() if y is not None]
    if sorted(needed) != sorted([name for name in names if name != "unused"]):
        return
    outs = ("out", "sums_of_product", "sums_of_grad")[: len(made)]
    learn(operator, kernel, args, made, first.of(*outs, *names, then=then), found_by)


# --- statistics of channels -----------------------------------------------------------------------


def channels(
    kernels: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None,
    running: tuple[Tensor | None, Tensor | None], training: bool, momentum: float, eps: float,
    of: dtype, form: Any,
) -> tuple[Three, Any]:  # fmt: skip
    """Compute native_batch_norm. In training, the running statistics are updated. Also return the
    launches for a short cut, or None if an operand or a result was copied."""
    x = calls.contiguous(input, form)
    (of_weight, of_bias, *kept), is_narrow = _numbers(x, weight, bias, *running)
    sizes = input._geometry.sizes[1:2] if training else (0,)
    made, mean, rstd = _empty_as(x), _empty(x, sizes), _empty(x, sizes)
    numbers: Operands = {"x": x, "weight": of_weight, "bias": of_bias}
    is_narrow_stats = is_narrow and not training
    scale = kernels.scale(
        eps, not training, narrow_numbers=is_narrow, narrow_stats=is_narrow_stats
    )  # fmt: skip
    direct = (input, weight, bias, *running)
    if training:
        statistics = kernels.statistics(eps, momentum, narrow_numbers=is_narrow)
        given = {"out": made, "mean": mean, "rstd": rstd, **numbers}
        given |= {"running_mean": kept[0], "running_var": kept[1]}
        steps = _run(statistics, x, given, direct, kernels, then=scale)
        for old, new in zip(running, kept):
            if old is not None and new is not None and new is not old:
                keep_running(old, new)
    else:
        # The kernel does not use the second and the third result, which are empty.
        given = {"out": made, "no_mean": mean, "no_rstd": rstd, **numbers}
        steps = _run(scale, x, given | {"mean": kept[0], "rstd": kept[1]}, direct)
    is_cast = mean._geometry.dtype is not of
    return (made, cast(mean, of), cast(rstd, of)), None if is_cast else steps


def channels_backward(
    kernels: Any, grad_out: Tensor, input: Tensor, mean: Tensor, rstd: Tensor,
    weight: Tensor | None, train: bool, eps: float, of: dtype, form: Any, mask: Any, call: Call,
) -> Gradients:  # fmt: skip
    """Return the requested gradients of input, weight and bias. rstd: the reciprocal standard
    deviations or, if `train` is False, the variances. call: for the short cut."""
    x = calls.contiguous(input, form)
    grad = calls.contiguous(cast(grad_out, input._geometry.dtype), form)
    given, narrow = _given(x, grad, mean, rstd, weight)
    is_summed = train and mask[0]
    wanted = (mask[1] or is_summed, mask[2] or is_summed)
    sums = _sums(kernels, x, wanted, given, narrow, eps, not train)
    made, scale = None, kernels.scale_gradient(eps, not train, **narrow)
    if mask[0]:
        made = _empty_as(x)
        outs = {"out": made, "sums_of_product": sums[0], "sums_of_grad": sums[1]}
        _run(scale, x, given | outs)
    product, total = _parameters(sums, x._geometry.sizes[1:2], of, mask)
    sums_of = kernels.gradients(eps, not train, **narrow)
    _learn_backward(call, [made, product, total], given, sums, sums_of, scale)
    return made, product, total


# --- operands -------------------------------------------------------------------------------------


def _numbers(like: Tensor, *given: Tensor | None) -> tuple[list[Tensor | None], bool]:
    """Return parameters or statistics as contiguous tensors. Also return True if they have the
    input's 16-bit dtype, and False if they have the dtype of the arithmetic."""
    of = like._geometry.dtype
    is_narrow = of in HALVES and all([x is None or x._geometry.dtype is of for x in given])
    to = of if is_narrow else _compute(like)
    return [None if x is None else calls.contiguous(cast(x, to)) for x in given], is_narrow


def _given(
    x: Tensor, grad: Tensor, mean: Tensor | None, rstd: Tensor, weight: Tensor | None
) -> tuple[Operands, dict[str, bool]]:
    """Return the operands of a backward kernel, and its flags."""
    stats, are_narrow = _numbers(x, mean, rstd)
    numbers, is_narrow = _numbers(x, weight)
    given: Operands = {"x": x, "grad": grad, "mean": stats[0], "rstd": stats[1]}
    given["weight"] = numbers[0]
    return given, {"narrow_stats": are_narrow, "narrow_numbers": is_narrow}


def _run(
    steps: Any, x: Tensor, given: Operands, direct: tuple[Tensor | None, ...] = (),
    kernels: Any = None, then: Any = None,
) -> Any:  # fmt: skip
    """Run launches for an input x on the operands `given`, and then the launches `then`.

    kernels: allocate the operand `parts` for these kernels. direct: the operands of a call. If none
    of them was copied, return the launches for a short cut, with operands in the order of `given`.
    Otherwise return None.
    """
    names = [name for name, operand in given.items() if operand is not None]
    parts = None if kernels is None else _parts(kernels, x)
    operands = {**given, "parts": parts}.items()
    whole = steps.of(*names, then=then)
    whole(x._device.index, **{name: y._address() for name, y in operands if y is not None})
    are_direct = all([y is None or any([y is z for z in given.values()]) for y in direct])
    return whole if direct and are_direct else None


def _compute(x: Tensor) -> dtype:
    return FLOAT if x._geometry.dtype in HALVES else x._geometry.dtype


def _empty(like: Tensor, sizes: Any, of: dtype | None = None) -> Tensor:
    return allocate(contiguous_geometry(tuple(sizes), of or _compute(like)), like._device)


def _empty_as(x: Tensor) -> Tensor:
    return allocate(x._geometry, x._device)


def _parts(kernels: Any, x: Tensor) -> Tensor | None:
    """Return memory for the partial results of segments of a channel. Return None if a channel is
    one segment."""
    count = kernels.parts()
    return _empty(x, (count,)) if count else None


def _sums(
    kernels: Any, x: Tensor, wanted: Any, given: Operands, narrow: dict[str, bool],
    eps: float = 0.0, has_variance: bool = False,
) -> list[Tensor | None]:  # fmt: skip
    """Return two sums over each channel: the sum of the gradient times the normalised element, and
    the sum of the gradient. wanted: two bools. A sum that is not wanted is None."""
    sums = [_empty(x, (kernels.channels,)) if is_wanted else None for is_wanted in wanted]
    if any(wanted):
        steps = kernels.gradients(eps, has_variance, **narrow)
        outs = {"sums_of_product": sums[0], "sums_of_grad": sums[1]}
        _run(steps, x, {**given, **outs}, kernels=kernels)
    return sums


def _parameters(
    sums: list[Tensor | None], sizes: tuple[int, ...], of: dtype, mask: Any
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of weight and bias."""
    product, total = [
        cast(calls.view(x, sizes), of) if is_wanted and x is not None else None
        for x, is_wanted in zip(sums, mask[1:])
    ]
    return product, total
