"""Operators that return another view of the same storage; no element moves.

A rule maps (geometry, arguments) to the view's geometry, or to (geometry, offset) where the view
begins elsewhere. What a rule says is memoised on the geometry, so a repeated view costs a lookup;
the index of select and the start of slice stay out of the memo, since they only move the offset.
Source of the semantics: aten/src/ATen/native/TensorShape.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._generated import calls
from ..core import dtype as dtypes
from ..core import errors
from ..core import memory_format as formats
from ..core.dtype import dtype
from ..core.geometry import Geometry, Sizes, geometry
from ..dispatch.keys import CONJUGATE, NEGATIVE, ZERO
from ..tensor import Tensor, view_of
from . import arguments

Kernel = Callable[..., Any]
_MEMO_BOUND = 1 << 12

_new = object.__new__


def _view(op: str, rule: Callable[..., Geometry]) -> Kernel:
    """The kernel of a view operator that keeps the offset."""

    def kernel(key_set: int, self: Tensor, *args: Any) -> Tensor:
        shape = self._geometry
        try:
            wanted = shape.views[op, args]
        except (KeyError, TypeError):  # not seen yet, or an argument is a list
            wanted = _remember(shape, op, args, rule)
        # `view_of` written out (bench/overhead.py)
        storage = self._storage
        if storage is None:
            storage = self._get_storage()
        view = _new(Tensor)
        view._geometry = wanted  # type: ignore[assignment]
        view._keys = self._keys
        view._device = self._device
        view._storage = storage
        view._offset = self._offset
        view._array = view._autograd = None
        return view

    kernel.__name__ = kernel.__qualname__ = op
    return kernel


def _remember(shape: Geometry, op: str, args: tuple[Any, ...], rule: Callable[..., Any]) -> Any:
    args = tuple([tuple(a) if isinstance(a, list) else a for a in args])
    wanted = rule(shape, *args)
    if len(shape.views) >= _MEMO_BOUND:
        shape.views.clear()
    shape.views[op, args] = wanted
    return wanted


def _like(shape: Geometry, sizes: Sizes, strides: Sizes) -> Geometry:
    return geometry(sizes, strides, shape.dtype)


# --- sizes: view, reshape, flatten, unflatten ---------------------------------------------------


def infer_size(op: str, size: Any, numel: int) -> Sizes:
    """Sizes with a -1 replaced by what `numel` leaves for it."""
    sizes = arguments.ints(op, "size", size)
    known, unknown = 1, -1
    for number, n in enumerate(sizes):
        if n == -1:
            if unknown >= 0:
                raise errors.must(op, "size", "leave at most one dimension to infer", sizes)
            unknown = number
        elif n < 0:
            raise errors.must(op, "size", "hold no negative number but -1", sizes)
        else:
            known *= n
    if unknown < 0:
        if known != numel:
            raise errors.wrong_numel(op, sizes, numel)
        return sizes
    if known == 0:
        raise errors.must(op, "size", "not leave a dimension open beside a size of 0", sizes)
    if numel % known:
        raise errors.wrong_numel(op, sizes, numel)
    return (*sizes[:unknown], numel // known, *sizes[unknown + 1 :])


def view_strides(shape: Geometry, sizes: Sizes) -> Sizes | None:
    """Strides that show `shape`'s elements as `sizes`, or None where only a copy can.

    Source: ATen/TensorUtils.cpp, computeStride.
    """
    if shape.numel == 0:
        return shape.strides if sizes == shape.sizes else formats.contiguous_strides(sizes)
    strides = [0] * len(sizes)
    dim = len(sizes) - 1
    chunk_stride = shape.strides[-1] if shape.ndim else 1
    chunk = wanted = 1
    for old in range(shape.ndim - 1, -1, -1):
        chunk *= shape.sizes[old]
        ends = old == 0 or (
            shape.sizes[old - 1] != 1 and shape.strides[old - 1] != chunk * chunk_stride
        )
        if ends:
            while dim >= 0 and (wanted < chunk or sizes[dim] == 1):
                strides[dim] = wanted * chunk_stride
                wanted *= sizes[dim]
                dim -= 1
            if wanted != chunk:
                return None
            if old > 0:
                chunk_stride = shape.strides[old - 1]
                chunk = wanted = 1
    if shape.ndim == 0:
        return (1,) * len(sizes)
    return tuple(strides) if dim == -1 else None


def _view_rule(shape: Geometry, size: Any) -> Geometry:
    sizes = infer_size("view", size, shape.numel)
    strides = view_strides(shape, sizes)
    if strides is None:
        raise errors.view_incompatible("view", sizes, shape)
    return _like(shape, sizes, strides)


view = _view("view", _view_rule)


def _reshape_alias_rule(shape: Geometry, size: Any, stride: Any) -> Geometry:
    return _like(shape, arguments.sizes("_reshape_alias", size), arguments.ints("_reshape_alias", "stride", stride))


_reshape_alias = _view("_reshape_alias", _reshape_alias_rule)


def reshape(key_set: int, self: Tensor, shape: Any) -> Tensor:
    memo = self._geometry.views
    try:
        sizes, strides = memo["reshape", shape]  # type: ignore[misc]
    except (KeyError, TypeError):  # not seen yet, or a list
        sizes = infer_size("reshape", shape, self._geometry.numel)
        strides = view_strides(self._geometry, sizes)
        if len(memo) >= _MEMO_BOUND:
            memo.clear()
        memo["reshape", tuple(shape)] = (sizes, strides)
    if strides is None:
        return calls.view(calls.clone(self, formats.contiguous_format), sizes)  # type: ignore[no-any-return]
    return calls._reshape_alias(self, sizes, strides)  # type: ignore[no-any-return]


def flatten(key_set: int, self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    sizes, ndim = self._geometry.sizes, self._geometry.ndim
    start = arguments.dim("flatten", start_dim, ndim, "start_dim")
    end = arguments.dim("flatten", end_dim, ndim, "end_dim")
    if start > end:
        raise errors.must("flatten", "start_dim", "not come after end_dim", (start_dim, end_dim))
    if ndim == 0:
        return calls.reshape(self, (1,))  # type: ignore[no-any-return]
    if start == end:
        return self
    merged = 1
    for n in sizes[start : end + 1]:
        merged *= n
    return calls.reshape(self, (*sizes[:start], merged, *sizes[end + 1 :]))  # type: ignore[no-any-return]


def unflatten(key_set: int, self: Tensor, dim: int, sizes: Any) -> Tensor:
    shape = self._geometry
    number = arguments.dim("unflatten", dim, shape.ndim)
    if not len(sizes):
        raise errors.must("unflatten", "sizes", "not be empty", tuple(sizes))
    if shape.ndim == 0:
        raise errors.must("unflatten", "self", "have a dimension", self)
    inner = infer_size("unflatten", sizes, shape.sizes[number])
    return calls.view(self, (*shape.sizes[:number], *inner, *shape.sizes[number + 1 :]))  # type: ignore[no-any-return]


def _view_dtype_rule(shape: Geometry, target: dtype) -> Geometry:
    """Reinterprets the bytes. Source: aten/src/ATen/native/TensorConversions.cpp, view_dtype."""
    if not isinstance(target, dtype):
        raise errors.must("view", "dtype", "be a dtype", target, kind=errors.ArgumentTypeError)
    old, new = shape.dtype.itemsize, target.itemsize
    if old == new:
        return geometry(shape.sizes, shape.strides, target)
    if shape.ndim == 0:
        raise errors.must("view", "self", "have a dimension where the item size changes", errors.Got("0-d"))
    if old > new:
        ratio = old // new
        if shape.strides[-1] != 1:
            raise errors.must("view", "self", "have stride 1 in its last dimension", shape.strides)
        sizes = (*shape.sizes[:-1], shape.sizes[-1] * ratio)
        return geometry(sizes, (*(s * ratio for s in shape.strides[:-1]), 1), target)
    ratio = new // old
    if shape.sizes[-1] % ratio or shape.strides[-1] != 1 or any(s % ratio for s in shape.strides[:-1]):
        raise errors.must(
            "view", "self", f"have a last dimension of stride 1 and size, other strides and offset divisible by {ratio}",
            errors.Got(f"size {shape.sizes}, stride {shape.strides}"),
        )  # fmt: skip
    sizes = (*shape.sizes[:-1], shape.sizes[-1] // ratio)
    return geometry(sizes, (*(s // ratio for s in shape.strides[:-1]), 1), target)


def view_dtype(key_set: int, self: Tensor, target: dtype) -> Tensor:
    wanted = self._geometry.views.get(("view_dtype", (target,)))
    if wanted is None:
        wanted = _remember(self._geometry, "view_dtype", (target,), _view_dtype_rule)
    offset_bytes = self._offset * self._geometry.dtype.itemsize
    if offset_bytes % target.itemsize:
        raise errors.must("view", "self", f"begin at a multiple of {target.itemsize} bytes", f"{offset_bytes} bytes")
    return view_of(self, wanted, offset_bytes // target.itemsize)  # type: ignore[arg-type]


# --- order: permute, transpose, t, movedim ------------------------------------------------------


def _permute_rule(shape: Geometry, dims: Any) -> Geometry:
    order = arguments.dims("permute", dims, shape.ndim, "dims") if shape.ndim else arguments.ints("permute", "dims", dims)
    if len(order) != shape.ndim:
        raise errors.must("permute", "dims", f"name each of the {shape.ndim} dimensions", tuple(dims))
    return _like(shape, tuple([shape.sizes[d] for d in order]), tuple([shape.strides[d] for d in order]))


permute = _view("permute", _permute_rule)


def _transpose_rule(shape: Geometry, dim0: Any, dim1: Any, op: str = "transpose") -> Geometry:
    a = arguments.dim(op, dim0, shape.ndim, "dim0")
    b = arguments.dim(op, dim1, shape.ndim, "dim1")
    sizes, strides = list(shape.sizes), list(shape.strides)
    if sizes:
        sizes[a], sizes[b] = sizes[b], sizes[a]
        strides[a], strides[b] = strides[b], strides[a]
    return _like(shape, tuple(sizes), tuple(strides))


transpose = _view("transpose", _transpose_rule)


def _t_rule(shape: Geometry) -> Geometry:
    if shape.ndim > 2:
        raise errors.must("t", "self", "have at most 2 dimensions", errors.Got(errors.describe_layout(shape)))
    return _transpose_rule(shape, 0, 1 if shape.ndim == 2 else 0, "t")


t = _view("t", _t_rule)


def mT(key_set: int, self: Tensor) -> Tensor:  # noqa: N802
    if self._geometry.ndim < 2:
        raise errors.must("mT", "self", "have at least 2 dimensions", self)
    return calls.transpose_int(self, -2, -1)  # type: ignore[no-any-return]


def swapaxes(key_set: int, self: Tensor, axis0: int, axis1: int) -> Tensor:
    return calls.transpose_int(self, axis0, axis1)  # type: ignore[no-any-return]


def movedim(key_set: int, self: Tensor, source: Any, destination: Any) -> Tensor:
    ndim = self._geometry.ndim
    origins = arguments.dims("movedim", source, ndim, "source")
    targets = arguments.dims("movedim", destination, ndim, "destination")
    if len(origins) != len(targets):
        raise errors.must("movedim", "destination", f"have {len(origins)} entries, as source has", tuple(targets))
    if ndim == 0:
        return calls.alias(self)  # type: ignore[no-any-return]
    order = [-1] * ndim
    for origin, target in zip(origins, targets):
        order[target] = origin
    rest = iter([d for d in range(ndim) if d not in origins])
    return calls.permute(self, tuple([d if d >= 0 else next(rest) for d in order]))  # type: ignore[no-any-return]


# --- number of dimensions: squeeze, unsqueeze, expand -------------------------------------------


def _squeeze_rule(shape: Geometry) -> Geometry:
    return _squeeze_where(shape, range(shape.ndim))


def _squeeze_dim_rule(shape: Geometry, dim: Any) -> Geometry:
    return _squeeze_where(shape, (arguments.dim("squeeze", dim, shape.ndim),))


def _squeeze_dims_rule(shape: Geometry, dim: Any) -> Geometry:
    return _squeeze_where(shape, arguments.dims("squeeze", dim, shape.ndim))


def _squeeze_where(shape: Geometry, dims: Any) -> Geometry:
    kept = [d for d in range(shape.ndim) if shape.sizes[d] != 1 or d not in dims]
    return _like(shape, tuple([shape.sizes[d] for d in kept]), tuple([shape.strides[d] for d in kept]))


squeeze = _view("squeeze", _squeeze_rule)
squeeze_dim = _view("squeeze_dim", _squeeze_dim_rule)
squeeze_dims = _view("squeeze_dims", _squeeze_dims_rule)


def _unsqueeze_rule(shape: Geometry, dim: Any) -> Geometry:
    number = arguments.integer("unsqueeze", "dim", dim)
    if not -shape.ndim - 1 <= number <= shape.ndim:
        raise errors.dim_out_of_range("unsqueeze", number, shape.ndim + 1)
    number %= shape.ndim + 1
    stride = shape.sizes[number] * shape.strides[number] if number < shape.ndim else 1
    return _like(
        shape,
        (*shape.sizes[:number], 1, *shape.sizes[number:]),
        (*shape.strides[:number], stride, *shape.strides[number:]),
    )


unsqueeze = _view("unsqueeze", _unsqueeze_rule)


def _expand_rule(shape: Geometry, size: Any, implicit: Any = False) -> Geometry:
    sizes = arguments.ints("expand", "size", size)
    extra = len(sizes) - shape.ndim
    if extra < 0:
        raise errors.must("expand", "size", f"have at least {shape.ndim} dimensions", sizes)
    out_sizes, strides = list(sizes), [0] * len(sizes)
    for d in range(len(sizes) - 1, -1, -1):
        old = shape.sizes[d - extra] if d >= extra else 1
        stride = shape.strides[d - extra] if d >= extra else 0
        wanted = sizes[d]
        if wanted == -1:
            if d < extra:
                raise errors.must("expand", "size", "give a number for each new leading dimension", sizes)
            wanted = old
        if wanted < 0:
            raise errors.must("expand", "size", "hold no negative number but -1", sizes)
        if d < extra and wanted != 1 or old != wanted:
            if old != 1:
                raise errors.must("expand", "size", f"match self's size {old} at dimension {d}", sizes)
            stride = 0
        elif d < extra:
            # Source: ATen/ExpandUtils.cpp: a new dimension takes the stride that keeps the view dense.
            stride = out_sizes[d + 1] * strides[d + 1] if d + 1 < len(sizes) else 1
        out_sizes[d], strides[d] = wanted, stride
    return _like(shape, tuple(out_sizes), tuple(strides))


expand = _view("expand", _expand_rule)


def expand_as(key_set: int, self: Tensor, other: Tensor) -> Tensor:
    return calls.expand(self, other._geometry.sizes, False)  # type: ignore[no-any-return]


def view_as(key_set: int, self: Tensor, other: Tensor) -> Tensor:
    return calls.view(self, other._geometry.sizes)  # type: ignore[no-any-return]


def _alias_rule(shape: Geometry) -> Geometry:
    return shape


alias = _view("alias", _alias_rule)
detach = _view("detach", _alias_rule)


# --- lazy: elements that are turned when they are read. See Note [Lazy views], lazy_views.py ------


def _conj(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.dtype.is_complex:
        raise errors.must("_conj", "self", "be complex", self, kind=errors.DtypeError)
    view = view_of(self, self._geometry, self._offset)
    view._keys ^= CONJUGATE
    return view


def conj(key_set: int, self: Tensor) -> Tensor:
    return calls._conj(self) if self._geometry.dtype.is_complex else self


def _neg_view(key_set: int, self: Tensor) -> Tensor:
    view = view_of(self, self._geometry, self._offset)
    view._keys ^= NEGATIVE
    return view


def is_conj(key_set: int, self: Tensor) -> bool:
    return bool(self._keys & CONJUGATE)


def is_neg(key_set: int, self: Tensor) -> bool:
    return bool(self._keys & NEGATIVE)


def _is_zerotensor(key_set: int, self: Tensor) -> bool:
    return bool(self._keys & ZERO)


# --- complex as pairs of reals --------------------------------------------------------------------


def _as_real_rule(shape: Geometry) -> Geometry:
    if not shape.dtype.is_complex:
        got = errors.Got(errors.describe_layout(shape))
        raise errors.must("view_as_real", "self", "be complex", got, kind=errors.DtypeError)
    return geometry((*shape.sizes, 2), (*[2 * s for s in shape.strides], 1), shape.dtype.to_real)


def view_as_real(key_set: int, self: Tensor) -> Tensor:
    if self._keys & CONJUGATE:
        raise errors.must(
            "view_as_real", "self", "not be a lazy conjugate", self,
            remedy="use .resolve_conj(), which copies",
        )  # fmt: skip
    shape = self._geometry
    wanted = shape.views.get(("view_as_real", ()))
    if wanted is None:
        wanted = _remember(shape, "view_as_real", (), _as_real_rule)
    return view_of(self, wanted, 2 * self._offset)  # type: ignore[arg-type]


def _as_complex_rule(shape: Geometry) -> Geometry:
    got = errors.Got(f"{errors.describe_layout(shape)} with strides {shape.strides}")
    if shape.dtype not in (dtypes.float32, dtypes.float64):
        raise errors.must("view_as_complex", "self", "be float32 or float64", got, kind=errors.DtypeError)
    if not shape.ndim or shape.sizes[-1] != 2 or shape.strides[-1] != 1:
        raise errors.must("view_as_complex", "self", "have a last dimension of size 2 and stride 1", got)
    if any(s % 2 for s in shape.strides[:-1]):
        raise errors.must("view_as_complex", "self", "have even strides before the last", got)
    return geometry(shape.sizes[:-1], tuple([s // 2 for s in shape.strides[:-1]]), shape.dtype.to_complex)


def view_as_complex(key_set: int, self: Tensor) -> Tensor:
    shape = self._geometry
    wanted = shape.views.get(("view_as_complex", ()))
    if wanted is None:
        wanted = _remember(shape, "view_as_complex", (), _as_complex_rule)
    if self._offset % 2:
        raise errors.must("view_as_complex", "self", "begin at an even offset", f"offset {self._offset}")
    return view_of(self, wanted, self._offset // 2)  # type: ignore[arg-type]


def real(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.dtype.is_complex:
        return self
    # A conjugate has the same real parts.
    plain = calls._conj(self) if self._keys & CONJUGATE else self
    return calls.select_int(calls.view_as_real(plain), -1, 0)  # type: ignore[no-any-return]


def imag(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.dtype.is_complex:
        raise errors.must("imag", "self", "be complex", self, kind=errors.DtypeError)
    if self._keys & CONJUGATE:
        return calls._neg_view(calls.imag(calls._conj(self)))  # type: ignore[no-any-return]
    return calls.select_int(calls.view_as_real(self), -1, 1)  # type: ignore[no-any-return]


# --- parts: select, slice, narrow, diagonal, unfold, as_strided ---------------------------------


def _select_rule(shape: Geometry, dim: Any) -> tuple[Geometry, int, int]:
    if shape.ndim == 0:
        raise errors.must("select", "self", "have a dimension", errors.Got("0-d"), kind=errors.IndexRangeError)
    d = arguments.dim("select", dim, shape.ndim)
    rest = _like(shape, shape.sizes[:d] + shape.sizes[d + 1 :], shape.strides[:d] + shape.strides[d + 1 :])
    return rest, shape.sizes[d], shape.strides[d]


def select(key_set: int, self: Tensor, dim: int, index: int) -> Tensor:
    shape = self._geometry
    found = shape.views.get(("select", dim))
    if found is None:
        found = shape.views["select", dim] = _select_rule(shape, dim)
    wanted, size, stride = found  # type: ignore[misc]
    if not -size <= index < size:
        raise errors.must("select", "index", f"be in [{-size}, {size - 1}]", index, kind=errors.IndexRangeError)
    return view_of(self, wanted, self._offset + (index + size if index < 0 else index) * stride)


def slice(
    key_set: int, self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    shape = self._geometry
    if type(dim) is int and 0 <= dim < shape.ndim:
        d = dim
    elif shape.ndim:
        d = arguments.dim("slice", dim, shape.ndim)
    else:
        raise errors.must("slice", "self", "have a dimension", self, kind=errors.IndexRangeError)
    if step != 1 and arguments.integer("slice", "step", step) <= 0:
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
    wanted = shape.views.get(("slice", d, length, step))
    if wanted is None:
        wanted = _like(
            shape,
            (*shape.sizes[:d], length, *shape.sizes[d + 1 :]),
            (*shape.strides[:d], shape.strides[d] * step, *shape.strides[d + 1 :]),
        )
        if len(shape.views) >= _MEMO_BOUND:
            shape.views.clear()
        shape.views["slice", d, length, step] = wanted
    return view_of(self, wanted, self._offset + first * shape.strides[d])  # type: ignore[arg-type]


def narrow(key_set: int, self: Tensor, dim: int, start: int, length: int) -> Tensor:
    shape = self._geometry
    if shape.ndim == 0:
        raise errors.must("narrow", "self", "have a dimension", self)
    d = arguments.dim("narrow", dim, shape.ndim)
    size = shape.sizes[d]
    first = arguments.integer("narrow", "start", start)
    if arguments.integer("narrow", "length", length) < 0:
        raise errors.must("narrow", "length", "not be negative", length)
    if not -size <= first <= size:
        raise errors.must("narrow", "start", f"be in [{-size}, {size}]", start, kind=errors.IndexRangeError)
    first = first + size if first < 0 else first
    if first + length > size:
        raise errors.must("narrow", "length", f"end within size {size}", f"start {start}, length {length}")
    return calls.slice_Tensor(self, d, first, first + length, 1)  # type: ignore[no-any-return]


def diagonal(key_set: int, self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    shape = self._geometry
    a = arguments.dim("diagonal", dim1, shape.ndim, "dim1")
    b = arguments.dim("diagonal", dim2, shape.ndim, "dim2")
    if a == b or shape.ndim < 2:
        raise errors.must("diagonal", "dim2", "differ from dim1", (dim1, dim2))
    shift = arguments.integer("diagonal", "offset", offset)
    if shift >= 0:
        length = max(min(shape.sizes[a], shape.sizes[b] - shift), 0)
    else:
        length = max(min(shape.sizes[a] + shift, shape.sizes[b]), 0)
    begin = self._offset
    if length:
        begin += shift * shape.strides[b] if shift >= 0 else -shift * shape.strides[a]
    rest = [d for d in range(shape.ndim) if d not in (a, b)]
    sizes = (*[shape.sizes[d] for d in rest], length)
    strides = (*[shape.strides[d] for d in rest], shape.strides[a] + shape.strides[b])
    return view_of(self, _like(shape, sizes, strides), begin)


def _unfold_rule(shape: Geometry, dimension: Any, size: Any, step: Any) -> Geometry:
    d = arguments.dim("unfold", dimension, shape.ndim, "dimension")
    length = shape.sizes[d] if shape.ndim else 1
    window, hop = arguments.integer("unfold", "size", size), arguments.integer("unfold", "step", step)
    if not 0 <= window <= length:
        raise errors.must("unfold", "size", f"be in [0, {length}]", size)
    if hop <= 0:
        raise errors.must("unfold", "step", "be positive", step)
    if shape.ndim == 0:
        return _like(shape, (window,), (1,))
    sizes, strides = list(shape.sizes), list(shape.strides)
    sizes[d] = (length - window) // hop + 1
    strides[d] = hop * shape.strides[d]
    return _like(shape, (*sizes, window), (*strides, shape.strides[d]))


unfold = _view("unfold", _unfold_rule)


def as_strided(key_set: int, self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    sizes = arguments.sizes("as_strided", size)
    strides = arguments.ints("as_strided", "stride", stride)
    if len(sizes) != len(strides):
        raise errors.must("as_strided", "stride", f"have {len(sizes)} entries, as size has", strides)
    begin = self._offset if storage_offset is None else arguments.integer("as_strided", "storage_offset", storage_offset)
    wanted = _like(self._geometry, sizes, strides)
    arguments.check_bounds("as_strided", self._get_storage(), begin, wanted)
    return view_of(self, wanted, begin)


# --- lists of views -----------------------------------------------------------------------------


def unbind(key_set: int, self: Tensor, dim: int = 0) -> list[Tensor]:
    shape = self._geometry
    found = shape.views.get(("select", dim))
    if found is None:
        if shape.ndim:
            arguments.dim("unbind", dim, shape.ndim)
        found = shape.views["select", dim] = _select_rule(shape, dim)
    wanted, size, stride = found  # type: ignore[misc]
    return [view_of(self, wanted, self._offset + i * stride) for i in range(size)]


def split_with_sizes(key_set: int, self: Tensor, split_sizes: Any, dim: int = 0) -> list[Tensor]:
    shape = self._geometry
    d = arguments.dim("split_with_sizes", dim, shape.ndim)
    sizes = arguments.sizes("split_with_sizes", split_sizes, "split_sizes")
    if shape.ndim == 0 or sum(sizes) != shape.sizes[d]:
        raise errors.must("split_with_sizes", "split_sizes", f"add up to size {shape.sizes[d:d+1]}", sizes)
    parts, begin = [], 0
    for n in sizes:
        parts.append(slice(key_set, self, d, begin, begin + n, 1))
        begin += n
    return parts


def split(key_set: int, self: Tensor, split_size: int, dim: int = 0) -> list[Tensor]:
    shape = self._geometry
    if shape.ndim == 0:
        raise errors.must("split", "self", "have a dimension", self)
    d = arguments.dim("split", dim, shape.ndim)
    step = arguments.integer("split", "split_size", split_size)
    size = shape.sizes[d]
    if step < 0 or (step == 0 and size):
        raise errors.must("split", "split_size", "be positive", split_size)
    starts = range(0, size, step) if size and step else (0,)
    return [slice(key_set, self, d, s, s + step, 1) for s in starts]


def split_sizes(key_set: int, self: Tensor, split_size: Any, dim: int = 0) -> list[Tensor]:
    return calls.split_with_sizes(self, split_size, dim)  # type: ignore[no-any-return]


def chunk(key_set: int, self: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    shape = self._geometry
    if shape.ndim == 0:
        raise errors.must("chunk", "self", "have a dimension", self)
    if arguments.integer("chunk", "chunks", chunks) <= 0:
        raise errors.must("chunk", "chunks", "be positive", chunks)
    size = shape.sizes[arguments.dim("chunk", dim, shape.ndim)]
    step = -(-size // chunks)
    if step == 0:
        return calls.split_with_sizes(self, (0,) * chunks, dim)  # type: ignore[no-any-return]
    return calls.split_Tensor(self, step, dim)  # type: ignore[no-any-return]


# --- in place -----------------------------------------------------------------------------------


def _inplace(rule: Callable[..., Geometry]) -> Kernel:
    """Puts the view's geometry on the tensor itself."""

    def kernel(key_set: int, self: Tensor, *args: Any) -> Tensor:
        self._get_storage()
        self._geometry = rule(self._geometry, *args)
        self._array = None
        return self

    return kernel


squeeze_ = _inplace(_squeeze_rule)
squeeze_dim_ = _inplace(_squeeze_dim_rule)
squeeze_dims_ = _inplace(_squeeze_dims_rule)
unsqueeze_ = _inplace(_unsqueeze_rule)
transpose_ = _inplace(_transpose_rule)
t_ = _inplace(_t_rule)


def as_strided_(key_set: int, self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    view = as_strided(key_set, self, size, stride, storage_offset)
    self._geometry, self._offset, self._array = view._geometry, view._offset, None
    return self


