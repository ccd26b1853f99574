"""Short cuts of element-by-element operators on CUDA. See Note [Short cuts] in dispatch.

Each is bound to one entry and one device, as those of the CPU are (short.py): memory from the
allocator, the parameters packed behind the addresses, the launch. Operands that do not begin at a
multiple of 16 bytes go the long way, where other kernels may serve them. What the runtime asks at a
launch it asks here too: the current device, the stream, what CUDA was chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import runtime
from ..dispatch import shortcuts
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.operator import Operator
from ..dispatch.shortcuts import ShortCut
from ..dispatch.tls import PLAIN, state
from ..kernels.cuda.launch import straight
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor
from .short import _is_kept as is_kept, _is_plain

CUDA_KEYS = TENSOR_KEYS["cuda"]

_now = state.get
_new = object.__new__


def learn(operator: Operator, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Leave the functional form's short cut for the operands that an entry was made of.

    key: (geometry, device, low bits[, geometry, low bits]), or the type of a number for the last
    two.
    """
    found = _short_key(entry, key)
    if found is not None:
        if len(key) == 3:
            made = _unary(key[0], key[1], entry.geometry, entry.launch)
        else:
            made = (_with_number if len(key) == 4 else _binary)(entry, key)
        shortcuts.learn(operator, kernel, found, made, key[1])


def learn_reduction(
    operator: Operator, kernel: Callable[..., Any], args: tuple[Any, ...], geometry: Any,
    launch: Any,
) -> None:  # fmt: skip
    """Leave a reduction's, for these dimensions and this dtype."""
    x, *params = args
    shape, device = x._geometry, x._device
    if geometry.numel and len(params) <= 3 and all(map(is_kept, params)):
        found = _unary(shape, device, geometry, launch, any_address=True, params=tuple(params))
        shortcuts.learn(operator, kernel, shape, found, device)


def learn_inplace(operator: Operator, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Leave the in-place form's."""
    found = _short_key(entry, key)
    if found is not None:
        make = _inplace_number if len(key) == 4 else _inplace
        shortcuts.learn(operator, kernel, found, make(entry, key), key[1])


def _short_key(entry: Any, key: Any) -> Any:
    """What public functions look for; None where there is no short cut."""
    entry.is_fresh = False
    shape, device, low, *other = key
    if device.type != "cuda" or low or other[1:] not in ([], [0]) or not entry.geometry.numel:
        return None
    return (shape, other[0]) if other else shape


def empty(geometry: Any, place: Any, asks: bool) -> ShortCut:
    """() -> uninitialised memory on a device. asks: whether that is current, as none was named."""
    index, nbytes = place.index, geometry.extent * geometry.dtype.itemsize
    cuda: Any = runtime.cuda()

    def short() -> Any:
        if _now() is not PLAIN or asks and cuda.current_device() != index:
            return None
        memory = cuda.allocate(nbytes, index)
        storage = _new(Storage)
        storage._data = memory
        storage._array = None
        storage.nbytes = nbytes
        storage.device = place
        storage.version = 0
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CUDA_KEYS
        tensor._device = place
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = None
        tensor._autograd = None
        return tensor

    return short


def copied(shape: Any, device: Any, geometry: Any, launch: Any) -> ShortCut:
    """self -> a copy of a geometry, by a launch that looks at the addresses itself."""
    return _unary(shape, device, geometry, launch, any_address=True)


def _unary(
    shape: Any, device: Any, geometry: Any, launch: Any, any_address: bool = False,
    params: tuple[Any, ...] = (),
) -> ShortCut:  # fmt: skip
    """Of one operand, with the params that the launch was made of."""
    index, nbytes = device.index, geometry.extent * geometry.dtype.itemsize
    cuda: Any = runtime.cuda()
    itemsize, low_bits = shape.dtype.itemsize, 0 if any_address else 15
    run, head, tail = straight(launch, index)
    a0, b0, c0 = (*params, None, None, None)[:3]

    def short(self: Any, a: Any = None, b: Any = None, c: Any = None) -> Any:
        if a is not a0 and (type(a) is not tuple or a != a0) or b is not b0 or c is not c0:
            return None
        if (
            self._keys is not CUDA_KEYS or self._device is not device
            or self._autograd is not None and not _is_plain(self) or _now() is not PLAIN
        ):  # fmt: skip
            return None
        x = self._storage._data.ptr + self._offset * itemsize
        if x & low_bits:
            return None
        memory = cuda.allocate(nbytes, index)
        run(head(memory.ptr, x) + tail)
        storage = _new(Storage)
        storage._data = memory
        storage._array = None
        storage.nbytes = nbytes
        storage.device = device
        storage.version = 0
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CUDA_KEYS
        tensor._device = device
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = None
        tensor._autograd = None
        return tensor

    return short


def _binary(entry: Any, key: Any) -> ShortCut:
    device, geometry = key[1], entry.geometry
    index, nbytes = device.index, geometry.extent * geometry.dtype.itemsize
    cuda: Any = runtime.cuda()
    size_x, size_y = key[0].dtype.itemsize, key[3].dtype.itemsize
    run, head, tail = straight(entry.launch, index)

    def short(self: Any, other: Any) -> Any:
        if (
            self._keys is not CUDA_KEYS or other._keys is not CUDA_KEYS
            or self._device is not device or other._device is not device
            or self._autograd is not None and not _is_plain(self)
            or other._autograd is not None and not _is_plain(other) or _now() is not PLAIN
        ):  # fmt: skip
            return None
        x = self._storage._data.ptr + self._offset * size_x
        y = other._storage._data.ptr + other._offset * size_y
        if (x | y) & 15:
            return None
        memory = cuda.allocate(nbytes, index)
        run(head(memory.ptr, x, y) + tail)
        storage = _new(Storage)
        storage._data = memory
        storage._array = None
        storage.nbytes = nbytes
        storage.device = device
        storage.version = 0
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CUDA_KEYS
        tensor._device = device
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = None
        tensor._autograd = None
        return tensor

    return short


def _with_number(entry: Any, key: Any) -> ShortCut:
    device, geometry = key[1], entry.geometry
    index, nbytes = device.index, geometry.extent * geometry.dtype.itemsize
    cuda: Any = runtime.cuda()
    itemsize = key[0].dtype.itemsize
    run, head, tail = straight(entry.launch, index)

    def short(self: Any, other: Any) -> Any:
        if (
            self._keys is not CUDA_KEYS or self._device is not device
            or self._autograd is not None and not _is_plain(self) or _now() is not PLAIN
        ):  # fmt: skip
            return None
        x = self._storage._data.ptr + self._offset * itemsize
        if x & 15:
            return None
        memory = cuda.allocate(nbytes, index)
        run(head(memory.ptr, x, other) + tail)
        storage = _new(Storage)
        storage._data = memory
        storage._array = None
        storage.nbytes = nbytes
        storage.device = device
        storage.version = 0
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CUDA_KEYS
        tensor._device = device
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = None
        tensor._autograd = None
        return tensor

    return short


def _inplace(entry: Any, key: Any) -> ShortCut:
    device = key[1]
    size_x, size_y = key[0].dtype.itemsize, key[3].dtype.itemsize
    run, head, tail = straight(entry.launch, device.index)

    def short(self: Any, other: Any) -> Any:
        if (
            self._keys is not CUDA_KEYS or other._keys is not CUDA_KEYS
            or self._device is not device or other._device is not device
            or self._autograd is not None
            or other._autograd is not None and not _is_plain(other) or _now() is not PLAIN
        ):  # fmt: skip
            return None
        storage, theirs = self._storage, other._storage
        if theirs is storage or storage.is_shared or theirs.is_shared:
            return None  # they may share memory
        x = storage._data.ptr + self._offset * size_x
        y = theirs._data.ptr + other._offset * size_y
        if (x | y) & 15:
            return None
        run(head(x, x, y) + tail)
        storage.version += 1
        return self

    return short


def _inplace_number(entry: Any, key: Any) -> ShortCut:
    device, itemsize = key[1], key[0].dtype.itemsize
    run, head, tail = straight(entry.launch, device.index)

    def short(self: Any, other: Any) -> Any:
        if (
            self._keys is not CUDA_KEYS or self._device is not device
            or self._autograd is not None or _now() is not PLAIN
        ):  # fmt: skip
            return None
        storage = self._storage
        x = storage._data.ptr + self._offset * itemsize
        if x & 15:
            return None
        run(head(x, x, other) + tail)
        storage.version += 1
        return self

    return short
