"""Copies of bytes between storages: within a device, between devices, and between device and host.

This module copies only ranges of bytes; native/copy.py handles layouts. The runtime of the device
type makes the copies: CUDA's, or the runtime that another package registered (`runtime.of`).
It also resizes outputs of the wrong size, because a larger storage takes over the old bytes.
"""

from __future__ import annotations

import warnings
from typing import Any

from .. import runtime
from ..core import errors
from ..core.device import CPU
from ..core.geometry import Geometry, contiguous_geometry
from ..tensor.storage import Storage, allocate_storage, storage_over
from ..tensor.make import CPU_KEYS, from_storage
from ..tensor.tensor import Tensor
from . import arguments


def copy_bytes(to: Storage, source: Storage, nbytes: int) -> None:
    """Copy the first `nbytes` bytes within a device, in the order of its current stream."""
    if to.data is None or source.data is None or not nbytes:
        return
    if to.device is CPU:
        to.data[:nbytes] = source.data[:nbytes]
    else:
        device, index = runtime.of(to.device.type), to.device.index
        device.copy_async(to.ptr, index, source.ptr, index, nbytes, device.current_stream(index))


def copy_within(to: Tensor, source: Tensor) -> None:
    """Copy the bytes of a dense tensor to a tensor of the same geometry on the same device."""
    device, index = runtime.of(to._device.type), to._device.index
    stream, nbytes = device.current_stream(index), source._geometry.nbytes
    device.copy_async(to._address(), index, source._address(), index, nbytes, stream)


# Host-to-device copies of up to this size go through pinned memory, so that the host does not wait.
PINNED_UP_TO_BYTES = 64 << 20


def copy_dense(to: Tensor, source: Tensor) -> None:
    """Copy the bytes of a dense tensor to a tensor of the same geometry on another device.

    A copy to the host returns when the bytes have arrived. A copy from the host returns when the
    source may be changed. A copy between devices of one type does not wait. A copy between devices
    of two types goes through the host.
    """
    if to._device is CPU:
        _to_host(to, source)
    elif source._device is CPU:
        from_host(to, source)
    elif to._device.type == source._device.type:
        _between_devices(to, source, source._geometry.nbytes)
    else:
        from_host(to, on_host(source))


def on_host(source: Tensor) -> Tensor:
    """Return a CPU tensor of the same geometry. The bytes in gaps between the elements are copied
    too."""
    geometry = source._geometry
    storage = allocate_storage(geometry.extent * geometry.dtype.itemsize, CPU)
    landed = from_storage(storage, 0, geometry, CPU_KEYS)
    if geometry.numel:
        _to_host(landed, source)
    return landed


def _host_bytes(tensor: Tensor) -> Any:
    """Return the bytes of a CPU tensor, from its first element to its last one, as a 1-d uint8
    array."""
    geometry = tensor._geometry
    begin = tensor._offset * geometry.dtype.itemsize
    return tensor._get_storage().data[begin : begin + geometry.extent * geometry.dtype.itemsize]


def _to_host(to: Tensor, source: Tensor) -> None:
    index = source._device.index
    device = runtime.of(source._device.type)
    stream = device.current_stream(index)
    host = _host_bytes(to)
    begin = host.__array_interface__["data"][0]
    device.copy_async(begin, -1, source._address(), index, host.size, stream)
    stream.synchronize()


def from_host(to: Tensor, source: Tensor) -> None:
    """Copy a CPU tensor's bytes to a tensor on a device, from the first element to the last, gaps
    included. This is the reverse of `on_host`."""
    index = to._device.index
    device = runtime.of(to._device.type)
    stream = device.current_stream(index)
    host = _host_bytes(source)
    if host.size <= PINNED_UP_TO_BYTES and hasattr(device, "pinned_allocate"):
        pinned = device.pinned_allocate(host.size)
        pinned.array[: host.size] = host
        device.copy_async(to._address(), index, pinned.ptr, -1, host.size, stream)
    else:
        begin = host.__array_interface__["data"][0]
        device.copy_async(to._address(), index, begin, -1, host.size, stream)
        stream.synchronize()


def pack_from_host(to: Tensor, source: Tensor, copy: Any) -> None:
    """Like `copy_dense`, for a source on the host that is not dense. The host reads the source only
    once.

    copy: a function that writes one ndarray into another of any layout.
    """
    staged = _pinned(to)
    if staged is None:
        landed = from_storage(allocate_storage(to._geometry.nbytes, CPU), 0, to._geometry, CPU_KEYS)
        copy(landed._get_array(), source._get_array())
        from_host(to, landed)
        return
    copy(staged._get_array(), source._get_array())
    index, device = to._device.index, runtime.of(to._device.type)
    stream = device.current_stream(index)
    device.copy_async(to._address(), index, staged.data_ptr(), -1, to._geometry.nbytes, stream)


def land_on_host(source: Tensor) -> Tensor:
    """Copy a dense tensor of a device to the host, and wait for the copy. Pinned memory is used if
    it is available."""
    landed = _pinned(source)
    if landed is None:
        storage = allocate_storage(source._geometry.nbytes, CPU)
        landed = from_storage(storage, 0, source._geometry, CPU_KEYS)
    _to_host(landed, source)
    return landed


def _pinned(like: Tensor) -> Tensor | None:
    """Return a tensor in pinned memory with the geometry of a device's dense tensor. Return None if
    the tensor is too large, or if the device has no pinned memory."""
    device, nbytes = runtime.of(like._device.type), like._geometry.nbytes
    if nbytes > PINNED_UP_TO_BYTES or not hasattr(device, "pinned_allocate"):
        return None
    memory = device.pinned_allocate(nbytes)
    return from_storage(storage_over(memory.ptr, nbytes, memory), 0, like._geometry, CPU_KEYS)


def _between_devices(to: Tensor, source: Tensor, nbytes: int) -> None:
    # The copy runs on the source's stream. It comes after all work that both streams have queued so
    # far, and before all work that they queue later. Source: aten/src/ATen/native/cuda/Copy.cu.
    device = runtime.of(to._device.type)
    here, there = source._device.index, to._device.index
    outgoing, incoming = device.current_stream(here), device.current_stream(there)
    outgoing.wait_event(incoming.record_event())
    device.copy_async(to._address(), there, source._address(), here, nbytes, outgoing)
    incoming.wait_event(outgoing.record_event())


# --- resizing -------------------------------------------------------------------------------------
# Source: aten/src/ATen/native/Resize.cpp.


def resize_output(op: str, out: Tensor, wanted: Geometry) -> None:
    """Set the geometry of a result on `out`. Warn unless `out` was empty."""
    if out._geometry.numel:
        warnings.warn(errors.output_resized(op, out, wanted), UserWarning, stacklevel=4)
    set_geometry(out, wanted)


def resized(op: str, out: Tensor, size: Any) -> Tensor:
    """Return `out`, which has the given size from now on."""
    sizes = arguments.sizes(op, size)
    if out._geometry.sizes != sizes:
        resize_output(op, out, contiguous_geometry(sizes, out._geometry.dtype))
    return out


def set_geometry(tensor: Tensor, wanted: Geometry) -> None:
    """Replace a tensor's geometry. Grow its storage if the new geometry needs more bytes."""
    needed = (tensor._offset + wanted.extent) * wanted.dtype.itemsize
    if needed > tensor._get_storage()._nbytes:
        # Do not assign the storage to a variable, because `resize` checks the number of references.
        tensor._storage.resize(needed, copy_bytes)
    tensor._geometry = wanted
    tensor._array = None
