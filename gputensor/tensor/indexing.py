"""Indexing: x[index] calls view operators and `index`; x[index] = value calls copy_, fill_ or
index_put_.

Ints, slices, None and Ellipsis make a view. Bools, masks, tensors of integers, arrays, ranges and
lists then select elements of that view. Ints are applied before index tensors, as in PyTorch, so
`x[0, :, [1, 2]]` has the sizes of `x[0][:, [1, 2]]`. Source of the semantics:
aten/src/ATen/TensorIndexing.h, applySlicing.
"""

from __future__ import annotations

import operator
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .._generated import calls, operators as _operators
from ..core import errors
from ..core.arguments import NUMBERS, flag, number
from ..core.number_range import check
from ..core.device import CPU
from ..core.dtype import BOOL, INTEGER, bool_, int32, int64, uint8
from ..dispatch.keys import BATCHED
from ..dispatch.refusal import declares, refuse as _refuse
from ..dispatch.refused_memory import is_read_only
from ..dispatch.tls import state as _state

if TYPE_CHECKING:
    from .tensor import Tensor

_BOUND = frozenset((int, type(None)))


def get(tensor: Tensor, index: Any) -> Any:
    """Return `tensor[index]`. The result is a view, or a copy if the index has a negative step, a
    bool or an index tensor.

    PyTorch rejects negative steps; here they flip the elements, and strides stay positive (DESIGN
    decision 1).
    """
    try:
        kind = type(index)
        # The code of select and slice is inlined for speed: bench/host/overhead.py compares q[1]
        # with PyTorch.
        if kind is int:
            table = _operators.select_int.table
            short = table.short.get((tensor._geometry, 0))
            if short is not None and (made := short(tensor, index)) is not None:
                return made
            include, keep = _state.get()
            key_set = (tensor._keys | include) & keep
            return table[key_set](key_set, tensor, 0, index)
        if (
            kind is slice and index.step is None and type(index.start) in _BOUND
            and type(index.stop) in _BOUND and tensor._geometry.ndim
        ):  # fmt: skip
            table = _operators.slice_Tensor.table
            short = table.short.get((tensor._geometry, 0, 1))
            if short is not None and (made := short(tensor, index.start, index.stop)) is not None:
                return made
            include, keep = _state.get()
            key_set = (tensor._keys | include) & keep
            return table[key_set](key_set, tensor, 0, index.start, index.stop, 1)
        given = index if kind is tuple else _items(index)
        if _only_picks(tensor, given):
            return calls.index_Tensor(tensor, [*given])
        if (view := _parted(tensor, given)) is not None:
            return calls.alias(view) if view is tensor else view
        view, flipped, indices = _applied(tensor, given, picks_bools=True)
        if flipped:
            view = calls.flip(view, flipped)
        if indices:
            return calls.index_Tensor(view, indices)
        return calls.alias(view) if view is tensor else view
    except Exception as error:
        return _refuse(error, "index", get, {"tensor": tensor, "index": index})


def _items(index: Any) -> tuple[Any, ...]:
    """Return the items of an index.

    A list of fewer than 32 items is a tuple of items if one of them is a tensor, a sequence, a
    slice, Ellipsis or None. Any other list is one item. PyTorch announces that it will change this.
    Source: torch/csrc/autograd/python_variable_indexing.cpp, treatSequenceAsTuple.
    """
    if isinstance(index, tuple):
        return tuple(index)
    if not isinstance(index, list) or len(index) >= 32 or not any(map(_is_part, index)):
        return (index,)
    warnings.warn(
        "an index that is a list of tensors, sequences, slices, Ellipsis or None counts as a tuple;"
        " write x[tuple(index)], or x[gt.tensor(index)] for elements at these positions",
        UserWarning, stacklevel=3,
    )  # fmt: skip
    return tuple(index)


def _is_part(x: Any) -> bool:
    is_sequence = isinstance(x, (slice, list, tuple, range, np.ndarray))
    return is_sequence or x is None or x is Ellipsis or hasattr(x, "_geometry")


def _only_picks(tensor: Tensor, index: tuple[Any, ...]) -> bool:
    """True if the index consists of integer tensors only, or of one mask. The operator `index`
    accepts these without conversion: each tensor selects from the dimension at its position."""
    count, ndim = len(index), tensor._geometry.ndim
    for i in index:
        shape = getattr(i, "_geometry", None)
        if shape is None or not shape.ndim:
            return False
        if shape.dtype is bool_ and count == 1:
            count = shape.ndim
        elif shape.dtype not in _PICK:
            return False
    return 0 < count <= ndim


_PICK = frozenset((int64, int32))


def _parted(tensor: Tensor, index: tuple[Any, ...]) -> Any:
    """Return the view for a tuple of ints, slices, None and at most one Ellipsis, the most frequent
    case. Return None for other indices, which `_applied` handles."""
    view: Any = tensor
    dim, ndim, specified, is_cut = 0, tensor._geometry.ndim, len(index), False
    for i in index:
        kind = type(i)
        if i is None:
            specified -= 1
        elif i is Ellipsis:
            if is_cut:
                return None
            specified, is_cut = specified - 1, True
        elif kind is slice:
            if i.step is not None or type(i.start) not in _BOUND or type(i.stop) not in _BOUND:
                return None
        elif kind is not int:
            return None
    if specified > ndim:
        return None
    for i in index:
        kind = type(i)
        if kind is int:
            view = calls.select_int(view, dim, i)
        elif kind is slice:
            if i.start is not None or i.stop is not None:
                view = calls.slice_Tensor(view, dim, i.start, i.stop, 1)
            dim += 1
        elif i is None:
            view = calls.unsqueeze(view, dim)
            dim += 1
        else:
            dim += ndim - specified
    return view


def put(tensor: Tensor, index: Any, value: Any) -> None:
    """Implement `tensor[index] = value`. A number fills the indexed elements. A tensor is
    broadcast, cast and copied.

    The value may be on another device, as in copy_. If the value has more dimensions than the
    target, its leading dimensions of size 1 are removed.
    """
    flipped: tuple[int, ...] = ()
    indices: list[Any] = []
    view: Any = tensor
    try:
        if type(index) is int:
            view = calls.select_int(tensor, 0, index)
        else:
            given = index if type(index) is tuple else _items(index)
            if _only_picks(tensor, given):
                view, indices = tensor, [*given]
            elif (view := _parted(tensor, given)) is None:
                view, flipped, indices = _applied(tensor, given)
        if indices:
            _put(view, flipped, indices, value)
        elif type(value) in NUMBERS:
            calls.fill__Scalar(view, value)
        elif hasattr(value, "_geometry"):
            _copy(view, flipped, value)
        elif (plain := number(value)) is not None:  # for example a NumPy scalar or an enum
            calls.fill__Scalar(view, plain)
        else:
            raise errors.cannot_assign(value)
    except Exception as error:
        is_ours = isinstance(error, errors.GpuTensorError)
        if not is_ours and isinstance(error, ValueError) and is_read_only(view):
            raise errors.read_only("index", "self", tensor) from None
        _refuse(error, "index_put_", put, {"tensor": tensor, "index": index, "value": value})


# These functions are methods of Tensor, so programs and `__torch_function__` must get the methods'
# names.
get.__name__, put.__name__ = "__getitem__", "__setitem__"


@declares()
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Return the indices of nonzero elements, one row per element, in row-major order.

    as_tuple: instead return one tensor of indices for each dimension, in the form that `input[...]`
    takes.
    """
    if flag("nonzero", "as_tuple", as_tuple):
        if out is not None:
            raise errors.no_out("nonzero")
        return tuple(calls.nonzero_numpy(input))
    return calls.nonzero(input) if out is None else calls.nonzero_out(input, out)


def _copy(view: Tensor, flipped: tuple[int, ...], value: Tensor) -> None:
    sizes = value._geometry.sizes
    extra = len(sizes) - view._geometry.ndim
    while extra > 0 and sizes[0] == 1:
        value = calls.select_int(value, 0, 0)
        sizes, extra = sizes[1:], extra - 1
    # The view of the target has a positive step even if the given step is negative. In this case,
    # flip the value.
    turned = tuple([d + extra for d in flipped if d + extra >= 0 and sizes[d + extra] > 1])
    if turned:
        value = calls.flip(value, turned)
    storage = view._storage
    is_repeated = value._geometry.numel < view._geometry.numel
    if is_repeated and storage is not None and storage.is_twin(value._storage):
        # Copy the value if it shares memory with the target: its elements could be overwritten
        # before they are read.
        value = calls.clone(value)
    calls.copy_(view, value, False)


def _put(view: Tensor, flipped: tuple[int, ...], indices: list[Any], value: Any) -> None:
    """Write to indexed elements. If the index is one mask and the value is one number, masked_fill_
    writes the number."""
    if not hasattr(value, "_geometry"):
        plain = value if type(value) in NUMBERS else number(value)
        if plain is None:
            raise errors.cannot_assign(value)
        mask = _one_mask(view, indices)
        if mask is not None:
            calls.masked_fill__Scalar(view, mask, plain)
            return
        check("index", "value", plain, view._geometry.dtype)
        value = calls.scalar_tensor(plain, view._geometry.dtype, None, view._device, None)
    else:
        value = calls.to_dtype(value, view._geometry.dtype, False, False, None)
    sizes = value._geometry.sizes
    if not sizes:
        calls.index_put_(view, indices, value, False)
        return
    ndim, places = _picked(view, indices)
    extra = len(sizes) - ndim
    while extra > 0 and sizes[0] == 1:
        value = calls.select_int(value, 0, 0)
        sizes, extra = sizes[1:], extra - 1
    turned = tuple([
        places[d] + extra for d in flipped
        if places[d] is not None and places[d] + extra >= 0 and sizes[places[d] + extra] > 1
    ])  # fmt: skip
    calls.index_put_(view, indices, calls.flip(value, turned) if turned else value, False)


def _one_mask(view: Tensor, indices: list[Any]) -> Any:
    """Return the mask if it is the only index and its sizes equal the view's sizes at its position.
    The result is viewed such that it broadcasts to the view. Otherwise return None."""
    given = [i for i in indices if i is not None]
    mask, before = given[0], len(indices) - 1
    if len(given) > 1 or mask._geometry.dtype is not bool_:
        return None
    sizes = mask._geometry.sizes
    after = view._geometry.ndim - before - len(sizes)
    if view._geometry.sizes[before : before + len(sizes)] != sizes or not sizes:
        return None
    if mask._device is not view._device and mask._device.type == "cpu":
        mask = calls.to_device(mask, view._device, bool_, False, False, None)
    return calls.view(mask, (*sizes, *(1,) * after)) if after else mask


def _is_mask(index: Any) -> bool:
    return index._geometry.dtype is bool_ or index._geometry.dtype is uint8


def _picked(view: Tensor, indices: list[Any]) -> tuple[int, list[Any]]:
    """Return the number of dimensions of view[indices]. Also return, for each dimension of the
    view, its position in view[indices], or None if it was indexed.
    """
    led: list[int] = []
    shape, at = 0, 0
    for i in indices:
        taken = 1 if i is None or not _is_mask(i) else i._geometry.ndim
        if i is not None:
            led += range(at, at + taken)
            shape = max(shape, 1 if _is_mask(i) else i._geometry.ndim)
        at += taken
    begin = led[0] if led and led[-1] - led[0] == len(led) - 1 else 0
    kept = [d for d in range(view._geometry.ndim) if d not in led]
    found: list[Any] = [None] * view._geometry.ndim
    for number_, d in enumerate(kept):
        found[d] = number_ if number_ < begin else number_ + shape
    return len(kept) + shape, found


def _applied(
    tensor: Tensor, index: tuple[Any, ...], *, picks_bools: bool = False
) -> tuple[Any, tuple[int, ...], list[Any]]:
    """Apply the basic part of an index. Return the view, the dimensions of the view that must be
    flipped, and the index tensor (or None) of each dimension.

    picks_bools: treat every bool as an index tensor, for PyTorch's layout of the result. Otherwise
    a single bool gives a view.
    """
    index = tuple([_plain(i) for i in index])
    ndim = tensor._geometry.ndim
    specified = ellipses = bools = tensors = 0
    for i in index:
        kind = type(i)
        if kind is int or kind is slice:
            specified += 1
        elif kind is bool:
            bools += 1
        elif i is Ellipsis:
            ellipses += 1
        elif i is not None:
            tensors += 1
            specified += i._geometry.ndim if _is_mask(i) else 1
    if ellipses > 1:
        raise errors.unsupported_index(errors.Got(f"{ellipses} of them"))
    if specified > ndim:
        raise errors.too_many_indices(tensor, specified)
    view: Any = tensor
    dim, flipped = 0, []
    picking: dict[int, Any] = {}
    for i in index:
        kind = type(i)
        if kind is int:
            view = calls.select_int(view, dim, i)
        elif kind is slice:
            view, is_flipped = _slice(view, dim, i)
            if is_flipped:
                flipped.append(dim)
            dim += 1
        elif i is Ellipsis:
            dim += ndim - specified
        elif i is None or kind is bool:
            view = calls.unsqueeze(view, dim)
            if kind is bool and (picks_bools or tensors or bools > 1):
                picking[dim] = _tensor(np.zeros(int(i), np.int64))
            elif i is False:
                view = calls.slice_Tensor(view, dim, 0, 0, 1)
            dim += 1
        else:
            picking[dim] = i
            dim += i._geometry.ndim if _is_mask(i) else 1
    return view, tuple(flipped), _in_order(picking)


def _in_order(picking: dict[int, Any]) -> list[Any]:
    """Return the list of index tensors that the operator `index` takes. It contains None for each
    dimension without an index tensor.

    A mask of several dimensions is one entry of the list.
    """
    found: list[Any] = []
    at = 0
    for dim in sorted(picking):
        found += [None] * (dim - at)
        found.append(picking[dim])
        at = dim + (picking[dim]._geometry.ndim if _is_mask(picking[dim]) else 1)
    return found


def _plain(i: Any) -> Any:
    """Convert an item of an index to an int, slice, None, Ellipsis, bool or index tensor."""
    kind = type(i)
    if kind in (int, slice, bool) or i is None or i is Ellipsis:
        return i
    geometry = getattr(i, "_geometry", None)
    if geometry is not None:
        if geometry.dtype.category > INTEGER:
            raise errors.unsupported_index(i)
        if geometry.ndim or i._keys & BATCHED and geometry.dtype.category == INTEGER:
            return i
        number = calls.item(i)
        is_bool = geometry.dtype.category == BOOL or geometry.dtype is uint8
        return bool(number) if is_bool else int(number)
    if isinstance(i, np.bool_):
        return bool(i)
    if isinstance(i, (list, tuple, range, np.ndarray)):
        return _plain_array(i)
    if isinstance(i, (str, bytes)):
        raise errors.unsupported_index(i)
    try:
        return operator.index(i)
    except Exception:
        raise errors.unsupported_index(i) from None


def _plain_array(i: Any) -> Any:
    """Convert a list, range or array to a tensor of int64 or bool. Convert a 0-d array to an int or
    bool."""
    try:
        array = np.asarray(_numbers(i))
    except Exception:  # the lists have different lengths, or contain objects other than numbers
        raise errors.unsupported_index(i) from None
    if array.size == 0 and not isinstance(i, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise errors.unsupported_index(i)
    if not array.ndim:
        return bool(array) if array.dtype.kind == "b" else int(array)
    return _tensor(array if array.dtype.kind == "b" else array.astype(np.int64))


def _numbers(i: Any) -> Any:
    """Convert the tensors in nested lists to numbers."""
    if isinstance(i, (list, tuple)):
        return [_numbers(x) for x in i]
    return i.tolist() if hasattr(i, "_geometry") else i


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    of = bool_ if array.dtype.kind == "b" else int64
    made = calls.empty_memory_format(array.shape, of, None, CPU, None, None)
    made._get_array()[...] = array
    return made


def _bound(value: Any) -> int | None:
    """Return a bound of a slice. Any object with `__index__` is accepted, such as a 0-d integer
    tensor."""
    if value is None or type(value) is int:
        return value
    try:
        return operator.index(value)
    except Exception:
        raise errors.wrong_type("index", "slice", "be made of ints", value) from None


def _slice(view: Any, dim: int, i: slice) -> tuple[Any, bool]:
    """Return the view of a slice with a positive step. Also return True if the view must be
    flipped, because the given step is negative."""
    start, stop = _bound(i.start), _bound(i.stop)
    step = 1 if i.step is None else _bound(i.step)
    assert step is not None
    if step == 0:
        raise errors.wrong_value("index", "step", "not be zero", step)
    if start is None and stop is None and step == 1:
        return view, False
    if step > 0:
        return calls.slice_Tensor(view, dim, start, stop, step), False
    numbers = range(*slice(start, stop, step).indices(view._geometry.sizes[dim]))
    if not numbers:
        return calls.slice_Tensor(view, dim, 0, 0, 1), False
    return calls.slice_Tensor(view, dim, numbers[-1], numbers[0] + 1, -step), True
