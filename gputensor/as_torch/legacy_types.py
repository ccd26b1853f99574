"""`torch.FloatTensor` and its kin and `Variable`."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt
from gputensor.structured.generator import default_generator

_DTYPES = {
    "Float": gt.float32, "Double": gt.float64, "Half": gt.float16, "BFloat16": gt.bfloat16,
    "Byte": gt.uint8, "Char": gt.int8, "Short": gt.int16, "Int": gt.int32, "Long": gt.int64,
    "Bool": gt.bool,
}  # fmt: skip


class LegacyType(type):
    """The type of the classes below: none of their tensors has them as its own class."""

    dtype: gt.dtype
    place: str

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, gt.Tensor) and x.dtype is cls.dtype and x.device.type == cls.place

    def __call__(cls, *args: Any) -> Any:
        """A tensor of the elements of a sequence, or of these sizes, not initialised."""
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
    """`torch.cuda.default_generators`: that of each device, when it is asked for."""

    def __len__(self) -> int:
        return gt.cuda.device_count()

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no device {index}")
        return default_generator(gt.device("cuda", index))


def tensor(*args: Any, **kwargs: Any) -> gt.Tensor:
    """What `torch.Tensor(...)` makes: a tensor's memory under a new tensor, the elements of a
    sequence, or a tensor of these sizes that is not initialised; of the default dtype.

    Source: torch/csrc/utils/tensor_new.cpp, legacy_tensor_generic_ctor_new.
    """
    if len(args) == 1 and isinstance(args[0], gt.Tensor) and not kwargs:
        return args[0].detach()
    if "data" in kwargs:
        args = (*args, kwargs.pop("data"))
    place, dtype = kwargs.pop("device", None), gt.get_default_dtype()
    if kwargs:
        raise TypeError(f"Tensor() got an unexpected keyword argument {[*kwargs][0]!r}")
    if len(args) == 1 and not isinstance(args[0], (int, gt.Size)):
        return gt.tensor(args[0], dtype=dtype, device=place)
    sizes = args[0] if len(args) == 1 and isinstance(args[0], gt.Size) else args or (0,)
    made: gt.Tensor = gt.empty(sizes, dtype=dtype, device=place)
    return made


def set_default_tensor_type(kind: Any) -> None:
    """Make the dtype of such a class, or of its name, the default."""
    found = TYPES[kind.removeprefix("torch.")] if isinstance(kind, str) else kind
    gt.set_default_dtype(found.dtype)


class _VariableType(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, gt.Tensor)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Any:
        return data.detach().requires_grad_(requires_grad) if requires_grad else data


class Variable(metaclass=_VariableType):
    """What tensors were wrapped in before they had gradients: any tensor is one."""


class _MadeByType(type):
    """The type of a class whose objects a function of ours makes."""

    make: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return type(x).__name__ == cls.__name__ and type(x).__module__.startswith("gputensor.")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.make(*args, **kwargs)


def made_by(name: str, make: Any) -> Any:
    """A class to annotate with and to ask isinstance of, called as `make` is."""
    return _MadeByType(name, (), {"make": staticmethod(make), "__module__": "torch"})


Stream, Event = made_by("Stream", gt.cuda.Stream), made_by("Event", gt.cuda.Event)


class _FileBytes(np.memmap):
    """The bytes of a file as an array, with what safetensors asks of a storage."""

    def untyped(self) -> Any:
        """Itself."""
        return self


class _StorageType(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, gt.Storage)


class UntypedStorage(metaclass=_StorageType):
    """What isinstance asks of a storage, and the bytes of a file, as safetensors maps it."""

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        """The first bytes of a file, mapped into memory; written to in the file where shared."""
        return _FileBytes(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,))


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The CUDA devices of the tensors among `args`, and the random state of each."""
    devices = sorted({x.device.index or 0 for x in args if isinstance(x, gt.Tensor) and x.is_cuda})
    return devices, [gt.cuda.get_rng_state(index) for index in devices]


def set_device_states(devices: Any, states: Any, *, device_type: Any = None) -> None:
    """Give each device its random state of `get_device_states` again."""
    for index, state in zip(devices, states):
        gt.cuda.set_rng_state(state, index)


def current_accelerator(check_available: bool = False) -> Any:
    """The CUDA device, where there is one."""
    return gt.device("cuda") if gt.cuda.is_available() else None
