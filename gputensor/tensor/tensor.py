"""Tensor, the public class.

The generated base class has the operators as methods, and base.py has the attributes. This module
has Python's special methods and the protocols of other libraries. make.py makes tensors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from . import differentiable, indexing
from .._generated import calls
from .._generated.methods import GeneratedMethods
from ..core._generated import index
from ..core import dtype as dtypes, errors, memory_format as formats
from ..core.arguments import element_type, flag, number
from ..core.device import CPU, device
from ..core.geometry import Geometry, geometry
from ..core.memory_format import memory_format
from ..core.lazy import Lacks
from ..dispatch import defaults
from ..dispatch.backend_select import TENSOR_KEYS, resolve
from ..dispatch.keys import OVERRIDES, PYTHON
from ..dispatch.refusal import declares
from ..dispatch.tls import ExcludeDispatchKeys
from . import overloads, torch_names
from .base import TensorBase, TensorType, on_host, overridable
from .differentiable import Differentiable
from .storage import Storage
from .torch_names import TorchNames


_OF_CLASSES = PYTHON | OVERRIDES


class _Conversion(Protocol):
    def __call__(self, memory_format: memory_format = ...) -> Tensor: ...


def _convert_to(name: str, target: dtypes.dtype) -> Any:
    def convert(self: Tensor, memory_format: memory_format = formats.preserve_format) -> Tensor:
        form = None if memory_format is formats.preserve_format else memory_format
        return calls.to_dtype(self, target, False, False, form)

    convert.__name__ = name
    convert.__doc__ = f"`self.to({target!r})`."
    return convert


class Conversions:
    """Methods that call `self.to(dtype)`, under PyTorch's names of the dtypes."""

    __slots__ = ()

    bool: _Conversion = _convert_to("bool", dtypes.bool_)
    byte: _Conversion = _convert_to("byte", dtypes.uint8)
    char: _Conversion = _convert_to("char", dtypes.int8)
    short: _Conversion = _convert_to("short", dtypes.int16)
    int: _Conversion = _convert_to("int", dtypes.int32)
    long: _Conversion = _convert_to("long", dtypes.int64)
    half: _Conversion = _convert_to("half", dtypes.float16)
    bfloat16: _Conversion = _convert_to("bfloat16", dtypes.bfloat16)
    float: _Conversion = _convert_to("float", dtypes.float32)
    double: _Conversion = _convert_to("double", dtypes.float64)
    chalf: _Conversion = _convert_to("chalf", dtypes.complex32)
    cfloat: _Conversion = _convert_to("cfloat", dtypes.complex64)
    cdouble: _Conversion = _convert_to("cdouble", dtypes.complex128)


class Lacking:
    """The last base of Tensor. It raises an error for each name that PyTorch's tensors or NumPy's
    arrays have and gputensor's tensors lack."""

    __slots__ = ()
    _lacks = {name: Lacks(name) for name in index.LACKS.split()}
    vars().update(_lacks)

    def __dir__(self) -> list[str]:
        listed = object.__dir__(self)
        return [name for name in listed if name not in Lacking._lacks or hasattr(self, name)]


class Tensor(
    Differentiable, GeneratedMethods, Conversions, TorchNames, Lacking, metaclass=TensorType
):
    """A strided array on one device, whose operators go through the dispatcher."""

    __slots__ = ()

    __array_priority__ = 1000

    @classmethod
    def _over(cls, storage: Storage, offset: int, geometry: Geometry, keys: int) -> Self:
        """Make a tensor of this class, or of a user's subclass, over a storage."""
        made = object.__new__(cls)
        made._geometry, made._device, made._offset = geometry, storage.device, offset
        made._storage, made._array, made._autograd = storage, None, None
        # The key set is replaced only if necessary, because short cuts compare it by identity.
        if cls._class_keys or keys & _OF_CLASSES:
            keys = keys & ~_OF_CLASSES | cls._class_keys
        made._keys = keys
        if cls is not Tensor:
            # Autograd's short paths are for the class Tensor only. A tensor of a subclass gets
            # autograd data, so that it takes the full path.
            differentiable.variable.meta_of(made)
        return made

    # --- subclasses -----------------------------------------------------------------------------

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own: Any = cls.__gputensor_dispatch__
        ours: Any = Tensor.__gputensor_dispatch__
        cls._has_handler = own.__func__ is not ours.__func__
        cls._class_keys = PYTHON if cls._has_handler else 0
        if overridable and overridable[0]().is_overriding(cls):
            cls._class_keys |= OVERRIDES

    @classmethod
    def __gputensor_dispatch__(
        cls, op: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Handle an operator call. If a subclass overrides this method, it is called for every
        operator that has a tensor of the subclass as an operand.

        types: the operands' classes that have a handler. The default handler runs the operator on
        the operands' memory and returns plain tensors. See fallbacks/modes.py.
        """
        with ExcludeDispatchKeys(PYTHON):
            return _plain(op(*args, **(kwargs or {})))

    @staticmethod
    def _make_subclass(cls: type, data: Tensor, require_grad: Any = False) -> Any:
        """Make a tensor of a subclass over the memory of `data`."""
        kind = _of_tensors(cls)
        made = kind._over(data._get_storage(), data._offset, data._geometry, data._keys)
        return made.requires_grad_() if require_grad else made

    @staticmethod
    def _make_wrapper_subclass(
        cls: type, size: Any, strides: Any = None, storage_offset: int | None = None, *,
        dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        """Make a tensor of a subclass without memory, for handlers that store their data
        elsewhere."""
        sizes = tuple(size)
        element = defaults.get_default_dtype() if dtype is None else dtype
        if not isinstance(element, dtypes.dtype):
            raise errors.not_a_dtype("_make_wrapper_subclass", element)
        place = resolve(None if device is None else _device(device))
        kind = _of_tensors(cls)
        strides = formats.contiguous_strides(sizes) if strides is None else tuple(strides)
        shape = geometry(sizes, strides, element)
        offset = storage_offset or 0
        storage = Storage.over(None, (offset + shape.extent) * element.itemsize, place)
        made = kind._over(storage, offset, shape, TENSOR_KEYS[place.type])
        return made.requires_grad_() if requires_grad else made

    def as_subclass(self, cls: type) -> Any:
        """Return a view of this tensor, with the tensor's history, as a tensor of a subclass."""
        view = calls.alias(self)
        made = Tensor._make_subclass(cls, view)
        if view._autograd is not None:
            made._autograd = view._autograd
        return made

    # --- special methods ------------------------------------------------------------------------

    def __repr__(self) -> str:
        if self._has_handler:  # only the class's handler can access the elements
            return f"{type(self).__name__}({errors.describe(self)})"
        from .printing import tensor_repr

        return tensor_repr(self)

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: see tensor/printing/notebook.py."""
        from .printing import notebook

        return notebook.html(self)

    def __format__(self, spec: str) -> str:
        if self._geometry.ndim == 0 and self._device.type != "meta":
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __len__(self) -> int:
        if self._geometry.ndim == 0:
            raise errors.wrong_type("len", "self", "have a dimension", self)
        return self._geometry.sizes[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self._geometry.ndim == 0:
            raise errors.wrong_type("iter", "self", "have a dimension", self)
        return iter(calls.unbind_int(self, 0))

    def __reversed__(self) -> Tensor:
        """Return the tensor with its first dimension reversed."""
        return calls.flip(self, [0]) if self._geometry.ndim else self

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
            raise errors.wrong_type("index", "self", "be integer or bool", self)
        return int(self._scalar("index"))

    def _scalar(self, op: str) -> Any:
        if self._geometry.numel != 1:
            raise errors.not_one_element(op, self)
        return calls.item(self)

    def _operand(self, op: str, other: Any, is_boolean: bool) -> Any:
        """Convert a foreign operand to a number or a tensor. Return None if it is neither.

        is_boolean: True for an operator whose result has no gradient. docs/usage/interop.md has the
        rules.
        """
        if isinstance(other, np.ndarray) or hasattr(type(other), "__dlpack__"):
            from . import export

            return errors.plainly(export.operand, op, self, other, is_boolean)
        if (plain := number(other)) is None:
            self._foreign(op, other)
        return plain

    def _foreign(self, op: str, other: Any) -> Any:
        """Return NotImplemented for an operand that we cannot convert, so that Python tries the
        reflected operator. If the operand's class has a `__torch_function__`, raise a TypeError:
        dispatch/refusal.py catches it and calls `__torch_function__`."""
        if overridable and hasattr(type(other), "__torch_function__"):
            raise errors.not_a_tensor(op, "other", "a Tensor", other)
        return NotImplemented

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, Tensor) and number(value) is None:
            rule = "be a Tensor or a number"
            raise errors.wrong_type("__contains__", "value", rule, value)
        return bool((self == value).any())

    __hash__ = object.__hash__

    if TYPE_CHECKING:  # the signatures of methods that are assigned below

        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def norm(
            self, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
        ) -> Tensor: ...

        def unique(
            self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
            dim: int | None = None,
        ) -> Any: ...  # fmt: skip

        def unique_consecutive(
            self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
        ) -> Any: ...
    else:
        # Assign the functions themselves, because methods that call them would be slower.
        # bench/host/overhead.py measures q[1].
        __getitem__, __setitem__ = indexing.get, indexing.put
        norm = overloads.norm_of
        unique, unique_consecutive = overloads.unique, overloads.unique_consecutive

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """Return the indices of the elements that are not zero. See gt.nonzero."""
        return indexing.nonzero(self, as_tuple=as_tuple)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers. A 0-d tensor gives a number."""
        if not self._geometry.ndim:
            return self.item()
        return on_host(self).tolist()

    # --- other libraries --------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Return an ndarray over the same memory. `force` copies from another device first."""
        from . import export

        return export.numpy(self, flag("numpy", "force", force))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        from . import export

        return export.array(self, dtype, copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Implement `np.sin(x)` and `ndarray + x`: see docs/usage/interop.md."""
        return _numpy_protocol().array_ufunc(self, ufunc, method, inputs, options)

    def __array_function__(
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Implement `np.concatenate([x, y])`: see docs/usage/interop.md."""
        return _numpy_protocol().array_function(self, func, args, kwargs)

    @property
    def __array_struct__(self) -> Any:
        from . import export

        return export.array_attribute(self, "__array_struct__")

    @property
    def __array_interface__(self) -> dict[str, Any]:
        from . import export

        found: dict[str, Any] = export.array_attribute(self, "__array_interface__")
        return found

    def __buffer__(self, flags: int) -> memoryview:
        """Return the memory of a CPU tensor, from Python 3.12 on: `memoryview(x)`."""
        from . import export

        return export.array(self).data

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        from . import dlpack

        return dlpack.export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        from . import dlpack

        return dlpack.device_of(self)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """Return the namespace of the Python array API standard: `gputensor.array_api`."""
        from . import export

        return export.array_namespace(api_version)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        from . import export

        return export.cuda_array_interface(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from . import pickling

        return pickling.reduce(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        from . import pickling

        return pickling.deepcopy(self, memo)

    # --- other devices and types ------------------------------------------------------------------

    def cpu(self, memory_format: memory_format = formats.preserve_format) -> Tensor:
        """Return a copy on the CPU, or the tensor itself if it is on the CPU. Waits for the
        device."""
        if memory_format is not formats.preserve_format:
            return self.to(CPU, memory_format=memory_format)
        return self if self._device is CPU else calls.to_device(self, CPU, self._geometry.dtype)

    def cuda(
        self, device: Any = None, non_blocking: bool = False,
        memory_format: memory_format = formats.preserve_format,
    ) -> Tensor:  # fmt: skip
        """Return a copy on a CUDA device (the current one by default), or the tensor itself if it
        is on that device."""
        target = _device("cuda" if device is None else device)
        if memory_format is not formats.preserve_format:
            return self.to(target, non_blocking=non_blocking, memory_format=memory_format)
        return calls.to_device(self, target, self._geometry.dtype, non_blocking)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """Return a copy on a device, as in the array API standard, or the tensor itself if it is on
        that device.

        stream: the stream of the target's backend on which the copy is queued. None means the
        current one.
        """
        from . import export

        return export.to_device(self, _device(device), stream)

    def is_nonzero(self) -> bool:
        """True if the only element is not zero. Waits for the device."""
        return bool(self)

    @declares(other="Tensor")
    def is_same_size(self, other: Tensor) -> bool:
        """True if another tensor has the same sizes."""
        return self._geometry.sizes == other._geometry.sizes

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return `self.to(dtype)`. The dtype may be a name such as "gputensor.FloatTensor". Without
        a dtype, return the name of this tensor's type."""
        # the classes of as_torch, such as FloatTensor, have the name as an attribute
        dtype = getattr(dtype, "tensor_type", dtype)
        if dtype is not None and not isinstance(dtype, str):
            element = element_type("type", dtype)
            is_late = flag("type", "non_blocking", non_blocking)
            return calls.to_dtype(self, element, is_late, False, None)
        if dtype is not None:
            return calls.to_device(self, *torch_names.meaning(dtype), non_blocking)
        place = "" if self._device is CPU else f"{self._device.type}."
        return f"{dtypes.package_name}.{place}{torch_names.NAMES[self._geometry.dtype]}Tensor"

    def astype(self, dtype: Any, *, copy: bool = True) -> Tensor:
        """Call `self.to(dtype)` under NumPy's name. NumPy's dtypes and names such as "f4" are
        accepted. The result is a copy, unless copy is False and the dtype is unchanged."""
        element = element_type("astype", dtype, by_name=True)
        return calls.to_dtype(self, element, False, flag("astype", "copy", copy), None)

    def new_tensor(
        self, data: Any, *, dtype: dtypes.dtype | None = None, device: Any = None,
        requires_grad: Any = False, pin_memory: Any = False,
    ) -> Tensor:  # fmt: skip
        """Call `gt.tensor(data)` with this tensor's dtype and device. The result is always a copy,
        and a leaf."""
        made: Tensor = import_module("gputensor.exchange.construct").tensor(
            data, dtype=self._geometry.dtype if dtype is None else dtype, pin_memory=pin_memory,
            device=self._device if device is None else device, requires_grad=requires_grad,
        )  # fmt: skip
        return made

    def copy(self) -> Tensor:
        """Call `self.clone()` under NumPy's name."""
        return calls.clone(self)

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix."""
        if self._geometry.ndim not in (0, 2):
            raise errors.must("H", "self", "be a matrix", self, remedy="use .mH")
        return calls.conj(calls.transpose_int(self, 0, 1) if self._geometry.ndim else self)

    @property
    def T(self) -> Tensor:
        """A view with reversed dimensions. Warns for more than two dimensions."""
        if self._geometry.ndim > 2:
            warnings.warn(errors.reverses_all_dimensions(self), UserWarning, stacklevel=2)
        return calls.permute(self, tuple(range(self._geometry.ndim - 1, -1, -1)))


_device = device


@cache
def _numpy_protocol() -> Any:
    return import_module("gputensor.exchange.numpy.protocol")


def _of_tensors(kind: Any) -> type[Tensor]:
    if not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise errors.wrong_type("_make_subclass", "cls", "be a subclass of Tensor", kind)
    return kind


def _plain(result: Any) -> Any:
    # A result that is a view has the key set of its base, so the key of the base's handler is
    # removed.
    if isinstance(result, (list, tuple)):
        return type(result)([_plain(x) for x in result])
    if hasattr(result, "_keys") and not type(result)._has_handler:
        result._keys &= ~PYTHON
    return result


TensorBase._kind = Tensor

# `blank` makes a tensor with empty slots. It is `type.__call__`.
blank: Callable[[], Tensor] = type.__call__.__get__(Tensor)
