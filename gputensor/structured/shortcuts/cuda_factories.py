"""Short cuts of factories on CUDA that write their result by one launch: see Note [Short cuts] in
dispatch.

A short cut is for the arguments of one call. It allocates memory and calls write(address).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import runtime
from ...core.geometry import Geometry
from ...dispatch import defaults, shortcuts
from ...dispatch.operator import Table
from ...dispatch.shortcuts import ShortCut
from ...dispatch.tls import PLAIN, state
from ...tensor.tensor import Tensor
from ..view_kernel import seen
from .cuda import CUDA_KEYS, allocating

Write = Callable[[int], Any]
_now = state.get


def learn(
    table: Table, kernel: Any, front: tuple[Any, ...], made: Tensor, place: Any,
    write: Callable[[], Write | None], unnamed: Any = None,
) -> None:  # fmt: skip
    """Store the short cuts of a factory, once a call is repeated.

    front: the arguments before the dtype. made: the call's result. place: the device argument.
    write: a function that returns the write, or None. unnamed: as in `factories.leave`.
    """
    shape, device = made._geometry, made._device
    if type(made) is not Tensor or place is None or not is_served(made):
        return
    known = seen(shape, (table.operator.name, place, front, *map(type, front)))
    if not shortcuts.is_due(known, table):
        return
    found = write()
    if found is not None:
        short = _made(shape, device, place is not device, found, front)
        element = shape.dtype
        is_unnamed = element is (unnamed or defaults.get_default_dtype())
        for given in (element, None) if is_unnamed else (element,):
            shortcuts.learn(table, kernel, (*front, given, place), short, device)
    known.short = table.short


def learn_like(
    table: Table, kernel: Any, self: Tensor, key: Any, made: Tensor,
    write: Callable[[], Write | None],
) -> None:  # fmt: skip
    """Store the short cut of a factory whose result has the layout of self, once a call is
    repeated. key: what finds the short cut."""
    shape, device = made._geometry, made._device
    if type(made) is not Tensor or self._device is not device or not is_served(made):
        return
    known = seen(self._geometry, (table.operator.name, device))
    if not shortcuts.is_due(known, table):
        return
    found = write()
    if found is not None:
        short = _like(maker(shape, device, found), device)
        shortcuts.learn(table, kernel, key, short, device)
    known.short = table.short


def is_served(made: Tensor) -> bool:
    """Return True if the result of a factory may be written by one launch on CUDA."""
    shape = made._geometry
    return made._device.type == "cuda" and shape.numel > 0 and not shape.dtype.is_opaque


def _made(
    shape: Geometry, device: Any, asks: bool, write: Write, kept: tuple[Any, ...]
) -> ShortCut:
    make, index, cuda = maker(shape, device, write), device.index, runtime.cuda()

    def short(*given: Any) -> Tensor | None:
        for x, y in zip(given, kept):
            if x is not y and not _is_same(x, y):
                return None
        if _now() is not PLAIN or asks and cuda.current_device() != index:
            return None
        return make()

    return short


def _is_same(x: Any, kept: Any) -> bool:
    """Return True if two arguments, which are equal as keys, also have the same type and sign. As
    keys, 1, 1.0 and True are equal, and so are 0.0 and -0.0."""
    kind = type(x)
    if kind is tuple:
        return type(kept) is tuple and all([type(n) is int for n in x])
    return kind is type(kept) and (kind is int or kind is float and x != 0)


def _like(make: Callable[[], Tensor], device: Any) -> ShortCut:
    def short(self: Any) -> Tensor | None:
        if self._keys is not CUDA_KEYS or self._device is not device or _now() is not PLAIN:
            return None
        return make()

    return short


def maker(shape: Geometry, device: Any, write: Write) -> Callable[[], Tensor]:
    """Return a function that makes a tensor and writes to its memory."""
    allocate = allocating(shape, device)

    def make() -> Tensor:
        tensor = allocate()
        write(tensor._storage._data.ptr)
        return tensor

    return make
