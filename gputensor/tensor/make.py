"""Functions with which native code makes tensors over existing or new memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.device import CPU, device
from ..core.dtype import of_ours, uint8
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.keys import ZERO
from ..dispatch.tls import inference_blocks, keys_now
from .storage import Storage, allocate_storage, as_tensor
from .tensor import Tensor, blank

CPU_KEYS = TENSOR_KEYS["cpu"]


def is_plain(x: Tensor) -> bool:
    """True if autograd need not record an operation on the operand: the operand has no autograd
    data, or it is a view of a tensor that has none."""
    base = x._autograd
    return base is None or type(base) is Tensor and base._autograd is None


def from_array(array: Any, geometry: Geometry) -> Tensor:
    """Make a CPU tensor over an ndarray to which nothing else refers. The geometry describes the
    layout of the array."""
    tensor = blank()
    tensor._geometry = geometry
    tensor._keys = CPU_KEYS if not inference_blocks else keys_now(CPU_KEYS)
    tensor._device = CPU
    tensor._storage = None
    tensor._offset = 0
    tensor._array = array
    tensor._autograd = None
    return tensor


def over_array(array: np.ndarray[Any, Any]) -> Tensor:
    """Make a CPU tensor over a dense array of a dtype that tensors support."""
    return from_array(array, contiguous_geometry(array.shape, of_ours(array.dtype)))


def from_storage(storage: Storage, offset: int, geometry: Geometry, keys: int) -> Tensor:
    """Make a tensor over a storage. offset counts elements."""
    tensor = blank()
    tensor._geometry = geometry
    tensor._keys = keys if not inference_blocks else keys_now(keys)
    tensor._device = storage.device
    tensor._storage = storage
    tensor._offset = offset
    tensor._array = None
    tensor._autograd = None
    return tensor


def view_of(base: Tensor, geometry: Geometry, offset: int) -> Tensor:
    """Make another view of base's storage. offset counts elements from the storage's start."""
    storage = base._storage
    if storage is None:
        storage = base._get_storage()
    tensor = blank()
    tensor._geometry = geometry
    tensor._keys = base._keys
    tensor._device = base._device
    tensor._storage = storage
    tensor._offset = offset
    tensor._array = None
    tensor._autograd = None
    return tensor


def allocate(geometry: Geometry, place: device) -> Tensor:
    """Make an uninitialised tensor of this geometry with offset 0, and allocate memory for its
    extent."""
    if place is CPU and geometry.in_numpy:
        return from_array(np.empty(geometry.sizes, geometry.dtype.np), geometry)
    # `from_storage` is inlined, because every result on a device is made here
    # (bench/host/overhead.py).
    tensor = blank()
    tensor._geometry = geometry
    keys = TENSOR_KEYS[place.type]
    tensor._keys = keys if not inference_blocks else keys_now(keys)
    tensor._device = place
    tensor._storage = allocate_storage(geometry.extent * geometry.dtype.itemsize, place)
    tensor._offset = 0
    tensor._array = None
    tensor._autograd = None
    return tensor


def _bytes_of(storage: Storage) -> Tensor:
    shape = contiguous_geometry((storage._nbytes,), uint8)
    return from_storage(storage, 0, shape, keys_now(TENSOR_KEYS[storage.device.type]))


as_tensor.append(_bytes_of)


def as_bytes(x: Tensor) -> Tensor:
    """View a tensor of 8-bit elements as uint8, over the same memory."""
    shape = x._geometry
    return view_of(x, geometry(shape.sizes, shape.strides, uint8), x._offset)


def zero_tensor(geometry: Geometry, place: device) -> Tensor:
    """Make a lazy tensor of zeros of this geometry, which has no memory."""
    storage = Storage.over(None, geometry.extent * geometry.dtype.itemsize, place)
    return from_storage(storage, 0, geometry, TENSOR_KEYS[place.type] | ZERO)
