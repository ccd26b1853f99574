"""`gt.tensor`: a new tensor from numbers, nested sequences, arrays or tensors. It always copies.

`asarray` shares memory if possible. nested.py converts nested sequences of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dlpack
from .._generated import calls
from ..core import errors
from ..core.arguments import element_type, flag
from ..core.device import device
from ..core.dtype import dtype
from ..core.geometry import Size
from ..dispatch import backend_select
from ..runtime import cpu
from ..structured import arguments
from ..tensor.tensor import Tensor
from .nested import PLAIN, from_numbers
from .numpy.bridge import array_of, from_numpy, over_copy

_dtype = dtype
# Kinds of NumPy dtypes whose elements are numbers.
_PLAIN = "biufc"


def tensor(
    data: Any, *, dtype: dtype | None = None, device: device | str | None = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return a new tensor with a copy of the elements of `data`.

    Args:
        data: a number, nested lists or tuples of numbers, an array, or a tensor.
        dtype: None derives it from data: bool, int64 for ints, the default dtype for floats, the
        corresponding complex dtype for complex numbers. Arrays and tensors keep their dtype.
        device: None means the tensor's device, or the default device for other data.
        pin_memory: page-locked host memory, for asynchronous copies.
    Raises: ArgumentValueError for ragged lists; ArgumentTypeError for a non-number;
    ArgumentError for numbers outside the dtype.

    >>> gt.tensor([[1, 2.5], [3, 4]])
    tensor([[1.0000, 2.5000],
            [3.0000, 4.0000]])
    """
    if dtype is not None and type(dtype) is not _dtype:
        dtype = element_type("tensor", dtype)
    made, is_fresh = _from(data, dtype)
    element = made._geometry.dtype if dtype is None else dtype
    # a tensor stays on its device; other data goes to the default device
    is_given = device is not None or is_fresh
    place = backend_select.resolve(_device(device)) if is_given else made._device
    if place is not made._device:
        made = calls.to_device(made, place, element)
    elif element is not made._geometry.dtype:
        made = calls.to_dtype(made, element)
    elif not is_fresh:
        made = calls.clone(made)
    if pin_memory is not False and flag("tensor", "pin_memory", pin_memory):
        from ..tensor import host_memory

        made = host_memory.pinned("tensor", made)
    if requires_grad is not False and flag("tensor", "requires_grad", requires_grad):
        made.requires_grad_()
    return made


def of_type(args: tuple[Any, ...], dtype: dtype, place: Any) -> Tensor:
    """Make a tensor as PyTorch's constructors of a type do, such as `torch.FloatTensor(2, 3)` and
    `x.new(2, 3)`.

    args: a tensor, whose memory the result shares if it has this dtype and device; a sequence of
    elements; or sizes of a tensor that is not initialised. No arguments give an empty tensor.
    Source: torch/csrc/utils/tensor_new.cpp, legacy_tensor_generic_ctor_new.
    """
    place = place if place is None else device(place)
    if len(args) == 1 and isinstance(args[0], Tensor):
        x = args[0]
        is_alike = x._geometry.dtype is dtype and place in (None, x._device)
        return calls.alias(x) if is_alike else tensor(x, dtype=dtype, device=place)
    if len(args) == 1 and not isinstance(args[0], (int, np.integer, Size)):
        return tensor(args[0], dtype=dtype, device=place)
    given = args[0] if len(args) == 1 and isinstance(args[0], Size) else args or (0,)
    sizes = arguments.sizes("new", given)
    return calls.empty_memory_format(sizes, dtype, None, place, None, None)


def as_tensor(data: Any, dtype: dtype | None = None, device: device | str | None = None) -> Tensor:
    """Return `data` as a tensor that shares its memory if possible. PyTorch's name for
    `asarray`."""
    return asarray(data, dtype=dtype, device=device)


def asarray(
    obj: Any, *, dtype: dtype | None = None, device: device | str | None = None,
    copy: bool | None = None, requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return `obj` as a tensor, sharing its memory if possible.

    Args:
        obj: a tensor, an array of any library (NumPy, DLPack, buffer protocol), a DLPack capsule, a
            number, or nested sequences of numbers.
        dtype, device: of the result; by default, of `obj`.
        copy: True always copies, False raises if a copy is needed, None copies if needed.
        requires_grad: of the result; by default, of `obj`. False removes the history.
    """
    if dtype is not None and type(dtype) is not _dtype:
        dtype = element_type("asarray", dtype)
    copy = None if copy is None else flag("asarray", "copy", copy)
    found, is_fresh = _shared(obj, dtype, device)
    target = found._device if device is None else backend_select.resolve(_device(device))
    element = found._geometry.dtype if dtype is None else dtype
    is_changed = target is not found._device or element is not found._geometry.dtype
    if copy is False and (is_fresh or is_changed):
        rule = "not be False where memory cannot be shared"
        raise errors.wrong_value("asarray", "copy", rule, errors.Got(type(obj).__name__))
    made = found
    if is_changed:
        made = calls.to_device(found, target, element)
    elif copy and not is_fresh:
        made = calls.clone(found)
    if requires_grad is None:
        return made
    needed = flag("asarray", "requires_grad", requires_grad)
    return made.requires_grad_() if needed else made.detach() if made.requires_grad else made


def _shared(obj: Any, dtype: dtype | None, device: Any) -> tuple[Tensor, bool]:
    """Return (a tensor over obj's memory, False), or (a new tensor, True) if the memory cannot be
    shared."""
    if isinstance(obj, Tensor):
        return obj, False
    if isinstance(obj, np.generic):
        return over_copy(np.asarray(obj).copy()), True
    if isinstance(obj, np.ndarray):
        return from_numpy(obj), False
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
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
    return tensor(obj, dtype=dtype, device=device), True


def _device(given: Any) -> device | None:
    return given if given is None or type(given) is device else device(given)


def _copied(data: Any) -> np.ndarray[Any, Any]:
    """Return a row-major copy of an array. A large copy is aligned like the results of CPU
    loops."""
    is_large = type(data) is np.ndarray and data.nbytes >= cpu.ALIGNED_FROM
    if not is_large or data.dtype.kind not in _PLAIN:
        return np.array(data, order="C", copy=True, subok=False)
    made = cpu.empty(data.shape, data.dtype)
    made[...] = data
    return made


def _from(data: Any, wanted: dtype | None) -> tuple[Tensor, bool]:
    """Return the data as a tensor, and True if no other object uses its memory."""
    if type(data) is list or type(data) in PLAIN:
        return from_numbers(data, wanted), True
    if hasattr(data, "_geometry"):
        return calls.detach(data), False
    if isinstance(data, (np.ndarray, np.generic)):
        return over_copy(_copied(data)), True
    if any([hasattr(data, name) for name in ("__dlpack__", "__array_interface__", "__array__")]):
        return asarray(data), False
    return from_numbers(data, wanted), True
