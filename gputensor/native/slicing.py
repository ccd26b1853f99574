"""Operators that return views of parts of a tensor: slices in one or several dimensions, and
windows.

Source of the semantics: aten/src/ATen/native/TensorShape.cpp.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls, operators
from ..core import errors, memory_format as formats
from ..core.arguments import ONE, exact
from ..core.device import CPU
from ..core.dtype import int64
from ..core.geometry import Geometry
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..dispatch.shortcuts import CPU as CPU_CALL, Seen, is_due, jumps
from ..iterator import overlap
from ..tensor.make import view_of
from ..tensor.tensor import Tensor
from ..structured import arguments
from ..structured.shortcuts import views as short_view
from ..structured.view_kernel import MEMO_BOUND, Kernel, like, remember, seen, view_kernel

# --- parts: select, slice, narrow, diagonal, unfold, as_strided ---------------------------------


def _select_rule(shape: Geometry, dim: Any) -> tuple[Geometry, int, int]:
    if shape.ndim == 0:
        raise errors.wrong_index("select", "self", "have a dimension", errors.Got("0-d"))
    d = arguments.dim("select", dim, shape.ndim)
    strides = shape.strides[:d] + shape.strides[d + 1 :]
    rest = like(shape, shape.sizes[:d] + shape.sizes[d + 1 :], strides)
    return rest, shape.sizes[d], shape.strides[d]


def select(key_set: int, self: Tensor, dim: int, index: int) -> Tensor:
    table, shape = operators.select_int.table, self._geometry
    known = shape.views.get(("select", exact(dim)))
    if known is None:
        known = shape.views["select", exact(dim)] = Seen(_select_rule(shape, dim))
    elif known.short is not table.short:
        found = short_view.selected(table, dim, known.value, self._keys)
        short_view.leave(table, select, (shape, dim), known, self, found)
    wanted, size, stride = known.value
    if type(index) is not int:
        index = arguments.integer("select", "index", index)
    if not -size <= index < size:
        raise errors.wrong_index("select", "index", f"be in [{-size}, {size - 1}]", index)
    return view_of(self, wanted, self._offset + (index + size if index < 0 else index) * stride)


def slice(
    key_set: int, self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    shape = self._geometry
    if type(dim) is int and 0 <= dim < shape.ndim:
        d = dim
    elif shape.ndim:
        d = arguments.dim("slice", dim, shape.ndim)
    else:
        raise errors.wrong_index("slice", "self", "have a dimension", self)
    if step is not ONE and (step := arguments.integer("slice", "step", step)) <= 0:
        raise errors.must("slice", "step", "be positive", step)
    size = shape.sizes[d]
    if start is None:
        first = 0
    else:
        first = start if type(start) is int else arguments.integer("slice", "start", start)
        if first < 0:
            first = max(first + size, 0)
        elif first > size:
            first = size
    if end is None:
        last = size
    else:
        last = end if type(end) is int else arguments.integer("slice", "end", end)
        if last < 0:
            last += size
        last = min(max(last, first), size)
    length = (last - first + step - 1) // step
    table = operators.slice_Tensor.table
    known = shape.views.get(("slice", d, length, step))
    if known is None:
        strides = (*shape.strides[:d], shape.strides[d] * step, *shape.strides[d + 1 :])
        wanted = like(shape, (*shape.sizes[:d], length, *shape.sizes[d + 1 :]), strides)
        if len(shape.views) >= MEMO_BOUND:
            shape.views.clear()
        known = shape.views["slice", d, length, step] = Seen(wanted)
    elif known.short is not table.short:
        found = short_view.sliced(table, shape, d, dim, step, self._keys)
        short_view.leave(table, slice, (shape, dim, step), known, self, found)
    return view_of(self, known.value, self._offset + first * shape.strides[d])


def narrow(key_set: int, self: Tensor, dim: int, start: int, length: int) -> Tensor:
    table, shape = operators.narrow.table, self._geometry
    if shape.ndim == 0:
        raise errors.must("narrow", "self", "have a dimension", self)
    d = arguments.dim("narrow", dim, shape.ndim)
    size = shape.sizes[d]
    first = arguments.integer("narrow", "start", start)
    length = arguments.integer("narrow", "length", length, least=0)
    if not -size <= first <= size:
        raise errors.wrong_index("narrow", "start", f"be in [{-size}, {size}]", start)
    first = first + size if first < 0 else first
    if first + length > size:
        raise errors.must("narrow", "length", f"end within size {size}", (start, length))
    made = calls.slice_Tensor(self, d, first, first + length, 1)
    known = seen(shape, ("narrow", dim, length))
    if type(made) is Tensor and is_due(known, table):
        found = short_view.narrowed(
            made._geometry, size - length, size, shape.strides[d], self._keys
        )
        short_view.leave(table, narrow, (shape, dim, length), known, self, found)
    return made


jumps(narrow, lambda: ((operators.slice_Tensor, CPU_CALL, slice),))


def narrow_copy(key_set: int, self: Tensor, dim: int, start: int, length: int) -> Tensor:
    return calls.clone(calls.narrow(self, dim, start, length), formats.contiguous_format)


def _diagonal_rule(shape: Geometry, offset: Any, dim1: Any, dim2: Any) -> Seen:
    """Return the view's geometry, and the number of elements to add to self's offset."""
    a = arguments.dim("diagonal", dim1, shape.ndim, "dim1")
    b = arguments.dim("diagonal", dim2, shape.ndim, "dim2")
    if a == b or shape.ndim < 2:
        raise errors.must("diagonal", "dim2", "differ from dim1", (dim1, dim2))
    shift, by = arguments.integer("diagonal", "offset", offset), 0
    if shift >= 0:
        length = max(min(shape.sizes[a], shape.sizes[b] - shift), 0)
    else:
        length = max(min(shape.sizes[a] + shift, shape.sizes[b]), 0)
    if length:
        by = shift * shape.strides[b] if shift >= 0 else -shift * shape.strides[a]
    rest = [d for d in range(shape.ndim) if d not in (a, b)]
    sizes = (*[shape.sizes[d] for d in rest], length)
    strides = (*[shape.strides[d] for d in rest], shape.strides[a] + shape.strides[b])
    return Seen((like(shape, sizes, strides), by))


def diagonal(key_set: int, self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    shape, table, args = self._geometry, operators.diagonal.table, (offset, dim1, dim2)
    try:
        known = shape.views["diagonal", exact(offset), exact(dim1), exact(dim2)]
    except (KeyError, TypeError):  # No result is cached, or an argument is a list.
        known = errors.plainly(remember, shape, "diagonal", args, _diagonal_rule)
    else:
        if known.short is not table.short and not known.value[1]:
            found = short_view.view(table, known.value[0], self._keys, args)
            short_view.leave(table, diagonal, (shape, *args), known, self, found)
    wanted, by = known.value
    return view_of(self, wanted, self._offset + by)


def _unfold_rule(shape: Geometry, dimension: Any, size: Any, step: Any) -> Geometry:
    d = arguments.dim("unfold", dimension, shape.ndim, "dimension")
    length = shape.sizes[d] if shape.ndim else 1
    window = arguments.integer("unfold", "size", size)
    hop = arguments.integer("unfold", "step", step)
    if not 0 <= window <= length:
        raise errors.must("unfold", "size", f"be in [0, {length}]", size)
    if hop <= 0:
        raise errors.must("unfold", "step", "be positive", step)
    if shape.ndim == 0:
        return like(shape, (window,), (1,))
    sizes, strides = list(shape.sizes), list(shape.strides)
    sizes[d] = (length - window) // hop + 1
    strides[d] = hop * shape.strides[d]
    return like(shape, (*sizes, window), (*strides, shape.strides[d]))


unfold: Kernel = view_kernel("unfold", _unfold_rule)


def as_strided(
    key_set: int, self: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    sizes = arguments.sizes("as_strided", size)
    strides = arguments.ints("as_strided", "stride", stride)
    if len(sizes) != len(strides):
        rule = f"have {len(sizes)} entries, as size has"
        raise errors.must("as_strided", "stride", rule, strides)
    begin = self._offset
    if storage_offset is not None:
        begin = arguments.integer("as_strided", "storage_offset", storage_offset)
    wanted = like(self._geometry, sizes, strides)
    arguments.check_bounds("as_strided", self._get_storage(), begin, wanted)
    return view_of(self, wanted, begin)


# --- lists of views -----------------------------------------------------------------------------


def unbind(key_set: int, self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    shape = self._geometry
    known = shape.views.get(("select", exact(dim)))
    if known is None:
        if shape.ndim:
            arguments.dim("unbind", dim, shape.ndim)
        known = shape.views["select", exact(dim)] = Seen(_select_rule(shape, dim))
    wanted, size, stride = known.value
    table = operators.unbind_int.table
    made = tuple([view_of(self, wanted, self._offset + i * stride) for i in range(size)])
    short_view.learn_list(table, unbind, (self, dim), made)
    return made


def split_with_sizes(
    key_set: int, self: Tensor, split_sizes: Any, dim: int = 0
) -> tuple[Tensor, ...]:
    shape = self._geometry
    d = arguments.dim("split_with_sizes", dim, shape.ndim)
    sizes = arguments.sizes("split_with_sizes", split_sizes, "split_sizes")
    if shape.ndim == 0 or sum(sizes) != shape.sizes[d]:
        rule = f"add up to size {shape.sizes[d : d + 1]}"
        raise errors.must("split_with_sizes", "split_sizes", rule, sizes)
    parts, begin = [], 0
    for n in sizes:
        parts.append(slice(key_set, self, d, begin, begin + n, 1))
        begin += n
    return tuple(parts)


def split(key_set: int, self: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    shape = self._geometry
    if shape.ndim == 0:
        raise errors.must("split", "self", "have a dimension", self)
    d = arguments.dim("split", dim, shape.ndim)
    step = arguments.integer("split", "split_size", split_size)
    size = shape.sizes[d]
    if step < 0 or (step == 0 and size):
        raise errors.must("split", "split_size", "be positive", split_size)
    starts = range(0, size, step) if size and step else (0,)
    table = operators.split_Tensor.table
    made = tuple([slice(key_set, self, d, s, s + step, 1) for s in starts])
    short_view.learn_list(table, split, (self, split_size, dim), made)
    return made


def chunk(key_set: int, self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    step, table = _chunk_size("chunk", self, chunks, dim), operators.chunk.table
    if step == 0:
        return calls.split_with_sizes(self, (0,) * chunks, dim)
    made = calls.split_Tensor(self, step, dim)
    short_view.learn_list(table, chunk, (self, chunks, dim), made)
    return made


jumps(chunk, lambda: ((operators.split_Tensor, CPU_CALL, split),))


def _chunk_size(op: str, self: Tensor, chunks: int, dim: int) -> int:
    size = _size(op, self, dim)
    chunks = arguments.integer(op, "chunks", chunks, least=1)
    return -(-size // chunks)


unsafe_split, unsafe_split_with_sizes = split, split_with_sizes


def unsafe_chunk(key_set: int, self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    step = _chunk_size("unsafe_chunk", self, chunks, dim)
    if step == 0:
        return calls.unsafe_split_with_sizes(self, (0,) * chunks, dim)
    return calls.unsafe_split_Tensor(self, step, dim)


# Source of the functions below: TensorShape.cpp, tensor_split and hsplit.

# The maximum number of tensors. More tensors would take minutes.
_MOST_SECTIONS = 1 << 20


def tensor_split_sections(
    key_set: int, self: Tensor, sections: int, dim: int = 0
) -> tuple[Tensor, ...]:
    size, given = _size("tensor_split", self, dim), sections
    if isinstance(given, Tensor):
        if given._device is not CPU or given._geometry.dtype is not int64:
            raise errors.wrong_dtype("tensor_split", "sections", "be int64 on the CPU", given)
        if given._geometry.ndim:
            return tensor_split_indices(key_set, self, given.tolist(), dim)
    count = arguments.integer("tensor_split", "sections", given)
    if not 0 < count <= _MOST_SECTIONS:
        rule = f"be in [1, {_MOST_SECTIONS}]"
        raise errors.must("tensor_split", "sections", rule, sections)
    least, more = divmod(size, count)
    ends = [k * least + min(k, more) for k in range(1, count)]
    return tensor_split_indices(key_set, self, ends, dim)


def tensor_split_indices(
    key_set: int, self: Tensor, indices: Any, dim: int = 0
) -> tuple[Tensor, ...]:
    size = _size("tensor_split", self, dim)
    ends = arguments.ints("tensor_split", "indices", indices)
    pairs = zip((0, *ends), (*ends, size))
    return tuple([calls.slice_Tensor(self, dim, start, end, 1) for start, end in pairs])


def _size(op: str, self: Tensor, dim: int) -> int:
    if not self._geometry.ndim:
        raise errors.must(op, "self", "have a dimension", self)
    return self._geometry.sizes[arguments.dim(op, dim, self._geometry.ndim)]


def _split_along(op: str, least: int) -> tuple[Kernel, Kernel]:
    """Make the overloads of hsplit and similar operators: with a number of sections, and with
    indices."""

    def place(self: Tensor) -> int:
        if self._geometry.ndim < least:
            raise errors.must(op, "self", f"have at least {least} dimensions", self)
        return {"hsplit": min(self._geometry.ndim - 1, 1), "vsplit": 0, "dsplit": 2}[op]

    def of_sections(key_set: int, self: Tensor, sections: int) -> tuple[Tensor, ...]:
        dim = place(self)
        size = self._geometry.sizes[dim]
        if (sections := arguments.integer(op, "sections", sections)) <= 0 or size % sections:
            raise errors.must(op, "sections", f"divide size {size} of dimension {dim}", sections)
        return tensor_split_sections(key_set, self, sections, dim)

    def of_indices(key_set: int, self: Tensor, indices: Any) -> tuple[Tensor, ...]:
        return tensor_split_indices(key_set, self, indices, place(self))

    return of_sections, of_indices


hsplit_int, hsplit_array = _split_along("hsplit", 1)
vsplit_int, vsplit_array = _split_along("vsplit", 2)
dsplit_int, dsplit_array = _split_along("dsplit", 3)


# --- copies with a part replaced ----------------------------------------------------------------


def _clone_with_strides(self: Tensor) -> Tensor:
    """Return a copy with the strides of self, including the gaps between elements. Source:
    TensorFactories.cpp, clone_preserve_strides."""
    shape = self._geometry
    if shape.is_non_overlapping_and_dense or overlap.internal_overlap(shape) == overlap.YES:
        return calls.clone(self)
    whole = self._get_storage()._nbytes // shape.dtype.itemsize
    memory = calls.clone(as_strided(0, self, (whole,), (1,), 0))
    return view_of(memory, shape, self._offset)


def _replace(part: Tensor, src: Tensor, op: str) -> None:
    if part._geometry.sizes != src._geometry.sizes:
        raise errors.wrong_shape(op, "src", f"have sizes {part._geometry.sizes}", src)
    key_set = (part._keys | src._keys) & BELOW_ADINPLACEORVIEW
    operators.copy_.redispatch_table[key_set](key_set, part, src, False)


def diagonal_scatter(
    key_set: int, self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    made = _clone_with_strides(self)
    _replace(diagonal(key_set, made, offset, dim1, dim2), src, "diagonal_scatter")
    return made


def as_strided_scatter(
    key_set: int, self: Tensor, src: Tensor, size: Any, stride: Any,
    storage_offset: int | None = None,
) -> Tensor:  # fmt: skip
    made = _clone_with_strides(self)
    _replace(as_strided(key_set, made, size, stride, storage_offset), src, "as_strided_scatter")
    return made


# --- in place -------------------------------------------------------------------------------------


def as_strided_(
    key_set: int, self: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    view = as_strided(key_set, self, size, stride, storage_offset)
    self._geometry, self._offset, self._array = view._geometry, view._offset, None
    return self
