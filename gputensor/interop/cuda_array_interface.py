"""The CUDA array interface, version 3: how Numba, CuPy and others see a tensor on a real GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import runtime
from ..core import errors
from ..dispatch.keys import LAZY

if TYPE_CHECKING:
    from ..tensor import Tensor


def describe(tensor: Tensor) -> dict[str, Any]:
    """`Tensor.__cuda_array_interface__`; names the current stream, on which the consumer waits.

    Raises: AttributeError unless the tensor is on a real CUDA device, so that hasattr() is False.
    """
    place, geometry = tensor._device, tensor._geometry
    if place.type != "cuda" or runtime.cuda().is_emulated:
        raise errors.no_cuda_array_interface(tensor)
    if tensor.requires_grad:
        raise errors.must(
            "__cuda_array_interface__", "self", "not require grad", tensor, remedy="use .detach()"
        )
    if tensor._keys & LAZY:
        raise errors.not_in_memory("__cuda_array_interface__", tensor)
    stream = runtime.cuda().current_stream(place.index).ptr
    return {
        "shape": geometry.sizes,
        "typestr": geometry.dtype.np.str,
        "data": (tensor.data_ptr(), False),
        "strides": None if geometry.is_contiguous else geometry.stride_bytes,
        "stream": stream or 1,  # 1 is the legacy default stream; 0 is not allowed
        "version": 3,
    }
