"""Short cuts of factories and of copies on the CPU. See Note [Short cuts] in dispatch.

They jump over the operators that a factory or a copy is composed of, so they look only at what
those would look at: the thread's state, the default device, and the operand's keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.device import CPU
from ..core.geometry import Geometry
from ..dispatch.backend_select import _default_devices
from ..dispatch.shortcuts import ShortCut
from ..dispatch.tls import PLAIN, state
from ..tensor.make import ALIGNED_FROM_BYTES, CPU_KEYS, allocate
from ..tensor.tensor import Tensor
from .short import _is_plain as is_plain

_now = state.get
_places = _default_devices.get
_new = object.__new__
_empty = np.empty


def is_small(geometry: Geometry) -> bool:
    """Whether NumPy allocates the memory of a tensor on the CPU."""
    return geometry.is_contiguous and geometry.nbytes < ALIGNED_FROM_BYTES


def filled(geometry: Geometry, made: Tensor) -> Callable[[], Any] | None:
    """What makes the array of a tensor like `made` again, all of whose elements are the same."""
    if not geometry.numel:
        return None
    sizes, element = geometry.sizes, geometry.dtype.np
    one = made._get_array().ravel()[0]

    def array() -> Any:
        found = _empty(sizes, element)
        found.fill(one)
        return found

    return array


def made_of_nothing(geometry: Geometry, array: Callable[[], Any], asks: bool) -> ShortCut:
    """() -> a tensor over what `array` makes. asks: for the default device, as none was named."""

    def short() -> Any:
        if _now() is not PLAIN or asks and _places()[-1] is not CPU:
            return None
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array()
        tensor._autograd = None
        return tensor

    return short


def empty(geometry: Geometry, asks: bool) -> ShortCut:
    """The same of uninitialised memory, with a frame less."""
    sizes, element = geometry.sizes, geometry.dtype.np

    def short() -> Any:
        if _now() is not PLAIN or asks and _places()[-1] is not CPU:
            return None
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = _empty(sizes, element)
        tensor._autograd = None
        return tensor

    return short


def empty_like(geometry: Geometry) -> ShortCut:
    """self -> an uninitialised tensor of a geometry. Autograd has nothing to say of it."""
    sizes, element = geometry.sizes, geometry.dtype.np
    if not is_small(geometry):

        def large(self: Any) -> Any:
            if self._keys is not CPU_KEYS or _now() is not PLAIN:
                return None
            return allocate(geometry, CPU)

        return large

    def short(self: Any) -> Any:
        if self._keys is not CPU_KEYS or _now() is not PLAIN:
            return None
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = _empty(sizes, element)
        tensor._autograd = None
        return tensor

    return short


def like(geometry: Geometry, array: Callable[[], Any]) -> ShortCut:
    """self -> a tensor over what `array` makes."""

    def short(self: Any) -> Any:
        if self._keys is not CPU_KEYS or _now() is not PLAIN:
            return None
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array()
        tensor._autograd = None
        return tensor

    return short


def copied(source: Any, geometry: Geometry) -> ShortCut | None:
    """self -> a copy of a geometry; None where NumPy lays out copies of `source`, self's array, in
    another way."""
    order: Any = "C" if geometry.is_contiguous else "K"
    if source.copy(order).strides != geometry.stride_bytes:
        return None

    def short(self: Any) -> Any:
        if (
            self._keys is not CPU_KEYS or self._autograd is not None and not is_plain(self)
            or _now() is not PLAIN
        ):  # fmt: skip
            return None
        x = self._array
        if x is None:
            x = self._get_array()
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = x.copy(order)
        tensor._autograd = None
        return tensor

    return short


def itself(self: Any) -> Any:
    """self -> self, of a conversion to what it is already."""
    return self if self._keys is CPU_KEYS and _now() is PLAIN else None


def copy_(self: Any, src: Any) -> Any:
    """A small copy between elements of one dtype; what is a view goes the long way."""
    if (
        self._keys is not CPU_KEYS or src._keys is not CPU_KEYS or self._autograd is not None
        or src._autograd is not None and not is_plain(src) or _now() is not PLAIN
    ):  # fmt: skip
        return None
    storage, theirs = self._storage, src._storage
    if storage is None:
        storage = self._get_storage()
    if theirs is storage or storage.is_shared or theirs is not None and theirs.is_shared:
        return None  # they may share memory
    x = self._array
    if x is None:
        x = self._get_array()
    y = src._array
    x[...] = src._get_array() if y is None else y
    storage.version += 1
    return self
