"""Maxima over windows and their indices, and the gradients, which are computed from the indices.

One function over NumPy or CuPy arrays computes all planes of images. The gradient is a scatter. Of
equal maxima, the first is chosen. NaN is larger than all numbers; of several NaN, the last is
chosen. Source: aten/src/ATen/native/DilatedMaxPool2d.cpp and AdaptiveMaxPooling2d.cpp.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy

from .._generated import calls
from ..core import dtype as dtypes, errors, memory_format as formats
from ..core.device import CPU
from ..core.dtype import COMPLEX, FLOATING, dtype
from ..kernels import stub
from ..structured import arguments
from ..structured.forms import Kernel, given
from ..structured.layers import windows
from ..structured.layers.windows import Windows
from ..tensor.base import suggest_memory_format
from ..tensor.tensor import Tensor
from ..structured.layers.precision import cast, wide

BY_LIBRARY = True

_max_pool_loop = stub.compiled("pool_windows", "max_pool")
_adaptive_loop = stub.compiled("pool_windows", "adaptive_max_pool")
_backward_loop = stub.compiled("pool_windows", "max_pool_backward")

Sizes = tuple[int, ...]
Two = tuple[Tensor, Tensor]


def _check_ordered(op: str, self: Tensor) -> None:
    if self._geometry.dtype.category >= COMPLEX or self._geometry.dtype is dtypes.bool_:
        raise errors.wrong_dtype(op, "self", "be integer or floating", self)


def _least(of: dtype) -> Any:
    return float("-inf") if of.category == FLOATING else int(numpy.iinfo(of.np).min)


def _made(
    op: str, self: Tensor, like: Tensor | None, out: Sizes, work: windows.Work,
    loop: windows.Loop, call: windows.Call,
) -> Two:  # fmt: skip
    x = wide(self)
    of = (x._geometry.dtype, dtypes.int64)
    values, at = windows.made_of(op, x, like, out, of, work, shares_rows=True, loop=loop, call=call)
    return cast(values, self._geometry.dtype), at


# --- regular windows ------------------------------------------------------------------------------


def _grid(parts: Any) -> Any:
    """Return the outer sum of 1-d arrays. It has one dimension for each array."""
    total = numpy.zeros((), numpy.int64)
    for part in parts:
        total = total[..., None] + part
    return total


def _maxima(at: Windows, least: Any, on: Any, x: Any, first: int, best: Any, places: Any) -> None:
    np, count = on.np, len(at.out)
    sizes, out = x.shape[1 : 1 + count], best.shape[1 : 1 + count]
    ones = (1,) * (x.ndim - 1 - count)
    under = windows.under(np, x, at, first, out, least)
    taps = [*product(*map(range, at.kernel))]
    parts = [
        under[(slice(None), *[at.along(d, t, n) for d, (t, n) in enumerate(zip(tap, out))])]
        for tap in taps
    ]
    np.maximum(parts[0], parts[-1], out=best)
    for part in parts[1:-1]:
        np.maximum(best, part, out=best)
    which = _first_of(on, parts, best)
    begins = [numpy.arange(n) * s - p for n, s, p in zip(out, at.steps, at.pads)]
    begins[0] += first * at.steps[0]
    if any(
        at.pads
    ):  # Padding must not be chosen, even if all elements of the window have the lowest value.
        skipped = [-(numpy.minimum(b, 0) // gap) for b, gap in zip(begins, at.gaps)]
        steps = [prod(at.kernel[d + 1 :]) for d in range(count)]
        inner = _grid([n * s for n, s in zip(skipped, steps)]).astype(which.dtype)
        np.maximum(which, on.constant(inner.reshape(*out, *ones)), out=which)
    steps = [prod(sizes[d + 1 :]) for d in range(count)]
    apart = [sum(t * g * s for t, g, s in zip(tap, at.gaps, steps)) for tap in taps]
    origin = _grid([b * s for b, s in zip(begins, steps)]).reshape(*out, *ones)
    np.add(on.constant(numpy.array(apart)).take(which), on.constant(origin), out=places)


def _first_of(on: Any, parts: list[Any], best: Any) -> Any:
    """Return the index of the first part that has the maximum, or of the last part that is NaN."""
    np, number = on.np, numpy.min_scalar_type(len(parts))
    if len(parts) == 1:
        return np.zeros(best.shape, number)
    later = parts[0] != best
    which, differs = later.astype(number), np.empty_like(later)
    for part in parts[1:-1]:
        np.not_equal(part, best, out=differs)
        np.logical_and(later, differs, out=later)
        np.add(which, later.view(numpy.uint8), out=which)
    if best.dtype.kind == "f":
        np.not_equal(best, best, out=differs)
        if on.is_gpu or differs.any():
            for n, part in enumerate(parts):
                np.copyto(which, number.type(n), where=part != part)
    return which


def _max_pool(
    key_set: int, count: int, self: Tensor, kernel_size: Any, stride: Any, padding: Any,
    dilation: Any, ceil_mode: bool,
) -> Two:  # fmt: skip
    op, given = f"max_pool{count}d", (kernel_size, stride, padding, dilation, ceil_mode)
    at = windows.windows(op, self, count, *given)
    _check_ordered(op, self)
    work = partial(_maxima, at, _least(self._geometry.dtype))

    def loop(x: Any, values: Any, places: Any) -> bool:
        done: bool = _max_pool_loop(x, values, places, *at[:4])
        return done

    call = windows.call_of(globals(), f"{op}_with_indices", self, *given)
    return _made(op, self, self, at.out, work, loop, call)


max_pool2d_with_indices: Kernel = given(_max_pool, count=2)
max_pool3d_with_indices: Kernel = given(_max_pool, count=3)


def max_pool1d_with_indices(
    key_set: int, self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False,
) -> Two:  # fmt: skip
    kernel, step, pad = windows.of_one("max_pool1d", self, kernel_size, stride, padding)
    (gap,) = arguments.per_dim("max_pool1d", "dilation", dilation, 1, 1)
    values, at = calls.max_pool2d_with_indices(
        calls.unsqueeze(self, -2), (1, kernel), (1, step), (0, pad), (1, gap), ceil_mode
    )
    return calls.squeeze_dim(values, -2), calls.squeeze_dim(at, -2)


# --- adaptive windows -----------------------------------------------------------------------------


def _place_of_best(on: Any, x: Any) -> Any:
    """Return the index of the maximum along the last dimension."""
    np, at = on.np, x.argmax(-1)
    if x.dtype.kind != "f":
        return at
    best = np.take_along_axis(x, at[..., None], -1)
    if on.is_gpu or np.isnan(best).any():
        nan = np.isnan(x)
        last = x.shape[-1] - 1 - nan[..., ::-1].argmax(-1)
        at = np.where(nan.any(-1), last, at)
    return at


def _adapted(out: Sizes, on: Any, x: Any, first: int, best: Any, places: Any) -> None:
    """Write the maxima of adaptive windows and their indices. Windows are compared as rows of equal
    lengths, in which a shorter window repeats its last element."""
    np, count = on.np, len(out)
    sizes = x.shape[1 : 1 + count]
    lines: list[Any] = []
    for d in reversed(range(count)):
        rows = slice(first, first + best.shape[1]) if d == 0 else slice(None)
        line = windows.parts(sizes[d], out[d]).at[rows]
        x = windows.parted(on, x, d + 1, line)
        lines.insert(0, line)
    within = [2 + 2 * d for d in range(count)]
    x = x.transpose(*[d for d in range(x.ndim) if d not in within], *within)
    x = x.reshape(*best.shape, -1)
    at = _place_of_best(on, x)
    best[...] = np.take_along_axis(x, at[..., None], -1)[..., 0]
    total, step = 0, 1
    for d in reversed(range(count)):
        shape = (-1, *[1] * (best.ndim - d - 2))
        number, length = lines[d].shape
        tap = on.constant(numpy.arange(number).reshape(shape) * length) + at % length
        total = total + on.constant(lines[d]).take(tap) * step
        at, step = at // length, step * sizes[d]
    places[...] = total


def _adaptive_max_pool(key_set: int, count: int, self: Tensor, output_size: Any) -> Two:
    op = f"adaptive_max_pool{count}d"
    out = windows.output_size(op, self, output_size, count)
    _check_ordered(op, self)
    like = self if count == 2 else None

    def loop(x: Any, values: Any, places: Any) -> bool:
        done: bool = _adaptive_loop(x, values, places, count)
        return done

    call = windows.call_of(globals(), op, self, output_size)
    return _made(op, self, like, out, partial(_adapted, out), loop, call)


adaptive_max_pool2d: Kernel = given(_adaptive_max_pool, count=2)
adaptive_max_pool3d: Kernel = given(_adaptive_max_pool, count=3)


def adaptive_max_pool1d(key_set: int, self: Tensor, output_size: Any) -> Two:
    (out,) = windows.output_size("adaptive_max_pool1d", self, output_size, 1)
    values, at = calls.adaptive_max_pool2d(calls.unsqueeze(self, -2), (1, out))
    return calls.squeeze_dim(values, -2), calls.squeeze_dim(at, -2)


# --- gradients: each element is added at the index of its maximum -------------------------------


def planes(x: Tensor, count: int) -> Tensor:
    """Return x with its spatial dimensions flattened into one."""
    sizes = x._geometry.sizes
    before = sizes[: len(sizes) - count]
    return calls.reshape(x, (*before, prod(sizes[len(before) :])))


def check_indices(op: str, indices: Tensor, like: Tensor, arg: str) -> None:
    if indices._geometry.dtype is not dtypes.int64:
        raise errors.wrong_dtype(op, "indices", "be int64", indices)
    if indices._geometry.sizes != like._geometry.sizes:
        rule = f"have the sizes {list(like._geometry.sizes)} of {arg}"
        raise errors.wrong_shape(op, "indices", rule, indices)
    arguments.check_device(op, arg, like, "indices", indices)


def scattered(
    op: str, count: int, grad: Tensor, self: Tensor, indices: Tensor, keeps: bool
) -> Tensor:
    """Scatter `grad` to a tensor with self's sizes. keeps: True if the result also has self's
    memory format."""
    check_indices(op, indices, grad, "grad_output")
    sizes, values = self._geometry.sizes, planes(wide(grad), count)
    before = sizes[: len(sizes) - count]
    of, at = (*before, prod(sizes[len(before) :])), planes(indices, count)
    made = _by_planes(values, at, of) if values._device is CPU else None
    if made is None:
        made = calls.new_zeros(values, of)
        if values._geometry.numel:
            made = calls.scatter_add(made, -1, at, values)
    form = suggest_memory_format(self) if keeps else formats.contiguous_format
    return calls.contiguous(cast(calls.reshape(made, sizes), self._geometry.dtype), form)


def _by_planes(values: Tensor, at: Tensor, sizes: Sizes) -> Tensor | None:
    """Run the CPU's loop for all planes. Return None for layouts and dtypes that it does not
    support."""
    if not values._geometry.numel or not sizes[-1]:
        return None
    made = calls.new_empty(values, sizes)
    arrays = [numpy.ascontiguousarray(x._get_array()) for x in (values, at, made)]
    done = _backward_loop(*[x.reshape(-1, x.shape[-1]) for x in arrays])
    return made if done else None


def _backward(
    key_set: int, count: int, grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any,
    padding: Any, dilation: Any, ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    op = f"max_pool{count}d_with_indices_backward"
    return scattered(op, count, grad_output, self, indices, keeps=True)


max_pool2d_with_indices_backward: Kernel = given(_backward, count=2)
max_pool3d_with_indices_backward: Kernel = given(_backward, count=3)


def _adaptive_backward(
    key_set: int, count: int, grad_output: Tensor, self: Tensor, indices: Tensor
) -> Tensor:
    op = f"adaptive_max_pool{count}d_backward"
    return scattered(op, count, grad_output, self, indices, keeps=count == 2)


adaptive_max_pool2d_backward: Kernel = given(_adaptive_backward, count=2)
adaptive_max_pool3d_backward: Kernel = given(_adaptive_backward, count=3)
