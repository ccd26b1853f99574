"""Average pooling: means over regular or adaptive windows.

Each operator is one function over NumPy or CuPy arrays, for planes of images. f16 and bf16 are
computed in f32 and rounded once. Source: aten/src/ATen/native/Pool.h, AveragePool2d.cpp,
AdaptiveAveragePooling.cpp.
"""

from __future__ import annotations

from functools import lru_cache, partial
import math
from typing import Any

import numpy

from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.dtype import FLOATING
from ..kernels import stub
from ..structured import arguments
from ..structured.forms import Kernel, given
from ..structured.layers import windows
from ..structured.layers.windows import Windows
from ..tensor.tensor import Tensor
from ..structured.layers.precision import cast, wide

BY_LIBRARY = True
_avg_pool_loop = stub.compiled("pool_windows", "avg_pool")
_adaptive_loop = stub.compiled("pool_windows", "adaptive_avg_pool")
_line = stub.compiled("pool_windows", "line")

Sizes = tuple[int, ...]


def _made(op: str, x: Tensor, self: Tensor, out: Sizes, work: windows.Work, **how: Any) -> Tensor:
    """Return the result of `work` in self's dtype and, for two dimensions, in self's memory
    format."""
    x, like = wide(x), self if len(out) == 2 else None
    (made,) = windows.made_of(op, x, like, out, (x._geometry.dtype,), work, **how)
    return cast(made, self._geometry.dtype)


# --- regular windows ------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _divisor(sizes: Sizes, at: Windows, count_include_pad: bool) -> Any:
    """Return the divisors of the windows: one number, or an array for each dimension."""
    found = []
    for n, k, s, p, m in zip(sizes, at.kernel, at.steps, at.pads, at.out):
        begins = numpy.arange(m) * s - p
        ends = numpy.minimum(begins + k, n + p)
        if not count_include_pad:
            begins, ends = numpy.maximum(begins, 0), numpy.minimum(ends, n)
        found.append(ends - begins)
    if all((each == each[0]).all() for each in found):
        return int(numpy.prod([each[0] for each in found]))
    return found


def _arguments(
    op: str, count: int, self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> tuple[Windows, Any]:  # fmt: skip
    if divisor_override == 0:
        raise errors.must(op, "divisor_override", "not be 0", divisor_override)
    at = windows.windows(op, self, count, kernel_size, stride, padding, 1, ceil_mode)
    of = self._geometry.dtype
    if of.category < FLOATING and of is not dtypes.int64:
        raise errors.wrong_dtype(op, "self", "be floating or int64", self)
    if divisor_override is not None:
        return at, divisor_override
    return at, _divisor(self._geometry.sizes[-count:], at, count_include_pad)


def _divide(on: Any, x: Any, by: Any, first: int, count: int, out: Any) -> None:
    """Divide the sums of windows by their divisors. first: the index of the first window."""
    if type(by) is list:
        by = [by[0][first : first + x.shape[1]], *by[1:]]
        each = [n.reshape(-1, *[1] * (x.ndim - 2 - d)) for d, n in enumerate(by)]
        by = on.constant(numpy.prod(numpy.broadcast_arrays(*each), 0).astype(x.dtype))
    np = on.np
    if x.dtype.kind == "i":  # Division rounds towards 0.
        np.floor_divide(x - np.fmod(x, by), by, out=out)
    else:
        np.divide(x, by, out=out)


def _means(at: Windows, by: Any, on: Any, x: Any, first: int, made: Any) -> None:
    np, sizes = on.np, list(made.shape[1 : 1 + len(at.out)])
    x = windows.under(np, x, at, first, sizes, 0)
    for d, k in enumerate(at.kernel):
        lead = (slice(None),) * (d + 1)
        parts = [x[(*lead, at.along(d, tap, sizes[d]))] for tap in range(k)]
        x = parts[0] if k == 1 else np.add(parts[0], parts[1])
        for part in parts[2:]:
            np.add(x, part, out=x)
    _divide(on, x, by, first, len(sizes), made)


def _avg_pool(
    key_set: int, count: int, self: Tensor, kernel_size: Any, stride: Any, padding: Any,
    ceil_mode: bool, include_pad: bool, divisor: int | None,
) -> Tensor:  # fmt: skip
    op = f"avg_pool{count}d"
    given = (kernel_size, stride, padding, ceil_mode, include_pad, divisor)
    at, by = _arguments(op, count, self, *given)

    def loop(x: Any, out: Any) -> bool:
        done: bool = _avg_pool_loop(x, out, include_pad, divisor or 0, *at[:4])
        return done

    work, call = partial(_means, at, by), windows.call_of(globals(), op, self, *given)
    return _made(op, self, self, at.out, work, shares_rows=True, loop=loop, call=call)


def _spread(at: Windows, by: Any, on: Any, x: Any, first: int, made: Any) -> None:
    """Divide each gradient by its window's divisor, and add it to all elements of the window."""
    np, count = on.np, len(at.out)
    grad = on.empty(x.shape, x.dtype)
    _divide(on, x, by, 0, count, grad)
    reach = at.reach
    for d in reversed(range(count)):
        lead = (slice(None),) * (d + 1)
        sizes = list(grad.shape)
        sizes[d + 1] = max(reach[d], at.pads[d] + made.shape[d + 1])
        whole = np.zeros(sizes, grad.dtype)
        for tap in range(at.kernel[d]):
            whole[(*lead, at.along(d, tap, at.out[d]))] += grad
        grad = whole
    inner = [slice(p, p + n) for p, n in zip(at.pads, made.shape[1:])]
    made[...] = grad[(slice(None), *inner)]


def _avg_pool_backward(
    key_set: int, count: int, grad_output: Tensor, self: Tensor, *rest: Any
) -> Tensor:
    op = f"avg_pool{count}d_backward"
    at, by = _arguments(op, count, self, *rest)
    wanted = (*self._geometry.sizes[:-count], *at.out)
    arguments.check_sizes(op, wanted, grad_output=grad_output)
    arguments.check_dtype(op, "self", self, "grad_output", grad_output)
    sizes = self._geometry.sizes[-count:]
    return _made(op, grad_output, self, sizes, partial(_spread, at, by))


def avg_pool1d(
    key_set: int, self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    kernel, step, pad = windows.of_one("avg_pool1d", self, kernel_size, stride, padding)
    made = calls.avg_pool2d(
        calls.unsqueeze(self, -2), (1, kernel), (1, step), (0, pad), ceil_mode, count_include_pad,
        None,
    )  # fmt: skip
    return calls.squeeze_dim(made, -2)


avg_pool2d: Kernel = given(_avg_pool, count=2)
avg_pool3d: Kernel = given(_avg_pool, count=3)
avg_pool2d_backward: Kernel = given(_avg_pool_backward, count=2)
avg_pool3d_backward: Kernel = given(_avg_pool_backward, count=3)


# --- adaptive windows -----------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _lengths(sizes: Sizes, out: Sizes, further: int) -> Any:
    """Return the number of elements in each window, shaped for broadcasting. further: the number of
    dimensions after the window dimensions."""
    total = numpy.ones((), numpy.int64)
    for size, n in zip(sizes, out):
        of = windows.parts(size, n)
        total = total[..., None] * (of.ends - of.begins)
    return total.reshape(*out, *[1] * further)


def _adapted(count: int, on: Any, x: Any, first: int, made: Any) -> None:
    np, sizes, out = on.np, x.shape[1 : 1 + count], made.shape[1 : 1 + count]
    for axis, (size, n) in enumerate(zip(sizes, out), 1):
        x = windows.summed(on, x, axis, windows.parts(size, n))
    np.divide(x, on.constant(_lengths(sizes, out, x.ndim - count - 1).astype(x.dtype)), out=made)


@lru_cache(maxsize=256)
def _taps(size: int, out: int, element: str) -> tuple[Any, Any, bool]:
    """Return three arguments of the compiled loop. The first contains, for each element of a
    dimension, the indices of the windows that cover it; -1 stands for an absent window. The second
    contains their weights, which are all 1. The third is True if some elements have fewer windows
    than others."""
    of = windows.coverers(size, out)
    at = of.at.T.astype(numpy.int32, order="C")
    if of.outside is not None:
        at[of.outside.T] = -1
    return at, numpy.ones(at.shape, element), bool((at < 0).any())


def _covered(on: Any, x: Any, axis: int, size: int) -> Any:
    """Return, for each of `size` elements of a dimension, the sum of the windows that cover it."""
    n = x.shape[axis]
    if not on.is_gpu and x.dtype.kind == "f":
        out = on.empty((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
        if _line(x, axis, out, *_taps(size, n, x.dtype.str[1:])):
            return out
    return windows.summed(on, x, axis, windows.coverers(size, n))


def _shared(count: int, on: Any, x: Any, first: int, made: Any) -> None:
    sizes, out = made.shape[1 : 1 + count], x.shape[1 : 1 + count]
    x = x / on.constant(_lengths(sizes, out, x.ndim - count - 1).astype(x.dtype))
    for axis, size in reversed(list(enumerate(sizes, 1))):
        x = _covered(on, x, axis, size)
    made[...] = x


def _adaptive_avg_pool(key_set: int, count: int, self: Tensor, output_size: Any) -> Tensor:
    op = f"adaptive_avg_pool{count}d"
    out = windows.output_size(op, self, output_size, count)
    arguments.check_is_floating(op, "self", self, or_complex=True)
    # Each result element is the mean of one window, so blocks of the result may be computed in any
    # order.
    reads = math.prod(self._geometry.sizes[-count:]) // 4

    def loop(x: Any, made: Any) -> bool:
        done: bool = _adaptive_loop(x, made, count)
        return done

    call = windows.call_of(globals(), f"_{op}", self, output_size)
    return _made(op, self, self, out, partial(_adapted, count), reads=reads, loop=loop, call=call)


def _adaptive_avg_pool_backward(
    key_set: int, count: int, grad_output: Tensor, self: Tensor
) -> Tensor:
    op, sizes = f"_adaptive_avg_pool{count}d_backward", self._geometry.sizes
    if grad_output._geometry.ndim != len(sizes) or len(sizes) <= count:
        rule = f"have self's {len(sizes)} dimensions"
        raise errors.wrong_shape(op, "grad_output", rule, grad_output)
    return _made(op, grad_output, self, sizes[-count:], partial(_shared, count))


_adaptive_avg_pool2d: Kernel = given(_adaptive_avg_pool, count=2)
_adaptive_avg_pool3d: Kernel = given(_adaptive_avg_pool, count=3)
_adaptive_avg_pool2d_backward: Kernel = given(_adaptive_avg_pool_backward, count=2)
_adaptive_avg_pool3d_backward: Kernel = given(_adaptive_avg_pool_backward, count=3)


def adaptive_avg_pool1d(key_set: int, self: Tensor, output_size: Any) -> Tensor:
    (out,) = windows.output_size("adaptive_avg_pool1d", self, output_size, 1)
    made = calls.adaptive_avg_pool2d(calls.unsqueeze(self, -2), (1, out))
    return calls.squeeze_dim(made, -2)


def _adaptive_or_mean(key_set: int, count: int, self: Tensor, output_size: Any) -> Tensor:
    """Return the adaptive average pooling of self. A single window is computed by `mean`, so that
    the result has the layout of `mean`'s result."""
    out = windows.output_size(f"adaptive_avg_pool{count}d", self, output_size, count)
    if out == (1,) * count:
        return calls.mean_dim(self, tuple(range(-count, 0)), True, None)
    return (calls._adaptive_avg_pool2d if count == 2 else calls._adaptive_avg_pool3d)(self, out)


adaptive_avg_pool2d: Kernel = given(_adaptive_or_mean, count=2)
adaptive_avg_pool3d: Kernel = given(_adaptive_or_mean, count=3)
