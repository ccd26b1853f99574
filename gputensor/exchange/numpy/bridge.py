"""`from_numpy`: a tensor over a NumPy array's memory. tensor/export.py converts tensors to
arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes, errors
from ...core.geometry import Sizes, geometry
from ...dispatch.refusal import declares
from ...tensor.storage import SharedStorage, storage_of_array, storage_over
from ...tensor.make import CPU_KEYS, from_array, from_storage
from ...tensor.tensor import Tensor


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a CPU tensor that shares the array's memory and keeps its strides.

    Writing to a tensor over a read-only array raises an error.
    Raises: ArgumentTypeError for dtypes that tensors do not have (object, text, swapped bytes);
    ArgumentValueError for negative strides and for strides that are not whole elements.
    """
    if not isinstance(array, np.ndarray):
        remedy = "use gputensor.tensor(...) or gputensor.asarray(...)"
        raise errors.wrong_type("from_numpy", "array", "be a numpy.ndarray", array, remedy=remedy)
    element = element_of("from_numpy", array.dtype)
    strides = element_strides("from_numpy", "array", array.shape, array.strides, element.itemsize)
    shape = geometry(array.shape, strides, element)
    if shape.is_contiguous and shape.numel and not element.is_float8:
        made = from_array(array.view(np.ndarray), shape)
        made._storage = storage_of_array(made._array, SharedStorage)
        return made
    interface = array.__array_interface__["data"]
    storage = storage_over(interface[0], shape.extent * element.itemsize, array, interface[1])
    return from_storage(storage, 0, shape, CPU_KEYS)


def over_copy(array: np.ndarray[Any, Any]) -> Tensor:
    """Same as `from_numpy`, for an array that only the caller refers to, so that no other code can
    write to it."""
    made = from_numpy(array)
    if made._array is not None:
        made._storage = None
    return made


@declares()
def frombuffer(
    buffer: Any, *, dtype: dtypes.dtype, count: int = -1, offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a 1-d CPU tensor over the memory of an object with Python's buffer protocol.

    Args:
        count: the number of elements, by default all. offset: bytes before the first element.
    """
    try:
        array = np.frombuffer(buffer, dtype.np, count, offset)
    except (ValueError, TypeError) as reason:
        raise errors.must(
            "frombuffer", "buffer", "hold such elements", errors.Got(str(reason))
        ) from None
    made = from_numpy(array)
    return made.requires_grad_() if requires_grad else made


def array_of(op: str, arg: str, obj: Any) -> np.ndarray[Any, Any]:
    """Return an ndarray over the memory that an object's buffer or array interface describes.

    Raises: ArgumentTypeError if NumPy cannot read the description, or if it describes no memory.
    """
    try:
        found = np.asarray(obj)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, errors.GpuTensorError):
            raise
        got = errors.Got(f"{type(obj).__name__}: {str(error).partition(chr(10))[0]}")
        raise errors.wrong_type(op, arg, "be an array that NumPy can read", got) from error
    if found.size and not found.__array_interface__["data"][0]:
        got = errors.Got(f"{type(obj).__name__} with a null pointer")
        raise errors.wrong_type(op, arg, "have memory", got)
    return found


def element_of(op: str, np_type: np.dtype[Any]) -> dtypes.dtype:
    """Return the tensor dtype of a NumPy dtype. Raise an error if there is none."""
    element = dtypes.from_numpy(np_type)
    if element is not None:
        return element
    remedy = ""
    if np_type.fields is None and dtypes.from_numpy(np_type.newbyteorder("=")) is not None:
        remedy = f"use .astype('{np_type.newbyteorder('=').name}') for native byte order"
    elif np_type.kind == "O":
        remedy = "use .astype(...) to a numeric dtype"
    rule, got = "have a dtype that tensors have", errors.Got(f"numpy dtype {np_type.str}")
    raise errors.wrong_type(op, "array", rule, got, remedy=remedy)


def element_strides(op: str, arg: str, sizes: Sizes, stride_bytes: Sizes, itemsize: int) -> Sizes:
    """Convert strides from bytes to elements. Raise an error for negative strides, and for strides
    that are not a multiple of the element's size.

    The stride of a dimension of size 0 or 1 is never used, so any value is accepted for it.
    """
    strides = []
    for size, stride in zip(sizes, stride_bytes):
        if size > 1 and stride < 0:
            raise errors.wrong_value(
                op, arg, "have no negative strides",
                errors.Got(f"strides {tuple(stride_bytes)} in bytes"), remedy="use .copy() first",
            )  # fmt: skip
        if size > 1 and stride % itemsize:
            raise errors.wrong_value(
                op, arg, f"have strides that are multiples of {itemsize} bytes",
                errors.Got(f"strides {tuple(stride_bytes)}"), remedy="use .copy() first",
            )  # fmt: skip
        strides.append(abs(stride) // itemsize)
    return tuple(strides)
