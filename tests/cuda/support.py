"""Shared code of tests of runtimes: a new emulator and small calls on it."""

from __future__ import annotations

import importlib.util
import os
import struct
import sys
from types import ModuleType

import numpy as np
import pytest

from gputensor.dispatch import dispatcher
from gputensor.layout import copying
from gputensor.runtime.emulator import toolchain

_REQUIRED = os.environ.get("GPUTENSOR_REQUIRE_EMULATOR") == "1"
_REASON = toolchain.unavailable_reason()

# Skips with the reason; GPUTENSOR_REQUIRE_EMULATOR=1 lets the test run and fail instead.
requires_emulator = pytest.mark.skipif(
    _REASON is not None and not _REQUIRED, reason=_REASON or "the emulator is there"
)


class _Forgetting(dict):
    """Setting or restoring an attribute drops all objects that were bound to the previous
    runtime."""

    def __setitem__(self, name: str, value: object) -> None:
        super().__setitem__(name, value)
        self._forget()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._forget()

    def _forget(self) -> None:
        dispatcher.forget_plans()
        copying.launches.clear()


_fresh = _Forgetting()


def fresh_module(name: str) -> ModuleType:
    """Return a second copy of a module or package of the runtime, with its own state."""

    def own() -> list[str]:
        return [key for key in sys.modules if key == name or key.startswith(f"{name}.")]

    parent, _, short = name.rpartition(".")
    package = vars(importlib.import_module(parent))
    kept, shown = {key: sys.modules.pop(key) for key in own()}, package.get(short)
    try:
        return importlib.import_module(name)
    finally:
        for key in own():
            del sys.modules[key]
        sys.modules.update(kept)
        # The import has made the copy an attribute of its package.
        del package[short]
        if shown is not None:
            package[short] = shown


def fresh_emulator(
    monkeypatch: pytest.MonkeyPatch, *, order: str = "eager", devices: int = 1, **settings: object
) -> ModuleType:
    """Return a second copy of the emulator module, with its own devices and streams."""
    monkeypatch.setenv("GPUTENSOR_EMULATOR_ORDER", order)
    monkeypatch.setenv("GPUTENSOR_EMULATOR_DEVICES", str(devices))
    for name, value in settings.items():
        monkeypatch.setenv(f"GPUTENSOR_EMULATOR_{name.upper()}", str(value))
    module = fresh_module("gputensor.runtime.cuda_emulator")
    module.start()
    monkeypatch.setitem(_fresh, "emulator", module)
    return module


class Device:
    """One device of an emulator: arrays to it and from it, and launches with packed parameters."""

    def __init__(self, runtime: ModuleType, index: int = 0) -> None:
        self.runtime = runtime
        self.index = index

    @property
    def stream(self):
        return self.runtime.current_stream(self.index)

    def put(self, array: np.ndarray):
        memory = self.runtime.allocate(array.nbytes, self.index)
        self.runtime.copy_async(
            memory.ptr, self.index, array.ctypes.data, -1, array.nbytes, self.stream
        )
        return memory

    def get(self, memory, dtype=np.float32, stream=None) -> np.ndarray:
        array = np.empty(memory.nbytes // np.dtype(dtype).itemsize, dtype)
        stream = stream or self.stream
        self.runtime.copy_async(array.ctypes.data, -1, memory.ptr, self.index, array.nbytes, stream)
        stream.synchronize()
        return array

    def kernel(self, text: str, entry: str, **defines: object):
        image = self.runtime.compile(text, [defines], self.runtime.arch(self.index))
        return self.runtime.load(image, entry, self.index)

    def launch(self, kernel, grid: int, block, layout: str, *values, shared=0, stream=None) -> None:
        block = block if isinstance(block, tuple) else (block, 1, 1)
        params = pack(layout, *values)
        stream = stream or self.stream
        self.runtime.launch(kernel, (grid, 1, 1), block, shared, stream, params)


def pack(layout: str, *values) -> bytes:
    """Return the bytes of a C struct, padded at the end to its alignment. A memory is replaced by
    its address."""
    numbers = [getattr(value, "ptr", value) for value in values]
    alignment = max(struct.calcsize(c) for c in layout if c.isalpha())
    data = struct.pack(layout, *numbers)
    return data + bytes(-len(data) % alignment)
