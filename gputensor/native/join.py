"""Operators that join tensors, such as cat and stack. Each operator copies into views of its
result.

Source of the rules: aten/src/ATen/native/TensorShape.cpp, cat's meta function.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import errors, memory_format as formats, promotion
from ..core.device import CPU
from ..core.dtype import dtype
from ..core.geometry import Geometry, geometry
from ..dispatch import shortcuts
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..dispatch.operator import Table
from ..iterator import overlap
from ..iterator.broadcast import broadcast_sizes
from ..kernels import stub
from ..tensor.base import suggest_memory_format
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..structured import arguments, float8
from ..structured.pointwise import Kernel
from ..structured.transfer import resize_output
from ..structured.shortcuts import joined as short
from ..structured.shortcuts.computed import new_array
from .copy import copies_are_ours, copy_launch, cpu_copy, fill_part
from .view import unsqueeze, view_strides

# For results of less than _TINY bytes, NumPy joins faster than our loop.
_TINY = 1 << 14
_FEW = 16  # Up to this number of 0-d tensors, assigning single elements is faster.

_join_arrays = stub.cpu("copy_pieces").join


def checked_tensors(op: str, tensors: Any, on_one_device: bool = True) -> list[Tensor]:
    found = list(tensors)
    if not found:
        raise errors.must(op, "tensors", "not be empty", tensors)
    for number, x in enumerate(found):
        if not isinstance(x, Tensor):
            raise errors.wrong_type(op, f"tensors[{number}]", "be a tensor", x)
        if on_one_device and x._device is not found[0]._device:
            raise errors.mixed_devices(op, found[0], "tensors[0]", x, f"tensors[{number}]")
    return found


def _is_skipped(x: Tensor) -> bool:
    """Return True for a 1-d tensor without elements, which may be joined with any tensor, as in
    PyTorch."""
    return x._geometry.sizes == (0,)


def _cat_sizes(op: str, tensors: list[Tensor], dim: int) -> tuple[int, tuple[int, ...]]:
    """Return the dimension and the sizes of the result."""
    shaped = [(i, x) for i, x in enumerate(tensors) if not _is_skipped(x)]
    if not shaped:
        return 0, (0,)
    first_number, first = shaped[0]
    ndim = first._geometry.ndim
    for number, x in enumerate(tensors):
        if x._geometry.ndim == 0:
            raise errors.wrong_shape(op, f"tensors[{number}]", "have a dimension", x)
    d = arguments.dim(op, dim, ndim)
    total = 0
    for number, x in shaped:
        sizes = x._geometry.sizes
        if len(sizes) != ndim or any(
            a != b for k, (a, b) in enumerate(zip(sizes, first._geometry.sizes)) if k != d
        ):
            same = f"tensors[{first_number}], {list(first._geometry.sizes)}"
            rule = f"have the sizes of {same}, except at dimension {d}"
            raise errors.wrong_shape(op, f"tensors[{number}]", rule, x)
        total += sizes[d]
    sizes = first._geometry.sizes
    return d, (*sizes[:d], total, *sizes[d + 1 :])


def _cat_format(tensors: list[Tensor]) -> Any:
    """Return the memory format that all inputs suggest; contiguous_format if they differ."""
    suggested = None
    for x in tensors:
        if _is_skipped(x):
            continue
        form = suggest_memory_format(x)
        if form is formats.contiguous_format or suggested not in (None, form):
            return formats.contiguous_format
        suggested = form
    return suggested or formats.contiguous_format


def _cat_plan(tensors: list[Tensor], dim: int) -> tuple[int, Geometry]:
    first = tensors[0]._geometry
    is_alike = first.ndim and first.numel and all([x._geometry is first for x in tensors])
    if is_alike and type(dim) is int:  # A bool must raise, but as a cache key it equals an int.
        return _plan_of_alike(first, len(tensors), dim)
    d, sizes = _cat_sizes("cat", tensors, dim)
    element = _common_dtype(tensors)
    return d, geometry(sizes, formats.strides_for("cat", sizes, _cat_format(tensors)), element)


@lru_cache(maxsize=256)
def _plan_of_alike(one: Geometry, count: int, dim: int) -> tuple[int, Geometry]:
    d = arguments.dim("cat", dim, one.ndim)
    sizes = (*one.sizes[:d], count * one.sizes[d], *one.sizes[d + 1 :])
    strides = formats.strides_for("cat", sizes, one.suggested_format)
    return d, geometry(sizes, strides, one.dtype)


def _join(out: Tensor, tensors: list[Tensor], dim: int) -> Tensor:
    for part, x in _parts(out, tensors, dim):
        fill_part(part, x)
    return out


def _parts(out: Tensor, tensors: list[Tensor], dim: int) -> list[tuple[Tensor, Tensor]]:
    """Return pairs (part of the result, tensor that is copied to this part)."""
    begin, found = 0, []
    for x in tensors:
        if _is_skipped(x):
            continue
        length = x._geometry.sizes[dim]
        found.append((calls.slice_Tensor(out, dim, begin, begin + length, 1), x))
        begin += length
    return found


def _is_joined(out: Tensor, tensors: list[Tensor], dim: int) -> bool:
    """Write the result in one step and return True. If separate copies are faster, write nothing
    and return False."""
    arrays = [x._get_array() for x in tensors if not _is_skipped(x)]
    done: bool = _join_arrays(out._get_array(), arrays, dim)
    return done


def _is_plain(made: Tensor, tensors: list[Tensor]) -> bool:
    """Return True if no operand needs a cast, and no user has registered a kernel of `copy_`. A
    user's kernel would have to be called for each copy.
    """
    element = made._geometry.dtype
    key_set = made._keys
    for x in tensors:
        if x._geometry.dtype is not element:
            return False
        key_set |= x._keys
    return copies_are_ours(key_set)


def _common_dtype(tensors: list[Tensor]) -> dtype:
    element = tensors[0]._geometry.dtype
    for x in tensors:
        element = promotion.promote_types(element, x._geometry.dtype, "cat")
    return element


def cat(key_set: int, tensors: Any, dim: int = 0) -> Tensor:
    found = checked_tensors("cat", tensors)
    if found[0]._geometry.dtype.is_float8:
        _common_dtype(found)
        return float8.moved(cat, key_set, found, dim)
    d, shape = _cat_plan(found, dim)
    made = allocate(shape, found[0]._device)
    if made._device is CPU and shape.nbytes and _is_plain(made, found):
        parts = [n for n, x in enumerate(found) if not _is_skipped(x)]
        if new_array(shape) is not None:
            are_rows = all([x._geometry.is_row_major for x in found])
            joined = _joined(shape, shape.sizes, d, are_rows)
            join = joined if len(parts) == len(found) else _of_parts(joined, parts)
            short.learn(operators.cat.table, cat, found, dim, shape, join)
        if _is_joined(made, found, d):
            return made
    _join(made, found, d)
    if made._device.type == "cuda":
        _learn_on_cuda(operators.cat.table, cat, found, dim, made, found, d)
    return made


def _learn_on_cuda(
    table: Table, kernel: Kernel, found: list[Tensor], dim: int, made: Tensor,
    parts: list[Tensor], d: int,
) -> None:  # fmt: skip
    """Store the short cut of a call on CUDA, which copies each tensor by one launch. parts: the
    tensors that were joined along d. For stack, these are the unsqueezed tensors."""
    if type(made) is not Tensor or not short.is_due_on_cuda(table, kernel, found, dim, made):
        return
    copies = [(part._offset, copy_launch(part, x)) for part, x in _parts(made, parts, d)]
    given = [n for n, x in enumerate(parts) if not _is_skipped(x)]
    short.learn_on_cuda(table, kernel, found, dim, made._geometry, given, copies)


def _of_parts(join: Any, parts: list[int]) -> Any:
    return lambda arrays: join([arrays[n] for n in parts])


def _joined(shape: Geometry, sizes: tuple[int, ...], dim: int, are_rows: bool = False) -> Any:
    """Return a function that joins arrays along `dim` into a new array. shape: the geometry of the
    new array. sizes: the sizes of the view of the new array in which the arrays are joined.
    are_rows: True if all arrays are row-major; NumPy's result is then row-major, too."""
    allocate, is_tiny = new_array(shape), shape.nbytes < _TINY
    assert allocate is not None
    if is_tiny and are_rows:
        if sizes is shape.sizes:
            return lambda arrays: np.concatenate(arrays, dim)
        return lambda arrays: np.concatenate(arrays, dim).reshape(shape.sizes)

    def join(arrays: list[Any]) -> Any:
        array = allocate()
        out = array if sizes is shape.sizes else array.reshape(sizes)
        if is_tiny:
            np.concatenate(arrays, dim, out)
        elif not _join_arrays(out, arrays, dim):
            _copy_parts(out, arrays, dim)
        return array

    return join


def _copy_parts(out: Any, arrays: list[Any], dim: int) -> None:
    """Concatenate arrays by separate copies, which use threads."""
    begin, before = 0, (slice(None),) * dim
    for x in arrays:
        end = begin + x.shape[dim]
        cpu_copy(out[(*before, slice(begin, end))], x)
        begin = end


def cat_out(key_set: int, tensors: Any, dim: int, out: Tensor) -> Tensor:
    found = checked_tensors("cat", tensors)
    d, sizes = _cat_sizes("cat", found, dim)
    element = _common_dtype(found)
    if not promotion.can_cast(element, out._geometry.dtype):
        raise errors.wrong_dtype("cat", "out", f"have a dtype that {element.short} casts to", out)
    if out._device is not found[0]._device:
        raise errors.mixed_devices("cat", found[0], "tensors[0]", out, "out")
    shape = None
    if out._geometry.sizes != sizes:
        strides = formats.strides_for("cat", sizes, _cat_format(found))
        shape = geometry(sizes, strides, out._geometry.dtype)
    read = {f"tensors[{number}]": x for number, x in enumerate(found)}
    overlap.check_out("cat", out, shape, **read)
    if shape is not None:
        resize_output("cat", out, shape)
    return _join(out, found, d)


def _unsqueezed(tensors: Any, dim: int) -> tuple[list[Tensor], int]:
    found = checked_tensors("stack", tensors)
    first = found[0]._geometry
    ndim = first.ndim + 1
    number = arguments.integer("stack", "dim", dim)
    if not -ndim <= number < ndim:
        raise errors.dim_out_of_range("stack", number, ndim)
    for k, x in enumerate(found):
        if x._geometry.sizes != first.sizes:
            rule = f"have the sizes of tensors[0], {list(first.sizes)}"
            raise errors.wrong_shape("stack", f"tensors[{k}]", rule, x)
    d = number % ndim
    return [calls.unsqueeze(x, d) for x in found], d


def stack(key_set: int, tensors: Any, dim: int = 0) -> Tensor:
    found = checked_tensors("stack", tensors)
    first = found[0]._geometry
    if first.dtype.is_float8:
        _common_dtype(found)
        return float8.moved(stack, key_set, found, dim)
    made = _stacked(found, dim)
    shape = made._geometry
    is_alike = all([x._geometry.dtype is shape.dtype for x in found])
    if is_alike and type(dim) is int and new_array(shape) is not None and made._device is CPU:
        are_rows = all([x._geometry.is_row_major for x in found])
        join = _stacking(shape, dim, are_rows)
        short.learn(operators.stack.table, stack, found, dim, shape, join)
    if made._device.type == "cuda" and shape.is_contiguous:
        parts, d = _unsqueezed(found, dim)
        _learn_on_cuda(operators.stack.table, stack, found, dim, made, parts, d)
    return made


def _stacking(shape: Geometry, dim: int, are_rows: bool) -> Any:
    """Return a function that stacks arrays into a new array of this geometry. are_rows: as in
    `_joined`."""
    sizes, element = shape.sizes, shape.dtype.np
    dim %= len(sizes)
    if len(sizes) == 1 and sizes[0] <= _FEW:

        def assigned(arrays: list[Any]) -> Any:
            made = np.empty(sizes, element)
            for place, array in enumerate(arrays):
                made[place] = array
            return made

        return assigned
    # Concatenate along an existing dimension, which is then split in two.
    if dim < len(sizes) - 1:
        joined = (*sizes[:dim], sizes[dim] * sizes[dim + 1], *sizes[dim + 2 :])
        return _joined(shape, joined, dim, are_rows)
    whole = _joined(shape, sizes, dim)
    return lambda arrays: whole([x[..., None] for x in arrays])


shortcuts.jumps(cat, lambda: (
    (operators.copy_, shortcuts.BELOW, "copy.copy_"),
    (operators.slice_Tensor, shortcuts.CPU, "slicing.slice"),
))  # fmt: skip
shortcuts.jumps(stack, lambda: (
    (operators.copy_, shortcuts.BELOW, "copy.copy_"),
    (operators.cat, shortcuts.CPU, cat),
    (operators.unsqueeze, shortcuts.CPU, unsqueeze),
))  # fmt: skip


def _stacked(found: list[Tensor], dim: int) -> Tensor:
    parts, d = _unsqueezed(found, dim)
    sizes, count = found[0]._geometry.sizes, len(found)
    if d == len(sizes) or (form := _cat_format(found)) is formats.contiguous_format:
        return calls.cat(parts, d)
    # Like PyTorch, concatenate along d and then split d, which keeps the memory format.
    element, joined = _common_dtype(found), (*sizes[:d], count * sizes[d], *sizes[d + 1 :])
    split = (*sizes[:d], count, *sizes[d:])
    whole = geometry(joined, formats.strides_for("stack", joined, form), element)
    strides = view_strides(whole, split)
    assert strides is not None, (joined, split)
    shape = geometry(split, strides, element)
    return _join(allocate(shape, found[0]._device), parts, d)


def stack_out(key_set: int, tensors: Any, dim: int, out: Tensor) -> Tensor:
    parts, d = _unsqueezed(tensors, dim)
    key_set &= BELOW_ADINPLACEORVIEW  # The caller has already counted the write.
    return operators.cat_out.redispatch_table[key_set](key_set, parts, d, out)


# --- other names of these operators -------------------------------------------------------------


def concat(key_set: int, tensors: Any, dim: int = 0) -> Tensor:
    return calls.cat(tensors, dim)


def concat_out(key_set: int, tensors: Any, dim: int, out: Tensor) -> Tensor:
    into = operators.cat_out.redispatch_table
    key_set &= BELOW_ADINPLACEORVIEW  # The caller has already counted the write.
    made: Tensor = into[key_set](key_set, tensors, dim, out)
    return made


concatenate_out = concat_out


def _stacks(op: str, prepare: Any) -> tuple[Kernel, Kernel]:
    """Make the kernels of hstack and similar operators. They call cat with the tensors and the
    dimension that `prepare` returns."""

    def kernel(key_set: int, tensors: Any) -> Tensor:
        return calls.cat(*prepare(checked_tensors(op, tensors)))

    def into(key_set: int, tensors: Any, out: Tensor) -> Tensor:
        found, dim = prepare(checked_tensors(op, tensors))
        return concat_out(key_set, found, dim, out)

    return kernel, into


def _in_columns(tensors: list[Tensor]) -> tuple[list[Tensor], int]:
    columns = [
        x if x._geometry.ndim > 1 else calls.reshape(x, (x._geometry.numel, 1)) for x in tensors
    ]
    return columns, 1


def _side_by_side(tensors: list[Tensor]) -> tuple[list[Tensor], int]:
    found = [calls.atleast_1d(x) for x in tensors]
    return found, 0 if found[0]._geometry.ndim == 1 else 1


hstack, hstack_out = _stacks("hstack", _side_by_side)
vstack, vstack_out = _stacks("vstack", lambda tensors: ([*map(calls.atleast_2d, tensors)], 0))
dstack, dstack_out = _stacks("dstack", lambda tensors: ([*map(calls.atleast_3d, tensors)], 2))
column_stack, column_stack_out = _stacks("column_stack", _in_columns)
row_stack_out = vstack_out


# --- on a diagonal, broadcast, in chunks ----------------------------------------------------------


def block_diag(key_set: int, tensors: Any) -> Tensor:
    if not tensors:
        return calls.empty_memory_format((1, 0), None, None, None, None, None)
    found = checked_tensors("block_diag", tensors)
    for number, x in enumerate(found):
        if x._geometry.ndim > 2:
            rule = "have at most 2 dimensions"
            raise errors.wrong_shape("block_diag", f"tensors[{number}]", rule, x)
    blocks = [calls.atleast_2d(x) for x in found]
    width, begin, rows = sum([x._geometry.sizes[1] for x in blocks]), 0, []
    for x in blocks:
        own = x._geometry.sizes[1]
        rows.append(calls.constant_pad_nd(x, (begin, width - begin - own), False))
        begin += own
    return calls.cat(rows, 0)


def broadcast_tensors(key_set: int, tensors: Any) -> tuple[Tensor, ...]:
    if not tensors:
        return ()
    found = checked_tensors("broadcast_tensors", tensors, on_one_device=False)
    sizes: Any = ()
    for number, x in enumerate(found):
        met = broadcast_sizes(sizes, x._geometry.sizes)
        if met is None:
            rule = f"broadcast with sizes {sizes}"
            raise errors.wrong_shape("broadcast_tensors", f"tensors[{number}]", rule, x)
        sizes = met
    return tuple([calls.expand(x, sizes, False) for x in found])


def _chunk_cat(key_set: int, tensors: Any, dim: int, num_chunks: int) -> Tensor:
    """Pad tensors, split them into chunks, and concatenate the chunks. Source: TensorShape.cpp,
    _pad_chunk."""
    found = checked_tensors("_chunk_cat", tensors)
    num_chunks = arguments.integer("_chunk_cat", "num_chunks", num_chunks, least=1)
    if dim < 0 and len({x._geometry.ndim for x in found}) > 1:
        rule = "not be negative beside tensors of different dimensions"
        raise errors.must("_chunk_cat", "dim", rule, dim)
    d = arguments.dim("_chunk_cat", dim, found[0]._geometry.ndim)
    parts, first = [], found[0]._geometry
    for number, x in enumerate(found):
        sizes = x._geometry.sizes
        if len(sizes) <= d or sizes[:d] != first.sizes[:d] or x._geometry.dtype is not first.dtype:
            rule = f"have the dtype and the first {d} sizes of tensors[0], and dimension {d}"
            raise errors.wrong_shape("_chunk_cat", f"tensors[{number}]", rule, x)
        lacks = -sizes[d] % num_chunks
        if lacks:
            x = calls.constant_pad_nd(x, (0, 0) * (len(sizes) - d - 1) + (0, lacks), 0)
        parts.append(calls.reshape(x, (*sizes[:d], num_chunks, -1)))
    return calls.cat(parts, d + 1)
