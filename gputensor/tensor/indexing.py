"""x[index] becomes view operators, and x[index] = value a copy_ or fill_ of such a view.

Basic indexing only: ints, slices, None, Ellipsis, a bool, 0-d integer and bool tensors, and tuples
of these. Lists, arrays and tensors with dimensions as indices are refused in one sentence.
Source of the semantics: aten/src/ATen/TensorIndexing.h, applySlicing.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from .._generated import calls, operators as _operators
from ..core import errors
from ..core.arguments import NUMBERS, number
from ..core.dtype import BOOL, INTEGER, uint8
from ..dispatch.refused_memory import is_read_only
from ..dispatch.tls import state as _state

if TYPE_CHECKING:
    from .tensor import Tensor

_BOUND = frozenset((int, type(None)))


def get(tensor: Tensor, index: Any) -> Tensor:
    """`tensor[index]`: a view, except that a negative step or a bool makes a copy.

    PyTorch refuses negative steps; here they flip, and strides stay positive (DESIGN decision 1).
    """
    kind = type(index)
    # The calls of select and slice, written out: q[1] is timed against PyTorch (bench/overhead.py).
    if kind is int:
        include, keep = _state.get()
        key_set = (tensor._keys | include) & keep
        view: Tensor = _operators.select_int.table[key_set](key_set, tensor, 0, index)
        return view
    if (
        kind is slice and index.step is None and type(index.start) in _BOUND
        and type(index.stop) in _BOUND and tensor._geometry.ndim
    ):  # fmt: skip
        include, keep = _state.get()
        key_set = (tensor._keys | include) & keep
        return _operators.slice_Tensor.table[key_set](
            key_set, tensor, 0, index.start, index.stop, 1
        )
    view, flipped, has_bool = _basic(tensor, index if kind is tuple else (index,))
    if flipped:
        return calls.flip(view, flipped)
    if has_bool:
        return calls.clone(view)
    return calls.alias(view) if view is tensor else view


def put(tensor: Tensor, index: Any, value: Any) -> None:
    """`tensor[index] = value`: a number fills, a tensor is broadcast, cast and copied.

    The tensor may be on another device, as in copy_. Leading dimensions of size 1 that the target
    does not have are dropped from it.
    """
    flipped: tuple[int, ...] = ()
    if type(index) is int:
        view = calls.select_int(tensor, 0, index)
    else:
        view, flipped, _ = _basic(tensor, index if type(index) is tuple else (index,))
    try:
        if type(value) in NUMBERS:
            calls.fill__Scalar(view, value)
        elif hasattr(value, "_geometry"):
            _copy(view, flipped, value)
        elif (plain := number(value)) is not None:  # a scalar of NumPy, an enum
            calls.fill__Scalar(view, plain)
        else:
            raise errors.cannot_assign(value)
    except ValueError as error:
        if not isinstance(error, errors.GpuTensorError) and is_read_only(view):
            raise errors.read_only("index", "self", tensor) from None
        raise


def _copy(view: Tensor, flipped: tuple[int, ...], value: Tensor) -> None:
    sizes = value._geometry.sizes
    extra = len(sizes) - view._geometry.ndim
    while extra > 0 and sizes[0] == 1:
        value = calls.select_int(value, 0, 0)
        sizes, extra = sizes[1:], extra - 1
    # The target was sliced forwards, so what goes there is turned instead.
    turned = tuple([d + extra for d in flipped if d + extra >= 0 and sizes[d + extra] > 1])
    if turned:
        value = calls.flip(value, turned)
    storage = view._storage
    is_repeated = value._geometry.numel < view._geometry.numel
    if is_repeated and storage is not None and storage.is_twin(value._storage):
        value = calls.clone(value)  # what is repeated is read after some of it was written
    calls.copy_(view, value, False)


def _basic(tensor: Tensor, index: tuple[Any, ...]) -> tuple[Any, tuple[int, ...], bool]:
    """The view that `index` names, its dimensions yet to be flipped, and if it has a bool."""
    index = tuple([_plain(i) for i in index])
    ndim = tensor._geometry.ndim
    specified = ellipses = bools = 0
    for i in index:
        kind = type(i)
        if kind is int or kind is slice:
            specified += 1
        elif kind is bool:
            bools += 1
        elif i is Ellipsis:
            ellipses += 1
    if bools > 1 or ellipses > 1:
        raise errors.unsupported_index(errors.Got(f"{max(bools, ellipses)} of one kind"))
    if specified > ndim:
        raise errors.too_many_indices(tensor, specified)
    view: Any = tensor
    dim, flipped = 0, []
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
        else:
            view = calls.unsqueeze(view, dim)
            if i is False:
                view = calls.slice_Tensor(view, dim, 0, 0, 1)
            dim += 1
    return view, tuple(flipped), bools > 0


def _plain(i: Any) -> Any:
    """An element of an index as int, slice, None, Ellipsis or bool."""
    kind = type(i)
    if kind in (int, slice, bool) or i is None or i is Ellipsis:
        return i
    geometry = getattr(i, "_geometry", None)
    if geometry is not None:
        # PyTorch reads a 0-d uint8 as a mask and NumPy as a number, so it is neither here.
        if geometry.ndim or geometry.dtype.category > INTEGER or geometry.dtype is uint8:
            raise errors.unsupported_index(i)
        number = calls.item(i)
        return bool(number) if geometry.dtype.category == BOOL else int(number)
    if isinstance(i, np.bool_):
        return bool(i)
    if isinstance(i, (str, bytes, np.ndarray)) and getattr(i, "ndim", True):
        raise errors.unsupported_index(i)
    try:
        return operator.index(i)
    except Exception:
        raise errors.unsupported_index(i) from None


def _bound(value: Any) -> int | None:
    """A bound of a slice; anything with __index__ may be one, a 0-d integer tensor for example."""
    if value is None or type(value) is int:
        return value
    try:
        return operator.index(value)
    except Exception:
        raise errors.wrong_type("index", "slice", "be made of ints", value) from None


def _slice(view: Any, dim: int, i: slice) -> tuple[Any, bool]:
    """The slice, and whether its elements are yet to be turned round."""
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
