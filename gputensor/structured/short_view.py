"""When views of plain tensors leave a short cut. See Note [Short cuts] in dispatch.

Each does in one frame what the kernel would do, and what ADInplaceOrView does for a view of what
has no history: the view knows what it is a view of. What has one is recorded by a function beside
it, where the offset is kept; parts of it go the long way. The forms are of
_generated/short_forms.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._generated.short_forms import VIEWS, part, recorded, stretch, view as _view, view_n
from ..dispatch import shortcuts
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.operator import Table
from ..dispatch.shortcuts import LONG, Seen, ShortCut
from ..tensor.tensor import Tensor

__all__ = ["learn", "learn_of", "leave", "part", "stretch", "view"]


def view(table: Table, geometry: Any, keys: int, given: tuple[Any, ...]) -> ShortCut:
    """A view that keeps the offset. given: what its calls have behind self."""
    around = shortcuts.recording(table, given) or (_only_plain, None)
    known = recorded(geometry, keys, around)
    sizes = next((x for x in given if type(x) is tuple), None)
    if sizes is None:
        return _view(geometry, keys, known)
    if not 0 < len(sizes) <= len(VIEWS):
        return view_n(geometry, keys, known)
    return VIEWS[len(sizes) - 1](geometry, keys, known, sizes)


def _only_plain(self: Any) -> Any:
    return LONG


def learn(table: Table, kernel: Callable[..., Any], key: Any, seen: Seen, self: Any) -> None:
    """Leave the short cut of a view that keeps the offset, for a geometry that was seen before."""
    keys = TENSOR_KEYS.get(self._device.type)
    if keys is None or self._keys is not keys:
        return
    given = key[1:] if type(key) is tuple else ()
    leave(table, kernel, key, seen, self, view(table, seen.value, keys, given))


def leave(
    table: Table, kernel: Callable[..., Any], key: Any, seen: Seen, self: Any, found: ShortCut
) -> None:
    """Leave a short cut, once for a table: of the device where the layout was seen again first."""
    place = self._device
    if self._keys is TENSOR_KEYS.get(place.type):
        shortcuts.learn(table, kernel, key, found, place)
        seen.short = table.short


def learn_of(
    table: Table, kernel: Callable[..., Any], key: Any, seen: Seen, self: Any, made: Any
) -> None:
    """The same of a composite that made a view, and another time may make a copy."""
    if type(made) is not Tensor:
        return
    is_view = made is not self and made._storage is self._storage
    if is_view and made._offset == self._offset:
        leave(table, kernel, key, seen, self, view(table, made._geometry, self._keys, ()))
    else:
        seen.short = table.short
