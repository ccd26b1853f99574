"""Pickling and copying of tensors: shared storages stay shared, and each is copied once.

Tensors of other devices travel through the host and return to their device when they are unpickled.
Pickle needs nothing to be known here about its protocol: a storage travels as a NumPy array, which
brings zero-copy out-of-band buffers along.
"""

from __future__ import annotations

import copy
import copyreg
from typing import Any

import numpy as np

from . import subclass
from ._generated import calls
from .core import errors
from .core.device import CPU, META, device
from .core.dtype import dtype, uint8
from .core.geometry import contiguous_geometry, geometry
from .dispatch.backend_select import TENSOR_KEYS
from .storage import Storage, allocate_storage
from .tensor import Tensor, from_storage, materialised


def flat(storage: Storage) -> Tensor:
    """The whole storage as a tensor of bytes."""
    keys = TENSOR_KEYS[storage.device.type]
    return from_storage(storage, 0, contiguous_geometry((storage.nbytes,), uint8), keys)


def host_bytes(storage: Storage) -> np.ndarray[Any, Any]:
    """The storage's bytes on the host; a copy where the storage is elsewhere."""
    return flat(storage).cpu()._get_array()


def storage_from(data: np.ndarray[Any, Any], place: device) -> Storage:
    """A storage with these bytes on a device; on the CPU it takes the array itself."""
    storage = Storage(data, data.size, CPU)
    return storage if place is CPU else calls.to_device(flat(storage), place, uint8)._get_storage()


def reduce(tensor: Tensor) -> tuple[Any, ...]:
    """`Tensor.__reduce_ex__`: the storage is pickled once, however many tensors look at it.

    Of a subclass the type and its `__dict__` are kept too; the class itself is found by its name.
    """
    if not tensor.is_leaf:
        raise errors.must("pickle", "self", "be a leaf", tensor, remedy="use .detach()")
    kind, requires_grad = type(tensor), tensor.requires_grad
    source = materialised(tensor)
    shape = source._geometry
    parts = (source._get_storage(), source._offset, shape.sizes, shape.strides, shape.dtype, requires_grad)
    if kind is Tensor:
        return _rebuild, parts
    return _rebuild_subclass, (kind, *parts), getattr(tensor, "__dict__", None)


def _rebuild(
    storage: Storage, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...], element: dtype,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    keys = TENSOR_KEYS[storage.device.type]
    made = from_storage(storage, offset, geometry(sizes, strides, element), keys)
    return made.requires_grad_() if requires_grad else made


def _rebuild_subclass(kind: type, *parts: Any) -> Any:
    *layout, requires_grad = parts
    made = subclass.of(kind, _rebuild(*layout))
    return made.requires_grad_() if requires_grad else made


def _reduce_storage(storage: Storage) -> tuple[Any, ...]:
    has_bytes = storage.device is not META and storage.data is not None  # wrappers have none
    data = host_bytes(storage) if has_bytes else None
    return _rebuild_storage, (data, storage.nbytes, storage.device)


def _rebuild_storage(data: np.ndarray[Any, Any] | None, nbytes: int, place: device) -> Storage:
    if data is None:
        return Storage(None, nbytes, place)
    # Out-of-band buffers may be read-only; an unpickled tensor is not.
    return storage_from(data if data.flags.writeable else data.copy(), place)


copyreg.pickle(Storage, _reduce_storage)


def deepcopy(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """`Tensor.__deepcopy__`: a copy of the whole storage on its device, once for its tensors."""
    if not tensor.is_leaf:
        raise errors.deepcopy_of_nonleaf()
    storage = tensor._get_storage()
    twin = memo.get(id(storage))
    if twin is None:
        if storage.data is None:  # an efficient zero or a wrapper: no memory to copy
            twin = Storage(None, storage.nbytes, storage.device)
        else:
            twin = allocate_storage(storage.nbytes, storage.device)
            if storage.device is not META:
                calls.copy_(flat(twin), flat(storage), False)
        memo[id(storage)] = twin
    made = from_storage(twin, tensor._offset, tensor._geometry, tensor._keys)
    kind = type(tensor)
    if kind is not Tensor:
        made = subclass.of(kind, made)
        memo[id(tensor)] = made
        if hasattr(tensor, "__dict__"):
            made.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
    if tensor.requires_grad:
        made.requires_grad_()
        if tensor.grad is not None:
            made.grad = copy.deepcopy(tensor.grad, memo)
    return made
