"""Operators that move elements to other positions. Each operator copies views into its result.

Source of the semantics: aten/src/ATen/native/TensorTransformations.cpp, PixelShuffle.cpp,
ChanelShuffle.cpp and Im2Col.cpp.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .._generated import calls, operators
from ..core import errors, memory_format as formats
from ..core.device import CPU
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..dispatch.shortcuts import BELOW, CPU as CPU_CALL, jumps
from ..iterator.config import COPY
from ..iterator.plan import build
from ..kernels import stub
from ..kernels.cpu.copy_pieces import Piece, Pieces
from ..structured import arguments, float8, missing
from ..structured.shortcuts import computed as short
from ..tensor.base import suggest_memory_format
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from .copy import copies_are_ours, cpu_copy, fill_part, lays_out
from .view import transpose_, view, with_sizes

Sizes = tuple[int, ...]
_place = stub.cpu("copy_pieces").place


def _empty(op: str, self: Tensor, sizes: Sizes) -> Tensor:
    """Return an empty tensor of these sizes, in the memory format that self's strides suggest."""
    form, of = suggest_memory_format(self), self._geometry.dtype
    if form is formats.contiguous_format:
        return allocate(contiguous_geometry(sizes, of), self._device)
    return allocate(geometry(sizes, formats.strides_for(op, sizes, form), of), self._device)


# --- roll, rot90, flips ---------------------------------------------------------------------------


def roll(key_set: int, self: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    if self._geometry.dtype.is_float8:
        return float8.moved(roll, key_set, self, shifts, dims)
    moves = arguments.ints("roll", "shifts", shifts)
    axes = () if dims is None else arguments.ints("roll", "dims", dims)
    if not moves:
        raise errors.must("roll", "shifts", "not be empty", moves)
    if not axes and len(moves) == 1:
        flat = calls.view(calls.contiguous(self), (self._geometry.numel,))
        made = with_sizes(_rolled(flat, moves[0], 0), self._geometry.sizes)
        if _is_on_cpu(self):
            _learn_roll((self, shifts, dims), made, flat._geometry, moves, (0,))
        return made
    if len(moves) != len(axes):
        raise errors.must("roll", "dims", f"have {len(moves)} entries, as shifts has", axes)
    if not self._geometry.ndim:
        raise errors.wrong_index("roll", "self", "have a dimension", self)
    for dim in axes:
        arguments.dim("roll", dim, self._geometry.ndim, "dims")
    if _is_on_cpu(self):
        made = _rolled_at_once(self, moves, axes)
        _learn_roll((self, shifts, dims), made, self._geometry, moves, axes)
        return made
    for shift, dim in zip(moves, axes):
        self = _rolled(self, shift, dim)
    return self


def _learn_roll(
    args: tuple[Any, ...], made: Tensor, given: Geometry, moves: Sizes, axes: Sizes
) -> None:
    """Store the short cut of `roll`, once a call is repeated. given: the layout of self as it is
    rolled: 1-d for a call without dims."""
    allocate = short.new_array(made._geometry)
    if allocate is None:
        return
    _, pieces = _rolls(given, moves, axes, formats.contiguous_format)
    sizes = given.sizes

    def compute(x: Any) -> Any:
        out, source = allocate(), x.reshape(sizes)
        _place(out.reshape(sizes), source, source, pieces)
        return out

    make = short.made_new(compute, made._geometry)
    short.learn_again(operators.roll.table, roll, args, make)


def _is_on_cpu(self: Tensor) -> bool:
    return self._device is CPU and self._geometry.numel > 0 and copies_are_ours(self._keys)


def _rolled_at_once(self: Tensor, moves: Sizes, axes: Sizes) -> Tensor:
    shape, pieces = _rolls(self._geometry, moves, axes, suggest_memory_format(self))
    made, source = allocate(shape, CPU), self._get_array()
    _place(made._get_array(), source, source, pieces)
    return made


@lru_cache(maxsize=256)
def _rolls(given: Geometry, moves: Sizes, axes: Sizes, form: Any) -> tuple[Geometry, Pieces]:
    """Return the result's geometry, and a tuple of pieces for each dimension of the result."""
    sizes = given.sizes
    starts = [0] * len(sizes)
    for shift, d in zip(moves, axes):
        if not shift % sizes[d]:  # A roll by a multiple of the size gives a contiguous result.
            form = formats.contiguous_format
        starts[d] = (starts[d] - shift) % sizes[d]
    pieces = tuple([
        (Piece(n - start, start, 1), Piece(start, 0, 1)) if start else (Piece(n, 0, 1),)
        for n, start in zip(sizes, starts)
    ])  # fmt: skip
    return geometry(sizes, formats.strides_for("roll", sizes, form), given.dtype), pieces


def _rolled(self: Tensor, shift: int, dim: int) -> Tensor:
    if not self._geometry.numel:
        return calls.clone(self)
    if _is_on_cpu(self):
        return _rolled_at_once(self, (shift,), (dim,))
    size = self._geometry.sizes[dim]
    start = -shift % size
    if not start:
        return calls.clone(self, formats.contiguous_format)
    made = _empty("roll", self, self._geometry.sizes)
    for first, last, to in ((start, size, 0), (0, start, size - start)):
        place = calls.slice_Tensor(made, dim, to, to + last - first, 1)
        fill_part(place, calls.slice_Tensor(self, dim, first, last, 1))
    return made


def flip(key_set: int, self: Tensor, dims: Any) -> Tensor:
    """Return a copy with reversed dimensions. Kernels of devices read it with negative strides."""
    shape, place, table = self._geometry, self._device, operators.flip.table
    is_known = type(dims) is tuple and (place is not CPU or copies_are_ours(self._keys))
    # bool is excluded, because True equals 1 as a key.
    is_known = is_known and all([type(d) is int for d in dims])
    plan: Any = table.plans.get((shape, dims, place)) if is_known else None
    if plan is not None and place is not CPU:
        wanted, launch, last = plan
        made = calls.empty_like(self)
        if made._geometry is wanted:
            launch(place.index, (made._address(), self._address() + last))
            return made
    elif plan is not None:
        to, index = plan
        made = allocate(to, CPU)
        cpu_copy(made._get_array(), self._get_array()[index])
        return made
    if shape.dtype.is_float8:
        return float8.moved(flip, key_set, self, dims)
    chosen = arguments.dims("flip", dims, shape.ndim, "dims")
    if not lays_out(self):
        served: Tensor = missing.fall_back(operators.flip, self, self, chosen)
        return served
    if not shape.ndim:
        return calls.clone(self)
    made = calls.empty_like(self, None, None, None, None, None)
    if shape.numel == 0 or self._device.type == "meta":
        return made
    if self._device is CPU:
        index = _reversing(shape.ndim, chosen)
        cpu_copy(made._get_array(), self._get_array()[index])
        if is_known:
            table.remember((shape, dims, place), (made._geometry, index))
        return made
    strides = tuple([-n if d in chosen else n for d, n in enumerate(shape.strides)])
    # Only the plan uses this geometry, because its strides may be negative.
    reversed_shape = geometry(shape.sizes, strides, shape.dtype)
    plan = build(
        "flip", COPY, ((made._geometry, made._device),), ((reversed_shape, self._device),),
        default_dtype=None,
    )  # fmt: skip
    last = sum((shape.sizes[d] - 1) * shape.stride_bytes[d] for d in chosen)
    launch = stub.bind("copy", "copy", place.type, plan)
    if is_known:
        table.remember((shape, dims, place), (made._geometry, launch, last))
    launch(place.index, (made._address(), self._address() + last))
    return made


def rot90(key_set: int, self: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    ndim = self._geometry.ndim
    plane = arguments.ints("rot90", "dims", dims)
    if len(plane) != 2 or ndim < 2:
        raise errors.must("rot90", "dims", f"name 2 of the {ndim} dimensions", plane)
    a, b = arguments.dims("rot90", plane, ndim, "dims")
    turns = arguments.integer("rot90", "k", k) % 4
    if turns == 0:
        return calls.clone(self, formats.contiguous_format)
    chosen = ((), (b,), (a, b), (a,))[turns]
    made = calls.flip(self, chosen)
    made = made if turns == 2 else transpose_(key_set, made, a, b)
    shape, allocate = self._geometry, short.new_array(self._geometry)
    if made._device is CPU and allocate is not None and copies_are_ours(self._keys):
        index = _reversing(shape.ndim, chosen)
        order = [*range(shape.ndim)]
        if turns != 2:
            order[a], order[b] = b, a

        def compute(x: Any) -> Any:
            out = allocate()
            cpu_copy(out, x[index])
            return out.transpose(order)

        make = short.made_new(compute, made._geometry)
        short.learn_again(operators.rot90.table, rot90, (self, k, dims), make)
    return made


def _reversing(ndim: int, dims: Any) -> tuple[slice, ...]:
    """Return the NumPy index that reverses these dimensions."""
    return tuple([slice(None, None, -1 if d in dims else 1) for d in range(ndim)])


jumps(roll, lambda: (
    (operators.view, CPU_CALL, view), (operators.contiguous, CPU_CALL, "copy.contiguous"),
    (operators.copy_, BELOW, "copy.copy_"),
))  # fmt: skip
jumps(rot90, lambda: (
    (operators.flip, CPU_CALL, flip), (operators.copy_, BELOW, "copy.copy_"),
))  # fmt: skip


def fliplr(key_set: int, self: Tensor) -> Tensor:
    if self._geometry.ndim < 2:
        raise errors.wrong_shape("fliplr", "self", "have at least 2 dimensions", self)
    return calls.flip(self, (1,))


def flipud(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.ndim:
        raise errors.wrong_shape("flipud", "self", "have a dimension", self)
    return calls.flip(self, (0,))


# --- channels -------------------------------------------------------------------------------------


def _plane(op: str, self: Tensor, factor: int, arg: str) -> tuple[Sizes, int, int, int]:
    """Check the operand; return (batch sizes, channels, height, width)."""
    if self._geometry.ndim < 3:
        raise errors.wrong_shape(op, "self", "have at least 3 dimensions", self)
    factor = arguments.integer(op, arg, factor, least=1)
    *batch, c, h, w = self._geometry.sizes
    return tuple(batch), c, h, w


def _shuffled(
    op: str, self: Tensor, sizes: Sizes, parts: Sizes, given: Sizes, order: Sizes
) -> Tensor:
    """Return a new tensor of sizes `sizes`. Viewed with sizes `parts`, it equals self viewed with
    sizes `given` and permuted by `order`. Both views only split dimensions."""
    made = _empty(op, self, sizes)
    if not self._geometry.numel:
        return made
    if _is_on_cpu(self) and not self._geometry.dtype.is_float8:
        source = self._get_array().reshape(given).transpose(order)
        cpu_copy(made._get_array().reshape(parts), source)
    else:
        fill_part(calls.view(made, parts), calls.permute(calls.view(self, given), order))
    return made


def pixel_shuffle(key_set: int, self: Tensor, upscale_factor: int) -> Tensor:
    r = arguments.integer("pixel_shuffle", "upscale_factor", upscale_factor)
    batch, c, h, w = _plane("pixel_shuffle", self, r, "upscale_factor")
    if c % (r * r):
        rule = f"have a multiple of {r * r} channels"
        raise errors.wrong_shape("pixel_shuffle", "self", rule, self)
    n, planes = len(batch), (*batch, c // (r * r))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    parts, given = (*planes, h, r, w, r), (*planes, r, r, h, w)
    return _shuffled("pixel_shuffle", self, (*planes, h * r, w * r), parts, given, order)


def pixel_unshuffle(key_set: int, self: Tensor, downscale_factor: int) -> Tensor:
    r = arguments.integer("pixel_unshuffle", "downscale_factor", downscale_factor)
    batch, c, h, w = _plane("pixel_unshuffle", self, r, "downscale_factor")
    if h % r or w % r:
        rule = f"have a height and a width that {r} divides"
        raise errors.wrong_shape("pixel_unshuffle", "self", rule, self)
    n, plane = len(batch), (h // r, w // r)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    parts, given = (*batch, c, r, r, *plane), (*batch, c, h // r, r, w // r, r)
    return _shuffled("pixel_unshuffle", self, (*batch, c * r * r, *plane), parts, given, order)


def channel_shuffle(key_set: int, self: Tensor, groups: int) -> Tensor:
    sizes = self._geometry.sizes
    if len(sizes) < 3:
        raise errors.wrong_shape("channel_shuffle", "self", "have at least 3 dimensions", self)
    groups = arguments.integer("channel_shuffle", "groups", groups, least=1)
    n, c, *rest = sizes
    if c % groups:
        rule = f"have a multiple of {groups} channels"
        raise errors.wrong_shape("channel_shuffle", "self", rule, self)
    parts, given = (n, c // groups, groups, *rest), (n, groups, c // groups, *rest)
    order = (0, 2, 1, *range(3, len(given)))
    return _shuffled("channel_shuffle", self, sizes, parts, given, order)


# --- windows of a plane as columns ----------------------------------------------------------------


class _Windows:
    """The arguments of im2col and col2im, as pairs (vertical, horizontal)."""

    __slots__ = ("kernel", "dilation", "padding", "stride")

    def __init__(self, op: str, kernel: Any, dilation: Any, padding: Any, stride: Any) -> None:
        self.kernel = _pair(op, "kernel_size", kernel, 1)
        self.dilation = _pair(op, "dilation", dilation, 1)
        self.padding = _pair(op, "padding", padding, 0)
        self.stride = _pair(op, "stride", stride, 1)

    def counts(self, op: str, arg: str, plane: Sizes) -> Sizes:
        """Return the number of windows in each direction."""
        found = tuple([
            (plane[k] + 2 * self.padding[k] - self.dilation[k] * (self.kernel[k] - 1) - 1)
            // self.stride[k] + 1
            for k in (0, 1)
        ])  # fmt: skip
        if min(found) < 1:
            raise errors.must(op, arg, f"hold a window of {self.kernel}", plane)
        return found

    def slices(self, i: int, j: int, counts: Sizes) -> list[slice]:
        """Return slices of the padded plane that select element (i, j) of every window."""
        starts = (i * self.dilation[0], j * self.dilation[1])
        return [
            slice(start, start + step * (n - 1) + 1, step)
            for start, step, n in zip(starts, self.stride, counts)
        ]


def _pair(op: str, arg: str, value: Any, least: int) -> Sizes:
    found = arguments.ints(op, arg, value)
    found = found * 2 if len(found) == 1 else found
    if len(found) != 2 or min(found) < least:
        raise errors.must(op, arg, f"be 2 numbers, each at least {least}", found)
    return found


def im2col(
    key_set: int, self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Tensor:
    op, shape = "im2col", self._geometry
    at = _Windows(op, kernel_size, dilation, padding, stride)
    if shape.ndim not in (3, 4) or 0 in shape.sizes[-3:]:
        raise errors.wrong_shape(op, "self", "be (C, H, W) or (N, C, H, W), not empty", self)
    if shape.ndim == 3:
        one = im2col(key_set, calls.unsqueeze(self, 0), kernel_size, dilation, padding, stride)
        return with_sizes(one, one._geometry.sizes[1:])
    n, c, *plane = shape.sizes
    counts = at.counts(op, "self", tuple(plane))
    around = (at.padding[1], at.padding[1], at.padding[0], at.padding[0])
    padded = calls.constant_pad_nd(self, around, 0) if any(around) else self
    s_n, s_c, s_h, s_w = padded._geometry.strides
    sizes = (n, c, *at.kernel, *counts)
    hops = (s_h * at.dilation[0], s_w * at.dilation[1], s_h * at.stride[0], s_w * at.stride[1])
    windows = calls.as_strided(padded, sizes, (s_n, s_c, *hops), padded._offset)
    made = calls.clone(windows, formats.contiguous_format)
    columns = (n, c * at.kernel[0] * at.kernel[1], counts[0] * counts[1])
    return with_sizes(made, columns)


def col2im(
    key_set: int, self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any,
    stride: Any,
) -> Tensor:  # fmt: skip
    op, shape = "col2im", self._geometry
    at = _Windows(op, kernel_size, dilation, padding, stride)
    plane = _pair(op, "output_size", output_size, 1)
    counts = at.counts(op, "output_size", plane)
    area, length = at.kernel[0] * at.kernel[1], counts[0] * counts[1]
    if shape.ndim not in (2, 3) or shape.sizes[-1] != length or shape.sizes[-2] % area:
        rule = f"have a multiple of {area} rows and {length} columns"
        raise errors.wrong_shape(op, "self", rule, self)
    batch, c = shape.sizes[:-2], shape.sizes[-2] // area
    columns = calls.reshape(self, (*batch, c, *at.kernel, *counts))
    height, width = (plane[k] + 2 * at.padding[k] for k in (0, 1))
    made = calls.new_zeros(self, (*batch, c, height, width), None, None, None, None)
    d = len(batch) + 1
    for i in range(at.kernel[0]):
        for j in range(at.kernel[1]):
            part = made
            for k, s in enumerate(at.slices(i, j, counts)):
                part = calls.slice_Tensor(part, d + k, s.start, s.stop, s.step)
            element = calls.select_int(calls.select_int(columns, d, i), d, j)
            keys = (part._keys | element._keys) & BELOW_ADINPLACEORVIEW
            operators.add__Tensor.redispatch_table[keys](keys, part, element, 1)
    if not any(at.padding):
        return made
    for k in (0, 1):
        made = calls.slice_Tensor(made, d + k, at.padding[k], at.padding[k] + plane[k], 1)
    return calls.clone(made, formats.contiguous_format)
