"""What a kernel's pointer parameters are given: arrays of any library, told by their own protocols.

It imports no other library: a CuPy or Numba array is known by `__cuda_array_interface__`, a torch
tensor by its class's module. Memory of the host is copied for a launch on the emulator, and back.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core import errors
from ..dispatch.keys import LAZY
from ..exchange import cuda_array_interface
from ..tensor.base import bump_version
from ..tensor.tensor import Tensor

NUMPY, TENSOR, TORCH, INTERFACE = "numpy", "gputensor", "torch", "cuda_array_interface"


class Operand:
    """An array. dtype: None for a NumPy structured dtype. device_index: -1 for host memory.

    stream: the address of the stream that its library works on, None for our current one;
    stream_owner: what keeps that stream alive, where it is known.
    """

    __slots__ = (
        "_dense", "device_index", "dtype", "is_writable", "itemsize", "keep", "library", "ptr",
        "shape",
        "stream", "stream_owner", "stride_bytes",
    )  # fmt: skip

    def __init__(
        self, library: str, keep: Any, ptr: int, device_index: int, element: Any, itemsize: int,
        shape: tuple[int, ...], stride_bytes: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.library, self.keep, self.ptr, self.device_index = library, keep, ptr, device_index
        self.dtype, self.itemsize = element, itemsize
        self.shape, self.stride_bytes = shape, stride_bytes
        self._dense: bool | None = None
        self.is_writable = True
        self.stream: int | None = None
        self.stream_owner: Any = None

    @property
    def numel(self) -> int:
        numel = 1
        for size in self.shape:
            numel *= size
        return numel

    @property
    def is_contiguous(self) -> bool:
        return self._walk_is_dense() if self._dense is None else self._dense

    def _walk_is_dense(self) -> bool:
        expected = self.itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.stride_bytes)):
            if size != 1 and stride != expected:
                return self.numel == 0
            expected *= size
        return True

    @property
    def extent(self) -> int:
        """Bytes from the first element to behind the last one."""
        if self.numel == 0:
            return 0
        return self.itemsize + sum((n - 1) * s for n, s in zip(self.shape, self.stride_bytes))

    def __str__(self) -> str:
        kind = self.dtype.short if self.dtype is not None else f"{self.itemsize}-byte elements"
        place = "host" if self.device_index < 0 else f"cuda:{self.device_index}"
        strides = "" if self.is_contiguous else f" with strides {self.stride_bytes} bytes"
        return f"{kind}[{','.join(map(str, self.shape))}] {place}{strides}"


def describe(entry: str, arg: str, value: Any) -> Operand:
    """The array that `value` is. Raises: ArgumentTypeError if it is none."""
    if isinstance(value, Tensor):
        return _of_tensor(entry, arg, value)
    if isinstance(value, np.ndarray):
        return _of_numpy(value)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr"):
        return _of_torch(entry, arg, value)
    if hasattr(value, "__cuda_array_interface__"):
        return _of_interface(entry, arg, value)
    rule = "be an array of gputensor, CuPy, torch or NumPy"
    raise errors.must(entry, arg, rule, value, kind=errors.ArgumentTypeError)


def _of_tensor(entry: str, arg: str, value: Tensor) -> Operand:
    if value._keys & LAZY:
        raise errors.must(
            entry, arg, "have its elements in memory as they are", value, remedy="use .clone()"
        )
    geometry, place = value._geometry, value._device
    if place.type not in ("cuda", "cpu"):
        raise errors.must(entry, arg, "be on a CUDA device", value, kind=errors.DeviceError)
    index = -1 if place.index is None else place.index
    made = Operand(
        TENSOR, value, value.data_ptr(), index, geometry.dtype, geometry.dtype.itemsize,
        geometry.sizes, geometry.stride_bytes,
    )  # fmt: skip
    made._dense = geometry.is_contiguous
    return made


def _of_numpy(value: np.ndarray[Any, Any]) -> Operand:
    pointer = value.__array_interface__["data"][0]
    element = dtypes.from_numpy(value.dtype)
    made = Operand(NUMPY, value, pointer, -1, element, value.itemsize, value.shape, value.strides)
    made.is_writable = value.flags.writeable
    return made


def _of_torch(entry: str, arg: str, value: Any) -> Operand:
    name = str(value.dtype).removeprefix("torch.")
    element = next((d for d in dtypes.ALL if d.name == name), None)
    if value.device.type not in ("cuda", "cpu"):
        raise errors.must(
            entry,
            arg,
            "be on a CUDA device",
            errors.Got(f"torch {value.device}"),
            kind=errors.DeviceError,
        )
    if value.is_conj() or value.is_neg():
        raise errors.must(
            entry,
            arg,
            "have its elements in memory as they are",
            errors.Got("a lazy torch view"),
            remedy="use .clone()",
        )
    size = value.element_size()
    index = value.device.index if value.device.type == "cuda" else -1
    strides = tuple(s * size for s in value.stride())
    made = Operand(
        TORCH, value, value.data_ptr(), index, element, size, tuple(value.shape), strides
    )
    if index >= 0:
        made.stream_owner = sys.modules["torch"].cuda.current_stream(index)
        made.stream = int(made.stream_owner.cuda_stream)
    return made


def _of_interface(entry: str, arg: str, value: Any) -> Operand:
    given = cuda_array_interface.read(entry, arg, value)
    place = getattr(value, "device", None)
    index = getattr(place, "id", getattr(place, "index", None))
    if index is None:  # Numba's arrays live on the device that is current
        from .. import runtime

        index = runtime.cuda().current_device()
    try:
        index = operator.index(index)
    except TypeError:
        rule, kind = "have a device with an int for its id", errors.ArgumentTypeError
        raise errors.must(entry, arg, rule, index, kind=kind) from None
    made = Operand(
        INTERFACE, value, given.address, index, dtypes.from_numpy(given.dtype),
        given.dtype.itemsize, given.sizes, given.stride_bytes,
    )  # fmt: skip
    made.is_writable, made.stream = not given.is_readonly, given.stream
    return made


def streams_of(
    found: Mapping[int, Operand], cuda: Any, device_index: int, own: Any
) -> tuple[Any, list[Any]]:
    """The stream to launch on, and those that it waits for before and that wait for it after.

    Streams of other libraries do not synchronise with ours, nor with the legacy default stream. So
    a launch goes to a library's own stream where all its arrays are on that one, else to ours.
    """
    theirs: dict[Any, Any] = {}
    is_all_theirs = True
    for operand in found.values():
        if operand.device_index < 0:
            continue
        stream = own
        if operand.stream is not None:
            stream = cuda.external_stream(device_index, operand.stream, operand.stream_owner)
        if stream.key == own.key:
            is_all_theirs = False
        else:
            theirs.setdefault(stream.key, stream)
    others = [*theirs.values()]
    if is_all_theirs and len(others) == 1:
        return others[0], []
    return own, others


def note_write(operand: Operand) -> None:
    """Tell an array's library that a kernel wrote to it."""
    if operand.library == TENSOR:
        bump_version(operand.keep)
    elif operand.library == TORCH:
        # torch counts writes too, and checks the count in backward
        bump = getattr(sys.modules["torch"].autograd.graph, "increment_version", None)
        if bump is not None:
            bump(operand.keep)
