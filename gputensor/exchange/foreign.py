"""Arrays of other libraries as kernels see them, new arrays of the same library, and its stream.

`seen` describes an array of PyTorch, CuPy, JAX, NumPy or of any library with DLPack or the CUDA
array interface; nothing is copied and the host waits for nothing. A library is known by what it
has already loaded, so nothing is imported here. It copies no elements: `foreign_copy.py` does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import runtime
from ..core import dtype as dtypes
from ..core import errors
from ..core import memory_format as formats
from ..core.device import CPU, device
from ..core.dtype import dtype
from ..core.geometry import Geometry, geometry
from ..core.memory_format import memory_format
from ..dispatch.keys import LAZY
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from . import cuda_array_interface, dlpack
from .numpy_bridge import array_of


class Seen:
    """An array of some library: where its elements are.

    address: of the first element. strides: in bytes, negative ones too. array: the ndarray of CPU
    memory, None elsewhere. stream: the library's current stream as an address, None where it is
    ours. keeper: what keeps the memory alive and readable. is_readonly: its library says so.
    """

    __slots__ = (
        "library", "owner", "place", "dtype", "sizes", "stride_bytes", "address", "array", "stream",
        "keeper", "is_readonly",
    )  # fmt: skip

    def __init__(self) -> None:
        self.is_readonly = False

    library: str
    owner: Any
    place: device
    dtype: dtype
    sizes: tuple[int, ...]
    stride_bytes: tuple[int, ...]
    address: int
    array: Any
    stream: int | None
    keeper: Any
    is_readonly: bool

    @property
    def _geometry(self) -> Geometry:
        """With `_device`, what messages describe it by, as they do a tensor."""
        return self.geometry

    @property
    def _device(self) -> device:
        return self.place

    @property
    def geometry(self) -> Geometry:
        """For plans and flags; strides may be negative."""
        size = self.dtype.itemsize
        return geometry(self.sizes, tuple([s // size for s in self.stride_bytes]), self.dtype)


def library_of(x: Any) -> str:
    """numpy, gputensor, torch, cupy, jax or pil (an image, not an array); "" for any other."""
    if isinstance(x, np.ndarray):
        return "numpy"
    if isinstance(x, Tensor):
        return "gputensor"
    for name, kind in (("torch", "Tensor"), ("cupy", "ndarray"), ("jax", "Array")):
        module = sys.modules.get(name)
        if module is not None and isinstance(x, getattr(module, kind, ())):
            return name
    images = sys.modules.get("PIL.Image")
    return "pil" if images is not None and isinstance(x, images.Image) else ""


def seen(op: str, arg: str, x: Any) -> Seen:
    """The array `x`. Raises: house errors for what has no strided memory here."""
    library = library_of(x)
    if library == "numpy":
        return _of_numpy(op, arg, x)
    if library == "gputensor":
        return _of_tensor(op, arg, x, x, library)
    if library == "torch" and type(x) is sys.modules["torch"].Tensor:
        found = _of_torch(op, arg, x)
        if found is not None:
            return found
    if library == "pil":
        return _of_image(op, arg, x)
    if library == "cupy" or not hasattr(x, "__dlpack__"):
        if hasattr(x, "__cuda_array_interface__"):
            return _of_cuda(op, arg, x, library)
    if not hasattr(x, "__dlpack__"):
        raise errors.must(
            op, arg, "be an array with __dlpack__ or __cuda_array_interface__",
            errors.Got(type(x).__name__), kind=errors.ArgumentTypeError,
        )  # fmt: skip
    stream = _stream_of(library, x)
    if stream is None:
        return _of_tensor(op, arg, x, dlpack.from_dlpack(x), library)
    with on_stream(*stream):  # so that the producer sees its own stream and orders nothing
        found = _of_tensor(op, arg, x, dlpack.from_dlpack(x), library)
    found.stream = stream[1]
    return found


def _of_numpy(op: str, arg: str, x: np.ndarray) -> Seen:
    found = Seen()
    element = dtypes.from_numpy(x.dtype)
    if element is None:
        raise errors.must(
            op, arg, "have a dtype that tensors have", errors.Got(f"numpy dtype {x.dtype.str}"),
            kind=errors.ArgumentTypeError,
        )  # fmt: skip
    found.library, found.owner, found.keeper, found.array = "numpy", x, x, x
    found.place, found.dtype, found.stream = CPU, element, None
    found.sizes, found.stride_bytes = x.shape, x.strides
    found.address = x.__array_interface__["data"][0]
    return found


def _of_image(op: str, arg: str, x: Any) -> Seen:
    """A copy of PIL's pixels, as (C, H, W), which is torchvision's order too."""
    pixels = array_of(op, arg, x)
    found = _of_numpy(op, arg, pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels[None])
    found.library, found.owner, found.is_readonly = "pil", x, True
    return found


def _of_tensor(op: str, arg: str, owner: Any, tensor: Tensor, library: str) -> Seen:
    if tensor.requires_grad:
        raise errors.must(op, arg, "not require grad", tensor, remedy="use .detach()")
    if tensor._keys & LAZY:
        raise errors.not_in_memory(op, tensor)
    if tensor.is_meta:
        raise errors.no_storage(op, tensor)
    found, shape = Seen(), tensor._geometry
    found.library, found.owner, found.keeper = library, owner, tensor
    found.place, found.dtype, found.stream = tensor._device, shape.dtype, None
    found.sizes, found.stride_bytes = shape.sizes, shape.stride_bytes
    found.array = tensor._get_array() if found.place is CPU else None
    found.address, found.is_readonly = tensor.data_ptr(), library == "jax"
    return found


class _Bytes:
    """Memory of `owner` as NumPy takes it; np.asarray keeps the owner alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner, self.__array_interface__ = owner, interface


def _of_torch(op: str, arg: str, x: Any) -> Seen | None:
    """A plain strided tensor from its attributes: a fifth of what a DLPack capsule costs.

    None for what has to go through DLPack, which knows what to refuse: subclasses, other devices
    and layouts, conjugated and negated views, tensors that require grad.
    """
    torch = sys.modules["torch"]
    is_cuda = x.is_cuda
    plain = (is_cuda or x.is_cpu) and x.layout is torch.strided
    if not plain or x.requires_grad or x.is_conj() or x.is_neg():
        return None
    element = _of_torch_dtypes(torch).get(x.dtype)
    address = x.data_ptr()
    if element is None or not address or is_cuda and not _is_our_cuda():
        return None
    found = Seen()
    size = element.itemsize
    found.library, found.owner, found.keeper = "torch", x, x
    found.dtype, found.address, found.sizes = element, address, tuple(x.shape)
    found.stride_bytes = tuple([s * size for s in x.stride()])
    if is_cuda:
        index = x.device.index
        found.place, found.array = device("cuda", index), None
        found.stream = torch.cuda.current_stream(index).cuda_stream
        return found
    found.place, found.stream = CPU, None
    interface = {
        "data": (address, False), "shape": found.sizes, "strides": found.stride_bytes,
        "typestr": element.np.str, "version": 3,
    }  # fmt: skip
    array = np.asarray(_Bytes(x, interface))
    found.array = array if array.dtype == element.np else array.view(element.np)
    return found


_torch_dtypes: dict[Any, dtype] = {}


def _of_torch_dtypes(torch: Any) -> dict[Any, dtype]:
    if not _torch_dtypes:
        _torch_dtypes.update(
            {getattr(torch, d.name): d for d in dtypes.ALL if hasattr(torch, d.name)}
        )
    return _torch_dtypes


def _is_our_cuda() -> bool:
    cuda = runtime.cuda()
    return cuda.is_available() and not cuda.is_emulated


def _of_cuda(op: str, arg: str, x: Any, library: str) -> Seen:
    """From the CUDA array interface, which has negative strides and no device index."""
    cuda = runtime.cuda()
    if not _is_our_cuda():
        raise errors.must(
            op,
            arg,
            "be on a device of this process",
            errors.Got("CUDA memory"),
            kind=errors.DeviceError,
        )
    found, given = Seen(), cuda_array_interface.read(op, arg, x)
    element = dtypes.from_numpy(given.dtype)
    if element is None:
        raise errors.must(
            op, arg, "have a dtype that tensors have", errors.Got(given.dtype.str),
            kind=errors.ArgumentTypeError,
        )  # fmt: skip
    found.address, found.is_readonly = given.address, given.is_readonly
    # The interface has no device; the driver knows whose memory it is.
    index = x.device.id if library == "cupy" else cuda.device_of(found.address)
    found.library, found.owner, found.keeper, found.array = library, x, x, None
    found.place, found.dtype = device("cuda", index), element
    found.sizes, found.stride_bytes = given.sizes, given.stride_bytes
    moved = [s for s, n in zip(given.stride_bytes, found.sizes) if n > 1]
    if 0 not in found.sizes and any(by % element.itemsize for by in (found.address, *moved)):
        raise errors.must(
            op, arg, f"have every element at a multiple of {element.itemsize} bytes",
            errors.Got(f"address {found.address:#x}, strides of {given.stride_bytes} bytes"),
            remedy="copy it in its library first",
        )  # fmt: skip
    found.stream = given.stream
    return found


def _stream_of(library: str, x: Any) -> tuple[int, int] | None:
    """(device index, address) of PyTorch's current stream for a CUDA tensor; None: ours counts."""
    if library != "torch" or not x.is_cuda:
        return None
    index = x.device.index
    return index, sys.modules["torch"].cuda.current_stream(index).cuda_stream


@contextmanager
def on_stream(index: int, address: int | None) -> Iterator[None]:
    """Work of the block goes to that stream of the device; None for the current one."""
    cuda = runtime.cuda()
    if address is None or cuda.current_stream(index).ptr == (0 if address == 1 else address):
        yield
        return
    previous = cuda.set_stream(cuda.external_stream(index, address))
    try:
        yield
    finally:
        cuda.set_stream(previous)


# --- new arrays ---------------------------------------------------------------------------------


def empty(like: Seen, sizes: tuple[int, ...], element: dtype, form: memory_format) -> Any:
    """An uninitialised array of the same library and device, dense in a memory format.

    A library that offers no way to make one, or whose arrays do not change, gets a tensor, as an
    image does; `given` turns it into theirs when it is written.
    """
    order = range(len(sizes)) if form.order is None else form.order[::-1]
    strides = formats.strides_for("empty", sizes, form)
    if like.library == "numpy":
        return _permuted(np.empty([sizes[d] for d in order], element.np), order)
    if like.library == "torch":
        torch = sys.modules["torch"]
        given = getattr(torch, element.name)
        return torch.empty_strided(sizes, strides, dtype=given, device=like.owner.device)
    if like.library == "cupy":
        with like.owner.device:
            made = sys.modules["cupy"].empty([sizes[d] for d in order], element.np)
        return _permuted(made, order)
    return allocate(geometry(sizes, strides, element), like.place)


def _permuted(dense: Any, order: Any) -> Any:
    """The dense array with its dimensions back in the order that they are counted in."""
    order = list(order)
    if order == sorted(order):
        return dense
    return dense.transpose([order.index(d) for d in range(len(order))])


def given(like: Seen, made: Any) -> Any:
    """What `empty` made, as an array of the library that `like` is of, once it is written."""
    if like.library != "jax":
        return made
    return sys.modules["jax"].dlpack.from_dlpack(made)


# --- names of other libraries ---------------------------------------------------------------------


def as_dtype(op: str, value: Any) -> dtype:
    """Our dtype for one of any library: its own, NumPy's, PyTorch's, or a name."""
    if isinstance(value, dtype):
        return value
    name = str(value).rpartition(".")[2] if type(value).__module__ == "torch" else value
    found = dtypes.ALIASES.get(name) if isinstance(name, str) else None
    if found is None:
        try:
            found = next((d for d in dtypes.ALL if d.name == name), None) or dtypes.from_numpy(
                np.dtype(name)
            )
        except Exception:  # NumPy's, of whatever was given
            found = None
    if found is None or found.np is None:
        raise errors.must(
            op, "dtype", "be a dtype that tensors have", value, kind=errors.ArgumentTypeError
        )
    return found


def as_format(op: str, value: Any) -> memory_format:
    """Our memory format for ours, PyTorch's, or a name."""
    if isinstance(value, memory_format):
        return value
    name = (
        value
        if isinstance(value, str)
        else repr(value)
        if type(value).__module__ == "torch"
        else ""
    )
    name = name.rpartition(".")[2]
    for form in formats.ALL:
        if form.name == name:
            return form
    raise errors.must(
        op, "memory_format", "be a memory format", value, kind=errors.ArgumentTypeError
    )
