"""What an operator that is one function over arrays gets: NumPy and SciPy, or CuPy and its SciPy.

A runtime calls `function(library, *arrays)` through its `call_library`, in the order of the current
stream; see structured/library.py for how operators are made of that. No kernel is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np


class Library:
    """np: the array module. is_gpu: whether that is CuPy, which lacks some of what NumPy has."""

    __slots__ = ("is_gpu", "np", "_scipy")

    def __init__(self, arrays: ModuleType, scipy: str, is_gpu: bool) -> None:
        self.np: Any = arrays
        self.is_gpu: bool = is_gpu
        self._scipy = scipy

    def constant(self, array: np.ndarray) -> Any:
        """An array that a function makes of its sizes and options alone, for its library: nobody
        writes to it. A GPU has it from the first call on."""
        return array

    def scipy(self, part: str) -> Any:
        """`linalg`, `fft`, `special` … of SciPy, imported when first asked for."""
        return import_module(f"{self._scipy}.{part}")


HOST = Library(np, "scipy", is_gpu=False)


class Array(NamedTuple):
    """An operand or a result in device memory; ptr is 0 for a result that is yet to be made.

    is_written: whether the function may write there.
    """

    ptr: int
    sizes: tuple[int, ...]
    stride_bytes: tuple[int, ...]
    dtype: Any
    extent_bytes: int
    is_written: bool = False


Compute = Callable[..., Any]


def has_layout(array: Any, wanted: Array) -> bool:
    """Whether a made array lies as the wanted one, with strides that count."""
    if array.dtype != wanted.dtype or array.shape != wanted.sizes:
        return False
    pairs = zip(wanted.sizes, array.strides, wanted.stride_bytes)
    return array.size == 0 or all(n == 1 or made == by for n, made, by in pairs)


def as_results(found: Any, count: int) -> Sequence[Any]:
    """What a function returned, as the arrays of its results."""
    made = found if isinstance(found, (tuple, list)) else (found,)
    assert len(made) == count, f"{len(made)} results where {count} are promised"
    return made
