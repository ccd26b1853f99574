"""A family that loads after a device was registered is available on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.dispatch import dispatcher, keys
from gputensor.dispatch.operator import Operator
from gputensor.kernels import stub
from gputensor.makers import further
from tests.backend.devices import Runtime

KEY = keys.key("PrivateUse1")


@pytest.fixture
def late() -> Iterator[tuple[Operator, Any]]:
    operator = dispatcher.define("late::abs(Tensor x) -> Tensor")
    entry = (operator, "abs", lambda key_set, x: x, "late.py:1")
    yield operator, entry
    for entries in further.entries.values():
        entries[:] = [other for other in entries if other is not entry]
    dispatcher.undefine(operator)


def test_what_a_stub_brings_comes_with_its_family(late: Any) -> None:
    operator, entry = late
    with gt.backend.register("pretended", runtime=Runtime()) as device:
        others = device.register_stub("unary", lambda op, plan: stub.nothing, "exp")
        further.offer("gputensor.native.unary", entry)
        assert KEY not in operator.kernels  # the stub is for another operator
        handle = device.register_stub("unary", lambda op, plan: stub.nothing, "abs")
        assert operator.kernels[KEY][0].site == "late.py:1"
        handle.remove()
        assert KEY not in operator.kernels
        others.remove()
        whole = device.register_stub("unary", lambda op, plan: stub.nothing)
        further.entries["unary"].remove(entry)
        whole.remove()
        whole = device.register_stub("unary", lambda op, plan: stub.nothing)
        further.offer("gputensor.native.unary", entry)
        assert operator.kernels[KEY][0].function is entry[2]
        whole.remove()
        assert KEY not in operator.kernels
    assert not further.listeners


def test_what_needs_no_kernel_comes_by_itself_and_goes_with_the_device(late: Any) -> None:
    operator, entry = late
    with gt.backend.register("pretended", runtime=Runtime()):
        further.offer("gputensor.native.view", entry)
        assert operator.kernels[KEY][0].function is entry[2]
    assert KEY not in operator.kernels
