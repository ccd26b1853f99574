"""Failures in public functions raise a clear error or the original one, and keep no references."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.library import Library
from gputensor.runtime import current

pytestmark = pytest.mark.filterwarnings("ignore::gputensor.core.errors.OverrideWarning")

FAILURES: dict[str, Callable[[Any], Any]] = {
    "a wrong operand": lambda x: gt.add(x, "x"),
    "sizes": lambda x: x + gt.ones(3),
    "a wrong dim": lambda x: x.sum(dim="k"),
    "a wrong view": lambda x: x.view(7),
    "no device": lambda x: x.to("nowhere"),
    "a bad index": lambda x: x["x"],
    "an out": lambda x: gt.add(x, x, out=7),
    "a function that is no operator": lambda x: gt.autograd.grad(x, "x"),
    "a backward": lambda x: x.backward(),
}


@pytest.fixture
def aten() -> Iterator[Library]:
    lib = Library("aten", "IMPL")
    yield lib
    lib._destroy()


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_that_was_handled_keeps_no_tensor(name: str) -> None:
    gc.collect()
    gc.disable()
    try:
        x = gt.ones(10)
        kept = weakref.ref(x)
        with pytest.raises(gt.GpuTensorError):
            FAILURES[name](x)
        del x
        assert kept() is None
    finally:
        gc.enable()


def test_a_failure_on_another_stack_keeps_no_tensor() -> None:
    def fail(x: Any) -> Any:
        raise ValueError(x)

    gc.collect()
    gc.disable()
    try:
        x = gt.ones(2)
        kept = weakref.ref(x)
        with pytest.raises(ValueError):
            current.on_a_new_thread(fail, x)
        del x
        assert kept() is None
    finally:
        gc.enable()


class PoolError(MemoryError):
    """An exception such as a user's allocator may raise."""


def _exhausted(*_: Any) -> Any:
    raise PoolError("my pool")


def test_memory_errors_of_users_stay_theirs(aten: Library) -> None:
    aten.impl("exp", _exhausted, "CPU")
    x = gt.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(_exhausted)
    for call in (
        lambda: gt.exp(gt.ones(2)),
        lambda: gt.ops.aten.exp(self=gt.ones(2)),
        y.sum().backward,
    ):
        with pytest.raises(PoolError, match="^my pool$"):
            call()


def test_a_value_error_of_a_user_is_not_blamed_on_read_only_memory(aten: Library) -> None:
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    x = gt.from_numpy(array)
    aten.impl("exp_", lambda x: json.loads("{"), "CPU")
    for call in (lambda: x.exp_(), lambda: gt.ops.aten.exp_(self=x)):
        with pytest.raises(json.JSONDecodeError):
            call()
    with pytest.raises(gt.GpuTensorError, match="must be writable"):
        x.neg_()
