"""Errors of devices, of memory, and of kernels that do not compile, load or run."""

from __future__ import annotations

from typing import Any

from .linalg import not_finished
from .base import (
    ArgumentValueError, DeviceError, DtypeError, Got, GpuTensorError, KernelError, NumberRangeError,
    OutOfMemoryError, ShapeError, describe, must,
)  # fmt: skip
from .shapes import MissingAttribute


# --- runtime --------------------------------------------------------------------------------------


def device_index_out_of_range(op: str, index: object, count: int) -> DeviceError:
    return DeviceError(f"{op}: 'device' must be in [0, {count - 1}] (got {describe(index)})")


def out_of_memory(device: str, requested: int, figures: dict[str, int]) -> OutOfMemoryError:
    """Make the error for exhausted device memory. The message states the requested bytes and the
    bytes in use."""
    parts = ", ".join(f"{name} {_size(figures[name])}" for name in figures)
    return OutOfMemoryError(
        f"{device}: cannot allocate {_size(requested)}{f' ({parts})' if parts else ''}"
    )


def host_memory_exhausted(op: str, error: Exception) -> OutOfMemoryError:
    """Make the error for exhausted host memory. NumPy's error contains the requested size, Python's
    does not."""
    return OutOfMemoryError(f"{op}: cpu: {str(error).rstrip('.') or 'cannot allocate'}")


def _size(nbytes: int) -> str:
    for unit, shift in (("EiB", 60), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << shift:
            return f"{nbytes / (1 << shift):.2f} {unit}"
    return f"{nbytes} bytes"


def kernel_failed(entry: str, what: str) -> KernelError:
    """Make the error for a kernel that has failed. what: the reason and, if known, the place."""
    return KernelError(f"{entry}: {what}")


def kernel_finding(sentence: str) -> KernelError:
    """Make the error for a fault that the emulator found in a kernel. sentence: the fault and its
    place."""
    return KernelError(sentence)


def library_failed(op: str, error: Exception) -> GpuTensorError:
    """Make the error for a failed call of an external library. The text of the library's error is
    part of the message."""
    words = " ".join(str(error).split()) or type(error).__name__
    # NumPy and CuPy raise this exception for some values, such as a singular matrix
    if type(error).__name__ == "LinAlgError":
        return not_finished(op, words)
    return KernelError(f"{op}: a library failed: {words}")


def is_of_a_kernel(found: Any) -> bool:
    """True for a KernelError. Used for `__tracebackhide__`, so that pytest shows a kernel's fault
    at the line of its launch."""
    return isinstance(found.value, KernelError)


def kernel_not_compiled(title: str, defines: dict[str, object], log: str) -> KernelError:
    """Make the error for a kernel that does not compile. The message is a line with the kernel's
    title and its defines, then the compiler's log."""
    given = "".join(f" -D{name}={value}" for name, value in defines.items())
    return KernelError(f"{title}: does not compile{' with' if given else ''}{given}\n{log.strip()}")


def capture_refused(op: str, why: str) -> DeviceError:
    """Make the error for a call that failed during the capture of a CUDA graph, or at its begin or
    end. why: a clause."""
    return DeviceError(f"{op}: cannot be captured into a CUDA graph: {why}")


def unjoined_capture() -> DeviceError:
    """Make the error for a stream that took part in a capture, but for which the capturing stream
    did not wait."""
    return capture_refused(
        "capture_end", "the capture's stream has not waited for a stream that joined it"
    )


def no_graph(op: str, rule: str) -> DeviceError:
    """Make the error for a CUDAGraph that is not in the state that a call needs. rule: a clause."""
    return DeviceError(f"{op}: the graph {rule}")


def no_device_for_kernel(entry: str, reason: str) -> DeviceError:
    return DeviceError(
        f"{entry}: no CUDA device ({reason}); GPUTENSOR_CUDA=emulator runs it on the CPU"
    )


def no_nvrtc(reason: str) -> DeviceError:
    """Make the error for NVRTC, the compiler of GPU kernels, if it is absent or does not load."""
    return DeviceError(
        f"NVRTC is not usable ({reason}); pip install cupy-cuda12x nvidia-cuda-nvrtc-cu12"
    )


def cannot_launch(entry: str, arg: str, rule: str, got: object) -> KernelError:
    return KernelError(f"{entry}: '{arg}' must {rule} (got {got})")


def wrong_setting(name: str, rule: str, got: str) -> ArgumentValueError:
    """Make the error for an environment variable with an unknown value."""
    return ArgumentValueError(f"{name}: must {rule} (got {got!r})")


def old_library(name: str) -> MissingAttribute:
    """Make the error for a compiled library that lacks a function that this Python code calls. It
    is an AttributeError, because tools such as pickle look up names in every module."""
    return MissingAttribute(
        f"the compiled loops are older than gputensor (they have no {name!r}); "
        "run: python build_library.py"
    )


def no_kernel_cache(reason: str) -> str:
    """Return the text of the warning that compiled kernels cannot be cached. reason: a clause."""
    remedy = "set GPUTENSOR_CACHE_DIR to a folder of your own"
    return f"kernels are compiled anew in every process: {reason}; {remedy}"


def no_carried_cubins(reason: str) -> str:
    """Return the text of the warning that a folder of compiled kernels is not used. reason: a
    clause."""
    return (
        f"carried cubins are not used: {reason}; copy the folder to one of your own and name it in "
        "GPUTENSOR_CARRIED_CUBINS"
    )


def wrong_pointer(op: str, arg: str, rule: str, got: str) -> DeviceError:
    return DeviceError(f"{op}: '{arg}' must {rule} (got {got})")


# --- cpu kernels ----------------------------------------------------------------------------------


class DivisionByZeroError(GpuTensorError, ZeroDivisionError, RuntimeError):
    """Error for a division of an integer by zero, on a device that detects it. It is also a
    RuntimeError, as in PyTorch."""


def division_by_zero(op: str) -> DivisionByZeroError:
    return DivisionByZeroError(f"{op}: 'other' must not hold 0 in a division of integers (got a 0)")


# --- cuda kernels ---------------------------------------------------------------------------------


def no_cuda_kernel(op: str, dtype: Any) -> DtypeError:
    return DtypeError(f"{op}: no CUDA kernel computes in {dtype.short}")


def too_many_dims(op: str, ndim: int, most: int) -> ShapeError:
    rule = f"have at most {most} dimensions after joining dimensions that are contiguous in memory"
    return ShapeError(f"{op}: 'self' must {rule} (got {ndim})")


def cannot_load_to(place: Any, error: Exception) -> DeviceError:
    return DeviceError(
        f"load: 'map_location' must name a device of this process (got {place}: {error}); use "
        f"map_location='cpu'"
    )


def ragged(expected: int, dim: int, got: str) -> ArgumentValueError:
    """Make the error that corresponds to PyTorch's "expected sequence of length 2 at dim 1 (got
    3)"."""
    return ArgumentValueError(
        f"tensor: 'data' must have length {expected} at dim {dim} (got {got})"
    )


def number_out_of_range(op: str, element: Any, number: Any, arg: str = "data") -> GpuTensorError:
    """Make the error that corresponds to PyTorch's "value cannot be converted to type X without
    overflow"."""
    needs_real = isinstance(number, complex) and not element.is_complex and number.imag != 0
    rule = f"be real for {element.short}" if needs_real else f"be in the range of {element.name}"
    return must(op, arg, rule, Got(_number(number)), kind=NumberRangeError)


def number_too_wide(op: str, arg: str, number: Any) -> GpuTensorError:
    """Make the error that corresponds to PyTorch's "int too big to convert"."""
    return must(op, arg, "have at most 64 bits", Got(_number(number)), kind=NumberRangeError)


def _number(number: Any) -> str:
    """Return a number as text. For a very long integer, return the number of its bits, because
    Python refuses to print it."""
    if isinstance(number, int) and number.bit_length() > 128:
        return f"an integer of {number.bit_length()} bits"
    return str(number)
