"""Operators that read elements by indices: x[i, j], gather, index_select, take, and operators that
are composed of these.

Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.dtype import bool_, int32, int64
from ..core.geometry import Geometry, Sizes, contiguous_geometry, geometry
from ..iterator.broadcast import broadcast_sizes
from ..iterator.config import Config
from ..iterator.plan import build
from ..kernels import stub
from ..dispatch import defaults, refusal, shortcuts
from ..structured import arguments, float8, forms
from ..structured.indexed import Places, index_dtype, is_mask, read
from ..structured.shortcuts import indexed as short
from ..tensor.make import CPU_KEYS, allocate, from_array
from ..tensor.tensor import Tensor
from .nonzero import nonzero
from .slicing import unbind
from .view import view_strides


out = forms.out_of_functional

_LAYOUT = Config(check_mem_overlap=False, check_all_same_dtype=False, arg_names=("self",))

# --- x[i, :, j] -----------------------------------------------------------------------------------


def expanded(op: str, self: Tensor, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the indices as int64 tensors on self's device. A mask is replaced by the indices of
    its True elements.

    Source: aten/src/ATen/native/IndexingUtils.h, expandTensors.
    """
    found: list[Tensor | None] = []
    for given in indices:
        if given is None:
            found.append(None)
            continue
        if not isinstance(given, Tensor):
            raise errors.wrong_type(op, "indices", "hold tensors and None", given)
        of = given._geometry
        if is_mask(given):
            if of.dtype is not bool_:
                refusal.warn(errors.byte_mask(given), stacklevel=5)
            _check_mask(op, self, given, len(found))
            columns = calls.nonzero(_moved(given, self))
            found += calls.unbind_int(columns, 1)
        elif of.dtype is int64 or of.dtype is int32:
            found.append(_moved(given if of.dtype is int64 else calls.to_dtype(given, int64), self))
        else:
            raise errors.wrong_index(op, "index", "be int64, int32, bool or uint8", given)
    if len(found) > self._geometry.ndim:
        raise errors.too_many_indices(self, len(found))
    return found


def _is_part(sizes: Sequence[int], wanted: Sequence[int]) -> bool:
    return all([own in (size, 0) for own, size in zip(sizes, wanted)])


def _check_mask(op: str, self: Tensor, mask: Tensor, dim: int) -> None:
    sizes, wanted = mask._geometry.sizes, self._geometry.sizes[dim : dim + mask._geometry.ndim]
    if sizes == wanted:
        return
    # In the array API, as in NumPy, a mask may have a dimension of size 0, which selects nothing.
    is_lenient = defaults.get_type_promotion() == "array_api" and len(sizes) == len(wanted)
    if not is_lenient or not _is_part(sizes, wanted):
        rule = f"have sizes {list(wanted)}, those of self from dimension {dim} on"
        raise errors.wrong_index(op, "mask", rule, mask)


def _moved(index: Tensor, self: Tensor) -> Tensor:
    """Return an index on self's device. Only an index on the CPU may be moved."""
    if index._device is self._device:
        return index
    if index._device.type != "cpu":
        raise errors.mixed_devices("index", self, "self", index, "indices")
    return calls.to_device(index, self._device, index._geometry.dtype, False, False, None)


def places(op: str, self: Tensor, indices: Sequence[Tensor | None]) -> Places:
    """Return the places that `self[indices]` selects. If the indexed dimensions are not adjacent,
    the dimensions of the indices move to the front."""
    found = expanded(op, self, indices)
    given = [(d, i) for d, i in enumerate(found) if i is not None]
    if not given:
        raise errors.wrong_index(op, "indices", "hold a tensor", errors.Got("none"))
    led = [d for d, _ in given]
    shape: Sizes = ()
    for _, i in given:
        common = broadcast_sizes(shape, i._geometry.sizes)
        if common is None:
            all_sizes = ", ".join(str(list(i._geometry.sizes)) for _, i in given)
            raise errors.wrong_index(op, "indices", "broadcast together", errors.Got(all_sizes))
        shape = common
    target, order = self, None
    if led[-1] - led[0] != len(led) - 1:
        order = (*led, *[d for d in range(self._geometry.ndim) if d not in led])
        target, led = calls.permute(self, order), list(range(len(led)))
    sizes = target._geometry.sizes
    for d in led:
        if sizes[d] == 0 and 0 not in shape:
            rule = f"be of a dimension with elements, which {d} is not"
            raise errors.wrong_index(op, "index", rule, self)
    walk = (*sizes[: led[0]], *shape, *sizes[led[-1] + 1 :])
    at = Places(op, target, walk, [i for _, i in given], led, led[0], wraps=True)
    at.order = order
    return at


def _layout_of(at: Places) -> Geometry:
    """Return the result's geometry, computed as PyTorch does: by an iterator over the tensor and
    the indices."""
    table = operators.index_Tensor.table
    key = (at.target._geometry, at.sizes, at.begin, *at.led, *[i._geometry for i in at.indices])
    found: Geometry = table.plans.get(key) or table.remember(key, _laid_out(at))
    return found


def _laid_out(at: Places) -> Geometry:
    of, place = at.target._geometry, at.target._device
    shape, begin = at.shape_of_indices, at.begin or 0
    before, after = (1,) * begin, (1,) * (len(at.sizes) - begin - len(shape))
    operands: list[Any] = [(geometry(at.sizes, at.strides(), of.dtype), place)]
    sizes = (*before, *shape, *after)
    # Strides of dimensions with size 0 or 1 are never used, so comparisons of layouts must ignore
    # them.
    is_plain = 0 not in at.sizes and 1 not in at.sizes
    for i in at.indices:
        over = at.index_strides(i._geometry)[begin : begin + len(shape)]
        strides = None
        if not is_plain:
            strides = view_strides(geometry(shape, over, int64), sizes)
        operands.append((geometry(sizes, strides or (*before, *over, *after), int64), place))
    plan = build(at.op, _LAYOUT, (None,), tuple(operands), default_dtype=None)
    return plan.outputs[0].geometry


def index_Tensor(key_set: int, self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    if self._geometry.dtype.is_float8:
        return float8.moved(index_Tensor, key_set, self, indices)
    if self._keys is CPU_KEYS:
        made = _of_mask(self, indices)
        if made is not None:
            return made
    table, place = operators.index_Tensor.table, self._device
    key: Any = (place, self._geometry, *[getattr(i, "_geometry", type(i)) for i in indices])
    known = table.plans.get(key)
    if known is not None and all([i is None or i._device is place for i in indices]):
        walk, led, layout = known
        given = [i for i in indices if i is not None]
        at = Places("index", self, walk, given, led, led[0], wraps=True)
        return read(at, allocate(layout, place))
    at = places("index", self, indices)
    layout = _layout_of(at)
    if at.target is self and all([i is None or i._geometry.dtype is int64 for i in indices]):
        table.remember(key, (at.sizes, at.led, layout))
    return read(at, allocate(layout, place))


def _of_mask(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor | None:
    """Return the elements that a single mask with self's sizes selects. Return None for other
    indices.

    The family nonzero does this in one step, unless users registered kernels for nonzero or
    indexing.
    """
    mask, of = indices[0] if len(indices) == 1 else None, self._geometry
    if mask is None or getattr(mask, "_keys", None) is not CPU_KEYS:
        return None
    given = mask._geometry
    if (
        given.dtype is not bool_ or given.sizes != of.sizes or not of.ndim
        or not shortcuts.is_plain_thread()
        or not shortcuts.comes_straight(operators.nonzero, nonzero)
        or not shortcuts.comes_straight(operators.unbind_int, unbind)
    ):  # fmt: skip
        return None
    found = stub.cpu("nonzero").selected(self._get_array(), mask._get_array())
    return from_array(found, contiguous_geometry(found.shape, of.dtype))


_unsafe_index_Tensor = index_Tensor


def clamped(self: Tensor, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the indices clamped to the valid range.

    Source: TensorAdvancedIndexing.cpp, _unsafe_masked_index.
    """
    found: list[Tensor | None] = []
    for i, size in zip(indices, self._geometry.sizes):
        if i is not None:
            index_dtype("_unsafe_masked_index", i, int64, int32, arg="indices")
            i = calls.where_self(calls.lt_Tensor(i, -size), -size, i)
            i = calls.where_self(calls.ge_Tensor(i, size), size - 1, i)
        found.append(i)
    return found


def _unsafe_masked_index(
    key_set: int, self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Any
) -> Tensor:
    """Return self[indices] where `mask` is true, and `fill` elsewhere. Where `mask` is false,
    indices may be out of range."""
    if self._geometry.numel == 0:  # The sizes are computed as in PyTorch.
        pairs = zip(indices, self._geometry.sizes)
        sizes = tuple([
            size if i is None or not i._geometry.numel else i._geometry.sizes[-1]
            for i, size in pairs
        ])  # fmt: skip
        return calls.new_full(self, sizes, fill, None, None, None, None)
    found = calls._unsafe_index_Tensor(self, clamped(self, indices))
    return calls.masked_fill_Scalar(found, calls.eq_Tensor(mask, False), fill)


# --- gather, index_select, take -------------------------------------------------------------------


def check_along(
    op: str, self: Tensor, dim: Any, index: Tensor, other: Tensor | None = None, arg: str = "src"
) -> int:
    """Check the operands of a gather or scatter and return the dimension. Raise if the index is
    larger than an operand."""
    d = arguments.dim(op, dim, self._geometry.ndim)
    arguments.check_device(op, "self", self, "index", index)
    # An empty index may have any dtype. Source: ScatterGatherChecks.h.
    if index._geometry.numel == 0:
        return d
    index_dtype(op, index)
    of, sizes = max(index._geometry.ndim, 1), index._geometry.sizes or (1,)
    for name, x, skipped in (("self", self, d), (arg, other, -1)):
        if x is None:
            continue
        if max(x._geometry.ndim, 1) != of:
            rule = f"have as many dimensions as {name}, {x._geometry.ndim}"
            raise errors.wrong_shape(op, "index", rule, index)
        for k, (n, most) in enumerate(zip(sizes, x._geometry.sizes or (1,))):
            if n > most and k != skipped:
                rule = f"be no longer than {name} at dimension {k}, {most}"
                raise errors.wrong_shape(op, "index", rule, index)
    return d


def as_int64(index: Tensor) -> Tensor:
    if index._geometry.dtype is int64:
        return index
    return calls.to_dtype(index, int64, False, False, None)


def with_dims(x: Tensor) -> Tensor:
    """Return x, or a 1-d view of it if it is 0-d."""
    return x if x._geometry.ndim else calls.view(x, (1,))


def along(op: str, self: Tensor, d: int, index: Tensor) -> Places:
    """Return the places that a gather or scatter accesses, one for each element of the index."""
    x, i = with_dims(self), with_dims(as_int64(index))
    return Places(op, x, i._geometry.sizes, [i], [d], None, wraps=False)


def gather(
    key_set: int, self: Tensor, dim: int, index: Tensor, sparse_grad: bool = False
) -> Tensor:
    table, d = operators.gather.table, check_along("gather", self, dim, index)
    sizes = index._geometry.sizes
    made = allocate(contiguous_geometry(sizes, self._geometry.dtype), self._device)
    if index._geometry.numel:
        at = along("gather", self, d, index)
        read(at, with_dims(made))
        short.learn_read(table, gather, (self, dim, index, sparse_grad), at, made)
    return made


def rows(op: str, self: Tensor, dim: Any, index: Tensor, *, wraps: bool = False) -> Places:
    """Return the places of the indexed slices along a dimension. A 0-d self counts as one slice."""
    index_dtype(op, index)
    if index._geometry.ndim > 1:
        raise errors.wrong_index(op, "index", "have at most one dimension", index)
    arguments.check_device(op, "self", self, "index", index)
    d = arguments.dim(op, dim, self._geometry.ndim)
    x, i = with_dims(self), with_dims(as_int64(index))
    sizes = x._geometry.sizes
    walk = (*sizes[:d], i._geometry.sizes[0], *sizes[d + 1 :])
    return Places(op, x, walk, [i], [d], d, wraps=wraps)


def index_select(key_set: int, self: Tensor, dim: int, index: Tensor) -> Tensor:
    if self._geometry.dtype.is_float8:
        return float8.moved(index_select, key_set, self, dim, index)
    table, at = operators.index_select.table, rows("index_select", self, dim, index)
    made = allocate(contiguous_geometry(at.sizes, self._geometry.dtype), self._device)
    read(at, made)
    if self._geometry.ndim:
        short.learn_read(table, index_select, (self, dim, index), at, made)
        return made
    if at.sizes != (1,):
        rule = "have one element where self has no dimensions"
        raise errors.wrong_index("index_select", "index", rule, index)
    return calls.view(made, ())


def flat_places(op: str, self: Tensor, index: Tensor) -> Places:
    """Return the places of elements that are given by row-major indices. self is reshaped to one
    dimension."""
    index_dtype(op, index, int64)
    arguments.check_device(op, "self", self, "index", index)
    if not self._geometry.numel and index._geometry.numel:
        raise errors.wrong_index(op, "index", "be empty where self is", index)
    x = calls.reshape(self, (self._geometry.numel,))
    return Places(op, x, index._geometry.sizes, [index], [0], 0, wraps=True)


def take(key_set: int, self: Tensor, index: Tensor) -> Tensor:
    table, at = operators.take.table, flat_places("take", self, index)
    layout = contiguous_geometry(index._geometry.sizes, self._geometry.dtype)
    made = read(at, allocate(layout, self._device))
    short.learn_read(table, take, (self, index), at, made)
    return made


def take_along_dim(key_set: int, self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    index_dtype("take_along_dim", indices, int64, arg="indices")
    if dim is None:
        return calls.gather(calls.reshape(self, (-1,)), 0, calls.reshape(indices, (-1,)), False)
    if self._geometry.ndim != indices._geometry.ndim:
        rule = f"have {self._geometry.ndim} dimensions, as self has"
        raise errors.wrong_shape("take_along_dim", "indices", rule, indices)
    d = arguments.dim("take_along_dim", dim, self._geometry.ndim)
    x, i = self._geometry.sizes, indices._geometry.sizes
    without = [(*sizes[:d], 1, *sizes[d + 1 :]) if sizes else () for sizes in (x, i)]
    common = broadcast_sizes(*without)
    if common is None:
        raise errors.not_broadcastable("take_along_dim", self, indices)
    n = x[d] if x else 1
    below = calls.lt_Tensor(indices, 0)  # Negative indices count from the end.
    indices = calls.where_self(below, calls.add_Tensor(indices, n), indices)
    if not common:
        return calls.gather(self, d, indices, False)
    sizes = [(*common[:d], s[d], *common[d + 1 :]) for s in (x, i)]
    source, at = calls.expand(self, sizes[0]), calls.expand(indices, sizes[1])
    return calls.gather(source, d, at, False)
