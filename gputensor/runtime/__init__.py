"""One interface for all devices: memory, streams, copies, and compiling and launching kernels.

`cuda()` returns the module for CUDA devices. `GPUTENSOR_CUDA` selects it once per process: `auto`
(the default: CuPy if it has a driver, otherwise `no_cuda`), `emulator` (the same kernels on the
CPU), `off`, or `required` (an error without a device). CuPy is not imported before a CUDA device is
needed. `INTERFACE` lists the names that each module defines. This package works with pointers and
bytes, never with operators, tensors or dtypes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from gputensor.core import errors
from gputensor.core.registry import Registry

INTERFACE = (
    "name is_emulated is_available unavailable_reason device_count current_device set_device "
    "exchange_device device_name capability limits mem_get_info can_access_peer allocate taker "
    "memory_allocated memory_reserved memory_stats memory_snapshot reset_peak_memory_stats "
    "empty_cache set_memory_limit record_stream Stream Event current_stream default_stream "
    "set_stream external_stream copy_async memset_async pinned_allocate synchronize arch compile "
    "load prefer_shared launch launcher call_library blas begin_capture replay check_stream nccl "
    "reset_after_fork"
).split()

CHOICES = ("auto", "emulator", "off", "required")

_SPAWN = "start it with multiprocessing.get_context('spawn')"
FORKED = f"this process was forked after its parent used CUDA; {_SPAWN}"

# A device from another package registers an object with these attributes (backend.py). REQUIRED:
# the attributes that the object must have. OPTIONAL: the attributes that it may have. `copy_async`
# takes -1 for the host.
REQUIRED = (
    "device_count current_device exchange_device allocate copy_async current_stream synchronize"
).split()
OPTIONAL = (
    "memset_async pinned_allocate Stream Event default_stream set_stream record_stream".split()
)

_chosen: ModuleType | None = None
_further: Registry[str, Any] = Registry()


def cuda() -> ModuleType:
    """Return the module that implements CUDA devices in this process."""
    return _chosen or _choose()


def of(device_type: str) -> Any:
    """Return the runtime of a device type: the module for CUDA, or the object that another package
    registered.

    Raises: DeviceError for a device type without a runtime.
    """
    if device_type == "cuda":
        return cuda()
    found = _further.get(device_type)
    if found is None:
        raise errors.no_device(device_type, "no runtime is registered for it")
    return found


def with_streams(device_type: str) -> Any:
    """Return the runtime of a device type, or None if users cannot choose its streams."""
    if device_type == "cuda":
        return _chosen or _choose()
    found = _further.get(device_type)
    return found if hasattr(found, "set_stream") else None


def register(device_type: str, runtime: Any) -> Callable[[], None]:
    """Register the runtime of a device type. Return a function that undoes the registration.

    Raises: RegistrationError that lists the missing names of `REQUIRED`.
    """
    missing = [name for name in REQUIRED if not callable(getattr(runtime, name, None))]
    if missing:
        raise errors.incomplete_runtime(device_type, missing)
    return _further.register(device_type, runtime)


def in_use() -> list[Any]:
    """Return the runtimes that may have been used: CUDA's runtime, if it was chosen and has a
    device, and all registered runtimes."""
    chosen = [] if _chosen is None or not _chosen.is_available() else [_chosen]
    return [*chosen, *[module for _, module in _further.items()]]


def is_further(device_type: str) -> bool:
    """Return True for a device type that another package registered."""
    return device_type in _further


def _choose() -> ModuleType:
    global _chosen
    choice = os.environ.get("GPUTENSOR_CUDA") or "auto"
    if choice not in CHOICES:
        raise errors.wrong_setting("GPUTENSOR_CUDA", f"be one of {', '.join(CHOICES)}", choice)
    from . import no_cuda

    if choice == "emulator":
        from . import cuda_emulator as module

        if module.is_available():
            module.start()
        else:
            module = no_cuda.because(str(module.unavailable_reason()))
    elif choice == "off":
        module = no_cuda.because("GPUTENSOR_CUDA=off")
    else:
        module = _real_or_none()
        if choice == "required" and not module.is_available():
            why = module.unavailable_reason()
            raise errors.no_device("cuda", f"GPUTENSOR_CUDA=required, but {why}")
    _chosen = module
    return module


def choose_again() -> ModuleType:
    """Read `GPUTENSOR_CUDA` again. Test runners call this before any device is used."""
    global _chosen
    _chosen = None
    return _choose()


def _real_or_none() -> ModuleType:
    """Return the CuPy runtime, or `no_cuda` with the reason why CuPy cannot be used."""
    from . import no_cuda

    try:
        module = import_module(f"{__name__}.cuda")
    # Catch every exception. For example, `import cupy` raises an OSError if its cache directory is
    # not writable.
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            return no_cuda.because("cupy is not installed")
        return no_cuda.because(f"cupy does not import: {error}")
    if module.is_available():
        return module
    return no_cuda.because(module.unavailable_reason())


def reset_after_fork() -> None:
    """In a forked child, replace the parent's CUDA runtime with a runtime that raises errors."""
    global _chosen
    if _chosen is not None and _chosen.name != "no_cuda":
        from . import no_cuda

        _chosen.reset_after_fork()
        _chosen = no_cuda.because(FORKED)


class _Package(ModuleType):
    """The class of this module. An import of the submodule `cuda` would replace the function `cuda`
    of the same name; this class prevents that."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "cuda" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
os.register_at_fork(after_in_child=reset_after_fork)

_asked = (os.environ.get("GPUTENSOR_CUDA"), os.environ.get("GPUTENSOR_EMULATOR_SANITIZE"))
if _asked == ("emulator", "1"):
    # libasan must be loaded when a process starts. If it is missing, this call restarts the
    # process.
    from .emulator import sanitizer

    sanitizer.ensure_preloaded()
