"""Fixtures for tests of the available CUDA devices: the emulator in the test suite, a GPU in
gpu_check.

They use only the public interface, with sizes at which a GPU's streams really overlap.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.kernels.cuda import module

from ..cuda.support import fresh_emulator


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise `order`: each order in which the emulator can run its streams; a GPU has one
    order."""
    if "order" in metafunc.fixturenames:
        is_emulated = gt.cuda.is_available() and gt.cuda.is_emulated()
        orders = ("eager", "lazy", "random") if is_emulated else ("its own",)
        metafunc.parametrize("order", orders, indirect=True)


@pytest.fixture
def order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "its own":
        yield request.param
        return
    made = fresh_emulator(monkeypatch, order=request.param, devices=2)
    monkeypatch.setattr(runtime, "_chosen", made)
    module.clear()
    yield request.param
    module.clear()


@pytest.fixture(autouse=True)
def _device() -> None:
    if not gt.cuda.is_available():
        why = f"no CUDA device: {runtime.cuda().unavailable_reason()}"
        if os.environ.get("GPUTENSOR_REQUIRE_CUDA") == "1":
            pytest.fail(why)
        pytest.skip(why)


@pytest.fixture
def elements() -> int:
    """Return the number of elements of an array that keeps a GPU busy during the next call; few on
    the emulator, where the CPU computes them."""
    return 1 << 10 if gt.cuda.is_emulated() else 1 << 22
