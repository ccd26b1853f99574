"""Pooling whose windows or indices are given by tensors: max_unpool and fractional_max_pool.

They are composed of gathers and scatters, which reject indices outside a plane.
Source: aten/src/ATen/native/MaxUnpooling.cpp and FractionalMaxPool2d.cpp, FractionalMaxPool3d.cpp.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from .._generated import calls
from ..core import dtype as dtypes, errors, memory_format as formats
from ..structured import arguments
from ..structured.forms import Kernel, given
from ..structured.layers.windows import check_planes
from ..tensor.base import suggest_memory_format
from ..tensor.tensor import Tensor
from .max_pool import check_indices, planes, scattered
from ..structured.layers.precision import cast, check_floating

Sizes = tuple[int, ...]


def _check_planes(op: str, x: Tensor, count: int) -> None:
    check_floating(op, self=x)
    check_planes(op, x, count)


# --- unpooling ------------------------------------------------------------------------------------


def _unpooled(op: str, count: int, self: Tensor, indices: Tensor, output_size: Any) -> Tensor:
    _check_planes(op, self, count)
    check_indices(op, indices, self, "self")
    out = arguments.sizes(op, output_size, "output_size")
    if len(out) != count:
        raise errors.must(op, "output_size", f"have {count} entries", out)
    given = self._geometry.sizes
    before = given[: len(given) - count]
    zeros = calls.new_zeros(self, (*before, prod(out)))
    made = zeros
    if 0 not in (*given, *out):
        made = calls.scatter_src(zeros, -1, planes(indices, count), planes(self, count))
    made = calls.reshape(made, (*before, *out))
    is_kept = count == 2 and len(given) == 4
    form = suggest_memory_format(self) if is_kept else formats.contiguous_format
    return calls.contiguous(made, form)


def max_unpool2d(key_set: int, self: Tensor, indices: Tensor, output_size: Any) -> Tensor:
    return _unpooled("max_unpool2d", 2, self, indices, output_size)


def max_unpool3d(
    key_set: int, self: Tensor, indices: Tensor, output_size: Any, stride: Any, padding: Any
) -> Tensor:
    op = "max_unpool3d"
    for arg, value, least in (("stride", stride, 1), ("padding", padding, None)):
        found = arguments.ints(op, arg, value)
        if len(found) not in (1, 3):
            raise errors.must(op, arg, "be one int or 3", found)
        if least is not None and min(found) < least:
            raise errors.must(op, arg, "be positive", found)
    return _unpooled(op, 3, self, indices, output_size)


# --- windows at random positions ----------------------------------------------------------------


def _windows(
    count: int, self: Tensor, kernel_size: Any, output_size: Any, samples: Tensor
) -> tuple[Sizes, Sizes]:
    op = f"fractional_max_pool{count}d"
    _check_planes(op, self, count)
    kernel = arguments.ints(op, "kernel_size", kernel_size)
    out = arguments.sizes(op, output_size, "output_size")
    for arg, value in (("kernel_size", kernel), ("output_size", out)):
        if len(value) != count:
            raise errors.must(op, arg, f"have {count} entries", value)
    if min(kernel) < 1:
        raise errors.must(op, "kernel_size", "be positive", kernel)
    given = self._geometry.sizes
    for n, k, m in zip(given[-count:], kernel, out):
        if m + k - 1 > n - (count == 3):
            rule = f"have room for {list(out)} windows of {list(kernel)}"
            raise errors.wrong_shape(op, "self", rule, self)
    arguments.check_alike(op, "self", self, "random_samples", samples)
    batch, channels = (1, *given)[-count - 2 : -count]
    wanted = samples._geometry.sizes
    if len(wanted) != 3 or wanted[0] < batch or wanted[1:] != (channels, count):
        rule = f"have sizes {[batch, channels, count]}"
        raise errors.wrong_shape(op, "random_samples", rule, samples)
    return kernel, out


def _begins(sample: Tensor, n: int, k: int, m: int) -> Tensor:
    """Return the first index of each of m windows, (..., m), computed from one random number in [0,
    1) per plane."""
    if m == 1:
        return calls.new_full(sample, (*sample._geometry.sizes, 1), n - k, dtypes.int64)
    # The quotient and the products have the dtype of `sample`, as in PyTorch.
    step = calls.div_Tensor(calls.new_full(sample, (), n - k), m - 1)
    sample = calls.unsqueeze(sample, -1)
    i = calls.arange(m - 1, sample._geometry.dtype, None, sample._device, None)
    made = cast((i + sample) * step, dtypes.int64) - cast(sample * step, dtypes.int64)
    last = calls.new_full(made, (*made._geometry.sizes[:-1], 1), n - k)
    return calls.cat([made, last], -1)


def _pooled(
    key_set: int, count: int, self: Tensor, kernel_size: Any, output_size: Any,
    random_samples: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    kernel, out = _windows(count, self, kernel_size, output_size, random_samples)
    given = self._geometry.sizes
    before, inner = given[: len(given) - count], given[len(given) - count :]
    if 0 in (*before, *out):
        empty = calls.new_empty(self, (*before, *out))
        return empty, calls.new_empty(self, (*before, *out), dtypes.int64)
    samples = calls.slice_Tensor(random_samples, 0, 0, before[0] if len(before) == 2 else 1, 1)
    first: Any = 0
    for d, (n, k, m) in enumerate(zip(inner, kernel, out)):
        # In two dimensions, the samples are in the order (width, height).
        sample = calls.select_int(samples, -1, d if count == 3 else count - 1 - d)
        ones = [1] * (count - 1 - d)
        first = first * n + calls.reshape(_begins(sample, n, k, m), (*before, *[1] * d, m, *ones))
    flat = calls.reshape(first, (*before, prod(out)))
    x = planes(self, count)
    values = calls.new_full(self, flat._geometry.sizes, float("-inf"))
    indices = flat
    for tap in product(*map(range, kernel)):
        step = 0
        for n, t in zip(inner, tap):
            step = step * n + t
        at = flat + step
        now = calls.gather(x, -1, at)
        better = calls.logical_or(now > values, calls.ne_Tensor(now, now))
        values = calls.where_self(better, now, values)
        indices = calls.where_self(better, at, indices)
    return calls.reshape(values, (*before, *out)), calls.reshape(indices, (*before, *out))


def _backward(
    key_set: int, count: int, grad_output: Tensor, self: Tensor, kernel_size: Any,
    output_size: Any, indices: Tensor,
) -> Tensor:  # fmt: skip
    op = f"fractional_max_pool{count}d_backward"
    _check_planes(op, self, count)
    given = self._geometry.sizes
    wanted = (*given[: len(given) - count], *arguments.sizes(op, output_size, "output_size"))
    arguments.check_sizes(op, wanted, grad_output=grad_output)
    return scattered(op, count, grad_output, self, indices, keeps=False)


fractional_max_pool2d: Kernel = given(_pooled, count=2)
fractional_max_pool3d: Kernel = given(_pooled, count=3)
fractional_max_pool2d_backward: Kernel = given(_backward, count=2)
fractional_max_pool3d_backward: Kernel = given(_backward, count=3)
