"""Plans that a call caches while another thread changes the rules on which they depend."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import gputensor as gt
from gputensor.dispatch import dispatcher, shortcuts
from gputensor.dispatch.operator import Table
from gputensor.library import Library

CALLS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda a: a + 0.5,
    "a number in place of nothing": lambda a: gt.where(a > 0, a, 0.5),
    "division": lambda a: a / a,
    "unary": lambda a: a.sqrt(),
    "params": lambda a: a.clamp(0.5, 2.0),
    "a factory": lambda a: gt.zeros(3),
    "memory": lambda a: gt.empty(3),
    "out": lambda a: gt.add(a, 0.5, out=gt.empty(3, dtype=gt.float64)),
}  # fmt: skip


@contextmanager
def held(at: Any, name: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Make another thread's calls of at.name wait before they run, with their arguments already
    read."""
    reached, go_on = threading.Event(), threading.Event()
    real, here = getattr(at, name), threading.get_ident()

    def waits(*args: Any) -> Any:
        if threading.get_ident() != here:
            reached.set()
            go_on.wait(60)
        return real(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at, name, waits)
        yield reached, go_on


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("door", ["plan", "short cut"])
def test_what_was_made_by_the_old_default_is_not_found_under_the_new(name: str, door: str) -> None:
    call, a = CALLS[name], gt.ones(3, dtype=gt.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shortcuts, "is_on", True)
        dispatcher.forget_plans()
        at: tuple[Any, str] = (Table, "remember") if door == "plan" else (shortcuts, "learn")
        if door == "short cut":
            call(a)  # makes the plan; the next call stores a short cut
        with held(*at) as (reached, go_on):
            thread = threading.Thread(target=lambda: [call(a) for _ in range(2)])
            thread.start()
            while thread.is_alive() and not reached.wait(0.01):
                pass
            gt.set_default_dtype(gt.float64)
            try:
                call(a)
                go_on.set()
                thread.join()
                found = [call(a).dtype for _ in range(3)]
            finally:
                go_on.set()
                gt.set_default_dtype(gt.float32)
    assert found == [gt.float64] * 3
    assert call(a).dtype is (gt.float64 if name == "out" else gt.float32)


def test_a_change_of_the_default_concerns_what_was_called(lib: Library) -> None:
    """It takes microseconds, whatever the number of operators."""
    a = gt.ones(3, dtype=gt.int64)
    lib.define("mine(Tensor x) -> Tensor")
    lib.define("other(Tensor x) -> Tensor")
    lib.impl("mine", lambda x: x / 2, "CompositeImplicitAutograd")
    names = (f"{lib.ns}::mine", f"{lib.ns}::other", "aten::div.Tensor")
    operators: list[Any] = [dispatcher.find(name) for name in names]
    assert operators[0](a).dtype is gt.float32
    before = [operator.table for operator in operators]
    try:
        gt.set_default_dtype(gt.float64)
        after = [operator.table for operator in operators]
        assert [x is y for x, y in zip(before, after)] == [False, True, False]
        assert operators[0](a).dtype is gt.float64
    finally:
        gt.set_default_dtype(gt.float32)
