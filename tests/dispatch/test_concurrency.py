"""Calls during registrations: no lock, complete tables (Note [Tables are swapped whole])."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from gputensor import dispatch
from gputensor.core import errors
from gputensor.dispatch import dispatcher, families, keys
from gputensor.dispatch.keys import KeySet
from gputensor.dispatch.operator import Operator, Table
from gputensor.library import Library

from .operands import CPU

THREADS, CALLS, CHANGES = 8, 100_000, 200


@pytest.fixture
def eager_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def hammer(operator: Operator, change: Any) -> list[str]:
    """Make 100,000 calls from 8 threads while this thread makes changes. Return the errors of the
    calls."""
    complaints: list[str] = []
    changes = 0

    def run() -> None:
        calls = 0
        try:
            while not complaints and (calls < CALLS // THREADS or changes < CHANGES):
                calls += 1
                if operator(CPU) is not CPU:
                    complaints.append("a call returned another object")
        except Exception as error:
            complaints.append(repr(error))

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        change()
        changes += 1
    for thread in threads:
        thread.join()
    return complaints


def prepare(lib: Library) -> Operator:
    """Define an operator that returns its argument in every state."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "CPU")
    return dispatch.find(f"{lib.ns}::f")


def registrations(operator: Operator, other: Library) -> Any:
    """A change: register three kernels and remove them."""

    def autograd(key_set: KeySet, x: Any) -> Any:
        return operator.redispatch(key_set.after("AutogradCPU"), x)

    def change() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.OverrideWarning)
            handles = [
                other.impl("f", lambda x: x, "CPU"),
                other.impl("f", autograd, "AutogradCPU", with_keyset=True),
                other.impl("f", lambda x: "never called", "Meta"),
            ]
        for handle in handles:
            handle.remove()

    return change


def test_calls_see_whole_tables(lib: Library, eager_switching: None) -> None:
    operator = prepare(lib)
    assert hammer(operator, registrations(operator, Library(lib.ns, "IMPL"))) == []


class TwoStepTable(Table):
    """A table that is published before its kernels are set. It shows the fault of a swap in two
    steps."""

    __slots__ = ()

    def __init__(self, operator: Operator, *rest: Any) -> None:
        super().__init__(operator, *rest)
        self.kernels = {}
        operator.table = operator.redispatch_table = self
        time.sleep(0)  # lets another thread run, as a thread switch at this place would
        self.kernels = operator.kernels


def test_the_test_fails_when_the_swap_is_in_two_steps(
    lib: Library, eager_switching: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = prepare(lib)
    with monkeypatch.context() as patch:
        patch.setattr(dispatcher, "Table", TwoStepTable)
        complaints = hammer(operator, registrations(operator, Library(lib.ns, "IMPL")))
    assert complaints and "no kernel" in complaints[0]
    dispatcher._swap(operator)


def test_definitions_come_and_go_under_calls(eager_switching: None) -> None:
    """A call of a name that is repeatedly defined and removed returns, or raises that the name is
    not defined."""
    unexpected: list[str] = []
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                assert dispatch.find("comes_and_goes::f")(CPU) is CPU
            except errors.DispatchError:
                pass
            except Exception as error:
                unexpected.append(repr(error))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        with Library("comes_and_goes", "DEF") as lib:
            lib.define("f(Tensor x) -> Tensor")
            lib.impl("f", lambda x: x, "CPU")
    stop.set()
    for thread in threads:
        thread.join()
    assert unexpected == []


def test_registrations_from_many_threads_are_all_kept(lib: Library, eager_switching: None) -> None:
    lib.define("f(Tensor x) -> Tensor")
    operator = dispatch.find(f"{lib.ns}::f")
    chosen = [key for key in keys.RUNTIME_KEYS if key.functionality in ("Dense", "Sparse")]
    threads = [
        threading.Thread(target=dispatcher.register_kernel, args=(operator, key, lambda *a: CPU))
        for key in chosen
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(operator.kernels) == set(chosen) and len(chosen) == 14
    operator.kernels = {}
    dispatcher._commit(operator)


def test_a_fork_waits_for_a_load_of_another_thread() -> None:
    loads = threading.Event()

    def load() -> None:
        with families.lock:
            loads.set()
            time.sleep(0.2)

    thread = threading.Thread(target=load)
    thread.start()
    loads.wait()
    child = os.fork()
    if not child:
        os._exit(0 if families.lock.acquire(timeout=5) else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
