"""Moves bytes between storages: within a device, between devices, and to and from the host.

Only whole byte ranges; layouts are the business of `copy.py`.
"""

from __future__ import annotations

from typing import Any

from .. import runtime
from ..core.device import CPU
from ..storage import Storage
from ..tensor import Tensor


def copy_bytes(to: Storage, source: Storage, nbytes: int) -> None:
    """Copy the first `nbytes`, on one device; in order with the device's current stream."""
    if to.data is None or source.data is None or not nbytes:
        return
    if to.device is CPU:
        to.data[:nbytes] = source.data[:nbytes]
    elif to.device.type == "cuda":
        cuda = runtime.cuda()
        index = to.device.index
        cuda.copy_async(to.ptr, index, source.ptr, index, nbytes, cuda.current_stream(index))


# Up to this size a host-to-device copy goes through pinned memory, so that the host need not wait.
PINNED_UP_TO_BYTES = 64 << 20


def copy_dense(to: Tensor, source: Tensor) -> None:
    """Copy the bytes of a dense tensor into one of the same geometry on another device.

    To the host the call waits until the bytes are there. From the host it returns once the source
    may change again. Between devices it waits for nothing on the host.
    """
    nbytes = source._geometry.nbytes
    if to._device is CPU:
        _to_host(to, source, nbytes)
    elif source._device is CPU:
        _from_host(to, source, nbytes)
    else:
        _between_devices(to, source, nbytes)


def _host_bytes(tensor: Tensor) -> Any:
    """The bytes of a dense CPU tensor as a 1-d uint8 array."""
    begin = tensor._offset * tensor._geometry.dtype.itemsize
    return tensor._get_storage().data[begin : begin + tensor._geometry.nbytes]


def _to_host(to: Tensor, source: Tensor, nbytes: int) -> None:
    cuda, index = runtime.cuda(), source._device.index
    stream = cuda.current_stream(index)
    host = _host_bytes(to).__array_interface__["data"][0]
    cuda.copy_async(host, -1, source._address(), index, nbytes, stream)
    stream.synchronize()


def _from_host(to: Tensor, source: Tensor, nbytes: int) -> None:
    cuda, index = runtime.cuda(), to._device.index
    stream = cuda.current_stream(index)
    host = _host_bytes(source)
    if nbytes <= PINNED_UP_TO_BYTES:
        pinned = cuda.pinned_allocate(nbytes)
        pinned.array[:nbytes] = host
        cuda.copy_async(to._address(), index, pinned.ptr, -1, nbytes, stream)
    else:
        cuda.copy_async(to._address(), index, host.__array_interface__["data"][0], -1, nbytes, stream)
        stream.synchronize()


def _between_devices(to: Tensor, source: Tensor, nbytes: int) -> None:
    # The copy runs on the source's stream, between everything that either stream has queued so far
    # and everything that either queues from now on. Source: aten/src/ATen/native/cuda/Copy.cu.
    cuda = runtime.cuda()
    here, there = source._device.index, to._device.index
    outgoing, incoming = cuda.current_stream(here), cuda.current_stream(there)
    outgoing.wait_event(incoming.record_event())
    cuda.copy_async(to._address(), there, source._address(), here, nbytes, outgoing)
    incoming.wait_event(outgoing.record_event())
