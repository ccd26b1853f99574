"""Short cuts of element-by-element operators on the CPU. See Note [Short cuts] in dispatch.

Each is bound to one entry: what it needs of the plan is in its cells, and it does in one frame what
the public function, the kernels in between and the backend's kernel would do for plain tensors of
these geometries. These are the hottest functions of the project, so calls are written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import empty

from ..dispatch import shortcuts
from ..dispatch.operator import Operator
from ..dispatch.shortcuts import ShortCut
from ..dispatch.tls import PLAIN, state
from ..core.device import CPU
from ..kernels.cpu.quiet import again, enter
from ..tensor.make import ALIGNED_FROM_BYTES, CPU_KEYS
from ..tensor.tensor import Tensor

_now = state.get
_new = object.__new__


def learn(operator: Operator, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Leave the functional form's short cut for the operands that an entry was made of."""
    entry.is_fresh = False
    geometry = entry.geometry
    allocates = entry.numpy_allocates
    if not allocates and (
        entry.block or not geometry.numel or not geometry.is_contiguous
        or geometry.nbytes >= ALIGNED_FROM_BYTES
    ):  # fmt: skip
        return
    if type(key) is not tuple:
        make = _unary if allocates else _unary_into
    elif isinstance(key[1], type):
        make = _with_number if allocates else _with_number_into
    elif isinstance(key[0], type):
        return
    else:
        make = _binary if allocates else _binary_into
    shortcuts.learn(operator, kernel, key, make(entry.loop, geometry))


def learn_inplace(operator: Operator, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Leave the in-place form's."""
    entry.is_fresh = False
    if entry.block or not entry.geometry.numel:
        return
    if type(key) is not tuple:
        found = _unary_inplace(entry.loop)
    else:
        found = (_inplace_number if isinstance(key[1], type) else _inplace)(entry.loop)
    shortcuts.learn(operator, kernel, key, found)


def _is_plain(x: Tensor) -> bool:
    """Whether autograd has nothing to do for an operand that is read: it is no view, or one of a
    tensor that requires no gradient."""
    base = x._autograd
    return base is None or type(base) is Tensor and base._autograd is None


# --- functional -----------------------------------------------------------------------------------


def _unary(loop: Any, geometry: Any) -> ShortCut:
    def short(self: Any) -> Any:
        if (
            self._keys is not CPU_KEYS or self._autograd is not None and not _is_plain(self)
            or _now() is not PLAIN
        ):  # fmt: skip
            return None
        x = self._array
        if x is None:
            x = self._get_array()
        try:
            array = enter(loop, x)
        except RuntimeError as error:
            array = again(error, loop, x)
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array
        tensor._autograd = None
        return tensor

    return short


def _unary_into(loop: Any, geometry: Any) -> ShortCut:
    sizes, element = geometry.sizes, geometry.dtype.np

    def into(x: Any) -> Any:
        array = empty(sizes, element)
        loop(x, array)
        return array

    return _unary(into, geometry)


def _binary(loop: Any, geometry: Any) -> ShortCut:
    def short(self: Any, other: Any) -> Any:
        if (
            self._keys is not CPU_KEYS or other._keys is not CPU_KEYS
            or self._autograd is not None and not _is_plain(self)
            or other._autograd is not None and not _is_plain(other) or _now() is not PLAIN
        ):  # fmt: skip
            return None
        x = self._array
        if x is None:
            x = self._get_array()
        y = other._array
        if y is None:
            y = other._get_array()
        try:
            array = enter(loop, x, y)
        except RuntimeError as error:
            array = again(error, loop, x, y)
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array
        tensor._autograd = None
        return tensor

    return short


def _binary_into(loop: Any, geometry: Any) -> ShortCut:
    sizes, element = geometry.sizes, geometry.dtype.np

    def into(x: Any, y: Any) -> Any:
        array = empty(sizes, element)
        loop(x, y, array)
        return array

    return _binary(into, geometry)


def _with_number(loop: Any, geometry: Any) -> ShortCut:
    def short(self: Any, other: Any) -> Any:
        if (
            self._keys is not CPU_KEYS or self._autograd is not None and not _is_plain(self)
            or _now() is not PLAIN
        ):  # fmt: skip
            return None
        x = self._array
        if x is None:
            x = self._get_array()
        try:
            array = enter(loop, x, other)
        except RuntimeError as error:
            array = again(error, loop, x, other)
        except OverflowError:
            return None  # the way that is not short says which number is too large
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array
        tensor._autograd = None
        return tensor

    return short


def _with_number_into(loop: Any, geometry: Any) -> ShortCut:
    sizes, element = geometry.sizes, geometry.dtype.np

    def into(x: Any, number: Any) -> Any:
        array = empty(sizes, element)
        loop(x, number, array)
        return array

    return _with_number(into, geometry)


# --- in place -------------------------------------------------------------------------------------
# A view that is written to may be one of a tensor that has a history tomorrow: the long way.


def _unary_inplace(loop: Any) -> ShortCut:
    def short(self: Any) -> Any:
        if self._keys is not CPU_KEYS or self._autograd is not None or _now() is not PLAIN:
            return None
        storage = self._storage
        if storage is None:
            storage = self._get_storage()
        x = self._array
        if x is None:
            x = self._get_array()
        try:
            enter(loop, x, x)
        except RuntimeError as error:
            again(error, loop, x, x)
        storage.version += 1
        return self

    return short


def _inplace(loop: Any) -> ShortCut:
    def short(self: Any, other: Any) -> Any:
        if (
            self._keys is not CPU_KEYS or other._keys is not CPU_KEYS
            or self._autograd is not None
            or other._autograd is not None and not _is_plain(other) or _now() is not PLAIN
        ):  # fmt: skip
            return None
        storage, theirs = self._storage, other._storage
        if storage is None:
            storage = self._get_storage()
        if theirs is storage or storage.is_shared or theirs is not None and theirs.is_shared:
            return None  # they may share memory
        x = self._array
        if x is None:
            x = self._get_array()
        y = other._array
        if y is None:
            y = other._get_array()
        try:
            enter(loop, x, y, x)
        except RuntimeError as error:
            again(error, loop, x, y, x)
        storage.version += 1
        return self

    return short


def _inplace_number(loop: Any) -> ShortCut:
    def short(self: Any, other: Any) -> Any:
        if self._keys is not CPU_KEYS or self._autograd is not None or _now() is not PLAIN:
            return None
        storage = self._storage
        if storage is None:
            storage = self._get_storage()
        x = self._array
        if x is None:
            x = self._get_array()
        try:
            enter(loop, x, other, x)
        except RuntimeError as error:
            again(error, loop, x, other, x)
        except OverflowError:
            return None  # before anything was written: NumPy converts the number first
        storage.version += 1
        return self

    return short
