"""Short cuts of views of plain tensors: see Note [Short cuts] in dispatch.

For a tensor without autograd history, a short cut does in one frame the work of the kernel and of
ADInplaceOrView, which includes setting the view's base. A separate function records views of
tensors with a history. Views of parts have one such function for each offset. The forms are in
structured/_generated/short_forms.py.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from .._generated.short_forms import VIEWS, part, recorded, stretch, view as _view, view_n
from ...core.arguments import are_equal
from ...dispatch import shortcuts
from ...dispatch.backend_select import TENSOR_KEYS
from ...dispatch.operator import Table
from ...dispatch.shortcuts import LONG, Seen, ShortCut
from ...dispatch.tls import PLAIN, state
from ...tensor import differentiable
from ...tensor.make import is_plain, view_of
from ...tensor.tensor import Tensor
from .computed import comes_again, store

__all__ = ["learn", "learn_list", "learn_of", "leave", "narrowed", "selected", "sliced", "view"]

_now = state.get

# At most this number of offsets is cached per layout, or stored for a list of views. A full cache
# is cleared.
_PLACES = 1 << 8


def view(
    table: Table, geometry: Any, keys: int, given: tuple[Any, ...], recorded_as: Any = None
) -> ShortCut:
    """Make the short cut of a view that keeps the offset. given: the arguments after self.
    recorded_as: for a composite operator, the pair (table, arguments after self) of the operator
    that autograd records."""
    to, args = recorded_as or (table, given)
    around = shortcuts.recording(to, args, _place(keys)) or (_only_plain, None)
    known = recorded(geometry, keys, around, 0)
    sizes = next((x for x in given if type(x) is tuple), None)
    if sizes is None:
        return _view(geometry, keys, known)
    if not 0 < len(sizes) <= len(VIEWS):
        return view_n(geometry, keys, known)
    return VIEWS[len(sizes) - 1](geometry, keys, known, sizes)


def selected(table: Table, dim: int, part_of: tuple[Any, int, int], keys: int) -> Any:
    """Make the short cut of a view at one index. part_of: the view's geometry, and the size and
    stride of the indexed dimension."""
    geometry, size, stride = part_of
    return part(geometry, size - 1, size, stride, keys, _recorder(table, keys, (dim,), ()))


def sliced(table: Table, shape: Any, dim: int, given: int, step: int, keys: int) -> ShortCut:
    """Make the short cut of a slice. given: the dimension as it was passed, perhaps counted from
    the end."""
    return stretch(shape, dim, step, keys, _recorder(table, keys, (given,), (step,)))


def narrowed(geometry: Any, last: int, size: int, stride: int, keys: int) -> ShortCut:
    """Make the short cut of `select` with several indices. Tensors with a history use the full
    dispatch."""
    return part(geometry, last, size, stride, keys, _only_plain_part)


def _recorder(table: Table, keys: int, before: tuple[Any, ...], behind: tuple[Any, ...]) -> Any:
    """Return a function (self, geometry, by, *given) for tensors with a history. It makes a view of
    a part of `self` and records the view. `given` determines the view's offset. The node keeps the
    arguments (*before, *given, *behind)."""
    places, place = dict[Any, ShortCut](), _place(keys)

    def record(self: Any, geometry: Any, by: int, *given: Any) -> Any:
        found = places.get(given)
        if found is None:
            if len(places) >= _PLACES:
                places.clear()
            args = (*before, *given, *behind)
            around = shortcuts.recording(table, args, place) or (_only_plain, None)
            found = places[given] = recorded(geometry, keys, around, by)
        return found(self)

    return record


def _place(keys: int) -> str:
    """Return the device type of tensors with these keys."""
    return "cuda" if keys is TENSOR_KEYS["cuda"] else "cpu"


def learn_list(table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], made: Any) -> None:
    """Store the short cut of an operator that returns a list of views of `self`, once the call is
    repeated. Tensors with a history use the full dispatch. args: all arguments, self first."""
    self, *params = args
    keys, place = TENSOR_KEYS.get(self._device.type), self._device
    if self._keys is not keys or not 0 < len(made) <= _PLACES:
        return
    if not all([type(x) is Tensor for x in made]):
        return
    if not comes_again(table, kernel, args, place):
        return
    parts = [(x._geometry, x._offset - self._offset) for x in made]

    def make(otherwise: ShortCut) -> ShortCut:
        def short(self: Any, *given: Any) -> Any:
            if not all(map(is_, given, params)) and not are_equal(given, tuple(params)):
                return otherwise(self, *given)
            if self._keys is not keys or _now() is not PLAIN:
                return None
            if self._autograd is not None and not is_plain(self):
                return None
            begin = self._offset
            views = tuple([view_of(self, geometry, begin + by) for geometry, by in parts])
            # All views have one base, so the record of the first one serves them all.
            differentiable.autograd.inplace_or_view.track_views(self, views[:1])
            recorded = views[0]._autograd
            for x in views:
                x._autograd = recorded
            return views

        return short

    store(table, kernel, self._geometry, make, place)


def _only_plain_part(*given: Any) -> None:
    return None


def _only_plain(self: Any) -> Any:
    return LONG


def learn(table: Table, kernel: Callable[..., Any], key: Any, seen: Seen, self: Any) -> None:
    """Store the short cut of a view that keeps the offset, for a geometry that was seen before."""
    keys = TENSOR_KEYS.get(self._device.type)
    if keys is None or self._keys is not keys:
        return
    given = key[1:] if type(key) is tuple else ()
    leave(table, kernel, key, seen, self, view(table, seen.value, keys, given))


def leave(
    table: Table, kernel: Callable[..., Any], key: Any, seen: Seen, self: Any, found: ShortCut
) -> None:
    """Store a short cut for the tensor's device only. This device is the first one on which a call
    with this layout was repeated."""
    place = self._device
    if self._keys is TENSOR_KEYS.get(place.type):
        shortcuts.learn(table, kernel, key, found, place)
        seen.short = table.short


def learn_of(
    table: Table, kernel: Callable[..., Any], key: Any, seen: Seen, self: Any, made: Any,
    recorded_as: Any = None,
) -> None:  # fmt: skip
    """Store a short cut of a composite operator such as `reshape`, which made a view in this call
    and may make a copy in another call.
    """
    if type(made) is not Tensor:
        return
    is_view = made is not self and made._storage is self._storage
    if is_view and made._offset == self._offset:
        found = view(table, made._geometry, self._keys, (), recorded_as)
        leave(table, kernel, key, seen, self, found)
    else:
        seen.short = table.short
