"""Pooling: means and maxima of windows, regular ones or as many as are asked for.

Made of other operators. f16 and bf16 are computed in f32 and rounded once. Source: aten/src/ATen/
native/Pool.h, AveragePool2d.cpp, AdaptiveAveragePooling.cpp and DilatedMaxPool2d.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
import math
from typing import Any

import numpy as np

from .._generated import calls
from ..core import dtype as dtypes, errors, memory_format as formats
from ..core.device import CPU
from ..core.dtype import COMPLEX, FLOATING, dtype
from ..core.geometry import contiguous_geometry
from ..kernels import stub
from ..structured import arguments
from ..tensor.make import allocate
from ..tensor.base import suggest_memory_format
from ..tensor.tensor import Tensor
from .conv import per_dim
from .norm import cast, wide

Sizes = tuple[int, ...]


def _windows(
    op: str, x: Tensor, count: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> tuple[Sizes, Sizes, Sizes, Sizes, Sizes]:  # fmt: skip
    """(kernel, stride, padding, dilation, sizes of the result)."""
    if x._geometry.ndim not in (count + 1, count + 2):
        rule = f"have {count + 1} dimensions, or {count + 2} with samples"
        raise errors.wrong_shape(op, "self", rule, x)
    given = x._geometry.sizes
    if 0 in given[-count - 1 :]:
        raise errors.wrong_shape(op, "self", "have no size 0 but of the samples", x)
    kernel = per_dim(op, "kernel_size", kernel_size, count, 1)
    is_given = arguments.ints(op, "stride", stride)
    steps = per_dim(op, "stride", stride, count, 1) if is_given else kernel
    pads = per_dim(op, "padding", padding, count)
    gaps = per_dim(op, "dilation", dilation, count, 1)
    if any(2 * p > k for p, k in zip(pads, kernel)):
        raise errors.must(op, "padding", "be at most half of kernel_size", padding)
    out = []
    for n, k, s, p, d in zip(given[-count:], kernel, steps, pads, gaps):
        made = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (made - 1) * s >= n + p:
            made -= 1
        if made < 1:
            rule = f"be as large as the kernel {list(kernel)}, with its padding"
            raise errors.wrong_shape(op, "self", rule, x)
        out.append(made)
    return kernel, steps, pads, gaps, tuple(out)


def _padded(x: Tensor, pads: Sizes, sizes: Sizes, value: Any) -> Tensor:
    """x amid `value`, `pads` before it and `sizes` in all."""
    made = calls.new_full(x, (*x._geometry.sizes[: -len(sizes)], *sizes), value)
    to = made
    first = x._geometry.ndim - len(sizes)
    for d, (p, whole) in enumerate(zip(pads, sizes), first):
        n = min(x._geometry.sizes[d], whole - p)
        to = calls.slice_Tensor(to, d, p, p + n, 1)
        x = calls.slice_Tensor(x, d, 0, n, 1)
    calls.copy_(to, x)
    return made


def _whole(kernel: Sizes, steps: Sizes, gaps: Sizes, out: Sizes) -> Sizes:
    """What the windows reach over."""
    return tuple([(n - 1) * s + d * (k - 1) + 1 for k, s, d, n in zip(kernel, steps, gaps, out)])


def _part(x: Tensor, dim: int, tap: int, step: int, count: int) -> Tensor:
    """The element `tap` of each window of a dimension."""
    return calls.slice_Tensor(x, dim, tap, tap + step * (count - 1) + 1, step)


def _laid_out(x: Tensor, like: Tensor, of: dtype, count: int) -> Tensor:
    form = suggest_memory_format(like)
    if like._geometry.ndim < 4 or (count == 2 and like._geometry.ndim == 3):
        form = formats.contiguous_format
    if not x._geometry.numel and form is formats.contiguous_format:
        return calls.new_empty(x, x._geometry.sizes, of)
    return calls.contiguous(cast(x, of), form)


# --- means ----------------------------------------------------------------------------------------


def _sums(x: Tensor, kernel: Sizes, steps: Sizes, out: Sizes) -> Tensor:
    first = x._geometry.ndim - len(kernel)
    for d, (k, s, n) in enumerate(zip(kernel, steps, out), first):
        made = _part(x, d, 0, s, n)
        for tap in range(1, k):
            made = calls.add_Tensor(made, _part(x, d, tap, s, n))
        x = made
    return x


def _divisors(
    x: Tensor, kernel: Sizes, steps: Sizes, pads: Sizes, out: Sizes, count_include_pad: bool,
    divisor_override: int | None,
) -> Any:  # fmt: skip
    """How many elements count in each window: a number, or a tensor."""
    if divisor_override is not None:
        return divisor_override
    ones = (1,) * len(kernel)
    given, whole = x._geometry.sizes[-len(kernel) :], _whole(kernel, steps, ones, out)
    counted = [n + 2 * p if count_include_pad else n for n, p in zip(given, pads)]
    before = (0,) * len(kernel) if count_include_pad else pads
    inner = calls.new_full(x, tuple(counted), 1)
    return _sums(_padded(inner, before, whole, 0), kernel, steps, out)


def _check_divisor(op: str, divisor_override: int | None) -> None:
    if divisor_override == 0:
        raise errors.must(op, "divisor_override", "not be 0", divisor_override)


def _avg_pool(
    count: int, self: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    op = f"avg_pool{count}d"
    _check_divisor(op, divisor_override)
    kernel, steps, pads, _, out = _windows(
        op, self, count, kernel_size, stride, padding, 1, ceil_mode
    )
    x = wide(self)
    if x._geometry.dtype.category < FLOATING and x._geometry.dtype is not dtypes.int64:
        raise errors.wrong_dtype(op, "self", "be floating or int64", self)
    whole = _whole(kernel, steps, (1,) * count, out)
    total = _sums(_padded(x, pads, whole, 0), kernel, steps, out)
    by = _divisors(x, kernel, steps, pads, out, count_include_pad, divisor_override)
    if x._geometry.dtype is dtypes.int64:
        made = calls.div_Tensor_mode(total, by, "trunc")
    else:
        made = calls.div_Tensor(total, by)
    return _laid_out(made, self, self._geometry.dtype, count)


def _avg_pool_backward(
    count: int, grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any, padding: Any,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    """Each gradient, by its divisor, is added to all elements of its window."""
    op = f"avg_pool{count}d_backward"
    _check_divisor(op, divisor_override)
    kernel, steps, pads, _, out = _windows(
        op, self, count, kernel_size, stride, padding, 1, ceil_mode
    )
    if grad_output._geometry.sizes[-count:] != out:
        raise errors.wrong_shape(op, "grad_output", f"end in the sizes {list(out)}", grad_output)
    g = wide(grad_output)
    g = calls.div_Tensor(
        g, _divisors(wide(self), kernel, steps, pads, out, count_include_pad, divisor_override)
    )
    first = g._geometry.ndim - count
    whole = _whole(kernel, steps, (1,) * count, out)
    for d, (k, s, n, size) in enumerate(zip(kernel, steps, out, whole), first):
        sizes = list(g._geometry.sizes)
        sizes[d] = size
        made = calls.new_zeros(g, sizes)
        for tap in range(k):
            calls.add__Tensor(_part(made, d, tap, s, n), g)
        g = made
    g = calls.clone(_cut(g, pads, self._geometry.sizes[-count:]))
    return _laid_out(g, self, self._geometry.dtype, count)


def _cut(x: Tensor, pads: Sizes, sizes: Sizes) -> Tensor:
    """What lies amid the padding; zeros where windows did not reach."""
    first = x._geometry.ndim - len(sizes)
    for d, (p, n) in enumerate(zip(pads, sizes), first):
        lacking = p + n - x._geometry.sizes[d]
        if lacking > 0:
            more = list(x._geometry.sizes)
            more[d] = lacking
            x = calls.cat([x, calls.new_zeros(x, more)], d)
        x = calls.slice_Tensor(x, d, p, p + n, 1)
    return x


def avg_pool1d(
    key_set: int, self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    op = "avg_pool1d"
    if self._geometry.ndim not in (2, 3):
        raise errors.wrong_shape(op, "self", "have 2 dimensions, or 3 with samples", self)
    (kernel,) = per_dim(op, "kernel_size", kernel_size, 1, 1)
    is_given = arguments.ints(op, "stride", stride)
    (step,) = per_dim(op, "stride", stride, 1, 1) if is_given else (kernel,)
    (pad,) = per_dim(op, "padding", padding, 1)
    made = calls.avg_pool2d(
        calls.unsqueeze(self, -2), (1, kernel), (1, step), (0, pad), ceil_mode, count_include_pad,
        None,
    )  # fmt: skip
    return calls.squeeze_dim(made, -2)


def avg_pool2d(key_set: int, self: Tensor, *rest: Any) -> Tensor:
    return _avg_pool(2, self, *_filled(rest))


def avg_pool3d(key_set: int, self: Tensor, *rest: Any) -> Tensor:
    return _avg_pool(3, self, *_filled(rest))


def _filled(rest: tuple[Any, ...]) -> Any:
    """kernel_size and what follows it, with defaults."""
    return (*rest, *(None, (), 0, False, True, None)[len(rest) :])


def avg_pool2d_backward(key_set: int, grad_output: Tensor, self: Tensor, *rest: Any) -> Tensor:
    return _avg_pool_backward(2, grad_output, self, *rest)


def avg_pool3d_backward(key_set: int, grad_output: Tensor, self: Tensor, *rest: Any) -> Tensor:
    return _avg_pool_backward(3, grad_output, self, *rest)


# --- as many windows as are asked for -------------------------------------------------------------


def _bounds(size: int, out: int) -> list[tuple[int, int]]:
    """Where the windows begin and end."""
    return [(i * size // out, -((i + 1) * size // -out)) for i in range(out)]


def _output_size(op: str, self: Tensor, output_size: Any, count: int) -> Sizes:
    """None among the sizes, which means self's, is the functions' business."""
    if self._geometry.ndim not in (count + 1, count + 2):
        rule = f"have {count + 1} dimensions, or {count + 2} with samples"
        raise errors.wrong_shape(op, "self", rule, self)
    if 0 in self._geometry.sizes[-count:]:
        raise errors.wrong_shape(op, "self", "have no size 0 but of samples and channels", self)
    found = per_dim(op, "output_size", output_size, count)
    if math.prod(found) >= 1 << 40:  # more than any memory, and each window is a step here
        raise errors.must(op, "output_size", "ask for fewer than 2**40 windows", output_size)
    return found


def _adaptive_avg_pool(count: int, self: Tensor, output_size: Any) -> Tensor:
    op = f"adaptive_avg_pool{count}d"
    out = _output_size(op, self, output_size, count)
    if self._geometry.dtype.category < FLOATING:
        raise errors.wrong_dtype(op, "self", "be floating or complex", self)
    x, sizes = wide(self), self._geometry.sizes
    for d, n in enumerate(out, len(sizes) - count):
        parts = [
            calls.mean_dim(calls.slice_Tensor(x, d, a, b, 1), (d,), True, None)
            for a, b in _bounds(sizes[d], n)
        ]
        x = calls.cat(parts, d) if parts else calls.slice_Tensor(x, d, 0, 0, 1)
    if count == 3 and self._geometry.ndim == 4:
        return calls.contiguous(cast(x, self._geometry.dtype))
    return _laid_out(x, self, self._geometry.dtype, count)


def _adaptive_avg_pool_backward(count: int, grad_output: Tensor, self: Tensor) -> Tensor:
    g, sizes = wide(grad_output), self._geometry.sizes
    if g._geometry.ndim != len(sizes) or len(sizes) <= count:
        op, rule = f"_adaptive_avg_pool{count}d_backward", f"have self's {len(sizes)} dimensions"
        raise errors.wrong_shape(op, "grad_output", rule, grad_output)
    for d in range(len(sizes) - count, len(sizes)):
        whole = list(g._geometry.sizes)
        bounds, whole[d] = _bounds(sizes[d], whole[d]), sizes[d]
        made = calls.new_zeros(g, whole)
        for i, (a, b) in enumerate(bounds):
            share = calls.div_Tensor(calls.slice_Tensor(g, d, i, i + 1, 1), b - a)
            calls.add__Tensor(calls.slice_Tensor(made, d, a, b, 1), share)
        g = made
    return _laid_out(calls.clone(g), self, self._geometry.dtype, count)


def _adaptive_avg_pool2d(key_set: int, self: Tensor, output_size: Any) -> Tensor:
    return _adaptive_avg_pool(2, self, output_size)


def _adaptive_avg_pool3d(key_set: int, self: Tensor, output_size: Any) -> Tensor:
    return _adaptive_avg_pool(3, self, output_size)


def _adaptive_avg_pool2d_backward(key_set: int, grad_output: Tensor, self: Tensor) -> Tensor:
    return _adaptive_avg_pool_backward(2, grad_output, self)


def _adaptive_avg_pool3d_backward(key_set: int, grad_output: Tensor, self: Tensor) -> Tensor:
    return _adaptive_avg_pool_backward(3, grad_output, self)


def _or_mean(self: Tensor, output_size: Any, count: int, pool: Callable[..., Tensor]) -> Tensor:
    """One window over all is a mean, which keeps the layout of a mean."""
    out = _output_size(f"adaptive_avg_pool{count}d", self, output_size, count)
    if out != (1,) * count:
        found: Tensor = pool(self, out)
        return found
    return calls.mean_dim(self, tuple(range(-count, 0)), True, None)


def adaptive_avg_pool1d(key_set: int, self: Tensor, output_size: Any) -> Tensor:
    (out,) = _output_size("adaptive_avg_pool1d", self, output_size, 1)
    made = calls.adaptive_avg_pool2d(calls.unsqueeze(self, -2), (1, out))
    return calls.squeeze_dim(made, -2)


def adaptive_avg_pool2d(key_set: int, self: Tensor, output_size: Any) -> Tensor:
    return _or_mean(self, output_size, 2, calls._adaptive_avg_pool2d)


def adaptive_avg_pool3d(key_set: int, self: Tensor, output_size: Any) -> Tensor:
    return _or_mean(self, output_size, 3, calls._adaptive_avg_pool3d)


# --- maxima ---------------------------------------------------------------------------------------


def _least(of: dtype) -> Any:
    return float("-inf") if of.category == FLOATING else int(np.iinfo(of.np).min)


def _check_ordered(op: str, self: Tensor) -> None:
    if self._geometry.dtype.category >= COMPLEX or self._geometry.dtype is dtypes.bool_:
        raise errors.wrong_dtype(op, "self", "be integer or floating", self)


def _max_pool(
    count: int, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The best of each window so far, and where it is, tap by tap; a NaN is better than all."""
    op = f"max_pool{count}d"
    kernel, steps, pads, gaps, out = _windows(
        op, self, count, kernel_size, stride, padding, dilation, ceil_mode
    )
    _check_ordered(op, self)
    least = _least(self._geometry.dtype)
    if self._device is CPU and self._geometry.numel:
        sizes = (*self._geometry.sizes[:-count], *out)
        best = allocate(contiguous_geometry(sizes, self._geometry.dtype), CPU)
        at = allocate(contiguous_geometry(sizes, dtypes.int64), CPU)
        stub.cpu("pool").max_pool(
            self._get_array(), least, kernel, steps, pads, gaps, best._get_array(), at._get_array()
        )
        return (
            _laid_out(best, self, self._geometry.dtype, count),
            _laid_out(at, self, dtypes.int64, count),
        )
    x = _padded(self, pads, _whole(kernel, steps, gaps, out), least)
    sizes, first = self._geometry.sizes[-count:], x._geometry.ndim - count
    places = _places(self, sizes, steps, pads, gaps, out)
    best = calls.new_full(self, (*self._geometry.sizes[:first], *out), least)
    at = calls.expand(_added([p.first() for p in places], count), best._geometry.sizes)
    for taps in _each(kernel):
        now = x
        for d, (tap, s, n, gap) in enumerate(zip(taps, steps, out, gaps)):
            now = _part(now, first + d, tap * gap, s, n)
        here = _added([p.of(tap) for p, tap in zip(places, taps)], count)
        better = calls.gt_Tensor(now, best)
        if self._geometry.dtype.category == FLOATING:
            better = calls.add_Tensor(better, calls.ne_Tensor(now, now))
        best = calls.where_self(better, now, best)
        at = calls.where_self(better, here, at)
    return (
        _laid_out(best, self, self._geometry.dtype, count),
        _laid_out(calls.clone(at), self, dtypes.int64, count),
    )


def _each(kernel: Sizes) -> Any:
    return product(*map(range, kernel))


class _Places:
    """Flat indices of what windows of one dimension look at, as they lie in the input.

    stride: from one element of the dimension to the next. begins: the windows' first elements,
    padding too.
    """

    def __init__(self, like: Tensor, step: int, pad: int, gap: int, out: int, stride: int) -> None:
        self.gap, self.stride, self.pad = gap, stride, pad
        begins = calls.arange_start_step(
            -pad, out * step - pad, step, dtypes.int64, None, like._device, None
        )
        self.begins = begins

    def of(self, tap: int) -> Tensor:
        return calls.mul_Tensor(calls.add_Tensor(self.begins, tap * self.gap), self.stride)

    def first(self) -> Tensor:
        """Of each window the first element that is not padding."""
        found = self.begins
        for _ in range(-(-self.pad // self.gap)):
            further = calls.add_Tensor(found, self.gap)
            found = calls.where_self(calls.lt_Tensor(found, 0), further, found)
        return calls.mul_Tensor(found, self.stride)


def _places(
    self: Tensor, sizes: Sizes, steps: Sizes, pads: Sizes, gaps: Sizes, out: Sizes
) -> list[_Places]:
    made, stride = [], 1
    for n, s, p, d, o in reversed(list(zip(sizes, steps, pads, gaps, out))):
        made.append(_Places(self, s, p, d, o, stride))
        stride *= n
    return made[::-1]


def _added(parts: list[Tensor], count: int) -> Tensor:
    total = None
    for d, part in enumerate(parts):
        part = calls.reshape(part, (-1, *[1] * (count - 1 - d)))
        total = part if total is None else calls.add_Tensor(total, part)
    assert total is not None
    return total


def max_pool2d_with_indices(key_set: int, self: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _max_pool(2, self, *_with_defaults(rest))


def max_pool3d_with_indices(key_set: int, self: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _max_pool(3, self, *_with_defaults(rest))


def _with_defaults(rest: tuple[Any, ...]) -> Any:
    return (*rest, *(None, (), 0, 1, False)[len(rest) :])


def max_pool1d_with_indices(
    key_set: int, self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    op = "max_pool1d"
    if self._geometry.ndim not in (2, 3):
        raise errors.wrong_shape(op, "self", "have 2 dimensions, or 3 with samples", self)
    (kernel,) = per_dim(op, "kernel_size", kernel_size, 1, 1)
    is_given = arguments.ints(op, "stride", stride)
    (step,) = per_dim(op, "stride", stride, 1, 1) if is_given else (kernel,)
    (pad,), (gap,) = per_dim(op, "padding", padding, 1), per_dim(op, "dilation", dilation, 1, 1)
    values, indices = calls.max_pool2d_with_indices(
        calls.unsqueeze(self, -2), (1, kernel), (1, step), (0, pad), (1, gap), ceil_mode
    )
    return calls.squeeze_dim(values, -2), calls.squeeze_dim(indices, -2)


def max_pool1d(key_set: int, self: Tensor, *rest: Any) -> Tensor:
    return calls.max_pool1d_with_indices(self, *rest)[0]


def max_pool2d(key_set: int, self: Tensor, *rest: Any) -> Tensor:
    return calls.max_pool2d_with_indices(self, *rest)[0]


def max_pool3d(key_set: int, self: Tensor, *rest: Any) -> Tensor:
    return calls.max_pool3d_with_indices(self, *rest)[0]


def _adaptive_max_pool(count: int, self: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Window by window: they are few, and of different sizes."""
    op = f"adaptive_max_pool{count}d"
    out = _output_size(op, self, output_size, count)
    _check_ordered(op, self)
    sizes, first = self._geometry.sizes[-count:], self._geometry.ndim - count
    values = calls.new_empty(self, (*self._geometry.sizes[:first], *out))
    indices = calls.new_empty(values, values._geometry.sizes, dtypes.int64)
    if not values._geometry.numel:
        return values, indices
    for cell in _each(out):
        window, begins, shape = self, [], []
        for d, (i, n, o) in enumerate(zip(cell, sizes, out), first):
            a, b = _bounds(n, o)[i]
            window = calls.slice_Tensor(window, d, a, b, 1)
            begins.append(a)
            shape.append(b - a)
        flat = calls.reshape(window, (*self._geometry.sizes[:first], -1))
        best, within = calls.amax(flat, (-1,), False), calls.argmax(flat, -1, False)
        at, stride = calls.zeros_like(within), 1
        for n, a, size in reversed(list(zip(sizes, begins, shape))):
            whole = calls.div_Tensor_mode(within, size, "floor")
            here = calls.sub_Tensor(within, calls.mul_Tensor(whole, size))
            here = calls.mul_Tensor(calls.add_Tensor(here, a), stride)
            at = calls.add_Tensor(at, here)
            within, stride = whole, stride * n
        for made, found in ((values, best), (indices, at)):
            for i in cell:
                made = calls.select_int(made, first, i)
            calls.copy_(made, found)
    return values, indices


def adaptive_max_pool2d(key_set: int, self: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    return _adaptive_max_pool(2, self, output_size)


def adaptive_max_pool3d(key_set: int, self: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    return _adaptive_max_pool(3, self, output_size)


def adaptive_max_pool1d(key_set: int, self: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    (out,) = _output_size("adaptive_max_pool1d", self, output_size, 1)
    values, indices = calls.adaptive_max_pool2d(calls.unsqueeze(self, -2), (1, out))
    return calls.squeeze_dim(values, -2), calls.squeeze_dim(indices, -2)


# --- derivatives of maxima: elements go where indices say -----------------------------------------


def _planes(self: Tensor, indices: Tensor, count: int) -> tuple[Tensor, Tensor, Sizes]:
    """Both with one dimension in place of the last ones, and what stands before these."""
    before = self._geometry.sizes[: self._geometry.ndim - count]
    flat = (*before, -1) if self._geometry.numel else (*before, 0)
    return calls.reshape(self, flat), calls.reshape(indices, flat), before


def _scattered(op: str, grad: Tensor, self: Tensor, indices: Tensor, count: int) -> Tensor:
    if grad._geometry.sizes != indices._geometry.sizes:
        raise errors.wrong_shape(op, "grad_output", "have the sizes of indices", grad)
    if indices._geometry.dtype is not dtypes.int64:
        raise errors.wrong_dtype(op, "indices", "be int64", indices)
    values, at, before = _planes(grad, indices, count)
    places = 1
    for n in self._geometry.sizes[-count:]:
        places *= n
    zeros = calls.new_zeros(wide(values), (*before, places))
    made = calls.reshape(calls.scatter_add(zeros, -1, at, wide(values)), self._geometry.sizes)
    return _laid_out(made, self, self._geometry.dtype, count)


def max_pool2d_with_indices_backward(
    key_set: int, grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any, padding: Any,
    dilation: Any, ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    return _scattered("max_pool2d_with_indices_backward", grad_output, self, indices, 2)


def max_pool3d_with_indices_backward(
    key_set: int, grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any, padding: Any,
    dilation: Any, ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    return _scattered("max_pool3d_with_indices_backward", grad_output, self, indices, 3)


def adaptive_max_pool2d_backward(
    key_set: int, grad_output: Tensor, self: Tensor, indices: Tensor
) -> Tensor:
    return _scattered("adaptive_max_pool2d_backward", grad_output, self, indices, 2)


def adaptive_max_pool3d_backward(
    key_set: int, grad_output: Tensor, self: Tensor, indices: Tensor
) -> Tensor:
    return _scattered("adaptive_max_pool3d_backward", grad_output, self, indices, 3)
