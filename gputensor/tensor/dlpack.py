"""DLPack: the structs of the standard, and the export of a tensor's memory as a capsule.
exchange/dlpack.py imports capsules.

Note [A capsule from NumPy] A DLPack capsule needs a C function that frees it from any thread, with
or without the GIL, even while the interpreter ends. A Python callback cannot do this, but NumPy's
deleter can. So an export makes the capsule of a small NumPy array with the same number of
dimensions. This array's base object keeps the tensor's memory alive. Then the export overwrites the
fields of the struct: address, device, dtype, sizes, strides, flags. The standard fixes the layouts
of the structs (dlpack.h, versions 0.8 and 1.x).
"""

from __future__ import annotations

import ctypes
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import runtime
from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.arguments import flag
from ..core.device import CPU
from ..dispatch.keys import LAZY

if TYPE_CHECKING:
    from .tensor import Tensor

# Device types and flags of dlpack.h.
CPU_DEVICE, CUDA_DEVICE, CUDA_HOST_DEVICE = 1, 2, 3
READ_ONLY, IS_COPIED = 1, 2
# The newest version of DLPack whose structs are read and written here.
VERSION = (1, 0)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    ]  # fmt: skip


_api = ctypes.pythonapi
get_name = _api.PyCapsule_GetName
get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
get_pointer = _api.PyCapsule_GetPointer
get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
set_name = _api.PyCapsule_SetName
set_name.restype, set_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
PyCapsule = type(np.empty(0).__dlpack__())  # the type has no public name before Python 3.13
Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

STRUCTS: dict[bytes, Any] = {b"dltensor": _Managed, b"dltensor_versioned": _ManagedVersioned}
USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}
for _name in USED.values():
    # A capsule stores only a pointer to its name and may outlive this module, so the name must
    # never be freed.
    _api.Py_IncRef(ctypes.py_object(_name))

# Maps a dtype to (code, bits). Codes: kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLComplex 5,
# kDLBool 6.
_CODES = {
    d: (
        4 if d is dtypes.bfloat16 else 6 if d is dtypes.bool_ else 5 if d.is_complex
        else 2 if d.is_floating_point else 0 if d.is_signed else 1,
        d.itemsize * 8,
    )
    for d in dtypes.STORED
}  # fmt: skip
# Codes of the float8 types, such as kDLFloat8_e4m3fn, since DLPack 1.1.
_CODES |= {
    dtypes.float8_e4m3fn: (10, 8), dtypes.float8_e4m3fnuz: (11, 8), dtypes.float8_e5m2: (12, 8),
    dtypes.float8_e5m2fnuz: (13, 8), dtypes.float8_e8m0fnu: (14, 8),
}  # fmt: skip
DTYPES = {code: d for d, code in _CODES.items()}


def device_of(tensor: Tensor) -> tuple[int, int]:
    """Implement `Tensor.__dlpack_device__`: return (device type, index).

    Raises: ExchangeError for devices that other libraries do not support. These include the
    emulator's devices, because their memory is not on a GPU.
    """
    place = tensor._device
    if place is CPU:
        return CPU_DEVICE, 0
    if place.type == "cuda" and not runtime.cuda().is_emulated:
        return CUDA_DEVICE, place.index or 0
    what = "emulated CUDA" if place.type == "cuda" else place.type
    rule, got = "be on the CPU or a real CUDA device", errors.Got(f"{what} tensor")
    remedy = "" if place.type == "meta" else "use .cpu() to copy it there"
    raise errors.not_exchangeable("__dlpack__", "self", rule, got, remedy=remedy)


def export(
    tensor: Tensor, stream: int | None = None, max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None, copy: bool | None = None,
) -> Any:  # fmt: skip
    """Implement `Tensor.__dlpack__`: return a capsule over the tensor's memory.

    stream: on CUDA, the consumer's stream, which then waits for our queued work; -1 skips this
    wait. max_version: from (1, 0) on, the capsule has the versioned struct, otherwise the legacy
    one. dl_device: (1, 0) copies to the host. copy: True always copies; False raises if a copy is
    needed.
    """
    if tensor.requires_grad:
        rule, remedy = "not require grad", "use .detach()"
        raise errors.not_exchangeable("__dlpack__", "self", rule, tensor, remedy=remedy)
    dl_device = _pair("dl_device", dl_device)
    max_version = _pair("max_version", max_version)
    copy = None if copy is None else flag("__dlpack__", "copy", copy)
    if stream is not None and not isinstance(stream, int):
        raise errors.not_exchangeable("__dlpack__", "stream", "be an int or None", stream)
    flags = 0
    if dl_device is not None and tuple(dl_device) == (CPU_DEVICE, 0) and tensor._device is not CPU:
        if copy is False:
            rule, got = "not be False where the device changes", errors.Got("dl_device=kDLCPU")
            raise errors.not_exchangeable("__dlpack__", "copy", rule, got)
        tensor, stream, flags = tensor.cpu(), None, IS_COPIED
    where = device_of(tensor)
    if dl_device is not None and tuple(dl_device) != where:
        rule, got = f"be {where} or (1, 0)", errors.Got(str(tuple(map(int, dl_device))))
        raise errors.not_exchangeable("__dlpack__", "dl_device", rule, got)
    if copy and not flags:
        tensor, flags = calls.clone(tensor), IS_COPIED
    if where[0] == CUDA_DEVICE:
        _finish_before(tensor, where[1], stream)
    elif stream not in (None, -1):
        raise errors.not_exchangeable("__dlpack__", "stream", "be None on the CPU", stream)
    return _capsule(tensor, where, flags, max_version is not None and max_version[0] >= 1)


def _pair(arg: str, given: Any) -> tuple[int, int] | None:
    if given is None:
        return None
    try:
        first, second = map(operator.index, given)
    except (TypeError, ValueError):
        raise errors.not_exchangeable("__dlpack__", arg, "be two ints", given) from None
    return first, second


def _finish_before(tensor: Tensor, device_index: int, stream: int | None) -> None:
    """Make the consumer's stream wait for our current stream, without blocking the host.

    After both libraries have dropped the memory, its reuse also waits for the consumer's stream.
    stream: a pointer; None, 0 or 1 for the legacy default stream; -1 to do nothing.
    """
    if stream == -1:
        return
    cuda = runtime.cuda()
    theirs = current = cuda.current_stream(device_index)
    if (stream or 0) != current.ptr:
        # The consumer must not destroy its stream before it drops the capsule's memory, so the
        # stream can be queried until then.
        theirs = cuda.external_stream(device_index, stream or 0, "the consumer's")
    if theirs.key != current.key:
        theirs.wait_stream(current)
    cuda.record_stream(tensor._get_storage().data, theirs)


class _Keeper:
    """An object from whose `__array_interface__` NumPy makes an array of `ndim` dimensions. It
    keeps `memory` alive."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, ndim: int, memory: Any) -> None:
        # The array has two elements at one address. It is not dense, so NumPy puts strides into the
        # capsule.
        self.__array_interface__ = {
            "data": (ctypes.addressof(_byte), False),
            "shape": (2, *(1,) * (ndim - 1)) if ndim else (),
            "strides": (0,) * ndim, "typestr": "|u1", "version": 3,
        }  # fmt: skip
        self.memory = memory


_byte = ctypes.c_char()


def _capsule(tensor: Tensor, where: tuple[int, int], flags: int, is_versioned: bool) -> Any:
    """Return a capsule over the tensor's memory. See Note [A capsule from NumPy]."""
    shape = tensor._geometry
    if tensor._keys & LAZY:
        raise errors.not_in_memory("__dlpack__", tensor, errors.ExchangeError)
    memory = tensor._get_storage().data
    if isinstance(memory, np.ndarray) and not memory.flags.writeable:
        flags |= READ_ONLY
        if not is_versioned:
            rule, got = "be writable for a consumer of DLPack before 1.0", "a read-only tensor"
            remedy = "use .clone()"
            raise errors.not_exchangeable(
                "__dlpack__", "self", rule, errors.Got(got), remedy=remedy
            )
    keeper = np.asarray(_Keeper(shape.ndim, memory))
    capsule = keeper.__dlpack__(max_version=VERSION) if is_versioned else keeper.__dlpack__()
    name = get_name(capsule)
    managed = STRUCTS[name].from_address(get_pointer(capsule, name))
    described = managed.tensor
    described.data = tensor.data_ptr() or None
    described.byte_offset = 0
    described.device_type, described.device_id = where
    described.code, described.bits = _CODES[shape.dtype]
    described.lanes = 1
    assert described.ndim == shape.ndim and (bool(described.strides) or not shape.ndim), shape
    for dim in range(shape.ndim):
        described.shape[dim], described.strides[dim] = shape.sizes[dim], shape.strides[dim]
    if is_versioned:
        managed.flags = flags
    return capsule
