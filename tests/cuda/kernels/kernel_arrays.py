"""Arrays on an emulated device and hand-written layouts, for tests that launch kernels directly.

Layouts have only the attributes that `binding.bind` reads. No iterator and no Tensor is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor import runtime
from gputensor.core.dtype import ALL, dtype, from_numpy

SHORT = {d.short: d for d in ALL}


class Layout:
    """The attributes of a plan that launches read: the walk, with dimension 0 fastest, and the
    dtypes."""

    def __init__(
        self,
        shape: tuple[int, ...],
        strides: list[Any],
        dtypes: list[dtype],
        common: dtype,
        n_reduced: int = 0,
    ) -> None:
        self.shape, self.stride_bytes = shape, tuple(strides)
        self.dtypes, self.common_dtype = tuple(dtypes), common
        self.n_reduced = n_reduced


def layout_of(operands: list[Any], common: dtype) -> Layout:
    """The walk over arrays (or numbers) of one broadcast shape, its last dimension fastest."""
    sizes = operands[0].shape
    order = [d for d in range(len(sizes) - 1, -1, -1) if sizes[d] != 1]
    strides: list[Any] = []
    for x in operands:
        if not isinstance(x, np.ndarray):
            strides.append(None)
            continue
        wide = np.broadcast_to(x, sizes)
        strides.append([wide.strides[d] for d in order])
    shape = [sizes[d] for d in order]
    joined: list[int] = []
    kept: list[list[int]] = [[] for _ in operands]
    for i, size in enumerate(shape):
        walks = [(s, k) for s, k in zip(strides, kept) if s is not None]
        if joined and all(s[i] == k[-1] * joined[-1] for s, k in walks):
            joined[-1] *= size
            continue
        joined.append(size)
        for s, k in walks:
            k.append(s[i])
    if sizes and not joined:
        joined = [1]
        kept = [[0] for _ in operands]
    dtypes = [common if not isinstance(x, np.ndarray) else from_numpy(x.dtype) for x in operands]
    walks_out = [None if s is None else tuple(k) for s, k in zip(strides, kept)]
    return Layout(tuple(joined), walks_out, dtypes, common)


class OnDevice:
    """A copy of an array and the memory that it is a view of, at the same strides."""

    def __init__(self, array: np.ndarray, device_index: int) -> None:
        whole = array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        whole = whole.reshape(-1).view(np.uint8) if whole.flags.c_contiguous else whole
        self.bytes, self.device_index = np.array(whole, copy=True), device_index
        self.memory = runtime.cuda().allocate(max(whole.nbytes, 1), device_index)
        self.offset = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        self.array = np.ndarray(array.shape, array.dtype, self.bytes, self.offset, array.strides)
        self.copy(to_device=True)

    @property
    def ptr(self) -> int:
        return int(self.memory.ptr) + self.offset

    def read(self) -> np.ndarray:
        """Return the present elements."""
        self.copy(to_device=False)
        runtime.cuda().synchronize(self.device_index)
        return self.array

    def copy(self, *, to_device: bool) -> None:
        cuda, host = runtime.cuda(), self.bytes.ctypes.data
        ends = (self.memory.ptr, self.device_index, host, -1)
        if not to_device:
            ends = (host, -1, self.memory.ptr, self.device_index)
        if self.bytes.nbytes:
            cuda.copy_async(*ends, self.bytes.nbytes, cuda.current_stream(self.device_index))


def run(
    bound: Any, out: np.ndarray, inputs: list[Any], scalars: tuple[Any, ...] = (), device: int = 0
) -> np.ndarray:
    """Return `out` after the launch. Check that no memory around it was written."""
    target = OnDevice(out, device)
    sources = [OnDevice(x, device) if isinstance(x, np.ndarray) else x for x in inputs]
    pointers = [x.ptr if isinstance(x, OnDevice) else x for x in sources]
    before = target.bytes.copy()
    bound(device, (target.ptr, *pointers), scalars)
    result = target.read()
    touched = target.bytes.copy()
    np.ndarray(out.shape, out.dtype, touched, target.offset, out.strides)[...] = out
    assert np.array_equal(touched, before), "bytes between the elements were written"
    return result
