"""The devices on which other libraries are tested."""

from __future__ import annotations

import pytest

import gputensor as gt


@pytest.fixture(params=["cpu", "cuda"])
def place(request: pytest.FixtureRequest) -> str:
    """The type of a device. Without a GPU, CUDA is the emulator."""
    if request.param == "cuda" and not gt.cuda.is_available():
        pytest.skip("needs CUDA devices, real or emulated")
    return str(request.param)
