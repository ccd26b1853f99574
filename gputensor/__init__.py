"""gputensor: a GPU-backed array runtime that can be read, changed and extended in Python.

    >>> import gputensor as gt
    >>> x = gt.arange(6).reshape(2, 3)
    >>> (x + 1).sum(0)
    tensor([5, 7, 9])

This module re-exports names; `docs/internals/architecture.md` describes the package's structure.
"""

from __future__ import annotations

import sys as _sys
import typing as _typing
from os import environ as _environ

# NumPy is imported first, and in this module. In a deeper stack of imports, calls within NumPy may
# cross the end of a chunk (16 KiB) of CPython's data stack. Then each such call maps a new chunk,
# which doubles the time of this import.
import numpy as _numpy

from .core._generated import index as _index
from .core import lazy as _lazy
from .core.device import device as device
from .core.device import unknown_type_hooks as _unknown_type_hooks
from .core.dtype import (
    bfloat16 as bfloat16, complex32 as complex32, complex64 as complex64,
    complex128 as complex128, dtype as dtype,
    float8_e4m3fn as float8_e4m3fn, float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2, float8_e5m2fnuz as float8_e5m2fnuz,
    float8_e8m0fnu as float8_e8m0fnu,
    float16 as float16, float32 as float32, float64 as float64, int8 as int8, int16 as int16,
    int32 as int32, int64 as int64, uint8 as uint8, uint16 as uint16, uint32 as uint32,
    uint64 as uint64,
)  # fmt: skip
from .core.dtype import bool_ as _bool
from .core.errors import GpuTensorError as GpuTensorError
from .core.geometry import Size as Size
from .core.memory_format import (
    channels_last as channels_last, channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format, memory_format as memory_format,
    preserve_format as preserve_format, strided as strided,
)  # fmt: skip
from .tensor.tensor import Tensor as Tensor

# These names are loaded on first use, which keeps the import of gputensor fast. `python -m codegen`
# reads these lines and generates a table from name to module for `__getattr__`. Operators are
# loaded in the same way.
if _typing.TYPE_CHECKING:
    from . import (
        amp as amp, array_api as array_api, autograd as autograd, backends as backends,
        cuda as cuda, dispatch as dispatch, distributed as distributed,
        distributions as distributions, fft as fft, func as func,
        layout as layout, library as library, linalg as linalg, nn as nn, ops as ops,
        optim as optim, quasirandom as quasirandom, random as random,
        serialization as serialization, special as special, testing as testing, utils as utils,
    )  # fmt: skip
    from ._generated.functions import *  # noqa: F403
    from .amp.autocast_mode import (
        autocast as autocast, clear_autocast_cache as clear_autocast_cache,
        get_autocast_dtype as get_autocast_dtype,
        is_autocast_cache_enabled as is_autocast_cache_enabled,
        is_autocast_enabled as is_autocast_enabled,
        set_autocast_cache_enabled as set_autocast_cache_enabled,
        set_autocast_dtype as set_autocast_dtype, set_autocast_enabled as set_autocast_enabled,
    )  # fmt: skip
    from .autograd.modes import (
        enable_grad as enable_grad, inference_mode as inference_mode,
        is_grad_enabled as is_grad_enabled, is_inference_mode_enabled as is_inference_mode_enabled,
        no_grad as no_grad, set_grad_enabled as set_grad_enabled,
    )  # fmt: skip
    from .core.promotion import can_cast as can_cast, promote_types as promote_types
    from .devices import backend as backend, fallback as fallback
    from .dispatch.backend_select import set_default_device as set_default_device
    from .dispatch.defaults import (
        get_default_dtype as get_default_dtype, get_type_promotion as get_type_promotion,
        set_default_dtype as set_default_dtype, set_type_promotion as set_type_promotion,
    )  # fmt: skip
    from .exchange.construct import as_tensor as as_tensor, asarray as asarray, tensor as tensor
    from .exchange.dlpack import from_dlpack as from_dlpack
    from .exchange.numpy.bridge import from_numpy as from_numpy, frombuffer as frombuffer
    from .serialization import load as load, save as save
    from .functional import (
        atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d,
        block_diag as block_diag, broadcast_tensors as broadcast_tensors,
        cartesian_prod as cartesian_prod, cdist as cdist, gradient as gradient,
        histogramdd as histogramdd,
        meshgrid as meshgrid, stft as stft, unique as unique,
        unravel_index as unravel_index,
        unique_consecutive as unique_consecutive,
        chain_matmul as chain_matmul, einsum as einsum, tensordot as tensordot,
    )  # fmt: skip
    from .exchange.numpy.rule import (
        get_numpy_on_devices as get_numpy_on_devices, set_numpy_on_devices as set_numpy_on_devices,
    )  # fmt: skip
    from .func.batching import vmap as vmap
    from .fusion.fuse import fuse as fuse
    from .fallbacks.modes import DispatchMode as DispatchMode, no_dispatch as no_dispatch
    from .runtime.cpu import get_num_threads as get_num_threads, set_num_threads as set_num_threads
    from .structured.facts import (
        broadcast_shapes as broadcast_shapes, get_default_device as get_default_device,
        is_complex as is_complex, is_floating_point as is_floating_point, is_nonzero as is_nonzero,
        is_same_size as is_same_size, is_signed as is_signed,
        is_tensor as is_tensor, numel as numel, result_type as result_type,
    )  # fmt: skip
    from .structured.generator import (
        Generator as Generator, get_rng_state as get_rng_state, initial_seed as initial_seed,
        manual_seed as manual_seed, seed as seed, set_rng_state as set_rng_state,
    )  # fmt: skip
    from .structured.tensor_iterator import (
        TensorIterator as TensorIterator, TensorIteratorConfig as TensorIteratorConfig,
    )  # fmt: skip
    from .tensor.indexing import nonzero as nonzero
    from .tensor.overloads import norm as norm
    from .tensor.printing import (
        get_printoptions as get_printoptions, printoptions as printoptions,
        set_printoptions as set_printoptions,
    )  # fmt: skip
    from .tensor.storage import Storage as Storage
    from .tensor.type_info import finfo as finfo, iinfo as iinfo
    from .profiling import profiler as profiler
    from .profiling.audit import audit_copies as audit_copies

bool: dtype = _bool
half: dtype = float16
float: dtype = float32
double: dtype = float64
short: dtype = int16
int: dtype = int32
long: dtype = int64
chalf: dtype = complex32
cfloat: dtype = complex64
cdouble: dtype = complex128

from math import e as e, inf as inf, nan as nan, pi as pi  # noqa: E402

newaxis = None

__version__ = "0.1.0"
_rooms = (type(_typing), type(annotations))
__all__ = [n for n, v in globals().items() if n.isidentifier() and not isinstance(v, _rooms)]
__all__ = sorted({n for n in __all__ if n[0] != "_"} | {*_index.EXPORTS, *_index.FUNCTIONS})


def __getattr__(name: str) -> _typing.Any:
    """Load and return a name that is loaded on first use, or a device's package, such as
    `gt.openreg`."""
    from importlib import import_module

    if name in _index.EXPORTS:
        found = _lazy.loaded(_index.EXPORTS[name], name)
    elif name in _index.FUNCTIONS:
        found = getattr(import_module(f"{__name__}._generated.functions"), name)
    else:
        backend = import_module(f"{__name__}.devices.backend")
        if name[:1] != "_" and backend.load(name):
            return backend.get(name).module
        raise _lazy.missing(__name__, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return _lazy.listed(globals())


def _load_device(name: str) -> _typing.Any:
    from .devices import backend

    return backend.load(name)


_unknown_type_hooks.append(_load_device)


class _ClientFinder:
    """Finder that detects the import of a module in _CLIENTS. See Note [Clients] in
    gputensor/interop/__init__.py."""

    @classmethod
    def find_spec(
        cls, name: str, path: _typing.Any = None, target: _typing.Any = None
    ) -> _typing.Any:
        if name in _CLIENTS:
            from . import interop

            return interop.find_spec(cls, name, path, target)


_CLIENTS = {
    "dask.array.backends", "dask.array.chunk_types", "dask.sizeof", "dask.tokenize",
    "distributed.protocol.serialize",
    "einops._backends", "opt_einsum.backends.dispatch", "torch.utils.data._utils.collate",
    "xarray.namedarray.core",
}  # fmt: skip
_sys.meta_path.insert(0, _ClientFinder)
for _name in _CLIENTS & _sys.modules.keys():
    from . import interop as _interop

    _interop.register(_sys.modules[_name])
if _environ.get("GPUTENSOR_SHOW_DISPATCH_TRACE", "0") not in ("", "0"):
    from .dispatch.tracing import start_from_environment as _start_trace

    _start_trace()
# Remove the subpackage `tensor`, so that `gt.tensor` is the function in exchange/construct.py.
del globals()["tensor"]
