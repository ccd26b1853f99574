"""The arrays of a benchmark in host memory or on a GPU. All libraries use the same memory.

Outputs are filled with a poison value before a library runs, and compared bit by bit afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

import gputensor as gt
from gputensor import runtime

from . import peers

POISON = 0xA5

T = TypeVar("T")


class WrongResult(RuntimeError):
    """Exception for a wrong result of a library. The library's time is not recorded."""


Strided = tuple[tuple[int, ...], tuple[int, ...], int]


def in_parallel(function: Callable[[T], object], parts: Iterable[T]) -> None:
    """Call `function` for every part, with one thread for each CPU. The threads run in parallel
    because NumPy's loops release the GIL."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for _ in pool.map(function, parts):
            pass


_PART = 1 << 20


def _aligned(size: int, dtype: Any) -> np.ndarray:
    """Return memory aligned to a cache line, as gputensor and PyTorch allocate it."""
    dtype = np.dtype(dtype)
    return runtime.cpu.allocate(size * dtype.itemsize).view(dtype)


def _by_parts(size: int, dtype: Any, part: Callable[[int, int], np.ndarray]) -> np.ndarray:
    """Return an array whose elements from a to b are the result of part(a, b)."""
    made = _aligned(size, dtype)

    def fill(begin: int) -> None:
        end = min(size, begin + _PART)
        made[begin:end] = part(begin, end)

    in_parallel(fill, range(0, size, _PART))
    return made


def _words(begin: int, end: int) -> np.ndarray:
    words = np.arange(begin, end, dtype=np.uint32)
    words *= np.uint32(2654435761)
    words ^= words >> np.uint32(15)
    return words


def pattern(nbytes: int) -> np.ndarray:
    """Return bytes without a period, so that a misplaced byte is detected."""
    return _by_parts(-(-nbytes // 4), np.uint32, _words).view(np.uint8)[:nbytes]


def numbers(size: int, dtype: np.dtype) -> np.ndarray:
    """Return the pattern as elements of `dtype`. Elements of floating dtypes are integers below
    2048, which float16 represents exactly."""
    if dtype.kind == "f":
        return _by_parts(size, dtype, lambda a, b: _words(a, b) % np.uint32(2048))
    return pattern(size * dtype.itemsize).view(dtype)


def _is_near(module: Any, flat: Any, expected: Any, by: float) -> bool:
    # compare parts, because memory may not suffice for f32 copies of whole arrays
    for begin in range(0, flat.size, 64 * _PART):
        a, b = (x[begin : begin + 64 * _PART].astype(np.float32) for x in (flat, expected))
        if not bool((module.abs(a - b) <= by).all()):
            return False
    return True


class Host:
    """Arrays in host memory, as NumPy arrays."""

    device = "cpu"
    clock = None
    finish: Callable[[], None] | None = None

    def put(self, array: np.ndarray) -> np.ndarray:
        return array

    def empty(self, size: int, dtype: np.dtype) -> np.ndarray:
        return _aligned(size, dtype)

    def poison(self, flat: np.ndarray) -> None:
        flat.view(np.uint8).fill(POISON)

    def equal(self, flat: np.ndarray, expected: np.ndarray) -> bool:
        return bool((flat.view(np.uint8) == expected.view(np.uint8)).all())

    def near(self, flat: np.ndarray, expected: np.ndarray, by: float) -> bool:
        """Return True if all numbers differ by at most `by`."""
        return _is_near(np, flat, expected, by)

    def numpy(self, flat: np.ndarray, how: Strided) -> np.ndarray:
        """Return the view as a NumPy array."""
        shape, strides, offset = how
        return np.ndarray(
            shape, flat.dtype, flat, offset * flat.itemsize, [s * flat.itemsize for s in strides]
        )

    @staticmethod
    def alignment(*arrays: np.ndarray) -> int:
        """Return the largest power of two up to 64 that divides all addresses."""
        both = 64
        for x in arrays:
            both |= x.__array_interface__["data"][0]
        return both & -both

    def torch(self, flat: np.ndarray, how: Strided) -> Any:
        whole = peers.torch("cpu").from_numpy(flat)
        return whole.as_strided(how[0], how[1], how[2])

    def tensor(self, flat: np.ndarray, how: Strided) -> Any:
        return gt.from_numpy(flat).as_strided(*how)


class Gpu:
    """Arrays in GPU memory, as gputensor's tensors, which other libraries share by DLPack."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.index = gt.device(device).index or 0
        self.finish = peers.synchronizer(device)
        self.clock = None if gt.cuda.is_emulated() else self._time

    def _time(self, side: Callable[[], Any], count: int) -> float:
        """Return the nanoseconds between two events. All libraries use the default stream."""
        begin, end = gt.cuda.Event(enable_timing=True), gt.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            side()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e6

    def put(self, array: np.ndarray) -> Any:
        return gt.from_numpy(array).to(self.device)

    def empty(self, size: int, dtype: np.dtype) -> Any:
        return gt.empty(size, dtype=gt.from_numpy(np.empty(0, dtype)).dtype, device=self.device)

    def poison(self, flat: Any) -> None:
        stream = runtime.cuda().current_stream(self.index)
        runtime.cuda().memset_async(flat.data_ptr(), POISON, flat.nbytes, self.index, stream)

    def equal(self, flat: Any, expected: Any) -> bool:
        """Compare on the GPU if CuPy is available, otherwise on the host."""
        module = peers.cupy(self.device)
        sides = [module.from_dlpack(x) if module else x.cpu().numpy() for x in (flat, expected)]
        return bool((sides[0].view(np.uint8) == sides[1].view(np.uint8)).all())

    def near(self, flat: Any, expected: Any, by: float) -> bool:
        """Same as Host.near. Compare on the GPU if CuPy is available, otherwise on the host."""
        module = peers.cupy(self.device)
        a, b = [module.from_dlpack(x) if module else x.cpu().numpy() for x in (flat, expected)]
        return _is_near(module or np, a, b, by)

    def cupy(self, flat: Any, how: Strided) -> Any:
        module = peers.cupy(self.device)
        shape, strides, offset = how
        whole = module.from_dlpack(flat)
        return module.ndarray(
            shape, whole.dtype, whole.data + offset * whole.itemsize,
            strides=[s * whole.itemsize for s in strides],
        )  # fmt: skip

    def torch(self, flat: Any, how: Strided) -> Any:
        return peers.torch(self.device).from_dlpack(flat).as_strided(*how)

    def tensor(self, flat: Any, how: Strided) -> Any:
        return flat.as_strided(*how)


def place_for(device: str) -> Any:
    return Host() if device == "cpu" else Gpu(device)
