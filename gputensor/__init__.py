"""gputensor: a GPU-backed array runtime whose dispatcher, iterator and kernels can be read in
Python.

    >>> import gputensor as gt
    >>> x = gt.arange(6).reshape(2, 3)
    >>> (x + 1).sum(0)
    tensor([5, 7, 9])

This module re-exports; `docs/architecture.md` tells where everything is.
"""

from __future__ import annotations

import typing as _typing

from . import (
    amp as amp, autograd as autograd, cuda as cuda, dispatch as dispatch, library as library,
    ops as ops, testing as testing,
)  # fmt: skip
from .devices import backend as backend
from .interpose import lazy_views as _lazy_views
from .interpose import modes as _modes
from ._generated import kernels as _kernels
from ._generated.functions import *  # noqa: F403
from .amp.autocast_mode import (
    autocast as autocast, clear_autocast_cache as clear_autocast_cache,
    get_autocast_dtype as get_autocast_dtype,
    is_autocast_cache_enabled as is_autocast_cache_enabled,
    is_autocast_enabled as is_autocast_enabled,
    set_autocast_cache_enabled as set_autocast_cache_enabled,
    set_autocast_dtype as set_autocast_dtype, set_autocast_enabled as set_autocast_enabled,
)  # fmt: skip
from .autograd import (
    enable_grad as enable_grad, inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled, is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad, set_grad_enabled as set_grad_enabled,
)  # fmt: skip
from .autograd.fallback import set_autograd_fallback_mode as _set_autograd_fallback_mode
from .core.device import device as device
from .core.dtype import (
    bfloat16 as bfloat16, complex64 as complex64, complex128 as complex128, dtype as dtype,
    float16 as float16, float32 as float32, float64 as float64, int8 as int8, int16 as int16,
    int32 as int32, int64 as int64, uint8 as uint8, uint16 as uint16, uint32 as uint32,
    uint64 as uint64,
)  # fmt: skip
from .core.dtype import bool_ as _bool
from .core.errors import GpuTensorError as GpuTensorError
from .core.errors import no_attribute as _no_attribute
from .core.geometry import Size as Size
from .core.memory_format import (
    channels_last as channels_last, channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format, memory_format as memory_format,
    preserve_format as preserve_format, strided as strided,
)  # fmt: skip
from .core.promotion import can_cast as can_cast, promote_types as promote_types
from .dispatch.backend_select import set_default_device as set_default_device
from .dispatch.defaults import (
    get_default_dtype as get_default_dtype, set_default_dtype as set_default_dtype,
)  # fmt: skip
from .dispatch.trace import start_from_environment as _start_trace
from .exchange.dlpack import from_dlpack as from_dlpack
from .exchange.numpy_bridge import from_numpy as from_numpy
from .structured.tensor_iterator import (
    TensorIterator as TensorIterator, TensorIteratorConfig as TensorIteratorConfig,
)  # fmt: skip
from .tensor.type_info import finfo as finfo, iinfo as iinfo
from .interpose.modes import DispatchMode as DispatchMode, no_dispatch as no_dispatch
from .native.random import (
    Generator as Generator, initial_seed as initial_seed, manual_seed as manual_seed,
)  # fmt: skip
from .tensor.printing import (
    get_printoptions as get_printoptions, printoptions as printoptions,
    set_printoptions as set_printoptions,
)  # fmt: skip
from .runtime.cpu import get_num_threads as get_num_threads, set_num_threads as set_num_threads
from .exchange.serialization import load as load, save as save
from .tensor.storage import Storage as Storage
from .tensor.tensor import Tensor as Tensor
from .exchange.construct import (  # behind the room of its name
    as_tensor as as_tensor, asarray as asarray, tensor as tensor,
)  # fmt: skip

bool, half, float, double = _bool, float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128

__version__ = "0.1.0.dev0"


if _typing.TYPE_CHECKING:
    from . import layout as layout, nn as nn, optim as optim
    from .devices import fallback as fallback
    from .watch import profiler as profiler
    from .watch.audit import audit_copies as audit_copies

# Loaded when first asked for: few programs need them, and imports are budgeted.
_LATER = {
    "fallback": "devices.fallback", "layout": "layout", "profiler": "watch.profiler",
    "audit_copies": "watch.audit", "nn": "nn", "optim": "optim",
}  # fmt: skip


def __getattr__(name: str) -> _typing.Any:
    """What is in `_LATER`; `gt.openreg` before anything registered it, by loading its package."""
    if name in _LATER:
        from importlib import import_module

        module = import_module(f"{__name__}.{_LATER[name]}")
        return globals().setdefault(name, getattr(module, name, module))
    if not name.startswith("_") and backend.load(name):
        return backend.get(name).module
    raise _no_attribute(name, [*globals(), *_LATER])


_kernels.install()
_lazy_views.install()
_modes.install()
_set_autograd_fallback_mode("warn")
_start_trace()
