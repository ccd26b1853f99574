"""The device's kernels. They receive the coalesced plan of a call and never a tensor.

`bind(op, plan)` is called once per layout. It returns the function that runs a call:
callable(device index, addresses with outputs first, scalars). Strides are arbitrary, because
operands are not made contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gputensor.kernels.cpu.copy import copy as cast_and_copy

from . import runtime


def operand(plan: Any, number: int, address: int, device_index: int) -> np.ndarray:
    """Return one operand as an array over the device's memory. The array's shape is the plan's
    shape in reverse order, because dimension 0 of a plan is the fastest."""
    dtype, strides = plan.dtypes[number], plan.stride_bytes[number]
    reaches = [(n - 1) * s for n, s in zip(plan.shape, strides)]
    low = sum(r for r in reaches if r < 0)
    nbytes = sum(map(abs, reaches)) + dtype.itemsize
    memory = runtime.reach(address + low, nbytes, device_index)
    return np.ndarray(plan.shape[::-1], dtype.np, memory, -low, strides[::-1])


def elements(x: Any, device_index: int) -> np.ndarray:
    """Return a tensor's elements in the device's memory, for a kernel that has no plan."""
    strides = [stride * x.itemsize for stride in x.stride()]
    if not x.numel():
        return np.empty(tuple(x.shape), x.dtype.np)
    nbytes = sum((n - 1) * s for n, s in zip(x.shape, strides)) + x.itemsize
    memory = runtime.reach(x.data_ptr(), nbytes, device_index)
    return np.ndarray(tuple(x.shape), x.dtype.np, memory, 0, strides)


def _launcher(plan: Any, work: Callable[[np.ndarray, np.ndarray], Any]) -> Callable[..., None]:
    def launch(device_index: int, operands: tuple[int, ...], scalars: tuple[Any, ...] = ()) -> None:
        out, x = (operand(plan, i, address, device_index) for i, address in enumerate(operands))
        runtime.current_stream(device_index).submit(lambda: work(out, x))

    return launch


def bind_copy(op: str, plan: Any) -> Callable[..., None]:
    """Return a kernel that copies between any layouts and dtypes. The simulated hardware rounds
    like gputensor's CPU loops."""
    return _launcher(plan, cast_and_copy)


def bind_unary(op: str, plan: Any) -> Callable[..., None]:
    """Return the kernel of `abs`, the only operator of this family that is registered."""
    return _launcher(plan, lambda out, x: np.absolute(x, out=out))
