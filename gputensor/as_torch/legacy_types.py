"""`torch.FloatTensor` and similar classes, `Variable`, `UntypedStorage`, `autocast` for one device,
and base classes of PyTorch's modules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import gputensor as gt
from gputensor._generated import calls
from gputensor.autograd.engine.run import queue_callback
from gputensor.core.errors import absent
from gputensor.exchange.construct import of_type
from gputensor.nn.modules import functional, loss, norm, pooling, resampling
from gputensor.structured.generator import default_generator
from gputensor.tensor.typed_storage import TypedStorage

from .places import PAGE

_DTYPES = {
    "Float": gt.float32, "Double": gt.float64, "Half": gt.float16, "BFloat16": gt.bfloat16,
    "Byte": gt.uint8, "Char": gt.int8, "Short": gt.int16, "Int": gt.int32, "Long": gt.int64,
    "Bool": gt.bool,
}  # fmt: skip


class LegacyType(type):
    """Metaclass of `FloatTensor` and similar classes. isinstance tests a tensor's dtype and
    device."""

    dtype: gt.dtype
    place: str

    @property
    def tensor_type(cls) -> str:
        """The type's name, which `Tensor.type` accepts."""
        return f"{cls.__module__}.{cls.__name__}"

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, gt.Tensor) and x.dtype is cls.dtype and x.device.type == cls.place

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        """Make a tensor of a sequence's elements, or an uninitialised tensor of these sizes."""
        place = gt.device(cls.place if device is None else device)
        if place.type != cls.place:
            raise RuntimeError(f"{cls.tensor_type}: 'device' must be a {cls.place} device")
        return of_type(args, cls.dtype, place)


def _types(place: str, module: str) -> dict[str, Any]:
    return {
        f"{name}Tensor": LegacyType(
            f"{name}Tensor", (), {"dtype": dtype, "place": place, "__module__": module}
        )
        for name, dtype in _DTYPES.items()
    }


TYPES, CUDA_TYPES = _types("cpu", "torch"), _types("cuda", "torch.cuda")


class _TypedStorageType(LegacyType):
    """Metaclass of `FloatStorage` and similar classes."""

    def __instancecheck__(cls, x: Any) -> bool:
        is_typed = isinstance(x, TypedStorage) and x.dtype is cls.dtype
        return is_typed and x.device.type == cls.place

    def __call__(cls, *args: Any, **options: Any) -> Any:
        """Make a storage of a number of elements, or of the elements of a sequence."""
        return TypedStorage(*args, dtype=cls.dtype, device=cls.place, **options)


STORAGES = {
    f"{name}Storage": _TypedStorageType(
        f"{name}Storage", (TypedStorage,), {"dtype": dtype, "place": "cpu", "__module__": "torch"}
    )
    for name, dtype in {
        **_DTYPES, "ComplexFloat": gt.complex64, "ComplexDouble": gt.complex128
    }.items()
}  # fmt: skip
STORAGES["Storage"] = STORAGES["FloatStorage"]


class DefaultGenerators:
    """`torch.cuda.default_generators`: the default generator of each device."""

    def __len__(self) -> int:
        return gt.cuda.device_count()

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no device {index}")
        return default_generator(gt.device("cuda", index))


def tensor(*args: Any, **kwargs: Any) -> gt.Tensor:
    """`torch.Tensor(...)`: make a tensor of the default dtype from sizes or elements. A tensor of
    any dtype gives a tensor over its memory."""
    if len(args) == 1 and isinstance(args[0], gt.Tensor) and not kwargs:
        return calls.alias(args[0])
    if "data" in kwargs:
        args = (*args, kwargs.pop("data"))
    place = kwargs.pop("device", None)
    if kwargs:
        raise TypeError(f"Tensor() got an unexpected keyword argument {[*kwargs][0]!r}")
    return of_type(args, gt.get_default_dtype(), place)


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype to the dtype of a legacy class, given as the class or its name."""
    found = TYPES[t.removeprefix("torch.")] if isinstance(t, str) else t
    gt.set_default_dtype(found.dtype)


class _VariableType(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, gt.Tensor)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Any:
        return data.detach().requires_grad_(requires_grad) if requires_grad else data


class Variable(metaclass=_VariableType):
    """PyTorch's former wrapper of tensors with gradients. Every tensor counts as an instance."""

    _execution_engine = SimpleNamespace(queue_callback=queue_callback)


class _MadeByType(type):
    """Metaclass of classes whose objects are made by a function of gputensor."""

    make: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return type(x).__name__ == cls.__name__ and type(x).__module__.startswith("gputensor.")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.make(*args, **kwargs)


def made_by(name: str, make: Any) -> Any:
    """Return a class for annotations and isinstance. A call of the class calls `make`."""
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
    """A class for isinstance tests of storages, with `from_file` for safetensors."""

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        """Map the first bytes of a file into memory. With `shared`, writes change the file."""
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


class _OfDevice(gt.amp.autocast):
    """`torch.cuda.amp.autocast`: `torch.autocast` for a fixed device."""

    __slots__ = ()
    type_: str

    def __init__(
        self, enabled: bool = True, dtype: gt.dtype | None = None,
        cache_enabled: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(self.type_, dtype, enabled, cache_enabled)


def _amp(device: str) -> dict[str, Any]:
    """Return the functions of `torch.cuda.amp` or `torch.cpu.amp`, which have no argument for the
    device."""

    def custom_fwd(fwd: Any = None, *, cast_inputs: gt.dtype | None = None) -> Any:
        return gt.amp.custom_fwd(fwd, device_type=device, cast_inputs=cast_inputs)

    def custom_bwd(bwd: Any) -> Any:
        return gt.amp.custom_bwd(bwd, device_type=device)

    class GradScaler(gt.amp.GradScaler):
        def __init__(
            self, init_scale: float = 2.0**16, growth_factor: float = 2.0,
            backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
        ) -> None:  # fmt: skip
            given = init_scale, growth_factor, backoff_factor, growth_interval, enabled
            super().__init__(device, *given)

    autocast = type("autocast", (_OfDevice,), {"__slots__": (), "type_": device})
    return {
        "autocast": autocast, "custom_fwd": custom_fwd, "custom_bwd": custom_bwd,
        "GradScaler": GradScaler,
    }  # fmt: skip


_OF_CPU = _amp("cpu")
AMP = {"cuda": _amp("cuda"), "cpu": {name: _OF_CPU[name] for name in ("autocast", "GradScaler")}}


class _BaseType(type):
    """Metaclass of PyTorch's base classes of modules. Some of gputensor's modules count as
    subclasses of these classes."""

    ours: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return issubclass(type(x), cls)

    def __subclasscheck__(cls, kind: type) -> bool:
        own = vars(cls).get("ours")
        return type.__subclasscheck__(cls, kind) or own is not None and issubclass(kind, own)


def _base(name: str, kind: type, *ours: type) -> dict[str, Any]:
    """Return {name: class}. The class is new and has PyTorch's name. Programs derive modules from
    it. kind: the base of the new class. ours: gputensor's classes that count as subclasses of the
    new class, by default `kind`. Subclasses of `ours` count too."""
    return {name: _BaseType(name, (kind,), {"ours": ours or kind, "__module__": "torch.nn"})}


_batch_norms = (gt.nn.BatchNorm1d, gt.nn.BatchNorm2d, gt.nn.BatchNorm3d, gt.nn.SyncBatchNorm)
_average = (gt.nn.AdaptiveAvgPool1d, gt.nn.AdaptiveAvgPool2d, gt.nn.AdaptiveAvgPool3d)
_greatest = (gt.nn.AdaptiveMaxPool1d, gt.nn.AdaptiveMaxPool2d, gt.nn.AdaptiveMaxPool3d)
# Maps a module of PyTorch to its base classes by name.
BASES: dict[str, dict[str, Any]] = {
    "torch.nn.modules.batchnorm": {
        **_base("_BatchNorm", norm._BatchNorm, *_batch_norms),
        **_base("_NormBase", norm._BatchNorm, norm._BatchNorm, gt.nn.SyncBatchNorm),
    },
    "torch.nn.modules.dropout": {"_DropoutNd": functional._Dropout},
    "torch.nn.modules.loss": {
        **_base("_Loss", loss._Loss, loss._WithOptions, gt.nn.LinearCrossEntropyLoss),
        **_base(
            "_WeightedLoss", loss._WeightedLoss, loss._ClassLoss, gt.nn.BCELoss,
            gt.nn.MultiMarginLoss, gt.nn.MultiLabelSoftMarginLoss, gt.nn.LinearCrossEntropyLoss,
        ),
    },
    "torch.nn.modules.padding": {
        **_base("_ConstantPadNd", resampling._ConstantPad, resampling._ConstantPad,
                resampling._ZeroPad),
        "_ReflectionPadNd": resampling._ReflectionPad,
        "_ReplicationPadNd": resampling._ReplicationPad,
        "_CircularPadNd": resampling._CircularPad,
    },
    "torch.nn.modules.pooling": {
        "_MaxPoolNd": pooling._MaxPool, "_AvgPoolNd": pooling._AvgPool,
        "_LPPoolNd": pooling._LPPool, "_MaxUnpoolNd": pooling._MaxUnpool,
        **_base("_AdaptiveAvgPoolNd", pooling._Adaptive, *_average),
        **_base("_AdaptiveMaxPoolNd", pooling._Adaptive, *_greatest),
    },
}  # fmt: skip


class GraphModule(gt.nn.Module):
    """A base class for packages that define traced modules. The constructor raises an error."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        why = absent.why("torch.fx", "GraphModule")
        raise NotImplementedError(f"torch.fx.GraphModule: {why} (see {PAGE})")
