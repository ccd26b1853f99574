"""A device for tests: CPU memory under another name, one or several at once."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


class Memory:
    def __init__(self, nbytes: int) -> None:
        self.bytes = np.full(nbytes + 16, 0xA5, np.uint8)
        self.ptr = self.bytes.ctypes.data + 15 & ~15


class Stream:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def synchronize(self) -> None:
        self.log.append("synchronize")

    def record_event(self) -> object:
        self.log.append("record_event")
        return object()

    def wait_event(self, event: object) -> None:
        self.log.append("wait_event")


class Runtime:
    """A minimal runtime; `log` records its calls."""

    def __init__(self, devices: int = 2) -> None:
        self.devices, self.index = devices, 0
        self.log: list[str] = []
        self.stream = Stream(self.log)

    def device_count(self) -> int:
        return self.devices

    def current_device(self) -> int:
        return self.index

    def exchange_device(self, index: int) -> int:
        before, self.index = self.index, index
        return before

    def synchronize(self, index: int) -> None:
        self.log.append(f"synchronize {index}")

    def current_stream(self, index: int) -> Stream:
        return self.stream

    def allocate(self, nbytes: int, index: int) -> Memory:
        self.log.append(f"allocate {nbytes} on {index}")
        return Memory(nbytes)

    def copy_async(
        self, to: int, to_index: int, source: int, index: int, nbytes: int, stream: Any
    ) -> None:
        self.log.append(f"copy {nbytes} from {index} to {to_index}")
        ctypes.memmove(to, source, nbytes)


def operand(plan: Any, number: int, address: Any) -> Any:
    """Return an operand in the layout of the plan's walk; return a number unchanged."""
    strides = plan.stride_bytes[number]
    if strides is None:
        return address
    shape, dtype = plan.shape[::-1], plan.dtypes[number]
    reaches = [(n - 1) * s for n, s in zip(plan.shape, strides)]
    low = sum(r for r in reaches if r < 0)
    nbytes = sum(map(abs, reaches)) + dtype.itemsize
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address + low))
    return np.ndarray(shape, dtype.np, memory, -low, strides[::-1])


def runs(work: Any, log: list[Any] | None = None) -> Any:
    """Return a function `bind(op, plan)` whose launches call work(op, out, *inputs, *scalars)."""

    def bind(op: str, plan: Any) -> Any:
        if log is not None:
            log.append((op, plan))

        def launch(index: int, operands: tuple[Any, ...], scalars: tuple[Any, ...] = ()) -> None:
            work(op, *[operand(plan, i, a) for i, a in enumerate(operands)], *scalars)

        return launch

    return bind
