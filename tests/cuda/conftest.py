"""Fixtures of the tests of kernels."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `gputensor.cuda` on the emulator, whatever runtime this process was started with."""
    from gputensor import cuda, runtime
    from gputensor.runtime import cuda_emulator

    cuda_emulator.start()
    monkeypatch.setattr(runtime, "_chosen", cuda_emulator)
    return cuda
