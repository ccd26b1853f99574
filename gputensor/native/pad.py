"""Padding of the last dimensions: constant, reflect, replicate or circular.

Source of the semantics: aten/src/ATen/native/PadNd.cpp, ReflectionPad.cpp, ReplicationPadding.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import errors, memory_format as formats
from ..core.arguments import exact
from ..core.device import CPU
from ..core.dtype import dtype
from ..core.geometry import Geometry, geometry
from ..dispatch import shortcuts
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..kernels import stub
from ..kernels.cpu.copy_pieces import Piece, Pieces
from ..structured import arguments, float8
from ..structured.pointwise import NUMBERS
from ..structured.shortcuts import computed as short
from ..tensor.base import suggest_memory_format
from ..tensor.make import CPU_KEYS, allocate, view_of
from ..tensor.tensor import Tensor
from .copy import copies_are_ours
from .slicing import slice

Kernel = Callable[..., Tensor]
# From this number of elements on, it is faster to fill only the edges of a dimension than to fill
# the whole result first.
_MANY = 1 << 16


def _cut(x: Tensor, d: int, start: int, end: int) -> Tensor:
    return calls.slice_Tensor(x, d, start, max(start, end), 1)


def _pairs(op: str, arg: str, pad: Any, ndim: int) -> list[tuple[int, int, int]]:
    """Return (dimension, before, after) for each padded dimension, beginning with the last
    dimension."""
    found = arguments.ints(op, arg, pad)
    if len(found) % 2 or len(found) > 2 * ndim:
        raise errors.must(op, arg, f"hold 2 numbers for each of at most {ndim} dimensions", found)
    return [(ndim - 1 - k // 2, found[k], found[k + 1]) for k in range(0, len(found), 2)]


def _grown(op: str, arg: str, x: Tensor, pairs: list[tuple[int, int, int]]) -> tuple[int, ...]:
    sizes = list(x._geometry.sizes)
    for d, before, after in pairs:
        sizes[d] += before + after
        if sizes[d] < 0:
            raise errors.must(op, arg, f"leave a size of dimension {d}", (before, after))
    return tuple(sizes)


# --- in one pass on the CPU -----------------------------------------------------------------------

Pairs = list[tuple[int, int, int]]
# The type of a function that maps (size, before, after) to the pieces of a padded dimension.
PiecesOfOne = Callable[[int, int, int], list[Piece]]
_place = stub.cpu("copy_pieces").place


def _kept(size: int, before: int, after: int) -> Piece:
    start = max(-before, 0)
    return Piece(max(size + min(after, 0) - start, 0), start, 1)


def _constant(size: int, before: int, after: int) -> list[Piece]:
    kept = _kept(size, before, after)
    if not kept.size:
        return [Piece(size + before + after, -1, 0)]
    return [Piece(max(before, 0), -1, 0), kept, Piece(max(after, 0), -1, 0)]


def _mirrored(size: int, before: int, after: int) -> list[Piece]:
    first, last = Piece(max(before, 0), before, -1), Piece(max(after, 0), size - 2, -1)
    return [first, _kept(size, before, after), last]


def _continued(size: int, before: int, after: int) -> list[Piece]:
    first, last = Piece(max(before, 0), 0, 0), Piece(max(after, 0), size - 1, 0)
    return [first, _kept(size, before, after), last]


def _wrapped(size: int, before: int, after: int) -> list[Piece]:
    inner = _kept(size, before, after)
    first = Piece(max(before, 0), inner.begin + inner.size - before, 1)
    return [first, inner, Piece(max(after, 0), inner.begin, 1)]


def _is_on_cpu(self: Tensor) -> bool:
    """Return True if self is on the CPU and `copy_` is our kernel, not a user's."""
    return self._device is CPU and copies_are_ours(self._keys)


def _at_once(
    op: str, self: Tensor, pairs: Pairs, of_one: PiecesOfOne, form: Any, value: Any = 0
) -> Tensor:
    shape, pieces = _plan(op, self._geometry, tuple(pairs), of_one, form)
    made, filler = allocate(shape, CPU), _zero(shape.dtype)
    if value or type(value) is complex or type(value) is float and math.copysign(1, value) < 0:
        one = allocate(geometry((), (), shape.dtype), CPU)
        key_set = (self._keys | one._keys) & BELOW_ADINPLACEORVIEW
        operators.fill__Scalar.redispatch_table[key_set](key_set, one, value)
        filler = one._get_array()
    _place(made._get_array(), self._get_array(), filler, pieces)
    return made


@lru_cache(maxsize=256)
def _plan(
    op: str, given: Geometry, pairs: tuple[tuple[int, int, int], ...], of_one: PiecesOfOne,
    form: Any,
) -> tuple[Geometry, Pieces]:  # fmt: skip
    """Return the result's geometry, and a tuple of pieces for each dimension of the result."""
    of: list[tuple[Piece, ...]] = [(Piece(n, 0, 1),) for n in given.sizes]
    for d, before, after in pairs:
        found = of_one(given.sizes[d], before, after)
        of[d] = tuple([piece for piece in found if piece.size])
    grown = tuple([sum([piece.size for piece in found]) for found in of])
    return geometry(grown, formats.strides_for(op, grown, form), given.dtype), tuple(of)


@lru_cache(maxsize=32)
def _zero(of: dtype) -> Any:
    return np.zeros((), of.np)


# --- constant -------------------------------------------------------------------------------------


def constant_pad_nd(key_set: int, self: Tensor, pad: Any, value: Any = 0) -> Tensor:
    op = "constant_pad_nd"
    if type(value) not in NUMBERS:
        raise errors.wrong_type(op, "value", "be a number", value)
    if (of := self._geometry.dtype).is_float8:
        code = float8.code_of(value, of)
        return float8.moved(constant_pad_nd, key_set, self, pad, code)
    table, key = operators.constant_pad_nd.table, None
    if self._device is not CPU and type(pad) is tuple:
        key = (self._geometry, self._device, exact(pad))
        plan = table.plans.get(key)
        if plan is not None and _slices_inline():
            return _by_plan(self, value, *plan)
    pairs = _pairs(op, "pad", pad, self._geometry.ndim)
    sizes = _grown(op, "pad", self, pairs)
    grows = any([before > 0 or after > 0 for _, before, after in pairs])
    form = suggest_memory_format(self)
    if grows and _is_on_cpu(self):
        return _at_once(op, self, pairs, _constant, form, value)
    kept = self
    for d, before, after in pairs:
        kept = _cut(kept, d, max(-before, 0), kept._geometry.sizes[d] + min(after, 0))
    if not grows:
        return calls.clone(kept)
    shape = geometry(sizes, formats.strides_for(op, sizes, form), self._geometry.dtype)
    made = allocate(shape, self._device)
    key_set = (made._keys | self._keys) & BELOW_ADINPLACEORVIEW
    fill = operators.fill__Scalar.redispatch_table[key_set]
    is_large, inner = made._geometry.numel > _MANY, made
    if not is_large:
        fill(key_set, made, value)
    for d, before, after in pairs:
        start, end = max(before, 0), sizes[d] - max(after, 0)
        if is_large:
            for edge in (_cut(inner, d, 0, start), _cut(inner, d, end, sizes[d])):
                fill(key_set, edge, value)
        inner = _cut(inner, d, start, end)
    operators.copy_.redispatch_table[key_set](key_set, inner, kept, False)
    if key is not None and made._device.type == "cuda" and not is_large:
        begin = kept._offset - self._offset
        table.remember(key, (shape, inner._geometry, inner._offset, kept._geometry, begin))
    return made


def _slices_inline() -> bool:
    """Return True if views of CUDA tensors may be made without a call of `slice`."""
    is_ours = shortcuts.comes_straight(operators.slice_Tensor, slice, "cuda")
    return is_ours and shortcuts.is_plain_thread()


def _by_plan(
    self: Tensor, value: Any, shape: Geometry, inner: Geometry, begin: int, kept: Geometry,
    kept_begin: int,
) -> Tensor:  # fmt: skip
    """Return a padded copy: fill a new tensor of geometry `shape`, then copy a part of self to a
    part of the new tensor. inner, begin: geometry and offset of the part in the new tensor. kept,
    kept_begin: geometry and offset of the part in self."""
    made = allocate(shape, self._device)
    key_set = (made._keys | self._keys) & BELOW_ADINPLACEORVIEW
    operators.fill__Scalar.redispatch_table[key_set](key_set, made, value)
    into, source = view_of(made, inner, begin), view_of(self, kept, self._offset + kept_begin)
    operators.copy_.redispatch_table[key_set](key_set, into, source, False)
    return made


# --- from the tensor's own elements ---------------------------------------------------------------


def _part(x: Tensor, d: int, piece: Piece) -> Tensor:
    size, begin, step = piece
    if step < 0:
        return calls.flip(_cut(x, d, begin + 1 - size, begin + 1), (d,))
    if step:
        return _cut(x, d, begin, begin + size)
    sizes = x._geometry.sizes
    return calls.expand(_cut(x, d, begin, begin + 1), (*sizes[:d], size, *sizes[d + 1 :]), False)


def _by_parts(x: Tensor, pairs: Pairs, of_one: PiecesOfOne, form: Any) -> Tensor:
    """Compute the result of `_at_once` by operators, which run on any device."""
    for d, before, after in pairs:
        first, inner, last = of_one(x._geometry.sizes[d], before, after)
        parts = [piece for piece in (first, inner, last) if piece.size or piece is inner]
        x = calls.cat([_part(x, d, piece) for piece in parts], d)
    return calls.contiguous(x, form)


def _checked(op: str, self: Tensor, padding: Any, planes: int) -> list[tuple[int, int, int]]:
    """Return the checked pairs of an operator that pads the last `planes` dimensions. self must
    have one or two dimensions before them."""
    shape = self._geometry
    if shape.ndim not in (planes + 1, planes + 2) or 0 in shape.sizes[-planes - 1 :]:
        rule = f"have {planes + 1} or {planes + 2} dimensions, none but the batch's empty"
        raise errors.wrong_shape(op, "self", rule, self)
    found = arguments.ints(op, "padding", padding)
    if len(found) == 1:
        found *= 2 * planes
    if len(found) != 2 * planes:
        raise errors.must(op, "padding", f"hold {2 * planes} numbers", found)
    pairs = _pairs(op, "padding", found, shape.ndim)
    if min(_grown(op, "padding", self, pairs)[-planes:]) < 1:
        raise errors.must(op, "padding", "leave an element of each dimension", found)
    if op.startswith("reflection"):
        for d, before, after in pairs:
            if max(before, after) >= shape.sizes[d]:
                rule = f"be below size {shape.sizes[d]} at dimension {d}"
                raise errors.must(op, "padding", rule, found)
    return pairs


def _padding(op: str, planes: int, pieces: PiecesOfOne) -> Kernel:
    def kernel(key_set: int, self: Tensor, padding: Any) -> Tensor:
        pairs, form = _checked(op, self, padding, planes), suggest_memory_format(self)
        if not _is_on_cpu(self):
            return _by_parts(self, pairs, pieces, form)
        made = _at_once(op, self, pairs, pieces, form)
        _, of = _plan(op, self._geometry, tuple(pairs), pieces, form)
        filler, table = _zero(made._geometry.dtype), getattr(operators, op).table
        make = short.made_by(lambda x, out: _place(out, x, filler, of), made._geometry)
        short.learn_again(table, kernel, (self, padding), make)
        return made

    shortcuts.jumps(kernel, lambda: ((operators.copy_, shortcuts.BELOW, "copy.copy_"),))
    kernel.__name__ = kernel.__qualname__ = op
    return kernel


def _backward(op: str, planes: int, of_one: PiecesOfOne) -> Kernel:
    def kernel(key_set: int, grad_output: Tensor, self: Tensor, padding: Any) -> Tensor:
        pairs = _checked(op, self, padding, planes)
        wanted = _grown(op, "padding", self, pairs)
        if grad_output._geometry.sizes != wanted:
            raise errors.wrong_shape(op, "grad_output", f"have sizes {wanted}", grad_output)
        sizes, grad = self._geometry.sizes, grad_output
        for d, before, after in pairs[::-1]:
            first, inner, last = of_one(sizes[d], before, after)
            end = first.size + inner.size
            around = [0] * (2 * (len(sizes) - d))
            around[-2:] = [max(-before, 0), max(-after, 0)]
            made = calls.constant_pad_nd(_cut(grad, d, first.size, end), tuple(around), 0)
            for piece, start in ((first, 0), (last, end)):
                if piece.size:
                    _fold(made, d, piece, _cut(grad, d, start, start + piece.size))
            grad = made
        return calls.clone(grad, suggest_memory_format(self))

    kernel.__name__ = kernel.__qualname__ = op
    return kernel


def _fold(to: Tensor, d: int, piece: Piece, edge: Tensor) -> None:
    """Add `edge`, the gradient of a padded part, to the elements from which `_part` reads this
    part."""
    size, begin, step = piece
    x = calls.flip(edge, (d,)) if step else calls.sum_dim_IntList(edge, (d,), True)
    to = _cut(to, d, begin + 1 - size if step else begin, begin + 1)
    key_set = (to._keys | x._keys) & BELOW_ADINPLACEORVIEW
    operators.add__Tensor.redispatch_table[key_set](key_set, to, x, 1)


reflection_pad1d: Kernel = _padding("reflection_pad1d", 1, _mirrored)
reflection_pad2d: Kernel = _padding("reflection_pad2d", 2, _mirrored)
reflection_pad3d: Kernel = _padding("reflection_pad3d", 3, _mirrored)
replication_pad1d: Kernel = _padding("replication_pad1d", 1, _continued)
replication_pad2d: Kernel = _padding("replication_pad2d", 2, _continued)
replication_pad3d: Kernel = _padding("replication_pad3d", 3, _continued)
reflection_pad1d_backward: Kernel = _backward("reflection_pad1d_backward", 1, _mirrored)
reflection_pad2d_backward: Kernel = _backward("reflection_pad2d_backward", 2, _mirrored)
reflection_pad3d_backward: Kernel = _backward("reflection_pad3d_backward", 3, _mirrored)
replication_pad1d_backward: Kernel = _backward("replication_pad1d_backward", 1, _continued)
replication_pad2d_backward: Kernel = _backward("replication_pad2d_backward", 2, _continued)
replication_pad3d_backward: Kernel = _backward("replication_pad3d_backward", 3, _continued)


def _pad_circular(key_set: int, self: Tensor, pad: Any) -> Tensor:
    op, shape = "_pad_circular", self._geometry
    pairs = _pairs(op, "pad", pad, shape.ndim)
    if shape.ndim not in (len(pairs) + 1, len(pairs) + 2):
        rule = f"have 1 or 2 dimensions beside the {len(pairs)} of pad"
        raise errors.wrong_shape(op, "self", rule, self)
    _grown(op, "pad", self, pairs)
    for d, before, after in pairs:
        n = _kept(shape.sizes[d], before, after).size
        if max(before, after) > n:
            rule = f"be at most size {n} at dimension {d}"
            raise errors.must(op, "pad", rule, (before, after))
    # Autograd must record operators, so operands with a history skip the fast path.
    is_plain = self._autograd is None and self._keys is CPU_KEYS and shortcuts.is_plain_thread()
    if is_plain and _is_on_cpu(self):
        return _at_once(op, self, pairs, _wrapped, formats.contiguous_format)
    return _by_parts(self, pairs, _wrapped, formats.contiguous_format)


_MODES = {
    "reflect": ("reflection_pad1d", "reflection_pad2d", "reflection_pad3d"),
    "replicate": ("replication_pad1d", "replication_pad2d", "replication_pad3d"),
}


def pad(
    key_set: int, self: Tensor, pad: Any, mode: str = "constant", value: float | None = None
) -> Tensor:
    if mode == "constant":
        return calls.constant_pad_nd(self, pad, 0 if value is None else value)
    if mode != "circular" and mode not in _MODES:
        rule = "be 'constant', 'reflect', 'replicate' or 'circular'"
        raise errors.must("pad", "mode", rule, mode, kind=errors.ArgumentValueError)
    if value:
        raise errors.must("pad", "value", f"be left out in mode '{mode}'", value)
    given = arguments.ints("pad", "pad", pad)
    planes, ndim = len(given) // 2, self._geometry.ndim
    if planes not in (1, 2, 3) or len(given) % 2 or ndim not in (planes + 1, planes + 2):
        rule = f"hold 2, 4 or 6 numbers, for as many dimensions and 1 or 2 more in mode '{mode}'"
        raise errors.must("pad", "pad", rule, given)
    if mode == "circular":
        return calls._pad_circular(self, given)
    made: Tensor = getattr(calls, _MODES[mode][planes - 1])(self, given)
    return made
