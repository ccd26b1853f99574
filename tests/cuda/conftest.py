"""Fixtures of the tests of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `gputensor.cuda` on the emulator, whatever runtime this process was started with."""
    from gputensor import cuda, runtime
    from gputensor.runtime import cuda_emulator

    cuda_emulator.start()
    monkeypatch.setattr(runtime, "_chosen", cuda_emulator)
    return cuda


@pytest.fixture
def fresh_plans() -> Iterator[None]:
    """Drop all plans and short cuts, before the test and after it."""
    from gputensor.dispatch import dispatcher

    dispatcher.forget_plans()
    yield
    dispatcher.forget_plans()


@pytest.fixture
def launched_grids(monkeypatch: pytest.MonkeyPatch, fresh_plans: None) -> list[Any]:
    """Return a list to which the grid of each launch is added."""
    from gputensor import runtime

    cuda, grids = runtime.cuda(), list[Any]()
    launcher, launch_now = cuda.launcher, cuda.launch

    def noted(function: Any, grid: Any, block: Any) -> Any:
        run = launcher(function, grid, block)
        return lambda params: (grids.append(grid), run(params))

    def noted_now(function: Any, grid: Any, *rest: Any) -> None:
        grids.append(grid)
        launch_now(function, grid, *rest)

    monkeypatch.setattr(cuda, "launcher", noted)
    monkeypatch.setattr(cuda, "launch", noted_now)
    return grids
