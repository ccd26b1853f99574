"""Arrays of other libraries: a class that describes them, and a context in which our kernels run on
their streams.

`described` describes an array of PyTorch, CuPy, NumPy, or any library with the CUDA array
interface. `seen` also accepts DLPack objects, and rejects arrays for which no plan can be made. No
memory is copied, and the host does not wait. Libraries are recognised among the loaded modules, so
this module imports none of them.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import cuda_array_interface
from .. import runtime
from ..core import dtype as dtypes, errors
from ..core.device import CPU, device
from ..core.dtype import dtype
from ..core.geometry import Geometry, Sizes, geometry
from ..dispatch.keys import LAZY
from ..tensor.storage import about_to_write, expose
from ..tensor.tensor import Tensor
from .dlpack import from_dlpack
from .numpy.bridge import array_of


class ForeignArray:
    """The memory and the layout of another library's array.

    device_index: -1 for host memory. dtype: None for types that tensors lack, such as a NumPy
    structure. stride_bytes: may be negative. array: the ndarray over CPU memory; set by `seen`.
    stream: the address of the library's stream, or None if it is our stream. stream_owner: keeps
    the stream alive, if known. keeper: keeps the memory alive. is_readonly: as declared by the
    library or by `array`.
    """

    __slots__ = (
        "library", "owner", "keeper", "place", "device_index", "dtype", "itemsize", "sizes",
        "stride_bytes", "_address", "array", "is_readonly", "stream", "stream_owner", "_dense",
    )  # fmt: skip
    library: str
    owner: Any
    keeper: Any
    place: device
    itemsize: int
    sizes: Sizes
    stride_bytes: Sizes
    is_readonly: bool

    def __init__(
        self, library: str, owner: Any, place: device, element: dtype | None, itemsize: int,
        sizes: Sizes, stride_bytes: Sizes, address: int | None,
    ) -> None:  # fmt: skip
        self.library, self.place = library, place
        self.device_index: int = -1 if place is CPU else place.index or 0
        self.owner = self.keeper = owner
        self.dtype: Any = element
        self.itemsize, self.sizes, self.stride_bytes = itemsize, sizes, stride_bytes
        self._address, self.is_readonly = address, False
        self.stream: int | None = None
        self.stream_owner: Any = None
        self.array: Any = None
        self._dense: bool | None = None

    @property
    def _geometry(self) -> Geometry:
        """Same as `geometry`. The code for error messages reads `_geometry` and `_device`, both of
        tensors and of objects of this class."""
        return self.geometry

    @property
    def _device(self) -> device:
        return self.place

    @property
    def geometry(self) -> Geometry:
        """The array's geometry, for plans and flags. Its strides may be negative."""
        size = self.itemsize
        return geometry(self.sizes, tuple([s // size for s in self.stride_bytes]), self.dtype)

    @property
    def address(self) -> int:
        """The address of the first element. It is read when needed, because reading it takes half
        of the time of a small copy."""
        if self._address is None:
            self._address = self.keeper.data_ptr()
        return self._address

    @property
    def numel(self) -> int:
        return math.prod(self.sizes)

    @property
    def is_contiguous(self) -> bool:
        if self._dense is None:
            self._dense = self._walk_is_dense()
        return self._dense

    def _walk_is_dense(self) -> bool:
        expected = self.itemsize
        for size, stride in zip(reversed(self.sizes), reversed(self.stride_bytes)):
            if size != 1 and stride != expected:
                return self.numel == 0
            expected *= size
        return True

    def span(self) -> tuple[int, int]:
        """Return the addresses of the first byte and of the byte after the last one."""
        if 0 in self.sizes:
            return self.address, self.address
        ends = [(n - 1) * s for n, s in zip(self.sizes, self.stride_bytes)]
        low = self.address + sum([e for e in ends if e < 0])
        return low, self.address + sum([e for e in ends if e > 0]) + self.itemsize

    def __str__(self) -> str:
        kind = self.dtype.short if self.dtype is not None else f"{self.itemsize}-byte elements"
        place = "host" if self.place is CPU else f"cuda:{self.device_index}"
        strides = "" if self.is_contiguous else f" with strides {self.stride_bytes} bytes"
        return f"{kind}[{','.join(map(str, self.sizes))}] {place}{strides}"


class _Bytes:
    """An array's memory in a form that np.asarray accepts. The resulting ndarray keeps the owner
    alive."""

    __slots__ = ("__array_interface__", "keeper")

    def __init__(self, of: ForeignArray) -> None:
        self.keeper = of.keeper
        self.__array_interface__ = {
            "data": (of.address, of.is_readonly), "shape": of.sizes, "strides": of.stride_bytes,
            "typestr": of.dtype.np.str, "version": 3,
        }  # fmt: skip


def library_of(x: Any) -> str:
    """Return the name of an array's library: numpy, gputensor, torch, cupy, jax, pil for an image,
    or "" for all other objects."""
    if isinstance(x, Tensor):
        return "gputensor"
    if isinstance(x, np.ndarray):
        return "numpy"
    for name, kind in (("torch", "Tensor"), ("cupy", "ndarray"), ("jax", "Array")):
        module = sys.modules.get(name)
        if module is not None and isinstance(x, getattr(module, kind, ())):
            return name
    images = sys.modules.get("PIL.Image")
    return "pil" if images is not None and isinstance(x, images.Image) else ""


def described(op: str, arg: str, x: Any, library: str | None = None) -> ForeignArray | None:
    """Return a ForeignArray made from the attributes of `x`, or None if `x` is not an array of a
    known library.

    library: `library_of(x)`, if the caller knows it. Raises: ArgumentValueError or
    ArgumentTypeError for a tensor whose memory does not contain its elements, and for an incomplete
    CUDA array interface.
    """
    library = library_of(x) if library is None else library
    if library == "gputensor":
        # The result gives other code access to the tensor's memory without an operator call.
        expose(x._get_storage())
        return _of_tensor(op, arg, x, x)
    if library == "numpy":
        found = _of_numpy(x)
        found.is_readonly = not x.flags.writeable
        return found
    if library == "torch":
        return _of_torch(op, arg, x)
    if hasattr(x, "__cuda_array_interface__"):
        return _of_interface(op, arg, x, library)
    return None


def seen(op: str, arg: str, x: Any, writes: bool = False) -> ForeignArray:
    """Return a ForeignArray for one call that reads or writes `x`. Its `array` is set if `x` is on
    the CPU.

    Raises: an ArgumentError for an object without strided memory.
    """
    library = library_of(x)
    if library == "pil":
        return _of_image(op, arg, x)
    found = speaks = None
    if library == "torch" and _is_plain(x):
        found = _of_strided_torch(x)
    elif library == "numpy":
        found = _of_numpy(x)
    elif library == "gputensor":
        if writes:
            about_to_write(x._get_storage())
        found = _of_tensor(op, arg, x, x)
    else:
        speaks = hasattr(x, "__dlpack__")
        if library == "cupy" or not speaks:
            found = described(op, arg, x, library)
    if found is None:
        if speaks is False:
            rule = "be an array with __dlpack__ or __cuda_array_interface__"
            raise errors.wrong_type(op, arg, rule, errors.Got(type(x).__name__))
        found = _of_capsule(op, arg, x, library)
    if found.place is not CPU or found.dtype is None or library == "gputensor":
        _check(op, arg, found)
    elif found.array is None:
        array = np.asarray(_Bytes(found))
        found.array = array if array.dtype == found.dtype.np else array.view(found.dtype.np)
    return found


def _check(op: str, arg: str, found: ForeignArray) -> None:
    """Raise an error if plans or copies cannot be made for the array."""
    element = found.dtype
    if element is None:
        if found.library == "numpy":
            name = f"numpy dtype {found.owner.dtype.str}"
        else:
            name = cuda_array_interface.read(op, arg, found.owner).dtype.str
        raise errors.wrong_type(op, arg, "have a dtype that tensors have", errors.Got(name))
    if found.library == "gputensor":
        if found.owner.requires_grad:
            raise errors.must(op, arg, "not require grad", found.owner, remedy="use .detach()")
        if found.owner.is_meta:
            raise errors.no_storage(op, found.owner)
    elif found.place.type == "cuda" and not _is_our_cuda():
        rule, got = "be on a device of this process", errors.Got("CUDA memory")
        raise errors.must(op, arg, rule, got, kind=errors.DeviceError)
    if found.place is CPU or 0 in found.sizes:
        return
    moved = [s for s, n in zip(found.stride_bytes, found.sizes) if n > 1]
    if any([by % element.itemsize for by in (found.address, *moved)]):
        raise errors.must(
            op, arg, f"have every element at a multiple of {element.itemsize} bytes",
            errors.Got(f"address {found.address:#x}, strides of {found.stride_bytes} bytes"),
            remedy="copy it in its library first",
        )  # fmt: skip


def _of_tensor(op: str, arg: str, tensor: Tensor, owner: Any) -> ForeignArray:
    if tensor._keys & LAZY:
        raise errors.not_in_memory(op, tensor)
    shape = tensor._geometry
    library = "gputensor" if owner is tensor else library_of(owner)
    found = ForeignArray(
        library, owner, tensor._device, shape.dtype, shape.dtype.itemsize, shape.sizes,
        shape.stride_bytes, None,
    )  # fmt: skip
    found.keeper, found._dense = tensor, shape.is_contiguous
    found.array = tensor._get_array() if found.place is CPU else None
    return found


def _of_numpy(x: np.ndarray[Any, Any]) -> ForeignArray:
    found = ForeignArray(
        "numpy", x, CPU, dtypes.from_numpy(x.dtype), x.itemsize, x.shape, x.strides,
        x.__array_interface__["data"][0],
    )  # fmt: skip
    found.array = x
    return found


def _of_image(op: str, arg: str, x: Any) -> ForeignArray:
    """Describe PIL's pixels as (C, H, W), the order that torchvision uses."""
    pixels = array_of(op, arg, x)
    found = _of_numpy(pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels[None])
    _check(op, arg, found)
    found.library, found.owner, found.is_readonly = "pil", x, True
    return found


def _is_plain(x: Any) -> bool:
    """Return True if the attributes of a torch tensor describe it completely. Reading them takes a
    fifth of the time that a DLPack capsule takes.

    All other tensors go through DLPack, which may reject them: subclasses, other devices and
    layouts, conjugated and negated views, tensors that require grad.
    """
    torch = sys.modules["torch"]
    known = type(x) is torch.Tensor and (x.is_cuda or x.is_cpu) and x.layout is torch.strided
    return known and not (x.requires_grad or x.is_conj() or x.is_neg() or not x.data_ptr())


def _of_torch(op: str, arg: str, x: Any) -> ForeignArray | None:
    if not (x.is_cpu or x.is_cuda):
        return None
    if x.is_conj() or x.is_neg():
        rule, got = (
            "not be a lazy conjugate or negative",
            errors.Got("a lazy torch view"),
        )
        raise errors.must(op, arg, rule, got, remedy="use .clone()")
    return _of_strided_torch(x)


def _of_strided_torch(x: Any) -> ForeignArray:
    torch = sys.modules["torch"]
    element = (_torch_dtypes or _of_torch_dtypes(torch)).get(x.dtype)
    size = x.element_size()
    place = CPU if x.is_cpu else device("cuda", x.device.index)
    strides = tuple([s * size for s in x.stride()])
    found = ForeignArray("torch", x, place, element, size, tuple(x.shape), strides, x.data_ptr())
    if place is not CPU:
        found.stream_owner = torch.cuda.current_stream(place.index)
        found.stream = int(found.stream_owner.cuda_stream)
    return found


_torch_dtypes: dict[Any, dtype] = {}


def _of_torch_dtypes(torch: Any) -> dict[Any, dtype]:
    if not _torch_dtypes:
        known = [d for d in dtypes.STORED if hasattr(torch, d.name)]
        _torch_dtypes.update({getattr(torch, d.name): d for d in known})
    return _torch_dtypes


def _is_our_cuda() -> bool:
    cuda = runtime.cuda()
    return cuda.is_available() and not cuda.is_emulated


def _of_interface(op: str, arg: str, x: Any, library: str) -> ForeignArray:
    """Describe an array by its CUDA array interface.

    Its strides may be negative, and the interface contains no device index.
    """
    given = cuda_array_interface.read(op, arg, x)
    element = dtypes.from_numpy(given.dtype)
    found = ForeignArray(
        library, x, device("cuda", _index_of(op, arg, x, given.address)), element,
        given.dtype.itemsize, given.sizes, given.stride_bytes, given.address,
    )  # fmt: skip
    found.is_readonly, found.stream = given.is_readonly, given.stream
    return found


def _index_of(op: str, arg: str, x: Any, address: int) -> int:
    """Return the device index of CUDA memory. If the array does not have the index, the CUDA driver
    finds the index from the address."""
    place = getattr(x, "device", None)
    index = getattr(place, "id", getattr(place, "index", None))
    if index is None:
        return runtime.cuda().device_of(address) if _is_our_cuda() else 0
    try:
        return operator.index(index)
    except TypeError:
        raise errors.wrong_type(op, arg, "have a device with an int for its id", index) from None


def _of_capsule(op: str, arg: str, x: Any, library: str) -> ForeignArray:
    stream = _stream_of(library, x)
    if stream is None:
        found = _of_tensor(op, arg, from_dlpack(x), x)
    else:
        with on_stream(*stream):  # so that no stream has to wait for another one
            found = _of_tensor(op, arg, from_dlpack(x), x)
        found.stream = stream[1]
    found.is_readonly = library == "jax"
    return found


def _stream_of(library: str, x: Any) -> tuple[int, int] | None:
    """Return (device index, stream address) of PyTorch's current stream for a CUDA tensor of
    PyTorch. Return None for other arrays, which can be used on our stream."""
    if library != "torch" or not x.is_cuda:
        return None
    index = x.device.index
    return index, sys.modules["torch"].cuda.current_stream(index).cuda_stream


@contextmanager
def on_stream(index: int | None, address: int | None) -> Iterator[None]:
    """Queue the work of the block on the stream at `address` of device `index`. An address of None
    means the current stream."""
    cuda = runtime.cuda()
    if address is None or cuda.current_stream(index).ptr == (0 if address == 1 else address):
        yield
        return
    previous = cuda.set_stream(cuda.external_stream(index, address))
    try:
        yield
    finally:
        cuda.set_stream(previous)
