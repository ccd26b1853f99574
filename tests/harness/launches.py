"""Launches of kernels on the emulator, seen by tests that count them."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.runtime.cuda_emulator import kernels as emulator

on_emulator = pytest.mark.skipif(
    not (gt.cuda.is_available() and gt.cuda.is_emulated()), reason="counts the emulator's launches"
)


@pytest.fixture(name="launched")
def launched_kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the kernels that the emulator launches."""
    found: list[str] = []
    check = emulator._check_launch

    def noted(function: Any, *rest: Any) -> None:
        found.append(function.loaded.name)
        check(function, *rest)

    monkeypatch.setattr(emulator, "_check_launch", noted)
    return found
