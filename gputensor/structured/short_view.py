"""Short cuts of views of plain tensors. See Note [Short cuts] in dispatch.

Each does in one frame what the kernel would do, and what ADInplaceOrView does for a view of what
has no history: the view knows what it is a view of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.geometry import Geometry
from ..dispatch import shortcuts
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.operator import Operator
from ..dispatch.shortcuts import Seen, ShortCut
from ..dispatch.tls import BELOW, PLAIN, state, unrecorded
from ..tensor import differentiable
from ..tensor.tensor import Tensor

_now = state.get
_new = object.__new__


def learn(operator: Operator, kernel: Callable[..., Any], key: Any, seen: Seen, self: Any) -> None:
    """Leave the short cut of a view that keeps the offset, for a geometry that was seen before."""
    leave(operator, kernel, key, seen, self, view(seen.value, self._keys))


def leave(
    operator: Operator, kernel: Callable[..., Any], key: Any, seen: Seen, self: Any, found: ShortCut
) -> None:
    """Leave a short cut, once for a table: of the device where the layout was seen again first."""
    place = self._device
    if self._keys is TENSOR_KEYS.get(place.type):
        shortcuts.learn(operator, kernel, key, found, place)
        seen.short = operator.table.short


def learn_of(
    operator: Operator, kernel: Callable[..., Any], key: Any, seen: Seen, self: Any, made: Any
) -> None:
    """The same of a composite that made a view, and another time may make a copy."""
    if type(made) is not Tensor:
        return
    is_view = made is not self and made._storage is self._storage
    if is_view and made._offset == self._offset:
        leave(operator, kernel, key, seen, self, view(made._geometry, self._keys))
    else:
        seen.short = operator.table.short


def _track(source: Any, made: Any) -> Any:
    """Note what a view is of where some thread records nothing, and this one may be it."""
    return differentiable.autograd.inplace_or_view.track_view(source, made)


def view(geometry: Geometry, keys: int) -> ShortCut:
    """self, of these keys -> a view that keeps the offset."""

    def short(self: Any) -> Any:
        now = _now()
        if self._keys is not keys:
            return None
        if now is BELOW:  # autograd is not told
            base = None
        elif now is not PLAIN:
            return None
        else:
            base = self._autograd
            if base is None:
                base = self
            elif type(base) is not Tensor or base._autograd is not None:
                return None
        storage = self._storage
        if storage is None:
            storage = self._get_storage()
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = keys
        tensor._device = self._device
        tensor._storage = storage
        tensor._offset = self._offset
        tensor._array = tensor._autograd = None
        if unrecorded and base is not None:
            return _track(self, tensor)
        tensor._autograd = base
        return tensor

    return short


def part(geometry: Geometry, last: int, size: int, stride: int, keys: int) -> ShortCut:
    """(self, index) -> what begins at an index of a dimension; negative ones count from its end."""

    def short(self: Any, index: Any) -> Any:
        if type(index) is not int:
            return None
        if index < 0:
            index += size
        if (
            not 0 <= index <= last or self._keys is not keys or _now() is not PLAIN
        ):  # fmt: skip
            return None
        base = self._autograd
        if base is None:
            base = self
        elif type(base) is not Tensor or base._autograd is not None:
            return None
        storage = self._storage
        if storage is None:
            storage = self._get_storage()
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = keys
        tensor._device = self._device
        tensor._storage = storage
        tensor._offset = self._offset + index * stride
        tensor._array = tensor._autograd = None
        if unrecorded:
            return _track(self, tensor)
        tensor._autograd = base
        return tensor

    return short


def stretch(shape: Geometry, dim: int, step: int, keys: int) -> ShortCut:
    """(self, start, end) -> a slice of a dimension; one of a length not seen goes the long way."""
    size, stride, known = shape.sizes[dim], shape.strides[dim], shape.views

    def short(self: Any, start: Any, end: Any) -> Any:
        if self._keys is not keys or _now() is not PLAIN:
            return None
        base = self._autograd
        if base is None:
            base = self
        elif type(base) is not Tensor or base._autograd is not None:
            return None
        if start is None:
            start = 0
        elif type(start) is not int:
            return None
        elif start < 0:
            start = start + size if start > -size else 0
        elif start > size:
            start = size
        if end is None:
            end = size
        elif type(end) is not int:
            return None
        else:
            if end < 0:
                end += size
            elif end > size:
                end = size
            if end < start:
                end = start
        seen = known.get(("slice", dim, (end - start + step - 1) // step, step))
        if seen is None:
            return None
        storage = self._storage
        if storage is None:
            storage = self._get_storage()
        tensor = _new(Tensor)
        tensor._geometry = seen.value
        tensor._keys = keys
        tensor._device = self._device
        tensor._storage = storage
        tensor._offset = self._offset + start * stride
        tensor._array = tensor._autograd = None
        if unrecorded:
            return _track(self, tensor)
        tensor._autograd = base
        return tensor

    return short
