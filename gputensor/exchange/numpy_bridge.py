"""NumPy arrays over a tensor's memory and tensors over a NumPy array's memory.

Sharing goes both ways for CPU tensors; that of other devices is never fetched unasked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import tensor as tensors
from .._generated import calls
from ..core import dtype as dtypes
from ..core import errors
from ..core.arguments import flag
from ..core.device import CPU, device
from ..core.geometry import geometry
from ..dispatch import backend_select
from ..dispatch.keys import LAZY
from ..tensor.storage import SharedStorage, storage_of_array, storage_over
from ..tensor.tensor import CPU_KEYS, Tensor, from_array, from_storage, materialised


def numpy(tensor: Tensor, force: bool = False) -> np.ndarray[Any, Any]:
    """An ndarray that shares the tensor's memory; bfloat16 becomes `ml_dtypes.bfloat16`.

    force: detach, copy from another device and materialise a lazy view, where that is needed.
    Raises: ArgumentTypeError for a tensor that is not on the CPU, ArgumentError for one that is
    lazy, or that requires grad while operations are recorded, unless forced.
    """
    if force:
        tensor = materialised(calls.detach(tensor).cpu())
    _check_readable("numpy", tensor)
    # A view, since the caller may give the array another shape, and the tensor keeps its own.
    return tensor._get_array().view()


def _check_readable(op: str, tensor: Tensor) -> None:
    if tensor.requires_grad and not tensors.variable.grad_mode.get():  # and operations are recorded
        raise errors.must(op, "self", "not require grad", tensor, remedy="use .detach().numpy()")
    if tensor._device is not CPU:
        raise errors.must(
            op, "self", "be on the CPU", tensor, kind=errors.ArgumentTypeError,
            remedy="" if tensor.is_meta else "use .cpu() to copy it there",
        )  # fmt: skip
    if tensor._keys & LAZY:
        raise errors.not_in_memory(op, tensor)


def array(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """`Tensor.__array__`: NumPy's protocol, with NumPy 2's meaning of `copy`.

    copy: True always copies, False raises where a cast needs one, None copies where needed.
    """
    _check_readable("__array__", tensor)
    shared = tensor._get_array().view()
    copy = None if copy is None else flag("__array__", "copy", copy)
    if dtype is not None:
        try:
            dtype = np.dtype(dtype)
        except Exception:
            raise errors.must(
                "__array__", "dtype", "be a dtype of NumPy", dtype, kind=errors.ArgumentTypeError
            ) from None
    if copy is False and dtype is not None and dtype != shared.dtype:
        raise errors.must(
            "__array__", "copy", "not be False where a cast needs a copy", dtype.name,
            kind=errors.ArgumentValueError,
        )  # fmt: skip
    if copy:
        return np.array(shared, dtype=dtype, copy=True)
    return shared if dtype is None else shared.astype(dtype, copy=False)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A CPU tensor that shares the array's memory and keeps its strides.

    A read-only array gives a tensor whose writes NumPy refuses.
    Raises: ArgumentTypeError for dtypes that tensors do not have (object, text, swapped bytes);
    ArgumentValueError for negative strides and for strides between elements.
    """
    if not isinstance(array, np.ndarray):
        raise errors.must(
            "from_numpy", "array", "be a numpy.ndarray", array, kind=errors.ArgumentTypeError,
            remedy="use gputensor.tensor(...) or gputensor.asarray(...)",
        )  # fmt: skip
    element = element_of("from_numpy", array.dtype)
    strides = element_strides("from_numpy", "array", array.shape, array.strides, element.itemsize)
    shape = geometry(array.shape, strides, element)
    if shape.is_contiguous and shape.numel:
        made = from_array(array.view(np.ndarray), shape)
        made._storage = storage_of_array(made._array, SharedStorage)
        return made
    interface = array.__array_interface__["data"]
    storage = storage_over(interface[0], shape.extent * element.itemsize, array, interface[1])
    return from_storage(storage, 0, shape, CPU_KEYS)


def array_of(op: str, arg: str, obj: Any) -> np.ndarray[Any, Any]:
    """The ndarray that an object's buffer or array interface describes, over its memory.

    Raises: ArgumentTypeError where NumPy cannot read the description, or it leads nowhere.
    """
    try:
        found = np.asarray(obj)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, errors.GpuTensorError):
            raise
        got = errors.Got(f"{type(obj).__name__}: {str(error).partition(chr(10))[0]}")
        rule = "be an array that NumPy can read"
        raise errors.must(op, arg, rule, got, kind=errors.ArgumentTypeError) from error
    if found.size and not found.__array_interface__["data"][0]:
        got = errors.Got(f"{type(obj).__name__} with a null pointer")
        raise errors.must(op, arg, "have memory", got, kind=errors.ArgumentTypeError)
    return found


def element_of(op: str, np_type: np.dtype[Any]) -> dtypes.dtype:
    """The tensor dtype of a NumPy dtype, or the sentence that there is none."""
    element = dtypes.from_numpy(np_type)
    if element is not None:
        return element
    remedy = ""
    if np_type.fields is None and dtypes.from_numpy(np_type.newbyteorder("=")) is not None:
        remedy = f"use .astype('{np_type.newbyteorder('=').name}') for native byte order"
    elif np_type.kind == "O":
        remedy = "use .astype(...) to a numeric dtype"
    raise errors.must(
        op, "array", "have a dtype that tensors have", errors.Got(f"numpy dtype {np_type.str}"),
        kind=errors.ArgumentTypeError, remedy=remedy,
    )  # fmt: skip


def element_strides(
    op: str, arg: str, sizes: tuple[int, ...], stride_bytes: tuple[int, ...], itemsize: int
) -> tuple[int, ...]:
    """Strides in elements. Negative ones, and ones that no element count gives, are refused.

    A dimension of one element or none is never walked, so there the sign and the remainder go.
    """
    strides = []
    for size, stride in zip(sizes, stride_bytes):
        if size > 1 and stride < 0:
            raise errors.must(
                op, arg, "have no negative strides",
                errors.Got(f"strides {tuple(stride_bytes)} in bytes"),
                kind=errors.ArgumentValueError, remedy="use .copy() first",
            )  # fmt: skip
        if size > 1 and stride % itemsize:
            raise errors.must(
                op, arg, f"have strides that are multiples of {itemsize} bytes",
                errors.Got(f"strides {tuple(stride_bytes)}"),
                kind=errors.ArgumentValueError, remedy="use .copy() first",
            )  # fmt: skip
        strides.append(abs(stride) // itemsize)
    return tuple(strides)


def asarray(
    obj: Any,
    *,
    dtype: dtypes.dtype | None = None,
    device: device | str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of `obj`, sharing its memory where it can.

    Args:
        obj: a tensor, an array of any library (NumPy, DLPack, buffer protocol), a number, or nested
            sequences of numbers.
        dtype, device: what the result must have; None keeps what `obj` has.
        copy: True always copies, False raises where that is needed, None copies where it is.
    """
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise errors.not_a_dtype("asarray", dtype)
    copy = None if copy is None else flag("asarray", "copy", copy)
    found, is_fresh = _shared(obj, dtype, device)
    target = found._device if device is None else backend_select.resolve(_device(device))
    element = found._geometry.dtype if dtype is None else dtype
    is_changed = target is not found._device or element is not found._geometry.dtype
    if copy is False and (is_fresh or is_changed):
        raise errors.must(
            "asarray", "copy", "not be False where memory cannot be shared",
            errors.Got(type(obj).__name__),
            kind=errors.ArgumentValueError,
        )  # fmt: skip
    if is_changed:
        return calls.to_device(found, target, element)
    return calls.clone(found) if copy and not is_fresh else found


def _device(given: device | str) -> device:
    return given if type(given) is device else device(given)


def _shared(obj: Any, dtype: dtypes.dtype | None, device: Any) -> tuple[Tensor, bool]:
    """A tensor over obj's memory where it has some; else a new one, and True."""
    if isinstance(obj, Tensor):
        return obj, False
    if isinstance(obj, np.generic):
        return from_numpy(np.asarray(obj).copy()), True
    if isinstance(obj, np.ndarray):
        return from_numpy(obj), False
    if hasattr(obj, "__dlpack__"):
        from . import dlpack

        return dlpack.from_dlpack(obj), False
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__array__"):
        return from_numpy(array_of("asarray", "obj", obj)), False
    if not isinstance(obj, (bytes, str, list, tuple)):
        try:
            view = memoryview(obj)
        except TypeError:
            pass
        else:
            return from_numpy(array_of("asarray", "obj", view)), False
    from . import construct

    return construct.tensor(obj, dtype=dtype, device=device), True
