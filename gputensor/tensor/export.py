"""Export of tensors to other libraries, as ndarrays and by the CUDA array interface. DLPack is in
dlpack.py.

CPU tensors share memory with ndarrays. Memory of other devices is never copied implicitly.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from . import differentiable
from .. import runtime
from .._generated import calls
from ..core import errors
from ..core.arguments import flag
from ..core.device import CPU, device
from ..core.dtype import bfloat16, complex32, from_numpy, uint8
from ..core.geometry import contiguous_geometry
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.keys import LAZY
from .base import TensorBase, materialised
from .storage import expose, storage_of_array

if TYPE_CHECKING:
    from .tensor import Tensor


def operand(op: str, tensor: Tensor, other: Any, is_boolean: bool) -> Tensor | None:
    """Convert an array that is the second operand of an operator. Return None if the array's own
    library must compute the operation.

    Raise an error for a tensor that NumPy must not read. Also raise for a comparison with another
    library's object, because Python would otherwise return False even for equal values.
    """
    if isinstance(other, np.ndarray):
        check_shareable(op, tensor, is_boolean)
        return over_array(other)
    if is_of_cupy(other):
        check_without_grad(op, tensor, is_boolean)
        return of_cupy(other)
    if is_boolean:
        rule, got = "be a Tensor, an ndarray or a number", errors.Got(type(other).__module__)
        raise errors.wrong_type(op, "other", rule, got, remedy="use gputensor.asarray(...)")
    return None


def is_of_cupy(x: Any) -> bool:
    """True for a CuPy array. CuPy is not imported."""
    return isinstance(x, getattr(sys.modules.get("cupy"), "ndarray", ()))


def of_cupy(x: Any) -> Tensor:
    """Make a tensor over the memory of a CuPy array."""
    found: Tensor = import_module("gputensor.exchange.construct").asarray(x)
    return found


def over_array(array: np.ndarray[Any, Any]) -> Tensor | None:
    """Make a tensor over an array's memory, or over a copy if the memory cannot be shared. Return
    None if no tensor can represent the array."""
    native = array.dtype.newbyteorder("=")
    element = from_numpy(native)
    if element is None:
        return None
    dense = np.asarray(array, native, order="C")
    shape = contiguous_geometry(dense.shape, element)
    found: Tensor = TensorBase._kind._over(storage_of_array(dense), 0, shape, TENSOR_KEYS["cpu"])
    return found


def numpy(tensor: Tensor, force: bool = False) -> np.ndarray[Any, Any]:
    """Return an ndarray that shares the tensor's memory. bfloat16 becomes `ml_dtypes.bfloat16`.

    force: if necessary, detach, copy from another device and materialise a lazy view. Raises:
    ArgumentTypeError for a tensor that is not on the CPU; ArgumentError for a tensor that is lazy,
    or that requires grad while operations are recorded. `force` prevents both errors.
    """
    if force:
        tensor = materialised(calls.detach(tensor).cpu())
    _check_readable("numpy", tensor)
    expose(tensor._get_storage())
    # Return a view, because the caller may change the array's shape, and the tensor keeps its own
    # array.
    return _array(tensor).view()


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    element = tensor._geometry.dtype
    if element.is_float8:
        return calls.view_dtype(tensor, uint8)._get_array().view(element.np)
    return tensor._get_array()


def check_shareable(op: str, tensor: Tensor, is_boolean: bool = False) -> None:
    """Raise an error for a tensor that NumPy must not read: see exchange/numpy/protocol.py.

    is_boolean: True if the operator's result is bool, so that no gradient can be lost.
    """
    check_without_grad(op, tensor, is_boolean)
    if tensor._device is not CPU:
        remedy = "" if tensor.is_meta else "use .cpu() to copy it there"
        raise errors.wrong_type(op, "self", "be on the CPU", tensor, remedy=remedy)


def check_without_grad(op: str, tensor: Tensor, is_boolean: bool) -> None:
    """Raise an error if another library's operation would lose the tensor's gradient."""
    # The value of grad_mode is falsy (DEFAULT) while operations are recorded.
    if tensor.requires_grad and not (is_boolean or differentiable.variable.grad_mode.get()):
        raise errors.must(op, "self", "not require grad", tensor, remedy="use .detach().numpy()")


def _check_readable(op: str, tensor: Tensor) -> None:
    check_shareable(op, tensor)
    if tensor._keys & LAZY:
        raise errors.not_in_memory(op, tensor)
    if tensor._geometry.dtype is complex32:
        rule, remedy = "have a dtype that NumPy has", "use .to(gputensor.complex64)"
        raise errors.wrong_type(op, "self", rule, tensor, remedy=remedy)


def array(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """Implement `Tensor.__array__`, NumPy's protocol, with NumPy 2's meaning of `copy`.

    copy: True always copies, False raises if a cast needs a copy, and None copies if needed.
    """
    _check_readable("__array__", tensor)
    copy = None if copy is None else flag("__array__", "copy", copy)
    if not copy:
        expose(tensor._get_storage())
    shared = _array(tensor).view()
    if dtype is not None:
        try:
            dtype = np.dtype(dtype)
        except Exception:
            raise errors.wrong_type("__array__", "dtype", "be a dtype of NumPy", dtype) from None
    if copy is False and dtype is not None and dtype != shared.dtype:
        rule = "not be False where a cast needs a copy"
        raise errors.wrong_value("__array__", "copy", rule, dtype.name)
    if copy:
        return np.array(shared, dtype=dtype, copy=True)
    return shared if dtype is None else shared.astype(dtype, copy=False)


def array_attribute(tensor: Tensor, name: str) -> Any:
    """Implement `Tensor.__array_interface__` and `__array_struct__`. NumPy keeps the tensor's
    memory alive.

    Raises: AttributeError if `__array__` would raise, so that hasattr() is False and NumPy calls
    `__array__` for the error; also for bfloat16, which these protocols cannot express.
    """
    try:
        _check_readable(name, tensor)
    except errors.GpuTensorError as error:
        raise errors.no_array_attribute(error) from None
    if tensor._geometry.dtype is bfloat16 or tensor._geometry.dtype.is_float8:
        rule = "have a dtype that has a typestr"
        raise errors.no_array_attribute(errors.wrong_dtype(name, "self", rule, tensor))
    expose(tensor._get_storage())
    return getattr(tensor._get_array(), name)


def cuda_array_interface(tensor: Tensor) -> dict[str, Any]:
    """Implement `Tensor.__cuda_array_interface__`. It contains the current stream, on which the
    consumer waits.

    Raises: AttributeError unless the tensor is on a real CUDA device, so that hasattr() is False.
    """
    place, geometry = tensor._device, tensor._geometry
    if place.type != "cuda" or runtime.cuda().is_emulated or geometry.dtype is complex32:
        raise errors.no_cuda_array_interface(tensor)
    if tensor.requires_grad:
        rule = "not require grad"
        raise errors.must("__cuda_array_interface__", "self", rule, tensor, remedy="use .detach()")
    if tensor._keys & LAZY:
        raise errors.not_in_memory("__cuda_array_interface__", tensor)
    stream = runtime.cuda().current_stream(place.index).ptr
    return {
        "shape": geometry.sizes,
        "typestr": geometry.dtype.np.str,
        "data": (tensor.data_ptr(), False),
        "strides": None if geometry.is_contiguous else geometry.stride_bytes,
        "stream": stream or 1,  # 1 is the legacy default stream; the protocol does not allow 0
        "version": 3,
    }


# The supported revisions of the array API standard. Each revision includes the earlier revisions.
REVISIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def array_namespace(api_version: str | None) -> Any:
    """Implement `Tensor.__array_namespace__`. The first call imports `gputensor.array_api`."""
    if api_version is not None and api_version not in REVISIONS:
        rule = f"be None or one of {', '.join(REVISIONS)}"
        raise errors.wrong_value("__array_namespace__", "api_version", rule, api_version)
    newest = api_version is None or api_version == REVISIONS[-1]
    return import_module("gputensor.array_api" + ("" if newest else ".before_2025"))


def to_device(tensor: Tensor, place: device, stream: Any) -> Tensor:
    """Implement `Tensor.to_device`. stream: the CUDA stream on which the copy is queued."""
    element = tensor._geometry.dtype
    if stream is None:
        return calls.to_device(tensor, place, element)
    if "cuda" not in (place.type, tensor._device.type):
        raise errors.wrong_value("to_device", "stream", "be None unless a device is CUDA", stream)
    with import_module("gputensor.cuda").stream(stream):
        return calls.to_device(tensor, place, element)
