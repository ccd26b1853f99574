"""no_grad, enable_grad, set_grad_enabled, inference_mode: blocks, decorators, threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

import gputensor as gt
from gputensor.autograd import modes
from gputensor.dispatch import tls


def records() -> bool:
    return (gt.ones(1, requires_grad=True) * 2).requires_grad


def test_blocks_nest() -> None:
    assert records() and gt.is_grad_enabled()
    with gt.no_grad():
        assert not records() and not gt.is_grad_enabled()
        with gt.enable_grad():
            assert records()
        with pytest.raises(ZeroDivisionError), gt.enable_grad():
            1 / 0  # noqa: B018
        assert not records()
    assert records() and not modes.unrecorded


def test_decorators() -> None:
    @gt.no_grad()
    def with_parentheses() -> bool:
        """Told."""
        return records()

    @gt.no_grad
    def without() -> bool:
        return records()

    @gt.enable_grad()
    def enabled() -> bool:
        return records()

    @gt.inference_mode
    def inference() -> bool:
        return gt.is_inference_mode_enabled()

    assert with_parentheses.__doc__ == "Told."
    assert not with_parentheses() and not without() and inference() and records()
    with gt.no_grad():
        assert enabled()


def test_a_decorated_function_may_call_itself() -> None:
    @gt.no_grad()
    def down(n: int) -> bool:
        return records() if n == 0 else down(n - 1)

    assert not down(3) and records()


def test_set_grad_enabled_works_at_once_and_as_a_block() -> None:
    gt.set_grad_enabled(False)
    assert not records()
    gt.set_grad_enabled(True)
    assert records()
    with gt.set_grad_enabled(False):
        assert not records()
    assert records()

    @gt.set_grad_enabled(False)
    def function() -> bool:
        return records()

    assert records() and not function()


def test_modes_are_of_the_thread_and_of_the_task() -> None:
    seen = []
    with gt.no_grad():
        thread = threading.Thread(target=lambda: seen.append(records()))
        thread.start()
        thread.join()
    assert seen == [True]

    async def off(ready: asyncio.Event, done: asyncio.Event) -> None:
        with gt.no_grad():
            ready.set()
            await done.wait()

    async def main() -> bool:
        ready, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(off(ready, done))
        await ready.wait()
        found = records()
        done.set()
        await task
        return found

    assert asyncio.run(main())


def test_no_grad_does_not_touch_the_key_sets() -> None:
    before = tls.state.get()
    with gt.no_grad():
        assert tls.state.get() == before


# --- inference mode -------------------------------------------------------------------------------


def test_tensors_made_in_inference_mode() -> None:
    outside = gt.ones(3)
    with gt.inference_mode():
        made = [
            gt.ones(3),
            gt.ones(3) + 1,
            gt.empty_like(outside),
            outside * 2,
            gt.from_numpy(outside.numpy().copy()),
        ]
        made += [
            gt.cat([outside, outside]),
            outside.clone(),
            gt.arange(3),
            outside.double(),
            outside.sum(),
        ]
        assert all([x.is_inference() for x in made])
        assert not outside.is_inference() and not outside.view(3).is_inference()
        made[0].add_(1)
        with gt.inference_mode(False):
            assert not gt.ones(1).is_inference() and records()
    assert not gt.ones(1).is_inference() and not tls.inference_blocks
    assert made[0].view(3).is_inference() and not made[0].clone().is_inference()


def test_inference_tensors_outside() -> None:
    w = gt.ones(3, requires_grad=True)
    with gt.inference_mode():
        x = gt.ones(3)
    for forbidden, says in (
        (lambda: x.add_(1), "Inplace update to inference tensor"),
        (lambda: x * w, "cannot be saved for backward"),
        (lambda: x.requires_grad_(), "Setting requires_grad=True on inference tensor"),
        (lambda: x._version, "do not track version"),
    ):
        with pytest.raises(RuntimeError, match=says):
            forbidden()
    (x + w).sum().backward()
    assert w.grad.tolist() == [1, 1, 1]
    (x.clone() * w).sum().backward()


def test_views_made_in_inference_mode_of_a_normal_tensor() -> None:
    x = gt.ones(3)
    with gt.inference_mode():
        v = x.view(3)
        version = x._version
        x.add_(1)
    assert x._version == version + 1
    with pytest.raises(RuntimeError, match="created in inference mode"):
        v.mul_(gt.ones(3, requires_grad=True))
