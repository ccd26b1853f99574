"""Operators that repeat elements: repeat, tile, repeat_interleave, meshgrid and combinations."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .._generated import calls
from ..core import errors, memory_format as formats
from ..core.device import CPU
from ..core.dtype import int32, int64
from ..structured import arguments
from ..structured.forms import Kernel, given
from ..tensor.make import over_array
from ..tensor.tensor import Tensor
from .copy import fill_part
from .join import checked_tensors


def repeat(key_set: int, self: Tensor, repeats: Any) -> Tensor:
    counts = arguments.sizes("repeat", repeats, "repeats")
    extra = len(counts) - self._geometry.ndim
    if extra < 0:
        rule = f"have at least {self._geometry.ndim} entries"
        raise errors.must("repeat", "repeats", rule, counts)
    sizes = (1,) * extra + self._geometry.sizes
    made = calls.empty_memory_format(
        tuple([n * s for n, s in zip(counts, sizes)]), self._geometry.dtype, None, self._device,
        None, None,
    )  # fmt: skip
    if not made._geometry.numel:
        return made
    if made._geometry.numel == self._geometry.numel:
        fill_part(made, self)
        return made
    # Viewed as (n0, s0, n1, s1, …), the result is self expanded along n0, n1, … with stride 0.
    paired = tuple([n for pair in zip(counts, sizes) for n in pair])
    source = calls.view(self, tuple([n for s in sizes for n in (1, s)]))
    fill_part(calls.view(made, paired), calls.expand(source, paired, False))
    return made


def tile(key_set: int, self: Tensor, dims: Any) -> Tensor:
    counts = arguments.sizes("tile", dims, "dims")
    return calls.repeat(self, (1,) * (self._geometry.ndim - len(counts)) + counts)


# --- grids and combinations -----------------------------------------------------------------------


def meshgrid_indexing(key_set: int, tensors: Any, indexing: str) -> tuple[Tensor, ...]:
    """Return grids of coordinates. Source: TensorShape.cpp, meshgrid."""
    if type(indexing) is not str or indexing not in ("ij", "xy"):
        raise errors.must("meshgrid", "indexing", "be 'ij' or 'xy'", indexing)
    found = checked_tensors("meshgrid", tensors)
    for number, x in enumerate(found):
        if x._geometry.ndim > 1:
            raise errors.wrong_shape("meshgrid", f"tensors[{number}]", "be 0-d or 1-d", x)
        if x._geometry.dtype is not found[0]._geometry.dtype:
            rule = f"have the dtype of tensors[0], {found[0]._geometry.dtype.short}"
            raise errors.wrong_dtype("meshgrid", f"tensors[{number}]", rule, x)
    swaps = indexing == "xy" and len(found) > 1
    order = [1, 0, *range(2, len(found))] if swaps else [*range(len(found))]
    sizes = tuple([found[n]._geometry.numel for n in order])
    grids = []
    for place, n in enumerate(order):
        shape = (1,) * place + (-1,) + (1,) * (len(found) - 1 - place)
        grids.append(calls.expand(calls.view(found[n], shape), sizes, False))
    return tuple([grids[order.index(n)] for n in range(len(found))])


meshgrid: Kernel = given(meshgrid_indexing, indexing="ij")


def cartesian_prod(key_set: int, tensors: Any) -> Tensor:
    found = checked_tensors("cartesian_prod", tensors)
    for number, x in enumerate(found):
        if x._geometry.ndim != 1:
            raise errors.wrong_shape("cartesian_prod", f"tensors[{number}]", "be 1-d", x)
    if len(found) == 1:
        return found[0]
    return calls.stack([calls.reshape(x, (-1,)) for x in meshgrid(key_set, found)], 1)


def combinations(key_set: int, self: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return combinations of elements. The host computes the indices, which depend only on
    sizes."""
    if self._geometry.ndim != 1:
        raise errors.wrong_shape("combinations", "self", "have 1 dimension", self)
    if not 0 <= (r := arguments.integer("combinations", "r", r)) < 1 << 31:
        raise errors.must("combinations", "r", "be in [0, 2**31)", r)
    if r == 0:
        return calls.new_empty(self, (0,), None, None, None, None)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(self._geometry.sizes[0]), r))
    found = over_array(np.array(rows, np.int64).reshape(-1))
    index = calls.to_device(found, self._device, int64, False, False, None)
    return calls.reshape(calls.index_select(self, 0, index), (len(rows), r))


# --- repeat_interleave ----------------------------------------------------------------------------


def repeat_interleave_Tensor(
    key_set: int, repeats: Tensor, output_size: int | None = None
) -> Tensor:
    """Return each index i, repeated repeats[i] times. The result's size depends on values, so the
    call waits for the device. Source: ATen/native/Repeat.cpp."""
    op, shape = "repeat_interleave", repeats._geometry
    if shape.dtype not in (int32, int64):
        raise errors.wrong_dtype(op, "repeats", "be int32 or int64", repeats)
    if shape.ndim != 1:
        raise errors.wrong_shape(op, "repeats", "have 1 dimension", repeats)
    if repeats._device is CPU and shape.numel and repeats._get_array().min() < 0:
        raise errors.must(op, "repeats", "hold no negative number", repeats)
    if repeats._device.type == "meta" and output_size is not None:
        return calls.new_empty(repeats, (output_size,))
    ends = calls.cumsum(repeats, 0)
    total = int(calls.item(calls.select_int(ends, 0, -1))) if shape.numel else 0
    if output_size is not None and output_size != total and shape.numel:
        raise errors.must(op, "output_size", f"be the sum of repeats, {total}", output_size)
    places = calls.arange(total, dtype=int64, device=repeats._device)
    is_int32 = shape.dtype is int32
    return calls.searchsorted_Tensor(ends, places, out_int32=is_int32, right=True)


def _along(op: str, self: Tensor, dim: int | None) -> tuple[Tensor, int]:
    """Return self and the dimension of the repetition. Without a dimension, self is flattened."""
    if dim is None:
        return calls.reshape(self, (-1,)), 0
    if not self._geometry.ndim:
        raise errors.wrong_index(op, "self", "have a dimension", self)
    return self, arguments.dim(op, dim, self._geometry.ndim)


def repeat_interleave_self_Tensor(
    key_set: int, self: Tensor, repeats: Tensor, dim: int | None = None,
    output_size: int | None = None,
) -> Tensor:  # fmt: skip
    source, d = _along("repeat_interleave", self, dim)
    size, shape = source._geometry.sizes[d], repeats._geometry
    if shape.ndim == 0 or shape.sizes == (1,):
        repeats = calls.expand(calls.reshape(repeats, (1,)), (size,), False)
    elif shape.sizes != (size,):
        raise errors.wrong_shape("repeat_interleave", "repeats", f"have size {size}", repeats)
    index = calls.repeat_interleave_Tensor(repeats, output_size)
    return calls.index_select(source, d, index)


def repeat_interleave_self_int(
    key_set: int, self: Tensor, repeats: int, dim: int | None = None,
    output_size: int | None = None,
) -> Tensor:  # fmt: skip
    op = "repeat_interleave"
    times = arguments.integer(op, "repeats", repeats, least=0)
    source, d = _along(op, self, dim)
    sizes = source._geometry.sizes
    total = sizes[d] * times
    if output_size is not None and output_size != total:
        raise errors.must(op, "output_size", f"be {total}", output_size)
    wide = calls.expand(calls.unsqueeze(source, d + 1), (*sizes[: d + 1], times, *sizes[d + 1 :]))
    whole = calls.clone(wide, formats.contiguous_format)
    return calls.reshape(whole, (*sizes[:d], total, *sizes[d + 1 :]))
