"""TensorBase: the attributes of a tensor (storage, offset, geometry and key set), and access to its
memory."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import runtime
from .._generated import calls
from ..core import errors, memory_format as formats
from ..core.device import CPU, META, device
from ..core.dtype import complex64, dtype, float32
from ..core.geometry import Geometry, Size
from ..core.memory_format import memory_format
from ..dispatch import dispatcher
from ..dispatch.keys import LAZY
from ..dispatch.tls import AD_INPLACE_OR_VIEW
from ..runtime.current import stream_given
from .storage import Storage, expose, storage_of_array

_ndarray = np.ndarray

if TYPE_CHECKING:
    from .tensor import Tensor


class TensorBase:
    """A tensor's memory, layout and keys, in slots that native code reads. On the CPU, _storage is
    made when it is first needed (`_get_storage`). _offset counts elements. _array is the ndarray of
    a CPU tensor, made when a kernel first needs it (`_get_array`). _autograd is None, the base of a
    view, or the tensor's autograd data. `__dict__` contains attributes that programs set, as on
    PyTorch's tensors."""

    __slots__ = (
        "_geometry", "_keys", "_device", "_storage", "_offset", "_array", "_autograd",
        "__weakref__", "__dict__",
    )  # fmt: skip

    _geometry: Geometry
    _keys: int
    _device: device
    _storage: Storage | Any  # None until `_get_storage` makes the storage
    _offset: int
    _array: Any
    _autograd: Any

    # The class Tensor. The module of Tensor sets it.
    _kind: ClassVar[type[Any]]
    # True if the class overrides `__gputensor_dispatch__`.
    _has_handler = False
    # The keys that the class adds to its tensors.
    _class_keys = 0

    @property
    def shape(self) -> Size:
        return self._geometry.shape

    def size(self, dim: int | None = None) -> Any:
        """Return all sizes, or the size of one dimension."""
        return self._geometry.shape if dim is None else self._geometry.sizes[self._dim("size", dim)]

    def stride(self, dim: int | None = None) -> Any:
        """Return all strides in elements, or the stride of one dimension."""
        strides = self._geometry.strides
        return strides if dim is None else strides[self._dim("stride", dim)]

    def _dim(self, op: str, dim: int) -> int:
        ndim = self._geometry.ndim
        try:
            if -ndim <= dim < ndim:
                return index(dim) % ndim
        except Exception:
            raise errors.wrong_type(op, "dim", "be an int", dim) from None
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

    ndimension = dim

    def numel(self) -> int:
        return self._geometry.numel

    nelement = numel

    def element_size(self) -> int:
        """Return the number of bytes of one element."""
        return self._geometry.dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self._geometry.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The number of elements times the bytes of an element."""
        return self._geometry.nbytes

    def storage_offset(self) -> int:
        """Return the number of elements from the start of the storage to the tensor's first
        element."""
        return self._offset

    def is_contiguous(self, memory_format: memory_format = formats.contiguous_format) -> bool:
        """True if the elements are dense in the order of the memory format."""
        geometry = self._geometry
        if memory_format is formats.contiguous_format or memory_format is formats.preserve_format:
            return geometry.is_contiguous
        if memory_format is formats.channels_last:
            return geometry.is_channels_last
        if memory_format is formats.channels_last_3d:
            return geometry.is_channels_last_3d
        rule = "be a memory format"
        raise errors.wrong_type("is_contiguous", "memory_format", rule, memory_format)

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
        """Return the device's index, or -1 for a device without an index."""
        index = self._device.index
        return -1 if index is None else index

    @property
    def layout(self) -> Any:
        return formats.strided

    def is_set_to(self, other: TensorBase) -> bool:
        """True if both tensors have the same storage, offset, sizes and strides."""
        if not isinstance(other, TensorBase):
            raise errors.not_a_tensor("is_set_to", "other", "a Tensor", other)
        return (
            self._geometry is other._geometry and self._offset == other._offset
            and self._get_storage() is other._get_storage()
        )  # fmt: skip

    @property
    def _version(self) -> int:
        """The number of times that operators have written to this tensor's storage."""
        if not self._keys & AD_INPLACE_OR_VIEW:
            raise errors.inference_version()
        return 0 if self._storage is None else self._storage.version

    # --- where its elements are -----------------------------------------------------------------

    def _get_array(self) -> np.ndarray[Any, Any]:
        """Return the ndarray over a CPU tensor's elements. Calls return the same object until the
        storage changes."""
        array: np.ndarray[Any, Any] | None = self._array
        if array is None:
            geometry, storage = self._geometry, self._storage
            if geometry.dtype.is_float8:
                # Kernels do not read float8 arrays: they read the bytes (make.as_bytes) or cast the
                # elements (structured/float8.py).
                raise errors.not_computed("array", "self", geometry.dtype, self)
            if storage is None or self._device is not CPU or self._keys & LAZY:
                raise errors.no_storage("array", self)
            # `_data` is read directly, because a property costs a Python frame
            data = storage._data
            if data is None:
                data = storage._array  # no code has used this storage's bytes before
                if type(data) is not _ndarray or not data.flags.c_contiguous:
                    data = storage.data
                if data is None:
                    raise errors.no_storage("array", self)
            # the tensor may begin past the end of its storage, which `ndarray` would reject
            if geometry.numel == 0:
                array = self._array = np.empty(geometry.sizes, geometry.dtype.np)
                return array
            # NumPy does not compare strides with a buffer of 0 bytes.
            if not storage._nbytes:
                raise errors.storage_too_small(0)
            begin = self._offset * geometry.dtype.itemsize
            strides = geometry.stride_bytes
            try:
                array = _ndarray(geometry.sizes, geometry.dtype.np, data, begin, strides)
            except ValueError:  # strides of dimensions of size 1 may exceed 64 bits
                if begin + geometry.extent * geometry.dtype.itemsize > storage._nbytes:
                    raise errors.storage_too_small(storage._nbytes) from None
                strides = tuple([s if n > 1 else 0 for n, s in zip(geometry.sizes, strides)])
                array = np.ndarray(geometry.sizes, geometry.dtype.np, data, begin, strides)
            self._array = array
        return array

    def _get_storage(self) -> Storage:
        """Return the storage. If NumPy allocated the memory of a CPU tensor, the first call makes a
        storage over that memory."""
        storage = self._storage
        if storage is None:
            storage = self._storage = storage_of_array(self._array)
        return storage

    def untyped_storage(self) -> Storage:
        return self._get_storage()

    def _address(self) -> int:
        """Return the address of the first element of a tensor that is not on the CPU. Return 0 on
        meta."""
        data = self._storage._data
        if data is None and (data := self._storage.data) is None:
            return 0
        address: int = data.ptr + self._offset * self._geometry.dtype.itemsize
        return address

    def data_ptr(self) -> int:
        """Return the address of the first element, or 0 for an empty tensor."""
        storage = self._get_storage()
        if self._geometry.numel == 0:
            return 0
        expose(storage)
        return self._ptr()

    def _ptr(self) -> int:
        """Return the address of the first element for use inside this library. `data_ptr` returns
        the address for other code: it also reports to chains that other code can access the memory
        from then on."""
        return self._get_storage().ptr + self._offset * self._geometry.dtype.itemsize

    def record_stream(self, stream: Any) -> None:
        """Declare that work on `stream` uses the tensor, although it was made on another stream.

        After the tensor is dropped, its memory is reused only when all work that is queued on
        `stream` at that time has finished. stream: a stream of the tensor's device; on a GPU also a
        stream of PyTorch or CuPy.
        """
        place = self._device
        module = runtime.with_streams(place.type)
        if not hasattr(module, "record_stream"):
            rule = "be on a device with streams"
            raise errors.must("record_stream", "self", rule, self, kind=errors.DeviceError)
        index = place.index or 0
        stream = stream_given("record_stream", module, index, stream)
        if stream.device_index != index:
            rule = f"be of {place}, as the tensor"
            raise errors.must("record_stream", "stream", rule, stream, kind=errors.DeviceError)
        module.record_stream(self._get_storage().data, stream)


def materialised(tensor: Any) -> Any:
    """Return the tensor itself if its elements are in memory. For a lazy conjugate, negative or
    zero tensor, return a copy that has its elements in memory."""
    return calls.clone(tensor) if tensor._keys & LAZY else tensor


def on_host(tensor: Any) -> np.ndarray[Any, Any]:
    """Return the elements as an ndarray of a dtype that Python can read. The ndarray may be a
    copy."""
    element = tensor._geometry.dtype
    if element.is_opaque:
        wide = complex64 if element.is_complex else float32
        tensor = calls.to_dtype(tensor, wide, False, False, None)
    array: np.ndarray[Any, Any] = materialised(tensor.cpu())._get_array()
    return array


def bump_version(tensor: TensorBase) -> None:
    """Count a write to the tensor's storage."""
    storage = tensor._storage
    if storage is None:
        storage = tensor._get_storage()
    storage.version += 1


def suggest_memory_format(tensor: TensorBase) -> memory_format:
    """Return the memory format that the strides suggest."""
    return tensor._geometry.suggested_format


def tensors_of(value: Any) -> list[Tensor]:
    """Return the tensors in an argument or a result, which is a tensor or a list."""
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in tensors_of(item)]
    return [value] if hasattr(value, "_geometry") else []


class TensorType(type):
    """The metaclass of Tensor. It handles calls of Tensor, because with a `__new__` or `__init__`
    of Tensor, Python would take 1.5 times as long to make a tensor by `blank`. It also records
    which attributes of Tensor were replaced, so that short cuts need not check for replaced
    methods."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> TensorType:
        ours = getattr(TensorBase, "_kind", None)
        if ours in bases:
            place = bases.index(ours)
            is_ours = (
                namespace.get("__module__", "").partition(".")[0] == __name__.partition(".")[0]
            )
            handling = [base() for base in overridable if not is_ours]
            bases = (*bases[:place], *handling, Constructed, *bases[place:])
        return super().__new__(mcs, name, bases, namespace, **kwargs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        own: Any = cls.__new__
        if own is object.__new__:
            return construct(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    @property
    def __signature__(cls) -> Any:
        """Return the signature of a subclass's `__new__`. Without this property, `inspect` would
        show the signature of `__call__`."""
        own: Any = cls.__new__
        if own is object.__new__:
            raise AttributeError("__signature__")
        from inspect import signature

        shown = signature(own)
        return shown.replace(parameters=[*shown.parameters.values()][1:])

    def __setattr__(cls, name: str, value: Any) -> None:
        cls._replaces(name)
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        cls._replaces(name)
        super().__delattr__(name)

    def _replaces(cls, name: str) -> None:
        if cls is getattr(TensorBase, "_kind", None):
            patched.setdefault(name, vars(cls).get(name))
            dispatcher.generation[0] += 1


class Constructed:
    """The base class that precedes Tensor in the bases of each subclass. Its `__new__` runs
    PyTorch's old constructor, for `super().__new__(cls, x)` and for a subclass without a
    `__new__`."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return construct(*args, **kwargs).as_subclass(cls)


def construct(*args: Any, **kwargs: Any) -> Any:
    """Run PyTorch's old constructor if as_torch is installed. Otherwise raise an error."""
    if called:
        return called[0](*args, **kwargs)
    rule = "be given to gputensor.tensor(...)"
    raise errors.wrong_type("Tensor", "data", rule, errors.Got("a call of Tensor"))


# Both lists are empty unless as_torch is installed. called: the old constructor. overridable: a
# function that returns the base class from which subclasses inherit their methods
# (as_torch/overrides/).
called: list[Callable[..., Any]] = []
overridable: list[Callable[[], Any]] = []
# Maps an attribute of Tensor that was set or deleted to its original value in the class, or to None
# if the class did not have the attribute.
patched: dict[str, Any] = {}
