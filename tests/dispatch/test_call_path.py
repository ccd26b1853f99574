"""The path of a call through the operators, as `dispatch/dispatcher.py` lists it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gputensor as gt
from gputensor import dispatch
from gputensor.core import errors
from gputensor.library import Library


def hops(lines: list[str]) -> list[str]:
    return [
        line.replace("op=[aten::", "").replace("]", "").replace(", key=[", " ") for line in lines
    ]


def test_an_operator_with_tensors_goes_to_its_backend() -> None:
    a, b = gt.ones(2), gt.ones(2)
    for run in (lambda: a + b, lambda: gt.add(a, b), lambda: a.add(b)):
        with dispatch.trace() as lines:
            run()
        assert hops(lines) == ["[call add.Tensor AutogradCPU", " [redispatch add.Tensor CPU"]


def test_recording_changes_nothing_of_the_way() -> None:
    a = gt.ones(2, requires_grad=True)
    with dispatch.trace() as lines:
        made = a + a
    assert hops(lines) == ["[call add.Tensor AutogradCPU", " [redispatch add.Tensor CPU"]
    assert type(made.grad_fn).__name__ == "AddBackward0"
    with gt.inference_mode(), dispatch.trace() as lines:
        gt.ones(2) + gt.ones(2)
    assert hops(lines)[-1] == "[call add.Tensor CPU"


def test_a_view_passes_ad_inplace_or_view() -> None:
    a = gt.ones(2, 3)
    with dispatch.trace() as lines:
        view = a.view(6)
    assert hops(lines) == [
        "[call view AutogradCPU", " [redispatch view ADInplaceOrView", "  [redispatch view CPU",
    ]  # fmt: skip
    assert view._base is a


def test_the_seed_clone_calls_below_autograd() -> None:
    a = gt.ones(2, requires_grad=True)
    with dispatch.trace() as lines:
        a.clone()
    assert hops(lines) == [
        "[call clone AutogradCPU", " [redispatch clone CPU", "  [call empty_like CPU",
        "   [call empty.memory_format BackendSelect", "    [redispatch empty.memory_format CPU",
        "  [redispatch copy_ CPU",
    ]  # fmt: skip


def test_an_operator_without_derivative_has_no_kernel_at_autograd() -> None:
    a = gt.ones(2)
    with dispatch.trace() as lines:
        gt.eq(a, a)
    assert hops(lines) == ["[call eq.Tensor CPU"]


def test_a_factory_passes_backend_select() -> None:
    with dispatch.trace() as lines:
        gt.empty(2)
    assert hops(lines) == [
        "[call empty.memory_format BackendSelect",
        " [redispatch empty.memory_format CPU",
    ]


def test_what_writes_passes_ad_inplace_or_view_and_moves_the_version() -> None:
    a = gt.ones(2)
    version = a._version
    with dispatch.trace() as lines:
        a.add_(a)
    assert hops(lines) == [
        "[call add_.Tensor AutogradCPU", " [redispatch add_.Tensor ADInplaceOrView",
        "  [redispatch add_.Tensor CPU",
    ]  # fmt: skip
    assert a._version == version + 1


def test_a_composite_calls_what_it_is_made_of() -> None:
    with dispatch.trace() as lines:
        gt.ones(2, 3).reshape(6)
    assert "[call reshape CPU" in hops(lines) or "[call reshape AutogradCPU" in hops(lines)


def test_32_a_shipped_operator_is_overridden_while_the_library_lives() -> None:
    a = gt.ones(3)
    with Library("aten", "IMPL") as lib:
        with pytest.warns(errors.OverrideWarning, match="aten::sum.*_generated/reduce.py"):
            lib.impl("sum", lambda self, *, dtype: self, "CPU")
        assert a.sum() is a
    assert a.sum().item() == 3.0


@pytest.mark.full
def test_19_a_fresh_process_has_no_dangling_kernels() -> None:
    code = """
import gputensor as gt
assert gt.dispatch.dangling_impls() == []
gt.dispatch.check_invariants()
lib = gt.library.Library("extension", "IMPL")
lib.impl("f", lambda x: x, "CPU")
assert gt.dispatch.dangling_impls() == ["extension::f"]
print(gt.dispatch.dump("extension::f"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "CPU: registered at <string>:6" in done.stdout


def test_numbers_stay_numbers_in_shipped_operators_only() -> None:
    a = gt.ones(2)
    assert (gt.ops.aten.add.Tensor(a, 1) == 2).all()
    with Library("callpath", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor", lambda x: x)
        assert gt.ops.callpath.f(a) is a
        with pytest.raises(TypeError, match="'x' must be Tensor"):
            gt.ops.callpath.f(1)
