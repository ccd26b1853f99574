"""DLPack both ways: memory shared with every library that speaks it, strides kept, all dtypes.

Note [A capsule from NumPy]
A DLPack capsule needs a C function that frees it from any thread, with the GIL or without, and even
while the interpreter ends. A Python callback cannot promise that, and NumPy's own deleter does. So
an export takes the capsule of a small NumPy array with as many dimensions, whose base keeps the
tensor's memory alive, and overwrites what the struct says: address, device, dtype, sizes, strides,
flags. The layouts of the structs are fixed by the standard (dlpack.h, versions 0.8 and 1.x).
"""

from __future__ import annotations

import ctypes
import operator
from typing import Any

import numpy as np

from .. import runtime
from .._generated import calls
from ..core import dtype as dtypes
from ..core import errors
from ..core.arguments import flag
from ..core.device import CPU, device
from ..core.geometry import MOST_DIMS, geometry, unholdable
from ..core.memory_format import contiguous_strides
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.keys import LAZY
from ..tensor.storage import SharedStorage, storage_over
from ..tensor.tensor import CPU_KEYS, Tensor, from_storage

# Device types and flags of dlpack.h.
CPU_DEVICE, CUDA_DEVICE, CUDA_HOST_DEVICE = 1, 2, 3
READ_ONLY, IS_COPIED = 1, 2
# The newest version whose structs are read and written here.
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
_get_name = _api.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_get_pointer = _api.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_set_name = _api.PyCapsule_SetName
_set_name.restype, _set_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_PyCapsule = type(np.empty(0).__dlpack__())  # has no name before Python 3.13
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_STRUCTS: dict[bytes, Any] = {b"dltensor": _Managed, b"dltensor_versioned": _ManagedVersioned}
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}
for _name in _USED.values():
    # A capsule keeps the pointer, not the object, and may outlive this module.
    _api.Py_IncRef(ctypes.py_object(_name))

# dtype <-> (code, bits): kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLComplex 5, kDLBool 6
_CODES = {
    d: (
        4 if d is dtypes.bfloat16 else 6 if d is dtypes.bool_ else 5 if d.is_complex
        else 2 if d.is_floating_point else 0 if d.is_signed else 1,
        d.itemsize * 8,
    )
    for d in dtypes.ALL
}  # fmt: skip
_DTYPES = {code: d for d, code in _CODES.items()}


# --- giving -------------------------------------------------------------------------------------


def device_of(tensor: Tensor) -> tuple[int, int]:
    """`Tensor.__dlpack_device__`: (device type, index).

    Raises: ExchangeError for devices that other libraries do not know. The emulator is one of them:
    its memory is not a GPU's, whatever it is called here.
    """
    place = tensor._device
    if place is CPU:
        return CPU_DEVICE, 0
    if place.type == "cuda" and not runtime.cuda().is_emulated:
        return CUDA_DEVICE, place.index or 0
    what = "emulated CUDA" if place.type == "cuda" else place.type
    raise errors.not_exchangeable(
        "__dlpack__", "self", "be on the CPU or a real CUDA device", errors.Got(f"{what} tensor"),
        remedy="" if place.type == "meta" else "use .cpu() to copy it there",
    )  # fmt: skip


def export(
    tensor: Tensor, stream: int | None = None, max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None, copy: bool | None = None,
) -> Any:  # fmt: skip
    """`Tensor.__dlpack__`: a capsule over the tensor's memory.

    stream: on CUDA, the consumer's stream, which waits for what ours has queued; -1 for no order.
    max_version: a versioned capsule from (1, 0) on, the legacy one otherwise. dl_device: (1, 0)
    copies to the host. copy: True copies, False raises where a copy is needed.
    """
    if tensor.requires_grad:
        raise errors.not_exchangeable(
            "__dlpack__", "self", "not require grad", tensor, remedy="use .detach()"
        )
    dl_device = _pair("dl_device", dl_device)
    max_version = _pair("max_version", max_version)
    copy = None if copy is None else flag("__dlpack__", "copy", copy)
    if stream is not None and not isinstance(stream, int):
        raise errors.not_exchangeable("__dlpack__", "stream", "be an int or None", stream)
    flags = 0
    if dl_device is not None and tuple(dl_device) == (CPU_DEVICE, 0) and tensor._device is not CPU:
        if copy is False:
            raise errors.not_exchangeable(
                "__dlpack__",
                "copy",
                "not be False where the device changes",
                errors.Got("dl_device=kDLCPU"),
            )
        tensor, stream, flags = tensor.cpu(), None, IS_COPIED
    where = device_of(tensor)
    if dl_device is not None and tuple(dl_device) != where:
        raise errors.not_exchangeable(
            "__dlpack__",
            "dl_device",
            f"be {where} or (1, 0)",
            errors.Got(str(tuple(map(int, dl_device)))),
        )
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
    """Let the consumer's stream wait for what our current stream has queued; the host does not.

    Once the memory is dropped here and there, it waits for what the consumer's stream has then.
    stream: a pointer; None, 0 or 1 for the legacy default stream; -1 for no order.
    """
    if stream == -1:
        return
    cuda = runtime.cuda()
    theirs = current = cuda.current_stream(device_index)
    if (stream or 0) != current.ptr:
        # A consumer has its stream as long as the capsule's memory, so that it can be asked then.
        theirs = cuda.external_stream(device_index, stream or 0, "the consumer's")
    if theirs.key != current.key:
        theirs.wait_stream(current)
    cuda.record_stream(tensor._get_storage().data, theirs)


class _Keeper:
    """What NumPy takes for an array of `ndim` dimensions; it keeps a tensor's memory alive."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, ndim: int, memory: Any) -> None:
        # Two elements at one place: no dense array, so NumPy puts strides into the capsule.
        self.__array_interface__ = {
            "data": (ctypes.addressof(_byte), False),
            "shape": (2, *(1,) * (ndim - 1)) if ndim else (),
            "strides": (0,) * ndim, "typestr": "|u1", "version": 3,
        }  # fmt: skip
        self.memory = memory


_byte = ctypes.c_char()


def _capsule(tensor: Tensor, where: tuple[int, int], flags: int, is_versioned: bool) -> Any:
    """See Note [A capsule from NumPy]."""
    shape = tensor._geometry
    if tensor._keys & LAZY:
        raise errors.not_in_memory("__dlpack__", tensor, errors.ExchangeError)
    memory = tensor._get_storage().data
    if isinstance(memory, np.ndarray) and not memory.flags.writeable:
        flags |= READ_ONLY
        if not is_versioned:
            raise errors.not_exchangeable(
                "__dlpack__", "self", "be writable for a consumer of DLPack before 1.0",
                errors.Got("a read-only tensor"), remedy="use .clone()",
            )  # fmt: skip
    keeper = np.asarray(_Keeper(shape.ndim, memory))
    capsule = keeper.__dlpack__(max_version=VERSION) if is_versioned else keeper.__dlpack__()
    name = _get_name(capsule)
    managed = _STRUCTS[name].from_address(_get_pointer(capsule, name))
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


# --- taking -------------------------------------------------------------------------------------


def from_dlpack(ext: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of `ext`: an object with `__dlpack__`, or a DLPack capsule.

    Args:
        device: where the result must be; None for where the memory is.
        copy: True always copies, False raises where a copy is needed, None copies where needed.
    Raises: ExchangeError for devices, dtypes and negative strides that tensors do not have.
    """
    if isinstance(ext, _PyCapsule):
        found = _take(ext)
    elif hasattr(ext, "__dlpack__"):
        found = _take(_ask(ext))
    else:
        raise errors.must(
            "from_dlpack", "ext", "have __dlpack__ or be a DLPack capsule",
            errors.Got(type(ext).__name__),
            kind=errors.ArgumentTypeError,
        )  # fmt: skip
    target = found._device if device is None else _as_device(device)
    if target is not found._device:
        if copy is False:
            raise errors.not_exchangeable(
                "from_dlpack",
                "copy",
                "not be False where the device changes",
                errors.Got(f"device={target}"),
            )
        return calls.to_device(found, target, found._geometry.dtype)
    return calls.clone(found) if flag("from_dlpack", "copy", copy) else found


def _as_device(given: Any) -> device:
    from ..dispatch import backend_select

    return backend_select.resolve(device(given))


def _ask(ext: Any) -> Any:
    """The capsule of `ext`, ordered before what our current stream does next."""
    keywords: dict[str, Any] = {}
    given = ext.__dlpack_device__() if hasattr(ext, "__dlpack_device__") else (CPU_DEVICE, 0)
    try:
        kind, index = given
        if kind.__class__ is not int or index.__class__ is not int:
            kind, index = operator.index(kind), operator.index(index)
    except (TypeError, ValueError):
        got = errors.Got(f"__dlpack_device__() of {errors.describe(given)}")
        raise _refused("name its device as two ints", got) from None
    if kind == CUDA_DEVICE:
        # 1 stands for the legacy default stream; 0 is not allowed.
        keywords["stream"] = _real_cuda(index).current_stream(index).ptr or 1
    try:
        capsule = ext.__dlpack__(max_version=VERSION, **keywords)
    except TypeError:  # a producer from before DLPack 1.0
        capsule = ext.__dlpack__(**keywords)
    if not isinstance(capsule, _PyCapsule):
        got = errors.Got(f"__dlpack__() of {errors.describe(capsule)}")
        raise _refused("give a DLPack capsule", got)
    return capsule


def _refused(rule: str, got: errors.Got, remedy: str = "") -> errors.ExchangeError:
    return errors.not_exchangeable("from_dlpack", "ext", rule, got, remedy=remedy)


def _real_cuda(index: int) -> Any:
    cuda = runtime.cuda()
    remedy = "copy it to the host first"
    if cuda.is_emulated or not cuda.is_available():
        raise _refused("be on a device of this process", errors.Got("CUDA memory"), remedy)
    if not 0 <= index < cuda.device_count():
        raise _refused("be on a device of this process", errors.Got(f"CUDA device {index}"), remedy)
    return cuda


class _Owner:
    """Gives a foreign struct back to its producer when the last tensor over it goes."""

    __slots__ = ("address", "deleter", "__weakref__")

    def __init__(self, address: int) -> None:
        self.address, self.deleter = address, None

    def consume(self, capsule: Any, name: bytes, deleter: int | None) -> None:
        """From here on the struct is ours to give back, and no longer the capsule's."""
        call = _Deleter(deleter) if deleter else None
        _set_name(capsule, _USED[name])
        self.deleter = call

    def give_back(self) -> None:
        deleter, self.deleter = self.deleter, None
        if deleter is not None:
            deleter(self.address)

    __del__ = give_back


def _take(capsule: Any) -> Tensor:
    """Consume a capsule. It stays whole until all is made: an error leaves it to its producer."""
    name = _get_name(capsule)
    if name not in _STRUCTS:
        got = errors.Got(f"a capsule named {(name or b'').decode(errors='replace')!r}")
        raise _refused("be a capsule that nobody has taken", got)
    address = _get_pointer(capsule, name)
    managed = _STRUCTS[name].from_address(address)
    is_versioned = name == b"dltensor_versioned"
    if is_versioned and managed.major != VERSION[0]:
        got = errors.Got(f"version {managed.major}.{managed.minor}")
        raise _refused("speak DLPack 1", got)
    described = managed.tensor
    kind, index = described.device_type, described.device_id
    if kind == CUDA_DEVICE:
        _real_cuda(index)
    elif kind not in (CPU_DEVICE, CUDA_HOST_DEVICE):
        got = errors.Got(f"DLPack device type {kind}")
        raise _refused("be on the CPU or a CUDA device", got)
    shape = _geometry_of(described)
    nbytes = shape.extent * shape.dtype.itemsize
    pointer = _pointer_of(described, nbytes)
    owner = _Owner(address)
    if kind == CUDA_DEVICE:
        # The CPU reads elements anywhere; on a GPU the access fails, and with it the process's
        # context.
        if nbytes and pointer % shape.dtype.itemsize:
            rule, got = (
                f"begin at a multiple of {shape.dtype.itemsize} bytes",
                f"address {pointer:#x}",
            )
            raise _refused(rule, errors.Got(got), "copy it in its library first")
        place, keys = device("cuda", index), TENSOR_KEYS["cuda"]
        # Work on it may still be queued when the last tensor goes; the producer knows nothing of
        # it.
        memory = runtime.cuda().borrow(pointer, nbytes, index, owner.give_back)
        storage = SharedStorage(memory, nbytes, place)
    else:
        is_readonly = is_versioned and bool(managed.flags & READ_ONLY)
        storage, keys = storage_over(pointer, nbytes, owner, is_readonly), CPU_KEYS
    made = from_storage(storage, 0, shape, keys)
    owner.consume(capsule, name, managed.deleter)
    return made


def _pointer_of(described: Any, nbytes: int) -> int:
    pointer = (described.data or 0) + described.byte_offset
    if nbytes and not described.data:
        raise _refused("have memory", errors.Got("a null pointer"))
    if pointer + nbytes > _ADDRESSES:
        got = errors.Got(f"{nbytes} bytes at address {pointer:#x}")
        raise _refused("lie within the address space", got)
    return pointer


_ADDRESSES = 1 << 8 * ctypes.sizeof(ctypes.c_void_p)


def _geometry_of(described: Any) -> Any:
    """The layout, each number of which is looked at before anything is read by it."""
    element = _DTYPES.get((described.code, described.bits))
    if element is None or described.lanes != 1:
        got = f"code {described.code}, {described.bits} bits, {described.lanes} lanes"
        raise _refused("have a dtype that tensors have", errors.Got(got))
    ndim = described.ndim
    if not 0 <= ndim <= MOST_DIMS:
        raise _refused(f"have 0 to {MOST_DIMS} dimensions", errors.Got(f"{ndim}"))
    if ndim and not described.shape:
        raise _refused("say its sizes", errors.Got(f"{ndim} dimensions and a null pointer"))
    sizes = tuple(described.shape[:ndim]) if ndim else ()
    strides = tuple(described.strides[:ndim]) if ndim and described.strides else None
    key = (sizes, strides, element)
    known = _layouts.get(key)
    if known is None:
        if len(_layouts) >= _MOST_LAYOUTS:
            _layouts.clear()
        known = _layouts[key] = _checked(sizes, strides, element)
    return known


# What was checked once: arrays come in few layouts, and in a loop.
_layouts: dict[Any, Any] = {}
_MOST_LAYOUTS = 1024


def _checked(sizes: tuple[int, ...], strides: tuple[int, ...] | None, element: dtypes.dtype) -> Any:
    if strides is None:
        strides = (0,) * len(sizes) if any(s < 0 for s in sizes) else contiguous_strides(sizes)
    if any(stride < 0 and size > 1 for size, stride in zip(sizes, strides)):
        got = errors.Got(f"strides {strides}")
        raise _refused("have no negative strides", got, "use .copy() first")
    # A dimension of one element is never walked, so its sign means nothing.
    strides = tuple([abs(s) for s in strides])
    wrong = unholdable(sizes, strides, element.itemsize)
    if wrong:
        raise _refused("have a layout that memory can hold", errors.Got(wrong))
    return geometry(sizes, strides, element)
