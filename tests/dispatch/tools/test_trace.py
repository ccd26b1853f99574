"""The trace: PyTorch's lines at level 1, the reasons at level 2."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from gputensor import dispatch
from gputensor.dispatch import dispatcher
from gputensor.dispatch.keys import KeySet
from gputensor.dispatch.operator import Operator
from gputensor.library import Library

from ..operands import CPU, kernel


def make(lib: Library) -> Operator:
    lib.define("f(Tensor x, Tensor[] ys) -> Tensor")
    operator = dispatch.find(f"{lib.ns}::f")

    def autograd(key_set: KeySet, x: Any, ys: Any) -> Any:
        return operator.redispatch(key_set.after("AutogradCPU"), x, ys)

    lib.impl("f", autograd, "AutogradCPU", with_keyset=True)
    lib.impl("f", kernel("cpu"), "CPU")
    return operator


def test_hops_are_indented_by_depth(lib: Library) -> None:
    operator = make(lib)
    with dispatch.trace() as lines:
        operator(CPU, [])
    assert lines == [
        f"[call] op=[{lib.ns}::f], key=[AutogradCPU]",
        f" [redispatch] op=[{lib.ns}::f], key=[CPU]",
    ]
    operator(CPU, [])
    assert len(lines) == 2


def test_level_2_says_why(lib: Library) -> None:
    operator = make(lib)
    with dispatch.trace(2) as lines:
        operator(CPU, [CPU])
    text = "\n".join(lines)
    assert "  x: {AutocastCPU, AutogradCPU, ADInplaceOrView, CPU}" in lines and "  ys[0]: {" in text
    assert "set: {AutogradCPU, ADInplaceOrView, BackendSelect, CPU}" in text
    assert "thread: include {ADInplaceOrView, BackendSelect}, exclude {AutocastPrivateUse1" in text
    assert "test_trace.py" in text and "[kernel]" in text


def test_traces_nest_and_end_in_any_order(lib: Library) -> None:
    operator = make(lib)
    outer, inner, written = dispatch.trace(), dispatch.trace(), []
    first = outer.__enter__()
    second = inner.__enter__()
    operator(CPU, [])
    outer.__exit__()
    operator(CPU, [])
    inner.__exit__()
    operator(CPU, [])
    assert (len(first), len(second)) == (2, 4)
    with dispatch.trace(write=written.append) as lines:
        operator(CPU, [])
    assert written == lines


def test_nothing_stays_wrapped(lib: Library) -> None:
    operator = make(lib)
    with dispatch.trace():
        assert operator.redispatch_table is not operator.table
    assert operator.redispatch_table is operator.table
    assert dispatcher._wraps == ()


def test_a_trace_sees_all_threads_each_with_its_depth(lib: Library) -> None:
    operator = make(lib)
    with dispatch.trace() as lines:
        thread = threading.Thread(target=operator, args=(CPU, []))
        thread.start()
        thread.join()
    assert len(lines) == 2 and lines[0].startswith("[call]")


def test_the_environment_starts_a_trace(
    lib: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gputensor.dispatch.tracing import _set_traces, start_from_environment

    operator = make(lib)
    monkeypatch.setenv("GPUTENSOR_SHOW_DISPATCH_TRACE", "1")
    start_from_environment()
    operator(CPU, [])
    _set_traces(lambda on: ())
    assert capsys.readouterr().err.startswith(
        f"[call] op=[{lib.ns}::f], key=[AutogradCPU]\n [redispatch]"
    )
