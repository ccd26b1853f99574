"""Images at places that a grid names, and grids of affine transforms.

In each dimension a place has taps: elements beside it, their weights, and how these change with
the place. Results and gradients are sums over all combinations of taps, made of other operators.
f16 and bf16 are computed in f32 and rounded once. A place that is no number lies outside, and
where there is no outside at the first element; PyTorch's CPU kernels crash there.
Source: aten/src/ATen/native/GridSampler.h and AffineGridGenerator.cpp.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.dtype import FLOATING
from ..structured import arguments
from ..tensor.tensor import Tensor
from .norm import cast, check_floating, wide

Sizes = tuple[int, ...]
BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


class Tap(NamedTuple):
    """is_within: None where all are. by: a weight, and its change; None is one, and none."""

    at: Tensor
    is_within: Tensor | None
    by: Tensor | None
    change: Any


class Axis(NamedTuple):
    size: int
    padding: int
    align: bool


# --- places in one dimension ----------------------------------------------------------------------


def _to_pixels(place: Tensor, axis: Axis) -> tuple[Tensor, float]:
    """From -1 and 1, the ends, to elements; and the change of these with the place."""
    if axis.align:
        by = (axis.size - 1) / 2
        return (place + 1) * by, by
    return (place + 1) * (axis.size / 2) - 0.5, axis.size / 2


def _inside(x: Tensor, axis: Axis) -> tuple[Tensor, Any]:
    """Brought among the elements by the padding; and the change of that with the place."""
    change: Any = 1
    if axis.padding == ZEROS:
        return x, change
    if axis.padding == REFLECTION:
        x, change = _reflected(x, axis)
    last = axis.size - 1
    is_inside = calls.logical_and(x > 0, x < last)
    # not clamp, which hands on a NaN
    return calls.where_self(is_inside, x, cast(x >= last, x._geometry.dtype) * last), (
        cast(is_inside, x._geometry.dtype) * change
    )


def _reflected(x: Tensor, axis: Axis) -> tuple[Tensor, Any]:
    first = 0.0 if axis.align else -0.5
    span = float(axis.size - 1 if axis.align else axis.size)
    if not span:
        return x * 0, 0
    from_first = x - first
    away = calls.abs(from_first)
    turns = calls.floor(away / span)
    rest = away - turns * span
    is_back = calls.remainder_Scalar(turns, 2) == 1
    sign = 1 - 2 * cast(calls.logical_xor(is_back, from_first < 0), x._geometry.dtype)
    return calls.where_self(is_back, span - rest, rest) + first, sign


def _tap(place: Tensor, axis: Axis, by: Tensor | None, change: Any) -> Tap:
    is_within = None
    if axis.padding == ZEROS:
        is_within = calls.logical_and(place >= 0, place <= axis.size - 1)
        place = calls.where_self(is_within, place, calls.zeros_like(place))
    return Tap(cast(place, dtypes.int64), is_within, by, change)


def _taps(place: Tensor, mode: int, axis: Axis) -> list[Tap]:
    """change: of the weights with the place as it is given."""
    x, by = _to_pixels(place, axis)
    if mode == BICUBIC:
        before = calls.floor(x)
        made = []
        for k, (weight, change) in enumerate(_cubic(x - before), -1):
            element, _ = _inside(before + k, axis)
            made.append(_tap(calls.floor(element), axis, weight, change * by))
        return made
    x, change = _inside(x, axis)
    if mode == NEAREST:
        return [_tap(calls.round(x), axis, None, None)]
    before, by = calls.floor(x), change * by
    part = x - before
    after = before + 1
    if axis.padding != ZEROS:  # what is on the last element has none behind it
        after = calls.clamp_max(after, axis.size - 1)
    return [_tap(before, axis, 1 - part, -by), _tap(after, axis, part, by)]


def _cubic(t: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Weights of the four elements around, and their changes."""
    a = -0.75
    far = [(((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a)
           for x in (t + 1, 2 - t)]  # fmt: skip
    near = [(((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x)
            for x in (t, 1 - t)]  # fmt: skip
    (w0, d0), (w3, d3), (w1, d1), (w2, d2) = *far, *near
    return [(w0, d0), (w1, d1), (w2, -d2), (w3, -d3)]


# --- all dimensions -------------------------------------------------------------------------------


class _Reach:
    """The elements that count: `x` of sizes (C, N and places), and combinations of taps."""

    def __init__(self, input: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> None:
        self.sizes = input._geometry.sizes
        self.out = grid._geometry.sizes[1:-1]
        inner = self.sizes[2:]
        count = len(inner)
        self.batch, self.channels = self.sizes[:2]
        places = wide(grid)
        self.taps = [
            _taps(
                calls.reshape(calls.select_int(places, -1, count - 1 - d), (self.batch, -1)),
                mode,
                Axis(n, padding, align),
            )
            for d, n in enumerate(inner)
        ]
        step = 1
        for n in inner:
            step *= n
        begins = calls.arange_start_step(
            0, self.batch * step, step, dtypes.int64, None, input._device, None
        )
        self.begins = calls.unsqueeze(begins, 1)

    def flat(self, x: Tensor) -> Tensor:
        """(N, C, ...) as (C, N ...)."""
        return calls.reshape(calls.transpose_int(x, 0, 1), (self.channels, -1))

    def back(self, x: Tensor, sizes: Sizes, to: Any) -> Tensor:
        """(C, N ...) as (N, C, sizes)."""
        if 1 in (self.batch, self.channels):  # strides of such a size would show
            return cast(calls.reshape(x, (self.batch, self.channels, *sizes)), to)
        apart = calls.reshape(x, (self.channels, self.batch, *sizes))
        return calls.contiguous(cast(calls.transpose_int(apart, 0, 1), to))

    def combinations(self) -> Any:
        """(flat indices, whether they are within, the taps) of each."""
        for taps in product(*self.taps):
            at: Any = None
            within: Tensor | None = None
            for tap, n in zip(taps, self.sizes[2:]):
                at = tap.at if at is None else at * n + tap.at
                if tap.is_within is not None:
                    within = (
                        tap.is_within if within is None
                        else calls.logical_and(within, tap.is_within)
                    )  # fmt: skip
            flat = calls.reshape(at + self.begins, (-1,))
            yield flat, None if within is None else calls.reshape(within, (-1,)), taps

    def weighted(self, x: Tensor, within: Tensor | None, taps: Any, changed: int = -1) -> Tensor:
        """x by the weights, with the change of one of them in its place; 0 without."""
        for d, tap in enumerate(taps):
            by = tap.change if d == changed else tap.by
            if by is not None:
                x = x * (calls.reshape(by, (-1,)) if isinstance(by, Tensor) else by)
        if within is None:
            return x
        return calls.where_self(within, x, calls.new_zeros(x, ()))


def _check(op: str, count: int, input: Tensor, grid: Tensor, mode: int, padding: int) -> None:
    check_floating(op, input=input)
    given, places = input._geometry.sizes, grid._geometry.sizes
    if len(given) != count + 2:
        raise errors.wrong_shape(op, "input", f"have {count + 2} dimensions", input)
    if grid._device is not input._device:
        raise errors.mixed_devices(op, input, "input", grid, "grid")
    if grid._geometry.dtype is not input._geometry.dtype:
        rule = f"have input's dtype {input._geometry.dtype.short}"
        raise errors.wrong_dtype(op, "grid", rule, grid)
    if len(places) != count + 2 or places[-1] != count or places[0] != given[0]:
        rule = f"have sizes (N, ..., {count}) of {count + 2} dimensions with N {given[0]}"
        raise errors.wrong_shape(op, "grid", rule, grid)
    if 0 in given[2:]:
        raise errors.wrong_shape(op, "input", "have no size 0 but of samples and channels", input)
    if mode not in range(2 if count == 3 else 3):
        rule = "be 0 (bilinear), 1 (nearest)" + ("" if count == 3 else " or 2 (bicubic)")
        raise errors.must(op, "interpolation_mode", rule, mode)
    if padding not in range(3):
        rule = "be 0 (zeros), 1 (border) or 2 (reflection)"
        raise errors.must(op, "padding_mode", rule, padding)


def _sampled(
    count: int, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
    align_corners: bool,
) -> Tensor:  # fmt: skip
    op = f"grid_sampler_{count}d"
    _check(op, count, input, grid, interpolation_mode, padding_mode)
    sizes, to = (*input._geometry.sizes[:2], *grid._geometry.sizes[1:-1]), input._geometry.dtype
    if 0 in sizes:
        return calls.new_empty(input, sizes)
    reach = _Reach(input, grid, interpolation_mode, padding_mode, align_corners)
    x, total = reach.flat(wide(input)), None
    for at, within, taps in reach.combinations():
        part = reach.weighted(calls.index_select(x, 1, at), within, taps)
        total = part if total is None else total + part
    assert total is not None
    return reach.back(total, reach.out, to)


def _backward(
    count: int, grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int,
    padding_mode: int, align_corners: bool, output_mask: Any,
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    op = f"grid_sampler_{count}d_backward"
    _check(op, count, input, grid, interpolation_mode, padding_mode)
    sizes = (*input._geometry.sizes[:2], *grid._geometry.sizes[1:-1])
    if grad_output._geometry.sizes != sizes:
        raise errors.wrong_shape(op, "grad_output", f"have sizes {list(sizes)}", grad_output)
    of_input, of_grid = output_mask
    if 0 in sizes:
        made = [calls.zeros_like(input) if of_input else None]
        return made[0], calls.zeros_like(grid) if of_grid else None
    reach = _Reach(input, grid, interpolation_mode, padding_mode, align_corners)
    grad, x = reach.flat(wide(grad_output)), reach.flat(wide(input))
    to_input = calls.zeros_like(x) if of_input else None
    to_places: list[Any] = [None] * count
    for at, within, taps in reach.combinations():
        if to_input is not None:
            to_input = calls.index_add(to_input, 1, at, reach.weighted(grad, within, taps))
        if of_grid and interpolation_mode != NEAREST:
            both = calls.sum_dim_IntList(grad * calls.index_select(x, 1, at), (0,), False)
            for d in range(count):
                part = reach.weighted(both, within, taps, d)
                to_places[d] = part if to_places[d] is None else to_places[d] + part
    made_input = made_grid = None
    if to_input is not None:
        made_input = reach.back(to_input, reach.sizes[2:], input._geometry.dtype)
    if of_grid and interpolation_mode == NEAREST:
        made_grid = calls.new_zeros(grid, grid._geometry.sizes)
    elif of_grid:
        stacked = calls.stack(to_places[::-1], -1)
        made_grid = calls.reshape(cast(stacked, grid._geometry.dtype), grid._geometry.sizes)
    return made_input, made_grid


def grid_sampler_2d(key_set: int, *args: Any) -> Tensor:
    return _sampled(2, *args)


def grid_sampler_3d(key_set: int, *args: Any) -> Tensor:
    return _sampled(3, *args)


def grid_sampler_2d_backward(key_set: int, *args: Any) -> Any:
    return _backward(2, *args)


def grid_sampler_3d_backward(key_set: int, *args: Any) -> Any:
    return _backward(3, *args)


def grid_sampler(key_set: int, input: Tensor, grid: Tensor, *rest: Any) -> Tensor:
    if input._geometry.ndim not in (4, 5):
        raise errors.wrong_shape("grid_sampler", "input", "have 4 or 5 dimensions", input)
    flat = input._geometry.ndim == 4
    return (calls.grid_sampler_2d if flat else calls.grid_sampler_3d)(input, grid, *rest)


# --- affine transforms ----------------------------------------------------------------------------


def affine_grid_generator(key_set: int, theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    op = "affine_grid_generator"
    sizes = arguments.sizes(op, size)
    if theta._geometry.dtype.category != FLOATING:
        raise errors.wrong_dtype(op, "theta", "be floating", theta)
    if len(sizes) not in (4, 5):
        raise errors.must(op, "size", "have 4 or 5 entries", sizes)
    if any(n < 1 for n in sizes):
        raise errors.must(op, "size", "be positive", sizes)
    inner = sizes[2:]
    count = len(inner)
    if theta._geometry.sizes != (sizes[0], count, count + 1):
        rule = f"have sizes {[sizes[0], count, count + 1]}"
        raise errors.wrong_shape(op, "theta", rule, theta)
    parts = [
        calls.expand(
            calls.reshape(_spread(theta, n, align_corners), (-1, *[1] * (count - 1 - d))), inner
        )
        for d, n in enumerate(inner)
    ]
    base = calls.stack([*parts[::-1], calls.ones_like(parts[0])], -1)
    places = calls.expand(calls.reshape(base, (1, -1, count + 1)), (sizes[0], -1, count + 1))
    made = calls.bmm(places, calls.transpose_int(theta, 1, 2))
    return calls.reshape(made, (sizes[0], *inner, count))


def _spread(theta: Tensor, n: int, align_corners: bool) -> Tensor:
    """From -1 to 1, the middles of the outermost elements or their edges."""
    of, place = theta._geometry.dtype, theta._device
    if n == 1:
        return calls.new_zeros(theta, (1,))
    made = calls.linspace(-1, 1, n, of, None, place, None)
    return made if align_corners else made * ((n - 1) / n)
