"""Kernels: compile and load them, and launch each with a single driver call."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cupy

from gputensor.core import errors

from .. import capture
from ..compilation import nvrtc
from ..capture import capturing
from .driver import (
    CudaError,
    On,
    capability,
    checked,
    get_device,
    limits,
    reporting,
    told,
    use_device,
)
from .streams import Stream, cupy_stream, current_stream

_runtime: Any = cupy.cuda.runtime
_driver: Any = cupy.cuda.driver
_launch_kernel = _driver.launchKernel

_MAX_PARAMS = 4096
_ONE = (0,)  # Our own kernels have one parameter, at offset 0.
_DEFAULT_SHARED = 48 * 1024
_MOST_LAUNCHERS = 1024  # A kernel keeps at most this number of launchers.

_local = threading.local()
_modules: dict[tuple[bytes, int], Any] = {}
_archs: dict[int, str] = {}


class Function:
    """One kernel on one device. shared_bytes: the dynamic shared memory that a launch may use
    without a further driver call.
    """

    __slots__ = (
        "carveout", "device_index", "function", "image", "launchers", "module", "name", "ptr",
        "shared_bytes",
    )  # fmt: skip
    # The key is (grid, block, shared memory).
    launchers: dict[tuple[Any, ...], Callable[[bytes], None]]
    image: bytes
    module: Any

    def __init__(
        self, function: Any, name: str, device_index: int, module: Any = None, image: bytes = b""
    ) -> None:
        self.module, self.image, self.launchers = module, image, {}
        self.function: Any = function  # The reference keeps the module loaded.
        self.ptr: int = function.ptr
        self.name: str = name
        self.device_index: int = device_index
        # The percentage of a multiprocessor's memory that is shared memory; 0 leaves the choice to
        # the driver.
        self.carveout: int = 0
        # The 48 KiB that need no opt-in include the kernel's static shared memory.
        own = _driver.funcGetAttribute(_driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, self.ptr)
        self.shared_bytes: Any = max(_DEFAULT_SHARED - own, 0)

    def symbol(self, name: str) -> tuple[int, int | None]:
        """Return the address of a __constant__ or __device__ variable, and None for its size, which
        CuPy does not report."""
        mangled = getattr(self.image, "names", {}).get(f"&{name}", name)
        with On(self.device_index):
            try:
                _give_context()
                return self.module.get_global_var(mangled), None
            except CudaError as error:
                raise errors.kernel_failed(self.name, told(f"finding {name}", error)) from error


def arch(device_index: int) -> str:
    """Return the architecture to compile for: that of the device or, if NVRTC does not support it,
    the newest older architecture."""
    found = _archs.get(device_index)
    if found is None:
        major, minor = capability(device_index)
        found = _archs[device_index] = nvrtc.nearest_arch(cupy.cuda.nvrtc, major * 10 + minor)
    return found


def compile(
    text: str, variants: Sequence[Mapping[str, object]], arch: str, *,
    entries: Sequence[str] | None = None, headers: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> bytes:  # fmt: skip
    """Return the cubin of one variant. This needs NVRTC, but no GPU.

    entries, headers, options: for a user's text, the requested C++ names, the available headers,
    and options for NVRTC in addition to our own.
    """
    (defines,) = variants
    if entries is not None:
        from ..compilation.nvrtc_users import compile_text

        own = headers or {}
        return compile_text(cupy.cuda.nvrtc, text, defines, arch, entries, own, options)
    return nvrtc.compile_cubin(cupy.cuda.nvrtc, text, defines, arch)


def load(image: bytes, entry: str, device_index: int, variant: int = 0) -> Function:
    """Load a kernel of a cubin on one device. A module is loaded once per device."""
    mangled = getattr(image, "names", {}).get(entry, entry)
    if capturing:
        capture.refuse_unsafe(entry, "its kernel is loaded, which a call before the capture does")
    with On(checked("load", device_index)):
        key = (image, device_index)
        module = _modules.get(key)
        try:
            _give_context()
            if module is None:
                module = cupy.cuda.Module()
                module.load(bytes(image))  # CuPy rejects subclasses of bytes.
                _modules[key] = module
            return Function(module.get_function(mangled), entry, device_index, module, image)
        except CudaError as error:
            what = told(f"loading it on cuda:{device_index}", error)
            raise errors.kernel_failed(entry, what) from error


def prefer_shared(function: Function, nbytes: int) -> None:
    """Request that each multiprocessor uses at least `nbytes` of its memory as shared memory
    instead of L1 cache."""
    index = function.device_index
    percent = min(100, -(-100 * nbytes // limits(index).shared_bytes))
    if percent > function.carveout:
        with On(index):
            reporting(index, "prefer_shared", _prefer_shared, function.ptr, percent)
        function.carveout = percent


def _prefer_shared(ptr: int, percent: int) -> None:
    _give_context()
    attribute = _driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    _driver.funcSetAttribute(ptr, attribute, percent)


def _give_context() -> None:
    """Create the current device's context in this thread, because calls of the driver API do not
    create it."""
    _runtime.memGetInfo()


class _Launcher:
    """The launch state of a thread: a parameter block at a fixed address, and the devices that have
    contexts."""

    __slots__ = ("address", "array", "begin", "block", "lists", "ready", "view")

    def __init__(self) -> None:
        self.block = ctypes.create_string_buffer(_MAX_PARAMS + 64)
        begin = ctypes.addressof(self.block)
        skip = -begin % 64
        self.begin = begin + skip
        self.array = (ctypes.c_void_p * 1)(self.begin)
        self.address = ctypes.addressof(self.array)
        self.lists: dict[tuple[int, ...], tuple[Any, int]] = {}
        self.view = memoryview(self.block).cast("B")[skip : skip + _MAX_PARAMS]
        # For each device that has a context: (view, address).
        self.ready: dict[int, tuple[memoryview, int]] = {}

    def list_of(self, offsets: tuple[int, ...]) -> int:
        """Return the address of an array of pointers, one to each parameter in the block."""
        found = self.lists.get(offsets)
        if found is None:
            array = (ctypes.c_void_p * max(len(offsets), 1))(*(self.begin + at for at in offsets))
            found = self.lists[offsets] = array, ctypes.addressof(array)
        return found[1]


def launch(
    function: Function, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int,
    stream: Stream, params: bytes, offsets: tuple[int, ...] = _ONE,
) -> None:  # fmt: skip
    """Queue a launch. params: the bytes of all parameters, each at its offset."""
    try:
        launcher = _local.launcher
    except AttributeError:
        launcher = _local.launcher = _Launcher()
        _local.ready = launcher.ready
    device = function.device_index
    previous = get_device()
    if previous != device:
        use_device(device)
    try:
        if device not in launcher.ready or shared_bytes > function.shared_bytes:
            _prepare(launcher, function, shared_bytes)
        address = launcher.address if offsets is _ONE else launcher.list_of(offsets)
        (gx, gy, gz), (bx, by, bz) = grid, block
        # Nothing may be called between this line and the launch: a launch within a call would
        # overwrite the parameters.
        launcher.view[: len(params)] = params
        _launch_kernel(function.ptr, gx, gy, gz, bx, by, bz, shared_bytes, stream.ptr, address, 0)
    except Exception as error:
        raise _launch_error(error, function, grid, block, shared_bytes, stream, params) from error
    finally:
        if previous != device:
            use_device(previous)


def launcher(
    function: Function, grid: tuple[int, int, int], block: tuple[int, int, int],
    shared_bytes: int = 0,
) -> Callable[[bytes], None]:  # fmt: skip
    """Return a function `run(params)` that launches one kernel repeatedly on the current stream.

    `run` does the work of `launch` in one frame if no context must be created and the device need
    not be switched. Layouts with equal launches share it.
    """
    key = grid, block, shared_bytes
    known = function.launchers.get(key)
    if known is not None:
        return known
    ptr, device = function.ptr, function.device_index
    (gx, gy, gz), (bx, by, bz) = grid, block

    def run(params: bytes) -> None:
        try:
            view, address = _local.ready[device]
            is_ready = get_device() == device
        except (AttributeError, KeyError):
            is_ready = False
        if not is_ready or shared_bytes and shared_bytes > function.shared_bytes:
            launch(function, grid, block, shared_bytes, current_stream(device), params)
            return
        try:
            stream, n = cupy_stream(device).ptr, len(params)
            view[:n] = params  # No other call may happen before the launch.
            _launch_kernel(ptr, gx, gy, gz, bx, by, bz, shared_bytes, stream, address, 0)
        except Exception as error:
            given = function, grid, block, shared_bytes, current_stream(device), params
            raise _launch_error(error, *given) from error

    if len(function.launchers) >= _MOST_LAUNCHERS:
        function.launchers.clear()
    function.launchers[key] = run
    return run


def _prepare(launcher: _Launcher, function: Function, shared_bytes: int) -> None:
    """Create a context, once per thread and device. If a launch needs more dynamic shared memory
    than the kernel's limit, raise the limit."""
    _give_context()
    launcher.ready[function.device_index] = launcher.view, launcher.address
    if shared_bytes > function.shared_bytes:
        attribute = _driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _driver.funcSetAttribute(function.ptr, attribute, shared_bytes)
        function.shared_bytes = shared_bytes


def _launch_error(
    error: Exception, function: Function, grid: Any, block: Any, shared: int, stream: Stream,
    params: bytes,
) -> Exception:  # fmt: skip
    if len(params) > _MAX_PARAMS:
        rule, got = f"have at most {_MAX_PARAMS} bytes", f"{len(params)} bytes"
        return errors.cannot_launch(function.name, "params", rule, got)
    if stream.device_index != function.device_index:
        rule = f"be of cuda:{function.device_index}"
        return errors.cannot_launch(function.name, "stream", rule, stream)
    if shared > _DEFAULT_SHARED:
        most = limits(function.device_index).block_shared_bytes
        if shared > most:
            return errors.cannot_launch(function.name, "shared_bytes", f"be in [0, {most}]", shared)
    given = f"grid {grid}, block {block}, {shared} bytes of shared memory"
    return errors.kernel_failed(function.name, told(f"launch with {given}", error))
