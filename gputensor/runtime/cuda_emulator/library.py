"""Calls of NumPy and SciPy on the memory of emulated devices, in the order of a stream."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from gputensor.core import errors

from .. import capture
from ..capture import capturing
from ..libraries import HOST, Array, Compute, as_results
from . import devices, memory
from .memory import check_range
from .streams import current_stream

__tracebackhide__ = errors.is_of_a_kernel


def call_library(
    op: str, function: Compute, operands: Sequence[Array], results: Sequence[Array] | None,
    device_index: int,
) -> Any:  # fmt: skip
    """Queue `function(library, *operands)`, where the library is NumPy and SciPy. Return the memory
    of each result.

    results: None means that the call waits for the stream and returns the function's result.
    """
    stream = current_stream(device_index)
    if results is None and capturing:
        capture.refuse_wait(op, stream)

    def arrays() -> list[np.ndarray]:
        return [_array_over(x, x.ptr, op, device_index) for x in operands]

    given = arrays()
    made = [memory.allocate(x.extent_bytes, device_index) for x in results or ()]
    into = [
        _array_over(x._replace(is_written=True), room.ptr, op, device_index)
        for x, room in zip(results or (), made)
    ]
    found: list[Any] = []

    def run() -> None:
        try:
            with np.errstate(all="ignore"):
                returned = function(HOST, *given)
                if results is None:
                    found.append(returned)
                    return
                for array, value in zip(into, as_results(returned, len(into)) if into else ()):
                    array[...] = value
        except errors.GpuTensorError:
            raise
        except Exception as error:
            raise errors.library_failed(op, error) from error

    devices.scheduler.add(stream.queue, run, arrays)
    if results is None:
        stream.synchronize()
        return found.pop()
    return made


def _array_over(of: Array, ptr: int, op: str, device_index: int) -> np.ndarray:
    """Return an ndarray over emulated memory. Input arrays are read-only, so that an unintended
    write raises an error."""
    if not of.extent_bytes:
        return np.empty(of.sizes, of.dtype)
    check_range(op, "memory", ptr, of.extent_bytes, device_index)
    room: Any = (ctypes.c_char * of.extent_bytes).from_address(ptr)
    array: np.ndarray = np.ndarray(of.sizes, of.dtype, room, 0, of.stride_bytes)
    array.flags.writeable = of.is_written
    return array


def blas(op: str, device_index: int) -> Any:
    """Return None: emulated devices have no cuBLAS. NumPy is used instead."""


def nccl() -> Any:
    """Return None: emulated devices have no NCCL. MPI is used instead."""
