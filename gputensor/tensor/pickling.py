"""Pickling and copying of tensors. If several tensors share a storage, the storage is copied once,
and the copies of the tensors share the new storage.

Tensors of other devices are copied to the host and return to their device when unpickled. A storage
is pickled as a NumPy array, which supports zero-copy out-of-band buffers in all protocols.
"""

from __future__ import annotations

import copy
import copyreg
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .._generated import calls
from ..core import errors
from ..core.device import CPU, META, device
from ..core.dtype import dtype, uint8
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.keys import LAZY, ZERO
from ..dispatch.tls import keys_now
from . import differentiable
from .base import TensorBase, materialised
from .storage import ExposedStorage, SharedStorage, Storage, allocate_storage

if TYPE_CHECKING:
    from .tensor import Tensor


def _keys(storage: Storage) -> int:
    return keys_now(TENSOR_KEYS[storage.device.type])


def over(storage: Storage, shape: Geometry) -> Tensor:
    """Make a tensor of geometry `shape` that begins at the start of a storage."""
    made: Tensor = TensorBase._kind._over(storage, 0, shape, _keys(storage))
    return made


def flat(storage: Storage) -> Tensor:
    """View the whole storage as a tensor of bytes."""
    return over(storage, contiguous_geometry((storage._nbytes,), uint8))


def host_bytes(storage: Storage) -> np.ndarray[Any, Any]:
    """Return the storage's bytes on the host. They are a copy if the storage is on another
    device."""
    return flat(storage).cpu()._get_array()


def storage_from(data: np.ndarray[Any, Any], place: device) -> Storage:
    """Make a storage with these bytes on a device. On the CPU it uses the array itself."""
    storage = Storage.over(data, data.size, CPU)
    return storage if place is CPU else calls.to_device(flat(storage), place, uint8)._get_storage()


def reduce(tensor: Tensor) -> tuple[Any, ...]:
    """Implement `Tensor.__reduce_ex__`. A storage is pickled once for all of its tensors.

    As in PyTorch, a tensor that requires grad becomes a leaf that requires grad, without gradient,
    history and hooks. Attributes set by a program and the class of a subclass are kept.
    """
    check_hooks(tensor)
    storage, offset, shape = in_memory(tensor, "pickle")
    arguments = (storage, offset, shape.sizes, shape.strides, shape.dtype, tensor.requires_grad)
    if type(tensor) is TensorBase._kind:
        set_on_it = vars(tensor)
        return (_rebuild, arguments, set_on_it) if set_on_it else (_rebuild, arguments)
    return _rebuild, (*arguments, type(tensor)), _attributes(tensor)


def in_memory(tensor: Tensor, op: str) -> tuple[Storage, int, Geometry]:
    """Return (storage, offset, geometry) of a tensor's elements. If the tensor is lazy, its
    elements are first computed. Raise an error if a subclass stores no elements in memory."""
    is_of_subclass = type(tensor) is not TensorBase._kind
    if is_of_subclass and tensor._storage is not None and _has_no_memory(tensor):
        remedy = "define __reduce_ex__ and __deepcopy__ in its class"
        raise errors.must(op, "self", "have memory", tensor, remedy=remedy)
    tensor = materialised(tensor)
    return tensor._get_storage(), tensor._offset, tensor._geometry


def _has_no_memory(tensor: Tensor) -> bool:
    storage = tensor._get_storage()
    return storage.data is None and storage.device is not META and not tensor._keys & ZERO


def check_hooks(tensor: Tensor) -> None:
    """Issue a warning for each hook, because files and pickles do not contain hooks."""
    for hook in differentiable.variable.hooks_on(tensor):
        warnings.warn(errors.hook_not_serialized(hook), UserWarning, stacklevel=4)


def _attributes(tensor: Tensor) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return a tensor's __dict__, and the values of the slots that its subclass adds."""
    slotnames = copyreg._slotnames  # type: ignore[attr-defined]
    names = set(slotnames(type(tensor))) - set(TensorBase.__slots__)
    slots = {name: getattr(tensor, name) for name in sorted(names) if hasattr(tensor, name)}
    return vars(tensor), slots


def _rebuild(
    storage: Storage, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...], element: dtype,
    requires_grad: bool = False, kind: Any = None,
) -> Tensor:  # fmt: skip
    kind, shape = kind or TensorBase._kind, geometry(sizes, strides, element)
    made: Tensor = kind._over(storage, offset, shape, _keys(storage))
    return made.requires_grad_() if requires_grad else made


def reduce_storage(storage: Storage) -> tuple[Any, ...]:
    """Return the function and the arguments with which pickle rebuilds a storage from its bytes and
    its device. The new storage is not shared with other libraries or processes."""
    data = None if storage.device is META else host_bytes(storage)
    return _rebuild_storage, (data, storage._nbytes, storage.device)


def _rebuild_storage(data: np.ndarray[Any, Any] | None, nbytes: int, place: device) -> Storage:
    if data is None:
        return allocate_storage(nbytes, place)
    # The array of an out-of-band buffer may be read-only, but an unpickled tensor must be writable.
    return storage_from(data if data.flags.writeable else data.copy(), place)


for _kind in (Storage, SharedStorage, ExposedStorage):
    copyreg.pickle(_kind, reduce_storage)


def deepcopy(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """Implement `Tensor.__deepcopy__`: copy the whole storage on its device, once for all its
    tensors.

    A leaf's gradient is copied too, but its hooks are not. Raises: AutogradError if the tensor is
    not a leaf.
    """
    if id(tensor) in memo:
        known: Tensor = memo[id(tensor)]
        return known
    if not tensor.is_leaf:
        raise errors.deepcopy_of_nonleaf()
    if type(tensor) is not TensorBase._kind and _has_no_memory(tensor):
        in_memory(tensor, "deepcopy")
    storage = tensor._get_storage()
    twin = memo.get(id(storage))
    if twin is None:
        if tensor._keys & ZERO:  # the tensor has no memory to copy
            twin = Storage.over(None, storage._nbytes, storage.device)
        else:
            twin = allocate_storage(storage._nbytes, storage.device)
            if storage.device is not META:
                calls.copy_(flat(twin), flat(storage), False)
        memo[id(storage)] = twin
    # The copy has the keys of a new tensor in the current mode, and the lazy bits of the original.
    keys = _keys(storage) | tensor._keys & LAZY
    made = type(tensor)._over(twin, tensor._offset, tensor._geometry, keys)
    memo[id(tensor)] = made
    if tensor.requires_grad:
        made.requires_grad_()
        if tensor.grad is not None:
            made.grad = copy.deepcopy(tensor.grad, memo)
    for attributes in _attributes(tensor):
        for name, value in copy.deepcopy(attributes or {}, memo).items():
            setattr(made, name, value)
    return made
