"""`torch.FloatTensor` and related classes, `Variable`, `UntypedStorage`."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor._generated import calls
from gputensor.structured.generator import default_generator

_DTYPES = {
    "Float": gt.float32, "Double": gt.float64, "Half": gt.float16, "BFloat16": gt.bfloat16,
    "Byte": gt.uint8, "Char": gt.int8, "Short": gt.int16, "Int": gt.int32, "Long": gt.int64,
    "Bool": gt.bool,
}  # fmt: skip


class LegacyType(type):
    """Metaclass of `FloatTensor` and others: isinstance tests a tensor's dtype and device."""

    dtype: gt.dtype
    place: str

    @property
    def tensor_type(cls) -> str:
        """The name that `Tensor.type` takes."""
        return f"{cls.__module__}.{cls.__name__}"

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, gt.Tensor) and x.dtype is cls.dtype and x.device.type == cls.place

    def __call__(cls, *args: Any) -> Any:
        """Make a tensor from a sequence, or an uninitialised tensor of the given sizes."""
        if len(args) == 1 and not isinstance(args[0], int):
            if isinstance(args[0], gt.Size):
                return gt.empty(args[0], dtype=cls.dtype, device=cls.place)
            return gt.tensor(args[0], dtype=cls.dtype, device=cls.place)
        return gt.empty(args or (0,), dtype=cls.dtype, device=cls.place)


def _types(place: str, module: str) -> dict[str, Any]:
    return {
        f"{name}Tensor": LegacyType(
            f"{name}Tensor", (), {"dtype": dtype, "place": place, "__module__": module}
        )
        for name, dtype in _DTYPES.items()
    }


TYPES, CUDA_TYPES = _types("cpu", "torch"), _types("cuda", "torch.cuda")


class DefaultGenerators:
    """`torch.cuda.default_generators`: the default generator of each device."""

    def __len__(self) -> int:
        return gt.cuda.device_count()

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no device {index}")
        return default_generator(gt.device("cuda", index))


def tensor(*args: Any, **kwargs: Any) -> gt.Tensor:
    """`torch.Tensor(...)`: a tensor over another tensor's memory, of a sequence's elements, or
    uninitialised with the given sizes; in the default dtype.

    Source: torch/csrc/utils/tensor_new.cpp, legacy_tensor_generic_ctor_new.
    """
    if len(args) == 1 and isinstance(args[0], gt.Tensor) and not kwargs:
        return calls.alias(args[0])
    if "data" in kwargs:
        args = (*args, kwargs.pop("data"))
    place, dtype = kwargs.pop("device", None), gt.get_default_dtype()
    if kwargs:
        raise TypeError(f"Tensor() got an unexpected keyword argument {[*kwargs][0]!r}")
    if len(args) == 1 and not isinstance(args[0], (int, gt.Size)):
        return gt.tensor(args[0], dtype=dtype, device=place)
    sizes = args[0] if len(args) == 1 and isinstance(args[0], gt.Size) else args or (0,)
    return gt.empty(sizes, dtype=dtype, device=place)


def set_default_tensor_type(kind: Any) -> None:
    """Set the default dtype to the dtype of a legacy class, which is given as class or name."""
    found = TYPES[kind.removeprefix("torch.")] if isinstance(kind, str) else kind
    gt.set_default_dtype(found.dtype)


class _VariableType(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, gt.Tensor)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Any:
        return data.detach().requires_grad_(requires_grad) if requires_grad else data


class Variable(metaclass=_VariableType):
    """PyTorch's former wrapper of tensors with gradients. Every tensor is an instance."""


class _MadeByType(type):
    """Metaclass of classes whose objects are made by one of our functions."""

    make: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return type(x).__name__ == cls.__name__ and type(x).__module__.startswith("gputensor.")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.make(*args, **kwargs)


def made_by(name: str, make: Any) -> Any:
    """Return a class for annotations and isinstance; a call of it calls `make`."""
    return _MadeByType(name, (), {"make": staticmethod(make), "__module__": "torch"})


Stream: Any = made_by("Stream", gt.cuda.Stream)
Event: Any = made_by("Event", gt.cuda.Event)


class _FileBytes(np.memmap):
    """The bytes of a file as an array, with the storage methods that safetensors calls."""

    def untyped(self) -> Any:
        return self


class _StorageType(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, gt.Storage)

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        """Make a storage of a number of bytes, or of the bytes in a sequence."""
        given = args[0] if args else 0
        if isinstance(given, int):
            return gt.empty(given, dtype=gt.uint8, device=device).untyped_storage()
        return gt.tensor(given, dtype=gt.uint8, device=device).untyped_storage()


class UntypedStorage(metaclass=_StorageType):
    """A class for isinstance of storages, and `from_file` for safetensors."""

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        """Map the first bytes of a file into memory; with `shared`, writes reach the file."""
        return _FileBytes(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,))


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Return the CUDA devices of the tensors in `args`, and the random state of each."""
    devices = sorted({x.device.index or 0 for x in args if isinstance(x, gt.Tensor) and x.is_cuda})
    return devices, [gt.cuda.get_rng_state(index) for index in devices]


def set_device_states(devices: Any, states: Any, *, device_type: Any = None) -> None:
    """Restore the random states that `get_device_states` returned."""
    for index, state in zip(devices, states):
        gt.cuda.set_rng_state(state, index)


def current_accelerator(check_available: bool = False) -> Any:
    """Return the current CUDA device, or None."""
    return gt.device("cuda") if gt.cuda.is_available() else None
