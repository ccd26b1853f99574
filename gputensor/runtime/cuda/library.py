"""Library calls: CuPy's functions on our memory and streams; cuBLAS, cuSOLVER and NCCL."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import cupy
import numpy as np

from gputensor.core import errors

from .. import capture
from ..allocator import Memory
from ..capture import capturing
from ..libraries import Array, Compute, Library, as_results, has_layout
from .driver import CudaError, On, Relaxed, checked, get_device, told
from . import memory
from .memory import record_stream
from .plans import Plans
from .streams import Event, current_stream

_lock = threading.Lock()
# The maximum bytes of constants that are kept on a device. Further constants are copied at each
# call.
_MOST_CONSTANTS = 16 << 20


class _OnGpu(Library):
    """CuPy as a Library. Fourier transforms that one thread queues on different streams run one
    after the other: see Note [Work area of a plan]."""

    def __init__(self) -> None:
        super().__init__(cupy, "cupyx.scipy", is_gpu=True)
        self._constants: dict[tuple[Any, ...], Any] = {}
        self._constant_bytes: dict[int, int] = {}

    def constant(self, array: np.ndarray) -> Any:
        """Return a constant host array as an array on the device.

        Raises: DeviceError within a capture, unless an earlier call outside of the capture has
        copied the array.
        """
        index = get_device()
        key = index, array.dtype.str, array.shape, array.tobytes()
        found = self._constants.get(key)
        if found is not None:
            return found
        if capturing and capture.of(current_stream(index)) is not None:
            why = "it copies a table to the device, which a call before the capture does"
            raise errors.capture_refused(capture.operator() or "a library", why)
        if self._constant_bytes.get(index, 0) + array.nbytes > _MOST_CONSTANTS:
            return cupy.asarray(array)
        # This uses CuPy's own pool. Memory of our allocator belongs to one stream, whereas graphs
        # and other streams use this array too.
        with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc):
            found = cupy.asarray(array)
        # Wait once here, so that no stream has to wait for the copy later.
        cupy.cuda.get_current_stream().synchronize()
        with _lock:
            self._constant_bytes[index] = self._constant_bytes.get(index, 0) + array.nbytes
            self._constants[key] = found
        return found

    def scipy(self, part: str) -> Any:
        if part == "fft":
            transforms.begin(current_stream(get_device()))
        return super().scipy(part)

    def cusolver(self) -> tuple[Any, int]:
        """Return CuPy's functions for cuSOLVER, and the handle for this thread and the current
        device."""
        from cupy_backends.cuda.libs import cusolver

        return cusolver, cupy.cuda.device.get_cusolver_handle()


_library = _OnGpu()


def nccl() -> Any:
    """Return CuPy's NCCL module. Raises: ImportError if the library is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The code below reports a missing library.
        from cupy.cuda import nccl as found
    if not found.available:
        return import_module("cupy_backends.cuda.libs.nccl")
    return found


class _Temporary(cupy.cuda.UnownedMemory):  # type: ignore[misc]
    """Memory of our allocator, wrapped for CuPy."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory.ptr, memory.nbytes, memory, memory.device_index)
        self.memory = memory


def _for_cupy(nbytes: int) -> Any:
    """Allocate our memory for the current device and stream. CuPy uses this allocator inside a
    library call."""
    return cupy.cuda.MemoryPointer(_Temporary(memory.allocate(nbytes, get_device())), 0)


def _memory_of_area(area: Any) -> Memory | None:
    held = getattr(area, "mem", None)
    return held.memory if type(held) is _Temporary else None


transforms = Plans(lambda: cupy.fft.config.get_plan_cache(), Event, _memory_of_area, record_stream)


@contextmanager
def blas(op: str, device_index: int) -> Iterator[tuple[Any, int]]:
    """In the block, call cuBLAS on the device's current stream: CuPy's functions, and the handle
    for this thread and the device."""
    # Relaxed is needed, because cuBLAS allocates and loads kernels on first use.
    with On(checked(op, device_index)), Relaxed():
        try:
            from cupy_backends.cuda.libs import cublas

            yield cublas, cupy.cuda.device.get_cublas_handle()
        except CudaError as error:
            raise errors.kernel_failed(op, told("cuBLAS", error)) from error
        except Exception as error:
            raise errors.library_failed(op, error) from error


def call_library(
    op: str, function: Compute, operands: Sequence[Array], results: Sequence[Array] | None,
    device_index: int,
) -> Any:  # fmt: skip
    """Queue `function(CuPy, *operands)` on the device's current stream. Return the memory of each
    result. If a result already has the wanted layout, it is not copied.

    results: None means that the function's own result is returned. The call waits for the device
    only if the function reads values.
    """
    # Relaxed is needed, because CuPy loads kernels and makes plans on first use, perhaps in a
    # capture.
    with On(checked(op, device_index)), cupy.cuda.using_allocator(_for_cupy), Relaxed():
        own = capture.of(current_stream(device_index)) if capturing else None
        if own is not None:
            if results is None:
                raise errors.capture_refused(op, "it waits for the device")
        try:
            arrays = [_array_over(x, x.ptr, device_index) for x in operands]
            try:
                returned = function(_library, *arrays)
            finally:
                transforms.end(own)
            if results is None:
                return returned
            taken: set[int] = set()
            made = zip(results, as_results(returned, len(results)) if results else ())
            return [_memory_of(array, wanted, device_index, taken) for wanted, array in made]
        except errors.GpuTensorError:
            raise
        except CudaError as error:
            raise errors.kernel_failed(op, told("a library", error)) from error
        except Exception as error:
            raise errors.library_failed(op, error) from error


def _array_over(of: Array, ptr: int, device_index: int, owner: Any = None) -> Any:
    memory = cupy.cuda.UnownedMemory(ptr, of.extent_bytes, owner, device_index)
    place = cupy.cuda.MemoryPointer(memory, 0)
    return cupy.ndarray(of.sizes, of.dtype, place, strides=of.stride_bytes)


def _memory_of(array: Any, wanted: Array, device_index: int, taken: set[int]) -> Memory:
    """Return the memory of a result. If the array's memory is shared, or if the array does not have
    the wanted layout, return the memory of a copy."""
    array = cupy.asarray(array)
    held = array.data.mem
    if (
        type(held) is _Temporary and array.data.ptr == held.ptr and held.ptr not in taken
        and has_layout(array, wanted)
    ):  # fmt: skip
        taken.add(held.ptr)
        own: Memory = held.memory
        return own
    made = memory.allocate(wanted.extent_bytes, device_index)
    _array_over(wanted, made.ptr, device_index, made)[...] = array
    return made
