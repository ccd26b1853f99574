"""Windows over a tensor's last dimensions: their positions, and operators that reduce them.

An operator is a function of arrays. It receives planes (planes, *sizes), or (samples, *sizes,
channels) if channels are last in memory. On the CPU, each thread calls the function with as many
planes at a time as fit into the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy

from ..._generated import operators
from ...core import errors, memory_format as formats
from ...core.device import CPU
from ...core.dtype import dtype
from ...core.geometry import Geometry, geometry
from ...dispatch.operator import Table
from ...kernels.cpu import quiet
from ...runtime import cpu
from ...runtime.libraries import HOST
from ...tensor.make import allocate
from ...tensor.tensor import Tensor
from .. import arguments, library
from ..shortcuts.results import learn

Sizes = tuple[int, ...]

# The number of elements of the operand or of the result, whichever is larger, that a thread
# processes at a time.
_BLOCK = 1 << 16


def reach(kernel: Sizes, steps: Sizes, gaps: Sizes, out: Sizes) -> Sizes:
    """Return, for each dimension, the number of elements from the first window's first element to
    the last window's last element.
    """
    each = zip(kernel, steps, gaps, out)
    return tuple([(n - 1) * s + d * (k - 1) + 1 for k, s, d, n in each])


class Windows(NamedTuple):
    """The parameters of each dimension: kernel, steps between windows (strides), padding, gaps
    between elements (dilations), and out, the number of windows."""

    kernel: Sizes
    steps: Sizes
    pads: Sizes
    gaps: Sizes
    out: Sizes

    @property
    def reach(self) -> Sizes:
        """Return, for each dimension, the number of elements from the first window's first element
        to the last window's last element."""
        return reach(self.kernel, self.steps, self.gaps, self.out)

    def along(self, d: int, tap: int, count: int) -> slice:
        """Return the slice that selects element `tap` of each of `count` windows in dimension d."""
        start, step = tap * self.gaps[d], self.steps[d]
        return slice(start, start + step * (count - 1) + 1, step)


def check_planes(op: str, x: Tensor, count: int) -> None:
    given = x._geometry
    if given.ndim not in (count + 1, count + 2):
        rule = f"have {count + 1} dimensions, or {count + 2} with samples"
        raise errors.wrong_shape(op, "self", rule, x)
    if 0 in given.sizes[-count - 1 :]:
        raise errors.wrong_shape(op, "self", "have no size 0 but of the samples", x)


def windows(
    op: str, x: Tensor, count: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> Windows:  # fmt: skip
    """Return the Windows for the arguments of a pooling operator. Raise for invalid arguments."""
    check_planes(op, x, count)
    kernel = arguments.per_dim(op, "kernel_size", kernel_size, count, 1)
    steps = strides(op, stride, kernel)
    pads = arguments.per_dim(op, "padding", padding, count)
    gaps = arguments.per_dim(op, "dilation", dilation, count, 1)
    if any(2 * p > k for p, k in zip(pads, kernel)):
        raise errors.must(op, "padding", "be at most half of kernel_size", padding)
    out = _counts(x._geometry.sizes[-count:], kernel, steps, pads, gaps, ceil_mode)
    if min(out) < 1:
        rule = f"be as large as the kernel {list(kernel)}, with its padding"
        raise errors.wrong_shape(op, "self", rule, x)
    return Windows(kernel, steps, pads, gaps, out)


@lru_cache(maxsize=256)
def _counts(
    sizes: Sizes, kernel: Sizes, steps: Sizes, pads: Sizes, gaps: Sizes, ceil_mode: bool
) -> Sizes:
    """Return the number of windows in each dimension. It is less than 1 if no window fits."""
    out = []
    for n, k, s, p, d in zip(sizes, kernel, steps, pads, gaps):
        made = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        out.append(made - (1 if ceil_mode and (made - 1) * s >= n + p else 0))
    return tuple(out)


def strides(op: str, stride: Any, kernel: Sizes) -> Sizes:
    """Return the strides; by default they are the kernel's sizes."""
    if not arguments.ints(op, "stride", stride):
        return kernel
    return arguments.per_dim(op, "stride", stride, len(kernel), 1)


def of_one(op: str, x: Tensor, kernel_size: Any, stride: Any, padding: Any) -> tuple[int, int, int]:
    """Return (kernel, stride, padding) of a pooling operator over one dimension."""
    if x._geometry.ndim not in (2, 3):
        raise errors.wrong_shape(op, "self", "have 2 dimensions, or 3 with samples", x)
    kernel = arguments.per_dim(op, "kernel_size", kernel_size, 1, 1)
    (pad,) = arguments.per_dim(op, "padding", padding, 1)
    return kernel[0], strides(op, stride, kernel)[0], pad


def output_size(op: str, x: Tensor, value: Any, count: int) -> Sizes:
    """Return the requested number of windows in each dimension."""
    if x._geometry.ndim not in (count + 1, count + 2):
        rule = f"have {count + 1} dimensions, or {count + 2} with samples"
        raise errors.wrong_shape(op, "self", rule, x)
    if 0 in x._geometry.sizes[-count:]:
        raise errors.wrong_shape(op, "self", "have no size 0 but of samples and channels", x)
    found = arguments.per_dim(op, "output_size", value, count)
    if math.prod(found) >= 1 << 40:  # No memory can hold the results of so many windows.
        raise errors.must(op, "output_size", "ask for fewer than 2**40 windows", value)
    return found


# --- results --------------------------------------------------------------------------------------

# Called as work(library, x, first, *made). It computes the planes of the results, `made`, from the
# planes of the operand, `x`. first: the index in the first dimension of the first window to
# compute. It is 0 unless threads share the rows of planes.
Work = Callable[..., None]
# Called as loop(x, *made). It returns True if it wrote the results, and False if it wrote nothing.
Loop = Callable[..., bool]


class Call(NamedTuple):
    """A call of an operator: its table, its kernel, and all arguments."""

    table: Table
    kernel: Callable[..., Any]
    args: tuple[Any, ...]


def call_of(kernels: Mapping[str, Any], op: str, *args: Any) -> Call:
    """Return the call of an operator. kernels: a dict from the names of operators to their
    kernels."""
    return Call(getattr(operators, op).table, kernels[op], args)


def made_of(
    op: str, x: Tensor, like: Tensor | None, out: Sizes, results: tuple[dtype, ...], work: Work,
    shares_rows: bool = False, reads: int | None = None, loop: Loop | None = None,
    call: Call | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the results as new tensors. Their sizes are the leading sizes of x, followed by `out`.
    They have the memory format of `like`.

    loop: tried first on the CPU. shares_rows: if True, threads share the rows of large planes.
    reads: the number of elements of a plane that are read; None for all. call: the call of the
    operator, which then gets a short cut. It is given only if x may be the first argument, and if
    the operator returns the results of this function unchanged.
    """
    pattern = None if like is None else like._geometry
    wanted, is_last = _laid_out(op, x._geometry, pattern, out, results)
    types = [of.np for of in results]
    compute = partial(_computed, out, types, is_last, work, shares_rows, reads)
    tensors = None
    if x._device is not CPU or not x._geometry.numel:
        loop = None
    if loop is not None:
        tensors = tuple([allocate(of, CPU) for of in wanted])
        if not loop(x._get_array(), *[made._get_array() for made in tensors]):
            tensors = loop = None
    if tensors is None:
        tensors = library.call(op, compute, wanted, x)
    if call is not None and call.args[0] is x and x._device is CPU:
        one = tensors if len(tensors) > 1 else tensors[0]
        by = partial(_made_by, wanted, loop, compute)
        learn(call.table, call.kernel, call.args, one, by, is_new=True)
    return tensors


def _made_by(made: Sequence[Geometry], loop: Loop | None, compute: Any, x: Any) -> Any:
    """Return the arrays of the results, or None if the loop declines."""
    if loop is None:
        arrays = compute(HOST, x)
    else:
        arrays = [_empty(of) for of in made]
        if not loop(x, *arrays):
            return None
    return arrays[0] if len(made) == 1 else arrays


def _empty(of: Geometry) -> Any:
    if of.is_contiguous:
        return numpy.empty(of.sizes, of.dtype.np)
    sizes, back = _in_memory(of)
    return numpy.empty(sizes, of.dtype.np).transpose(back)


@lru_cache(maxsize=256)
def _in_memory(of: Geometry) -> tuple[Sizes, Sizes]:
    """Return the sizes of a dense geometry in the order of its strides, and the permutation back to
    the original order."""
    order = sorted(range(of.ndim), key=lambda d: (-of.strides[d], d))
    return tuple([of.sizes[d] for d in order]), tuple([order.index(d) for d in range(of.ndim)])


@lru_cache(maxsize=256)
def _laid_out(
    op: str, x: Geometry, like: Geometry | None, out: Sizes, results: tuple[dtype, ...]
) -> tuple[list[Geometry], bool]:
    """Return the layouts of the results of `made_of`, and True if channels are the last dimension
    in memory."""
    count, form = len(out), formats.contiguous_format
    if like is not None and (count, like.ndim) != (2, 3):
        form = like.suggested_format
    sizes = (*x.sizes[:-count], *out)
    strides = formats.strides_for(op, sizes, form)
    is_last = form is not formats.contiguous_format and len(sizes) == count + 2
    return [geometry(sizes, strides, of) for of in results], is_last


def _computed(
    out: Sizes, results: Sequence[Any], is_last: bool, work: Work, shares_rows: bool,
    reads: int | None, on: Any, x: Any,
) -> list[Any]:  # fmt: skip
    np, before, count = on.np, x.shape[: x.ndim - len(out)], len(out)
    if not x.size or not math.prod(out):
        return [np.empty((*before, *out), of) for of in results]
    planes = np.moveaxis(x, 1, -1) if is_last else x.reshape(-1, *x.shape[-count:])
    shape = (len(planes), *out, *planes.shape[1 + count :])
    made = [on.empty(shape, of) for of in results]
    if on.is_gpu:
        work(on, planes, 0, *made)
    else:
        reads = planes[0].size if reads is None else reads
        _in_blocks(on, planes, made, out[0], work, shares_rows, reads)
    if is_last:
        return [np.moveaxis(array, -1, 1) for array in made]
    return [array.reshape(*before, *out) for array in made]


def _in_blocks(
    on: Any, x: Any, made: Sequence[Any], rows: int, work: Work, shares_rows: bool, reads: int
) -> None:
    largest = max(reads, made[0][0].size)
    step, parts = max(1, _BLOCK // largest), 1
    if shares_rows and largest > 2 * _BLOCK:
        parts = min(rows, largest // _BLOCK)
    if step >= len(x) and parts == 1:
        work(on, x, 0, *made)
        return
    height = -(-rows // parts)
    parts = -(-rows // height)

    def block(number: int) -> None:
        plane, part = divmod(number, parts)
        planes = slice(plane * step, (plane + 1) * step)
        first = part * height
        cut = [array[planes, first : first + height] for array in made] if parts > 1 else [
            array[planes] for array in made]  # fmt: skip
        quiet.run(work, on, x[planes], first, *cut)

    cpu.share(-(-len(x) // step) * parts, cpu.get_num_threads(), lambda: block)


def under(np: Any, x: Any, at: Windows, first: int, out: Sequence[int], filler: Any) -> Any:
    """Return the elements of x that a block of windows covers. In dimension 0, the block begins at
    window `first`; in other dimensions, at window 0. out: the number of windows in each dimension.
    The result is a view or, if windows extend beyond the edge, a copy that is padded with `filler`.
    """
    begins = [-p for p in at.pads]
    begins[0] += first * at.steps[0]
    lengths = at._replace(out=tuple(out)).reach
    sizes = x.shape[1 : 1 + len(out)]
    if all(0 <= a and a + n <= m for a, n, m in zip(begins, lengths, sizes)):
        return x[(slice(None), *[slice(a, a + n) for a, n in zip(begins, lengths)])]
    made = np.full((len(x), *lengths, *x.shape[1 + len(out) :]), filler, x.dtype)
    given, to = [slice(None)], [slice(None)]
    for a, n, m in zip(begins, lengths, sizes):
        start, end = max(a, 0), min(a + n, m)
        given.append(slice(start, end))
        to.append(slice(start - a, end - a))
    made[tuple(to)] = x[tuple(given)]
    return made


# --- windows of any lengths along one dimension ---------------------------------------------------


class Ranges(NamedTuple):
    """Parts of a dimension, which may overlap, as read-only NumPy arrays.

    at: the positions in each part; a shorter part repeats its last position. outside: a mask of
    these repetitions, or None.
    """

    begins: Any
    ends: Any
    at: Any
    outside: Any


def _ranges(begins: Any, ends: Any) -> Ranges:
    at = begins[:, None] + numpy.arange((ends - begins).max(initial=0))
    outside = at >= ends[:, None]
    at = numpy.minimum(at, ends[:, None] - 1)
    return Ranges(begins, ends, at, outside if outside.any() else None)


@lru_cache(maxsize=256)
def parts(size: int, out: int) -> Ranges:
    """Return the part of a dimension that each of `out` windows covers."""
    i = numpy.arange(out)
    return _ranges(i * size // out, -((i + 1) * size // -out))


@lru_cache(maxsize=256)
def coverers(size: int, out: int) -> Ranges:
    """Return, for each element of a dimension, the consecutive windows that cover the element."""
    i, found = numpy.arange(size), parts(size, out)
    return _ranges(found.ends.searchsorted(i, "right"), found.begins.searchsorted(i, "right"))


def parted(on: Any, x: Any, axis: int, at: Any) -> Any:
    """Split a dimension of x into two: windows, and positions within a window. The result is a view
    if possible."""
    if at.size and at[-1, -1] - at[0, 0] == at.size - 1:
        x = x[(*(slice(None),) * axis, slice(at[0, 0], at[-1, -1] + 1))]
        return x.reshape(*x.shape[:axis], *at.shape, *x.shape[axis + 1 :])
    return x.take(on.constant(at), axis)


def summed(on: Any, x: Any, axis: int, of: Ranges) -> Any:
    """Return the sums over ranges of a dimension."""
    lead, (count, length) = (slice(None),) * axis, of.at.shape
    if length == 1 and count == x.shape[axis] and of.at[0, 0] == 0 and of.at[-1, 0] == count - 1:
        return x
    if count <= length and of.at.size > x.shape[axis]:
        pairs = zip(of.begins.tolist(), of.ends.tolist())
        return on.np.stack([x[(*lead, slice(a, b))].sum(axis) for a, b in pairs], axis)
    x = parted(on, x, axis, of.at)
    if of.outside is not None:
        outside = of.outside.reshape(*of.outside.shape, *[1] * (x.ndim - axis - 2))
        x = on.np.where(on.constant(outside), x.dtype.type(0), x)
    return x.sum(axis + 1)
