"""Short cuts of `cat` and `stack`, which join a list of tensors: see Note [Short cuts] in dispatch.
A short cut's key contains the geometries of all tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.geometry import Geometry
from ...dispatch import shortcuts
from ...dispatch.operator import Table
from ...dispatch.shortcuts import LONG, in_block
from ...dispatch.tls import BELOW, FUSING, PLAIN, state
from ...kernels.cuda.launch import straight
from ...tensor.make import CPU_KEYS, from_array, is_plain
from ...tensor.tensor import Tensor
from .computed import Around, comes_again, only_plain
from .cuda import CUDA_KEYS, allocating

_now = state.get


def learn(
    table: Table, kernel: Callable[..., Any], tensors: list[Tensor], dim: int, shape: Geometry,
    join: Callable[[list[Any]], Any],
) -> None:  # fmt: skip
    """Store the short cut of a call, once the call is repeated. shape: the geometry of the result,
    which `join(arrays)` computes."""
    if type(dim) is not int:
        return
    if not all([type(x) is Tensor and x._keys is CPU_KEYS for x in tensors]):
        return
    if not comes_again(table, kernel, (*tensors, dim)):
        return
    recorded: Around = shortcuts.recording(table, (dim,)) or (_only_plain, None)
    begin, finish = recorded

    def short(tensors: Any) -> Any:
        now, node, has_history = _now(), None, False
        for x in tensors:
            if x._keys is not CPU_KEYS:
                return None
            if x._autograd is not None:
                has_history = True
        if now is not PLAIN and now is not BELOW:
            if now is not FUSING or not in_block[0](*tensors):
                return None
        if has_history and now is not BELOW and (node := begin(tensors)) is LONG:
            return None
        arrays = [x._get_array() if x._array is None else x._array for x in tensors]
        tensor = from_array(join(arrays), shape)
        return tensor if node is None else finish(tensor, node)

    shortcuts.learn(table, kernel, (*[x._geometry for x in tensors], dim), short)


def _only_plain(tensors: Any) -> Any:
    return only_plain(*tensors)


def is_due_on_cuda(
    table: Table, kernel: Callable[..., Any], tensors: list[Tensor], dim: int, made: Tensor
) -> bool:
    """Return True if a call on CUDA is repeated and has no short cut yet."""
    if type(dim) is not int or not made._geometry.numel or not shortcuts.is_plain_thread():
        return False
    if not all([type(x) is Tensor and x._keys is CUDA_KEYS for x in tensors]):
        return False
    return comes_again(table, kernel, (*tensors, dim), made._device)


def learn_on_cuda(
    table: Table, kernel: Callable[..., Any], tensors: list[Tensor], dim: int, shape: Geometry,
    given: list[int], copies: list[tuple[int, Any]],
) -> None:  # fmt: skip
    """Store the short cut of a call that copies each tensor by one launch.

    shape: the geometry of the result. given: the positions of the copied tensors. copies: for each
    of them, the offset of its part of the result, and the launch.
    """
    if any([launch is None for _, launch in copies]):
        return
    device, size = tensors[0]._device, shape.dtype.itemsize
    steps = [
        (n, offset * size, *straight(launch, device.index or 0))
        for n, (offset, launch) in zip(given, copies)
    ]
    make = allocating(shape, device)
    recorded: Around = shortcuts.recording(table, (dim,), "cuda") or (_only_plain, None)
    begin, finish = recorded

    def short(tensors: Any) -> Any:
        now, node, has_history = _now(), None, False
        if now is not PLAIN and now is not BELOW:
            return None
        addresses = []
        for x in tensors:
            if x._keys is not CUDA_KEYS or x._device is not device:
                return None
            if x._autograd is not None and not is_plain(x):
                has_history = True
            addresses.append(x._storage._data.ptr + x._offset * x._geometry.dtype.itemsize)
        if has_history and now is not BELOW and (node := begin(tensors)) is LONG:
            return None
        tensor = make()
        start = tensor._storage._data.ptr
        for n, offset, run, pack, tail in steps:
            run(pack(start + offset, addresses[n], tail))
        return tensor if node is None else finish(tensor, node)

    shortcuts.learn(table, kernel, (*[x._geometry for x in tensors], dim), short, device)
