"""Tensor: a storage, an offset, a geometry and a key set.

The operators are in the generated base class; here stand what a tensor *is* and what Python asks of
an object. Printing, indexing and exchange with other libraries have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import index
from typing import Any

import numpy as np

from . import indexing, printing
from .. import runtime
from .._generated import calls
from .._generated.methods import GeneratedMethods
from ..core import errors
from ..core import memory_format as formats
from ..core.arguments import flag, number
from ..core.device import CPU, META, device
from ..core.dtype import dtype, from_numpy
from ..core.geometry import Geometry, Size, looks_channels_last, looks_channels_last_3d
from ..core.memory_format import memory_format
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.keys import LAZY, ZERO
from ..dispatch.tls import AD_INPLACE_OR_VIEW, inference_blocks, keys_now
from ..runtime.current import stream_given
from .storage import Storage, allocate_storage, storage_of_array

# gputensor.autograd and its module variable, which are above and put themselves here.
autograd: Any = None
variable: Any = None
CPU_KEYS = TENSOR_KEYS["cpu"]
# From this many bytes on, CPU memory comes aligned from the allocator instead of from NumPy.
ALIGNED_FROM_BYTES = 1 << 16

_new = object.__new__


class Tensor(GeneratedMethods):
    """A strided array on one device, whose operators go through the dispatcher.

    Slots (for native code): _geometry, _device, _keys; _storage, made when first needed on the CPU
    (`_get_storage`); _offset in elements; _array, the ndarray of a CPU tensor, made when a kernel
    first needs it (`_get_array`); _autograd, None while nothing requires a gradient.
    """

    __slots__ = (
        "_geometry", "_keys", "_device", "_storage", "_offset", "_array", "_autograd",
        "__weakref__",
    )  # fmt: skip

    _geometry: Geometry
    _keys: int
    _device: device
    _storage: Storage | None
    _offset: int
    _array: Any
    _autograd: Any

    # NumPy and CuPy must hand `their_array + tensor` to our reflected operator.
    __array_ufunc__ = None
    __array_priority__ = 1000

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        raise errors.must(
            "Tensor", "data", "be given to gputensor.tensor(...)", errors.Got("a call of Tensor"),
            kind=errors.ArgumentTypeError,
        )  # fmt: skip

    # --- subclasses -----------------------------------------------------------------------------

    _has_handler = False  # whether the class overrides `__gputensor_dispatch__`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._has_handler = (
            cls.__gputensor_dispatch__.__func__ is not Tensor.__gputensor_dispatch__.__func__
        )  # type: ignore[attr-defined]

    @classmethod
    def __gputensor_dispatch__(
        cls,
        op: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Override in a subclass: every operator that meets one of its tensors comes here.

        types: the operands' classes that have a handler. As it stands it runs the operator on the
        operands' memory; results are plain tensors. See modes.py.
        """
        from ..interpose import subclass

        return subclass.call_as_tensors(op, args, kwargs)

    @staticmethod
    def _make_subclass(cls: type, data: Tensor) -> Any:
        """A tensor of a subclass over the memory of `data`."""
        from ..interpose import subclass

        return subclass.of(cls, data)

    @staticmethod
    def _make_wrapper_subclass(
        cls: type,
        size: Any,
        strides: Any = None,
        storage_offset: int = 0,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> Any:
        """A tensor of a subclass without memory, for handlers that hold their data elsewhere."""
        from ..interpose import subclass

        return subclass.wrapper(cls, size, strides, storage_offset, dtype, device)

    def as_subclass(self, cls: type) -> Any:
        """This tensor's memory as a tensor of a subclass."""
        from ..interpose import subclass

        return subclass.of(cls, self)

    # --- what it is -----------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return self._geometry.shape

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or the size of one dimension."""
        return self._geometry.shape if dim is None else self._geometry.sizes[self._dim("size", dim)]

    def stride(self, dim: int | None = None) -> Any:
        """All strides in elements, or that of one dimension."""
        return (
            self._geometry.strides
            if dim is None
            else self._geometry.strides[self._dim("stride", dim)]
        )

    def _dim(self, op: str, dim: int) -> int:
        ndim = self._geometry.ndim
        try:
            if -ndim <= dim < ndim:
                return index(dim) % ndim
        except Exception:
            raise errors.must(op, "dim", "be an int", dim, kind=errors.ArgumentTypeError) from None
        raise errors.dim_out_of_range(op, dim, ndim)

    @property
    def dtype(self) -> dtype:
        return self._geometry.dtype

    @property
    def device(self) -> device:
        return self._device

    @property
    def ndim(self) -> int:
        return self._geometry.ndim

    def dim(self) -> int:
        return self._geometry.ndim

    def numel(self) -> int:
        return self._geometry.numel

    nelement = numel

    def element_size(self) -> int:
        """Bytes of one element."""
        return self._geometry.dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self._geometry.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """numel times the bytes of an element."""
        return self._geometry.nbytes

    def storage_offset(self) -> int:
        """Elements from the storage's first byte to the first element."""
        return self._offset

    def is_contiguous(self, memory_format: memory_format = formats.contiguous_format) -> bool:
        """True if the elements lie densely in the order of the format."""
        geometry = self._geometry
        if memory_format is formats.contiguous_format or memory_format is formats.preserve_format:
            return geometry.is_contiguous
        if memory_format is formats.channels_last:
            return geometry.is_channels_last
        if memory_format is formats.channels_last_3d:
            return geometry.is_channels_last_3d
        raise errors.must(
            "is_contiguous",
            "memory_format",
            "be a memory format",
            memory_format,
            kind=errors.ArgumentTypeError,
        )

    def is_floating_point(self) -> bool:
        return self._geometry.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self._geometry.dtype.is_complex

    def is_signed(self) -> bool:
        return self._geometry.dtype.is_signed

    @property
    def is_cpu(self) -> bool:
        return self._device is CPU

    @property
    def is_cuda(self) -> bool:
        return self._device.type == "cuda"

    @property
    def is_meta(self) -> bool:
        return self._device is META

    def get_device(self) -> int:
        """The device's index, -1 for a device without one."""
        index = self._device.index
        return -1 if index is None else index

    @property
    def layout(self) -> Any:
        from ..core.layout import strided

        return strided

    def is_set_to(self, other: Tensor) -> bool:
        """True if both look at the same elements in the same way."""
        if not isinstance(other, Tensor):
            raise errors.not_a_tensor("is_set_to", "other", "a Tensor", other)
        return (
            self._geometry is other._geometry and self._offset == other._offset
            and self._get_storage() is other._get_storage()
        )  # fmt: skip

    @property
    def _version(self) -> int:
        """How often an operator wrote into this tensor's storage."""
        if not self._keys & AD_INPLACE_OR_VIEW:
            raise errors.inference_version()
        return 0 if self._storage is None else self._storage.version

    # --- where its elements are -----------------------------------------------------------------

    def _get_array(self) -> np.ndarray[Any, Any]:
        """The ndarray over a CPU tensor's elements; the same object until the storage changes."""
        array = self._array
        if array is None:
            geometry, storage = self._geometry, self._storage
            if storage is None or self._device is not CPU or self._keys & LAZY:
                raise errors.no_storage("array", self)
            data = storage.data
            if data is None:
                raise errors.no_storage("array", self)
            if geometry.numel == 0:  # may begin past the end of its storage
                array = self._array = np.empty(geometry.sizes, geometry.dtype.np)
                return array
            array = self._array = np.ndarray(
                geometry.sizes, geometry.dtype.np, data,
                self._offset * geometry.dtype.itemsize, geometry.stride_bytes,
            )  # fmt: skip
        return array

    def _get_storage(self) -> Storage:
        """The storage; a CPU tensor whose memory NumPy allocated gets one over that memory."""
        storage = self._storage
        if storage is None:
            storage = self._storage = storage_of_array(self._array)
        return storage

    def untyped_storage(self) -> Storage:
        return self._get_storage()

    def _address(self) -> int:
        """Address of the first element of a tensor on a device with allocated memory; 0 on meta."""
        data = self._storage._data  # type: ignore[union-attr]
        return 0 if data is None else data.ptr + self._offset * self._geometry.dtype.itemsize

    def data_ptr(self) -> int:
        """Address of the first element; 0 for an empty tensor."""
        storage = self._get_storage()
        if self._geometry.numel == 0:
            return 0
        return storage.ptr + self._offset * self._geometry.dtype.itemsize

    def record_stream(self, stream: Any) -> None:
        """Say that work on `stream` uses the tensor, which was made on another stream.

        Its memory is not used again before the work that `stream` has when the tensor is dropped.
        stream: of the tensor's device; on a GPU also one of PyTorch or CuPy.
        """
        place = self._device
        module = runtime.with_streams(place.type)
        if not hasattr(module, "record_stream"):
            raise errors.must(
                "record_stream",
                "self",
                "be on a device with streams",
                self,
                kind=errors.DeviceError,
            )
        index = place.index or 0
        stream = stream_given("record_stream", module, index, stream)
        if stream.device_index != index:
            rule = f"be of {place}, as the tensor"
            raise errors.must("record_stream", "stream", rule, stream, kind=errors.DeviceError)
        module.record_stream(self._get_storage().data, stream)

    # --- what Python asks -----------------------------------------------------------------------

    def __repr__(self) -> str:
        if self._has_handler:  # its elements are known to its handler alone
            return f"{type(self).__name__}({errors.describe(self)})"
        return printing.tensor_repr(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self._geometry.ndim == 0 and spec else repr(self)

    def __len__(self) -> int:
        if self._geometry.ndim == 0:
            raise errors.must(
                "len", "self", "have a dimension", self, kind=errors.ArgumentTypeError
            )
        return self._geometry.sizes[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self._geometry.ndim == 0:
            raise errors.must(
                "iter", "self", "have a dimension", self, kind=errors.ArgumentTypeError
            )
        return iter(calls.unbind_int(self, 0))

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self._geometry.dtype.category > 1:
            raise errors.must(
                "index", "self", "be integer or bool", self, kind=errors.ArgumentTypeError
            )
        return int(self._scalar("index"))

    def _scalar(self, op: str) -> Any:
        if self._geometry.numel != 1:
            raise errors.must(op, "self", "hold one element", self)
        return calls.item(self)

    def _comparable(self, other: Any) -> Any:
        """A foreign operand of == and != as a number or a tensor; None for what is neither."""
        if isinstance(other, np.ndarray):
            from ..exchange import numpy_bridge

            native = other.dtype.newbyteorder("=")
            if from_numpy(native) is None:
                return None
            return numpy_bridge.from_numpy(np.asarray(other, native, order="C"))
        return number(other)

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, Tensor) and number(value) is None:
            rule = "be a Tensor or a number"
            raise errors.must("__contains__", "value", rule, value, kind=errors.ArgumentTypeError)
        return bool((self == value).any())

    __hash__ = object.__hash__

    __getitem__ = indexing.get  # without a frame of its own: q[1] is timed (bench/overhead.py)
    __setitem__ = indexing.put

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number for a 0-d tensor."""
        return (
            materialised(self.cpu())._get_array().tolist() if self._geometry.ndim else self.item()
        )

    # --- other libraries --------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """An ndarray over the same memory; `force` copies from another device first."""
        from ..exchange import numpy_bridge

        return numpy_bridge.numpy(self, flag("numpy", "force", force))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        from ..exchange import numpy_bridge

        return numpy_bridge.array(self, dtype, copy)

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        from ..exchange import dlpack

        return dlpack.export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        from ..exchange import dlpack

        return dlpack.device_of(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        from ..exchange import cuda_array_interface

        return cuda_array_interface.describe(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from . import pickling

        return pickling.reduce(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        from . import pickling

        return pickling.deepcopy(self, memo)

    # --- other devices and types ------------------------------------------------------------------

    def cpu(self) -> Tensor:
        """A copy on the CPU; the tensor itself if it is there. Waits for the device."""
        return self if self._device is CPU else calls.to_device(self, CPU, self._geometry.dtype)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        """A copy on a CUDA device, the current one by default; the tensor itself if it is there."""
        from ..core.device import device as make

        target = make("cuda") if device is None else make(device)
        return calls.to_device(self, target, self._geometry.dtype, non_blocking)

    @property
    def T(self) -> Tensor:  # noqa: N802 - PyTorch's spelling
        """All dimensions reversed, of tensors of at most two; PyTorch warns of more."""
        if self._geometry.ndim > 2:
            raise errors.must(
                "T", "self", "have at most 2 dimensions", self, remedy="use .mT or .permute(...)"
            )
        return calls.permute(self, tuple(range(self._geometry.ndim - 1, -1, -1)))

    # --- automatic differentiation; see autograd/variable.py --------------------------------------

    @property
    def requires_grad(self) -> bool:
        """True if operations on it are recorded, to be differentiated."""
        return self._autograd is not None and variable.requires_grad(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        variable.set_requires_grad(self, flag("requires_grad", "value", value))

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Say whether operations on this leaf are to be recorded; returns the tensor."""
        variable.set_requires_grad(self, flag("requires_grad_", "requires_grad", requires_grad))
        return self

    @property
    def grad(self) -> Tensor | None:
        """What `backward` has accumulated for this leaf, or for a tensor with `retain_grad`."""
        return None if self._autograd is None else variable.grad(self)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        variable.set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        variable.set_grad(self, None)

    @property
    def grad_fn(self) -> Any:
        """The node that made it; None for a leaf."""
        return None if self._autograd is None else variable.grad_fn(self)

    @property
    def is_leaf(self) -> bool:
        """True if it was not made by a recorded operation."""
        return self._autograd is None or variable.is_leaf(self)

    @property
    def output_nr(self) -> int:
        """Which of the outputs of `grad_fn` it is."""
        return 0 if self._autograd is None else variable.output_nr(self)

    def backward(
        self, gradient: Tensor | None = None, retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:  # fmt: skip
        """Add the gradient of this tensor to `grad` of the leaves that it was made from.

        gradient: what arrives here, 1 for a tensor of one element. See gt.autograd.backward.
        """
        autograd.backward(self, gradient, retain_graph, create_graph, inputs)

    def detach_(self) -> Tensor:
        """Cut this tensor from its history."""
        return variable.detach_(self)

    def retain_grad(self) -> None:
        """Let `backward` fill `grad` although it is no leaf."""
        variable.retain_grad(self)

    @property
    def retains_grad(self) -> bool:
        """True after `retain_grad` of a tensor that is no leaf."""
        return self._autograd is not None and variable.retains_grad(self)

    def register_hook(self, hook: Any) -> Any:
        """Call `hook(grad)` when its gradient is known; what it returns takes the gradient's place.

        Returns a handle with `remove()`.
        """
        return variable.register_hook(self, _callable("register_hook", hook))

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Call `hook(tensor)` when `grad` of this leaf has been added to."""
        named = _callable("register_post_accumulate_grad_hook", hook)
        return variable.register_post_accumulate_grad_hook(self, named)

    @property
    def data(self) -> Tensor:
        """The same elements without history, and with a version of their own."""
        detached = calls.detach(self)
        detached._storage = detached._storage.twin()
        return detached

    @data.setter
    def data(self, value: Tensor) -> None:
        variable.set_data(self, value)

    @property
    def _base(self) -> Tensor | None:
        return None if self._autograd is None else variable.base(self)

    def _is_view(self) -> bool:
        return self._base is not None

    def is_inference(self) -> bool:
        """True if it was made in inference mode."""
        return not self._keys & AD_INPLACE_OR_VIEW


def _callable(op: str, hook: Any) -> Any:
    if not callable(hook):
        raise errors.must(op, "hook", "be callable", hook, kind=errors.ArgumentTypeError)
    return hook


def _convert_to(name: str, target: dtype) -> Any:
    def convert(self: Tensor, memory_format: memory_format = formats.preserve_format) -> Tensor:
        return calls.to_dtype(self, target, False, False, memory_format)

    convert.__name__ = name
    convert.__doc__ = f"`self.to({target!r})`."
    return convert


def _add_conversions() -> None:
    from ..core import dtype as d

    for name, target in {
        "bool": d.bool_, "byte": d.uint8, "char": d.int8, "short": d.int16, "int": d.int32,
        "long": d.int64, "half": d.float16, "bfloat16": d.bfloat16, "float": d.float32,
        "double": d.float64, "cfloat": d.complex64, "cdouble": d.complex128,
    }.items():  # fmt: skip
        setattr(Tensor, name, _convert_to(name, target))


# --- making tensors, for native code --------------------------------------------------------------


def from_array(array: Any, geometry: Geometry) -> Tensor:
    """A CPU tensor over an ndarray that nothing else holds; geometry describes its layout."""
    tensor = _new(Tensor)
    tensor._geometry = geometry
    tensor._keys = CPU_KEYS if not inference_blocks else keys_now(CPU_KEYS)
    tensor._device = CPU
    tensor._storage = None
    tensor._offset = 0
    tensor._array = array
    tensor._autograd = None
    return tensor


def from_storage(storage: Storage, offset: int, geometry: Geometry, keys: int) -> Tensor:
    """A tensor that looks at a storage; offset counts elements."""
    tensor = _new(Tensor)
    tensor._geometry = geometry
    tensor._keys = keys if not inference_blocks else keys_now(keys)
    tensor._device = storage.device
    tensor._storage = storage
    tensor._offset = offset
    tensor._array = None
    tensor._autograd = None
    return tensor


def view_of(base: Tensor, geometry: Geometry, offset: int) -> Tensor:
    """Another view of base's storage; offset counts elements from the storage's start."""
    storage = base._storage
    if storage is None:
        storage = base._get_storage()
    tensor = _new(Tensor)
    tensor._geometry = geometry
    tensor._keys = base._keys
    tensor._device = base._device
    tensor._storage = storage
    tensor._offset = offset
    tensor._array = None
    tensor._autograd = None
    return tensor


def allocate(geometry: Geometry, place: device) -> Tensor:
    """An uninitialised tensor of this geometry: memory for its extent, offset 0."""
    if place is CPU and geometry.is_contiguous and geometry.nbytes < ALIGNED_FROM_BYTES:
        return from_array(np.empty(geometry.sizes, geometry.dtype.np), geometry)
    # `from_storage` written out: every result on a device comes by here (bench/overhead.py).
    tensor = _new(Tensor)
    tensor._geometry = geometry
    keys = TENSOR_KEYS[place.type]
    tensor._keys = keys if not inference_blocks else keys_now(keys)
    tensor._device = place
    tensor._storage = allocate_storage(geometry.extent * geometry.dtype.itemsize, place)
    tensor._offset = 0
    tensor._array = None
    tensor._autograd = None
    return tensor


def zero_tensor(geometry: Geometry, place: device) -> Tensor:
    """Zeros of this geometry that have no memory."""
    storage = Storage(None, geometry.extent * geometry.dtype.itemsize, place)
    return from_storage(storage, 0, geometry, TENSOR_KEYS[place.type] | ZERO)


def materialised(tensor: Tensor) -> Tensor:
    """The tensor itself if its elements lie in memory as they are, else a copy where they do."""
    return calls.clone(tensor) if tensor._keys & LAZY else tensor


def bump_version(tensor: Tensor) -> None:
    """Count a write into the tensor's storage."""
    storage = tensor._storage
    if storage is None:
        storage = tensor._get_storage()
    storage.version += 1


def suggest_memory_format(tensor: Tensor) -> memory_format:
    """The format that the strides read as. Source: TensorImpl, suggest_memory_format."""
    geometry = tensor._geometry
    if looks_channels_last(geometry.sizes, geometry.strides):
        return formats.channels_last
    if looks_channels_last_3d(geometry.sizes, geometry.strides):
        return formats.channels_last_3d
    return formats.contiguous_format


_add_conversions()
