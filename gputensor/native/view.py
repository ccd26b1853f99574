"""Operators that return views of all elements, with other sizes or in another order. They move no
element.

Source of the semantics: aten/src/ATen/native/TensorShape.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._generated import calls, operators
from ..core import errors, memory_format as formats
from ..core.arguments import exact
from ..core.dtype import dtype
from ..core.geometry import Geometry, Sizes, geometry
from ..iterator.broadcast import broadcast_sizes
from ..dispatch import shortcuts
from ..dispatch.operator import Table
from ..dispatch.shortcuts import CPU as CPU_CALL, Seen, is_due, jumps
from ..tensor.make import view_of
from ..tensor.tensor import Tensor
from ..structured import arguments
from ..structured.shortcuts import cuda as short_cuda, views as short_view
from ..structured.view_kernel import MEMO_BOUND, Kernel, like, remember, seen, view_kernel

# --- sizes: view, reshape, flatten, unflatten ---------------------------------------------------


def infer_size(op: str, size: Any, numel: int) -> Sizes:
    """Return the sizes, in which -1 is replaced by `numel` divided by the other sizes."""
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
    """Return the strides of a view with sizes `sizes` of a tensor with the geometry `shape`. Return
    None if no strides describe the view; a copy is then needed. Source: ATen/TensorUtils.cpp,
    computeStride."""
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
    return like(shape, sizes, strides)


view: Kernel = view_kernel("view", _view_rule)


def view_copy(key_set: int, self: Tensor, size: Any) -> Tensor:
    """Return a contiguous copy of self with other sizes, even if self has no view with these sizes.
    Source: torchgen/gen_functionalization_type.py."""
    sizes = infer_size("view", size, self._geometry.numel)
    return with_sizes(calls.clone(self, formats.contiguous_format), sizes)


def _reshape_alias_rule(shape: Geometry, size: Any, stride: Any) -> Geometry:
    sizes = arguments.sizes("_reshape_alias", size)
    strides = arguments.ints("_reshape_alias", "stride", stride)
    if len(strides) != len(sizes):
        rule = f"have {len(sizes)} entries, as size has"
        raise errors.must("_reshape_alias", "stride", rule, strides)
    wanted = like(shape, sizes, strides)
    if wanted.numel != shape.numel or wanted.extent > shape.extent:
        rule = f"name the {shape.numel} elements of self"
        raise errors.must("_reshape_alias", "size, stride", rule, (sizes, strides))
    return wanted


_reshape_alias = view_kernel("_reshape_alias", _reshape_alias_rule)


def reshape(key_set: int, self: Tensor, shape: Any) -> Tensor:
    table, memo = operators.reshape.table, self._geometry.views
    known: Seen | None = None
    try:
        known = memo["reshape", exact(shape)]
        sizes, strides = known.value
    except (KeyError, TypeError):  # No result is cached, or the argument is a list.
        sizes = errors.plainly(infer_size, "reshape", shape, self._geometry.numel)
        strides = view_strides(self._geometry, sizes)
        if len(memo) >= MEMO_BOUND:
            memo.clear()
        if isinstance(shape, (list, tuple)):
            memo["reshape", exact(tuple(shape))] = Seen((sizes, strides))
    else:
        if strides is not None and known.short is not table.short:
            wanted = like(self._geometry, sizes, strides)
            as_view = _reshaped(self._geometry, sizes, strides)
            found = short_view.view(table, wanted, self._keys, (shape,), as_view)
            short_view.leave(table, reshape, (self._geometry, shape), known, self, found)
    if strides is None:
        cloned = calls.clone(self, formats.contiguous_format)
        made = with_sizes(cloned, sizes)
        if known is not None and known.short is not table.short:
            _learn_copy(table, self, shape, known, cloned, made)
        return made
    if self._geometry.is_contiguous:
        return calls.view(self, sizes)
    return calls._reshape_alias(self, sizes, strides)


def _learn_copy(
    table: Table, self: Tensor, shape: Any, known: Seen, cloned: Tensor, made: Tensor
) -> None:
    """Store the short cut of a reshape on CUDA that copies its operand by one launch."""
    if self._keys is not short_cuda.CUDA_KEYS or type(made) is not Tensor:
        return
    key = (cloned._geometry, self._geometry, self._device, self._device)
    launch = getattr(operators.copy_.table.plans.get(key), "launch", None)
    if launch is not None:
        found = short_cuda.copied(table, self, made._geometry, launch, (shape,))
        shortcuts.learn(table, reshape, (self._geometry, shape), found, self._device)
    known.short = table.short


def _reshaped(shape: Geometry, sizes: Any, strides: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the table and the arguments of the operator that `reshape` calls for a view."""
    if shape.is_contiguous:
        return operators.view.table, (sizes,)
    return operators._reshape_alias.table, (sizes, strides)


jumps(reshape, lambda: (
    (operators.view, CPU_CALL, view), (operators._reshape_alias, CPU_CALL, _reshape_alias),
    (operators.clone, CPU_CALL, "copy.clone"), (operators._unsafe_view, CPU_CALL, _unsafe_view),
))  # fmt: skip


def with_sizes(made: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Return the new tensor `made` with other sizes. Autograd records the call, but not as a
    view."""
    return calls._unsafe_view(made, sizes)


def _unsafe_view(key_set: int, self: Tensor, size: Any) -> Tensor:
    made: Tensor = view(key_set, self, size)
    return made


def lift_fresh(key_set: int, self: Tensor) -> Tensor:
    return self


def flatten(key_set: int, self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    table = operators.flatten_using_ints.table
    sizes, ndim = self._geometry.sizes, self._geometry.ndim
    start = arguments.dim("flatten", start_dim, ndim, "start_dim")
    end = arguments.dim("flatten", end_dim, ndim, "end_dim")
    if start > end:
        raise errors.must("flatten", "start_dim", "not come after end_dim", (start_dim, end_dim))
    if ndim == 0:
        return calls.reshape(self, (1,))
    if start == end:
        return self
    merged = 1
    for n in sizes[start : end + 1]:
        merged *= n
    made = calls.reshape(self, (*sizes[:start], merged, *sizes[end + 1 :]))
    known = seen(self._geometry, ("flatten", start_dim, end_dim))
    if is_due(known, table):
        key = (self._geometry, start_dim, end_dim)
        shape = made._geometry
        as_view = _reshaped(self._geometry, shape.sizes, shape.strides)
        short_view.learn_of(table, flatten, key, known, self, made, as_view)
    return made


jumps(flatten, lambda: ((operators.reshape, CPU_CALL, reshape),))


def unflatten(key_set: int, self: Tensor, dim: int, sizes: Any) -> Tensor:
    shape = self._geometry
    number = arguments.dim("unflatten", dim, shape.ndim)
    sizes = arguments.ints("unflatten", "sizes", sizes)
    if not sizes:
        raise errors.must("unflatten", "sizes", "not be empty", sizes)
    if shape.ndim == 0:
        raise errors.must("unflatten", "self", "have a dimension", self)
    inner = infer_size("unflatten", sizes, shape.sizes[number])
    return calls.view(self, (*shape.sizes[:number], *inner, *shape.sizes[number + 1 :]))


def _view_dtype_rule(shape: Geometry, target: dtype) -> Geometry:
    """Return the geometry that results from reinterpreting the elements' bytes as another dtype.
    Source: aten/src/ATen/native/TensorConversions.cpp, view_dtype."""
    if not isinstance(target, dtype):
        raise errors.wrong_type("view", "dtype", "be a dtype", target)
    old, new = shape.dtype.itemsize, target.itemsize
    if old == new:
        return geometry(shape.sizes, shape.strides, target)
    if shape.ndim == 0:
        rule = "have a dimension where the item size changes"
        raise errors.must("view", "self", rule, errors.Got("0-d"))
    if old > new:
        ratio = old // new
        if shape.strides[-1] != 1:
            raise errors.must("view", "self", "have stride 1 in its last dimension", shape.strides)
        sizes = (*shape.sizes[:-1], shape.sizes[-1] * ratio)
        return geometry(sizes, (*(s * ratio for s in shape.strides[:-1]), 1), target)
    ratio = new // old
    if shape.strides[-1] != 1 or any(n % ratio for n in (shape.sizes[-1], *shape.strides[:-1])):
        raise errors.must(
            "view", "self", f"have a last dimension of stride 1 and size, other strides and offset "
                            f"divisible by {ratio}",
            errors.Got(f"size {shape.sizes}, stride {shape.strides}"),
        )  # fmt: skip
    sizes = (*shape.sizes[:-1], shape.sizes[-1] // ratio)
    return geometry(sizes, (*(s // ratio for s in shape.strides[:-1]), 1), target)


def view_dtype(key_set: int, self: Tensor, target: dtype) -> Tensor:
    wanted = self._geometry.views.get(("view_dtype", exact(target)))
    if wanted is None:
        wanted = remember(self._geometry, "view_dtype", (target,), _view_dtype_rule)
    offset_bytes = self._offset * self._geometry.dtype.itemsize
    if offset_bytes % target.itemsize:
        rule = f"begin at a multiple of {target.itemsize} bytes"
        raise errors.must("view", "self", rule, f"{offset_bytes} bytes")
    return view_of(self, wanted, offset_bytes // target.itemsize)


# --- order: permute, transpose, t, movedim ------------------------------------------------------


def _permute_rule(shape: Geometry, dims: Any) -> Geometry:
    order = arguments.ints("permute", "dims", dims)
    if shape.ndim:
        order = arguments.dims("permute", dims, shape.ndim, "dims")
    if len(order) != shape.ndim:
        raise errors.must("permute", "dims", f"name each of the {shape.ndim} dimensions", order)
    strides = tuple([shape.strides[d] for d in order])
    return like(shape, tuple([shape.sizes[d] for d in order]), strides)


permute: Kernel = view_kernel("permute", _permute_rule)


def _transpose_rule(shape: Geometry, dim0: Any, dim1: Any, op: str = "transpose") -> Geometry:
    a = arguments.dim(op, dim0, shape.ndim, "dim0")
    b = arguments.dim(op, dim1, shape.ndim, "dim1")
    sizes, strides = list(shape.sizes), list(shape.strides)
    if sizes:
        sizes[a], sizes[b] = sizes[b], sizes[a]
        strides[a], strides[b] = strides[b], strides[a]
    return like(shape, tuple(sizes), tuple(strides))


transpose: Kernel = view_kernel("transpose", _transpose_rule, "transpose_int")


def _t_rule(shape: Geometry) -> Geometry:
    if shape.ndim > 2:
        rule = "have at most 2 dimensions"
        raise errors.must("t", "self", rule, errors.Got(errors.describe_layout(shape)))
    return _transpose_rule(shape, 0, 1 if shape.ndim == 2 else 0, "t")


t: Kernel = view_kernel("t", _t_rule)


def mT(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.ndim:
        return calls.alias(self)
    if self._geometry.ndim < 2:
        raise errors.must("mT", "self", "have at least 2 dimensions", self)
    return calls.transpose_int(self, -2, -1)


def swapaxes(key_set: int, self: Tensor, axis0: int, axis1: int) -> Tensor:
    ndim = self._geometry.ndim
    first = arguments.dim("swapaxes", axis0, ndim, "axis0")
    second = arguments.dim("swapaxes", axis1, ndim, "axis1")
    return calls.transpose_int(self, first, second)


def swapaxes_(key_set: int, self: Tensor, axis0: int, axis1: int) -> Tensor:
    return calls.transpose_(self, axis0, axis1)


def adjoint(key_set: int, self: Tensor) -> Tensor:
    return calls.conj(mT(key_set, self))


def movedim(key_set: int, self: Tensor, source: Any, destination: Any) -> Tensor:
    ndim = self._geometry.ndim
    origins = arguments.dims("movedim", source, ndim, "source")
    targets = arguments.dims("movedim", destination, ndim, "destination")
    if len(origins) != len(targets):
        rule = f"have {len(origins)} entries, as source has"
        raise errors.must("movedim", "destination", rule, tuple(targets))
    if ndim == 0:
        return calls.alias(self)
    order = [-1] * ndim
    for origin, target in zip(origins, targets):
        order[target] = origin
    rest = iter([d for d in range(ndim) if d not in origins])
    dims = tuple([d if d >= 0 else next(rest) for d in order])
    made = calls.permute(self, dims)
    if type(source) is type(destination) is int:
        table, args = operators.movedim_int.table, (source, destination)
        known = seen(self._geometry, ("movedim", *args))
        if is_due(known, table):
            as_permute = (operators.permute.table, (dims,))
            key = (self._geometry, *args)
            short_view.learn_of(table, movedim, key, known, self, made, as_permute)
    return made


jumps(movedim, lambda: ((operators.permute, CPU_CALL, permute),))


# --- number of dimensions: squeeze, unsqueeze, expand -------------------------------------------


def _squeeze_rule(shape: Geometry) -> Geometry:
    return _squeeze_where(shape, range(shape.ndim))


def _squeeze_dim_rule(shape: Geometry, dim: Any) -> Geometry:
    return _squeeze_where(shape, (arguments.dim("squeeze", dim, shape.ndim),))


def _squeeze_dims_rule(shape: Geometry, dim: Any) -> Geometry:
    return _squeeze_where(shape, arguments.dims("squeeze", dim, shape.ndim))


def _squeeze_where(shape: Geometry, dims: Any) -> Geometry:
    kept = [d for d in range(shape.ndim) if shape.sizes[d] != 1 or d not in dims]
    strides = tuple([shape.strides[d] for d in kept])
    return like(shape, tuple([shape.sizes[d] for d in kept]), strides)


squeeze: Kernel = view_kernel("squeeze", _squeeze_rule)
squeeze_dim: Kernel = view_kernel("squeeze_dim", _squeeze_dim_rule)
squeeze_dims: Kernel = view_kernel("squeeze_dims", _squeeze_dims_rule)


def _unsqueeze_rule(shape: Geometry, dim: Any) -> Geometry:
    number = arguments.integer("unsqueeze", "dim", dim)
    if not -shape.ndim - 1 <= number <= shape.ndim:
        raise errors.dim_out_of_range("unsqueeze", number, shape.ndim + 1)
    number %= shape.ndim + 1
    stride = shape.sizes[number] * shape.strides[number] if number < shape.ndim else 1
    strides = (*shape.strides[:number], stride, *shape.strides[number:])
    return like(shape, (*shape.sizes[:number], 1, *shape.sizes[number:]), strides)


unsqueeze: Kernel = view_kernel("unsqueeze", _unsqueeze_rule)


def _expand_rule(shape: Geometry, size: Any, implicit: Any = False) -> Geometry:
    sizes = arguments.ints("expand", "size", size)
    extra = len(sizes) - shape.ndim
    if extra < 0:
        raise errors.must("expand", "size", f"have at least {shape.ndim} dimensions", sizes)
    out_sizes, strides = list(sizes), [0] * len(sizes)
    is_0d = not shape.ndim
    for d in range(len(sizes) - 1, -1, -1):
        old = shape.sizes[d - extra] if d >= extra else 1
        stride = shape.strides[d - extra] if d >= extra else 0
        wanted = sizes[d]
        if wanted == -1:
            if d < extra:
                rule = "give a number for each new leading dimension"
                raise errors.must("expand", "size", rule, sizes)
            wanted = old
        if wanted < 0:
            raise errors.must("expand", "size", "hold no negative number but -1", sizes)
        if d < extra and wanted != 1 or old != wanted:
            if old != 1:
                rule = f"match self's size {old} at dimension {d}"
                raise errors.must("expand", "size", rule, sizes)
            stride = 0
        elif d < extra and not is_0d:
            # An expanded 0-d tensor has stride 0 everywhere. Otherwise a new dimension gets the
            # stride that keeps the view dense. Source: ATen/ExpandUtils.cpp.
            stride = out_sizes[d + 1] * strides[d + 1] if d + 1 < len(sizes) else 1
        out_sizes[d], strides[d] = wanted, stride
    return like(shape, tuple(out_sizes), tuple(strides))


expand: Kernel = view_kernel("expand", _expand_rule)


def sum_to_size(key_set: int, self: Tensor, size: Any) -> Tensor:
    sizes, given = arguments.sizes("sum_to_size", size), self._geometry.sizes
    if broadcast_sizes(given, sizes) != given:
        raise errors.must("sum_to_size", "size", f"broadcast to {given}", sizes)
    extra = len(given) - len(sizes)
    dims = [d for d in range(len(given)) if d < extra or sizes[d - extra] == 1 != given[d]]
    found = calls.sum_dim_IntList(self, tuple(dims), True) if dims else self
    return calls.view(found, sizes) if extra else found


def atleast_1d(key_set: int, self: Tensor) -> Tensor:
    return self if self._geometry.ndim else calls.reshape(self, (1,))


def atleast_2d(key_set: int, self: Tensor) -> Tensor:
    if self._geometry.ndim > 1:
        return self
    return calls.unsqueeze(self, 0) if self._geometry.ndim else calls.reshape(self, (1, 1))


def atleast_3d(key_set: int, self: Tensor) -> Tensor:
    ndim = self._geometry.ndim
    if ndim > 2:
        return self
    flat = calls.unsqueeze(self, 0) if ndim == 1 else self
    return calls.unsqueeze(flat, -1) if ndim else calls.reshape(self, (1, 1, 1))


def _each(op: str, one: Kernel) -> Kernel:
    def kernel(key_set: int, tensors: Any) -> tuple[Tensor, ...]:
        return tuple([one(key_set, x) for x in tensors])

    kernel.__name__ = kernel.__qualname__ = op
    return kernel


atleast_1d_each: Kernel = _each("atleast_1d", atleast_1d)
atleast_2d_each: Kernel = _each("atleast_2d", atleast_2d)
atleast_3d_each: Kernel = _each("atleast_3d", atleast_3d)


def _alias_rule(shape: Geometry) -> Geometry:
    return shape


alias: Kernel = view_kernel("alias", _alias_rule)
detach: Kernel = view_kernel("detach", _alias_rule)


# --- in place -----------------------------------------------------------------------------------


def _inplace(rule: Callable[..., Geometry]) -> Kernel:
    """Make an in-place operator, which gives the tensor the geometry of the view."""

    def kernel(key_set: int, self: Tensor, *args: Any) -> Tensor:
        self._get_storage()
        self._geometry = rule(self._geometry, *args)
        self._array = None
        return self

    return kernel


squeeze_: Kernel = _inplace(_squeeze_rule)
squeeze_dim_: Kernel = _inplace(_squeeze_dim_rule)
squeeze_dims_: Kernel = _inplace(_squeeze_dims_rule)
unsqueeze_: Kernel = _inplace(_unsqueeze_rule)
transpose_: Kernel = _inplace(_transpose_rule)
t_: Kernel = _inplace(_t_rule)
