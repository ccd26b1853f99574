"""gputensor: a GPU-backed array runtime whose dispatcher, iterator and kernels can be read in
Python.

    >>> import gputensor as gt
    >>> x = gt.arange(6).reshape(2, 3)
    >>> (x + 1).sum(0)
    tensor([5, 7, 9])

This module re-exports; `docs/architecture.md` tells where everything is.
"""

from __future__ import annotations

from typing import Any as _Any

from . import amp, autograd, cuda, dispatch, library, ops, testing
from .devices import backend
from .interpose import lazy_views as _lazy_views
from .interpose import modes as _modes
from ._generated import kernels as _kernels
from ._generated.functions import *  # noqa: F403
from .amp.autocast_mode import (
    autocast, clear_autocast_cache, get_autocast_dtype, is_autocast_cache_enabled,
    is_autocast_enabled, set_autocast_cache_enabled, set_autocast_dtype, set_autocast_enabled,
)  # fmt: skip
from .autograd import (
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
    set_grad_enabled,
)  # fmt: skip
from .autograd.not_implemented import set_autograd_fallback_mode as _set_autograd_fallback_mode
from .core.device import device
from .core.dtype import (
    bfloat16, complex64, complex128, dtype, float16, float32, float64, int8, int16, int32, int64,
    uint8, uint16, uint32, uint64,
)  # fmt: skip
from .core.dtype import bool_ as bool
from .core.errors import GpuTensorError
from .core.errors import no_attribute as _no_attribute
from .core.geometry import Size
from .core.memory_format import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
    strided,
)
from .core.promotion import can_cast, promote_types
from .dispatch.backend_select import set_default_device
from .dispatch.defaults import get_default_dtype, set_default_dtype
from .dispatch.trace import start_from_environment as _start_trace
from .exchange.dlpack import from_dlpack
from .exchange.numpy_bridge import from_numpy
from .structured.tensor_iterator import TensorIterator, TensorIteratorConfig
from .tensor.type_info import finfo, iinfo
from .interpose.modes import DispatchMode, no_dispatch
from .native.random import Generator, initial_seed, manual_seed
from .tensor.printing import get_printoptions, printoptions, set_printoptions
from .runtime.cpu import get_num_threads, set_num_threads
from .exchange.serialization import load, save
from .tensor.storage import Storage
from .tensor.tensor import Tensor
from .exchange.construct import as_tensor, asarray, tensor  # noqa: I001 - behind the room of its name

half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128

__version__ = "0.1.0.dev0"


# Loaded when first asked for: few programs need them, and imports are budgeted.
_LATER = {
    "fallback": "devices.fallback", "layout": "layout", "profiler": "watch.profiler",
    "audit_copies": "watch.audit", "nn": "nn", "optim": "optim",
}  # fmt: skip


def __getattr__(name: str) -> _Any:
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
