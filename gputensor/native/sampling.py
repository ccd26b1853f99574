"""Images sampled at the points of a grid, and grids of affine transforms.

In each dimension, a point has taps: neighbouring elements, with their weights and the derivatives
of the weights. Results and gradients are sums over all combinations of taps. On the CPU, the
compiled library computes both. On CUDA, without the library, and for gradients that are themselves
differentiated, they are composed of other operators.
f16 and bf16 are computed in f32 and rounded once. A NaN point is outside the image; if the padding
mode has no outside, it is at the first element. PyTorch's CPU kernels crash for NaN. Source:
aten/src/ATen/native/GridSampler.h and AffineGridGenerator.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.arguments import flag
from ..core.device import CPU
from ..core.geometry import contiguous_geometry
from ..kernels import stub
from ..runtime import cpu
from ..structured import arguments
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..structured.forms import Kernel, given
from ..structured.shortcuts import results as short
from ..structured.layers.precision import cast, check_floating, wide

Sizes = tuple[int, ...]
BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
_grid_sample = stub.compiled("sampling", "grid_sample")
_backward_loop = stub.compiled("sampling", "grid_sample_backward")


class Tap(NamedTuple):
    """For each point, one neighbouring element in one dimension. at: the indices of the elements.
    outside: a mask of the points whose element is outside the image, or None. by: the weights of
    the elements; None means 1. change: the derivatives of the weights; None means 0."""

    at: Any
    outside: Any
    by: Any
    change: Any


class Axis(NamedTuple):
    size: int
    padding: int
    align: bool


def _where(condition: Tensor, a: Any, b: Any) -> Tensor:
    like = a if isinstance(a, Tensor) else b
    a, b = (x if isinstance(x, Tensor) else calls.new_full(like, (), x) for x in (a, b))
    return calls.where_self(condition, a, b)


def _as_numbers(mask: Tensor, like: Tensor) -> Tensor:
    return cast(mask, like._geometry.dtype)


# --- positions in one dimension -----------------------------------------------------------------


def _to_pixels(place: Any, axis: Axis) -> tuple[Any, float]:
    """Map coordinates in [-1, 1] to positions, which are fractional indices of elements. Return the
    positions and their derivative."""
    if axis.align:
        by = (axis.size - 1) / 2
        return (place + 1) * by, by
    return (place + 1) * (axis.size / 2) - 0.5, axis.size / 2


def _inside(x: Any, axis: Axis) -> tuple[Any, Any]:
    """Move positions into the image according to the padding mode. Return the positions and their
    derivatives."""
    change: Any = 1
    if axis.padding == ZEROS:
        return x, change
    if axis.padding == REFLECTION:
        x, change = _reflected(x, axis)
    last = axis.size - 1
    is_inside = (x > 0) & (x < last)
    # NaN becomes 0 here. np.clip would keep it.
    kept = _where(is_inside, x, _as_numbers(x >= last, x) * last)
    return kept, _as_numbers(is_inside, x) * change


def _reflected(x: Any, axis: Axis) -> tuple[Any, Any]:
    first = 0.0 if axis.align else -0.5
    span = float(axis.size - 1 if axis.align else axis.size)
    if not span:
        return x * 0, 0
    from_first = x - first
    away = abs(from_first)
    turns = calls.floor(away / span)
    rest = away - turns * span
    is_back = calls.remainder_Scalar(turns, 2) == 1
    sign = 1 - 2 * _as_numbers(is_back ^ (from_first < 0), x)
    return _where(is_back, span - rest, rest) + first, sign


def _tap(place: Any, axis: Axis, by: Any, change: Any) -> Tap:
    outside = None
    if axis.padding == ZEROS:
        is_within = (place >= 0) & (place <= axis.size - 1)
        place, outside = _where(is_within, place, 0), ~is_within
    return Tap(cast(place, dtypes.int64), outside, by, change)


def _taps(place: Any, mode: int, axis: Axis) -> list[Tap]:
    """Return the taps of one dimension."""
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
    if axis.padding != ZEROS:  # A point on the last element has no next element.
        after = calls.clamp_max(after, axis.size - 1)
    return [_tap(before, axis, 1 - part, -by), _tap(after, axis, part, by)]


def _cubic(t: Any) -> list[tuple[Any, Any]]:
    """Return the weights of the four neighbouring elements, and the derivatives of the weights."""
    a = -0.75
    far = [(((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a)
           for x in (t + 1, 2 - t)]  # fmt: skip
    near = [(((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x)
            for x in (t, 1 - t)]  # fmt: skip
    (w0, d0), (w3, d3), (w1, d1), (w2, d2) = *far, *near
    return [(w0, d0), (w1, d1), (w2, -d2), (w3, -d3)]


# --- all dimensions -------------------------------------------------------------------------------


class How(NamedTuple):
    """The parameters of a call. sizes: the spatial sizes of an image."""

    sizes: Sizes
    mode: int
    padding: int
    align: bool


class Spot(NamedTuple):
    """One input element for each of the (N, P) points. at: the elements' flat indices. outside: a
    mask of the points whose element is outside the image, or None. taps: one per dimension."""

    at: Any
    outside: Any
    taps: tuple[Tap, ...]

    def weight(self, changed: int = -1) -> Any:
        """Return the product of the weights of all dimensions; None means 1. In dimension
        `changed`, the weight is replaced by its derivative."""
        total = None
        for d, tap in enumerate(self.taps):
            by = tap.change if d == changed else tap.by
            if by is not None:
                total = by if total is None else total * by
        return total


def _spots(grid: Any, how: How) -> Iterator[Spot]:
    """Yield a Spot for each element that an interpolation combines. grid: the points (N, P,
    dimensions)."""
    count = len(how.sizes)
    each = [
        _taps(grid[..., count - 1 - d], how.mode, Axis(n, how.padding, how.align))
        for d, n in enumerate(how.sizes)
    ]
    for taps in product(*each):
        at, outside = taps[0].at, taps[0].outside
        for tap, n in zip(taps[1:], how.sizes[1:]):
            at = at * n + tap.at
            outside = None if outside is None else outside | tap.outside
        yield Spot(at, outside, taps)


# --- results --------------------------------------------------------------------------------------


def _check(op: str, count: int, input: Tensor, grid: Tensor, mode: int, padding: int) -> None:
    check_floating(op, input=input)
    given, places = input._geometry.sizes, grid._geometry.sizes
    if len(given) != count + 2:
        raise errors.wrong_shape(op, "input", f"have {count + 2} dimensions", input)
    arguments.check_alike(op, "input", input, "grid", grid)
    if len(places) != count + 2 or places[-1] != count or places[0] != given[0]:
        rule = f"have sizes (N, ..., {count}) of {count + 2} dimensions with N {given[0]}"
        raise errors.wrong_shape(op, "grid", rule, grid)
    if 0 in given[2:]:
        raise errors.wrong_shape(op, "input", "have no size 0 but of samples and channels", input)
    if mode not in range(2 if count == 3 else 3):
        rule = "be 0 (bilinear), 1 (nearest) or 2 (bicubic)"
        if count == 3:  # This is PyTorch's wording of the error.
            rule = "be 0 (bilinear) or 1 (nearest): bicubic interpolation only supports 4D input"
        raise errors.must(op, "interpolation_mode", rule, mode)
    if padding not in range(3):
        rule = "be 0 (zeros), 1 (border) or 2 (reflection)"
        raise errors.must(op, "padding_mode", rule, padding)


def _sampled(
    key_set: int, count: int, input: Tensor, grid: Tensor, interpolation_mode: int,
    padding_mode: int, align_corners: bool,
) -> Tensor:  # fmt: skip
    op = f"grid_sampler_{count}d"
    _check(op, count, input, grid, interpolation_mode, padding_mode)
    sizes, to = (*input._geometry.sizes[:2], *grid._geometry.sizes[1:-1]), input._geometry.dtype
    if 0 in sizes:
        return calls.new_empty(input, sizes)
    align = flag(op, "align_corners", align_corners)
    how = How(input._geometry.sizes[2:], interpolation_mode, padding_mode, align)
    x, places = wide(input), wide(grid)
    if input._device is CPU:
        made = allocate(contiguous_geometry(sizes, x._geometry.dtype), CPU)
        arrays = [t._get_array() for t in (x, places, made)]
        if _grid_sample(*arrays, how.mode, how.padding, how.align):
            if x is input and places is grid:
                args = (input, grid, interpolation_mode, padding_mode, align_corners)
                table, kernel = getattr(operators, op).table, globals()[op]
                array = partial(_sampled_array, sizes, how)
                short.learn(table, kernel, args, made, array, is_new=True)
            return cast(made, to)
    x, places = calls.reshape(x, (*sizes[:2], -1)), calls.reshape(places, (sizes[0], -1, count))
    total: Any = None
    for spot in _spots(places, how):
        part = calls.gather(x, 2, _at_all_channels(spot, sizes[1]))
        weight = spot.weight()
        part = _masked(part if weight is None else part * calls.unsqueeze(weight, 1), spot)
        total = part if total is None else total + part
    return cast(calls.reshape(total, sizes), to)


def _sampled_array(sizes: Sizes, how: How, x: Any, places: Any) -> Any:
    """Return the samples as an array, or None if there is no compiled loop."""
    made = cpu.empty(sizes, x.dtype)
    return made if _grid_sample(x, places, made, how.mode, how.padding, how.align) else None


def _at_all_channels(spot: Spot, channels: int) -> Tensor:
    """Return the flat indices of a Spot, (N, P), expanded to all channels: (N, C, P)."""
    return calls.expand(calls.unsqueeze(spot.at, 1), (-1, channels, -1))


def _sizes_of_grad(op: str, grad_output: Tensor, input: Tensor, grid: Tensor) -> Sizes:
    sizes = (*input._geometry.sizes[:2], *grid._geometry.sizes[1:-1])
    arguments.check_sizes(op, sizes, grad_output=grad_output)
    return sizes


def _backward(
    key_set: int, count: int, grad_output: Tensor, input: Tensor, grid: Tensor,
    interpolation_mode: int, padding_mode: int, align_corners: bool, output_mask: Any,
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    op = f"grid_sampler_{count}d_backward"
    _check(op, count, input, grid, interpolation_mode, padding_mode)
    sizes = _sizes_of_grad(op, grad_output, input, grid)
    of_input, of_grid = output_mask
    if 0 in sizes:
        made = calls.zeros_like(input) if of_input else None
        return made, calls.zeros_like(grid) if of_grid else None
    align = flag(op, "align_corners", align_corners)
    how = How(input._geometry.sizes[2:], interpolation_mode, padding_mode, align)
    samples, channels = sizes[:2]
    grad, x = (calls.reshape(wide(t), (samples, channels, -1)) for t in (grad_output, input))
    places = calls.reshape(wide(grid), (samples, -1, count))
    to_input = calls.zeros_like(x) if of_input else None
    to_places: list[Any] = [None] * count
    for spot in _spots(places, how):
        at, weight = _at_all_channels(spot, channels), spot.weight()
        if to_input is not None:
            part = grad if weight is None else grad * calls.unsqueeze(weight, 1)
            to_input = calls.scatter_add(to_input, 2, at, _masked(part, spot))
        if of_grid and interpolation_mode != NEAREST:
            both = calls.sum_dim_IntList(_masked(grad * calls.gather(x, 2, at), spot), (1,), False)
            for d in range(count):
                part = both * spot.weight(d)
                to_places[d] = part if to_places[d] is None else to_places[d] + part
    made_input = made_grid = None
    if to_input is not None:
        made_input = calls.reshape(cast(to_input, input._geometry.dtype), input._geometry.sizes)
    if of_grid and interpolation_mode == NEAREST:
        made_grid = calls.new_zeros(grid, grid._geometry.sizes)
    elif of_grid:
        stacked = calls.stack(to_places[::-1], -1)
        made_grid = calls.reshape(cast(stacked, grid._geometry.dtype), grid._geometry.sizes)
    return made_input, made_grid


def _grid_sampler_backward(
    key_set: int, grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int,
    padding_mode: int, align_corners: bool, output_mask: Any,
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    op, count = "_grid_sampler_backward", input._geometry.ndim - 2
    if count not in (2, 3):
        raise errors.wrong_shape(op, "input", "have 4 or 5 dimensions", input)
    _check(op, count, input, grid, interpolation_mode, padding_mode)
    sizes = _sizes_of_grad(op, grad_output, input, grid)
    align = flag(op, "align_corners", align_corners)
    numbers = (interpolation_mode, padding_mode, align)
    if input._device is CPU and grad_output._device is CPU and 0 not in sizes:
        found = _gradients_by_loop(grad_output, input, grid, numbers, output_mask)
        if found is not None:
            return found
    return _backward(key_set, count, grad_output, input, grid, *numbers, output_mask)


def _gradients_by_loop(
    grad: Tensor, input: Tensor, grid: Tensor, numbers: tuple[int, int, bool], wanted: Any
) -> tuple[Tensor | None, Tensor | None] | None:
    channels, to = input._geometry.sizes[:2], input._geometry.dtype
    x, places, flat = wide(input), wide(grid), calls.reshape(wide(grad), (*channels, -1))
    of_input = calls.new_zeros(x, x._geometry.sizes) if wanted[0] else None
    of_grid = calls.new_zeros(places, places._geometry.sizes) if wanted[1] else None
    # With NEAREST the gradient of the grid is zero, so it need not be computed.
    looped = None if numbers[0] == NEAREST else of_grid
    arrays = [None if t is None else t._get_array() for t in (flat, x, places, of_input, looped)]
    if not _backward_loop(*arrays, *map(int, numbers)):
        return None
    of_input, of_grid = (None if t is None else cast(t, to) for t in (of_input, of_grid))
    return of_input, of_grid


def _masked(x: Tensor, spot: Spot) -> Tensor:
    if spot.outside is None:
        return x
    return _where(calls.unsqueeze(spot.outside, 1), 0, x)


grid_sampler_2d: Kernel = given(_sampled, count=2)
grid_sampler_3d: Kernel = given(_sampled, count=3)
grid_sampler_2d_backward: Kernel = given(_backward, count=2)
grid_sampler_3d_backward: Kernel = given(_backward, count=3)


def grid_sampler(key_set: int, input: Tensor, grid: Tensor, *rest: Any) -> Tensor:
    if input._geometry.ndim not in (4, 5):
        raise errors.wrong_shape("grid_sampler", "input", "have 4 or 5 dimensions", input)
    flat = input._geometry.ndim == 4
    return (calls.grid_sampler_2d if flat else calls.grid_sampler_3d)(input, grid, *rest)


# --- affine transforms ----------------------------------------------------------------------------


def affine_grid_generator(key_set: int, theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    op = "affine_grid_generator"
    sizes = arguments.sizes(op, size)
    arguments.check_is_floating(op, "theta", theta)
    if len(sizes) not in (4, 5):
        raise errors.must(op, "size", "have 4 or 5 entries", sizes)
    if any(n < 1 for n in sizes):
        raise errors.must(op, "size", "be positive", sizes)
    inner = sizes[2:]
    count = len(inner)
    arguments.check_sizes(op, (sizes[0], count, count + 1), theta=theta)
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
    """Return coordinates from -1 to 1. If align_corners, these are the centres of the outermost
    elements, otherwise their outer edges."""
    of, place = theta._geometry.dtype, theta._device
    if n == 1:
        return calls.new_zeros(theta, (1,))
    made = calls.linspace(-1, 1, n, of, None, place, None)
    return made if align_corners else made * ((n - 1) / n)
