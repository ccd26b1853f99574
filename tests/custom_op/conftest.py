"""A namespace for each test, and every kind of device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import gputensor as gt
from gputensor.custom import custom_op

from ..backend.devices import Runtime


@pytest.fixture(autouse=True)
def _nothing_remains() -> Iterator[None]:
    """Operators that a test defines are removed after it."""
    before = set(custom_op._definitions)
    yield
    for name in set(custom_op._definitions) - before:
        custom_op._definitions[name]._destroy()
    gt.dispatch.check_invariants()


@pytest.fixture(params=["cpu", "cuda", "acme"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """The type of a device: the host, CUDA, and a registered device."""
    if request.param == "cuda" and not gt.cuda.is_available():
        pytest.skip(str(gt.cuda.unavailable_reason()))
    if request.param != "acme":
        yield request.param
        return
    with gt.backend.register("acme", "PrivateUse2", runtime=Runtime()):
        yield "acme"
