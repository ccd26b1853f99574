"""Guards: nesting, threads, tasks, inference mode."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gputensor import dispatch
from gputensor.dispatch import keys, tls


def test_the_state_at_the_start_is_pytorchs() -> None:
    assert dispatch.included() == keys.key_set(("BackendSelect", "ADInplaceOrView"))
    assert [
        k
        for k in ("AutocastCPU", "AutocastCUDA", "AutocastPrivateUse1")
        if k not in dispatch.excluded()
    ] == []
    assert "AutogradCPU" not in dispatch.excluded() and "CPU" not in dispatch.excluded()


def test_guards_nest_and_restore_also_when_something_raises() -> None:
    before = tls.state.get()
    with pytest.raises(ZeroDivisionError), dispatch.ExcludeDispatchKeys("AutogradCPU"):
        assert "AutogradCUDA" in dispatch.excluded()  # exclusion acts on the functionality
        with dispatch.IncludeDispatchKeys(("Conjugate", "Meta")):
            assert "Conjugate" in dispatch.included() and "AutogradCPU" in dispatch.excluded()
        assert "Conjugate" not in dispatch.included()
        1 / 0  # noqa: B018
    assert tls.state.get() == before


def test_guards_take_keys_in_any_form() -> None:
    for form in (
        "Autograd",
        keys.Autograd,
        tls.AUTOGRAD,
        ["AutogradOther", keys.key("AutogradCPU")],
    ):
        with dispatch.ExcludeDispatchKeys(form):
            assert not tls.state.get()[1] & tls.AUTOGRAD


def test_inference_mode_and_back() -> None:
    assert not dispatch.is_inference_mode()
    with dispatch.InferenceMode():
        assert dispatch.is_inference_mode()
        assert dispatch.included() == keys.key_set(("BackendSelect",))
        assert "AutogradCPU" in dispatch.excluded() and "AutogradOther" in dispatch.excluded()
        with dispatch.InferenceMode(False):
            assert not dispatch.is_inference_mode() and "AutogradCPU" not in dispatch.excluded()
        assert dispatch.is_inference_mode()


def test_guards_are_per_thread() -> None:
    seen: list[bool] = []
    with dispatch.InferenceMode():
        thread = threading.Thread(target=lambda: seen.append(dispatch.is_inference_mode()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_guards_are_per_task() -> None:
    async def guarded(step: asyncio.Event, done: asyncio.Event) -> None:
        with dispatch.InferenceMode():
            step.set()
            await done.wait()
            assert dispatch.is_inference_mode()

    async def main() -> bool:
        step, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(guarded(step, done))
        await step.wait()
        seen = dispatch.is_inference_mode()
        done.set()
        await task
        return seen

    assert asyncio.run(main()) is False
