"""The array libraries in which operators can be implemented: NumPy and SciPy, or CuPy.

A runtime's `call_library` calls `function(library, *arrays)` in the order of the current stream.
structured/library.py makes operators from such functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from . import cpu


class Library:
    """An array library. np: its array module. is_gpu: True for CuPy, which lacks some of NumPy's
    functions."""

    __slots__ = ("is_gpu", "np", "_scipy")

    def __init__(self, arrays: ModuleType, scipy: str, is_gpu: bool) -> None:
        self.np: Any = arrays
        self.is_gpu: bool = is_gpu
        self._scipy = scipy

    def empty(self, sizes: tuple[int, ...], of: Any) -> Any:
        """Return a new, uninitialised, row-major array in the runtime's memory."""
        return self.np.empty(sizes, of) if self.is_gpu else cpu.empty(sizes, np.dtype(of))

    def constant(self, array: np.ndarray) -> Any:
        """Return a host array as a read-only array of this library. The array must depend only on
        sizes and options. CuPy's Library keeps the array on the device for later calls."""
        return array

    def scipy(self, part: str) -> Any:
        """Return a module of SciPy, such as `linalg`, `fft` or `special`. It is imported on first
        use."""
        return import_module(f"{self._scipy}.{part}")


HOST = Library(np, "scipy", is_gpu=False)


class Array(NamedTuple):
    """An operand or a result in device memory. ptr is 0 for a result that has no memory yet.

    is_written: True if the function may write to the array.
    """

    ptr: int
    sizes: tuple[int, ...]
    stride_bytes: tuple[int, ...]
    dtype: Any
    extent_bytes: int
    is_written: bool = False


Compute = Callable[..., Any]


def has_layout(array: Any, wanted: Array) -> bool:
    """Return True if an array has the wanted layout. Strides of dimensions of size 0 and 1 are
    ignored."""
    if array.dtype != wanted.dtype or array.shape != wanted.sizes:
        return False
    pairs = zip(wanted.sizes, array.strides, wanted.stride_bytes)
    return array.size == 0 or all(n == 1 or made == by for n, made, by in pairs)


def as_results(found: Any, count: int) -> Sequence[Any]:
    """Return the function's results as a tuple or list of arrays."""
    made = found if isinstance(found, (tuple, list)) else (found,)
    assert len(made) == count, f"{len(made)} results where {count} are promised"
    return made
