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
from ...dispatch.operator import Table
from ...kernels import stub
from ...tensor.make import allocate
from ...tensor.tensor import Tensor
from .normalizing import keep_running
from .precision import FLOAT, HALVES, cast

Three = tuple[Tensor, Tensor, Tensor]
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]
# (samples, channels, elements of a channel in a sample, groups). In each sample, each group of
# channels has its own statistics. If groups is 0, each channel has statistics over all samples.
Layout = tuple[int, int, int, int]
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


# --- statistics of rows ---------------------------------------------------------------------------


def rows(
    kernels: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float,
    results: tuple[Tensor, Tensor | None, Tensor],
) -> None:  # fmt: skip
    """Write the normalised input, the means and the reciprocal standard deviations to `results`.
    If the means are None, divide rows by their root mean square. kernels: from `launches`."""
    x, (made, mean, rstd) = calls.contiguous(input), results
    numbers, is_narrow = _numbers(x, weight, bias)
    kernels.normalize_rows(
        x._device.index, eps, x=x._address(), out=made._address(), mean=_address(mean),
        rstd=rstd._address(), weight=_address(numbers[0]), bias=_address(numbers[1]),
        narrow_numbers=is_narrow, narrow_stats=rstd._geometry.dtype in HALVES,
    )  # fmt: skip


def rows_backward(
    kernels: Any, grad_out: Tensor, input: Tensor, mean: Tensor | None, rstd: Tensor,
    weight: Tensor | None, sizes: tuple[int, ...], of: dtype, mask: Any,
) -> Gradients:  # fmt: skip
    """Return the requested gradients of input, weight and bias. sizes, of: the sizes and dtype of
    the parameters. mean: None if rows were divided by their root mean square."""
    x = calls.contiguous(input)
    grad = calls.contiguous(cast(grad_out, input._geometry.dtype))
    given, _kept = _given(x, grad, mean, rstd, weight)
    made = None
    if mask[0]:
        made = _empty_as(x)
        kernels.rows_gradient(x._device.index, out=made._address(), **given)
    sums = _sums(kernels, x, mask[1:], given)
    return (made, *_parameters(sums, sizes, of, mask))


# --- statistics of channels -----------------------------------------------------------------------


def channels(
    kernels: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None,
    running: tuple[Tensor | None, Tensor | None], training: bool, momentum: float, eps: float,
    of: dtype, form: Any,
) -> Three:  # fmt: skip
    """Compute native_batch_norm. In training, the running statistics are updated."""
    x = calls.contiguous(input, form)
    (weight, bias, *kept), is_narrow = _numbers(x, weight, bias, *running)
    given = {"x": x._address(), "weight": _address(weight), "bias": _address(bias)}
    given["narrow_numbers"] = is_narrow
    sizes = input._geometry.sizes[1:2] if training else (0,)
    mean, rstd = _empty(x, sizes), _empty(x, sizes)
    if training:
        given |= {"mean": mean._address(), "rstd": rstd._address()}
        parts = _parts(kernels, x)
        kernels.statistics(
            x._device.index, eps, momentum, running_mean=_address(kept[0]),
            running_var=_address(kept[1]), parts=_address(parts), **given,
        )  # fmt: skip
        for old, new in zip(running, kept):
            if old is not None and new is not None and new is not old:
                keep_running(old, new)
    else:
        given |= {"mean": _address(kept[0]), "rstd": _address(kept[1])}
        given["narrow_stats"] = is_narrow
    made = _empty_as(x)
    kernels.scale(x._device.index, eps, not training, out=made._address(), **given)
    return made, cast(mean, of), cast(rstd, of)


def channels_backward(
    kernels: Any, grad_out: Tensor, input: Tensor, mean: Tensor, rstd: Tensor,
    weight: Tensor | None, train: bool, eps: float, of: dtype, form: Any, mask: Any,
) -> Gradients:  # fmt: skip
    """Return the requested gradients of input, weight and bias. rstd: the reciprocal standard
    deviations or, if `train` is False, the variances."""
    x = calls.contiguous(input, form)
    grad = calls.contiguous(cast(grad_out, input._geometry.dtype), form)
    given, _kept = _given(x, grad, mean, rstd, weight)
    is_summed = train and mask[0]
    wanted = (mask[1] or is_summed, mask[2] or is_summed)
    sums = _sums(kernels, x, wanted, given, eps, not train)
    made = None
    if mask[0]:
        made = _empty_as(x)
        given |= {"sums_of_product": _address(sums[0]), "sums_of_grad": _address(sums[1])}
        kernels.scale_gradient(x._device.index, eps, not train, out=made._address(), **given)
    return (made, *_parameters(sums, x._geometry.sizes[1:2], of, mask))


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
) -> tuple[dict[str, int], list[Tensor | None]]:
    """Return the operands of a backward kernel, and the tensors that must stay alive until the
    kernel is queued."""
    stats, are_narrow = _numbers(x, mean, rstd)
    numbers, is_narrow = _numbers(x, weight)
    given = {
        "x": x._address(), "grad": grad._address(), "mean": _address(stats[0]),
        "rstd": _address(stats[1]), "weight": _address(numbers[0]), "narrow_stats": are_narrow,
        "narrow_numbers": is_narrow,
    }  # fmt: skip
    return given, [*stats, *numbers]


def _compute(x: Tensor) -> dtype:
    return FLOAT if x._geometry.dtype in HALVES else x._geometry.dtype


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x._address()


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
    kernels: Any, x: Tensor, wanted: Any, given: dict[str, int], eps: float = 0.0,
    has_variance: bool = False,
) -> list[Tensor | None]:  # fmt: skip
    """Return two sums over each channel: the sum of the gradient times the normalised element, and
    the sum of the gradient. wanted: two bools. A sum that is not wanted is None."""
    sums = [_empty(x, (kernels.channels,)) if is_wanted else None for is_wanted in wanted]
    if any(wanted):
        parts = _parts(kernels, x)
        kernels.gradients(
            x._device.index, eps, has_variance, parts=_address(parts),
            sums_of_product=_address(sums[0]), sums_of_grad=_address(sums[1]), **given,
        )  # fmt: skip
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
