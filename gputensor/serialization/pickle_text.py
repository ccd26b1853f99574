"""Writer of values as `torch.save` pickles them, without PyTorch.

The protocol is 2, as in PyTorch. A tensor is written as a call of
`torch._utils._rebuild_tensor_v2`, whose storage argument is a persistent id. Source:
torch/serialization.py, torch/_tensor.py
(`__reduce_ex__`).
"""

from __future__ import annotations

import codecs
import copyreg
import struct
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

from ..core import errors
from ..core.device import META, device
from ..core.dtype import dtype
from ..core.geometry import Size
from ..tensor.pickling import check_hooks, in_memory
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor
from . import allowed

# Maps a dtype's name to PyTorch's storage class. For all other dtypes, the storage is written as
# bytes, and the dtype is written separately.
STORAGE_TYPES = {
    "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage", "int64": "LongStorage", "int32": "IntStorage",
    "int16": "ShortStorage", "int8": "CharStorage", "uint8": "ByteStorage", "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage", "complex128": "ComplexDoubleStorage",
}  # fmt: skip
# This is the name of the class. An import of the class would load nn, which programs without
# modules do not load.
_PARAMETER = "gputensor.nn.parameter.Parameter"
_INT32 = range(-(2**31), 2**31)


class Writer:
    """Writer of a pickle. `storages` lists the storages of the pickle in the order of their
    numbers.

    takes_any: write objects of any class, not only of allowed classes.
    """

    def __init__(self, takes_any: bool = False) -> None:
        self._takes_any = takes_any
        self.storages: list[Storage] = []
        self._out = bytearray(b"\x80\x02")
        # _numbers: maps the id of a storage to the storage's number. _types: maps the id of a
        # storage to its storage class, or to None if the storage is written as bytes.
        self._numbers: dict[int, int] = {}
        self._types: dict[int, str | None] = {}
        # _memo: maps the id of a tensor or object to its memo number. _alive: keeps these objects
        # alive, so that their ids are not reused.
        self._memo: dict[int, int] = {}
        self._alive: list[Any] = []
        self._open: set[int] = set()
        self._kinds: dict[type, Callable[[Any], None]] = {
            type(None): lambda _: self._add(b"N"),
            bool: lambda value: self._add(b"\x88" if value else b"\x89"),
            int: self._int, float: lambda value: self._add(b"G" + struct.pack(">d", value)),
            str: self._str, complex: self._complex, dtype: self._dtype, device: self._device,
            Size: self._size,
        }  # fmt: skip

    def pickle(self, value: Any) -> bytes:
        """Return the pickle of a value.

        Raises: ArgumentTypeError, with the place in `obj`, for a type that cannot be saved.
        """
        self._write(value, "obj")
        return bytes(self._out) + b"."

    def _add(self, data: bytes) -> None:
        self._out += data

    def _write(self, value: Any, where: str) -> None:
        plain = self._kinds.get(type(value))
        if plain is not None:
            plain(value)
        elif hasattr(value, "_geometry"):
            self._tensor(value)
        else:
            self._container(value, where)

    # --- plain values -----------------------------------------------------------------------------

    def _int(self, value: int) -> None:
        if value in _INT32:
            self._add(b"J" + struct.pack("<i", value))
            return
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        if len(data) < 256:
            self._add(b"\x8a" + bytes([len(data)]) + data)
        else:
            self._add(b"\x8b" + struct.pack("<i", len(data)) + data)

    def _str(self, value: str) -> None:
        data = value.encode("utf-8", "surrogatepass")
        self._add(b"X" + struct.pack("<I", len(data)) + data)

    def _complex(self, value: complex) -> None:
        self._call("builtins", "complex", value.real, value.imag)

    def _dtype(self, value: dtype) -> None:
        self._name("torch", value.name)

    def _device(self, value: device) -> None:
        numbered = () if value.index is None else (value.index,)
        self._call("torch", "device", value.type, *numbered)

    def _size(self, value: Size) -> None:
        self._call("torch", "Size", tuple(value))

    def _name(self, module: str, name: str) -> None:
        self._add(f"c{module}\n{name}\n".encode())

    def _call(self, module: str, name: str, *arguments: Any, where: str = "obj") -> None:
        self._name(module, name)
        self._write(arguments, where)
        self._add(b"R")

    # --- containers -------------------------------------------------------------------------------

    def _container(self, value: Any, where: str) -> None:
        kind = type(value)
        is_ordered = kind.__name__ == "OrderedDict" and isinstance(value, dict)
        is_plain = kind in (list, tuple, dict, set) or is_ordered
        if not is_plain and not self._takes_any and not allowed.has(kind):
            rule = "be a tensor, number, string, list, tuple, dict, or of an allowed class"
            remedy = "gt.serialization.add_safe_globals allows a class"
            raise errors.wrong_type("save", where, rule, errors.Got(kind.__name__), remedy=remedy)
        if not is_plain:
            self._object(value, where)
            return
        if id(value) in self._open:
            raise errors.must("save", where, "not contain itself", errors.Got(kind.__name__))
        self._open.add(id(value))
        try:
            if kind is set:
                self._call("__builtin__", "set", list(value), where=where)
            elif kind in (list, tuple):
                self._sequence(value, where, kind is list)
            else:
                self._dict(value, where, is_ordered)
        finally:
            self._open.discard(id(value))

    def _sequence(self, value: Any, where: str, is_list: bool) -> None:
        if not value:
            self._add(b"]" if is_list else b")")
            return
        self._add(b"](" if is_list else b"(")
        for i, item in enumerate(value):
            self._write(item, f"{where}[{i}]")
        self._add(b"e" if is_list else b"t")

    def _dict(self, value: dict[Any, Any], where: str, is_ordered: bool) -> None:
        self._add(b"ccollections\nOrderedDict\n)R" if is_ordered else b"}")
        if value:
            self._add(b"(")
            for key, item in value.items():
                self._write(key, f"a key of {where}")
                self._write(item, f"{where}[{key!r}]")
            self._add(b"u")
        if is_ordered and vars(value):  # attributes such as _metadata of Module.state_dict
            self._write(vars(value), f"the attributes of {where}")
            self._add(b"b")

    # --- objects of other classes -----------------------------------------------------------------

    def _object(self, value: Any, where: str) -> None:
        """Write an object as pickle does: the function and the arguments that create it, its state
        and its items. A class or function is written as its name."""
        if self._recalls(value):
            return
        made = _reduced(value, where)
        if isinstance(made, str):
            self._global(value, where)
            return
        function, arguments, state, items, entries = (*made, None, None, None)[:5]
        is_new = function is copyreg.__newobj__  # type: ignore[attr-defined]
        if is_new:
            function, arguments = arguments[0], arguments[1:]
        self._global(function, where)
        self._write(tuple(arguments), where)
        self._add(b"\x81" if is_new else b"R")
        self._remember(value)
        if state is not None:
            self._write(state, f"the state of {where}")
            self._add(b"b")
        for item in items or ():
            self._write(item, f"an item of {where}")
            self._add(b"a")
        for key, item in entries or ():
            self._write(key, f"a key of {where}")
            self._write(item, f"{where}[{key!r}]")
            self._add(b"s")

    def _global(self, value: Any, where: str) -> None:
        if not self._takes_any and not allowed.has(value):
            rule = "be made by an allowed class or function"
            raise errors.must("save", where, rule, errors.Got(getattr(value, "__name__", value)))
        module, name = value.__module__, value.__qualname__
        if module is None or "." in name:
            rule = "be importable by its name"
            raise errors.must("save", where, rule, errors.Got(f"{module}.{name}"))
        self._name(module, name)

    def _recalls(self, value: Any) -> bool:
        """If an object was written before, write its memo number. Return True for such an object,
        and False for a new object."""
        known = self._memo.get(id(value))
        if known is not None:
            self._add(b"j" + struct.pack("<I", known))
        return known is not None

    def _remember(self, value: Any) -> None:
        self._alive.append(value)
        number = self._memo[id(value)] = len(self._memo)
        self._add(b"r" + struct.pack("<I", number))

    # --- tensors ----------------------------------------------------------------------------------

    def _tensor(self, tensor: Tensor) -> None:
        if self._recalls(tensor):
            return
        check_hooks(tensor)
        if f"{type(tensor).__module__}.{type(tensor).__name__}" == _PARAMETER:
            self._name("torch._utils", "_rebuild_parameter")
            self._add(b"(")
            self._elements(tensor, False)
            self._write(tensor.requires_grad, "obj")
            self._no_hooks()
            self._add(b"tR")
        else:
            self._elements(tensor, tensor.requires_grad)
        self._remember(tensor)

    def _elements(self, tensor: Tensor, requires_grad: bool) -> None:
        storage, offset, shape = in_memory(tensor, "save")
        self._alive.append(storage)
        sizes, strides = tuple(shape.sizes), tuple(shape.strides)
        if storage.device is META:
            name = "_rebuild_meta_tensor_no_storage"
            self._call("torch._utils", name, shape.dtype, sizes, strides, requires_grad)
            return
        number = self._numbers.setdefault(id(storage), len(self._numbers))
        if number == len(self.storages):
            self.storages.append(storage)
        # The first tensor that uses a storage determines the storage's class. The storage is
        # written as bytes if the dtype has no storage class, if the size is not a multiple of the
        # element size, or if an earlier tensor determined another class.
        size = shape.dtype.itemsize
        kind = STORAGE_TYPES.get(shape.dtype.name) if storage._nbytes % size == 0 else None
        if self._types.setdefault(id(storage), kind) != kind:
            kind = None
        self._name("torch._utils", f"_rebuild_tensor_v{3 if kind is None else 2}")
        self._add(b"(")
        self._storage(storage, number, kind, size)
        for value in (offset, sizes, strides, requires_grad):
            self._write(value, "obj")
        self._no_hooks()
        if kind is None:
            self._write(shape.dtype, "obj")
        self._add(b"tR")

    def _storage(self, storage: Storage, number: int, kind: str | None, itemsize: int) -> None:
        self._add(b"(")
        self._str("storage")
        self._name(*("torch.storage", "UntypedStorage") if kind is None else ("torch", kind))
        self._str(str(number))
        self._str(str(storage.device))
        self._int(storage._nbytes if kind is None else storage._nbytes // itemsize)
        self._add(b"tQ")

    def _no_hooks(self) -> None:
        self._write(OrderedDict(), "obj")


def _reduced(value: Any, where: str) -> Any:
    """Return the function and arguments that create an object again, followed by the object's state
    and items, as `__reduce_ex__` does. For a class or function, return its name."""
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return value.__name__
    if type(value) is bytes:  # protocol 2 has no opcode for bytes
        return codecs.encode, (value.decode("latin1"), "latin1")
    if isinstance(value, Enum):  # Python before 3.11.4 pickles some members by `getattr`
        return type(value), (value.value,)
    registered = copyreg.dispatch_table.get(type(value))
    try:
        return registered(value) if registered is not None else value.__reduce_ex__(2)
    except TypeError as error:
        raise errors.wrong_type(
            "save", where, "be an object that pickle takes", errors.Got(str(error))
        ) from None
