"""Resampling of images: all upsample_* operators, by tables of input elements and weights.

The mode determines a table for each dimension: the input elements and weights of each result
element. Dimensions are processed one after the other. A gradient uses the transposed table. NumPy
computes on the CPU, CuPy on CUDA. f16 and bf16 are computed in f32 and rounded once. uint8 is
computed in fixed point and rounded after each dimension, as in PyTorch.
Source: aten/src/ATen/native/UpSample.h and cpu/UpSampleKernel.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
import math
from typing import Any, NamedTuple

import numpy as np

from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.dtype import FLOATING
from ..kernels import stub
from ..runtime import cpu
from ..structured import arguments
from ..structured.layers import windows
from ..tensor.tensor import Tensor
from ..structured.layers.precision import cast, wide

BY_LIBRARY = True
_line = stub.compiled("pool_windows", "line")

Sizes = tuple[int, ...]


class Tap(NamedTuple):
    """One term of weighted sums: the elements at the indices `at`, times the weights `by`, are
    added to the results at the indices `to`. by: None means weight 1. to: None means all
    results."""

    to: Any
    at: Any
    by: Any


class Line(NamedTuple):
    """One dimension, which is resized from n to m elements. scale: the scale of the call, or
    None."""

    mode: str
    n: int
    m: int
    align: bool
    scale: float | None


# --- the elements of each result, and their weights ---------------------------------------------


def _ratio(line: Line, of: Any) -> Any:
    """Return the number of input elements per result element, rounded as in PyTorch."""
    if line.align:
        return of(line.n - 1) / of(line.m - 1) if line.m > 1 else of(0)
    if line.scale is not None and line.scale > 0:
        return of(1.0 / line.scale)
    return of(line.n) / of(line.m)


def _places(line: Line, of: Any) -> Any:
    """Return the position of each result element in the input."""
    i, ratio, half = np.arange(line.m).astype(of), _ratio(line, of), of(0.5)
    return ratio * i if line.align else ratio * (i + half) - half


def _nearest(line: Line, of: Any) -> tuple[Any, Any]:
    i = np.arange(line.m).astype(of)
    if line.mode == "nearest_exact":
        at = np.floor(_places(line, of) + of(0.5))
    else:
        at = np.floor(_ratio(line, of) * i)
    return np.minimum(at.astype(np.int64), line.n - 1)[None], None


def _floor(line: Line, real: Any, of: Any) -> tuple[Any, Any]:
    """Return, for each position, the index of the element at or before it, and the distance from
    this element."""
    at = np.minimum(np.floor(real).astype(np.int64), line.n - 1)
    return at, np.clip(real - at.astype(of), of(0), of(1))


def _linear(line: Line, of: Any) -> tuple[Any, Any]:
    at, part = _floor(line, np.maximum(_places(line, of), of(0)), of)
    if line.n == line.m:
        at, part = np.arange(line.n), np.zeros(line.n, of)
    return np.stack([at, np.minimum(at + 1, line.n - 1)]), np.stack([of(1) - part, part])


def _near(x: Any, a: Any) -> Any:
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _far(x: Any, a: Any) -> Any:
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _cubic(line: Line, of: Any) -> tuple[Any, Any]:
    at, t = _floor(line, _places(line, of), of)
    a, back = of(-0.75), of(1) - t
    by = [_far(t + 1, a), _near(t, a), _near(back, a), _far(back + 1, a)]
    return np.stack([np.clip(at + k, 0, line.n - 1) for k in (-1, 0, 1, 2)]), np.stack(by)


def _triangle(x: Any) -> Any:
    return np.maximum(1 - abs(x), 0)


def _spline(x: Any) -> Any:
    x, a = abs(x), x.dtype.type(-0.5)
    return np.where(x < 1, _near(x, a), np.where(x < 2, _far(x, a), 0))


def _lanczos(x: Any) -> Any:
    return np.where(abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0).astype(x.dtype)


# Maps an antialiasing mode to its filter and the filter's radius.
_FILTERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "linear_aa": (_triangle, 1), "cubic_aa": (_spline, 2), "lanczos_aa": (_lanczos, 3),
}  # fmt: skip


def _smooth(line: Line, of: Any) -> tuple[Any, Any]:
    """Return the taps of an antialiasing mode. Unused elements have index -1."""
    shape, reach = _FILTERS[line.mode]
    ratio, half = _ratio(line, of), of(0.5)
    support = reach * ratio if ratio >= 1 else of(reach)
    center = ratio * (np.arange(line.m).astype(of) + half)
    first = np.maximum((center - support + half).astype(np.int64), 0)
    end = np.minimum((center + support + half).astype(np.int64), line.n)
    most = int(np.ceil(support)) * 2 + 1
    count = np.clip(end - first, 0, most)
    taps = np.arange(count.max(initial=0))[:, None]
    x = (taps + first).astype(of) - center + half
    by = np.where(taps < count, shape(x * (1 / ratio if ratio >= 1 else of(1))), 0).astype(of)
    total = by.sum(0, dtype=of)
    by /= np.where(total == 0, of(1), total)
    return np.where(taps < count, taps + first, -1), by


_MODES: dict[str, Callable[[Line, Any], tuple[Any, Any]]] = {
    "nearest": _nearest, "nearest_exact": _nearest, "linear": _linear, "cubic": _cubic,
    **dict.fromkeys(_FILTERS, _smooth),
}  # fmt: skip


@lru_cache(maxsize=256)
def _table(line: Line, element: str, turned: bool) -> tuple[tuple[Tap, ...], int]:
    """Return the taps of a dimension and, if the weights are integers, their number of fractional
    binary digits (otherwise 0).

    turned: return the transposed table, from results to input elements, which gradients use.
    """
    of = {"u1": np.float64, "f8": np.float64}.get(element, np.float32)
    at, by = _MODES[line.mode](line, of)
    places = 0
    if element == "u1" and by is not None:
        # If an element is used twice, it gets the sum of both weights, which is rounded once.
        for k in range(1, len(at)):
            twice = np.where(at[k] == at[k - 1], by[k - 1], 0)
            by[k] += twice
            by[k - 1] -= twice
        places = _binary_places(by.max(initial=0))
        by = np.trunc(by * (1 << places) + np.where(by < 0, -0.5, 0.5)).astype(np.int32)
    if turned:
        return _turned(at, by), places
    taps = []
    for k, row in enumerate(at):
        to = None if (row >= 0).all() else _run(np.flatnonzero(row >= 0))
        kept = slice(None) if to is None else to
        taps.append(Tap(to, row[kept], None if by is None else by[k][kept]))
    return tuple(taps), places


def _binary_places(most: float) -> int:
    """Return the number of fractional binary digits of the integer weights, which fit into 16 bits
    as in PyTorch."""
    for places in range(22):
        if int(0.5 + most * (1 << (places + 1))) >= 1 << 15:
            return places
    return 22


def _turned(at: Any, by: Any) -> tuple[Tap, ...]:
    """Return the transposed taps: for each input element, the results that use it, and their
    weights."""
    kept = at.T >= 0  # Transposed, so that the stable sort keeps the order of results.
    elements = at.T[kept]
    results = np.broadcast_to(np.arange(at.shape[1])[:, None], kept.shape)[kept]
    order = np.argsort(elements, kind="stable")
    elements, results = elements[order], results[order]
    weights = None if by is None else by.T[kept][order]
    # Merge weights, so that each result uses an element only once.
    if weights is not None and len(weights):
        first = np.ones(len(elements), bool)
        first[1:] = (np.diff(elements) != 0) | (np.diff(results) != 0)
        weights = np.add.reduceat(weights, np.flatnonzero(first))
        elements, results = elements[first], results[first]
        elements, results, weights = (x[weights != 0] for x in (elements, results, weights))
    rank = np.arange(len(elements)) - np.searchsorted(elements, elements)
    taps = []
    for r in range(int(rank.max(initial=-1)) + 1):
        now = rank == r
        to, at = _run(elements[now]), results[now]
        taps.append(Tap(to, at, None if weights is None else weights[now]))
    return tuple(taps)


def _run(places: Any) -> Any:
    """Return sorted indices as a slice if they are consecutive, otherwise unchanged."""
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return slice(int(places[0]), int(places[-1]) + 1)
    return places


# --- all dimensions -------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _steps(lines: tuple[Line, ...], element: str, turned: bool) -> list[Any]:
    """Return (axis, taps, binary digits, size, dense taps) of each dimension that changes, in the
    order of processing."""
    found = []
    for axis, line in enumerate(lines, 1):
        is_same = line.n == line.m and (line.scale is None or line.mode in _FILTERS)
        if is_same and line.mode not in ("linear", "cubic"):
            continue
        taps, places = _table(line, element, turned)
        given, size = (line.m, line.n) if turned else (line.n, line.m)
        # Dimensions that shrink are processed first, in ascending order, so that dropped elements
        # are not computed. An earlier dimension takes less time, because whole rows are read. The
        # other dimensions follow in descending order.
        order = axis if size < given and not places else 9 - axis
        found.append((order, (axis, taps, places, size, _dense(taps, size, element))))
    return [step for _, step in sorted(found, key=lambda step: step[0])]


def _dense(taps: tuple[Tap, ...], size: int, element: str) -> Any:
    """Return what the compiled loop needs: the taps' element indices and their weights, both as
    arrays (taps, results), and True if some elements are missing. A tap without weights has the
    weight 1, which changes no value. Return None for elements that are not f32 or f64."""
    if not taps or element not in ("f4", "f8"):
        return None
    at = np.full((len(taps), size), -1, np.int32)
    by = np.zeros((len(taps), size), element)
    for n, tap in enumerate(taps):
        to = slice(None) if tap.to is None else tap.to
        at[n, to], by[n, to] = tap.at, 1 if tap.by is None else tap.by
    return at, by, bool((at < 0).any())


def _compute(lines: tuple[Line, ...], turned: bool, on: Any, x: Any, first: int, made: Any) -> None:
    steps = _steps(lines, np.dtype(x.dtype).str[1:], turned)
    for number, (axis, taps, places, size, dense) in enumerate(steps, 1):
        to = made if number == len(steps) else None
        if places:
            x = _in_fixed_point(on, x, axis, taps, places)
            continue
        is_compiled = dense is not None and not on.is_gpu and dense[1].dtype == x.dtype
        along = _along_by_compiled(x, axis, size, dense, to) if is_compiled else None
        x = _along(on, x, axis, taps, size, to) if along is None else along
    if x is not made:
        made[...] = x


def _along_by_compiled(x: Any, axis: int, size: int, dense: Any, made: Any = None) -> Any:
    """Apply the taps along an axis by the compiled loop. If `made` is given, write to it. Return
    None if the loop declines."""
    if made is None:
        made = cpu.empty((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
    return made if _line(x, axis, made, *dense) else None


# The bytes that the compiled loop writes per thread for some planes before it begins with the next
# ones: the results of one dimension are still in the cache when the next dimension reads them.
_CACHED = 1 << 20


def _by_compiled(lines: tuple[Line, ...], turned: bool, x: Any, made: Any) -> bool:
    """Resize row-major planes by the compiled loop, whose threads divide many planes. Return False
    if the loop declines."""
    if not (x.flags.c_contiguous and made.flags.c_contiguous):
        return False
    steps = _steps(lines, x.dtype.str[1:], turned)
    if not steps or any([places or dense is None for _, _, places, _, dense in steps]):
        return False
    planes = x.reshape(-1, *x.shape[-len(lines) :])
    results = made.reshape(-1, *made.shape[-len(lines) :])
    some = max(_CACHED * cpu.get_num_threads() // (results[0].nbytes + planes[0].nbytes), 1)
    for first in range(0, len(planes), some):
        part = planes[first : first + some]
        for number, (axis, _, _, size, dense) in enumerate(steps, 1):
            to = results[first : first + some] if number == len(steps) else None
            part = _along_by_compiled(part, axis, size, dense, to)
            if part is None:
                return False
    return True


def _along(on: Any, x: Any, axis: int, taps: tuple[Tap, ...], size: int, made: Any = None) -> Any:
    """Apply the taps along an axis. If `made` is given, write to it."""
    np, shape = on.np, (-1, *[1] * (x.ndim - axis - 1))
    if not taps or len(taps[0].at) < size:
        if made is None:
            made = on.empty((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
        made.fill(0)
    for n, (to, at, by) in enumerate(taps):
        is_all = len(at) == size  # The indices in `to` are distinct, so these are all results.
        starts = is_all and n == 0
        if starts and by is None and made is not None and not on.is_gpu:
            # Mode "clip" is fast, because it does not check indices.
            x.take(at, axis, made, "clip")
            continue
        part = x.take(on.constant(at), axis)
        total = part if made is None else made
        if by is not None:
            np.multiply(part, on.constant(by).reshape(shape), out=total if starts else part)
        elif starts and total is not part:
            total[...] = part
        if starts:
            made = total
        elif is_all:
            np.add(made, part, out=made)
        else:
            made[(slice(None),) * axis + (to if type(to) is slice else on.constant(to),)] += part
    return made


def _in_fixed_point(on: Any, x: Any, axis: int, taps: tuple[Tap, ...], places: int) -> Any:
    found = _along(on, x.astype("i4"), axis, taps, max(len(t.at) for t in taps))
    found += 1 << (places - 1)
    found >>= places
    return on.np.clip(found, 0, 255).astype("u1")


class _Leaf(NamedTuple):
    op: str
    mode: str
    dims: int
    keeps: bool  # True if the result has the memory format of the incoming gradient.

    @property
    def has_align(self) -> bool:
        return not self.mode.startswith("nearest")


def _check(op: str, arg: str, x: Tensor, count: int, whole: Sizes, out: Sizes) -> None:
    """Check the sizes of an operand. whole: all sizes of the input. out: the last sizes of the
    result."""
    if len(whole) != count + 2:
        raise errors.wrong_shape(op, arg, f"have {count + 2} dimensions", x)
    if 0 in whole[1:]:
        raise errors.wrong_shape(op, arg, "have no size 0 but of samples", x)
    if any(n < 1 for n in out):
        raise errors.must(op, "output_size", "be positive", out)


def _lines(
    leaf: _Leaf, op: str, given: Sizes, output_size: Any, options: tuple[Any, ...]
) -> tuple[Line, ...]:
    align = False
    if leaf.has_align:
        align, options = options[0], options[1:]
        align = arguments.boolean(op, "align_corners", align)
    scales = [*options, *[None] * (leaf.dims - len(options))]
    pairs = zip(given[2:], output_size, scales)
    return tuple([Line(leaf.mode, n, m, align, s) for n, m, s in pairs])


def _output_size(op: str, value: Any, count: int) -> Sizes:
    found = arguments.ints(op, "output_size", value)
    found = found * count if len(found) == 1 else found
    if len(found) != count:
        raise errors.must(op, "output_size", f"be one int or {count}", found)
    return found


def _made(
    leaf: _Leaf, op: str, arg: str, x: Tensor, sizes: Sizes, lines: tuple[Line, ...], turned: bool,
    call: windows.Call | None = None,
) -> Tensor:  # fmt: skip
    element = x._geometry.dtype
    is_whole = element is dtypes.uint8 and (not leaf.has_align or leaf.dims == 2)
    if element.category != FLOATING and not is_whole:
        raise errors.wrong_dtype(op, arg, "be floating" + " or uint8" * (leaf.dims == 2), x)
    keeps = leaf.dims > 1 and (leaf.keeps or not turned)
    given = wide(x) if leaf.has_align or turned else x
    work = partial(_compute, lines, turned)
    like, of, out = x if keeps else None, given._geometry.dtype, sizes[2:]
    reads = 2 * out[0] * given._geometry.sizes[-1] if len(out) > 1 else None
    loop = partial(_by_compiled, lines, turned)
    (made,) = windows.made_of(op, given, like, out, (of,), work, reads=reads, loop=loop, call=call)
    return cast(made, element)


def _leaves(name: str, mode: str, count: int, keeps: bool = True) -> tuple[Any, Any, Any]:
    """Return the kernels of an operator, of its gradient, and of the overload with scale
    factors."""
    leaf = _Leaf(name, mode, count, keeps)

    def forward(key_set: int, self: Tensor, output_size: Any, *options: Any) -> Tensor:
        out, given = _output_size(name, output_size, count), self._geometry.sizes
        _check(name, "self", self, count, given, out)
        lines = _lines(leaf, name, given, out, options)
        call = windows.call_of(globals(), name, self, output_size, *options)
        return _made(leaf, name, "self", self, (*given[:2], *out), lines, False, call)

    def backward(
        key_set: int, grad_output: Tensor, output_size: Any, input_size: Any, *options: Any
    ) -> Tensor:
        op = f"{name}_backward"
        out = _output_size(op, output_size, count)
        given = arguments.ints(op, "input_size", input_size)
        _check(op, "input_size", grad_output, count, given, out)
        if grad_output._geometry.sizes != (*given[:2], *out):
            rule = f"have the sizes {[*given[:2], *out]}"
            raise errors.wrong_shape(op, "grad_output", rule, grad_output)
        lines = _lines(leaf, op, given, out, options)
        return _made(leaf, op, "grad_output", grad_output, given, lines, True)

    def vec(key_set: int, input: Tensor, output_size: Any, *options: Any) -> Tensor:
        *align, factors = options
        return _by_factors(leaf, input, output_size, tuple(align), factors)

    return forward, backward, vec


def _by_factors(
    leaf: _Leaf, input: Tensor, output_size: Any, align: tuple[Any, ...], factors: Any
) -> Tensor:
    op, count = leaf.op, leaf.dims
    if (output_size is None) is (factors is None):
        raise errors.must(op, "output_size", "be given, or scale_factors instead", output_size)
    made = getattr(calls, op)
    if factors is None:
        found: Tensor = made(input, output_size, *align)
        return found
    if len(factors) != count:
        raise errors.must(op, "scale_factors", f"have {count} entries", factors)
    given = input._geometry.sizes
    if len(given) != count + 2:
        raise errors.wrong_shape(op, "input", f"have {count + 2} dimensions", input)
    if not all(math.isfinite(s) for s in factors):
        raise errors.must(op, "scale_factors", "be finite", tuple(factors))
    sizes = tuple([int(n * float(s)) for n, s in zip(given[2:], factors)])
    scaled: Tensor = made(input, sizes, *align, *map(float, factors))
    return scaled


(upsample_nearest1d, upsample_nearest1d_backward, upsample_nearest1d_vec) = _leaves(
    "upsample_nearest1d", "nearest", 1
)
(upsample_nearest2d, upsample_nearest2d_backward, upsample_nearest2d_vec) = _leaves(
    "upsample_nearest2d", "nearest", 2
)
(upsample_nearest3d, upsample_nearest3d_backward, upsample_nearest3d_vec) = _leaves(
    "upsample_nearest3d", "nearest", 3, False
)
(_upsample_nearest_exact1d, _upsample_nearest_exact1d_backward, _upsample_nearest_exact1d_vec) = (
    _leaves("_upsample_nearest_exact1d", "nearest_exact", 1)
)
(_upsample_nearest_exact2d, _upsample_nearest_exact2d_backward, _upsample_nearest_exact2d_vec) = (
    _leaves("_upsample_nearest_exact2d", "nearest_exact", 2)
)
(_upsample_nearest_exact3d, _upsample_nearest_exact3d_backward, _upsample_nearest_exact3d_vec) = (
    _leaves("_upsample_nearest_exact3d", "nearest_exact", 3, False)
)
(upsample_linear1d, upsample_linear1d_backward, upsample_linear1d_vec) = _leaves(
    "upsample_linear1d", "linear", 1
)
(upsample_bilinear2d, upsample_bilinear2d_backward, upsample_bilinear2d_vec) = _leaves(
    "upsample_bilinear2d", "linear", 2
)
(upsample_trilinear3d, upsample_trilinear3d_backward, upsample_trilinear3d_vec) = _leaves(
    "upsample_trilinear3d", "linear", 3
)
(upsample_bicubic2d, upsample_bicubic2d_backward, upsample_bicubic2d_vec) = _leaves(
    "upsample_bicubic2d", "cubic", 2, False
)
(_upsample_bilinear2d_aa, _upsample_bilinear2d_aa_backward, _upsample_bilinear2d_aa_vec) = _leaves(
    "_upsample_bilinear2d_aa", "linear_aa", 2
)
(_upsample_bicubic2d_aa, _upsample_bicubic2d_aa_backward, _upsample_bicubic2d_aa_vec) = _leaves(
    "_upsample_bicubic2d_aa", "cubic_aa", 2, False
)
(_upsample_lanczos2d_aa, _upsample_lanczos2d_aa_backward, _upsample_lanczos2d_aa_vec) = _leaves(
    "_upsample_lanczos2d_aa", "lanczos_aa", 2, False
)
