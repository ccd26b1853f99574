"""`from_dlpack`: tensors that share memory with arrays of other libraries, with their strides, for
all dtypes.

Each number in a struct of another library is checked before it is used.
"""

from __future__ import annotations

import ctypes
import operator
from functools import lru_cache
from typing import Any

from .. import runtime
from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.arguments import flag
from ..core.device import device
from ..core.geometry import MOST_DIMS, geometry, unholdable
from ..core.memory_format import contiguous_strides
from ..dispatch import backend_select
from ..dispatch.backend_select import TENSOR_KEYS
from ..tensor.dlpack import (
    CPU_DEVICE, CUDA_DEVICE, CUDA_HOST_DEVICE, DTYPES, READ_ONLY, STRUCTS, USED, VERSION, Deleter,
    PyCapsule, get_name, get_pointer, set_name,
)  # fmt: skip
from ..tensor.make import CPU_KEYS, from_storage
from ..tensor.storage import SharedStorage, Storage, storage_over
from ..tensor.tensor import Tensor


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over the memory of `ext_tensor`: an object with `__dlpack__`, or a DLPack
    capsule.

    Args:
        device: the device of the result; None means the device of the memory.
        copy: True always copies, False raises if a copy is needed, None copies if needed.
    Raises: ExchangeError for devices, dtypes and negative strides that tensors do not support.
    """
    if isinstance(ext_tensor, PyCapsule):
        found = _take(ext_tensor)
    elif hasattr(ext_tensor, "__dlpack__"):
        found = _take(_ask(ext_tensor))
    else:
        rule = "have __dlpack__ or be a DLPack capsule"
        got = errors.Got(type(ext_tensor).__name__)
        raise errors.wrong_type("from_dlpack", "ext_tensor", rule, got)
    target = found._device if device is None else _as_device(device)
    if target is not found._device:
        if copy is False:
            raise errors.not_exchangeable(
                "from_dlpack", "copy", "not be False where the device changes",
                errors.Got(f"device={target}"),
            )  # fmt: skip
        return calls.to_device(found, target, found._geometry.dtype)
    return calls.clone(found) if flag("from_dlpack", "copy", copy) else found


def _as_device(given: Any) -> device:
    return backend_select.resolve(device(given))


def _ask(ext: Any) -> Any:
    """Return the DLPack capsule of `ext`. Its memory is ready for work on our current stream."""
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
        # 1 is the legacy default stream; DLPack does not allow 0
        keywords["stream"] = _real_cuda(index).current_stream(index).ptr or 1
    try:
        capsule = ext.__dlpack__(max_version=VERSION, **keywords)
    except TypeError:  # the producer is older than DLPack 1.0
        capsule = ext.__dlpack__(**keywords)
    if not isinstance(capsule, PyCapsule):
        got = errors.Got(f"__dlpack__() of {errors.describe(capsule)}")
        raise _refused("give a DLPack capsule", got)
    return capsule


def _refused(rule: str, got: errors.Got, remedy: str = "") -> errors.GpuTensorError:
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
    """Owner of a DLPack struct of another library. It returns the struct to its producer when the
    last tensor is dropped."""

    __slots__ = ("address", "deleter", "__weakref__")

    def __init__(self, address: int) -> None:
        self.address = address
        self.deleter: Any = None

    def consume(self, capsule: Any, name: bytes, deleter: int | None) -> None:
        """Take ownership of the struct from the capsule. Afterwards this object releases the
        struct."""
        call = Deleter(deleter) if deleter else None
        set_name(capsule, USED[name])
        self.deleter = call

    def give_back(self) -> None:
        deleter, self.deleter = self.deleter, None
        if deleter is not None:
            deleter(self.address)

    __del__ = give_back


def _take(capsule: Any) -> Tensor:
    """Return the tensor that a capsule describes, and mark the capsule as consumed. After an error
    the capsule is unchanged."""
    name = get_name(capsule)
    if name not in STRUCTS:
        got = errors.Got(f"a capsule named {(name or b'').decode(errors='replace')!r}")
        raise _refused("be a capsule that is not consumed yet", got)
    address = get_pointer(capsule, name)
    managed = STRUCTS[name].from_address(address)
    is_versioned = name == b"dltensor_versioned"
    if is_versioned and managed.major != VERSION[0]:
        raise _refused("speak DLPack 1", errors.Got(f"version {managed.major}.{managed.minor}"))
    described = managed.tensor
    kind, index = described.device_type, described.device_id
    if kind == CUDA_DEVICE:
        _real_cuda(index)
    elif kind not in (CPU_DEVICE, CUDA_HOST_DEVICE):
        raise _refused("be on the CPU or a CUDA device", errors.Got(f"DLPack device type {kind}"))
    shape = _geometry_of(described)
    nbytes = shape.extent * shape.dtype.itemsize
    pointer = _pointer_of(described, nbytes)
    owner = _Owner(address)
    if kind == CUDA_DEVICE:
        # The CPU can read unaligned elements. On a GPU such an access fails and destroys the
        # process's CUDA context.
        if nbytes and pointer % shape.dtype.itemsize:
            rule = f"begin at a multiple of {shape.dtype.itemsize} bytes"
            got = errors.Got(f"address {pointer:#x}")
            raise _refused(rule, got, "copy it in its library first")
        place, keys = device("cuda", index), TENSOR_KEYS["cuda"]
        # When the last tensor is dropped, work on the memory may still be queued. The producer does
        # not wait for this work, so `borrow` delays the return of the memory.
        memory = runtime.cuda().borrow(pointer, nbytes, index, owner.give_back)
        storage: Storage = SharedStorage.over(memory, nbytes, place)
    else:
        is_readonly = is_versioned and bool(managed.flags & READ_ONLY)
        storage, keys = storage_over(pointer, nbytes, owner, is_readonly), CPU_KEYS
    made = from_storage(storage, 0, shape, keys)
    owner.consume(capsule, name, managed.deleter)
    return made


def _pointer_of(described: Any, nbytes: int) -> int:
    pointer: int = (described.data or 0) + described.byte_offset
    if nbytes and not described.data:
        raise _refused("have memory", errors.Got("a null pointer"))
    if pointer + nbytes > _ADDRESSES:
        got = errors.Got(f"{nbytes} bytes at address {pointer:#x}")
        raise _refused("lie within the address space", got)
    return pointer


_ADDRESSES = 1 << 8 * ctypes.sizeof(ctypes.c_void_p)


def _geometry_of(described: Any) -> Any:
    """Return the layout that a DLPack struct describes. Each number is checked before it is
    used."""
    element = DTYPES.get((described.code, described.bits))
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
    return _checked(sizes, strides, element)


@lru_cache(maxsize=1024)  # programs use a few layouts repeatedly
def _checked(sizes: tuple[int, ...], strides: tuple[int, ...] | None, element: dtypes.dtype) -> Any:
    if strides is None:
        strides = (0,) * len(sizes) if any(s < 0 for s in sizes) else contiguous_strides(sizes)
    if any(stride < 0 and size > 1 for size, stride in zip(sizes, strides)):
        got = errors.Got(f"strides {strides}")
        raise _refused("have no negative strides", got, "use .copy() first")
    # the stride of a dimension of size 1 is never used, so its sign does not matter
    strides = tuple([abs(s) for s in strides])
    wrong = unholdable(sizes, strides, element.itemsize)
    if wrong:
        raise _refused("have a layout that memory can hold", errors.Got(wrong))
    return geometry(sizes, strides, element)
