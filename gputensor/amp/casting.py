"""The casts of the kernels at the Autocast keys, and the weight cache.

makers/autocast.py makes the kernels from the field `autocast` of native_functions.yaml;
autocast_mode.py turns them on. Source: aten/src/ATen/autocast_mode.h,
autocast_mode.cpp.

Note [The weight cache]
A weight that several calls of one autocast block use is cast once. The cache stores the cast
without its autograd history: each use records a node of its own. So the cache keeps no weight
alive, a cast made under no_grad can be used where gradients are recorded, and gradients are summed
in float32. The cache key is the weight object, its version and storage (so a written weight is cast
again), the dtype, and the CUDA stream. In PyTorch only the weight is the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple
from weakref import ref

from .._generated import calls
from ..autograd.modes import NO_GRAD_MODE, grad_mode, left, set_mode
from ..autograd.node import Node, version_of
from ..autograd.streams import current_stream, identity
from ..autograd.history import AutogradMeta
from ..autograd.variable import record_unary, set_history
from ..core.arguments import NUMBERS
from ..core import dtype as dtypes
from ..core.dtype import bfloat16, dtype, float16, float32
from ..core.promotion import promote_types
from ..dispatch import keys, tls
from ..dispatch.keys import PYTHON
from ..tensor.storage import Storage
from ..tensor.make import view_of
from ..tensor.tensor import Tensor

# Dtypes that autocast casts from and to. float64 is never cast.
_CASTABLE = (float32, float16, bfloat16)


class AutocastDevice:
    """A device type with autocast: its key and its dtypes.

    type: `cuda`, or a registered device's name; None until one is registered. dtype: the target
    of the policy lower_precision_fp, per thread and per task.
    """

    __slots__ = ("key_name", "type", "key", "dtype", "supported")

    type: str | None
    dtype: ContextVar[dtypes.dtype]
    supported: tuple[dtypes.dtype, ...]
    key_name: str
    key: int

    def __init__(
        self, key_name: str, device_type: str | None, supported: tuple[dtypes.dtype, ...]
    ) -> None:
        self.key_name, self.key = key_name, keys.key_set((key_name,))
        self.bring_up(device_type, supported)

    def bring_up(self, device_type: str | None, supported: tuple[dtypes.dtype, ...]) -> None:
        """Set the device type and its supported dtypes. The first one is the default."""
        self.type, self.supported = device_type, supported
        self.dtype = ContextVar(f"gputensor_autocast_dtype_{device_type}", default=supported[0])

    @property
    def is_enabled(self) -> bool:
        return bool(tls.state.get()[1] & self.key)


CPU = AutocastDevice("AutocastCPU", "cpu", (bfloat16, float16))
CUDA = AutocastDevice("AutocastCUDA", "cuda", (float16, bfloat16))
PRIVATE = AutocastDevice("AutocastPrivateUse1", None, (float16, bfloat16))
DEVICES = (CPU, CUDA, PRIVATE)

AUTOCAST = tls.AUTOCAST
# Maps the set of Autocast keys of a call to the device of the highest key, whose kernel runs first.
device_of: dict[int, AutocastDevice] = {}
for _device in DEVICES:
    device_of |= {_rest | _device.key: _device for _rest in (0, *device_of)}


# --- casts ----------------------------------------------------------------------------------------


def is_eligible(x: Tensor, device: AutocastDevice) -> bool:
    """Return True for a tensor of float32, float16 or bfloat16 on the device."""
    return x._geometry.dtype in _CASTABLE and x._device.type == device.type


def cast(x: Tensor, to: dtype, device: AutocastDevice) -> Tensor:
    """Cast x to a dtype if x is eligible, otherwise return x. Casts of weights are cached."""
    before = x._geometry.dtype
    if before is to or not is_eligible(x, device):
        return x
    if before is float32 and x._autograd is not None and _is_weight(x) and cache_enabled.get():
        block = current_block.get()
        if block is not None and not tls.state.get()[0] & PYTHON:
            return block.cache.cast(x, to)
    return _converted(x, to)


def cast_any(x: Any, to: dtype, device: AutocastDevice) -> Any:
    """Apply `cast` to a tensor. Return None or a Python number unchanged."""
    return x if x is None or type(x) in NUMBERS else cast(x, to, device)


def cast_list(tensors: Sequence[Any], to: dtype, device: AutocastDevice) -> list[Any]:
    """Cast each tensor."""
    return [cast_any(x, to, device) for x in tensors]


def widest(device: AutocastDevice, *tensors: Any) -> dtype:
    """Return the dtype to which the policy `promote` casts: the smallest dtype that represents the
    lower precision and all eligible operands.

    PyTorch raises for an operand of the other 16-bit dtype; here ordinary promotion applies.
    """
    found = device.dtype.get()
    for x in tensors:
        if x is not None and type(x) not in NUMBERS and is_eligible(x, device):
            found = promote_types(found, x._geometry.dtype)
    return found


def _converted(x: Tensor, to: dtype) -> Tensor:
    return calls._to_copy(x, to)


# --- the weight cache -----------------------------------------------------------------------------


class Block(NamedTuple):
    """An autocast block that was entered: the state to restore at its end, its cache, and the
    `autocast` object through which it was entered."""

    outer: Block | None
    cache: WeightCache
    device: AutocastDevice
    was_enabled: bool
    was_dtype: dtype
    was_caching: bool
    owner: Any


current_block: ContextVar[Block | None] = ContextVar("gputensor_autocast_block", default=None)
cache_enabled: ContextVar[bool] = ContextVar("gputensor_autocast_cache", default=True)


class _Entry(NamedTuple):
    weight: ref[Tensor]
    storage: ref[Storage]
    version: int
    made: Tensor


class WeightCache:
    """Casts of weights. See Note [The weight cache]."""

    __slots__ = ("entries", "__weakref__")

    def __init__(self) -> None:
        self.entries: dict[tuple[Any, ...], _Entry] = {}

    def cast(self, x: Tensor, to: dtype) -> Tensor:
        # Inference mode is part of the key, because a tensor that was made in inference mode cannot
        # be used outside it.
        key = (id(x), to, tls.is_inference_mode(), identity(current_stream(x._device)))
        entry = self.entries.get(key)
        if (
            entry is None or entry.weight() is not x or entry.storage() is not x._storage
            or entry.version != version_of(x)
        ):  # fmt: skip
            entry = self.entries[key] = self._made(x, to, key)
        made = entry.made
        result = view_of(made, made._geometry, made._offset)
        node = record_unary(ToCopyBackward0, x)
        return result if node is None else set_history(result, node)

    def _made(self, x: Tensor, to: dtype, key: tuple[Any, ...]) -> _Entry:
        mode = grad_mode.get()
        try:
            set_mode(mode or NO_GRAD_MODE)
            made = _converted(x, to)
        finally:
            left(grad_mode.set(mode))
        # a weak reference, because a strong one from an entry to its cache would make a reference
        # cycle
        whose = ref(self)

        def forget(_: Any) -> None:
            cache = whose()
            if cache is not None:
                cache.entries.pop(key, None)

        return _Entry(ref(x, forget), ref(x._get_storage()), version_of(x), made)

    def clear(self) -> None:
        self.entries.clear()


class ToCopyBackward0(Node):
    """The autograd node of a weight's cast. Its backward converts the gradient to float32."""

    __slots__ = ()

    def backward(node, grad: Tensor) -> tuple[Tensor]:
        return (_converted(grad, float32),)


def _is_weight(x: Tensor) -> bool:
    """Return True for a leaf that requires grad and is not a view, unless the tensor's class
    overrides `__gputensor_dispatch__`."""
    meta = x._autograd
    return (
        type(meta) is AutogradMeta and meta.edge is None and meta.view is None
        and meta.own is not None and meta.own.requires_grad and not x._has_handler
    )  # fmt: skip
