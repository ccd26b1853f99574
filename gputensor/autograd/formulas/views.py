"""Derivatives of views, of joins such as cat, and of changes of shape.

Source: torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

from typing import Any

from ..._generated import calls, functions
from ...core.geometry import Geometry
from ...tensor.tensor import Tensor
from .fitting import Sizes


# --- views ----------------------------------------------------------------------------------------


def shapes(tensors: Any) -> list[Sizes]:
    return [x._geometry.sizes for x in tensors]


def geometry(x: Tensor) -> tuple[Geometry, int]:
    """Return the layout and the offset of a tensor, without its elements."""
    return x._geometry, x._offset


def permute_backward(grad: Tensor, dims: Any) -> Tensor:
    order = [0] * len(dims)
    for number, d in enumerate(dims):
        order[d] = number
    return calls.permute(grad, tuple(order))


def _zeros_around(grad: Tensor, shape: Sizes) -> Tensor:
    return calls.new_zeros(grad, shape, None, None, None, None)


def select_backward(grad: Tensor, shape: Sizes, dim: int, index: int) -> Tensor:
    made = _zeros_around(grad, shape)
    calls.copy_(calls.select_int(made, dim, index), grad, False)
    return made


def slice_backward(
    grad: Tensor, shape: Sizes, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    made = _zeros_around(grad, shape)
    calls.copy_(calls.slice_Tensor(made, dim, start, end, step), grad, False)
    return made


def diagonal_backward(grad: Tensor, shape: Sizes, offset: int, dim1: int, dim2: int) -> Tensor:
    made = _zeros_around(grad, shape)
    calls.copy_(calls.diagonal(made, offset, dim1, dim2), grad, False)
    return made


def as_strided_backward(
    grad: Tensor, source: tuple[Geometry, int], size: Any, stride: Any, storage_offset: int | None
) -> Tensor:
    """Return the gradient of as_strided: scatter the incoming gradient into memory that is large
    enough for source and result, then read this memory with the source's strides.

    If elements of the source share memory, each gets an equal part of the gradient.
    """
    shape, start = source
    begin = start if storage_offset is None else storage_offset
    first = min(start, begin)
    sizes, strides = tuple(size), tuple(stride)
    if shape.numel == 0 or 0 in sizes:
        return _zeros_around(grad, shape.sizes)
    end = max(start - first + shape.extent, begin - first + _extent(sizes, strides))
    memory = _zeros_around(grad, (end,))
    _scatter(memory, grad, sizes, strides, begin - first)
    if _may_overlap(shape.sizes, shape.strides):
        numbers = functions.arange(end, device=grad.device)
        places = calls.as_strided(numbers, shape.sizes, shape.strides, start - first)
        count = _zeros_around(grad, (end,)).detach()
        ones = calls.ones_like(calls.to_dtype(places, grad.dtype))
        _scatter(count, ones, shape.sizes, shape.strides, start - first)
        memory = memory / functions.where(count == 0, 1, count)
    return calls.as_strided(memory, shape.sizes, shape.strides, start - first)


def _extent(sizes: Sizes, strides: Sizes) -> int:
    return 1 + sum([(n - 1) * s for n, s in zip(sizes, strides)])


def _may_overlap(sizes: Sizes, strides: Sizes) -> bool:
    """Return True if two indices may reach the same element. Two indices certainly reach different
    elements if each stride exceeds the extent of all dimensions with smaller strides.
    """
    reach = 0
    for stride, n in sorted(zip(strides, sizes)):
        if n > 1:
            if stride <= reach:
                return True
            reach += stride * (n - 1)
    return False


def _scatter(memory: Tensor, grad: Tensor, sizes: Sizes, strides: Sizes, offset: int) -> None:
    """Add `grad` to the elements of `memory` that a layout (sizes, strides, offset) reaches.
    `memory` is 1-d or contiguous.

    Layouts that reach an element several times are split along their shortest dimension.
    """
    expanded = tuple([d for d, (n, s) in enumerate(zip(sizes, strides)) if s == 0 and n > 1])
    if expanded:
        grad = calls.sum_dim_IntList(grad, expanded, True)
        sizes = tuple([1 if d in expanded else n for d, n in enumerate(sizes)])
    if not _may_overlap(sizes, strides):
        calls.add__Tensor(calls.as_strided(memory, sizes, strides, offset), grad, 1)
        return
    d = min([k for k, n in enumerate(sizes) if n > 1], key=lambda k: sizes[k])
    rest, hops = sizes[:d] + sizes[d + 1 :], strides[:d] + strides[d + 1 :]
    for i in range(sizes[d]):
        _scatter(memory, calls.select_int(grad, d, i), rest, hops, offset + i * strides[d])


# --- join -----------------------------------------------------------------------------------------


def cat_backward(grad: Tensor, sizes: list[Sizes], dim: int) -> list[Tensor]:
    begin, found = 0, []
    for shape in sizes:
        if shape == (0,):  # an empty 1-d tensor can be joined with a tensor of any sizes
            found.append(_zeros_around(grad, shape))
            continue
        found.append(calls.slice_Tensor(grad, dim, begin, begin + shape[dim], 1))
        begin += shape[dim]
    return found


def repeat_backward(grad: Tensor, repeats: Any, shape: Sizes) -> Tensor:
    """Return the gradient of repeat: the sums over the repetitions."""
    extra = len(repeats) - len(shape)
    if 0 in repeats:
        return _zeros_around(grad, shape)
    split: list[int] = []
    dims: list[int] = []
    for d, times in enumerate(repeats):
        dims.append(len(split))
        split += [times] if d < extra else [times, shape[d - extra]]
    if not dims:
        return grad
    return calls.sum_dim_IntList(grad.reshape(split), tuple(dims), False)


# --- shape ----------------------------------------------------------------------------------------


def roll_backward(grad: Tensor, shifts: Any, dims: Any) -> Tensor:
    moves = (shifts,) if type(shifts) is int else tuple(shifts)
    axes = (dims,) if type(dims) is int else tuple(dims)
    return calls.roll(grad, tuple([-n for n in reversed(moves)]), axes[::-1])


def constant_pad_nd_backward(grad: Tensor, pad: Any) -> Tensor:
    return calls.constant_pad_nd(grad, tuple([-n for n in pad]), 0)


def _memory_of(
    grad: Tensor, source: tuple[Geometry, int], size: Any, stride: Any, storage_offset: int | None
) -> tuple[Tensor, Tensor]:
    """Copy the gradient to new memory in the layout of `source`. Return the copy, and the view of
    its memory that as_strided makes with the given size, stride and offset."""
    shape, start = source
    begin = start if storage_offset is None else storage_offset
    end = max(start + shape.extent, begin + _extent(size, stride), 1)
    memory = _zeros_around(grad, (end,))
    laid = calls.as_strided(memory, shape.sizes, shape.strides, start)
    calls.copy_(laid, grad, False)
    return laid, calls.as_strided(memory, tuple(size), tuple(stride), begin)


def as_strided_of(
    grad: Tensor, source: tuple[Geometry, int], size: Any, stride: Any, storage_offset: int | None
) -> Tensor:
    """Copy the gradient to new memory in the layout of `source`. Return as_strided of the copy."""
    return _memory_of(grad, source, size, stride, storage_offset)[1]


def strided_scatter_backward(
    grad: Tensor, source: tuple[Geometry, int], size: Any, stride: Any, storage_offset: int | None
) -> Tensor:
    """Return the gradient of strided_scatter: zeros at the replaced elements, the incoming gradient
    elsewhere."""
    laid, replaced = _memory_of(grad, source, size, stride, storage_offset)
    calls.mul__Tensor(replaced, 0)
    return laid


def diagonal_scatter_backward(grad: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    zeros = functions.zeros_like(calls.diagonal(grad, offset, dim1, dim2))
    return functions.diagonal_scatter(grad, zeros, offset, dim1, dim2)


def sort_backward(grad: Tensor, dim: int, indices: Tensor, shape: Sizes) -> Tensor:
    """Return the gradient of sort: move each incoming gradient back to the position that its
    element had before the sort."""
    if not shape:
        return grad
    return calls.scatter_src(_zeros_around(grad, shape), dim, indices, grad)
