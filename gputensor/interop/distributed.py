"""Serialization of tensors for Dask's `distributed`, which sends and spills them as a header and
one frame of memory.

A CPU tensor is sent and received without a copy if its elements are dense in some order. All other
CPU tensors are copied once. A CUDA tensor goes through host memory. Tensors that require grad are
pickled by the rules in pickling.py.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .. import Tensor


def register(serialize: ModuleType) -> None:
    """Register functions for tensors. serialize: the module `distributed.protocol.serialize`."""
    from ..tensor.tensor import Tensor

    client: Any = serialize
    client.dask_serialize.register(Tensor, sent)
    client.dask_deserialize.register(Tensor, received)


def sent(x: Tensor) -> tuple[dict[str, Any], list[memoryview]]:
    """Return the header and the frame of a tensor.

    Raises: NotImplementedError for a tensor that must be pickled, as in Dask's protocol.
    """
    from ..tensor.base import materialised
    from ..tensor.tensor import Tensor

    if type(x) is not Tensor or x.requires_grad or x.grad_fn is not None:
        raise NotImplementedError("tensors that require grad, and subclasses, are pickled")
    if x.device.type == "meta":
        raise NotImplementedError("tensors without memory are pickled")
    here = materialised(x.detach().cpu())
    order = sorted(range(here.ndim), key=lambda dim: -here.stride(dim))
    if not here.permute(order).is_contiguous():
        here, order = here.contiguous(), list(range(here.ndim))
    flat = here.permute(order)._get_array().reshape(-1).view(np.uint8)
    header = {
        "dtype": here.dtype.name, "shape": list(here.shape), "strides": list(here.stride()),
        "device": str(x.device),
    }  # fmt: skip
    return header, [flat.data]


def received(header: dict[str, Any], frames: list[Any]) -> Tensor:
    """Return the tensor for a header and its frame. The tensor shares the frame's memory if
    the frame is writable.

    Raises: DeviceError if this process lacks the tensor's device.
    """
    from .._generated.functions import empty
    from ..core.dtype import by_name, uint8
    from ..exchange.numpy.bridge import frombuffer

    element = by_name(header["dtype"])
    if not frames or not memoryview(frames[0]).nbytes:
        made = empty(header["shape"], dtype=element)
    else:
        frame = frames[0]
        if memoryview(frame).readonly:
            frame = bytearray(frame)
        made = frombuffer(frame, dtype=uint8).view(element)
        made = made.as_strided(header["shape"], header["strides"])
    return made if header["device"] == "cpu" else made.to(header["device"])
